#!/usr/bin/python3
"""The Python package: requests, callbacks, threads, signals, forks, ends of programs, and the ways to meet.

usage: life_test.py HOCKET_RUN     (PYTHONPATH has the package)
"""
import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock
import weakref

import running

running.need_package()
import numpy as np
from hocket._native import lib

import hocket
from alone import Alone
from hocket import state


def program(text, limit_s=60):
    """A Python program of its own: its exit code, and what it said."""
    return running.run([sys.executable, "-c", text], limit_s)


class Interrupted(Exception):
    pass


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

    def test_a_request_that_two_threads_wait_for_is_freed_once(self):
        """Each thread that calls looks at dropped requests: one thread asks C, and the others see them in progress."""
        wait, flight = lib.hkt_py_wait, self.start(np.zeros(4), 1)._flight
        thread = threading.Thread(target=wait, args=(flight, -1))
        thread.start()
        while not flight[2]:
            time.sleep(0.001)
        self.assertEqual(wait(flight, -1), hocket.InProgressError.status)
        self.comm.send(np.ones(4), 0, tag=1)
        thread.join(30)
        self.assertFalse(flight[0] or flight[2])
        self.assertEqual(wait(flight, -1), 0)

    def test_arrays_live_until_their_operation_has_ended(self):
        x = np.zeros(1000)
        alive = weakref.ref(x)
        request = self.start(x, 1)
        del x, request
        gc.collect()
        self.assertIsNotNone(alive())
        self.comm.send(np.ones(1000), 0, tag=1)
        for _ in range(2):  # a later start releases ended operations
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
            self.comm.all_reduce(x, y, wait=False)  # without a wait
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

    def test_a_callback_that_was_refused_is_never_called(self):
        request, refused = self.start(np.zeros(4), 1), []
        called: list[object] = []

        def handle(*_):
            if not self.comm._state.inside:  # not in the wait yet
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                return
            try:
                request.add_done_callback(called.append)
            except hocket.InvalidArgumentError as error:
                refused.append(str(error))

        before = signal.signal(signal.SIGALRM, handle)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        until = time.monotonic() + 30
        while not refused and time.monotonic() < until:
            with self.assertRaises(hocket.InProgressError):
                request.wait(0.2)
        self.assertIn("beside a wait of the same thread", refused[0])
        self.comm.close()
        self.assertEqual(called, [])

    def test_arrays_live_while_the_communicator_is_being_freed(self):
        """Its operations move on then, so C may write to them, whatever another thread asks or drops."""
        arrays = [np.zeros(1000), np.zeros(1000)]
        alive = [weakref.ref(array) for array in arrays]
        requests = [self.start(arrays.pop(), tag) for tag in (1, 2)]
        found: list[bool] = []

        class Freeing:
            """The library, while it frees a communicator."""

            def __getattr__(self, name):
                return getattr(lib, name)

            def hkt_comm_destroy(self, handle):
                with contextlib.suppress(hocket.AbortedError):
                    requests[0].wait()
                requests.clear()  # the other one is dropped without a look at it
                gc.collect()
                found.extend(one() is not None for one in alive)
                lib.hkt_comm_destroy(handle)

        with unittest.mock.patch.object(state, "lib", Freeing()):
            self.comm.close()
        self.assertEqual(found, [True, True])
        gc.collect()
        self.assertEqual([one() for one in alive], [None, None])

    def test_a_callback_after_closing_hears_how_it_ended(self):
        request, heard = self.start(np.zeros(4), 1), []
        self.comm.close()
        request.add_done_callback(lambda ended: heard.append(repr(ended)))
        self.assertEqual(len(heard), 1)
        self.assertIn("was closed before the operation had ended", heard[0])

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
            with self.assertRaises(KeyboardInterrupt):
                timer.start()
                wait()
            timer.join()
        # The operation that was waited for goes on.
        self.comm.send(np.ones(4), 0, tag=1)
        self.assertEqual(self.comm.status, 0)
        self.comm.all_reduce(np.zeros(4))

    def raise_by_sigalrm(self):
        """The exceptions that finalizers were left by are in the list: nobody else gets them, and they are not printed."""
        def interrupt(*_):
            raise Interrupted

        ignored = []
        self.addCleanup(setattr, sys, "unraisablehook", sys.unraisablehook)
        sys.unraisablehook = lambda it: ignored.append(it.exc_type)
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, interrupt))
        return ignored

    def test_handlers_that_raise_anywhere(self):
        """Whatever an exception comes between: nothing is used after it was freed, and the communicator works on."""
        rounds, ignored = [], self.raise_by_sigalrm()

        def work():
            x = np.ones(500)
            for _ in range(200):
                self.comm.all_reduce(x)
                self.comm.all_reduce(x, wait=False).wait()
                self.comm.send(x, 0, wait=False)
                self.comm.recv(np.zeros(500), 0)
                rounds.append(1)

        for i in range(200):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002 + i % 37 * 0.00005)
                work()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                continue
        gc.collect()
        self.assertGreater(len(rounds), 0)
        self.assertLessEqual(set(ignored), {Interrupted})
        self.assertEqual(self.comm.status, 0)
        self.comm.close()

    def test_handlers_that_raise_lose_no_array(self):
        """Each call looks at the requests that were dropped in flight; an exception may come between any two of them."""
        alive = []
        for tag in range(200):
            x = np.zeros(100)
            alive.append(weakref.ref(x))
            self.comm.recv(x, 0, tag=tag, wait=False)
        del x
        ignored = self.raise_by_sigalrm()
        for i in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.00005 + i % 60 * 0.00001)
                for _ in range(20):
                    self.comm.barrier(wait=False)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                continue
        self.assertTrue(all(x() is not None for x in alive))
        self.assertLessEqual(set(ignored), {Interrupted})

    def test_closed_by_another_thread_just_before_a_call(self):
        """The address of a communicator that is gone may be that of a new one."""
        others = []

        def close():
            self.comm.close()
            others.append(hocket.init())

        def stop_at_run(frame, event, _):
            if frame.f_code is hocket.collectives.run.__code__ and event == "call":
                sys.settrace(None)
                thread = threading.Thread(target=close)
                thread.start()
                thread.join()

        sys.settrace(stop_at_run)
        self.addCleanup(sys.settrace, None)
        with self.assertRaises(hocket.AbortedError):
            self.comm.all_reduce(np.ones(1000))
        others[0].close()

    def wait_until(self, request, seen):
        """Waits for what does not end, until a signal has come to its handler. The signal comes when the wait has begun."""
        until = time.monotonic() + 60

        def send():
            while not self.comm._state.inside and time.monotonic() < until:
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGUSR1)

        thread = threading.Thread(target=send)
        thread.start()
        while not seen and time.monotonic() < until:
            with self.assertRaises(hocket.InProgressError):
                request.wait(0.8)
        thread.join()
        self.assertEqual(len(seen), 1)

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
        self.wait_until(request, refused)
        self.comm.close()

    def test_a_handler_that_raises_nothing(self):
        seen = []
        before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        request = self.start(np.zeros(4), 1)
        self.wait_until(request, seen)


