"""Exchanges gradients among ranks while others are still being computed, in batches that are measured and planned."""
from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional

from hocket._native import ffi, lib
from hocket.arrays import resolve
from hocket.errors import Error, invalid, text_of
from hocket.interruptible import interruptible, start_thread
from hocket.operators import Operator, op_number
from hocket.options import fill
from hocket.overlap.planner import method_number, ranges_of
from hocket.overlap.profiles import Profile, name_of
from hocket.state import NULL, State, get_ident

_keys = itertools.count()
Layers = Sequence[tuple[Optional[str], Sequence[Any]]]


class Stats(NamedTuple):
    """The plan and the performance of an exchange. Times are seconds, medians of the iterations that ran this plan, at
    most the last 100. Until the first plan they are 0; during a new measurement they are those of the previous plan.

    iterations          since it was opened
    plans               how many were made; batches: those of the current plan
    predicted_seconds   of an iteration, from the end of one to the end of the next; measured_seconds: the same, as measured
    computation         the part of that spent on layers, and between iterations
    communication       while batches were in flight; overlap: while both happened
    """

    iterations: int
    plans: int
    batches: int
    predicted_seconds: float
    measured_seconds: float
    computation: float
    communication: float
    overlap: float


class Opened:
    """An hkt_overlap, and the objects it uses. The communicator's state refers to it, and closes it if it is still
    open."""

    __slots__ = ("handle", "kept", "is_under_way")

    def __init__(self, handle: Any, kept: Any) -> None:
        self.handle, self.kept = handle, kept
        self.is_under_way = False  # an iteration has begun: batches may be in flight

    def close(self) -> None:
        handle, self.handle = self.handle, NULL
        lib.hkt_overlap_close(handle)


