"""A worker of a parameter service."""
from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, Callable, NamedTuple, Union

from hocket import options as opts
from hocket._native import ffi, lib
from hocket.arrays import TYPES, shape_of
from hocket.errors import Error, invalid, raise_last
from hocket.interruptible import interruptible
from hocket.params.handles import ServiceHandle, ending_for
from hocket.params.request import Request, start
from hocket.params.tensors import Model, check_type, on_host, pointers, ranges
from hocket.state import FLIGHT, Ending

UNBOUNDED: int = lib.HKT_UNBOUNDED
Names = Union[str, Iterable[str], None]


class Stats(NamedTuple):
    """Counts of a worker since it was opened, and its state now: the fields of hkt_params_stats.

    round           the round in which the worker began, plus the calls of clock()
    bytes_sent      elements, on all connections and through shared memory; bytes_received: the same
    kept_bytes      of updates that a server may ask for again
    epochs          how often a server has announced a tree: workers came or went
    reconnections   to servers
    children        workers below this one, in the trees of all servers
    """

    round: int
    bytes_sent: int
    bytes_received: int
    kept_bytes: int
    epochs: int
    reconnections: int
    children: int


class _RoundsEnd:
    """A call of clock(). number[0] is set once the round has ended. After an interruption it may continue in another
    thread, if it has begun."""

    __slots__ = ("lock", "number", "has_begun")

    def __init__(self) -> None:
        self.lock, self.number, self.has_begun = threading.Lock(), ffi.new("uint64_t*"), False


