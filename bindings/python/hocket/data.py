"""PyTorch over the cache: a Dataset whose batches are copied in C, and a Sampler with an order that can be resumed.

    cache = hocket.SharedCache("/nfs/train", memory="8GiB")
    dataset = Dataset(cache, dtype=torch.float32, shape=(3, 96, 96))
    sampler = Sampler(dataset, batch_size=64, seed=7)
    loader = DataLoader(dataset, batch_size=None, sampler=sampler, num_workers=2)
    for epoch in range(sampler.epoch, 10):
        sampler.set_epoch(epoch)
        for batch in loader: ...

Without workers hocket.Cache does as well. A message from a worker costs more than a batch of small samples. So let a
worker send several batches at once:

    loader = DataLoader(dataset, batch_size=8, sampler=sampler, num_workers=2, collate_fn=as_it_is)
    for batch in one_by_one(loader): ...
"""
from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, Callable

import numpy as np
import torch

from hocket.cache import Cache
from hocket.errors import invalid
from hocket.shared import SharedCache, SlotName, taken


class Dataset(torch.utils.data.Dataset):
    """The samples of a cache, as tensors. dataset[key] is a sample, dataset[[key, key, ...]] a batch: one tensor, whose
    first dimension are the samples, filled in C.

    dtype and shape: of one sample; shape None: one dimension. transform: a function that is called with the batch
    (or the sample) and the keys, and whose result is given instead: labels, augmentation.
    """

    def __init__(self, cache: Cache | SharedCache, dtype: torch.dtype = torch.uint8,
                 shape: Sequence[int] | None = None, transform: Callable[[torch.Tensor, Any], Any] | None = None) -> None:
        self.cache, self.dtype, self.transform = cache, dtype, transform
        self.shape = None if shape is None else tuple(shape)
        self._maker = os.getpid()

    def __len__(self) -> int:
        return len(self.cache)

    def __getitem__(self, keys: Any) -> Any:
        one = isinstance(keys, (int, np.integer))
        wanted = (keys,) if one else keys
        if isinstance(self.cache, Cache) and not self.cache.is_own():
            raise invalid("a DataLoader with workers needs hocket.SharedCache: a forked process cannot use its parent's Cache")
        if not isinstance(self.cache, SharedCache) or torch.utils.data.get_worker_info() is None:
            rows = self._tensor(self.cache.copy_batch(wanted), one)
            return rows if self.transform is None else self.transform(rows, keys)
        # In a worker, the result is pickled, and the batch must go without a copy.
        lent, size = self.cache.rows_to_send(wanted)
        sent = _Sent(self, self.cache, lent, size, one)
        if self.transform is None:
            return sent
        rows = self._tensor(np.asarray(lent).reshape(len(wanted), size), one)
        return _replaced(self.transform(rows, keys), rows, sent)

    def _tensor(self, rows: np.ndarray[Any, Any], one: bool) -> torch.Tensor:
        tensor = torch.from_numpy(rows)
        if self.dtype is not torch.uint8:
            tensor = tensor.view(self.dtype)
        if self.shape is not None:
            tensor = tensor.view(len(rows), *self.shape)
        return tensor[0] if one else tensor

    def __getitems__(self, keys: list[Any]) -> Any:
        """Serves a DataLoader with batch_size; pass it collate_fn=hocket.data.as_it_is. Of keys it makes one batch. Of
        batches of keys, which hocket.data.Sampler gives, it makes a list of batches, which a worker sends in one
        message."""
        if np.ndim(keys[0]) == 0:
            return self[keys]
        if not isinstance(self.cache, SharedCache) or torch.utils.data.get_worker_info() is None:
            return [self[batch] for batch in keys]
        lent, size = self.cache.rows_to_send(np.concatenate(keys))
        sent = _Sent(self, self.cache, lent, size, False)
        ends = np.cumsum([len(batch) for batch in keys]).tolist()
        parts = [_Part(sent, end - len(batch), end) for batch, end in zip(keys, ends)]
        if self.transform is None:
            return parts
        rows = self._tensor(np.asarray(lent).reshape(-1, size), False)
        batches = [rows[part.begin:part.end] for part in parts]
        return [_replaced(self.transform(batch, of), batch, part) for batch, of, part in zip(batches, keys, parts)]


class _Sent:
    """A batch that a worker passes to its DataLoader: unpickled, it becomes a tensor in the same memory."""

    def __init__(self, dataset: Dataset, cache: SharedCache, lent: Any, size: int, one: bool) -> None:
        self._form = dataset.dtype, dataset.shape, size, one
        self._name, self._lent = cache._name, lent

    def __reduce__(self) -> Any:
        if self._lent.is_given_away:
            raise invalid("a batch can be pickled once: its memory goes with it")
        self._lent.is_given_away = True
        return _received, (self._name, self._lent.slot, self._lent.size, self._form)


def _received(name: str, slot: Any, size: int, form: Any) -> torch.Tensor:
    dtype, shape, row, one = form
    rows = taken(name, SlotName(*slot), size).reshape(-1, row)
    return Dataset._tensor(SimpleNamespace(dtype=dtype, shape=shape), rows, one)  # type: ignore[arg-type]


class _Part:
    """One of the batches that a worker passes on together. Pickle writes what they share once."""

    def __init__(self, sent: _Sent, begin: int, end: int) -> None:
        self._sent, self.begin, self.end = sent, begin, end

    def __reduce__(self) -> Any:
        return operator.getitem, (self._sent, slice(self.begin, self.end))


