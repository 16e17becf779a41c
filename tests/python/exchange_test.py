#!/usr/bin/python3
"""Communicator.overlap(): gradients that are exchanged while others are computed.

usage: exchange_test.py HOCKET_RUN     (PYTHONPATH has the package)
"""
import gc
import os
import signal
import sys
import tempfile
import time
import unittest
import weakref

import running

running.need_package()
import numpy as np

import hocket
from alone import Alone
from hocket.overlap import Layer, Profile, Stats

RANK = os.path.join(running.HERE, "exchange_rank.py")


def layers(memory=np.ones):
    return [("a", [memory(3, np.float32)]), ("b", []), ("c", [memory(5, np.float32), memory((2, 2), np.float32)])]


def iterate(exchange, count=3):
    exchange.begin_backward()
    for layer in reversed(range(count)):
        exchange.backward(layer)
    exchange.finish()


class Exchanges(Alone):
    def test_what_it_says(self):
        with self.comm.overlap(layers(), measure=3) as exchange:
            self.assertEqual(exchange.stats, Stats(0, 0, 3, 0, 0, 0, 0, 0))
            self.assertEqual(exchange.batches, [range(0, 1), range(1, 2), range(2, 3)])  # each layer by itself, at first
            self.assertIn("3 layers", repr(exchange))
            self.refused(["there is no profile yet"], lambda: exchange.profile)
            for _ in range(4):
                iterate(exchange)
            self.assertEqual(exchange.stats[:2], (4, 1))
            self.assertEqual([(layer.name, layer.bytes) for layer in exchange.profile.layers], [("a", 12), ("b", 0), ("c", 36)])
        self.assertIn("closed", repr(exchange))
        exchange.close()
        for call in (lambda: exchange.stats, lambda: exchange.batches, lambda: exchange.profile, exchange.begin_backward, exchange.finish):
            self.refused(["the exchange is closed"], call)

    def test_a_profile_is_passed_on(self):
        profile = Profile(0.5, [Layer("x", 1, 2, 12), Layer("y", 0, 0.1, 0), Layer("z", 2, 3, 36)], before=4, latency=0.75, contention=0.5)
        exchange = self.comm.overlap(layers(), method="layers", profile=profile)
        self.assertEqual(exchange.profile, profile)
        self.assertEqual((exchange.stats.plans, len(exchange.batches)), (1, 3))
        # before + (latency - startup) + W: c computes, then moves while the others compute, and a moves at the end
        self.assertGreater(exchange.stats.predicted_seconds, 4 + 0.25 + 3 + 2.5)
        self.refused(["the profile has 1 layers, and the model 3"], self.comm.overlap, layers(), profile=Profile(1, [Layer("x", 1, 1, 12)]))
        self.refused(["hocket.overlap.Profile"], self.comm.overlap, layers(), profile=profile.to_json())

    def test_refused(self):
        opened, x = self.comm.overlap, np.ones(4, np.float32)
        still = x.copy()
        still.flags.writeable = False
        for wrong, words in (([("a", x)], ["layers[0] is ('a', array(", "a list of arrays"]), ([x], ["layers[0] is array("]), (["ab"], ["layers[0] is 'ab'"]),
                             ([("a", [x[::2]])], ["layers[0]: array 0 has gaps"]), ([("a", [x]), ("b", [x, still])], ["layers[1]: array 1 is read-only"]),
                             ([("a", ["text"])], ["layers[0]: array 0 is of type builtins.str"]), ([("a\nb", [x])], ["layers[0]: the name is", "one line"]),
                             ([(7, [x])], ["layers[0]: the name is 7"]), ([("a", [x, np.ones(3)])], ["tensors[1] is of float64, and tensors[0] of float32"]),
                             ([("a", [x]), ("b", [x])], ["overlap: memory that is written"]), ([], ["no tensors given"]), ([("a", [])], ["no tensors given"])):
            with self.subTest(wrong=wrong):
                self.refused(words, opened, wrong)
        cases: tuple[tuple[dict[str, object], list[str]], ...] = (
            ({"method": "best"}, ["'best' is not one of", "optimum"]), ({"op": "mean"}, ["'mean'", "average"]),
            ({"measure": 2}, ["measure is 2; it must be 3 or more"]), ({"look_every": -2}, ["look_every is -2"]),
            ({"measure": "many"}, ["measure is 'many'"]), ({"limit_bytes": -1}, ["limit_bytes is -1"]),
            ({"op": "bxor"}, ["bxor"]), ({"schedule": "lars", "op": "sum"}, ["hkt_plan_create"]))
        for options, words in cases:
            with self.subTest(options=options):
                self.refused(words, opened, layers(), **options)
        with self.assertRaises(hocket.NotFoundError):
            opened(layers(), schedule="rnig")
        self.assertFalse(self.comm._state.exchanges)

    def test_out_of_turn(self):
        exchange = self.comm.overlap(layers())
        self.refused(["the backward pass has not begun"], exchange.backward, 2)
        self.refused(["the backward pass has not begun"], exchange.finish)
        self.refused(["layer 3 does not exist: the model has 3"], exchange.forward, 3)
        self.refused(["-1 is out of range", "hkt_overlap_forward"], exchange.forward, -1)
        exchange.begin_backward()
        self.refused(["has already begun"], exchange.begin_backward)
        self.refused(["layer 0 are out of turn: those of layer 2"], exchange.backward, 0)
        exchange.backward(2)
        self.refused(["layers 0 to 1 are missing"], exchange.finish)
        for layer in (1, 0):
            exchange.backward(layer)
        exchange.finish()  # as if nothing had been refused
        self.assertEqual(exchange.stats.iterations, 1)

    def test_numbers_of_any_memory(self):
        memory = np.arange(4, dtype=np.int64)
        exchange = self.comm.overlap([("m", [memoryview(bytearray(8)).cast("q"), hocket.Memory(memory.ctypes.data, 4, hocket.TYPES["int64"], memory)])], op="sum")
        iterate(exchange, 1)
        self.assertEqual(memory.tolist(), [0, 1, 2, 3])

    @unittest.skipUnless(running.has("torch"), "Python's torch is not installed (Debian: python3-torch)")
    def test_gradients_of_torch(self):
        import torch
        model = torch.nn.Linear(3, 2)
        model(torch.ones(1, 3)).sum().backward()
        iterate(self.comm.overlap([("linear", [parameter.grad for parameter in model.parameters()])]), 1)
        self.assertTrue(torch.equal(model.bias.grad, torch.ones(2)))


