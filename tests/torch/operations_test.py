#!/usr/bin/python3
"""All operations of torch.distributed on the backend hocket, compared with plain arithmetic."""
import datetime
import inspect
import os
import threading
import time
import unittest
import warnings

import ranks  # first: it skips without torch

# isort: split
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

import hocket.torch
from ranks import refused, same

REALS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
WHOLE = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]
COMPLEX = [torch.complex64, torch.complex128]
ALL = REALS + WHOLE + COMPLEX + [torch.bool]
HAS_2 = not torch.__version__.startswith("1.")


def numbers(rank, count, dtype):
    """Small whole numbers, so that sums and products are exact in every type."""
    values = (torch.arange(count) * 7 + rank * 3) % 4 + 1
    if dtype is torch.bool:
        return (values % 2).bool()
    if dtype.is_complex:
        return torch.complex(values.double(), values.double() + rank).to(dtype)
    return values.to(dtype)


def plain(op, inputs):
    """The expected result of a reduction."""
    dtype = inputs[0].dtype
    wide = torch.stack([x.to(torch.complex128) if dtype.is_complex else x.to(torch.int64 if not dtype.is_floating_point else torch.float64)
                        for x in inputs])
    if dtype is torch.bool:
        return (wide.sum(0) > 0) if op in (ReduceOp.SUM, ReduceOp.MAX, ReduceOp.BOR) else (wide.min(0).values > 0)
    if op == ReduceOp.SUM:
        return wide.sum(0).to(dtype)
    if op == ReduceOp.AVG:
        total = wide.sum(0)
        return torch.div(total, len(inputs), rounding_mode="trunc").to(dtype) if total.dtype is torch.int64 else (total / len(inputs)).to(dtype)
    if op == ReduceOp.PRODUCT:
        return wide.prod(0).to(dtype)
    if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
        word = {ReduceOp.BAND: torch.bitwise_and, ReduceOp.BOR: torch.bitwise_or, ReduceOp.BXOR: torch.bitwise_xor}
        result = wide[0]
        for other in wide[1:]:
            result = next(f for o, f in word.items() if o == op)(result, other)
        return result.to(dtype)
    return (wide.max(0) if op == ReduceOp.MAX else wide.min(0)).values.to(dtype)


def operators_of(dtype):
    if dtype.is_complex:
        return [ReduceOp.SUM]  # all that torch itself lets through
    if dtype is torch.bool:
        return [ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MAX, ReduceOp.MIN, ReduceOp.BAND, ReduceOp.BOR]
    arithmetic = [ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MAX, ReduceOp.MIN, ReduceOp.AVG]
    return arithmetic if dtype.is_floating_point else arithmetic + [ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR]


def reductions(rank, size):
    for dtype in ALL:
        for op in operators_of(dtype):
            for count in (0, 1, 7, 1000):
                what = f"{dtype} {op} {count}"
                expected = plain(op, [numbers(r, count, dtype) for r in range(size)])
                x = numbers(rank, count, dtype)
                dist.all_reduce(x, op)
                same(x, expected, "all_reduce " + what)
                x = numbers(rank, count, dtype)
                dist.reduce(x, size - 1, op)
                if rank == size - 1:
                    same(x, expected, "reduce " + what)
                if dtype.is_complex:
                    continue
                out = torch.empty(count, dtype=dtype)
                dist.reduce_scatter(out, [numbers(rank + piece, count, dtype) for piece in range(size)], op)
                same(out, plain(op, [numbers(r + rank, count, dtype) for r in range(size)]), "reduce_scatter " + what)


