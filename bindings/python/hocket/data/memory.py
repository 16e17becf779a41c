"""Samples that were loaded together, as tensors in one memory, which a DataLoader's worker sends on without a copy."""
from __future__ import annotations

import copy
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import torch

from hocket.cache import Cache
from hocket.errors import invalid
from hocket.shared import SharedCache, SlotName, taken


def _piece(data: torch.Tensor, begin: int, end: int, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    piece = data if begin == 0 and end == len(data) else data[begin:end]
    return (piece if dtype is torch.uint8 else piece.view(dtype)).view(shape)


class Loaded:
    """data: the samples as bytes, one after another; sample i is data[offsets[i]:offsets[i + 1]]."""

    def __init__(self, data: np.ndarray[Any, Any], offsets: np.ndarray[Any, Any], sendable: _Sendable | None = None) -> None:
        self._data, self.offsets, self._sendable = torch.from_numpy(data), offsets.astype(np.int64), sendable

    @staticmethod
    def of(cache: Cache | SharedCache, keys: np.ndarray[Any, Any]) -> Loaded:
        if not isinstance(cache, SharedCache) or torch.utils.data.get_worker_info() is None:
            return Loaded(*cache.copy_ragged(keys))
        lent, offsets = cache.ragged_to_send(keys)
        data = np.asarray(lent)
        return Loaded(data, offsets, _Sendable(cache._name, lent, data.ctypes.data))

    def size_of_each(self, first: int, keys: np.ndarray[Any, Any]) -> int:
        """Returns the size of the samples with these keys, which begin with the one at `first`."""
        return Cache._rows(keys, self.offsets[first:first + len(keys) + 1], "use Dataset(..., ragged=True)")

    def piece(self, begin: int, end: int, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
        """Returns the samples from begin to end as one tensor. Throws RuntimeError if they are none."""
        tensor = _piece(self._data, int(self.offsets[begin]), int(self.offsets[end]), dtype, shape)
        if self._sendable is None:
            return tensor
        sent = tensor.as_subclass(_Sent)
        sent.sendable = self._sendable
        return sent


class _Sendable:
    """Memory of the cache that a worker can send to the program, once. Pickle writes it once in a message, however many
    tensors lie in it."""

    def __init__(self, name: str, lent: Any, address: int) -> None:
        self._name, self._lent, self.address = name, lent, address

    @property
    def size(self) -> int:
        return self._lent.size

    def give_away(self) -> Any:
        # The program may have dropped it by now, and the cache used it for other samples. A queue writes what it sends in a
        # thread whose errors nobody sees: the program has this one instead.
        if self._lent.is_given_away:
            return _refuse, ()
        self._lent.is_given_away = True
        return _taken, (self._name, self._lent.slot, self._lent.size)


def _taken(name: str, slot: Any, size: int) -> torch.Tensor:
    return torch.from_numpy(taken(name, SlotName(*slot), size))


def _refuse() -> None:
    raise invalid("a worker has sent a batch twice, or its samples in several messages: their memory went with the first one. Let it send, or "
                  "keep, batch.clone()")


class _Sent(torch.Tensor):
    """A tensor in a worker, in memory of the cache. If the worker sends it as it is to another process, its memory goes
    along. For all else it is a tensor as others are, and so are its copies and the results of operations on it."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    sendable: _Sendable

    def plain(self) -> torch.Tensor:
        return self.detach().as_subclass(torch.Tensor).requires_grad_(self.requires_grad)

    def send(self) -> Any:
        # It may have been resized, transposed or set to other memory in place.
        begin = self.data_ptr() - self.sendable.address
        end = begin + self.numel() * self.element_size()
        if self.numel() > 0 and self.is_contiguous() and not self.requires_grad and 0 <= begin and end <= self.sendable.size:
            return _piece, (self.sendable, begin, end, self.dtype, tuple(self.shape))
        return torch.Tensor.detach, (self.plain().detach().clone(),)

    def __reduce_ex__(self, protocol: Any) -> Any:  # for torch.save, and all that is no message
        return self.plain().detach().clone().requires_grad_(self.requires_grad).__reduce_ex__(protocol)

    def __copy__(self) -> torch.Tensor:
        return self.plain()

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        return copy.deepcopy(self.plain(), memo)


# What queues and pipes of processes write with. Another pickler's bytes may be read several times, or never.
ForkingPickler.register(_Sent, _Sent.send)
ForkingPickler.register(_Sendable, _Sendable.give_away)
