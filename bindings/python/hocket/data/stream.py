"""The batches of a Sampler as an iterable dataset."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from hocket.data.dataset import Dataset
from hocket.data.mixture import Mixture
from hocket.data.sampler import Sampler
from hocket.errors import invalid


class Stream(torch.utils.data.IterableDataset):
    """The batches of a Sampler, for programs that want an iterable dataset: DataLoader(Stream(dataset, sampler),
    batch_size=None). Workers share them, and the DataLoader gives them in the sampler's order.

    A worker has the sampler as it was when the DataLoader's iteration began: call set_epoch() before, and do without
    persistent_workers. How many batches have been given the sampler knows without workers only: with them call
    sampler.state_dict(batches).
    """

    def __init__(self, dataset: Dataset | Mixture, sampler: Sampler) -> None:
        self.dataset, self.sampler = dataset, sampler
        sampler._knows_given = False  # until an iteration begins in this process

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[Any]:
        return _Share(self)


class _Share:
    """One worker's share of an iteration. It has a state, for torchdata's StatefulDataLoader."""

    def __init__(self, stream: Stream) -> None:
        worker = torch.utils.data.get_worker_info()
        self._is_whole = worker is None
        self._number: int = 0 if worker is None else worker.id
        self._workers: int = 1 if worker is None else worker.num_workers
        self._stream = stream
        self._first, self._batches = stream.sampler.begin(is_told=self._number == 0)
        self._given = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        place = self._first + self._given * self._workers + self._number
        if place >= len(self._batches):
            raise StopIteration
        self._given += 1
        if self._is_whole:
            self._stream.sampler._given = place + 1
        return self._stream.dataset[self._batches[place]]

    def state_dict(self) -> dict[str, Any]:
        if self._is_whole:
            return {"sampler": self._stream.sampler.state_dict(self._first + self._given), "given": 0}
        return {"sampler": self._stream.sampler.state_dict(self._first), "given": self._given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        now, of, given = self._stream.sampler.state_dict(0), state["sampler"], state["given"]
        for name in ("batch_size", "world_size"):
            if given > 0 and of[name] != now[name]:  # a worker's batches are no whole number of others
                raise invalid(f"the state is of a worker with {name} {of[name]}, and the sampler has {now[name]}: continue with the same, "
                              "or keep sampler.state_dict(batches), which others may continue")
        self._stream.sampler.load_state_dict(of)
        self._first, self._batches = self._stream.sampler.begin(is_told=self._number == 0)
        self._given = given
