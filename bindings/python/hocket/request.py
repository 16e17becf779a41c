"""Operations that progress on their own: the result of a call with wait=False."""
from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Sequence
from typing import Any, Callable, Generic, TypeVar, cast

from hocket._native import ffi, lib
from hocket.errors import Error, error_of, invalid, raise_pending
from hocket.options import LONGEST_S
from hocket.state import CALLS, FLIGHT, Handle, State, Told, get_ident, is_in_call

Result = TypeVar("Result")


class Request(Generic[Result]):
    """An operation that was started. Its arrays are Hocket's until it has ended, and are kept alive until then, also if
    this object is dropped. `await request` is wait() for programs with asyncio. Thread-safe."""

    __slots__ = ("_state", "_flight", "_kept", "_result", "_error", "_lock", "_whole", "__weakref__")

    def __init__(self, state: Handle, flight: Any, kept: Any, result: Any) -> None:
        """flight: see state.FLIGHT; None: it has ended. kept: objects that the operation uses. result: the result of
        wait(), or a function that returns it."""
        self._state = state
        self._flight = flight
        self._kept = kept
        self._result = result
        self._error: Error | None = None
        self._lock = threading.Lock()
        self._whole: Request[Any] | None = None  # the request that this one was joined into

    def wait(self, timeout: float | None = None) -> Result:
        """Waits until the operation has ended, and returns its result: what the blocking call would have returned.

        timeout: in seconds. If the operation has not ended by then, raises InProgressError (a builtin TimeoutError);
        that breaks nothing, and it can be waited for again. If the operation failed, raises its error, each time.
        Ctrl-C ends the wait with KeyboardInterrupt; the operation goes on.
        """
        if timeout is not None:
            checked(timeout)
        if self._whole is not None:
            self._whole.wait(timeout)
            return self._take()
        if not self._acquire(timeout):
            raise _in_progress(timeout)
        try:
            if self._flight is not None:
                self._wait(timeout)
        finally:
            self._lock.release()
        if self._error is not None:
            raise self._error
        return self._take()

    def _acquire(self, timeout: float | None) -> bool:
        if self._lock.acquire(False):
            return True
        if is_in_call():
            raise invalid("a handler of a signal, or a finalizer, cannot wait for a request, or ask to be told of it, beside a "
                          "wait of the same thread; done() can be asked")
        return self._lock.acquire(timeout=-1 if timeout is None else min(timeout, threading.TIMEOUT_MAX))

    def _take(self) -> Result:
        result = self._result
        return result() if callable(result) else result

    def done(self) -> bool:
        """Returns True if the operation has ended, successfully or not. Never waits."""
        if self._whole is not None:
            return self._whole.done()
        if not self._lock.acquire(False):
            return False  # another thread waits for it
        try:
            return self._flight is None or self._step(0)
        finally:
            self._lock.release()

    def add_done_callback(self, function: Callable[[Request[Result]], Any]) -> None:
        """Calls function(request) when the operation has ended, on a thread of the communicator that does nothing else;
        at once and on this thread if it has already ended. The function may use Hocket, but must not close the
        communicator. An exception that it raises is printed."""
        if not callable(function):
            raise invalid(f"{function!r} cannot be called")
        if self._whole is not None:
            self._whole.add_done_callback(lambda _: function(self))
            return
        if self._flight is None or not self._will_tell(function):
            Told(cast(State, self._state), lambda: function(self))()

    def _will_tell(self, function: Callable[[Request[Result]], Any]) -> bool:
        """Returns False if the operation has ended meanwhile. If this raises, the function is never called."""
        self._acquire(None)
        try:
            state = cast(State, self._state)  # only requests of a communicator come here
            state.inside.append(get_ident())
            try:
                if self._flight is None or not self._flight[0]:
                    return False
                if not state.handle:
                    return not self._step(0)  # given up, as by wait()
                told = Told(state, lambda: function(self))
                try:
                    status = lib.hkt_request_callback(self._flight[0], lib.hkt_py_ended, told.user)
                    if status < 0:
                        state.told.pop(id(told), None)
                        state.fail(status)
                except BaseException:
                    told.cancel()
                    raise
                return True
            finally:
                state.inside.remove(get_ident())
        finally:
            self._lock.release()

    def __await__(self) -> Generator[Any, None, Result]:
        if self._whole is not None:
            yield from self._whole.__await__()
            return self._take()
        if self._flight is not None:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()

            def wake() -> None:
                if not future.done():
                    future.set_result(None)

            def ended(_: Any) -> None:
                try:
                    loop.call_soon_threadsafe(wake)
                except RuntimeError:  # the loop is closed, and no longer waits
                    pass

            self.add_done_callback(ended)
            yield from future
        return self.wait()

    # ---- inside, with the lock -----------------------------------------------------------------------------------

    def _wait(self, timeout: float | None) -> None:
        milliseconds = -1 if timeout is None else int(min(timeout, LONGEST_S) * 1000 + 0.999)
        if not self._step(milliseconds):
            raise _in_progress(timeout)

    def _step(self, milliseconds: int) -> bool:
        """Waits this long, -1: without a limit. Returns True if the operation has ended."""
        state = self._state
        state.inside.append(get_ident())
        try:
            if not state.handle:
                state.leave(self._flight, self._kept)
                self._end(error_of(lib.HKT_ERROR_ABORTED, f"the {state.what} was closed before the operation had ended"))
                return True
            status = lib.hkt_py_wait(self._flight, milliseconds)
            if status == lib.HKT_IN_PROGRESS:
                return False
            if status == lib.HKT_ERROR_INTERRUPTED:
                raise_pending()
                state.fail(status)
            try:
                state.check(status)
                self._end(None)
            except Error as error:
                self._end(error)
            return True
        finally:
            state.inside.remove(get_ident())

    def _end(self, error: Error | None) -> None:
        self._flight = self._kept = None
        self._error = self._error or error

    def __del__(self) -> None:
        try:
            if self._flight is not None:
                Handle.leave(self._state, self._flight, self._kept)
        except AttributeError:  # it was never started
            pass

    def __repr__(self) -> str:
        return f"<hocket.Request: {'in flight' if self._flight is not None else self._error or 'done'}>"


