"""A rank that uses the Python package, and compares all results with NumPy's. usage: package_rank.py PART"""
import asyncio
import os
import sys
import tempfile
import threading
from typing import Any

import numpy as np

import hocket


def mine(comm, count, dtype="float32", seed=0):
    """This rank's numbers: small whole ones, so that sums are exact in any order."""
    return np.random.default_rng((seed, comm.rank)).integers(0, 4, count).astype(dtype)


def of_all(comm, count, dtype="float32", seed=0):
    return [np.random.default_rng((seed, rank)).integers(0, 4, count).astype(dtype) for rank in range(comm.size)]


def same(have, want, what):
    if not np.array_equal(np.asarray(have), np.asarray(want)):
        raise AssertionError(f"{what}: {have} is not {want}")


def collectives(comm):
    size, rank, n = comm.size, comm.rank, 12 * comm.size
    for dtype in ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        for wait in (True, False):
            def result(started):
                return started if wait else started.wait()

            every = of_all(comm, n, dtype, 1)
            own, total = every[rank], sum(every).astype(dtype)
            per = n // size
            begin = rank * per
            x = own.copy()
            got = result(comm.all_reduce(x, wait=wait))
            same(x, total, f"all_reduce {dtype}")
            if got is not x:
                raise AssertionError("all_reduce in place gives another array")
            out = np.zeros(n, dtype)
            same(result(comm.all_reduce(own, out, op="max", wait=wait)), np.max(every, axis=0), "max")
            same(result(comm.all_gather(own, wait=wait)), every, "all_gather")
            same(result(comm.reduce_scatter(own, wait=wait)), total[begin:begin + per], "reduce_scatter")
            x = own.copy()
            same(result(comm.broadcast(x, root=size - 1, wait=wait)), every[-1], "broadcast")
            x = own.copy()
            got = result(comm.reduce(x, root=1 % size, wait=wait))
            same(x, total if rank == 1 % size else own, "reduce")
            if (got is None) != (rank != 1 % size):
                raise AssertionError(f"reduce gives {got} on rank {rank}")
            got = result(comm.gather(own.reshape(size, 12), root=0, wait=wait))
            if rank == 0:
                same(got, np.reshape(every, (size, size, 12)), "gather")
            piece = np.zeros(per, dtype)
            got = result(comm.scatter(own if rank == 0 else None, None if rank == 0 else piece, wait=wait))
            same(got, every[0][begin:begin + per], "scatter")
            same(result(comm.all_to_all(own, wait=wait)),
                 np.concatenate([other[begin:begin + per] for other in every]), "all_to_all")
    b = np.array([rank == 0, True, False])
    same(comm.all_reduce(b, op="max"), [True, True, False], "bool")


def uneven(comm):
    size, rank = comm.size, comm.rank
    counts = [3 * r for r in range(size)]  # rank 0 has none
    every = [other[:count] for other, count in zip(of_all(comm, 99), counts)]
    own = every[rank]
    same(comm.all_gather_v(own, counts), np.concatenate(every), "all_gather_v")
    got = comm.gather_v(own, counts, root=size - 1)
    if rank == size - 1:
        same(got, np.concatenate(every), "gather_v")
    whole = of_all(comm, sum(counts), seed=2)
    begin = sum(counts[:rank])
    same(comm.reduce_scatter_v(whole[rank], counts), sum(whole)[begin:begin + counts[rank]], "reduce_scatter_v")
    out = np.zeros(counts[rank], np.float32)
    got = comm.scatter_v(whole[rank] if rank == 0 else None, counts, None if rank == 0 else out)
    same(got, whole[0][begin:begin + counts[rank]], "scatter_v")
    # Rank r sends r + q elements, all with the number of r, to rank q.
    sends, recvs = [rank + q for q in range(size)], [q + rank for q in range(size)]
    got = comm.all_to_all_v(np.full(sum(sends), rank, np.int32), sends, recvs)
    same(got, np.repeat(np.arange(size), recvs), "all_to_all_v")
    places = [sum(recvs) - sum(recvs[:q + 1]) for q in range(size)]  # in the other order
    got = comm.all_to_all_v(np.full(sum(sends), rank, np.int32), sends, recvs, recv_displs=places)
    same(got, np.repeat(np.arange(size)[::-1], recvs[::-1]), "all_to_all_v with places")


