"""The part behind a Communicator and other objects with requests: the handle, the calls that are in it, and the objects
that operations in flight use.

Python objects may be dropped, closed or used from several threads at any time; the C ABI requires that no call begins
after a handle was destroyed, and that buffers stay until their operation has ended. This module ensures both.
"""
from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from types import FrameType
from typing import Any, Callable, NoReturn

from hocket._native import ffi, lib
from hocket.errors import error_of, invalid, keep, out_of_range, raise_last
from hocket.interruptible import wait_until_begun

NULL = ffi.NULL
FLIGHT = ffi.typeof("hkt_request*[3]")  # a request, or null and its status; hkt_py_wait in glue.c waits for it
get_ident = threading.get_ident
_busy = threading.local()  # .count: how many functions called by Hocket this thread is in


def is_busy() -> bool:
    """Returns True if this thread is in a function that Hocket has called: then nothing may be destroyed."""
    return getattr(_busy, "count", 0) > 0


CALLS: set[Any] = set()  # the code of the functions that are in calls of a communicator


def is_in_call() -> bool:
    """Returns True if this thread is in a call of some communicator: then it runs a signal handler or a finalizer."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code in CALLS:
            return True
        frame = frame.f_back
    return False


def destroy_later(thing: Any) -> None:
    """Destroys an object that was dropped in such a function, by it or by the garbage collector."""
    threading.Thread(target=thing.destroy, name="hocket-destroy").start()


class Handle:
    """The state of an object with requests. They refer to it, so it outlives them.

    handle      of C, for calls; null once it is closed.
    owned       the same, until it is destroyed: later than closed if something of it is still used.
    is_freed    True once C has freed it. Until then, also while it is being destroyed, C may write to buffers.
    inside      has the thread of each call that is under way: appending and removing are atomic.
    """

    __slots__ = ("handle", "owned", "is_freed", "inside", "orphans", "process", "__weakref__")
    what = "handle"  # in texts of errors

    def __init__(self, handle: Any) -> None:
        self.handle = self.owned = handle
        self.is_freed = False
        self.inside: list[int] = []
        self.orphans: list[tuple[Any, Any]] = []  # requests whose object was dropped, and the objects they use
        self.process = os.getpid()
        note_open(self)

    def fail(self, status: int) -> NoReturn:
        """Raises the error of a failed call with `handle`."""
        if not self.handle:
            raise error_of(lib.HKT_ERROR_ABORTED, f"the {self.what} is closed")
        self._raise(status)

    def _raise(self, status: int) -> NoReturn:
        raise_last(status)

    def check(self, status: int) -> None:
        if status < 0:
            self.fail(status)

    def call(self, function: Callable[..., int], *arguments: Any, of: Any = None) -> int:
        """Makes a call without a request, such as hkt_mem_register(comm, ...): function(handle, *arguments); returns
        its status. The handle is read when the call is counted: otherwise another thread might destroy it in between.
        of: a handle that belongs to the communicator, to be used instead."""
        thread = get_ident()
        self.inside.append(thread)
        try:
            try:
                handle = self.handle if of is None else of
                status = function(handle, *arguments) if self.handle else lib.HKT_ERROR_ABORTED
            except OverflowError as error:
                raise out_of_range(function, (handle, *arguments), error) from None
            self.check(status)
            return status
        finally:
            self.inside.remove(thread)

    def reap(self) -> None:
        """Releases the objects used by operations that have ended and that no thread waits for."""
        thread = get_ident()
        self.inside.append(thread)
        try:
            if not self.handle:
                return
            # Removes one at a time, and never rebuilds the list: a signal handler may raise between any two steps, and
            # no operation in flight may get lost then.
            for one in list(self.orphans):
                if lib.hkt_py_wait(one[0], 0) != lib.HKT_IN_PROGRESS:
                    try:
                        self.orphans.remove(one)
                    except ValueError:  # another thread was first
                        pass
        finally:
            self.inside.remove(thread)

    def leave(self, flight: Any, kept: Any) -> None:
        """Keeps the objects of an operation that no thread waits for any more, because it was dropped or the handle is
        being closed: C may write to them until the handle is freed, which may come later."""
        if flight[0]:
            self.orphans.append((flight, kept))
        if self.is_freed:  # nobody else releases them
            self.orphans.clear()

    def freed(self) -> None:
        """To be called when C has freed the handle."""
        self.is_freed = True
        self.orphans.clear()

    def is_own(self) -> bool:
        """False in a forked child, which has only a copy that must be freed."""
        return self.process == os.getpid()

    def destroy(self, patience_s: float = 30) -> None:
        self.handle = NULL  # no call begins from here on
        if not self.owned:
            return
        in_call = is_in_call()
        if is_busy() or (in_call and self.is_own()):
            destroy_later(self)
            return
        if not in_call:  # operations left by an exception in a handler, at points that Python cannot guard
            while get_ident() in self.inside:
                self.inside.remove(get_ident())
        if self.inside and self.is_own():
            self._end_calls(patience_s)
        self._free(patience_s)

    def abandon(self) -> None:
        """Does nothing: the memory is freed with the process."""
        self.handle = self.owned = NULL

    def _tell_calls(self) -> None:
        """Makes calls of other threads end."""
        raise NotImplementedError

    def _free(self, patience_s: float) -> None:
        """Frees the handle. No call is in it any more, and none begins."""
        raise NotImplementedError

    def _end_calls(self, patience_s: float) -> None:
        self._tell_calls()
        until = time.monotonic() + patience_s
        while self.inside:
            if time.monotonic() > until:
                raise error_of(lib.HKT_ERROR_TIMEOUT, f"{len(self.inside)} calls of the {self.what} have not ended "
                               f"{patience_s:g} s after they were told to; its memory is not freed")
            time.sleep(0.001)

    def __del__(self) -> None:
        try:
            if self.owned:
                self.destroy()
        except Exception:  # at the end of the interpreter, parts of it may be gone
            pass


class State(Handle):
    """The state of a communicator. Requests, plans, operators and window memory refer to it.

    exchanges   objects to close before the communicator is destroyed, by number: see overlap.exchange.Opened.
    """

    __slots__ = ("told", "exchanges", "blocks", "kept")
    what = "communicator"

    def __init__(self, handle: Any, kept: Any = None) -> None:
        self.told: dict[int, Callable[[], None]] = {}  # by the id of its user: the function called when a request ends
        self.exchanges: dict[int, Any] = {}
        self.blocks = 0  # of window memory that contain Python arrays
        self.kept = kept
        super().__init__(handle)

    def _raise(self, status: int) -> NoReturn:
        raise_last(status, self.handle)

    def close(self) -> None:
        """Ends calls of other threads, and destroys the communicator; if window memory is in use, once that is free."""
        if not self.handle:
            return
        if is_busy() or is_in_call():
            raise invalid("a communicator cannot be closed by a function that Hocket calls, nor by a handler of a signal "
                          "beside a call: call abort() there, and close it later")
        if self.blocks and self.is_own():
            self.handle = NULL  # it is destroyed with the last array, but waits end now
            if self.inside or self.told:
                lib.hkt_comm_abort(self.owned)
            self._close_exchanges(30)  # they use the arrays
        else:
            self.destroy()

    def leave(self, flight: Any, kept: Any) -> None:
        if not self.blocks:  # otherwise it was aborted, and is destroyed once its arrays are freed
            super().leave(flight, kept)

    def block_freed(self) -> None:
        self.blocks -= 1
        if self.blocks == 0 and not self.handle:
            self.destroy()

    def _free(self, patience_s: float) -> None:
        self._close_exchanges(patience_s)
        handle, self.owned = self.owned, NULL
        if not handle:  # another thread is freeing it
            return
        forget(self)
        lib.hkt_comm_destroy(handle)  # operations move on in it
        self.freed()
        told = list(self.told.values())
        if self.is_own():
            for function in told:  # their requests ended with the communicator
                function()
        self.told.clear()

    def _close_exchanges(self, patience_s: float) -> None:
        """Closes the exchanges; no call begins any more. An iteration under way is given up: other ranks may have left
        it."""
        if self.exchanges and self.is_own():
            if any(one.is_under_way for one in list(self.exchanges.values())):
                lib.hkt_comm_abort(self.owned)
            if self.inside:
                self._end_calls(patience_s)
        while self.exchanges:
            self.exchanges.popitem()[1].close()

    def _tell_calls(self) -> None:
        lib.hkt_comm_abort(self.owned)


CALLS.add(Handle.call.__code__)


# ---- Open objects --------------------------------------------------------------------------------------------------

_open: dict[int, Any] = {}  # in the order in which they were made: references to objects with destroy() and abandon()


def note_open(thing: Any) -> None:
    _open[id(thing)] = weakref.ref(thing)


def forget(thing: Any) -> None:
    _open.pop(id(thing), None)


@atexit.register
def _close_all() -> None:
    """Closes everything before the interpreter ends: then no thread of Hocket's may be left that could call into it.
    The newest first: a cache before its communicator. A forked child does not touch its parent's objects."""
    own = [thing for thing in (reference() for reference in _open.values()) if thing is not None and thing.is_own()]
    inside = {thread for thing in own for thread in getattr(thing, "inside", ())}
    for thing in reversed(own):
        try:
            thing.destroy(5)
        except Exception:
            thing.abandon()  # calls are still in it, and are not waited for any more
    # Exceptions of those calls are printed now: a thread that prints while the interpreter ends makes it abort.
    until = time.monotonic() + 1
    for thread in threading.enumerate():
        if thread.ident in inside and thread is not threading.current_thread():
            thread.join(max(until - time.monotonic(), 0))
    wait_until_begun(5)


