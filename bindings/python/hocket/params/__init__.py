"""The parameter service: servers keep the weights of a model, workers push gradients and pull weights (docs/params.md).

    with hocket.params.serve("10.0.0.4:7000") as server:                       # a server; or the tool: hocket-params serve
        server.wait()

    weights = {"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)}
    with hocket.params.open(weights, address="10.0.0.4:7000", update="sgd(0.1)", workers=4) as worker:
        for step in range(100):
            worker.pull()                                  # into the arrays of `weights`
            worker.push({"w": gradient_w, "b": gradient_b})
            worker.clock()                                 # this worker's round ends

All arrays are memory of the host: NumPy arrays, PyTorch tensors, and whatever else hocket takes, without gaps.
"""
from __future__ import annotations

from hocket.params.ranks import open_with_ranks
from hocket.params.request import Request
from hocket.params.server import Server, serve, status
from hocket.params.worker import UNBOUNDED, Stats, Worker, open  # noqa: A004 (users say params.open)

__all__ = ["Request", "Server", "Stats", "UNBOUNDED", "Worker", "open", "open_with_ranks", "serve", "status"]
