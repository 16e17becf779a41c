#!/usr/bin/python3
"""hocket.params between processes: bits, workers and servers that are killed, checkpoints, ranks, the interpreter's end.

usage: params_processes_test.py HOCKET_RUN     (PYTHONPATH has the package)
"""
import os
import sys
import tempfile

import running

running.need_package()
import numpy as np

import hocket
from params_process import bytes_of, first_weights, gradient
from serving import TIMEOUT_S, TestCase, open_worker, serve

STEPS = 12


def alone(workers):
    """One process that adds the gradients in the order of the workers, and steps as sgd(0.1) does."""
    weights = first_weights(1)
    for step in range(STEPS):
        for name, array in weights.items():
            total = gradient(0, step, array)
            for number in range(1, workers):
                total = total + gradient(number, step, array)
            weights[name] = array - np.float32(0.1) * total / np.float32(workers)
    return bytes_of(weights)


class Training(TestCase):
    def test_bits_of_one_process(self):
        for workers, servers in ((2, 1), (3, 2)):
            with self.subTest(workers=workers, servers=servers):
                first = self.process("server", servers=servers)
                address = first.hear()["address"]
                others = [self.process("server", join=address) for _ in range(1, servers)]
                trainers = [self.process("trainer", number=number, steps=STEPS, address=address, workers=workers, update="sgd(0.1)", tree="direct")
                            for number in range(workers)]
                said = [trainer.hear() for trainer in trainers]
                self.assertEqual([trainer.wait() for trainer in trainers], [0] * workers)
                for weights in said:
                    self.assertEqual(weights, alone(workers))
                self.assertEqual([server.wait() for server in (first, *others)], [0] * servers)

    def test_the_order_counts(self):
        """Else the test above would not see that they are added in another one."""
        a, b, c = (gradient(number, 0, first_weights(0)["embedding"]) for number in range(3))
        self.assertFalse(np.array_equal(a + b + c, c + b + a))


class Deaths(TestCase):
    def test_a_worker_is_killed(self):
        """The others end their rounds without it, and what it had pushed in whole rounds counts."""
        with serve() as server:
            weights = {"w": np.zeros(1000)}
            other = self.process("pusher", number=1, rounds=3, address=server.address, workers=2)
            with open_worker(server.address, weights, workers=2, number=0) as worker:
                self.assertEqual(other.hear(), {"number": 1})
                other.go_on()
                self.assertEqual(other.hear(), {"round": 1})
                worker.push({"w": np.full(1000, 10.0)})
                worker.clock()
                worker.pull()
                np.testing.assert_array_equal(weights["w"], np.full(1000, 11.0))
                worker.push({"w": np.full(1000, 10.0)})
                worker.clock()
                request = worker.pull(wait=False)
                self.assertRaises(hocket.InProgressError, request.wait, 0.1)
                other.kill()
                request.wait(TIMEOUT_S)
                np.testing.assert_array_equal(weights["w"], np.full(1000, 21.0))
                self.eventually(lambda: len(server.stats()["workers"]) == 1)

    def test_a_worker_comes_later(self):
        with serve() as server, open_worker(server.address, {"w": np.zeros(1000)}) as worker:
            worker.push({"w": np.ones(1000)})
            worker.clock()
            worker.pull()
            late = self.process("pusher", number=-1, rounds=1, address=server.address)
            self.assertEqual(late.hear(), {"number": 1})
            late.go_on()
            begun = late.hear()["round"]
            self.assertGreater(begun, 1)
            for _ in range(begun - 1):
                worker.clock()
            np.testing.assert_array_equal(worker.pull("w"), np.full(1000, 2.0))
            late.wait()

    def test_a_server_is_killed_and_another_one_takes_its_place(self):
        """Workers push again what its checkpoint lacks."""
        with tempfile.TemporaryDirectory() as folder:
            options = {"checkpoints": folder, "checkpoint_every": 3}
            server = self.process("server", **options)
            address = server.hear()["address"]
            with open_worker(address, {"w": np.zeros(1000)}) as worker:
                for round in range(1, 6):
                    worker.push({"w": np.ones(1000)})
                    self.assertEqual(worker.clock(), round)
                    np.testing.assert_array_equal(worker.pull("w"), np.full(1000, round))
                    if round == 3:
                        worker.checkpoint()  # one is there; rounds come faster than they are written
                server.kill()
                worker.push({"w": np.ones(1000)})
                worker.clock()
                request = worker.pull("w", wait=False)
                self.assertRaises(hocket.InProgressError, request.wait, 0.1)
                server = self.process("server", listen=address, restore=True, **options)
                self.assertEqual(server.hear()["address"], address)
                np.testing.assert_array_equal(request.wait(TIMEOUT_S), np.full(1000, 6.0))
                self.assertGreater(worker.stats().reconnections, 0)
            self.assertEqual(server.wait(), 0)

    def test_nobody_takes_its_place(self):
        server = self.process("server")
        with open_worker(server.hear()["address"], {"w": np.zeros(3)}, timeout=3) as worker:
            worker.clock()
            worker.pull()
            server.kill()
            worker.clock()
            with self.assertRaisesRegex(hocket.PeerLostError, "server"):
                worker.pull()
            self.assertRaises(hocket.PeerLostError, worker.push, {"w": np.zeros(3)})
            self.assertRaises(hocket.PeerLostError, worker.clock)

    def test_all_processes_end_and_the_job_goes_on_from_its_checkpoints(self):
        with tempfile.TemporaryDirectory() as folder:
            options = {"checkpoints": folder, "checkpoint_every": 2, "return_within": 2}  # a checkpoint may have a worker that has just left
            for restore, count in ((False, 2), (True, 1)):
                server = self.process("server", restore=restore, **options)
                address = server.hear()["address"]
                pushers = [self.process("pusher", number=-1, rounds=2, address=address, workers=2, update="sum") for _ in range(count)]
                for pusher in pushers:
                    pusher.hear()
                for _ in range(2):
                    for pusher in pushers:
                        pusher.go_on()
                    for pusher in pushers:
                        pusher.hear()
                for pusher in pushers:
                    self.assertEqual(pusher.wait(), 0)
                self.assertEqual(server.wait(), 0)
            with serve(restore=True, **options) as server, open_worker(server.address, {"w": np.zeros(1000)}, update="sum", workers=2) as worker:
                np.testing.assert_array_equal(worker.pull("w"), np.full(1000, 6.0))  # 2 rounds of 2 workers, and of another one


