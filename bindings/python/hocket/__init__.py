"""Hocket: collectives for machine learning, written as schedules, on NumPy arrays, PyTorch tensors and their like.

    import hocket, numpy as np
    comm = hocket.init()                      # from the environment, as in C
    x = np.full(1000, comm.rank, np.float32)
    comm.all_reduce(x)                        # in place; op="sum"
    every = comm.all_gather(x)                # a new array, (size, 1000)
    request = comm.all_reduce(x, wait=False)  # moves by itself
    request.wait()

docs/python.md is a tutorial. Everything stands on the C ABI, hocket.h.
"""
from __future__ import annotations

import sys
from typing import Any

try:
    import _cffi_backend  # noqa: F401 (hocket._native's, which would not say what to install)
    import numpy  # noqa: F401
except ModuleNotFoundError as missing:
    package = "cffi" if missing.name == "_cffi_backend" else missing.name
    raise ModuleNotFoundError(f"hocket needs the package {package}, and {sys.executable} has none: {sys.executable} -m pip install {package}",
                              name=package) from None

from hocket import errors, kernels, overlap, params
from hocket._native import ffi as _ffi, lib as _lib
from hocket.arrays import TYPES, Memory
from hocket.batch import Batch
from hocket.cache import Cache
from hocket.communicator import NEWCOMER, Communicator, init, unique_id, unique_id_destroy, unique_id_waiting
from hocket.errors import Error
from hocket.operators import OPS, Operator, supports
from hocket.plan import Plan
from hocket.request import Request, wait_all
from hocket.schedules import check, explain
from hocket.shared import SharedCache

__version__: str = _ffi.string(_lib.hkt_version()).decode()


def version() -> str:
    """The version of the library, e.g. "0.1.0"."""
    return __version__


def __getattr__(name: str) -> Any:
    """The exceptions, by their names: hocket.PeerLostError."""
    if name in errors.__all__:
        return getattr(errors, name)
    raise AttributeError(f"module 'hocket' has no attribute {name!r}")


__all__ = [  # noqa: PLE0604 (those of errors are text, too)
    "Batch", "Cache", "Communicator", "Error", "Memory", "NEWCOMER", "OPS", "Operator", "Plan", "Request", "SharedCache",
    "TYPES", "check", "errors", "explain", "init", "kernels", "overlap", "params", "supports", "unique_id",
    "unique_id_destroy", "unique_id_waiting", "version", "wait_all", *errors.__all__[1:]]
