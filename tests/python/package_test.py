#!/usr/bin/python3
"""The Python package: arrays, requests, lifetimes and errors in this process, and ranks in others.

usage: package_test.py HOCKET_RUN     (PYTHONPATH has the package)
"""
import array
import asyncio
import ctypes
import gc
import os
import signal
import sys
import tempfile
import threading
import unittest
import weakref

import running

running.need_package()
import numpy as np  # noqa: E402

import hocket  # noqa: E402
from hocket import arrays  # noqa: E402

HOCKET_RUN = sys.argv[1]
HERE = running.HERE


def program(text, limit_s=60):
    """A Python program of its own: its exit code, and what it said."""
    return running.run([sys.executable, "-c", text], limit_s)


class Alone(unittest.TestCase):
    """With a communicator of one rank."""

    def setUp(self):
        self.comm = hocket.init()
        self.addCleanup(self.comm.close)

    def refused(self, words, function, *arguments, **named):
        with self.assertRaises(hocket.InvalidArgumentError) as caught:
            function(*arguments, **named)
        for word in words:
            self.assertIn(word, str(caught.exception))


class Arrays(Alone):
    def test_types_are_those_of_the_library(self):
        for name, number in hocket.TYPES.items():
            if name == "bfloat16":
                continue
            self.assertEqual(arrays.type_of(np.dtype(name)), number)
            self.assertEqual(arrays.SIZES[number], np.dtype(name).itemsize)
            x = np.ones(7, name)
            self.assertIs(self.comm.all_reduce(x, op="max"), x)

    def test_shapes(self):
        for shape in ((), (0,), (3, 0, 2), (5,), (2, 3, 4)):
            with self.subTest(shape=shape):
                x = np.ones(shape, np.float32)
                self.assertEqual(self.comm.all_gather(x).shape, (1, *shape))
                self.assertEqual(self.comm.all_reduce(x, np.zeros(shape, np.float32)).shape, shape)

    def test_refused_before_anything_is_sent(self):
        comm, x = self.comm, np.arange(12, dtype=np.float32)
        self.refused(["gaps", "ascontiguousarray"], comm.all_reduce, x[::2])
        self.refused(["gaps"], comm.all_reduce, x.reshape(3, 4).T)
        self.refused(["gaps"], comm.all_gather, x[::-1])
        still = x.copy()
        still.flags.writeable = False
        self.refused(["read-only"], comm.all_reduce, still)
        self.refused(["read-only"], comm.all_reduce, x, still)
        comm.all_gather(still)  # what is only read may be read-only
        self.refused(["byte order", "float32"], comm.all_reduce, x.astype(">f4"))
        self.refused(["complex64", "float32"], comm.all_reduce, x.astype(np.complex64))
        self.refused(["object"], comm.all_reduce, np.array([None]))
        self.refused(["overlap"], comm.all_reduce, x[:8], x[4:])
        self.refused(["not aligned"], comm.all_reduce, np.zeros(17, np.uint8)[1:].view(np.float32))
        self.refused(["12 elements", "3"], comm.all_reduce, x[:3], x)
        self.refused(["float64", "float32"], comm.all_reduce, x, np.zeros(12))
        self.refused(["read-only"], comm.all_reduce, b"bytes")
        self.refused(["builtins.list", "DLPack"], comm.all_reduce, [1.0, 2.0])
        self.refused(["builtins.str"], comm.all_reduce, "text")
        self.refused(["'add'", "sum"], comm.all_reduce, x, op="add")
        self.refused(["product", "bool"], comm.all_reduce, np.ones(3, bool), op="product")
        self.refused(["root"], comm.broadcast, x, root=5)
        self.refused(["counts", "2 numbers"], comm.all_gather_v, x, [1, 2])
        self.assertEqual(comm.status, 0)

    def test_the_buffer_protocol(self):
        a = array.array("d", [1, 2, 3])
        self.assertIs(self.comm.all_reduce(a), a)
        self.assertEqual(self.comm.all_gather(bytearray(b"abc")).tolist(), [[97, 98, 99]])
        self.comm.broadcast(memoryview(bytearray(8)).cast("i"))
        self.refused(["gaps"], self.comm.all_reduce, memoryview(bytearray(8))[::2])
        c = (ctypes.c_float * 4)(1, 2, 3, 4)
        self.assertEqual(self.comm.all_gather(c)[0].tolist(), [1, 2, 3, 4])

    def test_dlpack(self):
        class Exporter:
            """A tensor of no library that the package knows."""

            def __init__(self, numpy_array, **named):
                self.array, self.named = numpy_array, named

            def __dlpack__(self, **named):
                return self.array.__dlpack__(**self.named)

            shape = property(lambda self: self.array.shape)

        x = np.arange(6, dtype=np.int32).reshape(2, 3)
        got = self.comm.all_gather(Exporter(x))
        self.assertEqual(got.tolist(), [x.tolist()])
        self.refused(["gaps"], self.comm.all_gather, Exporter(x[:, ::2]))
        self.refused(["Exporter", "unexpected"], self.comm.all_gather, Exporter(x, unknown=1))
        # The exporter's memory is let go of. (Exceptions from above have it, too.)
        gc.collect()
        before = sys.getrefcount(x)
        for _ in range(10):
            self.comm.all_gather(Exporter(x))
        gc.collect()
        self.assertEqual(sys.getrefcount(x), before)

    @unittest.skipUnless(running.has("torch"), "Python's torch is not installed (Debian: python3-torch)")
    def test_torch(self):
        import torch
        x = torch.arange(6).reshape(2, 3).to(torch.bfloat16)
        self.assertIs(self.comm.all_reduce(x), x)
        got = self.comm.all_gather(x)
        self.assertIsInstance(got, torch.Tensor)
        self.assertTrue(torch.equal(got[0], x))
        self.refused(["contiguous"], self.comm.all_reduce, x.t())
        self.refused(["detach"], self.comm.all_reduce, torch.ones(3, requires_grad=True))
        self.refused(["complex64"], self.comm.all_reduce, torch.ones(3, dtype=torch.complex64))
        self.comm.all_reduce(torch.ones(3, requires_grad=True).detach())

    def test_an_address(self):
        x = np.ones(5, np.float32)
        memory = hocket.Memory(x.ctypes.data, 5, hocket.TYPES["float32"], x)
        self.assertIs(self.comm.all_reduce(memory), memory)


