"""Objects of Python, between all ranks: pickled, so the ranks of a job trust each other, as they do anyway."""
from __future__ import annotations

import pickle
from typing import Any, Callable

import numpy as np

from hocket.errors import invalid

_NOT_PICKLED = -1  # in place of a size: otherwise the others would wait for a rank that has failed


class Objects:
    """The objects of a Communicator. Sizes go before, so the ranks need not know them. These calls wait."""

    _rank: int
    _size: int
    broadcast: Callable[..., Any]
    all_gather: Callable[..., Any]
    all_gather_v: Callable[..., Any]

    def broadcast_object(self, value: Any = None, root: int = 0) -> Any:
        """Returns the root's object on all ranks; on the root, the object itself. The other ranks' values are ignored."""
        if self._rank == root:
            data, error = _pickled(value)
            self.broadcast(_size_of(data), root)
            if error is not None:
                raise error
            self.broadcast(data, root)
            return value
        size = self.broadcast(np.zeros(1, np.int64), root)[0]
        if size == _NOT_PICKLED:
            raise _not_pickled([root])
        return pickle.loads(self.broadcast(np.empty(size, np.uint8), root))

    def all_gather_object(self, value: Any) -> list[Any]:
        """Returns the objects of all ranks, in the order of the ranks."""
        data, error = _pickled(value)
        sizes = self.all_gather(_size_of(data)).ravel().tolist()
        if error is not None:
            raise error
        if _NOT_PICKLED in sizes:
            raise _not_pickled([rank for rank, size in enumerate(sizes) if size == _NOT_PICKLED])
        pieces = np.split(self.all_gather_v(data, sizes), np.cumsum(sizes)[:-1])
        return [pickle.loads(piece.data) for piece in pieces]


def _pickled(value: Any) -> tuple[Any, Exception | None]:
    try:
        return np.frombuffer(bytearray(pickle.dumps(value)), np.uint8), None
    except Exception as error:  # of the object's own functions
        return None, error


def _size_of(data: Any) -> Any:
    return np.array([_NOT_PICKLED if data is None else len(data)], np.int64)


def _not_pickled(ranks: list[int]) -> Exception:
    return invalid(f"the objects of the ranks {ranks} cannot be pickled: see their errors")