def messages(comm):
    size, rank = comm.size, comm.rank
    x, y = np.full(1000, rank, np.int16), np.zeros(1000, np.int16)
    both = [comm.send(x, (rank + 1) % size, tag=3, wait=False), comm.recv(y, (rank - 1) % size, tag=3, wait=False)]
    same(hocket.wait_all(both)[1], np.full(1000, (rank - 1) % size), "a ring of messages")
    joined = comm.join([comm.recv(y, (rank - 1) % size, wait=False), comm.send(x, (rank + 1) % size, wait=False)])
    same(joined.wait(30)[0], np.full(1000, (rank - 1) % size), "joined")
    if rank == 0:
        sources = set()
        for _ in range(1, size):
            sources.add(comm.recv_any(y, tag=9))
            same(y, np.full(1000, y[0]), "from any")
        same(sorted(sources), range(1, size), "the sources")
    else:
        comm.send(x, 0, tag=9)
    comm.barrier()
    comm.barrier(wait=False).wait()
    comm.barrier_monitored(30)


def numbers(comm):
    """Numbers in place of arrays."""
    size, rank, last = comm.size, comm.rank, comm.size - 1
    given: list[Any] = [1, 1.5, np.float32(2), np.int8(3), np.float64(0.5)]
    for number in given:
        kind = type(number)
        for wait in (True, False):
            def result(started):
                return started if wait else started.wait()

            for got, want in ((result(comm.all_reduce(number, wait=wait)), number * size),
                              (result(comm.broadcast(kind(number * (rank + 1)), root=last, wait=wait)), number * size),
                              (result(comm.reduce(number, root=last, wait=wait)), number * size if rank == last else None)):
                assert got == want and (got is None or type(got) is kind), f"{number!r}: {got!r} is not {want!r}"
            same(result(comm.all_gather(kind(number + rank), wait=wait)), [number + r for r in range(size)], "all_gather of numbers")
            got = result(comm.gather(kind(number + rank), root=last, wait=wait))
            same([] if got is None else got, [number + r for r in range(size)] if rank == last else [], "gather of numbers")


class Unpicklable:
    def __reduce__(self):
        raise ValueError("not this one")


def objects(comm):
    size, rank, last = comm.size, comm.rank, comm.size - 1
    given = {"rank": rank, "words": ["x"] * 1000 * rank}
    got = comm.broadcast_object(given if rank == last else None, root=last)
    assert got == {"rank": last, "words": ["x"] * 1000 * last}, got
    assert (got is given) == (rank == last)
    assert comm.broadcast_object() is None
    assert comm.all_gather_object(given) == [{"rank": r, "words": ["x"] * 1000 * r} for r in range(size)]
    for call in (lambda value: comm.broadcast_object(value, root=last), comm.all_gather_object):
        try:
            call(Unpicklable() if rank == last else 1)
            raise AssertionError("an object that cannot be pickled was not noticed")
        except ValueError as error:
            words = "not this one" if rank == last else f"the objects of the ranks [{last}] cannot be pickled"
            assert words in str(error), error
    assert comm.all_gather_object(rank) == list(range(size))  # the communicator goes on


def memory(comm):
    x = comm.empty((1000, 40), "float64")
    if not comm.is_shared(x):
        raise AssertionError("window memory is not shared")
    x[:] = comm.rank + 1
    y = x[10:20]  # keeps the block
    del x
    comm.all_reduce(y)
    same(y, np.full((10, 40), sum(range(1, comm.size + 1))), "in window memory")
    z = np.ones(1 << 18, np.float32)
    with comm.register(z) as registered:
        comm.all_reduce(registered)
        if not comm.is_shared(z[1024:-1024]):
            raise AssertionError("registered memory is not shared")
    if comm.is_shared(z):
        raise AssertionError("memory is still shared after it was given back")
    same(z[::1000], np.full(263, comm.size), "registered")
    for use in range(5):  # after some it is shared, where the system can do that
        z[:] = use
        comm.all_reduce(z)
        same(z[::1000], np.full(263, comm.size * use), "used again")


def groups(comm):
    half = comm.split(comm.rank % 2, key=-comm.rank)
    x = np.array([comm.rank])
    same(half.all_gather(x)[:, 0], [r for r in reversed(range(comm.size)) if r % 2 == comm.rank % 2], "split")
    if comm.split(None if comm.rank == 0 else 5) is None and comm.rank != 0:
        raise AssertionError("no group")
    pair = comm.group([1, 0])
    if (pair is None) != (comm.rank > 1):
        raise AssertionError("the group is wrong")
    if pair is not None:
        same(pair.all_gather(x)[:, 0], [1, 0], "group")
    half.close()
    if not half.closed:
        raise AssertionError("not closed")
    try:
        half.all_reduce(x)
        raise AssertionError("a closed communicator was used")
    except hocket.AbortedError as error:
        assert "closed" in str(error), error
    comm.all_reduce(x)


