"""A rank that exchanges gradients while it computes others. usage: exchange_rank.py PART"""
import contextlib
import os
import sys
import threading
import time
from typing import Optional

import numpy as np

import hocket
from hocket.overlap import Profile
from interrupting import interrupted

COUNTS: list[tuple[Optional[str], list[int]]] = [
    ("first", [1000]), (None, [3, 90]), ("idle", []), ("large", [70000, 7]), ("last", [1, 20000])]
METHODS = ("optimum", "sequential", "layers", "algorithm1", "algorithm2", "ibatch", "mg_wfbp", "buckets")


class Model:
    """Its gradients are numbers of many sizes, so that the order of a sum shows. together: all lie in one block of shared memory."""

    def __init__(self, comm, together, dtype=np.float32):
        self.comm = comm
        counts = [count for _, some in COUNTS for count in some]
        if together:
            block = comm.empty(sum(counts), dtype)
            self.arrays = [block[end - count:end] for end, count in zip(np.cumsum(counts), counts)]
        else:
            self.arrays = [np.empty(count, dtype) for count in counts]
        arrays = iter(self.arrays)
        self.layers = [(name, [next(arrays) for _ in some]) for name, some in COUNTS]

    def gradient(self, rank, iteration, layer, i, count):
        rng = np.random.default_rng((rank, iteration, layer, i))
        return (rng.standard_normal(count) * 10.0 ** rng.integers(-4, 5, count)).astype(self.arrays[0].dtype)

    def compute(self, layer, iteration):
        for i, array in enumerate(self.layers[layer][1]):
            array[:] = self.gradient(self.comm.rank, iteration, layer, i, len(array))

    def iterate(self, exchange, iteration, last=0):
        for layer in range(len(self.layers)):
            exchange.forward(layer)
        exchange.begin_backward()
        for layer in reversed(range(last, len(self.layers))):
            self.compute(layer, iteration)
            exchange.backward(layer)
        if last == 0:
            exchange.finish()

    def expect(self, iteration, combined):
        """combined: of the list of the ranks' gradients."""
        for layer, (_, arrays) in enumerate(self.layers):
            for i, array in enumerate(arrays):
                of_ranks = [self.gradient(rank, iteration, layer, i, len(array)) for rank in range(self.comm.size)]
                want = combined(of_ranks)
                if array.tobytes() != want.astype(array.dtype).tobytes():
                    raise AssertionError(f"iteration {iteration}: layer {layer}, array {i}: {array} is not {want}")


def add(of_ranks):
    total = of_ranks[0].copy()
    for one in of_ranks[1:]:
        total += one
    return total


def average(of_ranks):
    return add(of_ranks) / of_ranks[0].dtype.type(len(of_ranks))


def averages(comm):
    """To the bit, with each method, while it measures and when it has planned."""
    for number, method in enumerate(METHODS):
        model = Model(comm, number % 2 == 0)
        with comm.overlap(model.layers, method=method, measure=4, look_every=-1, bucket_bytes=5000) as exchange:
            for iteration in range(6):
                model.iterate(exchange, iteration)
                model.expect(iteration, average)
                if (exchange.stats.plans == 1) != (iteration >= 3):
                    raise AssertionError(f"{exchange.stats} after {iteration + 1} iterations")
            ends = [batch.stop for batch in exchange.batches]
            if method in ("sequential", "layers") and ends != {"sequential": [5], "layers": [1, 2, 3, 4, 5]}[method]:
                raise AssertionError(f"{method}: {exchange.batches}")
            if method == "buckets" and ends != [3, 4, 5]:  # 80000 bytes; 280028; 4372
                raise AssertionError(f"buckets of 5000: {exchange.batches}")
            if sum(map(len, exchange.batches)) != 5 or len(exchange.batches) != exchange.stats.batches:
                raise AssertionError(f"{exchange.batches}, {exchange.stats}")


