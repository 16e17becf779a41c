"""Memory that the ranks of a host share."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hocket._native import ffi, lib
from hocket.arrays import SIZES, dtype_of, resolve, type_of
from hocket.errors import invalid
from hocket.state import State

_MOST_BYTES = (1 << 63) - 1


class WindowMemory:
    """A block of hkt_mem_alloc. The array in it has it as its base; it is freed with the last such array."""

    def __init__(self, state: State, size: int) -> None:
        made = ffi.new("void**")
        self._address = None
        state.call(lib.hkt_mem_alloc, size, made)
        self._state, self._address = state, made[0]
        state.blocks += 1
        self.__array_interface__ = {"version": 3, "shape": (size,), "typestr": "|u1",
                                    "data": (int(ffi.cast("uintptr_t", made[0])), False)}

    @staticmethod
    def array(state: State, shape: int | Sequence[int], dtype: Any) -> Any:
        number = type_of(dtype)
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if any(size < 0 for size in sizes):
            raise invalid(f"the shape is {sizes}; its numbers are 0 or more")
        size = SIZES[number]
        for length in sizes:
            size *= int(length)
        if size > _MOST_BYTES:
            raise invalid(f"the shape is {sizes}: that is {size} bytes, and an array has {_MOST_BYTES} at most")
        made = np.dtype(dtype) if not isinstance(dtype, str) or dtype != "bfloat16" else dtype_of(number)
        if size == 0:
            return np.empty(sizes, made)
        return np.asarray(WindowMemory(state, size)).view(made).reshape(sizes)

    def __del__(self) -> None:
        if self._address is None:
            return
        try:
            if self._state.owned and self._state.is_own():
                lib.hkt_mem_free(self._state.owned, self._address)
            self._state.block_freed()
        except Exception:  # at the end of the interpreter, parts of it may be gone
            pass


class Registration:
    """The memory of an array that is shared in place, until close()."""

    def __init__(self, state: State, array: Any) -> None:
        address, count, number, self._kept = resolve(array, "array", True)
        self._address = None
        state.call(lib.hkt_mem_register, address, count * SIZES[number])
        self._state, self._address, self.array = state, address, array

    def close(self) -> None:
        """Makes the memory private again and keeps its contents; no operation may be using it. A second close() does
        nothing."""
        if self._address is None:
            return
        if self._state.handle and self._state.is_own():
            self._state.call(lib.hkt_mem_deregister, self._address)
        self._address = self._kept = None

    def __enter__(self) -> Any:
        return self.array

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # otherwise it is released with the communicator
            pass