class Lifetime(Alone):
    def test_arrays_live_as_long_as_it_is_open(self):
        for end in ("close", "drop"):
            with self.subTest(end=end):
                given = layers()
                alive = weakref.ref(given[2][1][0])
                exchange = self.comm.overlap(given)
                del given
                gc.collect()
                self.assertIsNotNone(alive())
                iterate(exchange)
                if end == "close":
                    exchange.close()
                else:
                    del exchange
                gc.collect()
                self.assertIsNone(alive())
                self.assertFalse(self.comm._state.exchanges)

    def until_gone(self, reference):
        until = time.monotonic() + 60
        while reference() is not None and time.monotonic() < until:
            time.sleep(0.001)
        self.assertIsNone(reference())

    def test_one_that_is_left_in_an_iteration(self):
        for end in ("drop", "exception", "drop and close"):
            with self.subTest(end=end), hocket.init() as comm:
                given = layers()
                alive = weakref.ref(given[0][1][0])
                with self.assertRaises(ZeroDivisionError), comm.overlap(given) as exchange:
                    exchange.begin_backward()
                    exchange.backward(2)
                    if end == "exception":
                        raise ZeroDivisionError
                    del exchange
                    if end == "drop and close":
                        comm.close()
                    raise ZeroDivisionError
                del given
                self.until_gone(alive)
                self.assertFalse(comm._state.exchanges)

    def test_its_communicator_is_closed_first(self):
        for memory in (np.ones, self.comm.empty):
            with self.subTest(memory=memory.__name__), hocket.init() as comm:
                given = layers(memory if memory is np.ones else comm.empty)
                exchange = comm.overlap(given)
                exchange.begin_backward()
                exchange.backward(2)
                comm.close()
                with self.assertRaisesRegex(hocket.AbortedError, "the communicator is closed"):
                    exchange.backward(1)
                self.assertFalse(comm._state.exchanges)
                exchange.close()
                self.assertEqual(bool(comm._state.owned), memory is not np.ones)  # of shared memory, the arrays are still there
                del given, exchange
                gc.collect()
                self.assertFalse(comm._state.owned)

    def test_one_that_was_closed_is_nothing_to_others(self):
        for _ in range(50):
            before = self.comm.overlap(layers())
            before.close()
            now = self.comm.overlap(layers())
            del before
            iterate(now)

    def test_handlers_that_raise_anywhere(self):
        """Whatever an exception comes between, a call is refused or taken, and nothing is used after it was freed."""
        class Interrupted(Exception):
            pass

        def interrupt(*_):
            raise Interrupted

        ignored, rounds = [], []
        self.addCleanup(setattr, sys, "unraisablehook", sys.unraisablehook)
        sys.unraisablehook = lambda it: ignored.append(it.exc_type)
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, interrupt))
        exchange = self.comm.overlap(layers())
        for i in range(200):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002 + i % 37 * 0.00005)
                try:
                    for _ in range(100):
                        iterate(exchange)
                        rounds.append(exchange.stats.iterations)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                exchange = self.comm.overlap(layers())
        self.assertTrue(rounds)
        self.assertLessEqual(set(ignored), {Interrupted})
        iterate(exchange)
        self.comm.close()

    def test_all_is_dropped_at_once(self):
        comm = hocket.init()
        exchange = comm.overlap(layers(comm.empty))
        exchange.begin_backward()
        exchange.backward(2)
        state = weakref.ref(comm._state)
        del comm, exchange
        self.until_gone(state)

    def test_a_handler_of_a_signal(self):
        """It sees that its thread is in a call, whichever step that is at."""
        exchange, said = self.comm.overlap(layers()), []

        def ask(*_):
            try:
                exchange.stats
            except hocket.InvalidArgumentError as error:
                said.append(str(error))

        def stop_at_call(frame, event, _):
            if frame.f_code is hocket.state.State.call.__code__ and event == "call":
                sys.settrace(None)
                os.kill(os.getpid(), signal.SIGUSR1)

        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, ask))
        self.addCleanup(sys.settrace, None)
        sys.settrace(stop_at_call)
        exchange.begin_backward()
        sys.settrace(None)
        self.assertEqual(len(said), 1)
        self.assertIn("handler of a signal", said[0])
        exchange.backward(2)  # nothing was changed

    def test_a_forked_child(self):
        code, said = running.run([sys.executable, "-c", """
import hocket, numpy as np, os, sys
comm = hocket.init()
x = np.full(9, 3, np.float32)
exchange = comm.overlap([("a", [x]), ("b", [np.ones(9, np.float32)])])
exchange.begin_backward()
exchange.backward(1)
child = os.fork()
if child == 0:
    for call in (lambda: exchange.backward(0), exchange.finish, lambda: exchange.stats):
        try:
            call()
            sys.exit(1)
        except hocket.InvalidArgumentError as error:
            assert "fork" in str(error), error
    exchange.close()
    comm.close()
    with hocket.init(rank=0, world_size=1) as own:
        own.overlap([("a", [x])])
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
exchange.backward(0)
exchange.finish()
print("the parent's:", x[0])
"""], 60)
        self.assertEqual(code, 0, said)
        self.assertIn("the parent's: 3.0", said)

    def test_the_interpreter_ends_in_an_iteration(self):
        code, said = running.run([sys.executable, "-c", """
import hocket, numpy as np
comm = hocket.init()
exchange = comm.overlap([("a", [np.ones(9, np.float32)]), ("b", [np.ones(9, np.float32)])])
exchange.begin_backward()
exchange.backward(1)
"""], 60)
        self.assertEqual((code, said), (0, ""))


class Ranks(unittest.TestCase):
    def run_ranks(self, ranks, parts, right, **environment):
        with tempfile.TemporaryDirectory() as folder:
            code, said = running.run([sys.argv[1], "-n", str(ranks), "--timeout", "100", sys.executable, RANK, *parts], 120,
                                     HOCKET_TEST_FOLDER=folder, **environment)
        self.assertEqual(said.count("right: "), right, said)
        return code, said

    def test_ranks(self):
        parts = ["averages", "operators", "profiles"]
        runs: tuple[tuple[int, str, list[str]], ...] = (
            (2, "", ["refusals", "ends_in_an_iteration", "interrupts", "threads", "closing"]), (3, "tcp", []))
        for ranks, provider, more in runs:
            with self.subTest(ranks=ranks, provider=provider):
                code, said = self.run_ranks(ranks, parts + more, ranks * (len(parts) + len(more)), HOCKET_PROVIDER_FOR_ALL=provider)
                self.assertEqual(code, 0, said)

    def test_a_rank_is_lost(self):
        self.run_ranks(3, ["lost"], 2)


if __name__ == "__main__":
    sys.exit(running.main())
