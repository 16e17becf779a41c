"""torch's handle of an operation, based on a request of Hocket."""
import threading

from torch._C._distributed_c10d import Work as Base

from hocket._native import lib
from hocket.state import CALLS, Told, get_ident

from .communicator import milliseconds
from .failures import Failure, in_words_of
from .future import Future, OfCpp
from .memory import copy_all


def not_ended(name, limit, communicator):
    """The exception of a wait that has a limit of its own, in milliseconds."""
    return Failure(in_words_of(f"hocket: {name} has not ended within {limit} ms, on rank {communicator.rank} of {communicator.size}. It goes "
                               "on: wait for it again, or destroy the process group", communicator.members))


def destroyed_before(name):
    return Failure(f"hocket: the process group was destroyed before {name} had ended")


def waits_beside(name):
    return ValueError(f"hocket: a handler of a signal, or a finalizer, cannot wait for {name}, or ask for its future, beside a wait of the "
                      "same thread; is_completed() can be asked")


class Work(Base):
    """One operation, or a group of them that was joined.

    The first to notice its end (a wait, a test, the callback of its future) frees the request, makes pending copies,
    and completes the future. One thread at a time is in a call with the request, as that call may free it.
    """

    def __init__(self, communicator, flight, name, timeout, keep, after, result, source=None, record=None):
        super().__init__()
        self._communicator, self._name = communicator, name
        self._flight = flight            # hocket.state.FLIGHT: the request, or its status; None once its end is fully handled
        self._timeout = timeout          # this operation's timeout in milliseconds, or None
        self._keep, self._after = keep, after
        self._result, self._source = result, source
        self._error = self._future = self._told = None
        self._lock = threading.RLock()   # reentrant: a signal handler gets it too, and then sees that its thread already has it
        self._is_held = False
        self._is_told = False            # the end was reported, although it may not have been handled yet
        self._record = record
        if record is not None:
            self._tell(record.end)
        communicator.started(self)

    # ---- Its end

    def end(self, timeout, beside=False):
        """Waits for at most this many milliseconds, None: as long as the communicator allows. Returns True if the
        operation has ended. beside: does not wait if another thread is waiting."""
        if self._flight is None:
            return True
        future, is_mine = None, False
        try:
            is_mine = self._acquire(0 if beside else timeout)
            if is_mine and self._flight is not None:
                future = self._look(timeout)
        finally:
            if is_mine:
                self._release()
        if not is_mine:
            return False
        self._complete(future)
        self._look_again()
        return self._flight is None

    def _acquire(self, timeout):
        if not (self._lock.acquire(False) if timeout == 0 else self._lock.acquire(timeout=-1 if timeout is None else timeout / 1000)):
            return False
        if not self._is_held:
            self._is_held = True
            return True
        self._lock.release()
        if timeout == 0:
            return False
        raise waits_beside(self._name)

    def _release(self):
        self._is_held = False
        self._lock.release()

    def _look(self, timeout):
        """Called with the lock. Returns the future to be completed, if the operation has ended and has one."""
        state, thread = self._communicator.state, get_ident()
        state.inside.append(thread)
        try:
            if not state.handle:
                state.leave(self._flight, (self._keep, self._source))
                return self._settle(destroyed_before(self._name))
            status = lib.hkt_py_wait(self._flight, -1 if timeout is None else timeout)
            if status == lib.HKT_IN_PROGRESS:
                return None
            error = None if status == lib.HKT_SUCCESS else self._communicator.failure(status)
        finally:
            state.inside.remove(thread)
        if status == lib.HKT_ERROR_INTERRUPTED:  # the wait ended, not the operation
            raise error
        return self._settle(error)

    def _settle(self, error):
        """The request is gone. Only at the end does the work count as ended, because threads read that without the
        lock."""
        try:
            if self._after and error is None:
                copy_all(self._after)
        except Exception as failed:  # a tensor that the program has changed meanwhile
            error = failed
        self._error, self._keep, self._after = error, None, None
        self._communicator.pending.discard(self)
        self._flight = None
        if error is None and self._told is not None:
            self._told()
        return self._future

    def _complete(self, future):
        if future is not None:
            future.complete(self._result, self._error)

    def _tell(self, function):
        """Makes a thread of the communicator call the function when the operation has ended."""
        told = Told(self._communicator.state, function)
        try:
            self._communicator.call("get_future", lambda _: lib.hkt_request_callback(self._flight[0], lib.hkt_py_ended, told.user))
        except BaseException:
            self._communicator.state.told.pop(id(told), None)
            raise

    def _ended(self):
        """If another thread holds the lock, leaves the work to that thread, which will check again."""
        self._is_told = True
        self.end(0, beside=True)

    def _look_again(self):
        """To be called once the lock is free again."""
        if self._is_told and self._flight is not None:
            self.end(0, beside=True)

    def when_ended(self, function):
        """Calls the function once the end is noticed, if it is a success. To be called before anyone else knows the work,
        except the sweeps that notice ends: the function may be called twice."""
        self._told = function
        if self._flight is None and self._error is None:
            function()

    # ---- Called by torch

    def wait(self, timeout=None):
        limit = milliseconds(timeout) or self._timeout
        if self._flight is not None and not self.end(limit):
            raise not_ended(self._name, limit, self._communicator)
        if self._record is not None:
            self._record.wait()
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self):
        return self._flight is None or self.end(0)

    def is_success(self):
        return self.is_completed() and self._error is None

    def exception(self):
        self.is_completed()
        return self._error

    def synchronize(self):
        self.wait()

    def result(self):
        self.wait()
        return self._result

    def _source_rank(self):
        if self._source is None:
            raise Failure(f"hocket: {self._name} has no source: only receives have one")
        return int(self._source[0])

    source_rank = _source_rank

    def tell_end(self, function):
        """Calls function(result, error) once it has ended, in a thread where it may wait; in place of get_future()."""
        self.get_future(lambda: OfCpp(function))

    def get_future(self, make=Future):
        is_mine = False
        try:
            is_mine = self._acquire(None)
            if self._future is not None:
                return self._future
            made, ended = make(), self._flight is None
            if not ended and self._flight[0]:
                self._tell(self._ended)  # if that fails, no future exists that never ends
            else:
                self._is_told = True  # also if Ctrl-C came before the end was handled
            self._future = made
        finally:
            if is_mine:
                self._release()
        if ended:
            self._complete(self._future)
        else:
            self._look_again()
        return self._future


CALLS.add(Work._look.__code__)
