"""Communicators: the ranks of a job, and what they do together."""
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Callable

from hocket import options as opts, torchrun
from hocket._native import ffi, lib
from hocket.arrays import resolve
from hocket.collectives import Collectives
from hocket.errors import invalid, raise_last, raise_pending, text_of
from hocket.interruptible import interruptible
from hocket.memory import Registration, WindowMemory
from hocket.messages import Messages
from hocket.objects import Objects
from hocket.operators import Operator
from hocket.overlap.exchange import Exchange, Layers
from hocket.overlap.profiles import Profile
from hocket.plan import Plan
from hocket.state import NULL, State

NEWCOMER = lib.HKT_NEWCOMER


class Communicator(Collectives, Messages, Objects):
    """The ranks of a job, or of a group of it. Made by hocket.init(), split(), group(), shrink() and grow().

    All ranks call the collectives in the same order. Calls may come from several threads. It is closed by close(), at
    the end of a `with` block, when it is dropped, and before the interpreter ends.
    """

    def __init__(self, state: State) -> None:
        """Use hocket.init()."""
        self._state = state
        self._rank = lib.hkt_comm_rank(state.handle)
        self._size = lib.hkt_comm_size(state.handle)

    # ---- Facts ---------------------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """This process's number, from 0."""
        return self._rank

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self._size

    @property
    def closed(self) -> bool:
        return not self._state.handle

    def check(self) -> None:
        """Raises the error that broke the communicator, if one did. Does not wait."""
        self._state.call(lib.hkt_comm_status)

    @property
    def status(self) -> int:
        """Returns 0 while the communicator is usable; else the status (hkt_status) that broke it. Does not wait."""
        return lib.hkt_comm_status(self._state.handle)

    def info(self, key: str) -> str:
        """Returns a fact, for logs: "provider", "provider_why", "lost_rails", "by_host", "topology", "links",
        "planning_topology", "schedule_path", "executor", "progress"."""
        found = lib.hkt_comm_info(self._state.handle, opts.text(key))
        if not found:
            raise invalid(f"there is no fact {key!r} of a communicator")
        return text_of(found)

    def lost(self) -> list[int]:
        """Returns the ranks that are known to be lost, ascending."""
        count = ffi.new("size_t*")
        ranks = ffi.new("int32_t[]", self._size)
        self._state.call(lib.hkt_comm_lost, ranks, self._size, count)
        return [ranks[i] for i in range(min(count[0], self._size))]

    def dump(self, path: str | os.PathLike[str]) -> None:
        """Writes this rank's last operations, and the state of those in flight, to a file, as JSON."""
        self._state.call(lib.hkt_comm_dump, opts.text(path))

    def set_stream(self, stream: int) -> None:
        """Sets the CUDA stream (its address) for operations that the calling thread starts with device memory."""
        self._state.call(lib.hkt_comm_set_stream, ffi.cast("void*", stream))

    # ---- Its end --------------------------------------------------------------------------------------------------

    def abort(self) -> None:
        """Gives up: calls on this communicator, of all threads and all ranks, end with AbortedError."""
        self._state.call(lib.hkt_comm_abort)

    def close(self) -> None:
        """Leaves the job. Other threads' calls end with AbortedError. If arrays of empty() are still alive, the
        communicator is destroyed with the last of them. A second close() does nothing."""
        self._state.close()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.closed:
            return "<hocket.Communicator: closed>"
        return f"<hocket.Communicator: rank {self._rank} of {self._size}>"

    def __reduce__(self) -> Any:
        raise TypeError("a communicator cannot be pickled: another process joins the job by hocket.init()")

    # ---- Other communicators ---------------------------------------------------------------------------------------

    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        """Divides the ranks into groups: ranks with the same color form a communicator, ordered by key, then by rank.
        color None: this rank is in no group, and gets None. All ranks call this."""
        return self._made(lib.hkt_comm_split, lib.HKT_NO_COLOR if color is None else color, key)

    def group(self, ranks: Sequence[int]) -> Communicator | None:
        """Makes one communicator of these ranks, in this order; the other ranks get None. All ranks pass the same
        list."""
        return self._made(lib.hkt_comm_create_group, list(ranks), len(ranks))

    def shrink(self) -> Communicator:
        """Makes a communicator of the remaining ranks after ranks were lost. All remaining ranks call this, and then
        close this communicator."""
        return self._made(lib.hkt_comm_shrink)  # type: ignore[return-value]

    def grow(self, newcomers: int | None = None, unique_id: str | None = None) -> Communicator | None:
        """A communicator of these ranks and of `newcomers` new processes, which call
        hocket.init(rank=hocket.NEWCOMER, unique_id=...). Rank 0 passes the id that it made by hocket.unique_id().
        newcomers=None: all that wait there now; if there are none, None, and the id is as before."""
        id_struct = NULL if unique_id is None else opts.unique_id_struct(unique_id)
        return self._made(lib.hkt_comm_grow, lib.HKT_ALL_WAITING if newcomers is None else newcomers, id_struct)

    def _made(self, function: Callable[..., int], *arguments: Any) -> Communicator | None:
        state = self._state

        def make() -> Communicator | None:
            made = ffi.new("hkt_comm**")
            state.call(function, *arguments, made)
            return Communicator(State(made[0], state.kept)) if made[0] else None

        return interruptible(make)

    # ---- Memory, operators, plans, overlap ---------------------------------------------------------------------------

    def empty(self, shape: int | Sequence[int], dtype: Any = "float32") -> Any:
        """A new NumPy array in memory that the ranks of a host share: collectives use it where it is, which is faster
        from 16 KiB on. Its contents are undefined. Allocate once, and keep it."""
        return WindowMemory.array(self._state, shape, dtype)

    def register(self, array: Any) -> Registration:
        """Makes the memory of an array shared in place, until close() of the returned object, or the end of its `with`
        block. The array is kept alive until then. It must be plain memory of the process, from malloc or mmap."""
        return Registration(self._state, array)

    def is_shared(self, array: Any) -> bool:
        """Returns True if operations use this array where it is, as far as this rank is concerned."""
        address, count, number, _kept = resolve(array, "array", False)
        answer = ffi.new("int*")
        self._state.call(lib.hkt_mem_is_shared, address, count * lib.hkt_type_size(number), answer)
        return bool(answer[0])

    def premul_sum(self, factor: float) -> Operator:
        """Returns an operator that multiplies this rank's input by its factor, and then adds the inputs."""
        return Operator.premul_sum(self._state, factor)

    def operator(self, name: str) -> Operator:
        """Returns the operator that a schedule file defines: "absmax", "my.sched:absmax"."""
        return Operator.defined(self._state, name)

    def plan(self, collective: str, dtype: Any = "float32", op: str | Operator = "sum", *,
             schedule: str | None = None, root: int = 0, executor: str | None = None,
             tensor_counts: Sequence[int] | None = None) -> Plan:
        """A collective with its schedule, verified and compiled, to be started many times. See hocket.Plan.
        A schedule that is refused raises ScheduleError with the compiler's diagnostic."""
        return Plan(self._state, self._size, collective, dtype, op, schedule, root, executor, tensor_counts)

    def overlap(self, layers: Layers, *, op: str | Operator = "average", method: str = "optimum", limit_bytes: int = 0,
                bucket_bytes: int | None = None, measure: int | None = None, look_every: int | None = None,
                profile: Profile | None = None, schedule: str | None = None) -> Exchange:
        """Combines the gradients of a model's layers while its backward pass still computes others, in batches that are
        measured and planned. See hocket.overlap.Exchange. All ranks call this, with the same layers and options.

        layers: for each layer, the model's first one first, its name (or None), and a list of the arrays that its gradients
        are in; all of one type. They are used as long as the exchange is open, and kept alive: an iteration combines
        what the ranks have there, in place. Arrays of empty() that follow each other in one block are the fastest.
        method, limit_bytes, bucket_bytes: as hocket.overlap.plan has them. measure: how many iterations are run to measure
        before the plan is made (16). look_every: after how many the times are looked at again (100); -1: never. profile:
        what an exchange of the same layers has measured: the plan is made of it at once. schedule: another one than
        "reproducible", with which the bits of results do not depend on the plan."""
        options = {"method": method, "limit_bytes": limit_bytes, "bucket_bytes": bucket_bytes, "measure": measure,
                   "look_every": look_every, "profile": profile, "schedule": schedule}
        return interruptible(lambda: Exchange(self._state, layers, op, options))


