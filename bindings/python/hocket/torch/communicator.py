"""A communicator of Hocket for one process group: joined through torch's store, with the operations that are under way."""
import atexit
import datetime
import threading
import weakref

import torch.distributed

from hocket._native import ffi, lib

Failure = getattr(torch.distributed, "DistBackendError", RuntimeError)  # torch 1.13 has no class of its own

_alive = weakref.WeakSet()
_interrupt = threading.local()


def milliseconds(timeout):
    """Of a timedelta; None for torch's values that mean "none was given"."""
    if timeout is None:
        return None
    value = timeout // datetime.timedelta(milliseconds=1)
    return value if value > 0 else None


def _keep_interrupt(kind, error, trace):
    _interrupt.error = error


@ffi.callback("int(void *)", error=1, onerror=_keep_interrupt)
def _interrupted(_):
    """Python runs its handlers of signals between two of its own steps, so here, in the main thread: Ctrl-C ends this function."""
    return 0


class _Store:
    """torch's store, as hkt_comm_create wants it."""

    def __init__(self, store):
        self.store, self.error = store, None
        self.set = ffi.callback("int(void *, const char *, const void *, size_t)", self._set, error=1, onerror=self._failed)
        self.get = ffi.callback("int(void *, const char *, void *, size_t, size_t *, int64_t)", self._get, error=1, onerror=self._failed)
        self.struct = ffi.new("hkt_store *", {
            "size": ffi.sizeof("hkt_store"), "prefix": ffi.from_buffer(b"hocket\0"), "set": self.set, "get": self.get})

    def _failed(self, kind, error, trace):
        self.error = error

    def _set(self, _, key, value, size):
        self.store.set(ffi.string(key).decode(), bytes(ffi.buffer(value, size)))
        return 0

    def _get(self, _, key, value, room, size, timeout_ms):
        name = ffi.string(key).decode()
        self.store.wait([name], datetime.timedelta(milliseconds=timeout_ms))
        found = self.store.get(name)
        ffi.memmove(value, found, min(room, len(found)))
        size[0] = len(found)
        return 0


class Communicator:
    """hkt_comm, which is destroyed once: by destroy(), with the object, or at the end of the process."""

    def __init__(self, store, rank, size, timeout, options):
        self.handle, self.rank, self.size = None, rank, size
        self.timeout_ms = milliseconds(timeout) or 1
        self.pending = set()  # works that have not ended: they keep their tensors, also if the program drops them
        self._sweep_at = 16
        self._plans, self._shared = [], {}  # what must go before the communicator; memory that is registered, by its address
        self._lock = threading.Lock()  # the handle's end, beside threads that read the text of an error
        place = ffi.new("hkt_comm **")
        joining = _Store(store)
        native = ffi.new("hkt_comm_options *", {
            "size": ffi.sizeof("hkt_comm_options"), "rank": rank, "world_size": size, "timeout_ms": self.timeout_ms,
            "progress": lib.HKT_PROGRESS_THREAD, "store": joining.struct, "is_interrupted": _interrupted})
        texts = options.into(native)
        if lib.hkt_comm_create(native, place) != lib.HKT_SUCCESS:
            raise Failure(ffi.string(lib.hkt_last_error()).decode()) from joining.error
        del texts
        self.handle = place[0]
        _alive.add(self)

    def text(self):
        with self._lock:
            if self.handle is None:
                return "hocket: the process group has been destroyed"
            return ffi.string(lib.hkt_comm_last_error(self.handle)).decode()

    def failure(self, status):
        """The exception for a call that ended with this status."""
        if status == lib.HKT_ERROR_INTERRUPTED:
            error, _interrupt.error = getattr(_interrupt, "error", None), None
            return error or KeyboardInterrupt()
        text = self.text() or ffi.string(lib.hkt_last_error()).decode()
        if status == lib.HKT_ERROR_TIMEOUT:  # in words that programs look for, as Gloo has them
            text = f"hocket: a timeout has passed: {text}"
        return (ValueError if status == lib.HKT_ERROR_INVALID_ARGUMENT else Failure)(text)

    def must(self, status):
        if status != lib.HKT_SUCCESS:
            raise self.failure(status)

    def started(self, work):
        """Takes a work in, and ends those that nobody waits for."""
        self.pending.add(work)
        if len(self.pending) > self._sweep_at:
            for other in list(self.pending):
                other.end(0)
            self._sweep_at = 16 + 2 * len(self.pending)

    def plan(self, collective, kind, operator, options):
        """A plan, which lives as long as this."""
        place = ffi.new("hkt_plan **")
        self.must(lib.hkt_plan_create(self.handle, collective, kind, operator, options, place))
        self._plans.append(place[0])
        return place[0]

    def share(self, tensor):
        """Makes the memory of a tensor one that the ranks of a host share, and keeps it until unshare. Other memory than a plain process has
        (a file's, a child's) stays as it is."""
        address, size = tensor.data_ptr(), tensor.numel() * tensor.element_size()
        if size and lib.hkt_mem_register(self.handle, ffi.cast("void *", address), size) == lib.HKT_SUCCESS:
            self._shared[address] = tensor

    def unshare(self, tensor):
        if self._shared.get(tensor.data_ptr()) is not None and self.handle is not None:
            lib.hkt_mem_deregister(self.handle, ffi.cast("void *", tensor.data_ptr()))
            del self._shared[tensor.data_ptr()]

    def abort(self):
        if self.handle is not None:
            self.must(lib.hkt_comm_abort(self.handle))

    def destroy(self):
        with self._lock:
            handle, self.handle = self.handle, None
        if handle is None:
            return
        _alive.discard(self)
        for work in list(self.pending):  # those that have ended
            work.end(0)
        for plan in self._plans if not self.pending else ():
            lib.hkt_plan_destroy(plan)
        lib.hkt_comm_destroy(handle)
        for work in list(self.pending):
            work.lost("hocket: the process group was destroyed before this operation ended")

    __del__ = destroy


@atexit.register
def _destroy_all():
    """While Python still runs: the threads of a communicator call it."""
    for communicator in list(_alive):
        communicator.destroy()