def plans(comm):
    x = mine(comm, 4 * comm.size)
    total = sum(of_all(comm, 4 * comm.size))
    with comm.plan("all_reduce", schedule="ring") as plan:
        assert "ring" in plan.schedule(100) and "ring.sched" in plan.explain(), plan.explain()
        same(plan.start(x, np.zeros_like(x)), total, "a plan")
        same(plan.start(x, np.zeros_like(x), wait=False).wait(), total, "a plan, started")
    gather = comm.plan("all_gather", "float32")
    same(gather.start(x, np.zeros((comm.size, x.size), np.float32)), of_all(comm, x.size), "a plan of all_gather")
    lists = comm.plan("all_reduce", tensor_counts=[4, 4 * comm.size - 4])
    parts = [x[:4].copy(), x[4:].copy()]
    lists.start(parts)
    same(np.concatenate(parts), total, "lists of tensors")
    scaled = comm.premul_sum(2.0)
    same(comm.all_reduce(x.copy(), op=scaled), 2 * total, "premul_sum")
    # A refused schedule is an exception with the compiler's text.
    path = os.path.join(os.environ["HOCKET_TEST_FOLDER"], f"wrong{comm.rank}.sched")
    with open(path, "w") as file:
        file.write("schedule wrong all_reduce(x) {\n    nonsense\n}\n")
    try:
        comm.plan("all_reduce", schedule=path)
        raise AssertionError("a wrong schedule was taken")
    except hocket.ScheduleError as error:
        assert f"wrong{comm.rank}.sched:" in str(error) and "error: " in str(error), error
    os.unlink(path)
    comm.barrier()


def own(comm):
    """Collectives that schedule files define."""
    x = mine(comm, 8)
    inputs = np.array(of_all(comm, 8))
    same(comm.plan("scan").start(x, np.zeros_like(x)), inputs[: comm.rank + 1].sum(axis=0), "a scan")
    same(comm.plan("scan", schedule="doubling").start(x.copy()), inputs[: comm.rank + 1].sum(axis=0), "a scan, in place")
    out = np.full_like(x, -1)
    comm.plan("exclusive_scan").start(x, out)
    same(out, inputs[: comm.rank].sum(axis=0) if comm.rank > 0 else np.full_like(x, -1), "an exclusive scan")
    pieces = comm.plan("neighbours").start(x, np.zeros((comm.size, 8), np.float32))
    for beside in (comm.rank - 1, comm.rank, comm.rank + 1):
        same(pieces[beside % comm.size], inputs[beside % comm.size], "a neighbour's piece")
    for wrong, text in ((lambda: comm.plan("skan"), "did you mean 'scan'"),
                        (lambda: comm.plan("scan", op="average"), "use sum"),
                        (lambda: comm.plan("neighbours").start(x), "in place")):
        try:
            wrong()
            raise AssertionError(f"no error: {text}")
        except hocket.Error as error:
            assert text in str(error), error
    comm.barrier()


def states(comm):
    """Elements that are not sent are kept, saved, and loaded."""
    options = dict(schedule="naive_ag(0.25)")
    x = mine(comm, 8) + np.arange(8, dtype=np.float32)
    first, second = comm.plan("all_reduce", **options), comm.plan("all_reduce", **options)
    once = first.start(x, np.zeros_like(x)).copy()
    saved = np.frombuffer(first.save_state(), np.uint8)
    sizes = comm.all_gather(np.array([saved.size]))[:, 0]
    every = comm.all_gather_v(saved, sizes.tolist())
    second.load_state([bytes(part) for part in np.split(every, np.cumsum(sizes)[:-1])])
    same(second.start(x, np.zeros_like(x)), first.start(x, np.zeros_like(x)), "a state that was loaded")
    second.reset_state()
    same(second.start(x, np.zeros_like(x)), once, "a state that was reset")
    try:
        second.load_state(second.save_state())
        raise AssertionError("the state of one rank is not a list of all ranks' states")
    except TypeError as error:
        assert "a list of what save_state returned on every rank" in str(error), error