def init(rank: int | None = None, world_size: int | None = None, *, master_addr: str | None = None,
         master_port: int | None = None, secret: str | None = None, provider: str | None = None,
         topology: str | None = None, schedule: str | None = None, schedule_path: str | None = None,
         executor: str | None = None, timeout: float | None = None, progress: str | None = None,
         listen_fd: int | None = None, unique_id: str | None = None, store: Any = None,
         store_prefix: str = "hocket", share_buffers: bool | None = None) -> Communicator:
    """Joins the job, and returns its communicator, once all ranks have joined.

    Arguments that are not given are taken from the environment, as in C (docs/running.md): under hocket-run nothing
    needs to be given; mpirun and srun give the ranks, and MASTER_ADDR, MASTER_PORT and HOCKET_SECRET are needed
    besides. Under torchrun, where nothing says how to meet, the ranks meet in torchrun's store; all of them call
    init() as many times. Without a launcher it is a job of one rank.

    timeout: seconds; the longest that joining, or one operation, may take (HOCKET_TIMEOUT_MS; 60).
    progress: "thread" (operations move while the program computes) or "calls". HOCKET_PROGRESS; "thread" in Python.
    executor: "jit" or "interpreter". unique_id: that of rank 0, from hocket.unique_id(). store: an object with set(key,
    value) and get(key), such as torch.distributed's Store; store_prefix: another one for each communicator that meets
    in the same store. rank=hocket.NEWCOMER: the ranks of a running job, which call grow(), take this process in.
    share_buffers: arrays of 64 KiB and more that collectives use again and again become memory that the ranks of the
    host share (HOCKET_SHARE_BUFFERS; False).
    The other arguments are the fields of hkt_comm_options in hocket.h.
    """
    options = ffi.new("hkt_comm_options*")
    lib.init_hkt_comm_options(options)
    timeout_ms = None if timeout is None else opts.milliseconds(timeout)
    ways = (rank, world_size, master_addr, master_port, secret, listen_fd, unique_id, store)
    if all(way is None for way in ways) and torchrun.is_launcher():
        store, rank, world_size, count = torchrun.rendezvous(timeout)
        store_prefix += count
    if progress is None and not os.environ.get("HOCKET_PROGRESS"):
        progress = "thread"
    given: dict[str, Any] = {
        "rank": rank, "world_size": world_size, "master_addr": master_addr, "master_port": master_port,
        "secret": secret, "provider": provider, "topology": topology, "schedule": schedule,
        "schedule_path": schedule_path, "listen_fd": listen_fd,
        "executor": None if executor is None else opts.constant("HKT_EXECUTOR_", executor),
        "progress": None if progress is None else opts.constant("HKT_PROGRESS_", progress),
        "timeout_ms": timeout_ms,
        "share_buffers": None if share_buffers is None
        else lib.HKT_SHARE_BUFFERS_ON if share_buffers else lib.HKT_SHARE_BUFFERS_OFF,
        "unique_id": None if unique_id is None else opts.unique_id_struct(unique_id)}
    kept: list[Any] = [given["unique_id"], opts.fill(options, given)]
    if store is not None:
        adapter = opts.Store(store, store_prefix)
        kept.append(adapter)
        options.store = adapter.struct
    options.is_interrupted = lib.hkt_py_is_interrupted

    def join() -> Communicator:
        made = ffi.new("hkt_comm**")
        status = lib.hkt_comm_create(options, made)
        if status < 0:
            raise_last(status)
        raise_pending()
        return Communicator(State(made[0], kept))

    return interruptible(join)


def unique_id() -> str:
    """Returns an id, which the program passes to all ranks in its own way: it contains the job's secret. The calling
    process becomes rank 0 of the one communicator that is created with it."""
    made = ffi.new("hkt_unique_id*")
    status = lib.hkt_unique_id_create(made)
    if status < 0:
        raise_last(status)
    return ffi.string(made.text).decode()


def unique_id_destroy(unique_id: str) -> None:
    """Closes an id of hocket.unique_id() that will not be used. Processes that wait at it get a BootstrapError."""
    status = lib.hkt_unique_id_destroy(opts.unique_id_struct(unique_id))
    if status < 0:
        raise_last(status)


def unique_id_waiting(unique_id: str) -> int:
    """Returns how many processes wait at the id of hocket.unique_id() to be admitted by grow(). Never waits."""
    count = ffi.new("int32_t*")
    status = lib.hkt_unique_id_waiting(opts.unique_id_struct(unique_id), count)
    if status < 0:
        raise_last(status)
    return count[0]