def operators(comm):
    model = Model(comm, False)
    for op, schedule, dtype, combined in (("sum", None, np.float64, add), ("max", "ring", np.float32, lambda some: np.max(some, axis=0)),
                                          (comm.premul_sum(0.5), None, np.float32, lambda some: add([one * np.float32(0.5) for one in some]))):
        model = Model(comm, False, dtype)
        exchange = comm.overlap(model.layers, op=op, schedule=schedule)
        del op
        for iteration in range(3):
            model.iterate(exchange, iteration)
            model.expect(iteration, combined)


def profiles(comm):
    """The measurements of one run are the plan of the next one, from its first iteration on."""
    path = os.path.join(os.environ["HOCKET_TEST_FOLDER"], f"profile{comm.rank}.json")
    model = Model(comm, True)
    with comm.overlap(model.layers, measure=5, look_every=-1) as exchange:
        for iteration in range(8):
            model.iterate(exchange, iteration)
            time.sleep(0.002)  # after the layers: it is `before`
        stats, batches = exchange.stats, exchange.batches
        exchange.profile.save(path)
    if not (stats.iterations == 8 and stats.plans == 1 and stats.batches == len(batches) and stats.predicted_seconds > 0
            and stats.measured_seconds > 0.002 and stats.computation > 0 and stats.communication > 0 and stats.overlap >= 0):
        raise AssertionError(f"{stats}")
    profile = Profile.load(path)
    sizes = [4 * sum(counts) for _, counts in COUNTS]
    if [layer.name for layer in profile.layers] != ["first", "layer 2", "idle", "large", "last"] or [layer.bytes for layer in profile.layers] != sizes:
        raise AssertionError(f"{profile}")
    if not profile.before > 0.002:
        raise AssertionError(f"{profile}")
    if comm.all_gather(np.frombuffer(profile.to_json().encode().ljust(4096), np.uint8)).ptp(axis=0).any():
        raise AssertionError("the ranks have different profiles")
    with comm.overlap(model.layers, profile=profile) as exchange:
        again = exchange.stats
        if (again.plans, again.iterations, again.predicted_seconds) != (1, 0, stats.predicted_seconds) or exchange.batches != batches:
            raise AssertionError(f"{again}, {exchange.batches} instead of {stats}, {batches}")
        if exchange.profile != profile:
            raise AssertionError(f"{exchange.profile} is not {profile}")
        model.iterate(exchange, 1)
        model.expect(1, average)


@contextlib.contextmanager
def refused(kind, *words):
    try:
        yield
    except kind as error:
        if all(word in str(error) for word in words):
            return
        raise
    raise AssertionError(f"{kind.__name__} was expected")


def refusals(comm):
    """A rank that is refused, in Python or in C, does not keep the others waiting, and all go on."""
    model = Model(comm, False)
    gaps = model.layers[:-1] + [("last", [np.empty(40, np.float32)[::2]])]
    for layers, options, words in ((gaps, {}, "gaps"), (model.layers, {"measure": 1}, "measure is 1"), (model.layers, {"method": "best"}, "'best'"), (5, {}, "5")):
        if comm.rank == 0:
            with refused(hocket.MismatchError, "were refused"):
                comm.overlap(model.layers)
        else:
            with refused(TypeError if layers == 5 else hocket.InvalidArgumentError, *([] if layers == 5 else [words])):
                comm.overlap(layers, **options)
    with refused(hocket.MismatchError, "all must give the same"):
        comm.overlap(model.layers, method=METHODS[comm.rank])
    model.iterate(comm.overlap(model.layers), 0)
    model.expect(0, average)


def ends_in_an_iteration(comm):
    """Closed, dropped, and left by an exception, after the same layer on all ranks."""
    class Left(Exception):
        pass

    exchange = comm.overlap(Model(comm, False).layers)
    Model(comm, False).iterate(exchange, 0, last=2)
    exchange.close()
    Model(comm, False).iterate(comm.overlap(Model(comm, False).layers), 0, last=2)
    try:
        with comm.overlap(Model(comm, True).layers) as exchange:
            Model(comm, False).iterate(exchange, 0, last=2)
            raise Left
    except Left:
        pass
    until = time.monotonic() + 60
    while comm._state.exchanges and time.monotonic() < until:
        time.sleep(0.001)
    if comm._state.exchanges:
        raise AssertionError(f"{len(comm._state.exchanges)} exchanges are kept")
    model = Model(comm, False)
    model.iterate(comm.overlap(model.layers), 0)
    model.expect(0, average)
    comm.barrier()
    exchange.close()