def awaiting(comm):
    async def several():
        arrays = [np.full(1000, comm.rank + i, np.float32) for i in range(5)]
        return await asyncio.gather(*(wrapped(comm.all_reduce(array, wait=False)) for array in arrays))

    async def wrapped(request):
        return await request

    for i, array in enumerate(asyncio.run(several())):
        same(array, np.full(1000, sum(range(comm.size)) + i * comm.size), "awaited")
    told = threading.Event()

    def tell(request):
        request.wait()
        told.set()

    comm.all_reduce(np.zeros(3, np.float32), wait=False).add_done_callback(tell)
    if not told.wait(30):
        raise AssertionError("the callback was not called")
    request = comm.barrier(wait=False)
    request.wait()
    told.clear()
    request.add_done_callback(lambda _: told.set())  # at once
    assert told.is_set() and request.done()


def threads(comm):
    """Two threads start on one communicator: messages, which have no common order."""
    failures = []

    def talk(tag):
        try:
            for i in range(50):
                x = np.array([comm.rank, i, tag])
                started = comm.send(x, (comm.rank + 1) % comm.size, tag=tag, wait=False)
                got = comm.recv(np.zeros(3, int), (comm.rank - 1) % comm.size, tag=tag)
                started.wait()
                same(got, [(comm.rank - 1) % comm.size, i, tag], "of a thread")
        except BaseException as error:
            failures.append(error)

    both = [threading.Thread(target=talk, args=(tag,)) for tag in (1, 2)]
    for one in both:
        one.start()
    for one in both:
        one.join(60)
    if failures:
        raise failures[0]


def cached(comm):
    """A cache whose peers are the ranks: each sample is read from the source once."""
    reads = []

    def read(key):
        reads.append(key)
        return b"%d" % key * 100

    with hocket.Cache(read=read, dataset="numbers", comm=comm, memory="4MiB") as cache:
        for key in range(30):
            same(cache[key].tobytes(), b"%d" % key * 100, "a sample")
        comm.barrier()
        read_in_all = comm.all_reduce(np.array([len(reads)]))
        same(read_in_all, [30], "reads of the source")
        comm.barrier()  # the others may still ask this rank


def put(comm):
    """Ranks put each other's keys at the same time. Two of the samples are more than a quarter of a rank's memory, which all
    puts may have together."""
    def sample(key):
        return np.full(2 << 20, key, np.uint8)

    with tempfile.TemporaryDirectory() as folder, \
            hocket.Cache(dataset="put", comm=comm, memory="12MiB", folder=folder, disk="256MiB", timeout=20) as cache:
        keys = {rank: range(16 * rank, 16 * rank + 6) for rank in range(comm.size)}
        comm.barrier()
        for key in keys[comm.rank]:
            cache.put(key, sample(key))
        comm.barrier()
        for rank in range(comm.size):
            for key in keys[rank]:
                same(cache[key], sample(key), f"a sample that rank {rank} has put")
        comm.barrier()


def mismatch(comm):
    """All ranks fail with the same class, and the text has both operations."""
    try:
        comm.all_reduce(np.zeros(10 + comm.rank, np.float32))
        raise AssertionError("ranks that differ were not noticed")
    except hocket.MismatchError as error:
        assert error.status == hocket.MismatchError.status and "all_reduce" in str(error), error
    try:
        comm.check()
        raise AssertionError("the communicator is not broken")
    except hocket.MismatchError:
        assert comm.status == hocket.MismatchError.status


def lost(comm):
    """Rank 1 dies; the others go on without it."""
    try:
        comm.all_reduce(np.zeros(1))  # it may still be under way on the others when rank 1 dies
        if comm.rank == 1:
            os.kill(os.getpid(), 9)
        while True:
            comm.all_reduce(np.zeros(1))
    except hocket.PeerLostError as error:
        assert "rank 1" in str(error), error
    left = comm.shrink()
    same(comm.lost(), [1], "the lost ranks")
    comm.close()
    same(left.all_reduce(np.ones(1)), [left.size], "of those that are left")


PARTS = [collectives, uneven, messages, numbers, objects, memory, groups, plans, own, states, awaiting, threads, cached, put, mismatch]  # the last one breaks it


def main():
    chosen = sys.argv[1]
    comm = hocket.init(timeout=60, share_buffers=chosen == "all")
    for part in PARTS if chosen == "all" else [globals()[chosen]]:
        part(comm)
        print(f"right: {part.__name__}", flush=True)


if __name__ == "__main__":
    main()
