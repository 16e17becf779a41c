#!/usr/bin/python3
"""hocket.params: what arrays are taken, pushes, pulls, opening, servers, checkpoints, errors.

usage: params_test.py HOCKET_RUN     (PYTHONPATH has the package)
"""
import os
import sys
import tempfile
import threading
import unittest

import running

running.need_package()
import numpy as np

import hocket
import hocket.params as params
from serving import SECRET, TIMEOUT_S, TestCase, model, open_worker, serve


class Alone(TestCase):
    """One worker, so that each round is applied at once."""

    def setUp(self):
        self.arrays = model()
        self.server = self.serve()
        self.worker = open_worker(self.server.address, self.arrays)
        self.addCleanup(self.worker.close)

    def test_facts(self):
        self.assertEqual((self.worker.number, self.worker.staleness, self.worker.closed), (0, 0, False))
        self.assertEqual(self.worker.names, ("a", "b", "c", "d"))
        self.assertIn("number 0, 4 tensors", repr(self.worker))
        self.assertEqual(self.worker.clock(), 1)
        stats = self.worker.stats()
        self.assertEqual(stats.round, 1)
        self.assertGreater(stats.epochs, 0)
        self.assertIn(self.server.address, repr(self.server))

    def test_all_tensors(self):
        gradients = {name: np.ones_like(array) for name, array in self.arrays.items()}
        self.assertIsNone(self.worker.push(gradients))
        for array in gradients.values():
            array[...] = 99  # they were copied
        self.worker.clock()
        got = self.worker.pull()
        self.assertEqual(list(got), list(self.arrays))
        for name, before in model().items():
            self.assertIs(got[name], self.arrays[name])
            self.same(got[name], before + before.dtype.type(1))

    def test_some_tensors(self):
        self.worker.push({"d": np.full(1, 3, np.float32), "a": np.ones(6, np.float32)})  # neither in their order, nor neighbours; flat
        self.worker.push({"c": np.arange(5)})
        self.worker.clock()
        out = np.zeros((3, 2), np.float32)
        self.assertIs(self.worker.pull("a", out), out)
        self.same(out, model()["a"] + 1)
        got = self.worker.pull(["d", "a"])
        self.assertEqual(list(got), ["d", "a"])
        self.assertIs(got["d"], self.arrays["d"])
        self.assertEqual(self.arrays["d"], 5)
        flat = np.zeros(4)
        self.assertIs(self.worker.pull(out={"b": flat})["b"], flat)
        self.same(self.worker.pull(iter(["c"]))["c"], model()["c"] + np.arange(5))
        self.same(self.arrays["b"], np.zeros(4))

    def test_nothing_to_push(self):
        self.worker.push({})
        self.assertTrue(self.worker.push({}, wait=False).done())
        self.assertEqual(self.worker.clock(), 1)
        self.same(self.worker.pull("b"), np.zeros(4))

    def test_sparse(self):
        indices, values = np.array([0, 3, 5], np.uint32), np.array([1, 2, 3], np.float32)
        self.worker.push_sparse("a", indices, values)
        self.worker.push_sparse("b", np.empty(0, np.uint32), np.empty(0), wait=False).wait()
        indices[:], values[:] = 1, 99
        self.worker.clock()
        self.worker.pull()
        want = model()["a"].ravel()
        want[[0, 3, 5]] += [1, 2, 3]
        self.same(self.arrays["a"].ravel(), want)
        self.same(self.arrays["b"], np.zeros(4))

    def test_sparse_refused(self):
        push, ok, four = self.worker.push_sparse, np.array([0, 1], np.uint32), np.zeros(2, np.float32)
        self.refused(["there is no tensor 'x'", "a, b, c, d"], push, "x", ok, four)
        self.refused(["astype('uint32')"], push, "a", ok.astype(np.int64), four)
        self.refused(["values has elements of float64", "astype('float32')"], push, "a", ok, np.zeros(2))
        self.refused(["values has 3 elements", "indices has 2"], push, "a", ok, np.zeros(3, np.float32))
        self.refused(["must ascend"], push, "a", ok[::-1].copy(), four)
        self.refused(["must ascend"], push, "a", np.array([1, 1], np.uint32), four)
        self.refused(["must ascend, and be below 6"], push, "a", np.array([1, 6], np.uint32), four)
        push("a", ok, four)
        self.refused(["'a' was pushed in this round"], push, "a", ok, four)
        self.refused(["'a' was pushed in this round"], self.worker.push, {"a": np.zeros((3, 2), np.float32)})

    def test_pushes_refused(self):
        push = self.worker.push
        ok = np.zeros(4)
        for gradients, words in (({"x": ok}, ["there is no tensor 'x'", "a, b, c, d"]), ({"b": np.zeros(4, np.float32)}, ["gradients['b'] has elements of float32",
                                 "astype('float64')"]), ({"b": np.zeros(5)}, ["shape (5,)", "(4,)"]), ({"a": np.zeros((2, 3), np.float32)}, ["shape (2, 3)", "(3, 2)"]),
                                 ({"b": np.zeros(8)[::2]}, ["gradients['b'] has gaps", "ascontiguousarray"]), (ok, ["a dict from names"]), ({3: ok}, ["no tensor 3"]),
                                 ({"b": "text"}, ["gradients['b'] is of type builtins.str"]), ({"b": ok.astype(">f8")}, ["other byte order"])):
            self.refused(words, push, gradients)
            self.refused(words, push, {"c": np.ones(5, np.int64), **gradients} if isinstance(gradients, dict) else gradients)
        still = np.ones(4)
        still.flags.writeable = False
        push({"b": still})  # it is only read
        self.refused(["'b' was pushed in this round"], push, {"d": np.ones((), np.float32), "b": ok})
        self.worker.clock()
        push({"b": still})
        self.worker.clock()
        self.same(self.worker.pull("b"), np.full(4, 2.0))
        self.same(self.worker.pull("c"), model()["c"])  # nothing of the refused update was pushed
        self.same(self.worker.pull("d"), model()["d"])

    def test_pulls_refused(self):
        pull, still = self.worker.pull, np.ones(4)
        still.flags.writeable = False
        for arguments, words in ((("x",), ["there is no tensor 'x'"]), (("b", np.zeros(3)), ["out['b'] has the shape (3,)", "flat one of 4"]),
                                 (("b", np.zeros((2, 2))), ["shape (2, 2)"]), (("b", np.zeros(4, np.float32)), ["out['b'] has elements of float32"]),
                                 (("b", np.zeros(8)[::2]), ["out['b'] has gaps"]), (("b", still), ["out['b'] is read-only"]), (([],), ["one or more names"]),
                                 ((["a", "a"],), ["none of them twice"]), ((["a", "b"], {"a": np.zeros(6, np.float32)}), ["no array for 'b'"]),
                                 ((None, still), ["a dict from names"]), ((["a"], still), ["a dict from names"]), ((3,), [])):
            self.refused(words, pull, *arguments, error=TypeError if arguments == (3,) else hocket.InvalidArgumentError)
        self.refused(["staleness 1", "0 at most"], pull, staleness=1)
        self.refused(["staleness is -2"], pull, staleness=-2)
        self.refused(["HKT_UNBOUNDED"], pull, staleness=params.UNBOUNDED)
        self.refused(["out of range"], pull, staleness=1 << 70)

    def test_memory_of_two_tensors(self):
        """As of a model with tied weights: one of the two would be lost."""
        tied, block = np.ones(4), np.zeros(10)
        with open_worker(self.serve().address, {"e": tied, "f": np.zeros(2), "h": tied}) as worker:
            self.refused(["out['e'] and out['h']", "memory in common"], worker.pull)
            self.refused(["out['f'] and out['e']"], worker.pull, out={"e": block[1:5], "f": block[:2]})
            worker.push({"e": tied, "h": tied})  # they are only read
            worker.clock()
            got = worker.pull(out={"e": block[:4], "f": block[4:6], "h": block[6:]})
            self.same(got["h"], np.full(4, 2.0))
            self.same(worker.pull("e", tied), np.full(4, 2.0))

    def test_no_staleness(self):
        with open_worker(self.serve().address, {"w": np.ones(3)}, staleness=None) as worker:
            self.assertEqual(worker.staleness, 0)
            worker.clock()
            self.same(worker.pull("w"), np.ones(3))

    def test_read_only_first_weights(self):
        still = np.ones(3)
        still.flags.writeable = False
        with open_worker(self.serve().address, {"w": still}) as worker:
            self.refused(["out['w'] is read-only"], worker.pull)
            self.same(worker.pull(out={"w": np.zeros(3)})["w"], np.ones(3))

    def test_other_memory(self):
        import array
        plain = array.array("d", [1, 2])
        memory = np.arange(3, dtype=np.float32)
        given = hocket.Memory(memory.ctypes.data, 3, hocket.TYPES["float32"], memory)
        with open_worker(self.serve().address, {"p": plain, "m": given}) as worker:
            worker.push({"p": np.ones(2), "m": given})
            worker.clock()
            worker.pull()
        self.assertEqual(plain.tolist(), [2, 3])
        self.same(memory, np.array([0, 2, 4], np.float32))

    @unittest.skipUnless(running.has("torch"), "there is no torch")
    def test_torch(self):
        import torch
        tensors = {"w": torch.ones(3, 2), "h": torch.ones(5, dtype=torch.bfloat16)}
        with open_worker(self.serve().address, tensors, update="sgd(0.5)") as worker:
            worker.push({"w": torch.ones(3, 2), "h": torch.full((5,), 2.0, dtype=torch.bfloat16)})
            worker.clock()
            worker.pull()
            self.assertTrue(torch.equal(tensors["w"], torch.full((3, 2), 0.5)))
            self.assertTrue(torch.equal(tensors["h"], torch.zeros(5, dtype=torch.bfloat16)))
            self.refused(["requires gradients", "detach()"], worker.push, {"w": torch.ones(3, 2, requires_grad=True)})
            self.refused(["gaps", "contiguous()"], worker.push, {"w": torch.ones(2, 3).t()})
            self.refused(["meta"], worker.push, {"w": torch.ones(3, 2, device="meta")})

    def test_memory_of_a_device(self):
        class OnDevice:
            """As CuPy's arrays are, but that the memory is the host's."""

            def __init__(self):
                self.array = np.zeros(4)

            def __dlpack__(self, **_):
                return self.array.__dlpack__()

            def __dlpack_device__(self):
                return (2, 0)

        self.refused(["gradients['b'] is in memory of a device"], self.worker.push, {"b": OnDevice()})

    def test_closed(self):
        request = self.worker.pull(wait=False)
        self.worker.close()
        self.worker.close()
        for call in (self.worker.stats, self.worker.clock, self.worker.pull, self.worker.checkpoint, lambda: self.worker.push({"b": np.zeros(4)}),
                     lambda: self.worker.push_sparse("b", np.empty(0, np.uint32), np.empty(0))):
            self.refused(["the worker is closed"], call, error=hocket.AbortedError)
        self.refused(["the worker was closed before"], request.wait, error=hocket.AbortedError)
        self.assertTrue(self.worker.closed)
        self.assertIn("closed", repr(self.worker))
        self.assertRaises(TypeError, self.worker.__reduce__)

    def test_a_forked_child(self):
        child = os.fork()
        if child == 0:
            try:
                self.worker.clock()
                os._exit(1)
            except hocket.InvalidArgumentError as error:
                os._exit(0 if "parameter worker" in str(error) else 2)
            finally:
                os._exit(3)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.worker.clock(), 1)


