#!/usr/bin/env python3
"""Trains a model that spells English words, on several processes, with torch's DistributedDataParallel over Hocket.

    torchrun --nproc_per_node 2 examples/ddp.py                 # Debian: python3 -m torch.distributed.run -r 1 -t 1 --nproc_per_node 2 ...
    torchrun --nproc_per_node 2 examples/ddp.py --hook sparse

The words are those of Debian's package wamerican, or of --file. Each is a sample; samples come through hocket.Cache, in an order that seed and epoch
decide. What is learnt is the next letter: guessing costs 4.8 bits for each, and less is better. It takes about 20 s on two cores; with Debian's
torch ten times as long unless the package libopenblas0-pthread is installed.
"""
import argparse
import math
import os
import time

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import hocket
import hocket.data
import hocket.torch

WORDS = "/usr/share/dict/american-english"
ROOM = 20  # letters of the longest word that is used, and an end


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", default=WORDS, help="a word in each line")
    parser.add_argument("--words", type=int, default=40000, help="how many of them")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=128, help="words of each process in a step")
    parser.add_argument("--hook", choices=["none", "average", "sparse"], default="none")
    return parser.parse_args()


class Words:
    """The words as samples of one size: letters from 1 to 26, followed by zeros."""

    def __init__(self, path, limit):
        if not os.path.exists(path):
            raise SystemExit(f"there is no {path}: install Debian's package wamerican, or name a file with --file")
        with open(path, encoding="utf-8") as file:
            words = [word for word in file.read().split() if word.isascii() and word.isalpha() and word.islower() and len(word) < ROOM]
        self.words = words[::max(1, len(words) // limit)][:limit]

    def read(self, key):
        row = np.zeros(ROOM, np.uint8)
        letters = np.frombuffer(self.words[key].encode(), np.uint8) - ord("a") + 1
        row[:len(letters)] = letters
        return row.tobytes()

    def cache(self):
        """Returns this process's cache. A program with samples on slow storage passes a folder or a packed file instead
        of read."""
        cache = hocket.Cache(read=self.read, dataset=f"wamerican, {len(self.words)} words", memory="64MiB")
        return _Counted(cache, len(self.words))


class _Counted(hocket.data.Dataset):
    """Adds the number of samples, which a cache that reads with a function does not know."""

    def __init__(self, cache, count):
        super().__init__(cache, dtype=torch.uint8, shape=(ROOM,))
        self._count = count

    def __len__(self):
        return self._count


class Speller(torch.nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.letters = torch.nn.Embedding(27, 32)
        self.memory = torch.nn.GRU(32, width, batch_first=True)
        self.next = torch.nn.Linear(width, 27)

    def forward(self, rows):
        """Returns the bits per letter, including the end of the word."""
        rows = rows.long()
        before = torch.nn.functional.pad(rows[:, :-1], (1, 0))
        hidden, _ = self.memory(self.letters(before))
        losses = torch.nn.functional.cross_entropy(self.next(hidden).transpose(1, 2), rows, reduction="none")
        counts = torch.nn.functional.pad(rows[:, :-1], (1, 0), value=1) > 0  # letters, and the first 0 behind them
        return (losses * counts).sum() / counts.sum() / math.log(2)


def mean_over_ranks(value):
    value = torch.tensor(float(value))
    dist.all_reduce(value, dist.ReduceOp.AVG)
    return float(value)


def weights_are_the_same(model):
    """Computes the largest and the smallest value of all ranks. All ranks find the same: if two ranks differ, neither
    value is equal to both."""
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    least, most = flat.clone(), flat.clone()
    dist.all_reduce(least, dist.ReduceOp.MIN)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    return torch.equal(least, flat) and torch.equal(most, flat)


def main():
    options = arguments()
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))
    dataset = Words(options.file, options.words).cache()
    dist.init_process_group("hocket")
    rank, size = dist.get_rank(), dist.get_world_size()
    sampler = hocket.data.Sampler(dataset, options.batch, seed=1, rank=rank, world_size=size, drop_last=True)
    torch.manual_seed(1)
    model = DistributedDataParallel(Speller())
    if options.hook == "average":
        hocket.torch.ddp_hook(model)
    elif options.hook == "sparse":
        hocket.torch.sparse_hook(model, density=0.05)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    if rank == 0:
        print(f"{size} ranks, {len(sampler)} steps an epoch, {options.batch} of {len(dataset)} words for each rank in a step", flush=True)
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        begin, bits = time.perf_counter(), []
        for rows in DataLoader(dataset, batch_size=None, sampler=sampler):
            optimizer.zero_grad()
            loss = model(rows)
            loss.backward()
            optimizer.step()
            bits.append(loss.item())
        seconds = time.perf_counter() - begin
        mean = mean_over_ranks(np.mean(bits[-len(bits) // 4:]))
        if rank == 0:
            print(f"epoch {epoch}: {mean:.3f} bits a letter, {seconds:.1f} s, {len(bits) * options.batch * size / seconds:.0f} words a second",
                  flush=True)
    same = weights_are_the_same(model)
    if rank == 0:
        print(f"the weights {'are the same' if same else 'DIFFER'} on all ranks", flush=True)
    dist.destroy_process_group()
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
