"""Calls of C that look at nothing until they have ended, so that Ctrl-C ends them too."""
from __future__ import annotations

import _thread
import threading
from typing import Any, Callable, TypeVar

Result = TypeVar("Result")
_ASKED_EVERY_S = 0.05


def interruptible(function: Callable[[], Result]) -> Result:
    """function(), in a thread of its own, while the main thread waits: there Python runs the handlers of signals. If one
    raises, the call goes on until its deadline, and what it makes is dropped. For calls that are rare: a thread is made."""
    if threading.get_ident() != threading.main_thread().ident:
        return function()
    outcome: list[Any] = []
    is_left = False
    # What threading has would not do: its locks, and the start of its threads, are out of order after an exception of a handler.
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
            _thread.start_new_thread(run, ())
        except RuntimeError as error:
            if "new thread" not in str(error):  # it is of a signal's handler, and the thread is there
                raise
            return function()  # there can be no thread: none is left, or the interpreter ends
        while not under_way.acquire(timeout=_ASKED_EVERY_S):  # a signal may come to another thread, which does not wake this one up
            pass
    except BaseException:
        is_left = True  # before the next line: who comes later sees that, and drops what it has made
        outcome.clear()  # not with this frame, which the exception has
        raise
    result, raised = outcome
    outcome.clear()
    if raised is None:
        return result
    try:
        raise raised
    finally:
        del raised  # it refers to this frame
