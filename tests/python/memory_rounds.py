#!/usr/bin/python3
"""Makes and drops everything that the Python package has, over and over.

usage: memory_rounds.py once | grow [NAME...]     (PYTHONPATH has the package)

once: a few rounds of each kind; for valgrind, which sees every read and write, and for a sanitizer.
grow: many rounds of each kind, in stretches. The process's resources are counted after each stretch: bytes of malloc, mappings,
descriptors, threads, objects. A kind whose count rises with every stretch leaks. The last line is "N right, N grow".
NAME: of some kinds.
"""
import asyncio
import contextlib
import ctypes
import gc
import io
import mmap
import os
import pickle
import shutil
import sys
import tempfile
import threading

import numpy as np

import hocket

KINDS = {}
ROUNDS = 100  # of a stretch
STRETCHES = 5
LEAST_BYTES = 16  # a round that loses anything loses this many or more: the least that malloc gives
FOLDER = tempfile.mkdtemp(prefix="hocket-memory-")
SOURCE = os.path.join(FOLDER, "samples")
FILES = {"own.sched": "operator absmax(a, b) = max(abs(a), abs(b))\n",
         "wrong.sched": "algorithm mine all_gather(x) over g {\n    x[0] : 0 -> 9\n}\n"}
WORDS = "of a callback"


def kind(rounds=ROUNDS):
    """A function that does one round. rounds: of a stretch."""
    def add(function):
        KINDS[function.__name__] = function, rounds
        return function
    return add


@contextlib.contextmanager
def refused(error):
    try:
        yield
    except error:
        return
    raise AssertionError(f"{error.__name__} was expected")


# ---- Communicators -------------------------------------------------------------------------------------------------

comm: hocket.Communicator  # of one rank: for the kinds that do not make their own. main() makes it


@kind(30)
def communicators_are_closed():
    with hocket.init() as made:
        made.all_reduce(np.ones(3))


@kind(30)
def communicators_are_dropped():
    made = hocket.init()
    plan, op, memory = made.plan("all_reduce"), made.premul_sum(2), made.empty(1000)
    made.recv(np.zeros(9), 0, wait=False)
    made.recv(np.zeros(9), 0, wait=False).add_done_callback(lambda _: None)
    del made
    del plan, op, memory


@kind(30)
def communicators_break():
    with hocket.init() as made:
        waits = made.recv(np.zeros(9), 0, tag=1, wait=False)
        with refused(hocket.MismatchError):
            request = made.recv(np.zeros(4), 0, wait=False)
            made.send(np.ones(5), 0)
            request.wait()
        with refused(hocket.Error):
            waits.wait()
        with refused(hocket.Error):
            made.all_reduce(np.ones(4))


@kind(30)
def groups():
    for made in (comm.split(1), comm.group([0])):
        assert made is not None
        made.all_reduce(np.ones(3))
    assert comm.split(None) is None


