"""The order of an epoch, as batches of keys, among ranks, and from any point on."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from hocket.cache import Cache
from hocket.data.dataset import Dataset
from hocket.data.mixture import Mixture
from hocket.errors import invalid
from hocket.shared import SharedCache


def _batches_of(state: dict[str, Any]) -> int:
    """Returns how many batches an epoch has on each rank, for a sampler with this state."""
    samples, ranks, size = state["samples"], state["world_size"], state["batch_size"]
    if state["drop_last"]:
        return samples // ranks // size
    of_a_rank = -(-samples // ranks)  # rounded up
    return -(-of_a_rank // size)


class Sampler(torch.utils.data.BatchSampler):
    """Batches of keys, in an order that seed and epoch decide, the same on all ranks; each rank has its part of it. For
    DataLoader(dataset, batch_size=None, sampler=...), or batch_sampler=.

    rank, world_size: of the job; every rank has as many batches (the last ones may have keys of the beginning again,
    unless drop_last). When an epoch begins the cache is told its order, so that it loads ahead.

    To resume, keep state_dict(batches) with the model, where `batches` is how many of this epoch you have trained
    with: a DataLoader's workers are ahead of that. Another number of ranks, of workers, and another batch_size may
    continue: together the ranks go on in the same order, behind the samples that were used. If batch_size * world_size
    is the same as before, all later steps have the same samples as without the interruption (but for those that fill up
    the last one). torchdata's StatefulDataLoader does that by itself, but not before its iteration begins: `epoch` is not
    the state's until then. Keep the epoch in a checkpoint of your own, and call set_epoch() with it.
    """

    def __init__(self, dataset: Dataset | Mixture | Cache | SharedCache, batch_size: int, *, shuffle: bool = True, seed: int = 0,
                 rank: int = 0, world_size: int = 1, drop_last: bool = False) -> None:
        if batch_size < 1 or not 0 <= rank < world_size:
            raise invalid(f"batch_size is {batch_size}, rank {rank} of {world_size}: sizes are 1 or more, ranks from 0")
        self._dataset = dataset if isinstance(dataset, (Dataset, Mixture)) else Dataset(dataset)
        self._samples = self._dataset.samples_of_epoch()
        self.batch_size, self.shuffle, self.seed, self.drop_last = batch_size, shuffle, seed, drop_last
        self.rank, self.world_size = rank, world_size
        self.epoch = 0
        self._first = 0  # the batch with which the next iteration begins
        self._given = 0  # how many batches of the epoch the latest iteration has behind it
        self._knows_given = True  # False: a Stream's workers may be iterating

    @property
    def sampler(self) -> Sampler:
        """As torch's BatchSampler has one: frameworks call its set_epoch()."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration this epoch's, from its beginning or, if a state of this epoch was loaded, from there
        on."""
        if epoch != self.epoch:
            self.epoch, self._first, self._given = epoch, 0, 0

    def keys(self) -> np.ndarray[Any, Any]:
        """Returns this rank's keys of the epoch, in their order."""
        order = self._dataset.order(self.shuffle, self.seed, self.epoch)
        if self.world_size == 1:
            return order
        each = self._samples // self.world_size if self.drop_last else -(-self._samples // self.world_size)
        return np.resize(order, each * self.world_size)[self.rank::self.world_size]

    def __len__(self) -> int:
        """Returns the number of batches of an epoch."""
        return _batches_of(self.state_dict(0))

    def __iter__(self) -> Iterator[list[int]]:
        """Gives lists, as BatchSampler does: frameworks join batches by `+`, which adds the numbers of arrays."""
        # A DataLoader with workers makes two iterators, and uses the second: nothing is done before the first batch.
        first, batches = self.begin()
        for self._given in range(first + 1, len(batches) + 1):
            yield batches[self._given - 1].tolist()

    def begin(self, is_told: bool = True) -> tuple[int, list[np.ndarray[Any, Any]]]:
        """Begins an iteration: returns the number of its first batch, and all batches of the epoch. is_told: the cache is
        told their order."""
        first, self._first = self._first, 0
        self._given, self._knows_given = first, True
        batches = self._batches()
        if is_told and first < len(batches):
            self._dataset.set_order(np.concatenate(batches), first * self.batch_size)
        return first, batches

    def _batches(self) -> list[np.ndarray[Any, Any]]:
        keys = self.keys()
        return [keys[begin:begin + self.batch_size] for begin in range(0, len(keys), self.batch_size)][:len(self)]

    def state_dict(self, batches: int | None = None) -> dict[str, Any]:
        """Returns the state of training after this many batches of this epoch. None: after those that the latest
        iteration has given, which is right where no worker is ahead, or where a StatefulDataLoader asks."""
        if batches is None and not self._knows_given:
            raise invalid("how many batches the workers of a Stream have given is not known here: call state_dict(batches) with the number "
                          "that you have trained with")
        return {"epoch": self.epoch, "batches": self._given if batches is None else batches, "seed": self.seed,
                "batch_size": self.batch_size, "world_size": self.world_size, "samples": self._samples,
                "shuffle": self.shuffle, "drop_last": self.drop_last, "mixture": self._dataset.parts_of_epoch()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next iteration continue behind the saved state."""
        now = self.state_dict(0)
        for name in ("seed", "samples", "shuffle", "mixture"):
            if state.get(name) != now[name]:
                raise invalid(f"the state is of {name} {state[name]}, and this sampler has {now[name]}: the order is another one")
        self.epoch, self._first = state["epoch"], self._batches_in(state)
        self._given = self._first

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
