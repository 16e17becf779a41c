#!/usr/bin/python3
"""The Python package: arrays, memory, errors and kernels in this process, and ranks in others.

usage: package_test.py HOCKET_RUN     (PYTHONPATH has the package)
"""
import array
import ctypes
import gc
import os
import subprocess
import sys
import tempfile
import unittest
from typing import Any

import running

running.need_package()
import numpy as np

import hocket
from alone import Alone
from hocket import arrays

HOCKET_RUN = sys.argv[1]
HERE = running.HERE


class Import(unittest.TestCase):
    def test_without_a_package(self):
        for module, package in (("_cffi_backend", "cffi"), ("numpy", "numpy")):
            done = subprocess.run([sys.executable, "-c", f"import sys; sys.modules[{module!r}] = None; import hocket"],
                                  capture_output=True, text=True)
            self.assertIn(f"ModuleNotFoundError: hocket needs the package {package}, and {sys.executable} has none", done.stderr)


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
        comm.all_gather(still)  # arrays that are only read may be read-only
        self.refused(["byte order", "float32"], comm.all_reduce, x.astype(">f4"))
        self.refused(["complex64", "float32"], comm.all_reduce, x.astype(np.complex64))
        self.refused(["object"], comm.all_reduce, np.array([None]))
        self.refused(["overlap"], comm.all_reduce, x[:8], x[4:])
        self.refused(["dict", "broadcast_object"], comm.broadcast, {})
        self.refused(["not aligned"], comm.all_reduce, np.zeros(17, np.uint8)[1:].view(np.float32))
        self.refused(["12 elements", "3"], comm.all_reduce, x[:3], x)
        self.refused(["float64", "float32"], comm.all_reduce, x, np.zeros(12))
        self.refused(["read-only"], comm.all_reduce, b"bytes")
        self.refused(["builtins.list", "DLPack"], comm.all_reduce, [1.0, 2.0])
        self.refused(["builtins.str"], comm.all_reduce, "text")
        self.refused(["'add'", "sum"], comm.all_reduce, x, op="add")
        self.refused(["'SUM'", "do you mean 'sum'?"], comm.all_reduce, x, op="SUM")
        self.refused(["masked", "filled"], comm.all_reduce, np.ma.array(x, mask=x > 5))
        self.refused(["product", "bool"], comm.all_reduce, np.ones(3, bool), op="product")
        self.refused(["root"], comm.broadcast, x, root=5)
        self.refused(["counts", "2 numbers"], comm.all_gather_v, x, [1, 2])
        self.assertEqual(comm.status, 0)

    def test_numbers_that_have_too_many_bits(self):
        x, limit = np.ones(4, np.float32), "-2147483648 to 2147483647"
        for function in (lambda: self.comm.send(x, 0, tag=1 << 31), lambda: self.comm.recv(x, 1 << 31, wait=False),
                         lambda: self.comm.broadcast(x, root=1 << 31), lambda: self.comm.split(1 << 31)):
            self.refused(["2147483648 is out of range", limit], function)
        for timeout in (float("inf"), float("nan"), -1):
            self.refused(["number of seconds"], self.comm.barrier_monitored, timeout)
        for timeout in (1e30, 1e307):  # as a day
            self.comm.barrier_monitored(timeout)
            self.comm.all_reduce(x, wait=False).wait(timeout)
        self.refused(["out of range"], self.comm.group, [1 << 31])
        self.refused(["out of range"], hocket.explain, "ring", rank=1 << 31)
        self.refused([str(1 << 64), f"0 to {(1 << 64) - 1}"], self.comm.all_reduce, hocket.Memory(x.ctypes.data, 1 << 64, 0, x))
        for shape in ((1 << 61,), (1 << 40, 1 << 40)):
            self.refused(["shape", str((1 << 63) - 1)], self.comm.empty, shape)
        self.assertEqual(self.comm.status, 0)
        self.comm.all_reduce(x)

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
        shapeless = type("Shapeless", (), {"__dlpack__": lambda self, **named: x.__dlpack__()})()
        self.assertEqual(self.comm.all_gather(shapeless).tolist(), [[0, 1, 2, 3, 4, 5]])
        del shapeless
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
        self.refused(["'meta'", "CUDA"], self.comm.all_reduce, torch.ones(3, device="meta"))
        self.refused(["sparse", "to_dense()", "hocket.torch"], self.comm.all_reduce, torch.eye(3).to_sparse())

    def test_an_address(self):
        x = np.ones(5, np.float32)
        memory = hocket.Memory(x.ctypes.data, 5, hocket.TYPES["float32"], x)
        self.assertIs(self.comm.all_reduce(memory), memory)


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
            hocket.init(rank=1, world_size=2, master_addr="127.0.0.1", master_port=9, secret="x", timeout=1.5)
        self.assertIn("127.0.0.1", str(caught.exception))
        wrong: tuple[dict[str, object], ...] = (
            {"timeout": 0}, {"timeout": float("inf")}, {"timeout": float("nan")},
            {"progress": "sometimes"}, {"rank": "one"}, {"unique_id": "x" * 200})
        for given in wrong:
            self.assertRaises(hocket.InvalidArgumentError, hocket.init, **given)

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
        with self.assertRaisesRegex(KeyError, "^there is no file '/no/such.sched'.*explain"):  # the text, not its repr
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

    def test_steps_of_lamb(self):
        for wrong in (-1, 0, np.int64(-1), 1 << 64):
            arguments = (*([np.ones(3, np.float32)] for _ in range(4)), 0.1, wrong)
            self.assertRaisesRegex(hocket.InvalidArgumentError, f"step is {wrong}; the first one is 1", hocket.kernels.lamb, *arguments)

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