class Exchange:
    """Made by Communicator.overlap(). An iteration is

        for layer in range(layers): exchange.forward(layer); ... its forward pass ...
        exchange.begin_backward()
        for layer in reversed(range(layers)): ... its gradients ...; exchange.backward(layer)
        exchange.finish()                                       # all gradients are combined

    on all ranks alike; other collectives of the communicator are started by the same thread. A call that is refused
    (InvalidArgumentError) changes nothing. After another error, such as a rank that is lost, the exchange can only be
    closed. Threads take turns: a call waits for another thread's call.
    """

    def __init__(self, state: State, layers: Layers, op: str | Operator, options: dict[str, Any]) -> None:
        """Use Communicator.overlap()."""
        self._state, self._key = state, next(_keys)
        self._lock = threading.RLock()  # reentrant: a signal handler gets it too, and then sees that the thread is in a call
        self._is_in_call = False
        made = ffi.new("hkt_overlap**")
        try:
            self._layers, arguments, kept = _given(layers, op, options)
        except Exception:
            with contextlib.suppress(Error):  # otherwise the other ranks would wait for this one
                state.call(lib.hkt_overlap_with_ranks, NULL, 0, NULL, NULL, 0, NULL, made)
            raise
        state.call(lib.hkt_overlap_with_ranks, *arguments, made)
        state.exchanges[self._key] = Opened(made[0], kept)

    # ---- An iteration --------------------------------------------------------------------------------------------

    def forward(self, layer: int) -> None:
        """Begins the forward pass of this layer, from 0 on. Among ranks this never waits."""
        self._call(lib.hkt_overlap_forward, layer)

    def begin_backward(self) -> None:
        """Begins the backward pass."""
        opened = self._state.exchanges.get(self._key)
        if opened is not None:
            opened.is_under_way = True
        self._call(lib.hkt_overlap_begin_backward)

    def backward(self, layer: int) -> None:
        """Reports that the gradients of this layer are ready, and of all layers after it: each layer once, from the
        last one to 0. From now on only Hocket may touch them, until finish() has returned. A batch that they complete
        begins to move. Never waits."""
        self._call(lib.hkt_overlap_backward, layer)

    def finish(self) -> None:
        """Ends the iteration: returns when all gradients are combined, on all ranks. At intervals all ranks combine
        their measurements, and use the same new plan from then on. Ctrl-C ends the wait; call finish() again then,
        unless stats.iterations shows that the iteration had just ended."""
        self._call(lib.hkt_overlap_finish)
        opened = self._state.exchanges.get(self._key)
        if opened is not None:
            opened.is_under_way = False

    # ---- Results -------------------------------------------------------------------------------------------------

    @property
    def stats(self) -> Stats:
        """The current plan and its performance."""
        found = ffi.new("hkt_overlap_run_stats*")
        self._call(lib.hkt_overlap_get_stats, found, ffi.sizeof("hkt_overlap_run_stats"))
        return Stats(*(getattr(found, name) for name in Stats._fields))

    @property
    def batches(self) -> list[range]:
        """The layers of each batch of the current plan, from 0, in the model's order. The last batch is the first to
        move."""
        ends, count = ffi.new("size_t[]", self._layers), ffi.new("size_t*")
        self._call(lib.hkt_overlap_batches, ends, count)
        return ranges_of(ends[0:count[0]])

    @property
    def profile(self) -> Profile:
        """The profile of the last plan, to be saved for a later run, and for the tool hocket-overlap. The same on all
        ranks. Raises InvalidArgumentError if nothing has been measured yet."""
        texts: list[str] = []

        def ask(handle: Any) -> int:
            text = ffi.new("const char**")
            status = lib.hkt_overlap_profile(handle, text)
            texts.append(text_of(text[0]))  # the next call may change it
            return status

        self._call(ask)
        return Profile.from_json(texts[0])

    # ---- Its end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Releases the arrays. During an iteration all ranks must close it after the same layer; it waits until the
        operations of this rank have ended, for at most an operation's timeout. An exchange that is dropped, or whose
        `with` block is left by an exception, is closed as well, without waiting. A second close() does nothing."""
        if self._has_to_wait():
            self._alone(interruptible, self._end)
        else:
            self._alone(self._end)

    def _has_to_wait(self) -> bool:
        opened = self._state.exchanges.get(self._key)
        return opened is not None and opened.is_under_way and self._state.is_own()

    def _end(self) -> None:
        state, thread = self._state, get_ident()
        state.inside.append(thread)  # prevents the communicator's destruction meanwhile
        try:
            opened = state.exchanges.pop(self._key, None) if state.handle else None  # otherwise the state closes it
            if opened is not None:
                opened.close()
        finally:
            state.inside.remove(thread)  # before the arrays are released: the communicator may be destroyed with them

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()
        else:
            self._leave()

    def _leave(self) -> None:
        """Closes the exchange without making this thread wait."""
        if not self._has_to_wait():
            self._end()
            return
        with contextlib.suppress(RuntimeError):  # no thread can be started: then its communicator closes it
            start_thread(self._end)

    def __del__(self) -> None:
        try:
            self._leave()
        except Exception:  # it was never opened, or the interpreter ends
            pass

    def __repr__(self) -> str:
        is_open = self._state.handle and self._key in self._state.exchanges
        return f"<hocket.overlap.Exchange: {f'{self._layers} layers' if is_open else 'closed'}>"

    # ---- inside --------------------------------------------------------------------------------------------------

    def _call(self, function: Callable[..., int], *arguments: Any) -> None:
        self._alone(self._ask, function, *arguments)

    def _alone(self, function: Callable[..., None], *arguments: Any) -> None:
        with self._lock:
            if self._is_in_call:
                raise invalid("a handler of a signal cannot use an exchange beside a call of its own thread: do it later")
            try:
                self._is_in_call = True
                function(*arguments)
            finally:
                self._is_in_call = False

    def _ask(self, function: Callable[..., int], *arguments: Any) -> None:
        opened = self._state.exchanges.get(self._key)
        if opened is None and self._state.handle:
            raise invalid("the exchange is closed")
        self._state.call(function, *arguments, of=NULL if opened is None else opened.handle)


def _given(layers: Layers, op: str | Operator, options: dict[str, Any]) -> tuple[int, tuple[Any, ...], Any]:
    """Returns the number of layers, the arguments of hkt_overlap_with_ranks, and the objects that must live during the
    call, or as long as the exchange is open."""
    resolved, described = [], []
    for i, layer in enumerate(layers):
        name, arrays = _layer(i, layer)
        described.append((NULL if name is None else ffi.new("char[]", name_of(f"layers[{i}]: the name", name).encode()), len(arrays)))
        resolved += [resolve(array, f"layers[{i}]: array {j}", True) for j, array in enumerate(arrays)]
    tensors = ffi.new("hkt_params_tensor[]", [{"name": NULL, "count": count, "type": number} for _, count, number, _ in resolved])
    gradients = ffi.new("void*[]", [ffi.cast("void*", address) for address, _, _, _ in resolved])
    struct, texts = _options(op, options)
    arguments = tensors, len(resolved), gradients, ffi.new("hkt_overlap_layer[]", described), len(described), struct
    return len(described), arguments, ([one[3] for one in resolved], op, described, texts)


def _layer(index: int, layer: Any) -> tuple[str | None, Sequence[Any]]:
    is_pair = isinstance(layer, (list, tuple)) and len(layer) == 2
    if not is_pair or not isinstance(layer[1], (list, tuple)):
        raise invalid(f"layers[{index}] is {layer!r:.80}; it must be a pair of a name, or None, and a list of arrays: (\"conv1\", [weights, biases])")
    return layer


def _options(op: str | Operator, options: dict[str, Any]) -> tuple[Any, Any]:
    """Returns hkt_overlap_run_options, and the objects it refers to."""
    given = dict(options, method=method_number(options["method"]))
    if given["profile"] is not None:
        if not isinstance(given["profile"], Profile):
            raise invalid(f"profile is {given['profile']!r:.80}; it must be a hocket.overlap.Profile")
        given["profile"] = given["profile"].to_json()
    struct = ffi.new("hkt_overlap_run_options*")
    lib.init_hkt_overlap_run_options(struct)
    kept = fill(struct, given)
    struct.op = op_number(op)
    return struct, kept