class Worker:
    """Pushes gradients, pulls weights, counts its rounds. Made by open() and open_with_ranks().

    All methods are thread-safe, but clock() must not be called while another thread pushes. A waiting call ends with
    KeyboardInterrupt at Ctrl-C; what it has started continues. TimeoutError means that others were late, and breaks
    nothing. PeerLostError means that a server is gone and was not replaced: then only close() may be called. A closed
    worker raises AbortedError. A forked child must not use its parent's.
    """

    def __init__(self, handle: ServiceHandle, model: Model, staleness: int) -> None:
        """Use open()."""
        self._handle, self._model, self._staleness = handle, model, staleness
        self._pushed: set[str] = set()  # in this round
        self._left: _RoundsEnd | None = None  # set by an exception in a signal handler: the next clock() continues it
        self._room: Request[None] | None = None  # the last push of this round: it ends once there is room for the next round
        self._number: int = lib.hkt_params_number(handle.handle)

    # ---- Facts ---------------------------------------------------------------------------------------------------

    @property
    def number(self) -> int:
        """The worker's number among all workers of the job."""
        return self._number

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tensors, in the order in which they were opened."""
        return tuple(self._model.tensors)

    @property
    def staleness(self) -> int:
        """The job's staleness: the most that pulls may ask for; UNBOUNDED if they never wait."""
        return self._staleness

    @property
    def closed(self) -> bool:
        return not self._handle.handle

    def stats(self) -> Stats:
        """Counts since the worker was opened, and its state now."""
        found = ffi.new("hkt_params_stats*")
        self._handle.call(lib.hkt_params_get_stats, found, ffi.sizeof("hkt_params_stats"))
        return Stats(*(getattr(found, name) for name in Stats._fields))

    # ---- Gradients -----------------------------------------------------------------------------------------------

    def push(self, gradients: Mapping[str, Any], *, wait: bool = True) -> Any:
        """Pushes gradients in this worker's round: of all tensors, or of some, each once a round. Tensors that are not
        pushed before clock() count as zeros.

        gradients: from names to arrays of the tensors' types and shapes (or flat), without gaps. They are copied before
        this returns, and may then be changed, also with wait=False. The call, or the Request, waits for room for the
        next round. Several tensors that follow each other in the order of open() are one call of C. Errors:
        InvalidArgumentError (an array is refused, or was pushed in this round already; nothing is pushed), and those of
        pull(): then the gradients are pushed, also after TimeoutError, and must not be pushed again."""
        self._settle_left()
        found = self._model.find(gradients, "gradients", False)
        self._refuse_pushed(tensor.name for tensor, _, _ in found)
        parts = []
        for part in ranges(found):
            first, count = part[0][0].index, len(part)
            parts.append(self._push(lib.hkt_params_push, (first, count, pointers(part)), [tensor.name for tensor, _, _ in part]))
        return self._pushing(parts, wait)

    def push_sparse(self, name: str, indices: Any, values: Any, *, wait: bool = True) -> Any:
        """Pushes the gradient of one tensor in which only the elements of the flat tensor at these indices are nonzero.

        indices: an array of uint32, ascending, none twice. values: as many, of the tensor's type. Both are copied."""
        self._settle_left()
        tensor = self._model.tensor(name)
        places, count, number, _ = on_host(indices, "indices", False)
        if number != TYPES["uint32"]:
            raise invalid("indices have another type than uint32: pass indices.astype('uint32') "
                          "(of a PyTorch tensor: tensor.numpy().astype('uint32'))")
        memory, have, number, _ = on_host(values, "values", False)
        check_type(tensor, number, values, "values")
        if have != count:
            raise invalid(f"values has {have} elements (shape {shape_of(values)}), but indices has {count}: pass one value per index")
        self._refuse_pushed([name])
        part = self._push(lib.hkt_params_push_sparse, (tensor.index, count, ffi.cast("uint32_t*", places), ffi.cast("void*", memory)), [name])
        return self._pushing([part], wait)

    def _push(self, function: Callable[..., int], arguments: tuple[Any, ...], names: list[str]) -> Any:
        """Ctrl-C may come between C's push and the return of this function: the tensors are recorded even so."""
        flight = ffi.new(FLIGHT)
        try:
            return start(self._handle, function, arguments, None, flight)
        finally:
            if flight[0]:
                self._pushed.update(names)

    def _has_pushed(self, name: str) -> bool:
        """Returns True if the tensor was pushed in this round."""
        return name in self._pushed and (self._left is None or not self._left.number[0])

    def _refuse_pushed(self, names: Iterable[str]) -> None:
        """C would refuse such a range, but by then other ranges might have been pushed."""
        again = [name for name in names if name in self._pushed]
        if again:
            raise invalid(f"the tensor {again[0]!r} was pushed in this round already; clock() ends the round")

    def _pushing(self, parts: list[Any], wait: bool) -> Any:
        request: Request[None] = Request(self._handle, parts, None)
        if parts:
            self._room = request
        return request.wait() if wait else request

    def clock(self) -> int:
        """Ends this worker's round, and returns the number of the next one. Tensors that were not pushed count as
        zeros. Waits if this worker is further ahead than servers have room for. After TimeoutError the round has not
        ended. Ctrl-C ends the wait, not the call: the next clock() continues it, and ends the same round. Before that
        nothing can be pushed, unless the round has ended meanwhile, which stats().round shows."""
        end = self._left or _RoundsEnd()
        try:
            self._end_round(end)
            return self._settle(end)
        except Error:
            self._left = None  # the round has not ended
            raise
        except BaseException:
            self._left = end if end.has_begun else None
            raise

    def _end(self, round: int) -> None:
        """Does what clock() does, unless the round has ended: for an interrupted caller, which cannot know that."""
        if self.stats().round == round:
            self.clock()
        elif self._left is not None:
            self._settle(self._left)

    def _end_round(self, end: _RoundsEnd) -> None:
        if end.number[0]:
            return
        room = self._room
        if room is not None and not room.done():
            try:
                room.wait()  # Ctrl-C ends this wait without a thread
            except Error:
                self._room = None  # the next call asks again
                raise
        is_at_once = room is not None and not room.failed() and not end.has_begun
        end.has_begun = True
        if is_at_once:
            self._tick(end)
        else:
            interruptible(lambda: self._tick(end))

    def _tick(self, end: _RoundsEnd) -> None:
        with end.lock:  # a thread left behind may hold the lock, and end the round
            if not end.number[0]:
                self._handle.call(lib.hkt_params_clock, end.number)

    def _settle(self, end: _RoundsEnd) -> int:
        self._room = None
        self._pushed.clear()
        self._left = None  # last of all, because Ctrl-C may come here, too
        return end.number[0]

    def _settle_left(self) -> None:
        """Called before a push, which must not run beside a clock()."""
        if self._left is not None:
            if not self._left.number[0]:
                raise invalid("a clock() that was interrupted has not ended yet: call clock() again before you push")
            self._settle(self._left)

    # ---- Weights -------------------------------------------------------------------------------------------------

    def pull(self, names: Names = None, out: Any = None, *, staleness: int | None = None, wait: bool = True) -> Any:
        """Pulls weights of all rounds below this worker's round minus the staleness, or later ones.

        names: one tensor's, or several; None: those of out, or all. out: an array for one name, else a dict from
        names to arrays; None: the arrays that the worker was opened with. staleness: in rounds, at most the job's;
        None: the job's. Returns the array for one name, else a dict of them; wait=False: a Request, whose wait()
        returns that. The service may write to the arrays until the call has returned, or the request has ended. Of tensors
        that this worker has pushed in its round, the weights may have that round, too, in some chunks. Errors:
        InvalidArgumentError (nothing is pulled: another shape or type, read-only, a name that there is not),
        TimeoutError (another worker has not pushed its round; this one may go on), PeerLostError, OutOfMemoryError."""
        is_one = isinstance(names, str)
        into = self._into(names, out)
        found = self._model.find(into, "out", True)
        most = self._staleness if staleness is None else staleness
        parts = [start(self._handle, lib.hkt_params_pull, (part[0][0].index, len(part), pointers(part), most),
                       [kept for _, _, kept in part]) for part in ranges(found)]
        request: Request[Any] = Request(self._handle, parts, into[names] if is_one else into)  # type: ignore[index]
        return request.wait() if wait else request

    def _into(self, names: Names, out: Any) -> dict[str, Any]:
        if isinstance(names, str):
            return {names: self._opened(names) if out is None else out}
        if names is None:
            return dict(self._model.arrays) if out is None else dict(_mapping(out))
        wanted = list(names)
        if not wanted or len(set(wanted)) != len(wanted):
            raise invalid(f"names is {wanted!r:.80}; it must have one or more names, none of them twice")
        if out is None:
            return {name: self._opened(name) for name in wanted}
        given = _mapping(out)
        missing = [name for name in wanted if name not in given]
        if missing:
            raise invalid(f"out has no array for {missing[0]!r}, which names has")
        return {name: given[name] for name in wanted}

    def _opened(self, name: Any) -> Any:
        return self._model.arrays[self._model.tensor(name).name]

    # ---- The rest ------------------------------------------------------------------------------------------------

    def checkpoint(self, *, wait: bool = True) -> Any:
        """Asks all servers to write a checkpoint now, and ends when they have. Each checkpoint has the server's weights
        at that time. wait=False: returns a Request. Errors: IOError of hocket (a server has no folder for checkpoints,
        or cannot write), TimeoutError, PeerLostError."""
        request: Request[None] = Request(self._handle, [start(self._handle, lib.hkt_params_checkpoint, (), None)], None)
        return request.wait() if wait else request

    def close(self) -> None:
        """Leaves the job. Updates pushed in rounds that the worker has ended count if the others end these rounds
        within 2 s, for which this waits; if servers write checkpoints, it waits until one has the updates, at most for
        the timeout. Waits of other threads, and requests that have not ended, end with AbortedError. A worker that
        pulls once more before it closes knows that all its updates are applied. The worker is also closed by the end of
        a `with` block, when it is dropped, and before the interpreter ends. Ctrl-C only ends the wait. A second close()
        does nothing."""
        self._handle.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<hocket.params.Worker: closed>" if self.closed else f"<hocket.params.Worker: number {self._number}, {len(self.names)} tensors>"

    def __reduce__(self) -> Any:
        raise TypeError("a worker of a parameter service cannot be pickled: another process opens one of its own")


