#!/usr/bin/python3
"""hocket.params with workers that wait for each other: requests, staleness, deadlines, Ctrl-C, close().

usage: params_requests_test.py HOCKET_RUN     (PYTHONPATH has the package)
"""
import asyncio
import gc
import sys
import threading
import time
import weakref
from unittest import mock

import running

running.need_package()
import numpy as np
from hocket._native import lib

import hocket
import hocket.params as params
from hocket.state import Handle
from interrupting import interrupt_when, interrupted
from serving import TIMEOUT_S, TestCase, model, open_worker


class Two(TestCase):
    """Two workers, of which one does not push until it is told to."""

    def test_a_request_waits_for_the_other_worker(self):
        first, second = self.workers([model(), model()])
        first.push({"b": np.ones(4)})
        first.clock()
        out = np.zeros(4)
        request = first.pull("b", out, wait=False)
        self.assertFalse(request.done())
        self.assertIn("in flight", repr(request))
        with self.assertRaises(hocket.InProgressError) as caught:
            request.wait(0.05)
        self.assertIsInstance(caught.exception, TimeoutError)
        self.refused(["timeout"], request.wait, -1)
        self.refused(["calls nobody"], request.add_done_callback, print)
        second.push({"b": np.full(4, 2.0)})
        second.clock()
        self.assertIs(request.wait(TIMEOUT_S), out)
        self.assertIs(request.wait(), out)
        self.assertTrue(request.done())
        self.same(out, np.full(4, 3.0))

    def test_of_tensors_that_do_not_follow_each_other(self):
        first, second = self.workers([model(), model()])
        first.clock()
        request = first.pull(["d", "a"], wait=False)
        self.assertRaises(hocket.InProgressError, request.wait, 0.05)
        second.push({"d": np.full(1, 1, np.float32), "a": np.ones(6, np.float32)})
        second.clock()
        got = request.wait(TIMEOUT_S)
        self.assertEqual((list(got), got["d"][()]), (["d", "a"], 3))
        self.same(got["a"], model()["a"] + 1)

    def test_awaiting(self):
        first, second = self.workers([model(), model()])
        first.clock()

        async def work():
            request = first.pull("b", wait=False)
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(self.wrapped(request), 0.1)
            self.assertFalse(request.done())
            both = asyncio.gather(self.wrapped(request), self.wrapped(second.push({"b": np.ones(4)}, wait=False)))
            second.clock()
            return (await both)[0]

        self.same(asyncio.run(work()), np.ones(4))

    @staticmethod
    async def wrapped(request):
        return await request

    def test_arrays_live_until_the_pull_has_ended(self):
        first, second = self.workers([model(), model()])
        first.clock()
        out = np.zeros(4)
        alive = weakref.ref(out)
        request = first.pull("b", out, wait=False)
        del out, request
        gc.collect()
        self.assertIsNotNone(alive())
        second.clock()
        first.pull("b")
        self.eventually(lambda: (first.pull("c"), gc.collect(), alive() is None)[-1])  # a later start releases ended requests

    def test_arrays_of_a_request_that_is_dropped_while_the_worker_closes(self):
        first, second = self.workers([model(), model()])
        first.clock()
        out = np.zeros(4)
        alive, closing = weakref.ref(out), threading.Thread(target=first.close)
        request = first.pull("b", out, wait=False)
        del out
        closing.start()  # it waits for the other worker, up to 2 s
        self.eventually(lambda: first.closed)
        del request
        gc.collect()
        was_alive = alive() is not None
        was_freed = not first._handle.owned  # asked later: it is freed before the arrays are
        second.close()
        closing.join(TIMEOUT_S)
        self.assertTrue(was_alive or was_freed)
        gc.collect()
        self.assertIsNone(alive())

    def test_arrays_of_a_request_that_is_asked_while_the_worker_closes(self):
        """It has ended for the program, but C may still write to them."""
        first, second = self.workers([model(), model()])
        first.clock()
        out = np.zeros(4)
        alive, closing = weakref.ref(out), threading.Thread(target=first.close)
        request = first.pull("b", out, wait=False)
        closing.start()  # it waits for the other worker, up to 2 s
        self.eventually(lambda: first.closed)
        self.assertTrue(request.done())
        self.refused(["closed"], request.wait, error=hocket.AbortedError)
        request._result = None
        del out  # a result that the program has dropped
        gc.collect()
        was_alive = alive() is not None
        was_freed = not first._handle.owned  # asked later: it is freed before the arrays are
        second.close()
        closing.join(TIMEOUT_S)
        self.assertTrue(was_alive or was_freed)
        gc.collect()
        self.assertIsNone(alive())

    def test_staleness(self):
        first, second = self.workers([model(), model()], staleness=2)
        for round in (1, 2):  # the other's round 0 is not needed
            first.push({"b": np.ones(4)})
            self.assertEqual(first.clock(), round)
            self.same(first.pull("b"), np.zeros(4))
        self.refused(["staleness 3"], first.pull, staleness=3)
        request = first.pull("b", np.zeros(4), staleness=1, wait=False)
        self.assertRaises(hocket.InProgressError, request.wait, 0.05)
        first.clock()
        late = first.pull("b", np.zeros(4), wait=False)
        self.assertRaises(hocket.InProgressError, late.wait, 0.05)
        second.push({"b": np.full(4, 10.0)})
        second.clock()
        self.same(request.wait(TIMEOUT_S), np.full(4, 11.0))
        self.same(late.wait(TIMEOUT_S), np.full(4, 11.0))

    def test_unbounded(self):
        first, second = self.workers([model(), model()], staleness=params.UNBOUNDED)
        for round in range(5):
            first.push({"b": np.ones(4)})
            first.clock()
            self.same(first.pull("b"), np.full(4, round + 1.0))  # its own updates are among them, independent of the other worker
        second.push({"b": np.full(4, 10.0)})
        second.clock()
        self.same(second.pull("b", staleness=params.UNBOUNDED), np.full(4, 15.0))
        self.eventually(lambda: first.pull("b")[0] == 15)

    def test_a_timeout_breaks_nothing(self):
        first, second = self.workers([model(), model()], timeout=3)
        first.push({"b": np.ones(4)})
        first.clock()
        self.refused(["another worker"], first.pull, error=hocket.TimeoutError)
        second.clock()
        self.eventually(lambda: second.pull("b")[0] == 1)
        self.same(first.pull("b"), np.ones(4))

    def test_no_room(self):
        """A worker that is far ahead waits in push() or clock(), and goes on later."""
        first, second = self.workers([model(), model()], timeout=3)
        pushes = 0
        with self.assertRaises(hocket.TimeoutError):
            for pushes in range(1000):
                first.push({"b": np.ones(4)})
                first.clock()
        self.refused(["'b' was pushed"], first.push, {"b": np.ones(4)})  # also after the error
        self.assertRaises(hocket.TimeoutError, first.clock)
        round = first.stats().round
        self.assertEqual(round, pushes)
        for _ in range(round):
            second.clock()
        self.eventually(lambda: second.pull("b")[0] == round)
        self.assertEqual(first.clock(), round + 1)
        second.clock()
        self.same(first.pull("b"), np.full(4, round + 1.0))

    def test_closing_beside_a_wait(self):
        first, second = self.workers([model(), model()])
        first.clock()
        errors, begun = [], threading.Event()

        def wait(request):
            begun.set()
            try:
                request.wait()
            except hocket.AbortedError as error:
                errors.append(str(error))

        thread = threading.Thread(target=wait, args=[first.pull("b", wait=False)])
        thread.start()
        begun.wait(TIMEOUT_S)
        first.close()
        thread.join(TIMEOUT_S)
        self.assertEqual(len(errors), 1)
        self.assertIn("closed", errors[0])
        second.push({"b": np.ones(4)})
        second.clock()
        self.same(second.pull("b"), np.ones(4))  # it goes on alone


