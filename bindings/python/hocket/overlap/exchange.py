"""Gradients that are exchanged among ranks while others are still computed, in batches that are measured and planned."""
from __future__ import annotations

import _thread
import contextlib
import itertools
import threading
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional

from hocket._native import ffi, lib
from hocket.arrays import resolve
from hocket.errors import Error, invalid, text_of
from hocket.interruptible import interruptible
from hocket.operators import Operator, op_number
from hocket.options import fill
from hocket.overlap.planner import method_number, ranges_of
from hocket.overlap.profiles import Profile, name_of
from hocket.state import NULL, State, get_ident

_keys = itertools.count()
Layers = Sequence[tuple[Optional[str], Sequence[Any]]]


class Stats(NamedTuple):
    """What an exchange runs, and how it goes. Times are seconds, medians of the iterations that ran this plan, at most the
    last 100. Until the first plan they are 0; while it measures again they are those of the plan before.

    iterations          since it was opened
    plans               how many were made; batches: of the plan that runs
    predicted_seconds   of an iteration, from the end of one to the end of the next; measured_seconds: likewise
    computation         what a part of that was: layers, and what was done between iterations
    communication       as long as batches were on their way; overlap: as long as both were so
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
    """An hkt_overlap, and what it uses. The communicator's state has it, which closes it if nobody did before."""

    __slots__ = ("handle", "kept", "is_under_way")

    def __init__(self, handle: Any, kept: Any) -> None:
        self.handle, self.kept = handle, kept
        self.is_under_way = False  # an iteration: batches may be on their way

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
    (InvalidArgumentError) changes nothing. After another error, such as a rank that is lost, the exchange can only be closed.
    Threads take turns: a call waits for that of another one.
    """

    def __init__(self, state: State, layers: Layers, op: str | Operator, options: dict[str, Any]) -> None:
        """Use Communicator.overlap()."""
        self._state, self._key = state, next(_keys)
        self._lock = threading.RLock()  # one that a handler of a signal gets too, and then sees that the thread is in a call
        self._is_in_call = False
        made = ffi.new("hkt_overlap**")
        try:
            self._layers, arguments, kept = _given(layers, op, options)
        except Exception:
            with contextlib.suppress(Error):  # the other ranks would wait for this one
                state.call(lib.hkt_overlap_with_ranks, NULL, 0, NULL, NULL, 0, NULL, made)
            raise
        state.call(lib.hkt_overlap_with_ranks, *arguments, made)
        state.exchanges[self._key] = Opened(made[0], kept)

    # ---- An iteration --------------------------------------------------------------------------------------------

    def forward(self, layer: int) -> None:
        """The forward pass comes to this layer, from 0 on. Among ranks there is nothing to wait for."""
        self._call(lib.hkt_overlap_forward, layer)

    def begin_backward(self) -> None:
        """The backward pass begins."""
        opened = self._state.exchanges.get(self._key)
        if opened is not None:
            opened.is_under_way = True
        self._call(lib.hkt_overlap_begin_backward)

    def backward(self, layer: int) -> None:
        """The gradients of this layer are there, and of all after it: each layer once, from the last one to 0. From now on
        nobody but Hocket may touch them, until finish() has returned. If they end a batch it begins to move. Never waits."""
        self._call(lib.hkt_overlap_backward, layer)

    def finish(self) -> None:
        """Ends the iteration: returns when all gradients are combined, on all ranks. Every now and then all ranks put together
        what they have measured, and take the same plan from then on. Ctrl-C ends the wait; call it again then, unless
        stats.iterations says that the iteration had ended just before."""
        self._call(lib.hkt_overlap_finish)
        opened = self._state.exchanges.get(self._key)
        if opened is not None:
            opened.is_under_way = False

    # ---- What it has found ---------------------------------------------------------------------------------------

    @property
    def stats(self) -> Stats:
        """What runs, and how it goes."""
        found = ffi.new("hkt_overlap_run_stats*")
        self._call(lib.hkt_overlap_get_stats, found, ffi.sizeof("hkt_overlap_run_stats"))
        return Stats(*(getattr(found, name) for name in Stats._fields))

    @property
    def batches(self) -> list[range]:
        """The layers of each batch of the plan that runs, from 0, in the model's order. The last batch is the first to move."""
        ends, count = ffi.new("size_t[]", self._layers), ffi.new("size_t*")
        self._call(lib.hkt_overlap_batches, ends, count)
        return ranges_of(ends[0:count[0]])

    @property
    def profile(self) -> Profile:
        """That of the last plan, to be saved for a later run, and for the tool hocket-overlap. The same on all ranks.
        InvalidArgumentError if nothing has been measured yet."""
        texts: list[str] = []

        def ask(handle: Any) -> int:
            text = ffi.new("const char**")
            status = lib.hkt_overlap_profile(handle, text)
            texts.append(text_of(text[0]))  # which the next call may change
            return status

        self._call(ask)
        return Profile.from_json(texts[0])

    # ---- Its end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Lets go of the arrays. In an iteration all ranks close it after the same layer; it waits until what this rank has
        started is over, as long as an operation may take. An exchange that is dropped, or whose `with` block an exception
        leaves, is closed, too, and nobody waits for it. A second close() does nothing."""
        if self._has_to_wait():
            self._alone(interruptible, self._end)
        else:
            self._alone(self._end)

    def _has_to_wait(self) -> bool:
        opened = self._state.exchanges.get(self._key)
        return opened is not None and opened.is_under_way and self._state.is_own()

    def _end(self) -> None:
        state, thread = self._state, get_ident()
        state.inside.append(thread)  # so that the communicator is not destroyed meanwhile
        try:
            opened = state.exchanges.pop(self._key, None) if state.handle else None  # else it is the state that closes it
            if opened is not None:
                opened.close()
        finally:
            state.inside.remove(thread)  # before the arrays are let go of: with them the communicator may go

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()
        else:
            self._leave()

    def _leave(self) -> None:
        """Without a wait of this thread."""
        if not self._has_to_wait():
            self._end()
            return
        with contextlib.suppress(RuntimeError):  # there can be no thread: then its communicator closes it
            _thread.start_new_thread(self._end, ())

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
    """The number of layers, what hkt_overlap_with_ranks is given, and what must stay meanwhile, or as long as the exchange is open."""
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
    """hkt_overlap_run_options, and what it refers to."""
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
