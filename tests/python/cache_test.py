#!/usr/bin/python3
"""The data cache in Python: a mapping, batches, and a cache that processes share. tests/torch/data_test.py has PyTorch's loaders.

usage: cache_test.py HOCKET_RUN     (PYTHONPATH has the package)
"""
import asyncio
import gc
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest
import unittest.mock
import weakref
from collections.abc import Iterable
from typing import Any

import running

running.need_package()
import numpy as np

import cache_samples
import hocket
from sample_files import BYTES, COUNT, WithFiles, sample


def check_out(case, cache):
    """copy_batch into what can be written to, and the words for what cannot."""
    want = sample(1).tobytes() + sample(2).tobytes()
    outs: tuple[bytearray | np.ndarray, ...] = (
        bytearray(2 * BYTES), np.zeros((2, BYTES // 8), "M8[s]"), np.zeros((2, BYTES // 8), np.complex64))
    for out in outs:
        case.assertIs(cache.copy_batch([1, 2], out), out)
        case.assertEqual(bytes(out) if isinstance(out, bytearray) else out.tobytes(), want)
    gaps = np.zeros((2, 2 * BYTES), np.uint8)
    read_only = np.zeros((2, BYTES), np.uint8)
    read_only.flags.writeable = False
    for wrong, text in ((gaps[:, :BYTES], "gaps.*pass an array"), (memoryview(gaps[0])[::2], "gaps"),
                      (np.zeros((2, BYTES), np.uint8, order="F"), "order"), (read_only, "read-only"), (bytes(2 * BYTES), "read-only"),
                      (np.zeros((2, BYTES // 8), object), "objects"), (5, "pass a NumPy array"), ([0] * 2000, "pass a NumPy array")):
        with case.assertRaisesRegex(hocket.InvalidArgumentError, text):
            cache.copy_batch([1, 2], wrong)
    case.assertFalse(gaps.any())
    with case.assertRaisesRegex(hocket.InvalidArgumentError, "out has 1999 bytes"):
        cache.copy_batch([1, 2], bytearray(2 * BYTES - 1))


class handler:
    """Calls function in a handler of a signal, when the event is set. error, took: what came of it, and seconds."""

    def __init__(self, function, event):
        self.function, self.event, self.error, self.took = function, event, None, None

    def __enter__(self):
        self.old = signal.signal(signal.SIGUSR1, self.run)
        self.thread = threading.Thread(target=self.send)
        self.thread.start()
        return self

    def send(self):
        self.event.wait(30)
        os.kill(os.getpid(), signal.SIGUSR1)

    def run(self, *_):
        begin = time.monotonic()
        try:
            self.function()
        except Exception as error:
            self.error = error
        self.took = time.monotonic() - begin

    def __exit__(self, *_):
        self.thread.join()
        signal.signal(signal.SIGUSR1, self.old)


def wait_for(condition, event):
    """In a thread: sets the event once the condition holds."""
    def run():
        while not condition():
            time.sleep(0.001)
        event.set()

    threading.Thread(target=run, daemon=True).start()


class Mapping(WithFiles):
    def setUp(self):
        self.cache = hocket.Cache(self.source, memory="16MiB")
        self.addCleanup(self.cache.close)

    def until_nothing_is_lent(self, cache):
        """Waits until a later call has returned the samples that were dropped in flight."""
        gc.collect()
        until = time.monotonic() + 30
        while (cache.stats()["memory_lent"] or cache._flying) and time.monotonic() < until:
            time.sleep(0.001)
        self.assertEqual(cache.stats()["memory_lent"], 0)
        self.assertFalse(cache._loans or cache._flying or cache._left)

    def test_it_is_one(self):
        cache = self.cache
        self.assertEqual(len(cache), COUNT)
        self.assertEqual(list(cache), list(range(COUNT)))
        self.assertIn(5, cache)
        self.assertNotIn(COUNT, cache)
        self.assertNotIn("5", cache)
        self.assertEqual(cache[7].tolist(), sample(7).tolist())
        self.assertEqual(sum(len(value) for value in cache.values()), COUNT * BYTES)
        for wrong in (COUNT, -1, 1 << 63):
            self.assertNotIn(wrong, cache)
            self.assertEqual(cache.get(wrong, "none"), "none")
            for call in (lambda: cache[wrong], lambda: cache.copy_batch([wrong])):
                with self.assertRaisesRegex(hocket.NotFoundError, f"^there is no sample {wrong}") as caught:
                    call()
                self.assertIsInstance(caught.exception, KeyError)
        self.assertNotIn(1 << 70, cache)
        self.assertRaises(hocket.InvalidArgumentError, cache.__getitem__, "seven")
        self.assertEqual(cache.find("00007"), 7)
        with self.assertRaisesRegex(hocket.NotFoundError, "no_such_file"):
            cache.find("no_such_file")

    def test_samples_are_lent_and_read_only(self):
        kept = self.cache[3]
        with self.assertRaises(ValueError):
            kept[0] = 1
        part = kept[10:20].view(np.uint16)
        del kept
        self.assertNotEqual(self.cache.stats()["memory_lent"], 0)
        self.cache.close()  # the memory goes with the last array
        self.assertEqual(part.tolist(), sample(3)[10:20].view(np.uint16).tolist())
        self.assertTrue(self.cache._owned)
        del part
        self.assertFalse(self.cache._owned)
        with self.assertRaisesRegex(hocket.AbortedError, "closed"):
            self.cache[3]

    def test_batches(self):
        keys = [5, 3, 5, 199]
        want = np.stack([sample(key) for key in keys])
        ways: tuple[Iterable[int] | np.ndarray, ...] = (keys, tuple(keys), np.array(keys), np.array(keys, np.uint8), iter(keys))
        for given in ways:
            self.assertTrue(np.array_equal(self.cache.copy_batch(given), want))
        self.assertTrue(np.array_equal(self.cache.get_batch(keys), want))
        out = np.zeros((4, BYTES // 4), np.float32)
        self.assertIs(self.cache.copy_batch(keys, out), out)
        self.assertEqual(out.tobytes(), want.tobytes())
        for wrong in (np.zeros(4 * BYTES - 1, np.uint8), np.zeros(4 * BYTES + 1, np.uint8)):
            with self.assertRaisesRegex(hocket.InvalidArgumentError, "4000"):
                self.cache.copy_batch(keys, wrong)
        self.assertRaises(hocket.InvalidArgumentError, self.cache.copy_batch, [[1, 2], [3, 4]])
        for halves in ([0.5], iter([0.5]), (key / 2 for key in range(4))):
            self.assertRaisesRegex(hocket.InvalidArgumentError, "whole numbers", self.cache.copy_batch, halves)
        with self.assertRaisesRegex(hocket.InvalidArgumentError, f"0 to {(1 << 64) - 1}"):
            self.cache.put(1 << 64, b"sample")
        self.assertEqual(self.cache.copy_batch([]).shape, (0, 0))
        self.assertEqual(self.cache.stats()["memory_lent"], 0)
        with self.assertRaises(hocket.NotFoundError):
            self.cache.copy_batch([1, COUNT])

    def test_what_is_copied_into(self):
        check_out(self, self.cache)

    def test_batches_that_come_by_themselves(self):
        batch = self.cache.get_batch([1, 2], wait=False)
        self.assertEqual(batch.wait(30)[1].tolist(), sample(2).tolist())
        self.assertTrue(batch.done())

        async def awaited():
            return await self.cache.get_batch([3], wait=False)

        self.assertEqual(asyncio.run(awaited())[0].tolist(), sample(3).tolist())
        self.cache.get_batch(range(100), wait=False)  # dropped
        del batch
        self.until_nothing_is_lent(self.cache)
        failed = self.cache.get_batch([COUNT], wait=False)
        for _ in range(2):
            with self.assertRaises(hocket.NotFoundError):
                failed.wait(30)

    def test_an_exception_while_samples_become_arrays(self):
        places = [(np, "asarray"), (hocket.batch, "Loan"), (self.cache, "_free_if_unused")]
        for place, name in places:
            for after in (0, 1, 4):
                if name == "_free_if_unused" and after:
                    continue
                function, calls = getattr(place, name), []

                def interrupted(*arguments):
                    calls.append(1)
                    if len(calls) == after + 1:
                        raise KeyboardInterrupt
                    return function(*arguments)

                for again in (True, False):
                    batch = self.cache.get_batch(range(10), wait=False)
                    with self.subTest(place=name, after=after, again=again):
                        calls.clear()
                        with unittest.mock.patch.object(place, name, interrupted), self.assertRaises(KeyboardInterrupt):
                            batch.wait(30)
                        if again:
                            self.assertTrue(np.array_equal(batch.wait(30), [sample(key) for key in range(10)]))
                        batch = None
                        self.until_nothing_is_lent(self.cache)

    def test_an_iterator(self):
        found = list(self.cache.batches(range(10), 4))
        self.assertEqual([len(batch) for batch in found], [4, 4, 2])
        self.assertEqual(found[2][1].tolist(), sample(9).tolist())
        for batch in self.cache.batches(range(100), 7):
            break  # batches on their way are given up
        del found, batch
        self.until_nothing_is_lent(self.cache)
        with self.assertRaises(hocket.NotFoundError):
            list(self.cache.batches([1, 2, COUNT], 2))

    def test_order(self):
        self.cache.set_order(range(10), 4)
        self.assertEqual(self.cache.cursor, 4)
        self.cache.copy_batch([4, 5])
        self.assertEqual(self.cache.cursor, 6)
        self.cache.prefetch([50, 51])

    def test_ragged(self):
        with tempfile.TemporaryDirectory() as source:
            for key in range(5):
                sample(key, 10000 * key).tofile(f"{source}/{key}")
            with hocket.Cache(source, memory="16MiB") as cache:
                data, offsets = cache.copy_ragged(range(5))
                for key in range(5):
                    self.assertEqual(data[int(offsets[key]):int(offsets[key + 1])].tobytes(), sample(key, 10000 * key).tobytes())
                with self.assertRaisesRegex(hocket.InvalidArgumentError, "sample 1 has 10000 bytes, and sample 2 has 20000"):
                    cache.copy_batch([1, 2])
                self.assertEqual(len(cache[0]), 0)

    def test_functions(self):
        def read(key):
            if key > 5:
                raise KeyError(key)
            return b"sample %d" % key

        def decode(key, encoded):
            if key == 3:
                raise ValueError("three is broken")
            return np.frombuffer(encoded, np.uint8).astype(np.int32)

        with hocket.Cache(read=read, dataset="d", decode=decode, decoder="to int32", memory="1MiB") as cache:
            self.assertEqual(bytes(cache[2].view(np.int32).astype(np.uint8)), b"sample 2")
            with self.assertRaises(hocket.NotFoundError) as caught:
                cache[6]
            self.assertIsInstance(caught.exception.__cause__, KeyError)
            with self.assertRaises(hocket.IOError) as caught:
                cache[3]
            self.assertEqual(str(caught.exception.__cause__), "three is broken")
            with self.assertRaises(hocket.NotFoundError) as caught:
                cache.copy_batch([2, 7])
            self.assertIsInstance(caught.exception.__cause__, KeyError)

    def test_a_cache_that_reads_another_of_its_folder(self):
        """A load of one dataset reads the sample with the same key of another, which nobody has loaded."""
        with tempfile.TemporaryDirectory() as disk:
            with hocket.Cache(self.source, folder=disk, disk="64MiB", memory="16MiB", timeout=20) as raw, \
                    hocket.Cache(read=lambda key: bytes(raw[key])[::-1], dataset="turned", folder=disk, disk="64MiB", timeout=20) as turned:
                for keys in (range(5, 10), range(20)):
                    for key in keys:
                        self.assertEqual(turned[key].tobytes(), sample(key).tobytes()[::-1])
                self.assertEqual(turned.copy_batch(range(30, 60))[7].tobytes(), sample(37).tobytes()[::-1])

    def test_an_owner_that_cannot_be_asked(self):
        """It alone knows if a sample has been put, so nobody says that it has not."""
        with socket.create_server(("127.0.0.1", 0)) as closed:
            address = f"127.0.0.1:{closed.getsockname()[1]}"
        with unittest.mock.patch.dict(os.environ, HOCKET_SECRET="s"), hocket.Cache(dataset="put", servers=address, timeout=20) as cache:
            for key in (7, 7, 8):
                with self.assertRaisesRegex(hocket.Error, f"{address}.* owns sample {key}, and did not give it") as caught:
                    cache[key]
                self.assertNotIsInstance(caught.exception, hocket.NotFoundError)
            with self.assertRaises(hocket.Error):
                self.assertFalse(7 in cache)

    def test_closing_beside_a_silent_owner(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and never says anything
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            with unittest.mock.patch.dict(os.environ, HOCKET_SECRET="s"):
                for _ in range(5):
                    cache = hocket.Cache(dataset="put", servers=address, timeout=20)
                    cache.prefetch(range(50))
                    time.sleep(0.02)
                    cache.close()

    def test_causes_are_those_of_the_key(self):
        class Large:
            pass

        large = []

        def read(key):
            local = Large()
            large.append(weakref.ref(local))
            raise OSError(f"there is no {key} today")

        with hocket.Cache(read=read, dataset="d", memory="1MiB") as cache:
            batches = [cache.get_batch([key], wait=False) for key in range(4)]
            until = time.monotonic() + 30
            while len(cache._functions._raised) < 4 and time.monotonic() < until:
                time.sleep(0.001)
            for key, batch in enumerate(batches):
                with self.assertRaises(hocket.IOError) as caught:
                    batch.wait()
                self.assertEqual(str(caught.exception.__cause__), f"there is no {key} today")
                self.assertIn("read", [frame.name for frame in traceback.extract_tb(caught.exception.__cause__.__traceback__)])
            self.assertEqual([reference() for reference in large], [None] * 4)  # the functions' local objects are not kept

    def test_a_batch_that_is_dropped_in_a_function(self):
        dropped: list[hocket.Batch] = []
        may_go_on = threading.Event()

        def read(key):
            may_go_on.wait(30)
            dropped.clear()
            return b"sample"

        with hocket.Cache(read=read, dataset="d", workers=1, timeout=8) as cache:
            dropped.append(cache.get_batch([1, 2], wait=False))
            may_go_on.set()
            self.assertEqual(cache[5].tobytes(), b"sample")  # and not the end of the deadline
            self.assertFalse(dropped)
            self.until_nothing_is_lent(cache)

    def test_a_batch_that_another_thread_waits_for(self):
        may_go_on, found = threading.Event(), []

        def read(key):
            may_go_on.wait(30)
            return b"sample"

        with hocket.Cache(read=read, dataset="d") as cache:
            batch = cache.get_batch([1], wait=False)
            thread = threading.Thread(target=lambda: found.append(batch.wait()))
            thread.start()
            while not batch._is_waiting:
                time.sleep(0.001)
            self.assertFalse(batch.done())
            for limit in (0, 0.1):
                with self.assertRaisesRegex(hocket.InProgressError, "not come within"):
                    batch.wait(limit)
            with self.assertRaisesRegex(hocket.InvalidArgumentError, "timeout is -1"):
                batch.wait(-1)
            may_go_on.set()
            thread.join()
            self.assertEqual(found[0][0].tobytes(), b"sample")
            self.assertTrue(batch.done())
            self.assertIs(batch.wait(float("inf")), found[0])

    def test_a_batch_that_a_handler_waits_for_beside_its_thread(self):
        may_go_on, begun = threading.Event(), threading.Event()

        def read(key):
            begun.set()
            may_go_on.wait(30)
            return b"sample"

        def ask():
            try:
                self.assertFalse(batch.done())
                batch.wait()
            finally:
                may_go_on.set()

        with hocket.Cache(read=read, dataset="d") as cache:
            batch = cache.get_batch([1], wait=False)
            waiting = threading.Event()
            wait_for(lambda: begun.is_set() and batch._is_waiting, waiting)
            with handler(ask, waiting) as caught:
                self.assertEqual(batch.wait()[0].tobytes(), b"sample")
            self.assertIsInstance(caught.error, hocket.InvalidArgumentError)
            self.assertIn("same thread", str(caught.error))

    def test_close_beside_a_call(self):
        begun, may_go_on = threading.Event(), threading.Event()

        def read(key):
            begun.set()
            may_go_on.wait(30)
            return b"sample"

        def close():
            try:
                cache.close()
            finally:
                may_go_on.set()

        cache = hocket.Cache(read=read, dataset="d")
        with handler(close, begun) as caught:
            self.assertEqual(cache.copy_batch([1]).tobytes(), b"sample")
        self.assertLess(caught.took, 20)  # it does not wait for the call
        self.assertIsInstance(caught.error, hocket.InvalidArgumentError)
        self.assertIn("handler", str(caught.error))
        cache.close()
        self.assertFalse(cache._owned)

    def test_the_disk(self):
        with tempfile.TemporaryDirectory() as folder:
            with hocket.Cache(folder=folder, memory="1MiB", disk="64MiB") as cache:
                cache.put(5, b"what was put")
                cache.put(5, b"what was put")
                with self.assertRaises(hocket.MismatchError):
                    cache.put(5, b"something else")
                cache.flush()
            with hocket.Cache(folder=folder, memory="1MiB", disk="64MiB") as cache:
                self.assertEqual(bytes(cache[5]), b"what was put")
                calls = []
                found = cache.verify(lambda done, all_: calls.append((done, all_)))
                self.assertEqual((found["records"], found["bad_records"]), (1, 0))
                self.assertTrue(calls)
                with self.assertRaises(ZeroDivisionError):
                    cache.verify(lambda done, all_: 1 / 0)

    def test_a_closed_communicator(self):
        comm = hocket.init()
        comm.close()
        with self.assertRaisesRegex(hocket.AbortedError, "the communicator is closed"):
            hocket.Cache(self.source, comm=comm)

    def test_it_is_not_pickled(self):
        with self.assertRaisesRegex(hocket.InvalidArgumentError, "use hocket.SharedCache"):
            pickle.dumps(self.cache)

    def test_refused(self):
        for make in (hocket.Cache, hocket.SharedCache):
            with self.assertRaisesRegex(hocket.InvalidArgumentError, "a folder of files.*read=.*put"):
                make()
        wrong: tuple[dict[str, object], ...] = (
            {"source": "/no/such/folder"}, {"memory": "a lot"}, {"source": self.source, "read": len}, {"io": "slow"},
            {"decode": len}, {"timeout": -1}, {"memory": "1MiB", "timeout": float("inf")})
        for given in wrong:
            self.assertRaises(hocket.Error, hocket.Cache, **given)


class Shared(WithFiles):
    def setUp(self):
        self.cache = hocket.SharedCache(self.source, memory="16MiB")
        self.addCleanup(self.cache.close)

    def check(self, cache):
        keys = list(range(0, COUNT, 3))
        return np.array_equal(cache.copy_batch(keys), np.stack([sample(key) for key in keys]))

    def test_it_is_a_cache(self):
        cache = self.cache
        self.assertTrue(self.check(cache))
        self.assertEqual(len(cache), COUNT)
        self.assertEqual(cache[9].tolist(), sample(9).tolist())
        cache.set_order(range(50), 10)
        self.assertEqual(cache.cursor, 10)
        cache.prefetch([3])
        out = np.zeros((2, BYTES), np.uint8)
        self.assertIs(cache.copy_batch([1, 2], out), out)
        self.assertEqual(out[1].tolist(), sample(2).tolist())
        for function in (lambda: cache[COUNT], lambda: cache.copy_batch([0, COUNT])):
            with self.assertRaises(hocket.NotFoundError):
                function()

    def test_what_is_copied_into(self):
        check_out(self, self.cache)

    def test_it_is_used_after_what_is_refused(self):
        cursors: list[Any] = [-1, 2.5, None, 1 << 64]
        for cursor in cursors:
            with self.assertRaisesRegex(hocket.InvalidArgumentError, "is no number from 0 to"):
                self.cache.set_order(range(50), cursor)
            self.assertTrue(self.check(self.cache))
        self.cache.set_order(range(50), 3)
        self.assertEqual(self.cache.cursor, 3)

    def test_a_long_timeout(self):
        """An answer may take as long as the cache may wait for its source, twice."""
        with hocket.SharedCache(self.source, timeout=600) as cache:
            for one in (cache, pickle.loads(pickle.dumps(cache))):
                self.assertGreater(one._connection()._socket.gettimeout() or 0, 1200)
        self.assertGreater(self.cache._connection()._socket.gettimeout() or 0, 120)

    def test_memory_is_used_again_when_it_is_dropped(self):
        first, second = self.cache.copy_batch(range(10)), self.cache.copy_batch(range(10, 20))
        self.assertEqual(first[5].tolist(), sample(5).tolist())  # the second has not overwritten it
        del first
        for _ in range(20):
            self.assertTrue(self.check(self.cache))
        self.assertLess(self.cache.stats()["slots"], 5)
        self.assertEqual(second[5].tolist(), sample(15).tolist())

    def test_children(self):
        child = os.fork()
        if child == 0:
            os._exit(0 if self.check(self.cache) else 1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        text = "import pickle, sys; cache = pickle.load(sys.stdin.buffer); sys.exit(0 if len(cache[5]) == 1000 else 1)"
        self.assertEqual(subprocess.run([sys.executable, "-c", text], input=pickle.dumps(self.cache), timeout=60).returncode, 0)
        self.assertTrue(self.check(self.cache))
        self.assertLess(self.cache.stats()["source_reads"], COUNT)  # all have used one memory

    def test_arrays_stay_valid_when_it_is_closed(self):
        other = pickle.loads(pickle.dumps(self.cache))
        kept = other.copy_batch([1, 2])
        other.close()
        for _ in range(20):
            self.cache.copy_batch([7, 8])
            time.sleep(0.005)
        self.assertEqual(kept[1].tolist(), sample(2).tolist())
        slots = self.cache.stats()["slots"]
        del kept  # now the other connection ends, and its slot is free
        until = time.monotonic() + 30
        while self.cache.stats()["slots_free"] < slots and time.monotonic() < until:
            time.sleep(0.01)
        self.assertEqual(self.cache.stats()["slots_free"], slots)
        kept = self.cache.copy_batch([1, 2])
        self.cache.close()
        self.assertEqual(kept[1].tolist(), sample(2).tolist())

    def test_its_end(self):
        process = self.cache._process
        self.cache.close()
        self.assertEqual(process.poll(), 0)
        with self.assertRaisesRegex(hocket.IOError, "cannot be reached"):
            self.cache[1]

    def test_a_program_that_is_killed_takes_it_along(self):
        for also in ("", "os.kill(c._process.pid, 9); "):
            text = (f"import hocket, os; c = hocket.SharedCache({self.source!r}); c[1]; print(c._process.pid, flush=True); "
                    f"{also}os.kill(os.getpid(), 9)")
            with tempfile.TemporaryDirectory() as folder:
                said = subprocess.run([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, timeout=60,
                                      env=dict(os.environ, TMPDIR=folder)).stdout
                self.assertTrue(gone(int(said), 30))
                self.assertEqual(os.listdir(folder), [])  # nothing is left

    def test_an_argument_that_there_is_not(self):
        with self.assertRaisesRegex(TypeError, "memry"):
            hocket.SharedCache(self.source, memry="1MiB")

    def test_a_folder_of_the_same_name_beside_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "hocket"))
            open(os.path.join(folder, "hocket", "__init__.py"), "w").close()
            text = f"import sys; sys.path.pop(0); import hocket; print(len(hocket.SharedCache({self.source!r})[1]))"
            said = subprocess.run([sys.executable, "-c", text], cwd=folder, stdout=subprocess.PIPE, text=True, timeout=60).stdout
            self.assertEqual(int(said), len(self.cache[1]))

    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_other_users_are_turned_away(self):
        self.cache.copy_batch([1])
        child = os.fork()
        if child == 0:
            os.setuid(65534)
            try:
                self.check(self.cache)
            except hocket.IOError as error:
                os._exit(7 if "another user's" in str(error) else 8)
            os._exit(9)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        self.assertTrue(self.check(self.cache))

    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_other_users_get_nothing_if_they_ask_all_the_same(self):
        child = os.fork()
        if child == 0:
            os.setuid(65534)
            with unittest.mock.patch.object(hocket.shared, "is_own", lambda _: True):
                try:
                    self.check(self.cache)
                except hocket.IOError as error:
                    os._exit(7 if "does not answer" in str(error) else 8)
            os._exit(9)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        self.assertTrue(self.check(self.cache))

    def test_many_that_connect_at_once(self):
        """They wait until the process of the cache has time for them."""
        process = self.cache._process.pid
        os.kill(process, signal.SIGSTOP)
        try:
            connections = [hocket.shared._Connection(self.cache._name, 60) for _ in range(200)]
        finally:
            os.kill(process, signal.SIGCONT)
        self.assertEqual({connection.ask(b"size") for connection in connections}, {COUNT.to_bytes(8, "little")})

    def test_no_descriptor_is_left_for_a_client(self):
        """Those that come then wait until others have ended."""
        process, limit = self.cache._process.pid, resource.RLIMIT_NOFILE
        self.cache.copy_batch([1])
        _, most = resource.prlimit(process, limit)
        resource.prlimit(process, limit, (len(os.listdir(f"/proc/{process}/fd")) + 5, most))
        connections = [hocket.shared._Connection(self.cache._name, 60) for _ in range(20)]
        for connection in connections[:5]:
            connection.ask(b"size")
        time.sleep(0.1)  # so that it has tried to take the sixth
        del connection
        while connections:  # each has those after it served
            connection = connections.pop(0)
            connection._socket.settimeout(60)
            self.assertEqual(connection.ask(b"size"), COUNT.to_bytes(8, "little"))
            connection.close()

    def test_a_process_that_ends_before_it_has_read_its_options(self):
        with unittest.mock.patch.object(sys, "executable", "/bin/false"):
            for dataset in ("short", "long" * 100000):
                with self.assertRaisesRegex(hocket.Error, "ended before it was ready"):
                    hocket.SharedCache(read=len, dataset=dataset)

    def test_close_does_not_wait_for_children(self):
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        begin = time.monotonic()
        self.cache.close()
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual(self.cache._process.poll(), 0)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    def test_close_does_not_wait_for_a_call_that_does_not_end(self):
        errors: list[str] = []
        begun = threading.Event()

        def ask():
            try:
                cache[1]
            except hocket.IOError as error:
                errors.append(str(error))

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "begun")
            with unittest.mock.patch.dict(os.environ, HOCKET_TEST_BEGUN=path):
                cache = hocket.SharedCache(self.source, decode=cache_samples.decode_never, decoder="never")
            process, thread = cache._process, threading.Thread(target=ask)
            thread.start()
            wait_for(lambda: os.path.exists(path), begun)
            self.assertTrue(begun.wait(30))
            cache.close()
        thread.join(30)
        self.assertEqual(process.poll(), 0)  # and was not killed, which happens after a minute
        self.assertIn("does not answer", errors[0])

    def test_one_that_is_dropped_ends(self):
        cache = hocket.SharedCache(self.source)
        self.assertTrue(self.check(cache))
        process, kept = cache._process, cache[5]
        del cache
        self.assertEqual(process.poll(), 0)
        self.assertEqual(kept.tolist(), sample(5).tolist())

    def test_batches_that_are_sent(self):
        from hocket.shared import _others, taken
        lent, offsets = self.cache.ragged_to_send([1, 2])
        lent.is_given_away = True
        self.assertEqual(taken(self.cache._name, lent.slot, lent.size)[int(offsets[1]):].tolist(), sample(2).tolist())
        self.assertFalse(_others)
        with self.assertRaises(hocket.NotFoundError):
            taken(self.cache._name, lent.slot, lent.size)
        lent, _ = self.cache.ragged_to_send([3, 4])
        lent.is_given_away = True
        text = ("import sys; from hocket.shared import SlotName, taken; "
                f"a = taken({self.cache._name!r}, SlotName(*{tuple(lent.slot)!r}), {lent.size}); print(a.tolist())")
        code, said = running.run([sys.executable, "-c", text], 60)
        self.assertEqual((code, said.strip()), (0, str(np.concatenate([sample(3), sample(4)]).tolist())))
        self.cache.close()
        with self.assertRaisesRegex(hocket.IOError, "cannot be reached"):
            taken(self.cache._name, lent.slot, lent.size)
        self.assertFalse(_others)

    def test_a_process_that_is_killed(self):
        self.cache._process.kill()
        with self.assertRaisesRegex(hocket.IOError, "does not answer|cannot be reached"):
            self.cache[1]

    def test_a_handler_beside_a_call(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "may go on")

            def ask():
                try:
                    cache.stats()
                finally:
                    open(path, "w").close()

            with unittest.mock.patch.dict(os.environ, HOCKET_TEST_MAY_GO_ON=path):
                cache = hocket.SharedCache(self.source, decode=cache_samples.decode_later, decoder="later")
            with cache:
                connection, asking = cache._connection(), threading.Event()
                wait_for(lambda: connection._is_asking, asking)
                with handler(ask, asking) as caught:
                    self.assertEqual(cache[1].tolist(), sample(1).tolist())
                self.assertIsInstance(caught.error, hocket.InvalidArgumentError)
                self.assertIn("later", str(caught.error))
                self.assertEqual(cache[2].tolist(), sample(2).tolist())  # it is still in step
                self.assertGreater(cache.stats()["slots"], 0)

    def test_many_batches_at_a_time(self):
        def descriptors():
            return [len(os.listdir(f"/proc/{process}/fd")) for process in (os.getpid(), self.cache._process.pid)]

        self.cache.copy_batch([1])
        before = descriptors()
        kept = [self.cache[key] for key in range(COUNT)] + [self.cache.copy_batch(range(100 + key)) for key in range(5)]
        self.assertGreaterEqual(self.cache.stats()["slots"], COUNT + 5)
        for have, had in zip(descriptors(), before):
            self.assertLess(have - had, 20)  # and not one for each batch
        self.assertTrue(all(kept[key].tobytes() == sample(key).tobytes() for key in range(COUNT)))
        self.assertEqual(kept[-1].tobytes(), b"".join(sample(key).tobytes() for key in range(104)))

    def test_functions_that_print(self):
        text = ("import cache_samples, hocket, sys\n"
                "with hocket.SharedCache(sys.argv[1], decode=cache_samples.decode_and_print, decoder='as it is') as cache:\n"
                f"    print('shape', cache.copy_batch(range({COUNT})).shape)")
        code, said = running.run([sys.executable, "-c", text, self.source], 60,
                                 PYTHONPATH=os.pathsep.join((running.HERE, os.environ["PYTHONPATH"])))
        self.assertEqual(code, 0, said[-2000:])
        self.assertIn(f"shape ({COUNT}, {BYTES})", said)
        self.assertEqual(said.count("x" * 2000), COUNT)

    def test_functions(self):
        with hocket.SharedCache(self.source, decode=cache_samples.decode, decoder="the first 8") as cache:
            self.assertEqual(cache[3].tolist(), sample(3)[:8].tolist())
            with self.assertRaisesRegex(hocket.IOError, "unlucky"):
                cache[13]
        with self.assertRaisesRegex(hocket.InvalidArgumentError, "__main__"):
            hocket.SharedCache(self.source, decode=lambda key, encoded: encoded, decoder="none")
        with self.assertRaisesRegex(hocket.NotFoundError, "no/such"):
            hocket.SharedCache("/no/such/folder")


def gone(process, limit_s):
    """Returns whether the process ends within the limit."""
    descriptor = None
    try:
        descriptor = os.pidfd_open(process)
        import select
        return bool(select.select([descriptor], [], [], limit_s)[0])
    except ProcessLookupError:
        return True
    finally:
        if descriptor is not None:
            os.close(descriptor)


if __name__ == "__main__":
    sys.exit(running.main())