def moves(rank, size):
    for dtype in ALL:
        for count in (0, 5, 3000):
            own = numbers(rank, count, dtype)
            everyone = [numbers(r, count, dtype) for r in range(size)]
            for root in range(size):
                x = own.clone()
                dist.broadcast(x, root)
                same(x, everyone[root], f"broadcast {dtype}")
            out = [torch.empty_like(own) for _ in range(size)]
            dist.all_gather(out, own)
            for found, expected in zip(out, everyone):
                same(found, expected, f"all_gather {dtype}")
            gathered = [torch.empty_like(own) for _ in range(size)] if rank == 1 else None
            dist.gather(own, gathered, dst=1)
            for found, expected in zip(gathered or [], everyone):
                same(found, expected, f"gather {dtype}")
            x = torch.empty_like(own)
            dist.scatter(x, everyone if rank == 1 else None, src=1)
            same(x, own, f"scatter {dtype}")
            out = [torch.empty_like(own) for _ in range(size)]
            dist.all_to_all(out, [numbers(10 * rank + r, count, dtype) for r in range(size)])
            for r, found in enumerate(out):
                same(found, numbers(10 * r + rank, count, dtype), f"all_to_all {dtype}")


def single_tensors(rank, size):
    gather = getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base
    scatter = getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base
    for dtype in (torch.float32, torch.bfloat16, torch.bool):
        everyone = torch.stack([numbers(r, 6, dtype) for r in range(size)])
        out = torch.empty(size, 6, dtype=dtype)
        gather(out, numbers(rank, 6, dtype))
        same(out, everyone, "all_gather_into_tensor")
        place = torch.empty(size * 6, dtype=dtype)  # in place: this rank's piece lies in the result
        place[6 * rank:6 * rank + 6] = numbers(rank, 6, dtype)
        gather(place, place[6 * rank:6 * rank + 6])
        same(place, everyone.flatten(), "all_gather_into_tensor in place")
        out = torch.empty(6, dtype=dtype)
        scatter(out, torch.cat([numbers(rank + piece, 6, dtype) for piece in range(size)]))
        same(out, plain(ReduceOp.SUM, [numbers(r + rank, 6, dtype) for r in range(size)]), "reduce_scatter_tensor")
        out = torch.empty(2 * size, 3, dtype=dtype)
        dist.all_to_all_single(out, torch.cat([numbers(rank + r, 6, dtype).view(2, 3) for r in range(size)]))
        same(out, torch.cat([numbers(r + rank, 6, dtype).view(2, 3) for r in range(size)]), "all_to_all_single")
        # Rank a sends a + b + 1 rows to rank b.
        mine = torch.cat([numbers(rank * 10 + r, 4 * (rank + r + 1), dtype).view(-1, 4) for r in range(size)])
        rows = [rank + r + 1 for r in range(size)]
        out = torch.empty(sum(rows), 4, dtype=dtype)
        dist.all_to_all_single(out, mine, rows, rows)
        same(out, torch.cat([numbers(r * 10 + rank, 4 * (rank + r + 1), dtype).view(-1, 4) for r in range(size)]), "all_to_all_single, splits")


def odd_tensors(rank, size):
    """Not contiguous, of different sizes, of many dimensions, and scalars."""
    x = numbers(rank, 24, torch.float32).view(4, 6).t()
    dist.all_reduce(x)
    same(x, plain(ReduceOp.SUM, [numbers(r, 24, torch.float32).view(4, 6).t() for r in range(size)]), "all_reduce, transposed")
    every_other = torch.zeros(20)
    dist.broadcast(every_other[::2] if rank else torch.ones(10), 0)
    if rank:
        same(every_other, torch.ones(10).repeat_interleave(2) * torch.tensor([1.0, 0.0]).repeat(10), "broadcast to every other element")
    out = [torch.empty(r + 1, 2).t() for r in range(size)]
    dist.all_gather(out, numbers(rank, 2 * (rank + 1), torch.float32).view(rank + 1, 2).t())
    for r, found in enumerate(out):
        same(found, numbers(r, 2 * (r + 1), torch.float32).view(r + 1, 2).t(), "all_gather of different sizes")
    whole = torch.empty(size, 5)
    dist.all_gather(list(whole.unbind(0)), numbers(rank, 5, torch.float32))  # views that lie one after another
    same(whole, torch.stack([numbers(r, 5, torch.float32) for r in range(size)]), "all_gather into views")
    scalar = torch.tensor(float(rank))
    dist.all_reduce(scalar)
    same(scalar, torch.tensor(float(sum(range(size)))), "all_reduce of a scalar")
    out = torch.empty(3)
    dist.reduce_scatter(out, [torch.ones(6)[::2] * (r + 1) for r in range(size)])
    same(out, torch.ones(3) * size * (rank + 1), "reduce_scatter of every other element")


