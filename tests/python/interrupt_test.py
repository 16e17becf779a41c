#!/usr/bin/python3
"""Ctrl-C ends the calls of the Python package that wait for others. Deadlines are far away here, so what waited for its own
would fail by the test's limit.

usage: interrupt_test.py HOCKET_RUN     (PYTHONPATH has the package)
"""
import _thread
import contextlib
import gc
import os
import signal
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock
import weakref

import running

running.need_package()
import numpy as np

import hocket
from hocket.interruptible import interruptible
from interrupting import interrupt_when, interrupted

RANK = os.path.join(running.HERE, "interrupting.py")
BEGINS_LATE = """
import _thread, time
import hocket
from hocket.interruptible import start_thread
start = _thread.start_new_thread
def start_late(function, arguments):
    def late():
        time.sleep(0.5)
        function(*arguments)
    return start(late, ())
_thread.start_new_thread = start_late
start_thread(lambda: print("begun", flush=True))
"""


@contextlib.contextmanager
def raising(condition, function):
    """Within it Ctrl-C comes once the condition holds, and its handler is the function."""
    before = signal.signal(signal.SIGINT, lambda *_: function())
    try:
        interrupt_when(condition)
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def is_in(function):
    """True while the main thread is in a call of it."""
    main = threading.main_thread().ident
    assert main is not None
    frame: types.FrameType | None = sys._current_frames()[main]
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame is not None


class CacheCalls(unittest.TestCase):
    def setUp(self):
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self.cache = hocket.Cache(read=self.read, dataset="d", timeout=600)
        self.addCleanup(self.cache.close)
        self.addCleanup(self.may_go_on.set)

    def read(self, key):
        self.begun.set()
        self.may_go_on.wait(600)
        return b"sample %d" % key

    def test_calls_that_get_samples(self):
        calls = [lambda: self.cache[1], lambda: self.cache.get(2), lambda: 3 in self.cache, lambda: self.cache.get_batch([4, 5]),
                 lambda: list(self.cache.batches([6, 7], 1)), lambda: self.cache.copy_batch([8]), lambda: self.cache.copy_ragged([9, 10]),
                 lambda: self.cache.get_batch([11], wait=False).wait(500)]
        for i, call in enumerate(calls):
            with self.subTest(call=i):
                self.begun.clear()
                interrupted(self.begun.is_set, call)
        self.may_go_on.set()
        self.assertEqual(bytes(self.cache[1]), b"sample 1")
        self.assertEqual(self.cache.copy_batch([8, 9]).tobytes(), b"sample 8sample 9")

    def test_an_error_of_hocket_that_a_handler_raises(self):
        """It is not the batch's own, which goes on, and comes."""
        def again():
            raise hocket.errors.invalid("what the handler has tried")

        batch = self.cache.get_batch([1], wait=False)
        with self.assertRaisesRegex(hocket.InvalidArgumentError, "the handler has tried"), raising(self.begun.is_set, again):
            batch.wait()
        self.assertTrue(batch._flight.request[0])
        self.assertTrue(self.cache._flying)
        self.assertFalse(batch.done())
        self.may_go_on.set()
        self.assertEqual(bytes(batch.wait()[0]), b"sample 1")

    def test_close_waits_for_what_is_left_and_is_interrupted_too(self):
        interrupted(self.begun.is_set, lambda: self.cache.copy_batch([1]))
        interrupted(lambda: is_in(hocket.Cache.close), self.cache.close)
        self.may_go_on.set()
        self.cache.close()
        self.assertFalse(self.cache._owned)

    def test_what_is_left_is_freed_when_it_has_come(self):
        """Neither the end of a with block waits for it, after an exception, nor the end of the cache."""
        def leave(cache):
            with cache:
                interrupted(self.begun.is_set, lambda: cache.copy_batch([1]))
                raise ZeroDivisionError

        def drop(cache):
            interrupted(self.begun.is_set, lambda: cache.copy_batch([1]))
            return cache._flying

        for end in (leave, drop):
            with self.subTest(end=end.__name__):
                self.begun.clear()
                self.may_go_on.clear()
                cache = hocket.Cache(read=self.read, dataset="d", timeout=600)
                gone = weakref.ref(cache)
                if end is leave:
                    self.assertRaises(ZeroDivisionError, leave, cache)
                    self.assertTrue(cache._owned and cache._flying)
                else:
                    self.assertTrue(drop(cache))
                del cache
                gc.collect()
                self.assertTrue((left := gone()) is not None and left._owned)
                del left
                self.may_go_on.set()
                until = time.monotonic() + 60
                while gone() is not None and time.monotonic() < until:
                    time.sleep(0.001)
                self.assertIsNone(gone())


class SharedCaches(unittest.TestCase):
    def test_one_whose_process_is_not_ready(self):
        """Ctrl-C ends the process, also while somebody has the exception, and with it all that is in the frames."""
        with tempfile.TemporaryDirectory() as folder:
            program, begun = os.path.join(folder, "program"), os.path.join(folder, "begun")
            with open(program, "w") as file:
                file.write(f"#!/bin/sh\necho $$ >{begun}.part; mv {begun}.part {begun}; exec sleep 600\n")
            os.chmod(program, 0o755)
            for dataset in ("short", "long" * 100000):  # it waits for an answer; it waits until its options are read
                with self.subTest(dataset=dataset[:5]), unittest.mock.patch.object(sys, "executable", program):
                    # Ctrl-C within Popen() comes too early: nobody could end the process.
                    interrupt_when(lambda: os.path.exists(begun) and is_in(hocket.SharedCache._open))
                    try:
                        hocket.SharedCache(read=len, dataset=dataset)
                    except KeyboardInterrupt as error:
                        kept = error
                    with open(begun) as file, self.assertRaises(ProcessLookupError):
                        os.kill(int(file.read()), 0)
                    os.remove(begun)
            del kept