class Meeting(unittest.TestCase):
    """Ranks in threads of this process, and a new process."""

    def both(self, join):
        """The communicators of two ranks, each made in a thread."""
        joined: dict[int, hocket.Communicator] = {}

        def run(rank):
            joined[rank] = join(rank)

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        made = [joined[rank] for rank in range(2)]
        self.assertEqual([comm.rank for comm in made], [0, 1])
        sums = [comm.all_reduce(np.ones(3), wait=False) for comm in made]
        for request in sums:
            self.assertEqual(request.wait(30).tolist(), [2] * 3)
        for comm in made:
            comm.close()

    def test_a_store(self):
        class Store:
            def __init__(self):
                self.found, self.changed = {}, threading.Condition()

            def set(self, key, value):
                with self.changed:
                    self.found[key] = value
                    self.changed.notify_all()

            def get(self, key):
                with self.changed:
                    if not self.changed.wait_for(lambda: key in self.found, 30):
                        raise TimeoutError(key)
                    return self.found[key]

        store = Store()
        self.both(lambda rank: hocket.init(rank=rank, world_size=2, store=store, store_prefix="first", timeout=30))
        self.both(lambda rank: hocket.init(rank=rank, world_size=2, store=store, store_prefix="second", timeout=30))

    def test_an_id(self):
        made = hocket.unique_id()
        self.both(lambda rank: hocket.init(rank=rank, world_size=2, unique_id=made, timeout=30))

    def test_a_new_process(self):
        comm = hocket.init(rank=0, world_size=1, timeout=60)
        made = hocket.unique_id()
        text = (f"import hocket, numpy as np; comm = hocket.init(rank=hocket.NEWCOMER, unique_id={made!r}, timeout=60); "
                "print(comm.rank, comm.all_reduce(np.ones(1))[0])")
        newcomer = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
        until = time.monotonic() + 60
        while hocket.unique_id_waiting(made) == 0 and time.monotonic() < until:
            time.sleep(0.02)
        grown = comm.grow(1, made)
        assert grown is not None
        self.assertEqual((grown.rank, grown.size), (0, 2))
        grown.all_reduce(np.ones(1))
        self.assertEqual(newcomer.communicate(timeout=60)[0], "1 2.0\n")
        grown.close()
        comm.close()