def quantized_tensors(rank, size):
    """Their numbers move; each keeps its own scale."""
    mine = torch.quantize_per_tensor(torch.arange(4.0) + rank, 1.0, 0, torch.quint8)
    out = [torch._empty_affine_quantized([4], scale=0.5, zero_point=1, dtype=torch.quint8) for _ in range(size)]
    dist.all_gather(out, mine)
    for r, found in enumerate(out):
        same(found.int_repr().float(), torch.arange(4.0) + r, "all_gather of quantized tensors")
        assert found.q_scale() == 0.5
    square = torch.quantize_per_tensor(torch.arange(4.0 * size).view(size, 4) + 100 * rank, 1.0, 0, torch.qint32)
    out = [torch._empty_affine_quantized([4, 2], scale=1.0, zero_point=0, dtype=torch.qint32)[:, 1] for _ in range(size)]
    dist.all_to_all(out, [square[r] if r % 2 else square.t().contiguous()[:, r] for r in range(size)])
    for r, found in enumerate(out):
        same(found.int_repr().float(), torch.arange(4.0) + 4 * rank + 100 * r, "all_to_all of quantized tensors with gaps")
    by_channel = torch.quantize_per_channel(torch.ones(2, 2), torch.ones(2), torch.zeros(2), 0, torch.qint8)
    refused(ValueError, "one scale for all elements", dist.broadcast, by_channel, 0)