CALLS.add(Request._step.__code__)


def checked(timeout: float) -> float:
    if not 0 <= timeout < float("inf"):
        raise invalid(f"timeout is {timeout}; it is a number of seconds, 0 or more, or None: as long as it takes")
    return timeout


def _in_progress(timeout: float | None) -> Error:
    return error_of(lib.HKT_IN_PROGRESS, f"the operation has not ended within {timeout:g} s; it goes on, and can be waited for again")


def wait_all(requests: Sequence[Request[Any]]) -> list[Any]:
    """Waits for all requests, and returns their results. Raises the first error, once all have ended."""
    error: BaseException | None = None
    results = []
    for request in requests:
        try:
            results.append(request.wait())
        except Error as failed:
            error = error or failed
    if error is not None:
        raise error
    return results


def join(state: State, requests: Sequence[Request[Any]]) -> Request[list[Any]]:
    """Calls hkt_request_join. Leaves out requests that have ended already; wait() raises the error of one that
    failed."""
    if any(request._state is not state for request in requests):
        raise invalid("requests of several communicators cannot be joined; join those of each by themselves")
    if any(request._whole is not None for request in requests):
        raise invalid("a request that was joined cannot be joined again; join all of them at once")
    flying = [request for request in dict.fromkeys(requests) if not request.done()]
    flight = ffi.new(FLIGHT)
    made: Request[list[Any]] = Request(state, flight if flying else None, [request._kept for request in flying],
                                  lambda: [request._take() for request in requests])
    made._error = next((request._error for request in requests if request._error is not None), None)
    if not flying:
        return made
    handles = [request._flight[0] for request in flying]
    try:
        state.call(lambda _: lib.hkt_request_join(handles, len(flying), flight))
    finally:
        if flight[0]:
            for request in flying:
                request._flight, request._whole = None, made
        else:
            made._flight = None
    return made
