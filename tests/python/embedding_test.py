#!/usr/bin/python3
"""Hocket in Python programs: processes made by multiprocessing and by PyTorch's DataLoader, and torch's store.

usage: embedding_test.py HOCKET_RUN LIBRARY
"""
import os
import sys
import unittest

import running

HERE = os.path.dirname(os.path.abspath(__file__))
HOCKET_RUN = sys.argv[1]
os.environ["HOCKET_LIBRARY"] = sys.argv[2]


class Embedding(unittest.TestCase):
    def check_ranks(self, mode, ranks=2, **environment):
        code, said = running.run([HOCKET_RUN, "-n", str(ranks), "--timeout", "150", sys.executable,
                          os.path.join(HERE, "forking_rank.py"), mode], **environment)
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count(f"right after {mode}: {sum(range(ranks))}.0"), ranks, said)

    def test_multiprocessing(self):
        for method in ("fork", "forkserver", "spawn"):
            for provider in ("", "tcp"):
                with self.subTest(method=method, provider=provider):
                    self.check_ranks(method, HOCKET_PROVIDER_FOR_ALL=provider)

    def test_multiprocessing_beside_a_progress_thread(self):
        self.check_ranks("fork", HOCKET_PROGRESS="thread")

    @unittest.skipUnless(running.has("torch"), "Python's torch is not installed (Debian: python3-torch)")
    def test_dataloader(self):
        for progress in ("calls", "thread"):
            with self.subTest(progress=progress):
                self.check_ranks("dataloader", HOCKET_PROGRESS=progress)

    @unittest.skipUnless(running.has("torch"), "Python's torch is not installed (Debian: python3-torch)")
    def test_torchrun(self):
        # Debian's torchrun does not understand its own defaults for -r and -t with Python 3.11.
        code, said = running.run([sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "3", "--master_port", running.free_port(),
                          "-r", "1", "-t", "1", os.path.join(HERE, "storing_rank.py")])
        self.assertEqual(code, 0, said)
        for group in ("first", "second"):
            self.assertEqual(said.count(f"{group}: 3.0"), 3, said)
        self.assertEqual(said.count("without a store: torchrun has started this process, and MASTER_PORT belongs"), 3, said)


if __name__ == "__main__":
    sys.exit(running.main())
