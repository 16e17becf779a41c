#!/usr/bin/python3
"""hocket.data: a cache's samples in torch's loaders, by each of torch's protocols, to the bytes of the files.

Other torches: tests/torch/run. torchdata's and accelerate's loaders are tried where they are installed.
"""
import copy
import importlib.util
import io
import itertools
import multiprocessing
import os
import pickle
import random
import sys
import tempfile
import types
import unittest
import unittest.mock
import warnings

import ranks  # first: it skips without torch

# isort: split
import numpy as np
import torch
from torch.utils.data import BatchSampler, ConcatDataset, DataLoader, RandomSampler, Subset

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import hocket
from hocket.data import Dataset, Mixture, Sampler, Stream, as_it_is, one_by_one
from hocket.data.orders import numbers_of
from sample_files import BYTES, COUNT, WithFiles, sample


def keys_of(epoch, sampler):
    sampler.set_epoch(epoch)
    return [np.array(batch) for batch in sampler]


def in_pairs(test, have, want):
    """As zip(), of equally many."""
    have, want = list(have), list(want)
    test.assertEqual(len(have), len(want))
    return zip(have, want)


def share_of(dataset, sampler):
    """As a DataLoader, or its worker, begins with a Stream."""
    return iter(Stream(dataset, sampler))


def first_number(batch, keys):
    return batch, np.asarray(keys) * 2


