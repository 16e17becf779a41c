"""Makes Ctrl-C end calls of C that check for nothing until they return."""
from __future__ import annotations

import _thread
import os
import threading
import time
from typing import Any, Callable, TypeVar

Result = TypeVar("Result")
_ASKED_EVERY_S = 0.05
_not_begun: set[object] = set()  # threads that were started
os.register_at_fork(after_in_child=_not_begun.clear)


def start_thread(function: Callable[[], object]) -> None:
    """Runs function() in a thread for which the interpreter does not wait. Raises RuntimeError if no thread can be
    started."""
    number = object()

    def run() -> None:
        _not_begun.discard(number)
        function()

    _not_begun.add(number)
    try:
        _thread.start_new_thread(run, ())
    except RuntimeError as error:
        if "new thread" in str(error):  # otherwise it comes from a signal handler, and the thread exists
            _not_begun.discard(number)
        raise


def wait_until_begun(limit_s: float) -> None:
    """Waits for threads that were started and have not run yet: in the last steps of the interpreter, one that begins
    finds its state freed, and crashes."""
    until = time.monotonic() + limit_s
    while _not_begun and time.monotonic() < until:
        time.sleep(0.001)


def interruptible(function: Callable[[], Result]) -> Result:
    """Calls function() in a separate thread while the main thread waits, where Python runs signal handlers. If one
    raises, the call continues until its deadline, and its result is dropped. For rare calls: each makes a thread."""
    if threading.get_ident() != threading.main_thread().ident:
        return function()
    outcome: list[Any] = []
    is_left = False
    # threading does not suffice: its locks, and the start of its threads, are inconsistent after an exception of a
    # handler.
    under_way = _thread.allocate_lock()
    under_way.acquire()

    def run() -> None:
        try:
            outcome.extend((function(), None))
        except BaseException as error:
            outcome.extend((None, error))
        finally:
            under_way.release()
            if is_left:
                outcome.clear()

    try:
        try:  # the interpreter does not wait for this thread, but ends the call with its communicator (state._close_all)
            start_thread(run)
        except RuntimeError as error:
            if "new thread" not in str(error):  # it comes from a signal handler, and the thread exists
                raise
            return function()  # no thread can be started: there are too many, or the interpreter ends
        while not under_way.acquire(timeout=_ASKED_EVERY_S):  # a signal may reach another thread, which does not wake this one
            pass
    except BaseException:
        is_left = True  # before the next line: a thread that finishes later sees it, and drops its result
        outcome.clear()  # not with this frame, which the exception refers to
        raise
    result, raised = outcome
    outcome.clear()
    if raised is None:
        return result
    try:
        raise raised
    finally:
        del raised  # it refers to this frame