@kind(10)
def ranks_meet():
    """Two ranks in threads, in a store of the program's own."""
    found, changed = {}, threading.Condition()

    class Store:
        def set(self, key, value):
            with changed:
                found[key] = value
                changed.notify_all()

        def get(self, key):
            with changed:
                changed.wait_for(lambda: key in found, 60)
                return found[key]

    joined: dict[int, hocket.Communicator] = {}

    def join(rank):
        joined[rank] = hocket.init(rank=rank, world_size=2, store=Store(), timeout=60)

    threads = [threading.Thread(target=join, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = [joined[rank] for rank in range(2)]
    for count in (3, 100000):
        for request in [one.all_reduce(np.ones(count), wait=False) for one in made]:
            assert request.wait(60)[0] == 2
    windows = [one.empty(10000) for one in made]
    for request in [one.all_gather(x, wait=False) for one, x in zip(made, windows)]:
        request.wait(60)
    made[0].send(np.ones(10000), 1, wait=False)
    made[1].recv(np.zeros(10000), 0)
    for one in made:
        one.close()


@kind(30)
def joining_fails():
    class Store:
        def set(self, key, value):
            raise RuntimeError("the store is full")

    with refused(RuntimeError):
        hocket.init(rank=0, world_size=2, store=Store(), timeout=60)
    with refused(hocket.InvalidArgumentError):
        hocket.init(timeout=0)
    made = hocket.unique_id()
    assert hocket.unique_id_waiting(made) == 0
    hocket.unique_id_destroy(made)


# ---- Operations ----------------------------------------------------------------------------------------------------

@kind()
def collectives():
    x, y = np.ones((4, 5), np.float32), np.ones((4, 5), np.float32)
    for wait in (True, False):
        for out in (None, y):
            made = [comm.all_reduce(x, out, "max", wait=wait), comm.reduce_scatter(x, out, wait=wait), comm.all_gather(x, out, wait=wait),
                    comm.reduce(x, out, wait=wait), comm.gather(x, out, wait=wait), comm.scatter(x, out, wait=wait),
                    comm.all_to_all(x, out, wait=wait), comm.all_gather_v(x, [20], out, wait=wait), comm.gather_v(x, [20], out, wait=wait),
                    comm.reduce_scatter_v(x, [20], out, wait=wait), comm.scatter_v(x, [20], out, wait=wait),
                    comm.all_to_all_v(x, [10], [10], out, send_displs=[5], recv_displs=[0], wait=wait)]
            made += [comm.broadcast(x, wait=wait), comm.barrier(wait=wait)]
            if not wait:
                for request in made[::2]:  # the others are dropped
                    request.wait()
    comm.barrier_monitored(60)


@kind()
def arrays_of_others():
    x = np.arange(6, dtype=np.float32)
    comm.all_reduce(memoryview(bytearray(8)).cast("f"))
    comm.all_reduce(hocket.Memory(x.ctypes.data, 6, hocket.TYPES["float32"], x))

    class Exporter:
        def __dlpack__(self, **_):
            return x.__dlpack__()

        shape = (6,)

    comm.all_gather(Exporter())
    for wrong in (x[::2], x.astype(">f4"), x.astype(complex), "text", 5):
        with refused(hocket.InvalidArgumentError):
            comm.all_reduce(wrong)


@kind()
def messages_are_dropped_in_flight():
    for tag in range(3):
        comm.recv(np.zeros(100), 0, tag=tag, wait=False)
    comm.recv_any(np.zeros(100), tag=3, wait=False)
    for tag in reversed(range(4)):
        comm.send(np.ones(100), 0, tag=tag, wait=False)
    comm.barrier()


@kind()
def requests():
    request = comm.recv(np.zeros(4), 0, wait=False)
    assert not request.done()
    with refused(hocket.InProgressError):
        request.wait(0)
    whole = comm.join([request, comm.recv(np.zeros(4), 0, wait=False), comm.barrier(wait=False)])
    for _ in range(2):
        comm.send(np.ones(4), 0)
    assert len(whole.wait()) == 3 and request.done()
    comm.join([comm.recv(np.zeros(4), 0, wait=False), comm.barrier(wait=False)])  # dropped
    comm.send(np.ones(4), 0)


@kind()
def callbacks_that_raise():
    printed = threading.Semaphore(0)

    class Lines(io.StringIO):
        def write(self, text):
            if WORDS in text:
                printed.release()

    def tell(_):
        raise ValueError(WORDS)

    with contextlib.redirect_stderr(Lines()):
        for is_kept in (False, True):
            request = comm.recv(np.zeros(4), 0, wait=False)
            request.add_done_callback(tell)
            if not is_kept:
                del request
            comm.send(np.ones(4), 0)
        request.wait()
        request.add_done_callback(tell)  # at once
        for _ in range(3):
            assert printed.acquire(timeout=60)


@kind()
def awaits():
    async def work():
        await comm.all_reduce(np.ones(9), wait=False)
        waits = asyncio.ensure_future(wrapped(comm.recv(np.zeros(4), 0, tag=1, wait=False)))
        await asyncio.sleep(0)
        waits.cancel()
        comm.send(np.ones(4), 0, tag=1)
        with refused(asyncio.CancelledError):
            await waits

    async def wrapped(request):
        return await request

    asyncio.run(work())


# ---- Memory, operators, plans ----------------------------------------------------------------------------------------

@kind(30)
def windows():
    x = comm.empty((100, 100), "int64")
    part = x[3:5, :7]
    del x
    comm.all_gather(part[0])
    with mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as plain:
        array = np.frombuffer(plain, np.float32)
        with comm.register(array):
            assert comm.is_shared(array)
            comm.all_reduce(array)
        comm.register(array)  # dropped
        del array
    made = hocket.init()
    last = made.empty(100000)
    made.close()
    last[:] = 1


@kind(30)
def operators_and_plans():
    x = np.ones(8, np.float32)
    comm.all_reduce(x, op=comm.premul_sum(2))
    comm.all_reduce(x, op=comm.operator(os.path.join(FOLDER, "own.sched") + ":absmax"))
    with comm.plan("all_reduce", schedule="ring") as plan:
        plan.start(x)
        plan.start(x, wait=False)
        plan.explain(), plan.schedule(8), plan.parameters
    lists = comm.plan("all_reduce", tensor_counts=[3, 5])
    lists.start([x[:3], x[3:]])
    with refused(hocket.InvalidArgumentError):
        lists.start([x])
    keeps = comm.plan("all_reduce", schedule="naive_ag(0.25)")
    keeps.start(x, np.zeros(8, np.float32))
    keeps.load_state([keeps.save_state()])
    keeps.reset_state()
    steps = comm.plan("all_reduce", schedule="lars", tensor_counts=[8])
    steps.start([x], parameters=[0.1], buffers=[[np.ones(8, np.float32)]])
    with refused(hocket.NotFoundError):
        comm.plan("all_reduce", schedule="no_such_schedule")


@kind(30)
def exchanges():
    x, y = np.ones(8, np.float32), np.ones(3, np.float32)
    profile = hocket.overlap.Profile(0, [hocket.overlap.Layer("a", 1, 1, 32), hocket.overlap.Layer("b", 1, 1, 12)])
    for end in ("close", "drop", "leave"):
        exchange = comm.overlap([("a", [x]), ("b", [y])], measure=3, op=comm.premul_sum(1))
        for _ in range(4):
            exchange.begin_backward()
            exchange.backward(1)
            exchange.backward(0)
            exchange.finish()
        exchange.stats, exchange.batches, exchange.profile
        if end == "leave":
            exchange.begin_backward()
            exchange.backward(1)
        if end == "close":
            exchange.close()
        del exchange
    with comm.overlap([("a", [x]), ("b", [y])], profile=profile) as exchange, refused(hocket.InvalidArgumentError):
        exchange.finish()
    with refused(hocket.InvalidArgumentError):
        comm.overlap([("a", [x]), ("b", [x])])
    while comm._state.exchanges or comm._state.inside:
        pass


@kind(10)
def schedules():
    hocket.check(os.path.join(FOLDER, "own.sched"))
    with refused(hocket.ScheduleError):
        hocket.check(os.path.join(FOLDER, "wrong.sched"))
    hocket.explain("ring", "2x3", 1)
    comm.info("topology"), comm.lost()
    comm.check()
    comm.dump(os.path.join(FOLDER, "dump.json"))


@kind()
def kernels():
    x, rest = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    values, indices = hocket.kernels.topk(x, 10, residual=rest)
    hocket.kernels.scatter_add(rest, values, indices)
    w, g, m, v = ([np.full(4, 2, np.float32)] for _ in range(4))
    hocket.kernels.norms(w)
    hocket.kernels.lars(w, g, m, 1.0)
    hocket.kernels.lamb(w, g, m, v, 0.1, 1)
    with refused(hocket.InvalidArgumentError):
        hocket.kernels.lars(w, g, m, 1.0, trusty=1)


# ---- The parameter service -------------------------------------------------------------------------------------------

@kind(20)
def services():
    weights = {"a": np.zeros(50, np.float32), "b": np.zeros(3), "c": np.zeros(20, np.float32)}
    with hocket.params.serve("127.0.0.1:0", secret="s") as server:
        with hocket.params.open(weights, address=server.address, secret="s", update="sgd(0.1)") as worker:
            for _ in range(3):
                worker.pull()
                worker.push({"c": np.ones(20, np.float32), "a": np.ones(50, np.float32)})  # two calls of C
                worker.push_sparse("b", np.array([1], np.uint32), np.ones(1), wait=False).wait()
                worker.clock()
            request = worker.pull("a", np.zeros(50, np.float32), wait=False)
            worker.pull("b", np.zeros(3), wait=False)  # dropped in flight
            with refused(hocket.InvalidArgumentError):
                worker.push({"a": np.ones(50)})
            with refused(hocket.IOError):
                worker.checkpoint()
            worker.stats(), server.stats(), server.wait(0)
        with refused(hocket.AbortedError):
            request.wait()
            worker.pull()
        hocket.params.status(server.address, secret="s")
    with refused(hocket.InvalidArgumentError):
        hocket.params.open({"a": np.zeros(3, bool)}, address="127.0.0.1:9", secret="s")
    hocket.params.serve("127.0.0.1:0", secret="s")  # dropped


# ---- The cache -------------------------------------------------------------------------------------------------------

@kind(20)
def caches():
    for how in (None, "threads"):  # None: io_uring, unless the environment says otherwise
        with hocket.Cache(SOURCE, memory="1MiB", io=how) as cache:
            cache.set_order(range(20))
            assert cache[3][0] == 3
            cache.copy_batch([1, 2]), cache.copy_ragged([1, 2, 5]), cache.copy_batch([1, 2], bytearray(2000))
            cache.prefetch([6, 7])
            for batch in cache.batches(range(20), 5):
                pass
            assert cache.find("00003") == 3
            cache.stats(), len(cache), cache.cursor
            cache.flush()
            with refused(LookupError):
                cache[20]
            del batch
            assert cache.stats()["memory_lent"] == 0


@kind(20)
def batches_are_dropped():
    cache = hocket.Cache(SOURCE, memory="1MiB")
    cache.get_batch([1, 2, 3], wait=False)
    kept = cache.get_batch([4, 5])[0][10:20]
    for batch in cache.batches(range(20), 5):
        break  # the next one is on its way
    flying = cache.get_batch([6, 7], wait=False)
    asyncio.run(awaited(cache.get_batch([8], wait=False)))
    cache.close()
    del flying
    assert kept[0] == 4


async def awaited(batch):
    return await batch


@kind(20)
def functions_of_a_cache():
    def read(key):
        if key == 13:
            raise ValueError("the sample is unlucky")
        return bytes([key]) * 10

    def decode(key, encoded):
        if key == 14:
            raise OSError("it cannot be decoded")
        return np.frombuffer(encoded, np.uint8) + 1

    with tempfile.TemporaryDirectory(dir=FOLDER) as disk:
        with hocket.Cache(read=read, dataset="d", decode=decode, decoder="c", memory="1MiB", folder=disk, disk="8MiB", comm=comm) as cache:
            assert cache[3][0] == 4
            for wrong in (13, 14):
                with refused(hocket.IOError):
                    cache[wrong]
            cache.get_batch([15, 13, 14], wait=False)  # dropped
            cache.flush()
            assert cache.verify(lambda done, every: False)
        with refused(hocket.InvalidArgumentError):
            hocket.Cache(read=read)


@kind(5)
def shared_caches():
    with hocket.SharedCache(SOURCE, memory="1MiB") as cache:
        kept = cache.copy_batch([1, 2])
        cache.copy_batch([1, 2], bytearray(2000))
        for _ in range(10):
            cache.copy_ragged([3, 4, 5])
            cache.set_order(range(20))
        len(cache), cache.cursor, cache.stats()
        with refused(LookupError):
            cache[20]
        pickle.loads(pickle.dumps(cache)).copy_batch([5])
        child = os.fork()
        if child == 0:
            os._exit(0 if cache.copy_batch([7])[0, 0] == 7 else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert kept[0, 0] == 1


# ---- Forks -------------------------------------------------------------------------------------------------------------

@kind(10)
def forked_children():
    made, cache = hocket.init(), hocket.Cache(SOURCE, memory="1MiB")
    memory, request, plan, sample = made.empty(100), made.recv(np.zeros(9), 0, wait=False), made.plan("all_reduce"), cache[3]
    child = os.fork()
    if child == 0:
        with refused(hocket.InvalidArgumentError):
            made.all_reduce(np.zeros(9))
        del memory, request, plan, sample
        made.close()
        cache.close()
        with hocket.init(rank=0, world_size=1) as own:
            own.all_reduce(np.zeros(9))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    made.send(np.ones(9), 0)
    request.wait(60)


# ---- Counting ------------------------------------------------------------------------------------------------------------

class _Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
                                                     "fordblks", "keepcost")]


NAMES = ("bytes", "mappings", "descriptors", "threads", "objects")
_mallinfo2 = ctypes.CDLL(None).mallinfo2
_mallinfo2.restype = _Mallinfo2


def counts():
    gc.collect()
    sys._clear_type_cache()  # it keeps names that attributes were asked for by
    found = _mallinfo2()
    with open("/proc/self/maps") as maps:
        mappings = sum(1 for _ in maps)
    return dict(zip(NAMES, (found.uordblks + found.hblkhd, mappings, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")),
                            len(gc.get_objects()))))


def growth(function, rounds):
    """By what is counted: how much more there was after each stretch of rounds, at least. Only of what leaks."""
    for _ in range(max(3, rounds // 4)):  # objects that are made once
        function()
    before, least = counts(), dict.fromkeys(NAMES, sys.maxsize)
    for _ in range(STRETCHES):
        for _ in range(rounds):
            function()
        now = counts()
        least = {name: min(more, now[name] - before[name]) for name, more in least.items()}
        least = {name: more for name, more in least.items() if more >= (LEAST_BYTES * rounds if name == "bytes" else 1)}
        if not least:
            break
        before = now
    return least


def main(what, *names):
    global comm
    os.mkdir(SOURCE)
    for key in range(20):
        np.full(1000, key, np.uint8).tofile(f"{SOURCE}/{key:05}")
    for name, text in FILES.items():
        with open(os.path.join(FOLDER, name), "w") as file:
            file.write(text)
    right = grow = 0
    comm = hocket.init()
    for name, (function, rounds) in KINDS.items():
        if names and name not in names:
            continue
        found = {}
        if what == "grow":
            found = growth(function, rounds)
        else:
            for _ in range(3):
                function()
        right, grow = right + (not found), grow + bool(found)
        print(f"{name}: {f'GROWS in {rounds} rounds: {found}' if found else 'right'}", flush=True)
    comm.close()
    print(f"{right} right, {grow} grow")
    return 1 if grow else 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