def _mapping(out: Any) -> Mapping[str, Any]:
    if not isinstance(out, Mapping):
        raise invalid(f"out is {out!r:.80}; for several tensors it must be a dict from names to arrays")
    return out


def open(tensors: Mapping[str, Any], *, address: str | None = None, secret: str | None = None, update: str | None = None,
         workers: int | None = None, number: int | None = None, staleness: int | None = 0, tree: str | None = None,
         rack: str | None = None, chunk_bytes: int | None = None, priority: int | None = None,
         longest_wait: float | None = None, timeout: float | None = None, gives_weights: bool = True) -> Worker:
    """Joins the service as a worker; returns when the worker takes part: at the
    job's beginning or, if that is over, from the others' round on.

    tensors: from names to arrays, whose values are the first weights. All workers have the same, in the same order. The
    arrays are kept: pull() writes into them unless it is told otherwise. If several workers give first weights, one
    worker's are used: so pull before you train. gives_weights=False: this worker gives none; if none does, they are
    zeros.

    address: "host:port" of the first server (HOCKET_PARAMS_ADDRESS). If no server listens there, the connection is
    tried again. secret: that of all processes of the job (HOCKET_SECRET). update: the servers' rule for the gradients of
    a round: "sum", "average", "sgd(0.1)", "momentum(0.1, 0.9)", "adam(0.001)", "w = w - 0.1 * g / workers",
    "my.sched:mine(0.5)" (docs/params.md). workers: the job begins when this many have connected (1). number: this
    worker's, if it is one of those. staleness: the most rounds that pulls will ask for, or UNBOUNDED: pulls never wait,
    and an update is applied when it comes. tree: "direct", "binary", "degree N", "rack" or "auto". rack: shared by
    workers that are near each other (this host). chunk_bytes: the pieces in which weights move. priority: among jobs
    that share hosts, 0 to 255. longest_wait: seconds after which a job that waits for others may read a little in any
    case (0.5); float("inf"): never. timeout: seconds; the longest wait for the job's beginning, and for what a request
    has started (HOCKET_TIMEOUT_MS; 60).

    The update, the staleness, the tree, the size of chunks, the priority and the longest wait belong to the job: all workers
    give the same. Errors: InvalidArgumentError, ScheduleError and NotFoundError (the update), BootstrapError (no server
    at the address within the timeout, or another secret), MismatchError (the job there has other tensors or options),
    TimeoutError (not all servers and workers have come), PeerLostError, OutOfMemoryError."""
    model = Model(tensors)
    options, ending, kept = options_of(staleness, update=update, tree=tree, rack=rack, chunk_bytes=chunk_bytes, priority=priority,
                                       longest_wait=longest_wait, timeout=timeout, address=address, secret=secret, workers=workers,
                                       number=number)

    def join() -> Worker:
        made = ffi.new("hkt_params**")
        given, count, weights = model.for_open(gives_weights)
        status = lib.hkt_params_open(given, count, weights, options, made)
        if status < 0:
            raise_last(status)
        return worker_of(made[0], model, staleness, ending, kept)

    return interruptible(join)


def options_of(staleness: int | None, *, longest_wait: float | None, timeout: float | None, **given: Any) -> tuple[Any, Ending, Any]:
    """Returns hkt_params_options; the Ending of its waits; and the objects to be kept as long as the worker lives."""
    options = ffi.new("hkt_params_options*")
    lib.init_hkt_params_options(options)
    ending, user = ending_for(options)
    if longest_wait is not None:
        given["longest_wait_ms"] = -1 if longest_wait == float("inf") else opts.milliseconds(longest_wait, "longest_wait")
    texts = opts.fill(options, {"staleness": staleness, "timeout_ms": None if timeout is None else opts.milliseconds(timeout), **given})
    return options, ending, (options, user, texts)


def worker_of(handle: Any, model: Model, staleness: int | None, ending: Ending, kept: Any) -> Worker:
    return Worker(ServiceHandle("worker", handle, lib.hkt_params_close, ending, kept), model, 0 if staleness is None else staleness)
