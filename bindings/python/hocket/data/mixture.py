"""Several datasets as one, each with its share of every epoch."""
from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from hocket.data.dataset import Dataset, Samples
from hocket.data.orders import in_order, numbers_of
from hocket.errors import invalid


def _shares(weights: np.ndarray[Any, Any], samples: int) -> np.ndarray[Any, Any]:
    """Returns whole numbers in the proportion of the weights, whose sum is `samples`."""
    exact = weights / weights.sum() * samples
    shares = np.floor(exact).astype(np.int64)
    missing = samples - int(shares.sum())
    shares[np.argsort(shares - exact, kind="stable")[:missing]] += 1
    return shares


class Mixture(torch.utils.data.Dataset):
    """Several datasets as one. Its keys are theirs, one dataset after another.

    A Sampler over it gives epochs of `samples` samples, in which each dataset has the share that `weights` gives it. A
    dataset goes on in each epoch where it has stopped in the one before, in an order of its own. It begins again, in
    another order, when all its samples have been given: so each of them is given as often as any other, or once more.
    Seed and epoch decide the whole order, so that training can be resumed anywhere.

    weights: None: as many samples as each dataset has. samples: None: as many as all datasets together.
    A batch has the samples in their order: tensors of the datasets (and tuples and dicts of them, which their transforms
    return) become one, lists of ragged samples one list.
    """

    def __init__(self, datasets: Sequence[Dataset], weights: Sequence[float] | None = None, samples: int | None = None) -> None:
        self.datasets = list(datasets)
        lengths = [len(dataset) for dataset in self.datasets]
        if not lengths or min(lengths) == 0:
            raise invalid(f"the datasets of a mixture have {lengths} samples; there is a dataset, and each has 1 or more")
        given = np.array(lengths if weights is None else weights, np.float64)
        if given.shape != (len(lengths),) or not np.isfinite(given).all() or given.min() < 0 or given.sum() == 0:
            raise invalid(f"the weights of a mixture are {weights}, for {len(lengths)} datasets; there is one for each, 0 or more")
        if samples is not None and samples < 1:
            raise invalid(f"samples is {samples}; an epoch has 1 or more")
        self._ends = np.cumsum(lengths)
        self._begins = self._ends - lengths
        self._shares = _shares(given, int(self._ends[-1]) if samples is None else operator.index(samples))

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, keys: Any) -> Any:
        wanted, is_one = self._numbers(keys)
        if is_one:
            return self._samples(wanted)[0]
        of = self._owners(wanted)
        places = [np.flatnonzero(of == i) for i in np.unique(of)]
        found = [self.datasets[of[at[0]]][wanted[at] - self._begins[of[at[0]]]] for at in places]
        if len(found) < 2:
            return found[0] if found else self.datasets[0][wanted]
        return _joined(found, places, len(wanted))

    def __getitems__(self, keys: Sequence[Any]) -> list[Any]:
        """As Dataset.__getitems__."""
        if type(self).__getitem__ is not Mixture.__getitem__ or (len(keys) > 0 and np.ndim(keys[0]) > 0):
            return [self[key] for key in keys]
        return self._samples(self._numbers(keys)[0])

    def _samples(self, keys: np.ndarray[Any, Any]) -> Samples:
        of = self._owners(keys)
        each = {i: iter(self.datasets[i].__getitems__(keys[of == i] - self._begins[i])) for i in np.unique(of)}
        return Samples([next(each[i]) for i in of], None)

    def _numbers(self, keys: Any) -> tuple[np.ndarray[Any, Any], bool]:
        wanted, is_one = numbers_of(keys, len(self))
        if wanted.size and wanted.max() >= len(self):
            raise IndexError(f"there is no sample {wanted.max()}: the mixture has {len(self)}, numbered from 0")
        return wanted.astype(np.int64), is_one

    def _owners(self, keys: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Returns the number of each key's dataset."""
        return np.searchsorted(self._ends, keys, "right")

    # ---- For Sampler -----------------------------------------------------------------------------------------------

    def samples_of_epoch(self) -> int:
        return int(self._shares.sum())

    def parts_of_epoch(self) -> Any:
        return [[int(length), int(share)] for length, share in zip(self._ends - self._begins, self._shares)]

    def order(self, shuffle: bool, seed: int, epoch: int) -> np.ndarray[Any, Any]:
        if shuffle:
            of = np.repeat(np.arange(len(self._shares)), self._shares)[in_order(int(self._shares.sum()), True, [seed, epoch])]
        else:  # each one's samples at equal distances
            places = np.concatenate([(np.arange(share) + 0.5) / share for share in self._shares])
            of = np.repeat(np.arange(len(self._shares)), self._shares)[np.argsort(places, kind="stable")]
        order = np.empty(len(of), np.int64)
        for i, share in enumerate(self._shares):
            order[of == i] = self._begins[i] + self._stretch(i, epoch * int(share), int(share), shuffle, seed)
        return order

    def _stretch(self, i: int, first: int, count: int, shuffle: bool, seed: int) -> np.ndarray[Any, Any]:
        """Returns the keys of dataset i from the one at `first` on, in its endless order."""
        length = len(self.datasets[i])
        if count == 0:
            return np.empty(0, np.int64)
        turns = range(first // length, (first + count - 1) // length + 1)
        whole = np.concatenate([in_order(length, shuffle, [seed, turn, i]) for turn in turns])
        begin = first - turns[0] * length
        return whole[begin:begin + count]

    def set_order(self, keys: np.ndarray[Any, Any], cursor: int) -> None:
        of = self._owners(keys)
        for i, dataset in enumerate(self.datasets):
            own = of == i
            dataset.set_order(keys[own] - self._begins[i], int(own[:cursor].sum()))


def _joined(parts: list[Any], places: list[np.ndarray[Any, Any]], count: int) -> Any:
    """Returns the batch of `count` samples whose samples at places[i] are those of parts[i]."""
    first = parts[0]
    if any(type(part) is not type(first) for part in parts) and not all(isinstance(part, torch.Tensor) for part in parts):
        raise invalid(f"the batches of a mixture's datasets are of the types {', '.join(type(part).__name__ for part in parts)}: give the "
                      "datasets transforms that return the same form")
    if isinstance(first, torch.Tensor):
        return _scattered(parts, places, torch.empty((count, *first.shape[1:]), dtype=first.dtype))
    if isinstance(first, np.ndarray):
        return _scattered(parts, places, np.empty((count, *first.shape[1:]), first.dtype))
    if isinstance(first, dict):
        if any(part.keys() != first.keys() for part in parts):
            raise invalid(f"the batches of a mixture's datasets are dicts of {', and '.join(str(sorted(map(str, part))) for part in parts)}: "
                          "give the datasets transforms that return the same names")
        return {name: _joined([part[name] for part in parts], places, count) for name in first}
    if isinstance(first, tuple):
        if any(len(part) != len(first) for part in parts):
            raise invalid(f"the batches of a mixture's datasets are tuples of {', '.join(str(len(part)) for part in parts)} fields: give the "
                          "datasets transforms that return as many")
        return tuple(_joined(list(fields), places, count) for fields in zip(*parts))
    if isinstance(first, list) and all(len(part) == len(at) for part, at in zip(parts, places)):
        return _scattered(parts, places, [None] * count)
    raise invalid(f"a mixture cannot join batches of the type {type(first).__name__}: let the datasets' transforms return tensors, "
                  "arrays, lists with an item for each sample, or tuples and dicts of these")


def _scattered(parts: list[Any], places: list[np.ndarray[Any, Any]], out: Any) -> Any:
    for part, at in zip(parts, places):
        if isinstance(out, list):
            for place, item in zip(at, part):
                out[place] = item
        elif part.shape != (len(at), *out.shape[1:]) or part.dtype != out.dtype:
            raise invalid(f"the samples of a mixture are {out.dtype} of the shape {tuple(out.shape[1:])} in one dataset, and {part.dtype} of "
                          f"{tuple(part.shape[1:])} in another: give the datasets transforms that make them alike")
        else:
            out[at] = part
    return out