def _replaced(result: Any, tensor: torch.Tensor, sent: _Sent | _Part) -> Any:
    """Returns the result of transform, with the tensor that transform was given replaced by `sent`."""
    if result is tensor:
        return sent
    if type(result) in (tuple, list):
        return type(result)(_replaced(part, tensor, sent) for part in result)
    if type(result) is dict:
        return {name: _replaced(part, tensor, sent) for name, part in result.items()}
    return result


def as_it_is(batch: Any) -> Any:
    """A collate_fn for a DataLoader with batch_size: the batch is already one tensor, or the batches are."""
    return batch


def one_by_one(loader: Iterable[Any]) -> Iterator[Any]:
    """Yields the batches of a DataLoader that gives several at once: one over a Sampler, with batch_size."""
    for batches in loader:
        yield from batches


def _batches_of(state: dict[str, Any]) -> int:
    """Returns how many batches an epoch has on each rank, for a sampler with this state."""
    samples, ranks, size = state["samples"], state["world_size"], state["batch_size"]
    if state["drop_last"]:
        return samples // ranks // size
    of_a_rank = -(-samples // ranks)  # rounded up
    return -(-of_a_rank // size)


class Sampler(torch.utils.data.Sampler):
    """Batches of keys, in an order that seed and epoch decide, the same on all ranks; each rank has its part of it. For
    DataLoader(dataset, batch_size=None, sampler=...).

    rank, world_size: of the job; every rank has as many batches (the last ones may have keys of the beginning again,
    unless drop_last). When an epoch begins the cache is told its order, so that it loads ahead.

    To resume, keep state_dict(batches) with the model, where `batches` is how many of this epoch you have trained
    with: a DataLoader's workers are ahead of that. Another number of ranks, of workers, and another batch_size may
    continue: together the ranks go on in the same order, behind the samples that were used. If batch_size * world_size
    is the same as before, all later steps have the same samples as without the interruption (but for those that fill up
    the last one).
    """

    def __init__(self, dataset: Dataset | Cache | SharedCache, batch_size: int, *, shuffle: bool = True, seed: int = 0,
                 rank: int = 0, world_size: int = 1, drop_last: bool = False) -> None:
        if batch_size < 1 or not 0 <= rank < world_size:
            raise invalid(f"batch_size is {batch_size}, rank {rank} of {world_size}: sizes are 1 or more, ranks from 0")
        self._cache = dataset.cache if isinstance(dataset, Dataset) else dataset
        self._samples = len(dataset)
        self.batch_size, self.shuffle, self.seed, self.drop_last = batch_size, shuffle, seed, drop_last
        self.rank, self.world_size = rank, world_size
        self.epoch = 0
        self._first = 0  # the batch with which the next iteration begins

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration this epoch's, from its beginning or, if a state of this epoch was loaded, from there
        on."""
        if epoch != self.epoch:
            self.epoch, self._first = epoch, 0

    def keys(self) -> np.ndarray[Any, Any]:
        """Returns this rank's keys of the epoch, in their order."""
        order = np.arange(self._samples)
        if self.shuffle:
            order = np.random.Generator(np.random.PCG64([self.seed, self.epoch])).permutation(order)
        if self.world_size == 1:
            return order
        each = self._samples // self.world_size if self.drop_last else -(-self._samples // self.world_size)
        return np.resize(order, each * self.world_size)[self.rank::self.world_size]

    def __len__(self) -> int:
        """Returns the number of batches of an epoch."""
        return _batches_of(self.state_dict(0))

    def __iter__(self) -> Iterator[np.ndarray[Any, Any]]:
        # A DataLoader with workers makes two iterators, and uses the second: nothing is done before the first batch.
        first, self._first = self._first, 0
        batches = self._batches()
        if first < len(batches):
            self._cache.set_order(np.concatenate(batches), first * self.batch_size)
        yield from batches[first:]

    def _batches(self) -> list[np.ndarray[Any, Any]]:
        keys = self.keys()
        return [keys[begin:begin + self.batch_size] for begin in range(0, len(keys), self.batch_size)][:len(self)]

    def state_dict(self, batches: int) -> dict[str, Any]:
        """Returns the state of training after this many batches of this epoch."""
        return {"epoch": self.epoch, "batches": batches, "seed": self.seed, "batch_size": self.batch_size,
                "world_size": self.world_size, "samples": self._samples, "shuffle": self.shuffle, "drop_last": self.drop_last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next iteration continue behind the saved state."""
        now = self.state_dict(0)
        for name in ("seed", "samples", "shuffle"):
            if state[name] != now[name]:
                raise invalid(f"the state is of {name} {state[name]}, and this sampler has {now[name]}: the order is another one")
        self.epoch, self._first = state["epoch"], self._batches_in(state)

    def _batches_in(self, state: dict[str, Any]) -> int:
        """Returns how many batches of this sampler's the state has behind it."""
        if state["batches"] >= _batches_of(state):  # that epoch has ended, though drop_last may have left samples
            return len(self)
        used = state["batches"] * state["batch_size"] * state["world_size"]
        step = self.batch_size * self.world_size
        if used % step != 0:
            raise invalid(f"the state has {used} samples behind it, which are no whole number of steps of {self.world_size} ranks with "
                          f"{self.batch_size} samples each: choose batch_size so that batch_size * world_size divides {used}, such as "
                          f"{state['batch_size'] * state['world_size']}")
        return min(used // step, len(self))