class Requests(Alone):
    def start(self, x, tag):
        return self.comm.recv(x, 0, tag=tag, wait=False)

    def test_waiting(self):
        x = np.zeros(4)
        request = self.start(x, 1)
        self.assertFalse(request.done())
        with self.assertRaises(hocket.InProgressError) as caught:
            request.wait(0.02)
        self.assertIsInstance(caught.exception, TimeoutError)  # the builtin
        self.refused(["timeout"], request.wait, -1)
        self.comm.send(np.ones(4), 0, tag=1)
        self.assertIs(request.wait(30), x)
        self.assertIs(request.wait(), x)  # again
        self.assertTrue(request.done())
        self.assertEqual(x.tolist(), [1] * 4)

    def test_several_threads_wait(self):
        x, got = np.zeros(4), []
        request = self.start(x, 1)
        threads = [threading.Thread(target=lambda: got.append(request.wait(30))) for _ in range(3)]
        for thread in threads:
            thread.start()
        self.comm.send(np.ones(4), 0, tag=1)
        for thread in threads:
            thread.join(30)
        self.assertEqual(len(got), 3)

    def test_arrays_live_until_their_operation_has_ended(self):
        x = np.zeros(1000)
        alive = weakref.ref(x)
        request = self.start(x, 1)
        del x, request
        gc.collect()
        self.assertIsNotNone(alive())
        self.comm.send(np.ones(1000), 0, tag=1)
        for _ in range(2):  # a later start lets go of what has ended
            self.comm.barrier(wait=False).wait()
        gc.collect()
        self.assertIsNone(alive())

    def test_nothing_is_kept_of_what_has_ended(self):
        x, y = np.zeros(100, np.float32), np.zeros(100, np.float32)
        self.comm.all_reduce(x, y)
        before = sys.getrefcount(x), sys.getrefcount(y), len(gc.get_objects())
        for _ in range(500):
            self.comm.all_reduce(x, y)
            self.comm.all_reduce(x, y, wait=False).wait()
            self.comm.all_reduce(x, y, wait=False)  # nobody waits for it
        self.comm.barrier()
        self.comm.barrier(wait=False).wait()
        gc.collect()
        after = sys.getrefcount(x), sys.getrefcount(y), len(gc.get_objects())
        self.assertEqual(after[:2], before[:2])
        self.assertLess(after[2] - before[2], 50)

    def test_callbacks(self):
        told, threads = threading.Event(), []
        request = self.start(np.zeros(4), 1)

        def tell(ended):
            threads.append((ended is request, threading.current_thread() is threading.main_thread()))
            told.set()

        request.add_done_callback(tell)
        self.assertFalse(told.wait(0.05))
        self.comm.send(np.ones(4), 0, tag=1)
        self.assertTrue(told.wait(30))
        self.assertEqual(threads, [(True, False)])

    def test_closing_ends_what_is_in_flight(self):
        told = threading.Event()
        request = self.start(np.zeros(4), 1)
        request.add_done_callback(lambda _: told.set())
        self.comm.close()
        self.assertTrue(told.is_set())  # told, that nobody waits for ever
        with self.assertRaises(hocket.AbortedError):
            request.wait()
        with self.assertRaises(hocket.AbortedError):
            self.comm.all_reduce(np.zeros(4))

    def test_closing_beside_a_call(self):
        errors, begun = [], threading.Event()

        def wait():
            begun.set()
            try:
                self.comm.recv(np.zeros(4), 0, tag=1)
            except hocket.AbortedError as error:
                errors.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        begun.wait(30)
        self.comm.close()
        thread.join(30)
        self.assertEqual(len(errors), 1)

    def test_closing_in_a_callback_is_refused(self):
        refused = []

        def close(_):
            try:
                self.comm.close()
            except hocket.InvalidArgumentError as error:
                refused.append(str(error))
            told.set()

        told = threading.Event()
        request = self.start(np.zeros(4), 1)
        request.add_done_callback(close)
        self.comm.send(np.ones(4), 0, tag=1)
        self.assertTrue(told.wait(30))
        self.assertIn("abort()", refused[0])

    def test_await_is_cancelled(self):
        async def give_up():
            try:
                await asyncio.wait_for(asyncio.ensure_future(self.wrapped(self.start(np.zeros(4), 1))), 0.05)
            except asyncio.TimeoutError:
                return "given up"

        self.assertEqual(asyncio.run(give_up()), "given up")
        self.comm.send(np.ones(4), 0, tag=1)
        self.comm.all_reduce(np.zeros(4))

    @staticmethod
    async def wrapped(request):
        return await request

    def test_ctrl_c(self):
        x = np.zeros(4)
        for wait in (lambda: self.comm.recv(x, 0, tag=1), lambda: self.start(x, 2).wait(), lambda: self.start(x, 3).wait(50)):
            timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            with self.assertRaises(KeyboardInterrupt):
                wait()
            timer.join()
        # What was waited for goes on.
        self.comm.send(np.ones(4), 0, tag=1)
        self.assertEqual(self.comm.status, 0)
        self.comm.all_reduce(np.zeros(4))

    def test_closing_in_a_signal_handler(self):
        refused = []

        def close(*_):
            try:
                self.comm.close()
            except hocket.InvalidArgumentError as error:
                refused.append(str(error))

        before = signal.signal(signal.SIGUSR1, close)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        request = self.start(np.zeros(4), 1)
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        with self.assertRaises(hocket.InProgressError):
            request.wait(0.4)
        self.assertEqual(len(refused), 1)
        self.comm.close()

    def test_a_handler_that_raises_nothing(self):
        seen = []
        before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        request = self.start(np.zeros(4), 1)
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        with self.assertRaises(hocket.InProgressError):
            request.wait(0.4)
        self.assertEqual(seen, [1])