class Plans(Alone):
    def test_sizes_are_checked_before_anything_is_read(self):
        large, none = np.ones(1 << 20, np.float32), np.empty(0, np.float32)
        plan = self.comm.plan("all_reduce")
        self.refused(["1048576", "out 0"], plan.start, large, none)
        self.refused(["out 1048576"], plan.start, none, large)
        self.refused(["all pieces have 0"], self.comm.plan("all_gather").start, large, none)
        self.refused(["float32", "float64"], plan.start, large.astype(np.float64))
        plan.start(none, none)

    def test_lists_have_the_sizes_of_the_plan(self):
        plan = self.comm.plan("all_reduce", tensor_counts=[1, 1 << 20])
        one, large = np.ones(1, np.float32), np.ones(1 << 20, np.float32)
        self.refused(["array[0]", "says 1"], plan.start, [large, one])
        self.refused(["list of 2 arrays"], plan.start, [one])
        self.refused(["out[1]"], plan.start, [one, large], [one, one])
        self.refused(["list of 2 arrays"], plan.start, [one, large], large)
        plan.start([one, large])

    def test_further_buffers(self):
        plan = self.comm.plan("all_reduce", schedule="lars", tensor_counts=[8])
        x = [np.ones(8, np.float32)]
        for buffer, words in ((np.ones(8), ["float64", "float32"]), (np.ones(7, np.float32), ["7 elements", "must have 8"])):
            self.refused(["buffers[0]", *words], lambda: plan.start(x, parameters=[0.1], buffers=[[buffer]]))


    def test_parameters_by_name(self):
        weights = np.full(8, 2, np.float32)
        results = []
        forms: tuple[Any, ...] = ([0.1], (0.1,), {"rate": 0.1})
        for parameters in forms:
            plan = self.comm.plan("all_reduce", schedule="lars")  # a new one has no momentum yet
            x = np.arange(8, dtype=np.float32)
            results.append(plan.start(x, parameters=parameters, buffers=[weights]).tolist())
        self.assertEqual(results, results[:1] * 3)
        wrongs: tuple[dict[str, float], ...] = ({}, {"rat": 0.1}, {"rate": 0.1, "more": 1})
        for wrong in wrongs:
            self.refused(["take the parameters ['rate']"], lambda: plan.start(np.ones(8, np.float32), parameters=wrong, buffers=[weights]))


class Joined(Alone):
    def test_parts_end_with_the_whole(self):
        arrays_ = [np.zeros(4), np.zeros(4)]
        parts = [self.comm.recv(x, 0, tag=i, wait=False) for i, x in enumerate(arrays_)]
        whole = self.comm.join(parts)
        with self.assertRaises(hocket.InProgressError):
            parts[0].wait(0.01)
        self.assertFalse(parts[1].done())
        called: list[hocket.Request] = []
        parts[0].add_done_callback(called.append)
        for tag in (0, 1):
            self.comm.send(np.full(4, tag + 1.0), 0, tag=tag)
        self.assertEqual(parts[1].wait()[0], 2)
        self.assertTrue(parts[0].done() and whole.done())
        self.assertEqual([x[0] for x in whole.wait()], [1, 2])
        self.refused(["joined"], self.comm.join, parts)

    def test_of_one_communicator_and_each_once(self):
        with hocket.init() as other:
            self.refused(["several communicators"], self.comm.join, [other.recv(np.zeros(1), 0, wait=False)])
        x = np.zeros(1)
        part = self.comm.recv(x, 0, wait=False)
        whole = self.comm.join([part, part])
        self.comm.send(np.ones(1), 0)
        self.assertEqual(len(whole.wait(60)), 2)


class Ranks(unittest.TestCase):
    def test_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            for ranks, provider in ((2, ""), (3, "tcp")):
                with self.subTest(ranks=ranks, provider=provider):
                    code, said = running.run([HOCKET_RUN, "-n", str(ranks), "--timeout", "100", sys.executable,
                                              os.path.join(HERE, "package_rank.py"), "all"], 120,
                                             HOCKET_PROVIDER_FOR_ALL=provider, HOCKET_TEST_FOLDER=folder)
                    self.assertEqual(code, 0, said)
                    self.assertEqual(said.count("right: "), 15 * ranks, said)

    def test_going_on_after_a_loss(self):
        _, said = running.run([HOCKET_RUN, "-n", "3", "--grace", "60", "--timeout", "100", sys.executable,
                               os.path.join(HERE, "package_rank.py"), "lost"], 120)
        self.assertEqual(said.count("right: lost"), 2, said)


if __name__ == "__main__":
    sys.exit(running.main())