class Loading(WithFiles):
    def batches(self, cache, workers, sampler, transform=None, most=None):
        found = []
        for batch in DataLoader(Dataset(cache, transform=transform), batch_size=None, sampler=sampler, num_workers=workers):
            found.append(batch)
            if len(found) == most:
                break
        return found

    def want(self, sampler):
        return [np.stack([sample(int(key)) for key in keys]) for keys in sampler]

    def same(self, have, want):
        self.assertEqual(len(have), len(want))
        for i, (one, other) in enumerate(zip(have, want)):
            self.assertTrue(np.array_equal(one.numpy(), other), f"batch {i} is another one")

    def test_the_same_samples_with_and_without_workers(self):
        with hocket.Cache(self.source, memory="16MiB") as cache, hocket.SharedCache(self.source, memory="16MiB") as shared:
            for epoch in range(2):
                sampler, other = Sampler(cache, 16, seed=5), Sampler(shared, 16, seed=5)
                sampler.set_epoch(epoch)
                other.set_epoch(epoch)
                want = self.want(sampler)
                self.same(self.batches(cache, 0, sampler), want)
                self.same(self.batches(shared, 0, other), want)
                self.same(self.batches(shared, 2, other), want)
            self.assertNotEqual(Sampler(cache, 16, seed=5).keys().tolist(), sampler.keys().tolist())
            self.assertEqual(shared.stats()["source_reads"], COUNT)

    def test_workers_send_several_batches_at_once(self):
        with hocket.Cache(self.source, memory="16MiB") as cache, hocket.SharedCache(self.source, memory="16MiB") as shared:
            cases: list[tuple[hocket.Cache | hocket.SharedCache, int]] = [(cache, 0), (shared, 0), (shared, 2)]
            for which, workers in cases:
                sampler = Sampler(which, 16, seed=5)
                want = self.want(sampler)
                loader = DataLoader(Dataset(which), batch_size=3, sampler=sampler, num_workers=workers, collate_fn=as_it_is)
                self.assertEqual(len(loader), -(-len(want) // 3))
                self.same(list(one_by_one(loader)), want)
                loader = DataLoader(Dataset(which, transform=first_number), batch_size=3, sampler=sampler, num_workers=workers,
                                    collate_fn=as_it_is)
                found = list(one_by_one(loader))
                self.same([batch for batch, _ in found], want)
                self.assertEqual([labels.tolist() for _, labels in found], [[2 * key for key in keys] for keys in sampler])

    def test_it_is_resumed(self):
        with hocket.SharedCache(self.source, memory="16MiB") as shared:
            sampler = Sampler(shared, 16, seed=5)
            sampler.set_epoch(3)
            whole = self.want(sampler)
            self.same(self.batches(shared, 2, sampler, most=5), whole[:5])
            state = pickle.loads(pickle.dumps(sampler.state_dict(5)))
            later = Sampler(shared, 16, seed=5)
            later.load_state_dict(state)
            later.set_epoch(later.epoch)
            self.same(self.batches(shared, 2, later), whole[5:])
            self.same(self.batches(shared, 2, later), whole)  # the next iteration is a whole one
            with self.assertRaisesRegex(hocket.InvalidArgumentError, "seed 5"):
                Sampler(shared, 16, seed=6).load_state_dict(state)

    def test_other_ranks_and_workers_continue(self):
        """Together they go on in the same order, to the bit, whatever their number was and is."""

        def together(ranks, step, state, workers):
            parts = []
            for rank in range(ranks):
                sampler = Sampler(shared, step // ranks, seed=5, rank=rank, world_size=ranks)
                sampler.set_epoch(3)
                if state is not None:
                    sampler.load_state_dict(state)
                parts.append(self.batches(shared, workers, sampler))
            self.assertEqual(len({len(part) for part in parts}), 1)
            steps = list(zip(*parts))
            # Of each step the ranks' samples in turn; the last one is not whole.
            return [np.stack([batch.numpy() for batch in step], axis=1).reshape(-1, BYTES) for step in steps[:-1]]

        with hocket.SharedCache(self.source, memory="16MiB") as shared:
            whole = together(1, 24, None, 0)
            for before, after, workers in ((1, 3, 2), (4, 2, 0), (3, 8, 1), (2, 1, 2)):
                stopped = Sampler(shared, 24 // before, seed=5, rank=0, world_size=before)
                stopped.set_epoch(3)
                rest = together(after, 24, pickle.loads(pickle.dumps(stopped.state_dict(3))), workers)
                self.assertEqual(len(rest), len(whole) - 3)
                for have, want in zip(rest, whole[3:]):
                    self.assertTrue(np.array_equal(have, want), f"{before} ranks before, {after} after")
            odd = Sampler(shared, 5, seed=5, world_size=2)
            with self.assertRaisesRegex(hocket.InvalidArgumentError, "72 samples behind it.*such as 24"):
                odd.load_state_dict(stopped.state_dict(3))
            ended = Sampler(shared, 24, seed=5, world_size=2)
            ended.load_state_dict(stopped.state_dict(len(stopped)))
            self.assertEqual(list(ended), [])

    def test_an_ended_epoch_remains_ended(self):
        """Also if drop_last has left samples that another number of ranks would still have used."""
        with hocket.Cache(self.source) as cache:
            for drop in (True, False):
                before = Sampler(cache, 3, world_size=2, drop_last=drop)  # uses 198 of 200, or all
                for ranks, size in ((1, 1), (1, 2), (5, 4)):
                    after = Sampler(cache, size, world_size=ranks, drop_last=drop)
                    after.load_state_dict(before.state_dict(len(before)))
                    self.assertEqual(list(after), [])

    def test_an_order_of_its_own(self):
        with hocket.Cache(self.source) as cache, \
                self.assertRaisesRegex(hocket.InvalidArgumentError, "shuffle True, and this sampler has False"):
            Sampler(cache, 2, shuffle=False).load_state_dict(Sampler(cache, 2).state_dict(1))

    def test_ranks_have_their_parts(self):
        with hocket.Cache(self.source) as cache:
            parts = [np.concatenate(list(Sampler(cache, 16, rank=rank, world_size=3, drop_last=drop)._batches()))
                     for drop in (True, False) for rank in range(3)]
        self.assertEqual(len(set(np.concatenate(parts[:3]).tolist())), len(np.concatenate(parts[:3])))
        self.assertEqual(sorted(set(np.concatenate(parts[3:]).tolist())), list(range(COUNT)))
        self.assertEqual(len({len(part) for part in parts[3:]}), 1)

    def test_transforms_and_forms(self):
        with hocket.SharedCache(self.source, memory="16MiB") as shared:
            for workers in (0, 2):
                for batch, labels in self.batches(shared, workers, Sampler(shared, 16, shuffle=False), first_number, most=2):
                    self.assertEqual(batch[1].numpy().tolist(), sample(int(labels[1]) // 2).tolist())
            dataset = Dataset(shared, torch.int16, (5, 100))
            self.assertEqual(tuple(dataset[[1, 2, 3]].shape), (3, 5, 100))
            self.assertEqual(dataset[4].numpy().tobytes(), sample(4).tobytes())

    def test_batches_are_not_overwritten_while_they_are_used(self):
        with hocket.SharedCache(self.source, memory="16MiB") as shared:
            sampler = Sampler(shared, 16)
            kept = self.batches(shared, 2, sampler)
            self.batches(shared, 2, Sampler(shared, 16, seed=1))
            self.same(kept, self.want(sampler))
            slots = shared.stats()["slots"]
            del kept
            for epoch in range(4):
                self.batches(shared, 2, Sampler(shared, 16, seed=epoch), most=3)  # given up in the middle
            self.assertLessEqual(shared.stats()["slots"], slots + 8)

    def test_a_plain_cache_in_a_worker(self):
        with hocket.Cache(self.source, memory="16MiB") as cache:
            with self.assertRaisesRegex(Exception, "SharedCache"):
                self.batches(cache, 1, Sampler(cache, 16))


class Halved(Dataset):
    """As users derive their own."""

    def __getitem__(self, key):
        return super().__getitem__(key).float() / 2


class Within(torch.utils.data.Dataset):
    def __init__(self, inner):
        self.inner = inner

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, key):
        return self.inner[key].float() / 2


def doubled(samples):
    return torch.stack(samples) * 2


class Protocols(WithFiles):
    """torch's protocols for datasets and samplers, with both caches, with and without workers."""

    def setUp(self):
        self.shared = hocket.SharedCache(self.source, memory="16MiB")
        self.addCleanup(self.shared.close)
        self.cache = hocket.Cache(self.source, memory="16MiB")
        self.addCleanup(self.cache.close)
        self.all = np.stack([sample(key) for key in range(COUNT)])

    def ways(self):
        return (self.cache, 0), (self.shared, 0), (self.shared, 2)

    def same(self, found, want):
        self.assertTrue(np.array_equal(np.asarray(found), np.asarray(want)))

    def test_numbers_and_slices_are_those_of_a_list(self):
        draw = random.Random(1)
        caches: list[hocket.Cache | hocket.SharedCache] = [self.cache, self.shared]
        for cache in caches:
            dataset = Dataset(cache)
            for key in (0, -1, -COUNT, COUNT - 1, np.int64(7), torch.tensor(9), np.uint64(3)):
                self.same(dataset[key], self.all[int(key)])
            for _ in range(100):
                begin, end = (draw.choice([None, draw.randrange(-2 * COUNT, 2 * COUNT)]) for _ in range(2))
                cut = slice(begin, end, draw.choice([None, -1, 1, 2, -7]))
                self.assertEqual(dataset[cut].numpy().tobytes(), self.all[cut].tobytes(), cut)
            self.same(dataset[torch.tensor([5, -5])], self.all[[5, -5]])
            self.assertEqual(len(list(dataset)), COUNT)  # IndexError ends it
            for outside in (COUNT, -COUNT - 1, [1, COUNT], [1, -COUNT - 1]):
                with self.assertRaisesRegex(IndexError, "the dataset has 200"):
                    dataset[outside]
            for wrong in (1.5, [0.5], "a", [[1]]):
                with self.assertRaisesRegex(hocket.InvalidArgumentError, "whole numbers"):
                    dataset[wrong]
        with self.assertRaisesRegex(hocket.InvalidArgumentError, "a slice needs it"):
            numbers_of(slice(0, 2), 0)

    def test_a_source_that_lacks_a_sample_ends_no_iteration(self):
        with tempfile.TemporaryDirectory() as folder:
            for key in range(4):
                sample(key).tofile(f"{folder}/{key}")
            with hocket.Cache(folder) as cache:
                os.remove(f"{folder}/2")
                with self.assertRaises(hocket.Error):
                    list(Dataset(cache))

    def test_loaders_of_single_samples(self):
        """With torch's own samplers and collate_fn, and those of users."""
        for cache, workers in self.ways():
            with self.subTest(cache=type(cache).__name__, workers=workers):
                dataset = Dataset(cache, transform=first_number)
                rows, keys = zip(*DataLoader(dataset, batch_size=16, num_workers=workers))
                self.same(torch.cat(rows), self.all)
                self.same(torch.cat(keys), np.arange(COUNT) * 2)
                drawn = list(DataLoader(dataset, num_workers=workers, batch_sampler=BatchSampler(RandomSampler(range(COUNT)), 7, False)))
                self.same(torch.cat([batch for batch, _ in drawn]), self.all[torch.cat([keys for _, keys in drawn]) // 2])
                for batch, of in DataLoader(dataset, batch_sampler=Sampler(cache, 16), num_workers=workers, collate_fn=as_it_is):
                    self.same(batch, self.all[of // 2])
                plain = Dataset(cache)
                self.same(torch.cat(list(DataLoader(plain, batch_size=9, num_workers=workers, collate_fn=doubled))), self.all * 2)
                for own in (Halved(cache), Within(plain)):
                    self.same(torch.cat(list(DataLoader(own, batch_size=16, num_workers=workers))), self.all.astype(np.float32) / 2)
                some = ConcatDataset([Subset(plain, [3, 5]), plain])
                self.same(torch.cat(list(DataLoader(some, batch_size=16, num_workers=workers))), np.concatenate([self.all[[3, 5]], self.all]))

    def test_workers_by_each_start(self):
        for start in multiprocessing.get_all_start_methods():
            dataset = Dataset(self.shared, transform=first_number)
            for batch, keys in DataLoader(dataset, batch_size=None, sampler=Sampler(dataset, 64), num_workers=1, multiprocessing_context=start):
                self.same(batch, self.all[keys // 2])
        with self.assertRaisesRegex(hocket.InvalidArgumentError, "use hocket.SharedCache"):
            list(DataLoader(Dataset(self.cache), num_workers=1, multiprocessing_context="spawn"))

    def test_batches_that_a_worker_changes(self):
        """In place, in form, in memory: what is sent is what the tensor was at the end."""
        for change in (added, transposed, enlarged, moved, given_twice_in_parts, copied, stored):
            with self.subTest(change=change.__name__):
                loader = DataLoader(Dataset(self.shared, transform=change), batch_size=None, sampler=Sampler(self.shared, 16, shuffle=False),
                                    num_workers=1, timeout=100)
                for keys, found in in_pairs(self, Sampler(self.shared, 16, shuffle=False), loader):
                    want = change(torch.from_numpy(self.all[keys].copy()), keys)
                    for one, other in in_pairs(self, found if isinstance(found, list) else [found], want if isinstance(want, tuple) else [want]):
                        self.assertEqual(one.shape, other.shape)
                        self.same(one, other)

    def test_a_batch_that_a_worker_sends_twice(self):
        """Its memory is another batch's by then: an error in the program, and no loader that waits for ever."""
        dataset = Dataset(self.shared, transform=Again())
        found = iter(DataLoader(dataset, batch_size=None, sampler=Sampler(dataset, 16), num_workers=1, timeout=100))
        next(found)
        with self.assertRaisesRegex(hocket.InvalidArgumentError, "sent a batch twice.*clone"):
            next(found)

    def test_ragged(self):
        sizes = [4 * (key % 5) for key in range(30)]
        with tempfile.TemporaryDirectory() as folder:
            for key, size in enumerate(sizes):
                sample(key, size).tofile(f"{folder}/{key:03}")
            with hocket.Cache(folder) as cache, hocket.SharedCache(folder) as shared:
                ways: list[tuple[hocket.Cache | hocket.SharedCache, int]] = [(cache, 0), (shared, 0), (shared, 2)]
                for which, workers in ways:
                    dataset = Dataset(which, torch.int16, (-1, 2), ragged=True)
                    loader = DataLoader(dataset, batch_size=None, sampler=Sampler(which, 7, seed=3), num_workers=workers)
                    for batch, keys in in_pairs(self, loader, Sampler(which, 7, seed=3)):
                        self.assertEqual([tuple(one.shape) for one in batch], [(sizes[key] // 4, 2) for key in keys])
                        self.assertEqual([one.numpy().tobytes() for one in batch], [sample(key, sizes[key]).tobytes() for key in keys])
                    single = list(DataLoader(dataset, batch_size=None, num_workers=workers))
                    self.assertEqual([one.numpy().tobytes() for one in single], [sample(key, size).tobytes() for key, size in enumerate(sizes)])
                with self.assertRaisesRegex(hocket.InvalidArgumentError, "ragged=True"):
                    Dataset(cache)[[1, 2]]
                with self.assertRaisesRegex(hocket.InvalidArgumentError, "sample 1 has 4 bytes, which are no torch.float64"):
                    Dataset(cache, torch.float64, ragged=True)[1]

    def test_streams(self):
        for cache, workers in self.ways():
            dataset, sampler = Dataset(cache, transform=first_number), Sampler(cache, 16, seed=4)
            for epoch, first in ((0, 0), (1, 5), (1, 0)):
                sampler.set_epoch(epoch)
                sampler.load_state_dict(sampler.state_dict(first))
                want = keys_of(epoch, Sampler(cache, 16, seed=4))[first:]
                loader = DataLoader(Stream(dataset, sampler), batch_size=None, num_workers=workers)
                for (batch, keys), expected in in_pairs(self, loader, want):
                    self.same(keys, 2 * expected)
                    self.same(batch, self.all[expected])
                self.assertEqual(len(want), len(sampler) - first)

    def test_a_stream_is_resumed_by_other_ranks_and_batches(self):
        dataset = Dataset(self.cache, transform=first_number)
        before = Sampler(self.cache, 16, seed=4)
        whole = np.concatenate(keys_of(1, before))
        share = share_of(dataset, before)
        for stop in range(1, 6):
            next(share)
            self.assertEqual(before.state_dict()["batches"], stop)
            state = pickle.loads(pickle.dumps(share.state_dict()))
            for world, size in ((1, 16), (1, 8), (2, 8), (4, 2)):
                parts = []
                for rank in range(world):
                    later = share_of(dataset, Sampler(self.cache, size, seed=4, rank=rank, world_size=world))
                    later.load_state_dict(state)
                    parts.append(np.concatenate([keys // 2 for _, keys in later]))
                    self.assertEqual(later.state_dict()["sampler"]["epoch"], 1)
                self.assertEqual(np.stack(parts, 1).reshape(-1).tolist(), whole[16 * stop:].tolist(), (stop, world, size))

    def test_a_worker_of_a_stream_is_resumed_by_the_like(self):
        dataset = Dataset(self.cache, transform=first_number)
        with unittest.mock.patch("torch.utils.data.get_worker_info", lambda: types.SimpleNamespace(id=1, num_workers=2)):
            share = share_of(dataset, Sampler(self.cache, 16, seed=4))
            next(share)
            state = share.state_dict()
            rest = [keys.tolist() for _, keys in share]
            later = share_of(dataset, Sampler(self.cache, 16, seed=4))
            later.load_state_dict(state)
            self.assertEqual([keys.tolist() for _, keys in later], rest)
            for size, ranks, words in ((8, 1, "batch_size 16"), (16, 2, "world_size 1")):
                with self.assertRaisesRegex(hocket.InvalidArgumentError, words):
                    share_of(dataset, Sampler(self.cache, size, seed=4, world_size=ranks)).load_state_dict(state)

    def test_a_stream_with_workers_does_not_know_how_many_batches_were_given(self):
        sampler = Sampler(self.shared, 16)
        next(iter(DataLoader(Stream(Dataset(self.shared), sampler), batch_size=None, num_workers=2)))
        with self.assertRaisesRegex(hocket.InvalidArgumentError, "call state_dict.batches."):
            sampler.state_dict()
        self.assertEqual(sampler.state_dict(1)["batches"], 1)

    @unittest.skipUnless(importlib.util.find_spec("torchdata"), "torchdata is not installed")
    def test_stateful_loaders(self):
        """Stopped after any batch, and by a state that was pickled, the rest is the rest."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from torchdata.stateful_dataloader import StatefulDataLoader
            for cache, workers in self.ways():
                dataset = Dataset(cache, transform=first_number)

                def loader(kind):
                    sampler = Sampler(cache, 16, seed=4)
                    sampler.set_epoch(2)
                    if kind == "stream":
                        return StatefulDataLoader(Stream(dataset, sampler), batch_size=None, num_workers=workers)
                    if kind == "batch_sampler":
                        return StatefulDataLoader(dataset, batch_sampler=sampler, num_workers=workers, collate_fn=as_it_is)
                    return StatefulDataLoader(dataset, batch_size=None, sampler=sampler, num_workers=workers)

                for kind in ("sampler", "batch_sampler", "stream"):
                    want = [keys.tolist() for _, keys in loader(kind)]
                    self.assertEqual(len(want), 13)
                    for stop in (6, 13):
                        with self.subTest(cache=type(cache).__name__, workers=workers, kind=kind, stop=stop):
                            first = loader(kind)
                            found = []
                            for _, keys in first:
                                found.append(keys.tolist())
                                if len(found) == stop:
                                    break
                            state = pickle.loads(pickle.dumps(first.state_dict()))
                            later = loader(kind)
                            later.load_state_dict(state)
                            found += [keys.tolist() for _, keys in later]
                            self.assertEqual(found, want)

    @unittest.skipUnless(importlib.util.find_spec("accelerate"), "accelerate is not installed")
    def test_accelerate_keeps_the_order(self):
        from accelerate import Accelerator
        dataset, sampler = Dataset(self.cache, transform=first_number), Sampler(self.cache, 16, seed=4)
        prepared = Accelerator(cpu=True).prepare(DataLoader(dataset, batch_sampler=sampler, collate_fn=as_it_is))
        for epoch in range(2):
            found = [keys.tolist() for _, keys in prepared]
            self.assertEqual(found, [(2 * keys).tolist() for keys in keys_of(epoch, Sampler(self.cache, 16, seed=4))])

    @unittest.skipUnless(importlib.util.find_spec("accelerate"), "accelerate is not installed")
    def test_accelerate_divides_batches(self):
        """Among ranks, also where the last batches are too few or too short, for which it joins others."""
        from accelerate.data_loader import BatchSamplerShard
        for size in (6, 16, 60):
            ours = Sampler(self.cache, size, seed=4)
            torchs = BatchSampler(ours.keys().tolist(), size, False)
            for ranks_, split, even in itertools.product((2, 3), (False, True), (False, True)):
                if split and size % ranks_ != 0:
                    continue
                for rank in range(ranks_):
                    shards = [list(BatchSamplerShard(one, ranks_, rank, split_batches=split, even_batches=even)) for one in (ours, torchs)]
                    self.assertEqual(shards[0], shards[1], (size, ranks_, split, even, rank))


def added(batch, keys):
    return batch.add_(1)


def transposed(batch, keys):
    return batch.t_()


def enlarged(batch, keys):
    return batch.unsqueeze_(0)


def moved(batch, keys):
    batch.set_(torch.arange(5, dtype=torch.uint8))
    return batch


def given_twice_in_parts(batch, keys):
    return batch, batch[3:5], batch


def copied(batch, keys):
    first, second = copy.deepcopy([batch, batch])
    assert first is second
    return batch, first.add_(1), copy.copy(batch)


def stored(batch, keys):
    file = io.BytesIO()
    torch.save({"batch": batch}, file)
    file.seek(0)
    for other in (pickle.loads(pickle.dumps(batch)), torch.load(file)["batch"], copy.copy(batch), copy.deepcopy(batch)):
        assert type(other) is torch.Tensor and torch.equal(other, batch)
    return batch


class Formed:
    """Gives batches in a dict's or a tuple's places."""

    def __init__(self, form):
        self.form = form

    def __call__(self, batch, keys):
        return dict.fromkeys(self.form, batch) if isinstance(self.form, dict) else (batch,) * len(self.form)


class Again:
    """Gives the first batch that a worker has seen, always."""

    kept = None

    def __call__(self, batch, keys):
        self.kept = batch if self.kept is None else self.kept
        return self.kept


class Mixtures(unittest.TestCase):
    LENGTHS = (50, 7, 31)
    folder: "tempfile.TemporaryDirectory[str]"
    caches: "list[hocket.SharedCache]"

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.caches = []
        for i, length in enumerate(cls.LENGTHS):
            os.mkdir(f"{cls.folder.name}/{i}")
            for key in range(length):
                np.array([i, key], np.int32).tofile(f"{cls.folder.name}/{i}/{key:03}")
            cls.caches.append(hocket.SharedCache(f"{cls.folder.name}/{i}", memory="1MiB"))
            cls.addClassCleanup(cls.caches[-1].close)

    def mixture(self, weights=None, samples=None, **form):
        return Mixture([Dataset(cache, torch.int32, **form) for cache in self.caches], weights, samples)

    def want(self, keys):
        begins = np.cumsum((0, *self.LENGTHS))
        return [[int(np.searchsorted(begins, key, "right")) - 1, int(key - begins[np.searchsorted(begins, key, "right") - 1])] for key in keys]

    def test_batches_have_their_samples_in_order(self):
        draw = np.random.default_rng(2)
        mixture = self.mixture()
        total = sum(self.LENGTHS)
        for _ in range(20):
            keys = draw.integers(-total, total, draw.integers(0, 20))
            self.assertEqual(mixture[keys].reshape(-1, 2).tolist(), self.want(keys % total))
        self.assertEqual(mixture[-1].tolist(), self.want([total - 1])[0])
        self.assertEqual(mixture[49:52].tolist(), self.want([49, 50, 51]))
        self.assertEqual(len(list(mixture)), total)
        with self.assertRaisesRegex(IndexError, "has 88"):
            mixture[total]
        forms = self.mixture(transform=lambda batch, keys: {"x": (batch, np.asarray(keys)), "names": [str(key) for key in keys]})
        found = forms[[60, 3, 51]]
        self.assertEqual((found["x"][0].tolist(), found["x"][1].tolist(), found["names"]), (self.want([60, 3, 51]), [3, 3, 1], ["3", "3", "1"]))
        ragged = self.mixture(ragged=True)[[60, 3]]
        self.assertEqual([one.tolist() for one in ragged], self.want([60, 3]))

    def test_loaders(self):
        for workers in (0, 2):
            mixture = self.mixture([1, 1, 2], 100)
            sampler = Sampler(mixture, 16, seed=1)
            loader = DataLoader(mixture, batch_size=None, sampler=sampler, num_workers=workers)
            for batch, keys in in_pairs(self, loader, Sampler(mixture, 16, seed=1)):
                self.assertEqual(batch.tolist(), self.want(keys))
            self.assertEqual(torch.cat(list(DataLoader(mixture, batch_size=5, num_workers=workers))).tolist(), self.want(range(sum(self.LENGTHS))))
            several = DataLoader(mixture, batch_size=3, sampler=sampler, num_workers=workers, collate_fn=as_it_is)
            self.assertEqual(torch.cat(list(one_by_one(several))).tolist(), self.want(np.concatenate(list(sampler))))

    def test_shares_hold_in_every_epoch_and_use_each_sample_alike(self):
        draw = random.Random(3)
        for _ in range(40):
            weights = [draw.choice([0, 1, 2.5, 10]) for _ in self.LENGTHS]
            if sum(weights) == 0:
                continue
            mixture = self.mixture(weights, draw.randrange(1, 300))
            samples = mixture.samples_of_epoch()
            used = np.zeros(sum(self.LENGTHS), int)
            shuffle = draw.random() < 0.7
            for epoch in range(4):
                order = mixture.order(shuffle, 5, epoch)
                self.assertEqual(len(order), samples)
                counts = np.bincount(mixture._owners(order), minlength=3)
                self.assertTrue((np.abs(counts - np.array(weights) / sum(weights) * samples) < 1).all())
                np.add.at(used, order, 1)
            for part in np.split(used, np.cumsum(self.LENGTHS)[:-1]):
                self.assertLessEqual(part.max() - part.min(), 1)

    def test_they_are_resumed_by_any_number_of_ranks(self):
        mixture = self.mixture([3, 1, 1], 96)
        whole = keys_of(5, Sampler(mixture, 24, seed=9))
        stopped = Sampler(mixture, 12, seed=9, world_size=2)
        stopped.set_epoch(5)
        state = pickle.loads(pickle.dumps(stopped.state_dict(2)))
        parts = []
        for rank in range(3):
            sampler = Sampler(self.mixture([3, 1, 1], 96), 8, seed=9, rank=rank, world_size=3)
            sampler.load_state_dict(state)
            parts.append(list(sampler))
        self.assertEqual([np.stack(step, 1).reshape(-1).tolist() for step in zip(*parts)], [keys.tolist() for keys in whole[2:]])
        with self.assertRaisesRegex(hocket.InvalidArgumentError, "mixture"):
            Sampler(self.mixture([1, 3, 1], 96), 24, seed=9).load_state_dict(state)

    def test_refused(self):
        for weights, samples, words in (([1, 2], None, "one for each"), ([-1, 1, 1], None, "0 or more"), ([0, 0, 0], None, "0 or more"),
                                        ([1, 1, float("nan")], None, "0 or more"), (None, 0, "1 or more")):
            with self.assertRaisesRegex(hocket.InvalidArgumentError, words):
                self.mixture(weights, samples)
        unlike = Mixture([Dataset(self.caches[0], torch.int32), Dataset(self.caches[1], torch.int16)])
        with self.assertRaisesRegex(hocket.InvalidArgumentError, "transforms"):
            unlike[[0, 50]]
        with self.assertRaisesRegex(hocket.InvalidArgumentError, "1 or more"):
            Mixture([])
        for one, other, words in (({"x": 0}, {"y": 0}, "dicts of .'x'., and .'y'.: .*the same names"), ({"x": 0}, {"x": 0, "y": 0}, "dicts of"),
                                  ((0,), (0, 0), "tuples of 1, 2 fields"), ((0, 0), (0,), "tuples of 2, 1 fields")):
            unlike = Mixture([Dataset(cache, transform=Formed(form)) for cache, form in zip(self.caches, (one, other))])
            with self.assertRaisesRegex(hocket.InvalidArgumentError, words):
                unlike[[0, 50]]


if __name__ == "__main__":
    ranks.main()
