"""A parameter service among the ranks of a communicator."""
from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hocket._native import ffi, lib
from hocket.errors import Error
from hocket.interruptible import interruptible
from hocket.params.server import Server, server_of
from hocket.params.tensors import Model
from hocket.params.worker import Worker, options_of, worker_of
from hocket.state import NULL

if TYPE_CHECKING:
    from hocket.communicator import Communicator


def open_with_ranks(comm: Communicator, tensors: Mapping[str, Any], servers: int = 1, *, update: str | None = None,
                    staleness: int | None = 0, tree: str | None = None, rack: str | None = None, chunk_bytes: int | None = None,
                    priority: int | None = None, longest_wait: float | None = None, timeout: float | None = None,
                    gives_weights: bool = True) -> Worker | Server:
    """Does what open() does, among the ranks of comm: the last `servers` of them serve, and get a Server; the others
    get a Worker, with their ranks as numbers. All ranks call this, with the same tensors and options; a server's values
    are ignored. The service does not use comm afterwards, which may be used for anything else, or be closed. If a rank
    fails, all do. Errors: those of open(), and of collectives."""
    state = comm._state
    made, server = ffi.new("hkt_params**"), ffi.new("hkt_params_server**")
    try:
        model = Model(tensors)
        options, ending, kept = options_of(staleness, update=update, tree=tree, rack=rack, chunk_bytes=chunk_bytes, priority=priority,
                                           longest_wait=longest_wait, timeout=timeout)
    except Exception:
        with contextlib.suppress(Error):  # otherwise the other ranks would wait for this one
            interruptible(lambda: state.call(lib.hkt_params_open_with_ranks, servers, NULL, 0, NULL, NULL, made, server))
        raise

    def join() -> Worker | Server:
        given, count, weights = model.for_open(gives_weights)
        state.call(lib.hkt_params_open_with_ranks, servers, given, count, weights, options, made, server)
        return server_of(server[0]) if server[0] else worker_of(made[0], model, staleness, ending, kept)

    return interruptible(join)
