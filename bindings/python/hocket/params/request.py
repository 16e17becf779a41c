"""Pushes, pulls and checkpoints that progress on their own: the result of a call with wait=False."""
from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import Any, Callable, TypeVar

from hocket import request as requests
from hocket._native import ffi, lib
from hocket.errors import Error, invalid
from hocket.state import FLIGHT, Handle

Result = TypeVar("Result")
_LOOKED_EVERY_S = 0.05


class Request(requests.Request[Result]):
    """A push, pull or checkpoint that was started. Its arrays are Hocket's until it has ended, and are kept alive until
    then, also if this object is dropped. `await request` is wait() for programs with asyncio. Thread-safe.

    A request of the service cannot be joined with others, and supports no callbacks."""

    __slots__ = ("_parts",)

    def __init__(self, state: Handle, parts: list[requests.Request[None]], result: Any) -> None:
        """parts: one request for each run of consecutive tensors. result: as in hocket.Request."""
        super().__init__(state, None, None, result)
        self._parts = parts

    def wait(self, timeout: float | None = None) -> Result:
        """Waits until all of it has ended, and returns what the blocking call would have returned.

        timeout: in seconds. If the request has not ended by then, raises InProgressError (a builtin TimeoutError); that
        breaks nothing, and it can be waited for again. If it failed, raises its error, each time. Ctrl-C ends the wait
        with KeyboardInterrupt; the operation goes on."""
        until = None if timeout is None else time.monotonic() + requests.checked(timeout)
        error: Error | None = None
        for part in self._parts:
            try:
                part.wait(None if until is None else max(0.0, until - time.monotonic()))
            except Error as failed:
                if failed.status == lib.HKT_IN_PROGRESS:
                    raise
                error = error or failed
        if error is not None:
            raise error
        return self._take()

    def done(self) -> bool:
        """Returns True if it has ended, successfully or not. Never waits."""
        return all([part.done() for part in self._parts])

    def failed(self) -> bool:
        """Returns True if it has ended with an error. Never waits."""
        return self.done() and any(part._error is not None for part in self._parts)

    def add_done_callback(self, function: Callable[[requests.Request[Result]], Any]) -> None:
        """Not supported: the service does not report the end of requests."""
        raise invalid("a request of the parameter service calls nobody when it ends: use wait(), done() or await")

    def __await__(self) -> Generator[Any, None, Result]:
        while not self.done() and not (yield from asyncio.get_running_loop().run_in_executor(None, self._ends_soon)):
            pass
        return self.wait()

    def _ends_soon(self) -> bool:
        """For an event loop, which joins its executor's threads when it ends, so that no thread waits for long."""
        try:
            self.wait(_LOOKED_EVERY_S)
        except Error as error:  # the next wait raises it again
            return error.status != lib.HKT_IN_PROGRESS
        return True

    def __repr__(self) -> str:
        errors = [part._error for part in self._parts if part._error is not None]
        return f"<hocket.params.Request: {(errors[0] if errors else 'done') if self.done() else 'in flight'}>"


def start(state: Handle, function: Callable[..., int], arguments: tuple[Any, ...], kept: Any, flight: Any = None) -> requests.Request[None]:
    """Starts function(handle, *arguments, request). kept: objects that the operation uses until it has ended. flight:
    of state.FLIGHT, for a caller that checks it to see if the operation was started, also after an exception."""
    if state.orphans:
        state.reap()
    if flight is None:
        flight = ffi.new(FLIGHT)
    try:
        state.call(function, *arguments, flight)
    except BaseException:
        if flight[0]:  # interrupted: the operation continues, and uses the arrays
            state.orphans.append((flight, kept))
        raise
    return requests.Request(state, flight, kept, None)