class Operations(unittest.TestCase):
    def test_an_overflow_error_that_a_handler_raises(self):
        """It is not that of a number with too many bits: it is raised as it is, and the operation keeps its array."""
        def overflow():
            raise OverflowError("the handler's own")

        with hocket.init() as comm:
            x = np.zeros(1)
            with self.assertRaisesRegex(OverflowError, "^the handler's own$"), raising(lambda: comm._state.inside, overflow):
                comm.recv(x, 0)
            self.assertEqual(len(comm._state.orphans), 1)
            comm.send(np.ones(1), 0)
            until = time.monotonic() + 60
            while comm._state.orphans and time.monotonic() < until:
                comm.barrier()
            self.assertFalse(comm._state.orphans)
            self.assertEqual(x[0], 1)


class Threads(unittest.TestCase):
    def test_where_no_thread_can_be_made(self):
        with hocket.init() as comm, unittest.mock.patch.object(_thread, "start_new_thread", side_effect=RuntimeError("can't start new thread")):
            part = comm.split(0)
            assert part is not None
            self.assertEqual(part.size, 1)
            del part

    def test_a_handler_that_raises_while_the_thread_begins(self):
        """That is no sign that there can be no thread: the function is called once, and the exception is raised."""
        calls, start = [], _thread.start_new_thread

        def interrupted_start(*arguments):
            start(*arguments)
            raise RuntimeError("the handler's own")

        with unittest.mock.patch.object(_thread, "start_new_thread", interrupted_start), self.assertRaisesRegex(RuntimeError, "the handler's own"):
            interruptible(lambda: calls.append(1))
        until = time.monotonic() + 60
        while not calls and time.monotonic() < until:
            time.sleep(0.001)
        self.assertEqual(calls, [1])

    def test_a_thread_that_begins_late_begins_before_the_interpreter_ends(self):
        """Otherwise it would find its state freed."""
        code, said = running.run([sys.executable, "-c", BEGINS_LATE], 60)
        self.assertEqual((code, said.strip()), (0, "begun"))

    def test_what_is_made_for_nobody_is_dropped_while_somebody_has_the_exception(self):
        class Made:
            pass

        def make():
            made = Made()
            references.append(weakref.ref(made))
            begun.set()
            may_go_on.wait(60)
            return made

        def interrupt():
            if not is_first:
                may_go_on.set()
                while any(frame.f_code is make.__code__ for frame in sys._current_frames().values()):
                    time.sleep(0.001)
            raise KeyboardInterrupt

        for is_first in (True, False):  # it is made after the exception; before it
            begun, may_go_on = threading.Event(), threading.Event()
            references: list[weakref.ref[object]] = []
            with self.subTest(is_first=is_first), raising(begun.is_set, interrupt):
                try:
                    interruptible(make)
                except KeyboardInterrupt as error:
                    kept = error
                may_go_on.set()
                self.until_gone(references[0])
                del kept

    def test_a_cache_that_is_opened_for_nobody(self):
        opened, may_go_on, caches, real = threading.Event(), threading.Event(), [], hocket.Cache._open

        def slowly(cache, *arguments):
            caches.append(cache)
            may_go_on.wait(60)
            try:
                return real(cache, *arguments)
            finally:
                opened.set()

        with hocket.init() as comm:
            for of in (None, comm):
                with self.subTest(of=of), unittest.mock.patch.object(hocket.Cache, "_open", slowly):
                    opened.clear()
                    may_go_on.clear()
                    caches.clear()
                    interrupt_when(lambda: caches)
                    with self.assertRaises(KeyboardInterrupt):
                        hocket.Cache(read=bytes, dataset="d", comm=of)
                    may_go_on.set()
                    self.assertTrue(opened.wait(60))
                    self.assertFalse(caches[0]._owned)
            self.assertEqual(comm._state.blocks, 0)

    def until_gone(self, reference):
        until = time.monotonic() + 60
        while reference() is not None and time.monotonic() < until:
            time.sleep(0.001)
        self.assertIsNone(reference())

    def test_errors(self):
        with hocket.init() as comm, self.assertRaisesRegex(hocket.InvalidArgumentError, "rank 5|ranks"):
            comm.group([5])


class Ranks(unittest.TestCase):
    def test_calls_that_wait_for_other_ranks(self):
        for mode, parts in (("ranks", 4), ("shrinking", 1)):
            with self.subTest(mode=mode), tempfile.TemporaryDirectory() as folder:
                code, said = running.run([sys.argv[1], "-n", "2", "--timeout", "100", sys.executable, RANK, mode], 120, HOCKET_TEST_FOLDER=folder)
                self.assertEqual(code, 0, said)
                self.assertEqual(said.count("right: "), 2 * parts, said)


class Programs(unittest.TestCase):
    """Nobody catches it: then the program ends."""

    def test_nobody_comes(self):
        for mode in ("init", "grow", "cache", "awaiting"):
            with self.subTest(mode=mode):
                code, said = running.run([sys.executable, RANK, mode], 100, HOCKET_TEST_PORT=running.free_port())
                self.assertEqual(code, -signal.SIGINT, said)
                self.assertIn("KeyboardInterrupt", said)


if __name__ == "__main__":
    sys.exit(running.main())