class Opening(TestCase):
    def test_refused(self):
        w = {"w": np.zeros(3)}
        cases: tuple[tuple[object, dict[str, object], list[str]], ...] = (
            ({}, {}, ["tensors is {}"]), ([1], {}, ["a dict from names to arrays"]), ({"": w["w"]}, {}, ["not a name"]), ({"w": np.zeros(0)}, {}, ["element"]),
            ({"w": np.zeros(3, bool)}, {}, ["bool", "cannot be added up"]), ({"w": np.zeros(3, complex)}, {}, ["complex128"]), ({"w": np.zeros(6)[::2]}, {}, ["tensors['w'] has gaps"]),
            (w, {"staleness": -2}, ["staleness is -2"]), (w, {"tree": "oak"}, ["oak"]), (w, {"priority": 300}, ["priority"]), (w, {"workers": -1}, ["workers"]),
            (w, {"timeout": 0}, ["timeout is 0"]), (w, {"longest_wait": -1}, ["longest_wait is -1"]), (w, {"number": "one"}, ["number is 'one'"]), (w, {"update": "w = "}, []))
        for tensors, options, words in cases:
            error = hocket.ScheduleError if options.get("update") else hocket.InvalidArgumentError
            self.refused(words, open_worker, "127.0.0.1:9", tensors, error=error, **options)
        self.refused(["nonesuch"], open_worker, "127.0.0.1:9", w, update="nonesuch(1)", error=hocket.Error)
        self.refused(["not an address", "address such as"][1:], open_worker, "nowhere", w)
        self.refused(["HOCKET_PARAMS_ADDRESS"], params.open, w)

    def test_another_secret(self):
        server = self.serve()
        self.refused(["secret"], params.open, {"w": np.zeros(3)}, address=server.address, secret="another", timeout=5, error=hocket.BootstrapError)
        self.refused(["secret"], params.status, server.address, secret="another", timeout=5, error=hocket.BootstrapError)

    def test_jobs_that_differ(self):
        server = self.serve()
        with open_worker(server.address, {"w": np.zeros(3)}, update="sum"):
            self.refused(["w"], open_worker, server.address, {"w": np.zeros(4)}, error=hocket.MismatchError)
            self.refused(["update"], open_worker, server.address, {"w": np.zeros(3)}, update="average", error=hocket.MismatchError)
            self.refused(["longest"], open_worker, server.address, {"w": np.zeros(3)}, update="sum", longest_wait=0.25, error=hocket.MismatchError)
            open_worker(server.address, {"w": np.zeros(3)}, update="sum", longest_wait=0.5).close()

    def test_nobody_is_there(self):
        port = running.free_port()
        self.refused(["127.0.0.1:" + port], open_worker, "127.0.0.1:" + port, {"w": np.zeros(3)}, timeout=1, error=hocket.BootstrapError)
        self.refused(["2 workers"], open_worker, self.serve().address, {"w": np.zeros(3)}, workers=2, timeout=1.5, error=hocket.TimeoutError)

    def test_all_options(self):
        server = self.serve()
        with open_worker(server.address, {"w": np.zeros(300000)}, update="average", staleness=3, tree="degree 2", rack="r", chunk_bytes=65536, priority=3,
                         longest_wait=float("inf"), number=0, workers=1, gives_weights=False) as worker:
            status = params.status(server.address, secret=SECRET)
            self.assertEqual((status["staleness"], status["tree"], status["workers"][0]["rack"]), (3, "degree 2", "r"))
            self.assertEqual(status["chunks"], -(-300000 * 8 // 65536))
            self.assertEqual(worker.staleness, 3)

    def test_first_weights_are_one_workers(self):
        models = [{"w": np.full(3, 5.0)}, {"w": np.full(3, 6.0)}]
        server = self.serve()
        workers: list[params.Worker] = []
        threads = [threading.Thread(target=lambda i=i: workers.append(open_worker(server.address, models[i], workers=2, gives_weights=i == 1))) for i in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT_S)
        for worker in workers:
            self.addCleanup(worker.close)
            self.same(worker.pull("w"), np.full(3, 6.0))


class Servers(TestCase):
    def test_life(self):
        server = self.serve()
        self.assertEqual(server.stats()["waits_for"], params.status(server.address, secret=SECRET)["waits_for"])
        with open_worker(server.address, model()) as worker:
            worker.clock()
            worker.pull()
            self.assertEqual(server.stats()["clock"], 1)
            self.assertEqual(params.status(server.address, secret=SECRET)["workers"][0]["number"], 0)
            self.assertFalse(server.wait(0))
        self.assertTrue(server.wait(TIMEOUT_S))
        server.close()
        server.close()
        self.assertIn("closed", repr(server))
        for call in (server.wait, server.stats, server.finish):
            self.refused(["the server is closed"], call, error=hocket.AbortedError)
        self.assertRaises(TypeError, server.__reduce__)

    def test_refused(self):
        self.refused(["listen"], params.serve, "")
        self.refused(["address such as"], params.serve, "nowhere")
        with tempfile.TemporaryDirectory() as folder:
            self.refused([], serve, checkpoints=folder, restore=True, error=hocket.NotFoundError)
            self.refused(["restore"], serve, checkpoints=folder, round=3)
            self.refused(["silence"], serve, silence=0)
            self.refused(["return_within is 0"], serve, return_within=0)
            self.refused([folder], serve, checkpoints=os.path.join(folder, "none"), error=hocket.IOError)
        server = self.serve()
        self.refused([server.address], params.serve, server.address, secret=SECRET, error=hocket.BootstrapError)

    def test_two_servers(self):
        first = self.serve(servers=2)
        second = self.serve(join=first.address)
        arrays = {"a": np.zeros(300000), "b": np.zeros(200000)}
        with open_worker(first.address, arrays) as worker:
            worker.push({name: np.ones_like(array) for name, array in arrays.items()})
            worker.clock()
            worker.pull()
        self.same(arrays["b"], np.ones(200000))
        self.assertEqual([server.stats()["server"] for server in (first, second)], [0, 1])
        self.assertTrue(0 < second.stats()["bytes"] < second.stats()["model_bytes"])

    def test_checkpoints(self):
        with open_worker(self.serve().address, {"w": np.zeros(3)}) as worker:
            self.refused(["checkpoint"], worker.checkpoint, error=hocket.IOError)
        with tempfile.TemporaryDirectory() as folder:
            with serve(checkpoints=folder, checkpoint_every=1000) as server, open_worker(server.address, {"w": np.zeros(3)}, update="momentum(0.5, 0.5)") as worker:
                worker.push({"w": np.ones(3)})
                worker.clock()
                worker.pull()
                self.assertIsNone(worker.checkpoint())
                self.assertIsNone(worker.checkpoint(wait=False).wait(TIMEOUT_S))
            with serve(checkpoints=folder, restore=True) as server, open_worker(server.address, {"w": np.full(3, 9.0)}, update="momentum(0.5, 0.5)") as worker:
                self.same(worker.pull("w"), np.full(3, -0.5))  # not the first weights that it gives
                worker.push({"w": np.zeros(3)})
                worker.clock()
                self.same(worker.pull("w"), np.full(3, -0.75))  # the momentum was there, too

    def test_a_checkpoint_that_cannot_be_written(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "checkpoints")
            os.mkdir(path)
            server = serve(checkpoints=path)
            with open_worker(server.address, {"w": np.zeros(3)}, timeout=2) as worker:
                worker.clock()
                os.rename(path, path + ".gone")
                self.refused(["checkpoint"], worker.checkpoint, error=hocket.IOError)
            self.refused([path], server.close, error=hocket.IOError)
            self.assertTrue(server.closed)


if __name__ == "__main__":
    sys.exit(running.main())