def interrupts(comm):
    """Rank 0 is interrupted in each call, and rank 1 goes on only then."""
    path = os.path.join(os.environ["HOCKET_TEST_FOLDER"], "interrupted")
    model = Model(comm, False)

    def in_turn(name, call, is_repeated=False):
        if comm.rank == 0:
            interrupted(lambda: comm._state.inside, call)
            open(path + name, "w").close()
        else:
            while not os.path.exists(path + name):
                time.sleep(0.001)
        if comm.rank == 1 or is_repeated:
            call()
        while comm._state.inside:  # the call that was left
            time.sleep(0.001)

    in_turn("opening", lambda: comm.overlap(model.layers))
    exchange = comm.overlap(model.layers)
    model.iterate(exchange, 0)
    for layer in range(5):
        exchange.forward(layer)
    exchange.begin_backward()
    if comm.rank == 1:
        while not os.path.exists(path + "finish"):
            time.sleep(0.001)
    for layer in reversed(range(5)):
        model.compute(layer, 1)
        exchange.backward(layer)
    in_turn("finish", exchange.finish, is_repeated=True)
    model.expect(1, average)
    exchange.begin_backward()
    if comm.rank == 1:
        while not os.path.exists(path + "close"):
            time.sleep(0.001)
    model.compute(4, 2)
    for layer in (4, 3, 2, 1, 0):
        exchange.backward(layer)
    in_turn("close", exchange.close)
    comm.barrier()


def threads(comm):
    """A call of another thread waits for its turn."""
    model = Model(comm, False)
    exchange = comm.overlap(model.layers)
    found, begun = [], threading.Event()

    def ask():
        begun.wait(60)
        found.append(exchange.stats.iterations)

    asking = threading.Thread(target=ask)
    asking.start()
    for iteration in range(3):
        model.iterate(exchange, iteration)
        begun.set()
    asking.join(60)
    if len(found) != 1 or not 1 <= found[0] <= 3:
        raise AssertionError(f"{found}")


def lost(comm):
    """A rank that ends in an iteration fails the others, again and again. It ends when they have ended the one before."""
    model = Model(comm, False)
    exchange = comm.overlap(model.layers)
    model.iterate(exchange, 0)
    paths = [os.path.join(os.environ["HOCKET_TEST_FOLDER"], f"iterated{rank}") for rank in range(comm.size - 1)]
    if comm.rank == comm.size - 1:
        while not all(map(os.path.exists, paths)):
            time.sleep(0.001)
        os._exit(0)
    open(paths[comm.rank], "w").close()
    with refused(hocket.PeerLostError, f"rank {comm.size - 1}"):
        model.iterate(exchange, 1)
    for call in (exchange.finish, lambda: exchange.forward(0)):
        with refused(hocket.PeerLostError, f"rank {comm.size - 1}"):
            call()
    exchange.close()


def closing(comm):
    """The communicator is closed in an iteration, by a rank whose arrays are still there, and which does not wait for the other."""
    path = os.path.join(os.environ["HOCKET_TEST_FOLDER"], "closed")
    model = Model(comm, comm.rank == 0)
    exchange = comm.overlap(model.layers)
    if comm.rank == 0:
        model.iterate(exchange, 0, last=1)
        comm.close()
        open(path, "w").close()
        with refused(hocket.AbortedError, "the communicator is closed"):
            exchange.backward(0)
        exchange.close()
        return
    while not os.path.exists(path):
        time.sleep(0.001)
    with refused(hocket.Error, "rank 0"):
        model.iterate(exchange, 0)


PARTS = {part.__name__: part for part in (averages, operators, profiles, refusals, ends_in_an_iteration, interrupts, threads, closing, lost)}


def main(names):
    for name in names:
        comm = hocket.init(timeout=600)  # the test's limit ends waits of that length
        PARTS[name](comm)
        print(f"right: {name}", flush=True)
        comm.close()


if __name__ == "__main__":
    main(sys.argv[1:])