RANK = """
import sys, numpy as np, hocket, hocket.params as params
comm = hocket.init()
weights = {"w": np.full(100, float(comm.rank)), "b": np.zeros(3, np.float32)}
if sys.argv[1] == "wrong":
    try:
        params.open_with_ranks(comm, {"w": np.zeros(100)[::2]} if comm.rank == 1 else weights)
    except hocket.Error as error:
        print("right:", type(error).__name__, "gaps" in str(error), "rank 1" in str(error))
    sys.exit()
member = params.open_with_ranks(comm, weights, servers=2, update="average", gives_weights=comm.rank == 1)
comm.close()
if isinstance(member, params.Server):
    assert member.wait(60)
    member.close()
else:
    with member:
        assert member.number == comm.rank
        for step in range(5):
            member.pull()
            assert (weights["w"] == 1 + 0.5 * step).all(), (step, weights)
            member.push({"w": np.full(100, float(comm.rank))})
            member.clock()
        member.pull()
        assert (weights["w"] == 3.5).all() and (weights["b"] == 0).all(), weights
print("right:", type(member).__name__)
"""

END = """
import os, sys, threading, numpy as np, hocket.params as params
server = params.serve("127.0.0.1:0", secret="s")
weights = [{"w": np.zeros(1000)}, {"w": np.zeros(1000)}]
workers = []
threads = [threading.Thread(target=lambda one=one: workers.append(params.open(one, address=server.address, secret="s", workers=2))) for one in weights]
for thread in threads: thread.start()
for thread in threads: thread.join()
workers[0].clock()
request = workers[0].pull(wait=False)
threading.Thread(target=lambda: workers[0].pull("w", np.zeros(1000)), daemon=True).start()
while not workers[0]._handle.inside: pass
print("right", flush=True)
"""


class Programs(TestCase):
    def test_the_example(self):
        for words, lines in ((["--workers", "3", "--servers", "2"], 3), (["--staleness", "-1"], 2)):
            with self.subTest(words=words):
                code, said = running.run([sys.executable, os.path.join(running.HERE, "..", "..", "examples", "params.py"), "--steps", "100", *words], 200)
                self.assertEqual(code, 0, said)
                right = [float(line.split()[2]) for line in said.splitlines() if line.startswith("worker ")]
                self.assertEqual(len(right), lines, said)
                self.assertGreater(min(right), 80, said)  # guessing has half of them

    def ranks(self, count, mode):
        return running.run([sys.argv[1], "-n", str(count), "--timeout", "100", sys.executable, "-c", RANK, mode], 120)

    def test_ranks(self):
        code, said = self.ranks(4, "right")
        self.assertEqual(code, 0, said)
        self.assertEqual((said.count("right: Worker"), said.count("right: Server")), (2, 2), said)

    def test_a_rank_whose_arguments_are_refused(self):
        code, said = self.ranks(3, "wrong")
        self.assertEqual(code, 0, said)
        self.assertEqual((said.count("right: InvalidArgumentError True False"), said.count("right: InvalidArgumentError False True")), (1, 2), said)

    def test_the_end_of_the_interpreter(self):
        """With a server, workers, a request in flight, and a thread that waits."""
        code, said = running.run([sys.executable, "-c", END], 60)
        self.assertEqual(code, 0, said)
        self.assertIn("right", said)
        self.assertNotIn("Traceback (most recent call last):\n  File \"<string>\"", said)


if __name__ == "__main__":
    sys.exit(running.main())
