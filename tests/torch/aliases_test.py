#!/usr/bin/python3
"""Calls whose tensors share memory: of one list, of inputs and outputs, of the operations of a coalescing manager.

Every operation reads what was there before the call, and of several results for one place the last one in the list
remains, which is what Gloo does where it takes such lists. Tensors are random views of a small arena; each rank knows
the arenas of all, so it can calculate its own after the call."""
import random

import ranks  # first: it skips without torch

# isort: split
import torch
import torch.distributed as dist

import hocket.torch  # noqa: F401 (registers the backend)

HAS_2 = not torch.__version__.startswith("1.")
ELEMENTS = 24


def arena_of(rank):
    return (torch.arange(ELEMENTS) * 3 + rank * 100).float()


class View:
    """Some elements of an arena: those that a slice takes."""

    def __init__(self, chance, count):
        step = chance.choice([1, 1, 1, 2]) if 2 * count <= ELEMENTS else 1
        begin = chance.randrange(ELEMENTS - step * max(count - 1, 0))
        self.slice = slice(begin, begin + step * count, step)

    def of(self, arena):
        return arena[self.slice]


class Case:
    """One call. Sizes are the same on all ranks; places, and with them what shares memory, are each rank's own."""

    def __init__(self, seed, size):
        self.seed, self.size = seed, size
        self.common = random.Random(seed)
        self.own = [random.Random(1000 * seed + rank) for rank in range(size)]
        self.arenas = [arena_of(rank) for rank in range(size)]

    def views(self, counts):
        """A list of views for each rank. Some lists are contiguous, as the pieces of one tensor are."""
        return [self._list(chance, counts) for chance in self.own]

    def _list(self, chance, counts):
        if chance.random() < 0.5 and sum(counts) <= ELEMENTS:
            made, begin = [], chance.randrange(ELEMENTS - sum(counts) + 1)
            for count in counts:
                made.append(View(chance, 0))
                made[-1].slice = slice(begin, begin + count)
                begin += count
            return made
        return [View(chance, count) for count in counts]

    def read(self, rank, view):
        return view.of(self.arenas[rank]).clone()

    def sum(self, views):
        return sum(self.read(rank, views[rank]) for rank in range(self.size))


def expected_of(arena, writes):
    """writes: pairs of a view and its new values, in order."""
    result = arena.clone()
    for view, values in writes:
        view.of(result).copy_(values)
    return result


def column(lists, i):
    return [views[i] for views in lists]


def _all_reduce_coalesced(case, rank, arena):
    views = case.views([case.common.randrange(1, 8) for _ in range(3)])
    dist.all_reduce_coalesced([view.of(arena) for view in views[rank]])
    return [(view, case.sum(column(views, i))) for i, view in enumerate(views[rank])]


def _all_gather(case, rank, arena):
    count = case.common.randrange(1, 6)
    ins, outs = case.views([count]), case.views([count] * case.size)
    dist.all_gather([view.of(arena) for view in outs[rank]], ins[rank][0].of(arena))
    return [(view, case.read(r, ins[r][0])) for r, view in enumerate(outs[rank])]


def _all_gather_coalesced(case, rank, arena):
    counts = [case.common.randrange(1, 4) for _ in range(2)]
    ins, outs = case.views(counts), [case.views(counts) for _ in range(case.size)]
    dist.all_gather_coalesced([[view.of(arena) for view in outs[r][rank]] for r in range(case.size)],
                              [view.of(arena) for view in ins[rank]])
    return [(outs[r][rank][i], case.read(r, ins[r][i])) for i in range(len(counts)) for r in range(case.size)]


def _gather(case, rank, arena):
    count, root = case.common.randrange(1, 6), case.common.randrange(case.size)
    ins, outs = case.views([count]), case.views([count] * case.size)
    dist.gather(ins[rank][0].of(arena), [view.of(arena) for view in outs[rank]] if rank == root else None, dst=root)
    return [(view, case.read(r, ins[r][0])) for r, view in enumerate(outs[rank])] if rank == root else []


def _scatter(case, rank, arena):
    count, root = case.common.randrange(1, 6), case.common.randrange(case.size)
    ins, outs = case.views([count] * case.size), case.views([count])
    dist.scatter(outs[rank][0].of(arena), [view.of(arena) for view in ins[rank]] if rank == root else None, src=root)
    return [(outs[rank][0], case.read(root, ins[root][rank]))]


def _reduce_scatter(case, rank, arena):
    count = case.common.randrange(1, 6)
    ins, outs = case.views([count] * case.size), case.views([count])
    dist.reduce_scatter(outs[rank][0].of(arena), [view.of(arena) for view in ins[rank]])
    return [(outs[rank][0], case.sum(column(ins, rank)))]