def messages(rank, size):
    right, left = (rank + 1) % size, (rank + size - 1) % size
    for dtype in ALL:
        out = numbers(rank, 100000, dtype)
        sent = [dist.isend(out, right, tag=2), dist.isend(out[:3], right, tag=1)]
        short, long = torch.empty(3, dtype=dtype), torch.empty_like(out)
        assert dist.recv(short, left, tag=1) == left
        dist.recv(long, left, tag=2)
        same(long, numbers(left, 100000, dtype), "recv")
        same(short, numbers(left, 3, dtype), "recv with the other tag")
        for work in sent:
            work.wait()
    if rank == 0:
        heard = {}
        for _ in range(size - 1):
            x = torch.empty(4)
            heard[dist.recv(x, tag=7)] = x  # from any rank
        assert heard.keys() == set(range(1, size)), heard
        for source, x in heard.items():
            same(x, torch.full((4,), float(source)), "from any source")
    else:
        dist.send(torch.full((4,), float(rank)), 0, tag=7)
    got = torch.empty(5)
    operations = [dist.P2POp(dist.isend, torch.full((5,), float(rank)), right), dist.P2POp(dist.irecv, got, left)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    same(got, torch.full((5,), float(left)), "batch_isend_irecv")


def several_at_once(rank, size):
    tensors = [numbers(rank, count, torch.float32) for count in (3, 1, 50000)]
    dist.all_reduce_coalesced(tensors)
    for x in tensors:
        same(x, plain(ReduceOp.SUM, [numbers(r, len(x), torch.float32) for r in range(size)]), "all_reduce_coalesced")
    x, long = torch.tensor([1.0 + rank]), torch.arange(5.0)
    dist.all_reduce_coalesced([x, x])  # with one tensor twice, both are the sum of its earlier values
    same(x, torch.tensor([float(sum(range(1, size + 1)))]), "all_reduce_coalesced of one tensor twice")
    dist.all_reduce_coalesced([long[:3], long[2:], x, long[4:]])
    same(long, torch.arange(5.0) * size, "all_reduce_coalesced of views that overlap")
    lists = [[torch.empty(3), torch.empty(2, 2)] for _ in range(size)]
    dist.all_gather_coalesced(lists, [torch.full((3,), float(rank)), torch.full((2, 2), -float(rank))])
    for r, (first, second) in enumerate(lists):
        same(first, torch.full((3,), float(r)), "all_gather_coalesced")
        same(second, torch.full((2, 2), -float(r)), "all_gather_coalesced")
    if not HAS_2:
        return
    from torch.distributed.distributed_c10d import _coalescing_manager
    ins, outs = [torch.full((2,), float(rank + i)) for i in range(3)], [torch.empty(2 * size) for _ in range(3)]
    with _coalescing_manager(async_ops=True) as together:
        for x, out in zip(ins, outs):
            dist.all_gather_into_tensor(out, x)
    together.wait()
    for i, out in enumerate(outs):
        same(out, torch.arange(size).float().repeat_interleave(2) + i, "all_gather_into_tensor, coalesced")
    with _coalescing_manager(device=torch.device("cpu"), async_ops=True) as together:  # messages, one work for all of them
        got = torch.empty(3)
        dist.isend(torch.full((3,), float(rank)), (rank + 1) % size)
        dist.irecv(got)
    together.wait()
    same(got, torch.full((3,), float((rank + size - 1) % size)), "messages, coalesced")
    pieces = [torch.empty(2) for _ in range(3)]
    with _coalescing_manager():
        for piece, out in zip(pieces, outs):
            dist.reduce_scatter_tensor(piece, out)
    for i, piece in enumerate(pieces):
        same(piece, torch.full((2,), float(size * (rank + i))), "reduce_scatter_tensor, coalesced")
    if hocket.torch.Backend is not None:  # a program may take the backend itself
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        x, y = torch.ones(2), torch.ones(3)
        backend._start_coalescing()
        backend.allreduce([x])
        backend.allreduce([y])
        backend._end_coalescing().wait()
        same(torch.cat([x, y]), torch.full((5,), float(size)), "operations of a backend that are coalesced")


def coalescing_beside_others(rank, size):
    """A batch is its thread's: operations of other threads begin at once, and have works of their own."""
    group, cpu = dist.group.WORLD, torch.device("cpu")
    x, y, z = torch.ones(2), torch.ones(3), torch.ones(4)
    failures = []

    def reduce_beside():
        try:
            dist.all_reduce(y)
            dist.all_reduce_coalesced([z])
            same(torch.cat([y, z]), torch.full((7,), float(size)), "all_reduce beside a batch of another thread")
        except BaseException as error:
            failures.append(error)

    group._start_coalescing(cpu)
    group.allreduce([x])
    thread = threading.Thread(target=reduce_beside)
    thread.start()
    thread.join()
    assert not failures, failures
    same(x, torch.ones(2), "what was collected")
    group._end_coalescing(cpu).wait()
    same(x, torch.full((2,), float(size)), "all_reduce of a batch")


def objects(rank, size):
    everyone: list[object] = [None] * size
    dist.all_gather_object(everyone, {"rank": rank, "text": "x" * rank * 1000})
    assert everyone == [{"rank": r, "text": "x" * r * 1000} for r in range(size)], everyone
    gathered: list[object] | None = [None] * size if rank == 0 else None
    dist.gather_object(("of", rank), gathered, dst=0)
    assert rank != 0 or gathered == [("of", r) for r in range(size)], gathered
    given: list[object] = [{"from": 1}, [1, 2]] if rank == 1 else [None, None]
    dist.broadcast_object_list(given, src=1)
    assert given == [{"from": 1}, [1, 2]], given
    out: list[object] = [None]
    texts: list[object] = [f"for {r}" for r in range(size)] if rank == 0 else [None] * size
    dist.scatter_object_list(out, texts, src=0)
    assert out == [f"for {rank}"], out


def works(rank, size):
    """Futures, tests, waits of several threads, and works that nobody waits for."""
    total = float(sum(range(size)))
    x = torch.full((100000,), float(rank))
    future = dist.all_reduce(x, async_op=True).get_future().then(lambda f: f.value()[0].sum().item())
    assert future.wait() == total * 100000
    work = dist.all_reduce(torch.full((5,), float(rank)), async_op=True)
    while not work.is_completed():
        pass
    assert work.is_success() and work.exception() is None and work.wait()
    same(work.get_future().wait()[0], torch.full((5,), total), "a future of what has ended")
    for _ in range(300):  # tensors and works are dropped at once
        dist.all_reduce(torch.full((1000,), float(rank)), async_op=True)
    x = torch.full((200000,), float(rank))
    work = dist.all_reduce(x, async_op=True)
    failures = []

    def wait():
        try:
            work.wait()
            same(x, torch.full((200000,), total), "a wait beside others")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    # A chain of futures that starts the next operation from the thread that tells of the last one's end.
    def add(f):
        return dist.all_reduce(f.value()[0], async_op=True).get_future().wait()
    x = torch.full((10,), float(rank))
    chained = dist.all_reduce(x, async_op=True).get_future().then(add)
    same(chained.wait()[0], torch.full((10,), total * size), "a chain")
    works_ = [dist.barrier(async_op=True) for _ in range(3)]
    for work in works_:
        work.wait()


def dropped(rank, size):
    """Works that nobody waits for are not kept for long, whether others like them follow or such as are waited for."""
    pending, most = dist.group.WORLD._communicator.pending, 0
    for _ in range(20):
        for _ in range(100):
            dist.all_reduce(torch.ones(256), async_op=True)
            most = max(most, len(pending))
        dist.barrier()
    assert most <= 250, f"{most} works were kept, with at most 100 under way"
    for _ in range(400):
        dist.all_reduce(torch.ones(1))
    assert len(pending) <= 16, f"{len(pending)} works are kept though all have ended"


def groups(rank, size):
    even, odd = dist.new_group(list(range(0, size, 2))), dist.new_group(list(range(1, size, 2)))
    mine, members = (even, range(0, size, 2)) if rank % 2 == 0 else (odd, range(1, size, 2))
    x = torch.tensor([float(rank)])
    dist.all_reduce(x, group=mine)
    same(x, torch.tensor([float(sum(members))]), "all_reduce in a group")
    x = torch.tensor([float(rank)])
    dist.broadcast(x, members[-1], group=mine)
    same(x, torch.tensor([float(members[-1])]), "broadcast in a group")
    for _ in range(3):  # groups that come and go
        whole = dist.new_group()
        x = torch.ones(3)
        dist.all_reduce(x, group=whole)
        same(x, torch.full((3,), float(size)), "all_reduce in a group of all")
        dist.destroy_process_group(whole)


def splitting(rank, size):
    """By the communicator's own split: groups of groups, in other orders, beside each other."""
    if not hasattr(dist, "split_group") or hocket.torch.Backend is None:  # torch splits backends
        return
    lists = [[2, 0], [1, 3]]
    mine = lists[rank % 2]
    part = dist.split_group(split_ranks=lists)
    assert dist.get_process_group_ranks(part) == mine and part.rank() == mine.index(rank)
    x = torch.tensor([float(rank)])
    dist.broadcast(x, group=part, group_src=0)
    same(x, torch.tensor([float(mine[0])]), "broadcast in a split group")
    dist.all_reduce(x, group=part)
    same(x, torch.tensor([2.0 * mine[0]]), "all_reduce in a split group")
    alone = dist.split_group(part, [[1]])  # ranks of the parent: one of them is in no group
    assert (alone is dist.GroupMember.NON_GROUP_MEMBER) == (part.rank() == 0)
    if part.rank() == 1:
        dist.all_reduce(x, group=alone)
        same(x, torch.tensor([2.0 * mine[0]]), "all_reduce in a group of one")
    dist.destroy_process_group(part)
    refused(ValueError, "the same list of groups", dist.split_group, None, [[0, 1, 2, 3]] if rank else [[1, 0, 2, 3]])
    refused(ValueError, "its parent's options", dist.split_group, None, [[0, 1, 2, 3]], None, hocket.torch.Options(schedule="ring"))
    x = torch.ones(1)
    dist.all_reduce(x)
    same(x, torch.tensor([float(size)]), "all_reduce after what was refused")


class Keeping:
    """A store in which nothing can be deleted."""

    def __init__(self, store):
        self.set, self.get, self.wait = store.set, store.get, store.wait

    def delete_key(self, key):
        raise NotImplementedError


def again(rank, size):
    """Groups of one name, one after another, in one store: the ranks of each meet, also when rank 0 is the last to come."""
    store, limit = dist.PrefixStore("again", dist.distributed_c10d._get_default_store()), datetime.timedelta(seconds=10)

    def check(reduce, what):
        x = torch.ones(3)
        reduce(x)
        same(x, torch.full((3,), float(size)), what)

    for late in 3 * list(range(size)):
        if rank == late:
            time.sleep(0.02)
        group = hocket.torch.ProcessGroup(store, rank, size, limit)
        check(lambda x: group.allreduce([x]).wait(), "all_reduce in a group of the same name")
        group.shutdown()
    group = hocket.torch.ProcessGroup(Keeping(dist.PrefixStore("kept", store)), rank, size, limit)
    check(lambda x: group.allreduce([x]).wait(), "all_reduce in a group that met in a store which keeps everything")
    group.shutdown()
    if not HAS_2:
        return  # torch 1.13's own barrier in init_process_group counts those of all groups of a name, and waits in vain
    for late in range(size):
        dist.destroy_process_group()
        if rank == late:
            time.sleep(0.02)
        dist.init_process_group("hocket", store=store, rank=rank, world_size=size, timeout=limit)
        check(dist.all_reduce, "all_reduce after another init_process_group")
        group = dist.new_group()
        check(lambda x: dist.all_reduce(x, group=group), "all_reduce in a group after another init_process_group")


def beside_the_job(rank, size):
    """Groups that a program makes by itself, of some of the ranks, leave the job as it is: new_group still meets the others."""
    limit = datetime.timedelta(seconds=30)
    store = dist.PrefixStore(f"pair{rank // 2}", dist.distributed_c10d._get_default_store())
    pair = hocket.torch.ProcessGroup(store, rank % 2, 2, limit)
    x = torch.tensor([float(rank)])
    pair.allreduce([x]).wait()
    same(x, torch.tensor([4.0 * (rank // 2) + 1]), "all_reduce in a pair")
    group = dist.new_group([0, 2], timeout=limit)
    if rank in (0, 2):
        x = torch.tensor([float(rank)])
        dist.all_reduce(x, group=group)
        same(x, torch.tensor([2.0]), "all_reduce in a group made after the pairs")
    dist.barrier()
    pair.shutdown()


def options(rank, size):
    """A group has the schedule that its options name, or that of the environment."""
    ring = dist.new_group(pg_options=hocket.torch.Options(schedule="ring"))
    x = torch.ones(1000)
    dist.all_reduce(x, group=ring)
    same(x, torch.full((1000,), float(size)), "all_reduce by a ring")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        group = dist.new_group(pg_options=dist.ProcessGroupGloo._Options())
    assert any("pg_options are Gloo's" in str(one.message) for one in warned), warned
    dist.all_reduce(x, group=group)
    same(x, torch.full((1000,), float(size) ** 2), "all_reduce in a group with Gloo's options")
    refused(TypeError, "must be a hocket.torch.Options", lambda: dist.new_group(pg_options="ring"))
    words = "there is no schedule 'rnig' (did you mean 'ring'?)"
    refused(RuntimeError, words, lambda: dist.new_group(pg_options=hocket.torch.Options(schedule="rnig")))
    os.environ["HOCKET_SCHEDULE"] = "rnig"
    refused(RuntimeError, words, dist.new_group)
    del os.environ["HOCKET_SCHEDULE"]


def sparse(rank, size):
    indices = torch.tensor([[0, rank + 1, 0]])
    x = torch.sparse_coo_tensor(indices, torch.ones(3, 2) * (rank + 1), (size + 2, 2))
    expected = sum(torch.sparse_coo_tensor(torch.tensor([[0, r + 1, 0]]), torch.ones(3, 2) * (r + 1), (size + 2, 2)).to_dense()
                   for r in range(size))
    dist.all_reduce(x)
    same(x.to_dense(), expected, "a sum of sparse tensors")
    x = torch.sparse_coo_tensor(torch.empty(1, 0, dtype=torch.long), torch.empty(0), (4,))
    dist.all_reduce(x)
    same(x.to_dense(), torch.zeros(4), "a sum of empty sparse tensors")
    for other in (torch.ones(4 + (rank == 1)).to_sparse(), torch.ones(4, 2).to_sparse(2 - (rank == 1)),
                  torch.ones(4, dtype=torch.float64 if rank == 1 else torch.float32).to_sparse()):
        refused(ValueError, "those of the ranks", dist.all_reduce, other)
    refused((ValueError, NotImplementedError), "", dist.all_reduce_coalesced, [x])
    x = torch.sparse_coo_tensor(torch.tensor([[rank]]), torch.ones(1), (size,))
    dist.all_reduce(x)
    same(x.to_dense(), torch.ones(size), "a sum of sparse tensors after what was refused")


def wrong(rank, size):
    """An invalid call is refused before anything is sent, and the group goes on."""
    group = dist.group.WORLD
    refused(ValueError, "a tensor for each of", group.allgather, [[torch.ones(1)] * (size + 1)], [torch.ones(1)])
    refused(ValueError, "elements in the list", group.allgather, [[torch.ones(2)] * size], [torch.ones(1)])
    refused(TypeError, "one dtype", group.allgather, [[torch.ones(1).int()] * size], [torch.ones(1)])
    refused(TypeError, "one dtype", group._allgather_base, torch.ones(size), torch.ones(1).double())
    refused(TypeError, "one dtype", group._reduce_scatter_base, torch.ones(1), torch.ones(size).double())
    refused(ValueError, "split sizes", dist.all_to_all_single, torch.ones(size), torch.ones(size), [1] * size, [2] * size)
    refused(ValueError, "needs an output of", group.alltoall_base, torch.ones(size), torch.ones(2 * size), [], [])
    refused(ValueError, "float32", lambda: dist.all_reduce(torch.ones(2), ReduceOp.BAND))
    refused(ValueError, "memory of the CPU", lambda: group.broadcast([torch.ones(2, 2).to_sparse()]))
    shared = torch.ones(1).expand(3)  # a result has no place there; it can be sent
    refused(ValueError, "expanded", group.allreduce, [shared])
    refused(ValueError, "expanded", group.allgather, [[shared] * size], [torch.ones(3)])
    refused(ValueError, "expanded", dist.all_to_all, [shared] * size, [torch.ones(3)] * size)
    dist.all_gather([torch.empty(3) for _ in range(size)], shared)
    x = torch.ones(1)
    dist.all_reduce(x)
    same(x, torch.tensor([float(size)]), "after what was refused")


def factors(rank, size):
    from torch._C._distributed_c10d import _make_nccl_premul_sum
    x = torch.ones(4)
    dist.all_reduce(x, _make_nccl_premul_sum(float(rank + 1)))
    same(x, torch.full((4,), float(sum(range(1, size + 1)))), "a sum with factors")


def without_memory(rank, size):
    """Tensors on the meta device are passed by, as with Gloo, and no rank waits for another one."""
    def meta(*shape):
        return torch.empty(*shape, device="meta")
    each = [meta(3)] * size
    if rank == 0:
        dist.all_reduce(meta(3))
        dist.all_reduce(meta(3, 2).t(), async_op=True).get_future().wait()
        dist.all_reduce_coalesced([meta(3), meta(2)])
        dist.broadcast(meta(3), 1)
        dist.reduce(meta(3), 0)
        dist.all_gather(each, meta(3))
        dist.gather(meta(3), each)
        dist.scatter(meta(3), each)
        dist.reduce_scatter(meta(3), each)
        dist.all_to_all(each, each)
        dist.all_to_all_single(meta(2 * size), meta(2 * size))
        dist.send(meta(3), 1)
        refused(ValueError, "others have memory", dist.group.WORLD.allgather, [each], [torch.ones(3)])
    x = torch.ones(3)
    dist.all_reduce(x)
    same(x, torch.full((3,), float(size)), "all_reduce after what was passed by")


def other_devices(rank, size):
    """The backend is refused for devices whose tensors it does not take."""
    for backend in ("cuda:hocket", "cpu:gloo,cuda:hocket"):
        refused(ValueError, "takes tensors of the CPU, and not of cuda", lambda: dist.new_group(backend=backend))
        dist.barrier()  # a rank that has ended would end Gloo's meeting on the others


def barriers(rank, size):
    dist.barrier()
    # The function of older versions of torch refuses other backends than Gloo.
    refuses = "only implemented for GLOO" in inspect.getsource(dist.monitored_barrier)
    monitored_barrier = dist.group.WORLD.monitored_barrier if refuses else dist.monitored_barrier
    monitored_barrier()
    monitored_barrier(timeout=datetime.timedelta(seconds=30), wait_all_ranks=True)
    # Without a timeout, which torch's dispatcher tells as -1 ms, the ranks wait for one that is late as long as the group allows.
    for arguments in ((), (datetime.timedelta(milliseconds=-1),)):
        if rank == 0:
            time.sleep(0.2)
        dist.group.WORLD.monitored_barrier(*arguments)


def beside_another(rank, size):
    """As the backend of one device of several, behind torch's dispatcher."""
    store = dist.PrefixStore("again", dist.distributed_c10d._get_default_store())
    dist.destroy_process_group()
    dist.init_process_group("cpu:hocket,cuda:gloo", store=store, rank=rank, world_size=size)
    assert dist.group.WORLD._get_backend(torch.device("cpu")).name() == "hocket"
    # The dispatcher of torch 2 has no collectives for quantized tensors, with any backend.
    functions = [single_tensors, odd_tensors, objects, barriers, sparse, groups] + ([] if HAS_2 else [quantized_tensors])
    for function in functions:
        function(rank, size)
    x = torch.full((3,), float(rank))
    same(dist.all_reduce(x, async_op=True).get_future().wait()[0], torch.full((3,), float(sum(range(size)))), "a future")
    got = torch.empty(2)
    sent = dist.isend(torch.full((2,), float(rank)), (rank + 1) % size)
    dist.recv(got, (rank + size - 1) % size)
    sent.wait()
    same(got, torch.full((2,), float((rank + size - 1) % size)), "recv")
    if hasattr(dist, "split_group"):
        part = dist.split_group(split_ranks=[[rank] for rank in reversed(range(size))])
        assert part._get_backend(torch.device("cpu")).name() == "hocket" and part.size() == 1
        dist.all_reduce(x, group=part)


def not_beside_another(rank, size):
    for backend in ("cpu:hocket,cuda:gloo", "cuda:gloo,cpu:hocket"):
        refused(ValueError, "cannot stand beside another one", lambda: dist.new_group(backend=backend))


class Operations(ranks.TestCase):
    def test_reductions(self):
        for size in (1, 2, 3):
            with self.subTest(size=size):
                self.check(size, reductions)

    def test_moves(self):
        for size in (2, 3):
            with self.subTest(size=size):
                self.check(size, moves)

    def test_single_tensors(self):
        for size in (1, 2, 4):
            with self.subTest(size=size):
                self.check(size, single_tensors)

    def test_the_rest(self):
        for function in (odd_tensors, quantized_tensors, messages, several_at_once, coalescing_beside_others, objects, works, dropped, groups, splitting, beside_the_job, again, options, sparse, wrong, without_memory, barriers):
            with self.subTest(function=function.__name__):
                self.check(4, function)

    @unittest.skipUnless(HAS_2, "torch 1.13 does not tell the factor of PREMUL_SUM")
    def test_factors(self):
        self.check(3, factors)

    @unittest.skipIf(hocket.torch.Backend is None, "this torch has no backends in Python")
    def test_beside_another(self):
        self.check(2, beside_another)

    @unittest.skipUnless(HAS_2 and hocket.torch.Backend is None, "this torch has backends in Python, or one for all devices")
    def test_not_beside_another(self):
        self.check(2, not_beside_another)

    @unittest.skipUnless(HAS_2, "torch 1.13 has one backend for all devices")
    def test_other_devices(self):
        self.check(2, other_devices)


if __name__ == "__main__":
    ranks.main()