class Memory(Alone):
    def test_window_memory_outlives_what_it_is_of(self):
        x = self.comm.empty((100, 100), "int64")
        x[:] = 7
        self.comm.close()  # it is destroyed when x is gone
        self.assertEqual(int(x.sum()), 70000)
        state = self.comm._state
        self.assertTrue(state.owned)
        del x
        gc.collect()
        self.assertFalse(state.owned)

    def test_blocks_are_freed(self):
        for _ in range(200):  # 800 MiB in all
            self.comm.empty(1 << 20)[0] = 1
        self.assertEqual(self.comm._state.blocks, 0)
        self.assertEqual(self.comm.empty((0, 3)).shape, (0, 3))
        self.refused(["shape"], self.comm.empty, (-1,))

    def test_registering(self):
        x = np.zeros(1 << 16)
        registered = self.comm.register(x)
        registered.close()
        registered.close()
        still = x.copy()
        still.flags.writeable = False
        self.refused(["read-only"], self.comm.register, still)


class Errors(unittest.TestCase):
    def test_each_status_has_a_class(self):
        for name in hocket.errors.__all__[1:]:
            made = getattr(hocket, name)
            self.assertTrue(issubclass(made, hocket.Error))
            self.assertIn(made.status, hocket.errors.CLASSES)
        self.assertTrue(issubclass(hocket.TimeoutError, TimeoutError))
        self.assertIn("PeerLostError", hocket.errors.__all__)
        with self.assertRaises(AttributeError):
            hocket.NoSuchError

    def test_joining_fails(self):
        with self.assertRaises(hocket.BootstrapError) as caught:
            hocket.init(rank=1, world_size=2, master_addr="127.0.0.1", master_port=9, secret="x", timeout=0.5)
        self.assertIn("127.0.0.1", str(caught.exception))
        for given in ({"timeout": 0}, {"progress": "sometimes"}, {"rank": "one"}, {"unique_id": "x" * 200}):
            with self.assertRaises(hocket.InvalidArgumentError):
                hocket.init(**given)

    def test_a_store_that_raises(self):
        class Store:
            def set(self, key, value):
                raise RuntimeError("the store is full")

        with self.assertRaisesRegex(RuntimeError, "the store is full"):
            hocket.init(rank=0, world_size=2, store=Store(), timeout=5)

    def test_schedules(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mine.sched")
            text = "algorithm mine all_gather(x) over g {\n    for s in 1 ..< g.size\n        each r in g\n            x[r] : r -> r + 1\n}\n"
            with open(path, "w") as file:
                file.write(text)
            with self.assertRaises(hocket.ScheduleError) as caught:
                hocket.check(path)
            self.assertIn("mine.sched:", str(caught.exception))
            self.assertIn("^", str(caught.exception))
            with open(path, "w") as file:
                file.write(text.replace("x[r] :", "x[r - s + 1] :"))
            self.assertIn("algorithm mine all_gather", hocket.check(path))
        self.assertIn("rank 1 of 6", hocket.explain("ring", "2x3", 1))
        self.assertIn("all_gather by ring", hocket.explain("ring", "3", collective="all_gather"))
        with self.assertRaises(hocket.NotFoundError):
            hocket.explain("no_such_schedule")
        with self.assertRaises(LookupError):
            hocket.check("/no/such.sched")


class Kernels(unittest.TestCase):
    def test_topk_and_scatter_add(self):
        x, rest = np.array([3, -9, 1, 5], np.float32), np.zeros(4, np.float32)
        values, indices = hocket.kernels.topk(x, 2, residual=rest)
        self.assertEqual((values.tolist(), indices.tolist(), rest.tolist()), ([-9, 5], [1, 3], [3, 0, 1, 0]))
        dense = hocket.kernels.scatter_add(rest.copy(), values, indices)
        self.assertEqual(dense.tolist(), x.tolist())
        values, indices = hocket.kernels.topk(np.array([np.inf, 1], np.float32), 1, residual=np.zeros(2, np.float32))
        self.assertEqual(len(values), 0)  # the step was skipped

    def test_optimizers(self):
        w, g = [np.full(4, 2, np.float32)], [np.ones(4, np.float32)]
        m, v = [np.zeros(4, np.float32)], [np.zeros(4, np.float32)]
        self.assertEqual(hocket.kernels.norms(w).tolist(), [4])
        self.assertTrue(hocket.kernels.lars(w, g, m, 1.0, trust=0.5, weight_decay=0))
        self.assertEqual(w[0].tolist(), [1] * 4)  # the ratio is 0.5 * 4 / 2
        self.assertTrue(hocket.kernels.lamb(w, g, m, v, 0.1, 1))
        self.assertFalse(hocket.kernels.lamb(w, [np.full(4, np.nan, np.float32)], m, v, 0.1, 2))
        with self.assertRaises(hocket.InvalidArgumentError):
            hocket.kernels.lars(w, g, m, 1.0, trusty=1)


class Programs(unittest.TestCase):
    def test_the_interpreter_ends_with_operations_in_flight(self):
        start = "import hocket, numpy as np, threading, sys\ncomm = hocket.init()\nx = np.zeros(9)\n"
        for what in ("r = comm.recv(x, 0, wait=False)",
                     "r = comm.recv(x, 0, wait=False); r.add_done_callback(print)",
                     "comm.recv(x, 0, wait=False); del comm",
                     "threading.Thread(target=comm.recv, args=(x, 0), daemon=True).start()",
                     "y = comm.empty(1000); r = comm.recv(y, 0, wait=False)",
                     "c = hocket.Cache(read=lambda key: b'x' * 9, dataset='d', comm=comm); s = c[1]",
                     "p = comm.plan('all_reduce'); o = comm.premul_sum(2); sys.exit(0)"):
            with self.subTest(what=what):
                code, said = program(start + what + "\nprint('the end')")
                self.assertEqual(code, 0, said)

    def test_what_is_dropped_in_a_callback(self):
        code, said = program("""
import hocket, numpy as np, threading, time
comm = hocket.init()
state, go = comm._state, threading.Event()
request = comm.recv(np.zeros(9), 0, wait=False)
request.add_done_callback(lambda _: go.wait(30))
comm.send(np.ones(9), 0)
del comm, request
import weakref
gone = weakref.ref(state)
del state
assert gone() is not None  # the callback has it
go.set()
until = time.monotonic() + 30
while gone() is not None and time.monotonic() < until:
    time.sleep(0.01)
assert gone() is None
print("the end")
""")
        self.assertEqual(code, 0, said)

    def test_an_exception_in_a_callback_is_printed(self):
        code, said = program("import hocket, numpy as np\ncomm = hocket.init()\nr = comm.barrier(wait=False)\n"
                             "r2 = comm.recv(np.zeros(1), 0, wait=False)\n"
                             "r2.add_done_callback(lambda _: 1 / 0)\ncomm.send(np.ones(1), 0)\nr2.wait()\ncomm.close()\nprint('goes on')")
        self.assertEqual(code, 0, said)
        self.assertIn("ZeroDivisionError", said)
        self.assertIn("goes on", said)

    def test_a_forked_child(self):
        code, said = program("""
import hocket, numpy as np, os, sys
comm = hocket.init()
kept = comm.empty(100); request = comm.recv(np.zeros(9), 0, wait=False); plan = comm.plan("all_reduce")
child = os.fork()
if child == 0:
    try:
        comm.all_reduce(np.zeros(9))
    except hocket.InvalidArgumentError as error:
        assert "fork" in str(error), error
        own = hocket.init(rank=0, world_size=1)
        own.all_reduce(np.zeros(9))
        del kept, request, plan
        comm.close()
        sys.exit(7)
    sys.exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
comm.send(np.ones(9), 0)
print("the parent's:", request.wait(10)[0])
""")
        self.assertEqual(code, 0, said)
        self.assertIn("the parent's: 1.0", said)

    def test_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            for ranks, provider in ((2, ""), (3, "tcp")):
                with self.subTest(ranks=ranks, provider=provider):
                    code, said = running.run([HOCKET_RUN, "-n", str(ranks), "--timeout", "100", sys.executable,
                                              os.path.join(HERE, "package_rank.py"), "all"], 120,
                                             HOCKET_PROVIDER=provider, HOCKET_TEST_FOLDER=folder)
                    self.assertEqual(code, 0, said)
                    self.assertEqual(said.count("right: "), 10 * ranks, said)

    def test_going_on_after_a_loss(self):
        code, said = running.run([HOCKET_RUN, "-n", "3", "--timeout", "100", sys.executable,
                                  os.path.join(HERE, "package_rank.py"), "lost"], 120)
        self.assertEqual(said.count("right: lost"), 2, said)


if __name__ == "__main__":
    sys.exit(running.main())
