"""Messages between two ranks, by peer and tag."""
from __future__ import annotations

from typing import Any

from hocket._native import ffi, lib
from hocket.arrays import resolve
from hocket.collectives import run
from hocket.request import Request, join
from hocket.state import State


class Messages:
    """The messages of a Communicator. A send and a receive are matched by peer and tag; those with the same tag in the
    order in which each side started them. They are not part of the order of collectives."""

    _state: State

    def send(self, array: Any, peer: int, tag: int = 0, wait: bool = True) -> Any:
        """Sends the array to rank `peer`. Two ranks that send to each other start with wait=False: a send may wait until
        the peer receives."""
        memory, count, number, kept = resolve(array, "array", False)
        return run(self._state, lib.hkt_send, (memory, count, number, peer, tag), kept, None, wait)

    def recv(self, array: Any, peer: int, tag: int = 0, wait: bool = True) -> Any:
        """Receives into the array from rank `peer`, and returns it. The sender's array has as many elements."""
        memory, count, number, kept = resolve(array, "array", True)
        return run(self._state, lib.hkt_recv, (memory, count, number, peer, tag), kept, array, wait)

    def recv_any(self, array: Any, tag: int = 0, wait: bool = True) -> Any:
        """Receives into the array from whichever rank sends with the tag, and returns the sender's rank."""
        memory, count, number, kept = resolve(array, "array", True)
        source = ffi.new("int32_t*")
        return run(self._state, lib.hkt_recv_any, (memory, count, number, tag, source),
                   (kept, source), lambda: source[0], wait)

    def join(self, requests: Any) -> Request[Any]:
        """Returns one request for several of this communicator: it ends when all have ended, and its result is the list
        of their results. It owns them from now on."""
        return join(self._state, list(requests))