# ---- Functions that Hocket calls ------------------------------------------------------------------------------------

class _Inside:
    """Marks that this thread is in a function that Hocket has called."""

    def __enter__(self) -> None:
        _busy.count = getattr(_busy, "count", 0) + 1

    def __exit__(self, *_: Any) -> None:
        _busy.count -= 1


in_callback = _Inside()


@ffi.def_extern(name="hkt_py_is_interrupted", error=1, onerror=keep)
def _is_interrupted(user: Any) -> int:
    """Python runs signal handlers between its instructions on the main thread: also here. If one raises, `keep` stores
    the exception, and the wait ends. user: an Ending, whose calls should end for another reason; or null."""
    for _ in (1, 2):
        pass
    return 1 if user and ffi.from_handle(user).has_begun else 0


class Ending:
    """Tells calls that their object is being closed: then they end. It refers to nothing, because C refers to it."""

    __slots__ = ("has_begun",)

    def __init__(self) -> None:
        self.has_begun = False


@ffi.def_extern(name="hkt_py_ended")
def _ended(user: Any) -> None:
    with in_callback:
        told = ffi.from_handle(user)
        told()
        del told  # it may hold the last reference to the communicator


def _nothing() -> None:
    pass


class Told:
    """A function that is called once, when a request has ended or its communicator is closed."""

    def __init__(self, state: State, function: Callable[[], None]) -> None:
        self._state, self._function = state, function
        self.user = ffi.new_handle(self)
        state.told[id(self)] = self

    def cancel(self) -> None:
        """Calls nobody. It stays registered, because Ctrl-C may have come when C knew it already."""
        self._function = _nothing

    def __call__(self) -> None:
        self._state.told.pop(id(self), None)
        self.user = None  # it refers to this object
        try:
            self._function()
        except BaseException:  # there is no caller to pass it to
            import traceback
            traceback.print_exc()
