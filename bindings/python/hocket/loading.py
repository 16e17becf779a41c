"""Functions of the program that a cache calls on its threads: read, decode, and the progress of a check."""
from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from traceback import clear_frames
from typing import Any, Callable

import numpy as np

from hocket._native import ffi, lib
from hocket.errors import Error, keep
from hocket.state import in_callback


def _into_value(value: Any, data: Any) -> int:
    found = ffi.from_buffer(np.ascontiguousarray(data) if isinstance(data, np.ndarray) else data)
    room = lib.hkt_cache_value_reserve(value, len(found))
    if not room:
        return lib.HKT_ERROR_LIMIT
    ffi.memmove(room, found, len(found))
    return lib.HKT_SUCCESS


def _status_of(error: BaseException) -> int:
    if isinstance(error, Error) and error.status < 0:
        return error.status
    if isinstance(error, LookupError):
        return lib.HKT_ERROR_NOT_FOUND
    return lib.HKT_ERROR_OUT_OF_MEMORY if isinstance(error, MemoryError) else lib.HKT_ERROR_IO


class Functions:
    """A cache's read and decode functions, and their last exceptions. (It does not refer to the cache, which can thus
    be freed as soon as it is dropped.)"""

    def __init__(self, read: Any, decode: Any) -> None:
        self.read, self.decode = read, decode
        self.count = len(read) if hasattr(type(read), "__len__") else 0  # 0: not known
        self.find = getattr(read, "find", None) if hasattr(read, "dataset") else None  # of a source of Python's
        self._raised: deque[tuple[int, BaseException]] = deque(maxlen=16)  # with the sample's key

    def run(self, value: Any, function: Callable[..., Any], key: int, *encoded: Any) -> int:
        with in_callback:
            try:
                return _into_value(value, function(key, *encoded))
            except BaseException as error:  # an exception must not leave a C function
                # Clears the frames, which may refer to large arrays; this one refers to memory of the cache.
                clear_frames(error.__traceback__)
                error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
                self._raised.append((key, error))
                return _status_of(error)

    def take_cause(self, status: int, keys: Sequence[int] | np.ndarray[Any, Any]) -> BaseException | None:
        """Returns the exception because of which a get of these keys has failed with the status, if one of the
        functions raised it."""
        for key, error in reversed(list(self._raised)):
            if _status_of(error) == status and key in keys:
                return error
        return None


@ffi.def_extern(name="hkt_py_cache_read", error=lib.HKT_ERROR_IO)
def _read(context: Any, key: int, value: Any) -> int:
    functions = ffi.from_handle(context)
    return functions.run(value, functions.read, key)


@ffi.def_extern(name="hkt_py_cache_decode", error=lib.HKT_ERROR_IO)
def _decode(context: Any, key: int, encoded: Any, size: int, value: Any) -> int:
    functions = ffi.from_handle(context)
    return functions.run(value, functions.decode, key, memoryview(ffi.buffer(encoded, size)).toreadonly())


@ffi.def_extern(name="hkt_py_verify_progress", error=1, onerror=keep)
def _progress(context: Any, done: int, all_: int) -> int:
    return 1 if ffi.from_handle(context)(done, all_) else 0
