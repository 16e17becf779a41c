"""Calls of C that look at nothing until they have ended, so that Ctrl-C ends them too."""
from __future__ import annotations

import threading
from typing import Any, Callable, List, TypeVar

Result = TypeVar("Result")
_ASKED_EVERY_S = 0.05


def interruptible(function: Callable[[], Result]) -> Result:
    """function(), in a thread of its own, while the main thread waits: there Python runs the handlers of signals. If one
    raises, the call goes on until its deadline, and what it makes is dropped. For calls that are rare: a thread is made."""
    if threading.current_thread() is not threading.main_thread():
        return function()
    outcome: List[Any] = []
    ended, is_left = threading.Event(), threading.Event()

    def run() -> None:
        try:
            outcome.extend((function(), None))
        except BaseException as error:
            outcome.extend((None, error))
        finally:
            ended.set()
            if is_left.is_set():
                outcome.clear()

    try:
        # A daemon: the interpreter does not wait for it, but ends the call with its communicator (state._close_all).
        thread = threading.Thread(target=run, name="hocket-call", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if "new thread" not in str(error):  # it is of a signal's handler, and the thread may be there
                raise
            return function()  # there can be no thread: none is left, or the interpreter ends
        while not ended.wait(_ASKED_EVERY_S):  # a signal may come to another thread, which does not wake this one up
            pass
    except BaseException:
        is_left.set()  # before the next line: who comes later sees that, and drops what it has made
        outcome.clear()  # not with this frame, which the exception has
        raise
    result, error = outcome
    outcome.clear()
    if error is None:
        return result
    try:
        raise error
    finally:
        del error  # it refers to this frame
