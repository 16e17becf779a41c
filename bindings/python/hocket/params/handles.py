"""The part behind a Worker or a Server: the C handle, the calls that are in it, and its end."""
from __future__ import annotations

from typing import Any, Callable

from hocket._native import ffi, lib
from hocket.errors import invalid
from hocket.interruptible import interruptible
from hocket.state import NULL, Ending, Handle, forget, is_busy, is_in_call


class ServiceHandle(Handle):
    """ending       checked by waits in C: see state.Ending
    kept         objects that C uses as long as the handle is open
    """

    __slots__ = ("what", "ending", "kept", "_close", "_unfreed")

    def __init__(self, what: str, handle: Any, close: Callable[[Any], None], ending: Ending, kept: Any) -> None:
        """what: "worker" or "server", for messages. close: frees a handle."""
        self.what, self.ending, self.kept = what, ending, kept
        self._close = close
        self._unfreed = [handle]  # the thread that pops it frees it
        super().__init__(handle)

    def refuse_beside_a_call(self) -> None:
        if is_busy() or is_in_call():
            raise invalid(f"a {self.what} cannot be closed by a handler of a signal beside a call: close it later")

    def close(self) -> None:
        if self.handle:
            self.refuse_beside_a_call()
            self.destroy()

    def _tell_calls(self) -> None:
        self.ending.has_begun = True

    def _free(self, patience_s: float) -> None:
        if self.is_own():
            interruptible(self._free_now)  # it may wait for others
        else:
            self._free_now()

    def _free_now(self) -> None:
        try:
            handle = self._unfreed.pop()
        except IndexError:  # another thread is freeing it
            return
        self._close(handle)
        self.owned = NULL
        forget(self)
        self.freed()  # only now: until then dropped requests keep their arrays, to which C may still write
        self.kept = None


def ending_for(options: Any) -> tuple[Ending, Any]:
    """Makes waits in C end when Ctrl-C comes, or when the handle is closed. Returns the Ending, and the object that
    keeps it alive for C."""
    ending = Ending()
    user = ffi.new_handle(ending)
    options.is_interrupted, options.interrupt_user = lib.hkt_py_is_interrupted, user
    return ending, user