class Interrupted(TestCase):
    """The deadline is 60 s and more away; waits that were not ended would fail by the test's limit."""

    def test_waits_of_a_worker(self):
        first, second = self.workers([model(), model()], timeout=600)
        first.clock()
        request = first.pull("b", np.zeros(4), wait=False)
        for call in (lambda: first.pull("a"), request.wait, lambda: request.wait(500), lambda: asyncio.run(Two.wrapped(request))):
            interrupted(lambda: first._handle.inside, call)
            self.assertFalse(request.done())
        second.clock()
        self.same(request.wait(TIMEOUT_S), np.zeros(4))

    def test_a_worker_that_is_too_far_ahead(self):
        for gradients in ({"b": np.ones(4)}, {}):  # it waits for its pushes, which Ctrl-C ends without a thread; it has none
            first, second = self.workers([model(), model()], timeout=600)
            with self.subTest(gradients=gradients):
                self.until_interrupted(first, lambda: (first.push(gradients), first.clock()))
                interrupted(lambda: first._handle.inside, first.clock)
                for _ in range(first.stats().round):
                    second.clock()
                self.eventually(lambda: second.pull("b")[0] > 0 or not gradients)

    def test_a_clock_that_is_called_again_ends_no_second_round(self):
        """The first call goes on in a thread, and ends its round when there is room."""
        first, second = self.workers([model(), model()], timeout=600)
        self.until_interrupted(first, first.clock)
        round = first.stats().round
        self.refused(["call clock() again"], first.push, {"b": np.ones(4)})
        interrupted(lambda: len(first._handle.inside) > 0, first.clock)
        for _ in range(round):
            second.clock()
        self.assertEqual(first.clock(), round + 1)
        self.eventually(lambda: not first._handle.inside)
        self.assertEqual(first.stats().round, round + 1)
        second.clock()
        self.assertEqual(first.clock(), round + 2)

    def test_a_clock_whose_round_ends_after_it_was_left(self):
        """Later pushes belong to the next round, which the next clock() ends."""
        first, second = self.workers([model(), model()], timeout=600)
        self.until_interrupted(first, first.clock)
        round = first.stats().round
        for _ in range(round + 1):
            second.clock()
        self.eventually(lambda: first.stats().round == round + 1)
        first.push({"b": np.ones(4)})
        self.assertEqual(first.clock(), round + 2)
        second.clock()
        self.same(first.pull("b"), np.ones(4))

    def test_after_the_call_of_c(self):
        """The effect of a call in C is recorded even if Ctrl-C comes before the call has returned."""
        worker = self.workers([model()])[0]
        call, ones = Handle.call, np.ones(4)

        def left(function, method, *arguments):
            def stop(handle, called, *rest, **named):
                status = call(handle, called, *rest, **named)
                if called is function:
                    raise KeyboardInterrupt
                return status

            with mock.patch.object(Handle, "call", stop):
                self.assertRaises(KeyboardInterrupt, method, *arguments)

        left(lib.hkt_params_push, worker.push, {"b": ones})
        self.refused(["'b' was pushed in this round"], worker.push, {"b": ones})
        indices, values = np.arange(2, dtype=np.uint32), np.ones(2, np.float32)
        left(lib.hkt_params_push_sparse, worker.push_sparse, "a", indices, values)
        self.refused(["'a' was pushed in this round"], worker.push_sparse, "a", indices, values)
        left(lib.hkt_params_clock, worker.clock)
        self.assertEqual(worker.clock(), 1)
        worker.push({"b": ones})
        left(lib.hkt_params_clock, worker.clock)
        worker.push({"b": ones})  # in the next round
        self.assertEqual(worker.clock(), 3)
        self.same(worker.pull("b"), np.full(4, 3.0))

    def until_interrupted(self, worker, call):
        """Calls, until Ctrl-C comes. It comes once the worker has ended no round for half a second: then it waits for room."""
        round, since = -1, 0.0

        def is_waiting():
            nonlocal round, since
            have = worker.stats().round
            if have != round:
                round, since = have, time.monotonic()
            return time.monotonic() > since + 0.5

        with self.assertRaises(KeyboardInterrupt):
            interrupt_when(is_waiting)
            while True:
                call()

    def test_opening_and_closing(self):
        server = self.serve()

        def is_opening():
            return any(frame.f_code.co_name == "join" and "params" in frame.f_code.co_filename for frame in sys._current_frames().values())

        interrupted(is_opening, lambda: open_worker(server.address, {"w": np.zeros(3)}, workers=2, timeout=600))
        first, second = self.workers([model(), model()], timeout=600)
        first.push({"b": np.ones(4)})
        first.clock()

        is_closing, may_go_on, close = threading.Event(), threading.Event(), first._handle._close

        def close_late(handle):
            is_closing.set()
            close(handle)  # it waits for the other one, for 2 s: perhaps not until Ctrl-C comes
            may_go_on.wait(TIMEOUT_S)

        first._handle._close = close_late
        interrupted(is_closing.is_set, first.close)
        self.assertTrue(first.closed)
        may_go_on.set()
        second.close()
        self.eventually(lambda: not first._handle.owned)

    def test_a_server(self):
        server = self.serve()
        interrupted(lambda: server._handle.inside, server.wait)
        self.assertFalse(server.wait(0))
        self.assertFalse(server.wait(0.1))


if __name__ == "__main__":
    sys.exit(running.main())