def _all_to_all(case, rank, arena):
    sizes = [[case.common.randrange(5) for _ in range(case.size)] for _ in range(case.size)]
    ins = [case._list(case.own[r], sizes[r]) for r in range(case.size)]
    outs = [case._list(case.own[r], [sizes[q][r] for q in range(case.size)]) for r in range(case.size)]
    if case.common.random() < 0.2 and all(sizes[q][r] == sizes[r][q] for q in range(case.size) for r in range(case.size)):
        outs = ins
    dist.all_to_all([view.of(arena) for view in outs[rank]], [view.of(arena) for view in ins[rank]])
    return [(view, case.read(q, ins[q][rank])) for q, view in enumerate(outs[rank])]


def _all_to_all_single(case, rank, arena):
    count = case.common.randrange(1, ELEMENTS // case.size)
    ins, outs = case.views([count * case.size]) , case.views([count * case.size])
    splits = [count] * case.size if case.common.random() < 0.5 else None
    dist.all_to_all_single(outs[rank][0].of(arena), ins[rank][0].of(arena), splits, splits)
    return [(outs[rank][0], torch.cat([case.read(q, ins[q][0])[rank * count:(rank + 1) * count] for q in range(case.size)]))]


def _several(case, count, start, pieces_in, pieces_out):
    """Starts several operations within a coalescing manager; returns their views."""
    from torch.distributed.distributed_c10d import _coalescing_manager
    ins = [case.views([count * pieces_in]) for _ in range(3)]
    outs = [case.views([count * pieces_out]) for _ in range(3)]
    device = torch.device("cpu") if case.common.random() < 0.5 else None
    with _coalescing_manager(device=device):
        for one, other in zip(ins, outs):
            start(one, other)
    return ins, outs


def _gathers_together(case, rank, arena):
    count = case.common.randrange(1, ELEMENTS // case.size)
    ins, outs = _several(case, count, lambda i, o: dist.all_gather_into_tensor(o[rank][0].of(arena), i[rank][0].of(arena)), 1, case.size)
    return [(o[rank][0], torch.cat([case.read(r, i[r][0]) for r in range(case.size)])) for i, o in zip(ins, outs)]


def _scatters_together(case, rank, arena):
    count = case.common.randrange(1, ELEMENTS // case.size)
    ins, outs = _several(case, count, lambda i, o: dist.reduce_scatter_tensor(o[rank][0].of(arena), i[rank][0].of(arena)), case.size, 1)
    return [(o[rank][0], case.sum(column(i, 0))[rank * count:(rank + 1) * count]) for i, o in zip(ins, outs)]


def _reductions_together(case, rank, arena):
    views, _ = _several(case, case.common.randrange(1, 8), lambda i, _: dist.all_reduce(i[rank][0].of(arena)), 1, 1)
    return [(i[rank][0], case.sum(column(i, 0))) for i in views]


def _messages_together(case, rank, arena):
    """A send of what a receive of the same batch overwrites."""
    from torch.distributed.distributed_c10d import _coalescing_manager
    count, (right, left) = case.common.randrange(1, 8), ((rank + 1) % case.size, (rank - 1) % case.size)
    ins, outs = case.views([count]), case.views([count])
    with _coalescing_manager(device=torch.device("cpu")):
        dist.irecv(outs[rank][0].of(arena), left)
        dist.isend(ins[rank][0].of(arena), right)
    return [(outs[rank][0], case.read(left, ins[left][0]))]


ALWAYS = [_all_reduce_coalesced, _all_gather, _all_gather_coalesced, _gather, _scatter, _reduce_scatter, _all_to_all, _all_to_all_single]
TOGETHER = [_gathers_together, _scatters_together, _reductions_together, _messages_together]


def calls(rank, size, call, seeds):
    for seed in seeds:
        case, arena = Case(seed, size), arena_of(rank)
        try:
            writes = call(case, rank, arena)
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        expected = expected_of(case.arenas[rank], writes)
        assert torch.equal(arena, expected), f"seed {seed}, rank {rank} of {size}: {arena.tolist()}, not {expected.tolist()}"


class Aliases(ranks.TestCase):
    def test_random_calls(self):
        for size in (2, 3):
            for call in ALWAYS + (TOGETHER if HAS_2 else []):
                with self.subTest(call=call.__name__, size=size):
                    self.check(size, calls, call, range(150))


if __name__ == "__main__":
    ranks.main()