@unittest.skipUnless(running.has("torch"), "Python's torch is not installed (Debian: python3-torch)")
class UnderTorchrun(unittest.TestCase):
    def ranks(self, mode, restarts, *options, **environment):
        # Debian's torchrun does not understand its own defaults for -r and -t with Python 3.11.
        return running.run([sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", *(options or ("--master_port", running.free_port())),
                            "--max_restarts", str(restarts), "-r", "1", "-t", "1", os.path.join(running.HERE, "torchrun_rank.py"), mode],
                           **environment)

    def test_the_ranks_meet_in_its_store(self):
        for options in ((), ("--standalone",)):  # torchrun's own store; one that rank 0 makes (torch 1.13)
            # Rank 1 fails once, and torchrun starts both ranks again; usually, in the first store alone.
            is_restarted = not options or "HOCKET_TEST_LONG" in os.environ
            with self.subTest(options=options):
                code, said = self.ranks("restarted" if is_restarted else "meeting", 1, *options)
                self.assertEqual(code, 0, said)
                for attempt in ("0", "1") if is_restarted else ("0",):
                    for meeting in ("first", "second"):
                        self.assertEqual(said.count(f"attempt {attempt}, {meeting}: 1.0"), 2, said)

    def test_a_port_of_the_users_own(self):
        code, said = self.ranks("port", 0, HOCKET_SECRET="a secret", HOCKET_TEST_PORT=running.free_port())
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count("without torch: 1.0"), 2, said)


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

    def test_threads_print_what_their_calls_raise_before_the_end(self):
        code, said = program("""
import hocket, numpy as np, threading, time
def hook(given):
    time.sleep(0.1)
    print("told:", given.exc_value, flush=True)
threading.excepthook = hook
comm = hocket.init()
threading.Thread(target=comm.recv, args=(np.zeros(9), 0), daemon=True).start()
while not comm._state.inside:
    time.sleep(0.001)
""")
        self.assertEqual(code, 0, said)
        self.assertIn("told: ", said)

    def test_threads_that_never_end_are_not_waited_for_one_by_one(self):
        code, said = program("""
import hocket, numpy as np, threading, time
threading.excepthook = lambda given: threading.Event().wait()
comm = hocket.init()
for tag in range(240):  # a second for each would be more than the program's time
    threading.Thread(target=comm.recv, args=(np.zeros(9), 0), kwargs={"tag": tag}, daemon=True).start()
while len(comm._state.inside) < 240:
    time.sleep(0.001)
""")
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


if __name__ == "__main__":
    sys.exit(running.main())
