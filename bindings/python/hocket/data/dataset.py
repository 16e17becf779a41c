"""Samples of a cache as tensors: one by its number, or several at once."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable

import numpy as np
import torch

from hocket.cache import Cache
from hocket.data.memory import Loaded
from hocket.data.orders import in_order, numbers_of
from hocket.errors import invalid
from hocket.shared import SharedCache


class Dataset(torch.utils.data.Dataset):
    """The samples of a cache, as tensors. dataset[key] is a sample, and dataset[-1] the last one. dataset[2:5] and
    dataset[[key, key, ...]] are batches: one tensor, whose first dimension are the samples, filled in C.

    dtype and shape: of one sample; shape None: one dimension. ragged: samples may have different sizes; a batch is a list
    of tensors, and one number in shape may be -1. transform: a function that is called with the batch (or the sample) and
    the keys, and whose result is given instead: labels, augmentation.
    """

    def __init__(self, cache: Cache | SharedCache, dtype: torch.dtype = torch.uint8,
                 shape: Sequence[int] | None = None, transform: Callable[[Any, Any], Any] | None = None, *,
                 ragged: bool = False) -> None:
        self.cache, self.dtype, self.transform, self.ragged = cache, dtype, transform, ragged
        self.shape = None if shape is None else tuple(shape)
        self._bytes_of_element = torch.empty(0, dtype=dtype).element_size()
        self._count = 0

    def __len__(self) -> int:
        """Returns the number of samples of the source; 0 if it is unknown."""
        self._count = self._count or len(self.cache)  # the process of a SharedCache is asked once
        return self._count

    def __getitem__(self, keys: Any) -> Any:
        wanted, is_one = numbers_of(keys, len(self))
        loaded = self._load(wanted)
        result = self._sample(loaded, 0, wanted[0]) if is_one else self._batch(loaded, 0, wanted)
        if self.transform is None:
            return result
        return self.transform(result, int(wanted[0]) if is_one else wanted)

    def __getitems__(self, keys: Sequence[Any]) -> list[Any]:
        """Serves a DataLoader with batch_size or batch_sampler. Of keys it makes a list of samples, each as dataset[key]
        is, for any collate_fn. Of batches of keys, which hocket.data.Sampler gives, it makes a list of batches, which a
        worker sends in one message."""
        if type(self).__getitem__ is not Dataset.__getitem__:  # a subclass changes samples, or batches
            return [self[key] for key in keys]
        if len(keys) == 0 or np.ndim(keys[0]) == 0:
            return self._samples(numbers_of(keys, len(self))[0])
        batches = [numbers_of(batch, len(self))[0] for batch in keys]
        loaded = self._load(np.concatenate(batches))
        begins = np.cumsum([0] + [len(batch) for batch in batches])
        found = [self._batch(loaded, int(begin), batch) for begin, batch in zip(begins, batches)]
        return found if self.transform is None else [self.transform(batch, of) for batch, of in zip(found, batches)]

    # ---- For Sampler -----------------------------------------------------------------------------------------------

    def samples_of_epoch(self) -> int:
        return len(self)

    def parts_of_epoch(self) -> Any:
        """Returns how a Mixture's epoch is composed; None for one dataset."""
        return None

    def order(self, shuffle: bool, seed: int, epoch: int) -> np.ndarray[Any, Any]:
        return in_order(len(self), shuffle, [seed, epoch])

    def set_order(self, keys: np.ndarray[Any, Any], cursor: int) -> None:
        self.cache.set_order(keys, cursor)

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _load(self, keys: np.ndarray[Any, Any]) -> Loaded:
        if isinstance(self.cache, Cache) and not self.cache.is_own():
            raise invalid("a DataLoader with workers needs hocket.SharedCache: a forked process cannot use its parent's Cache")
        try:
            return Loaded.of(self.cache, keys)
        except KeyError:
            if 0 < len(self) <= keys.max():  # a list has IndexError there, which ends an iteration over it
                raise IndexError(f"there is no sample {keys.max()}: the dataset has {len(self)}, numbered from 0") from None
            raise

    def _samples(self, keys: np.ndarray[Any, Any]) -> Samples:
        loaded = self._load(keys)
        samples = [self._sample(loaded, place, key) for place, key in enumerate(keys)]
        if self.transform is not None:
            return Samples([self.transform(sample, int(key)) for sample, key in zip(samples, keys)], None)
        return Samples(samples, lambda: self._batch(loaded, 0, keys))

    def _sample(self, loaded: Loaded, place: int, key: Any) -> torch.Tensor:
        return self._piece(loaded, place, place + 1, (-1,) if self.shape is None else self.shape, key)

    def _batch(self, loaded: Loaded, first: int, keys: np.ndarray[Any, Any]) -> Any:
        """Makes the batch of the samples from `first` on."""
        if self.ragged:
            return [self._sample(loaded, first + i, key) for i, key in enumerate(keys)]
        size = loaded.size_of_each(first, keys)
        row = (size // self._bytes_of_element,) if self.shape is None else self.shape
        return self._piece(loaded, first, first + len(keys), (len(keys), *row), keys[0] if len(keys) else "")

    def _piece(self, loaded: Loaded, begin: int, end: int, shape: tuple[int, ...], key: Any) -> torch.Tensor:
        try:
            return loaded.piece(begin, end, self.dtype, shape)
        except RuntimeError as error:
            have = loaded.offsets[begin + 1] - loaded.offsets[begin]
            raise invalid(f"sample {key} has {have} bytes, which are no {self.dtype} of the shape {self.shape}: {error}") from None


class Samples(list):  # type: ignore[type-arg]  # Python 3.9 has no list[Any] as a base
    """The samples of a batch, one by one, for a collate_fn. batch: returns the batch that they lie in; None if a transform has
    changed them."""

    def __init__(self, samples: Iterable[Any], batch: Callable[[], Any] | None) -> None:
        super().__init__(samples)
        self.batch = batch


def as_it_is(batch: Any) -> Any:
    """A collate_fn for a DataLoader with batch_size or batch_sampler: gives a batch that is one tensor already, and several
    batches, as they are. Results of a transform become a batch as torch makes one."""
    if not isinstance(batch, Samples):
        return batch
    return torch.utils.data.default_collate(batch) if batch.batch is None else batch.batch()


def one_by_one(loader: Iterable[Any]) -> Iterator[Any]:
    """Yields the batches of a DataLoader that gives several at once: one over a Sampler, with batch_size."""
    for batches in loader:
        yield from batches
