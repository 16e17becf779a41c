"""Runs a function as the ranks of a process group: forked processes, which have torch already."""
import datetime
import importlib.util
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import unittest


def count(passed, failed, skipped):
    """For tools/test_counts."""
    path = os.environ.get("HOCKET_TEST_COUNTS")
    if path:
        with open(path, "w") as file:
            file.write(f"{passed} {failed} {skipped}\n")


if importlib.util.find_spec("torch") is None:
    print("skipped: there is no torch. Debian: apt-get install python3-torch")
    count(0, 0, 1)
    sys.exit(0)

import torch
import torch.distributed as dist

import hocket.torch  # noqa: F401 (registers the backend)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import running


class Outcome:
    """Of one rank: what the function returned, or the text of what it raised, or how the process ended."""

    def __init__(self, kind, value):
        self.kind, self.value = kind, value

    def __repr__(self):
        return f"{self.kind}: {self.value}"


def _rank(function, rank, size, arguments, folder, timeout_s, report):
    torch.set_num_threads(1)
    try:
        dist.init_process_group("hocket", store=dist.FileStore(os.path.join(folder, "store"), size), rank=rank, world_size=size,
                                timeout=datetime.timedelta(seconds=timeout_s))
        outcome = ("returned", function(rank, size, *arguments))
        if dist.is_initialized():
            dist.destroy_process_group()
    except BaseException as error:
        outcome = ("raised", f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
    try:
        os.write(report, pickle.dumps(outcome))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)


def program(command, limit_s):
    """The exit status of another program, and what it said. One that hangs is killed, with what it started."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        said, _ = process.communicate(timeout=limit_s)
        return process.returncode, said
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return -1, process.communicate()[0] + f"\n(it ran for more than {limit_s} s)"


def torchrun(size, command, limit_s, *options):
    """program(), started by torchrun."""
    # Debian's torchrun does not understand its own defaults for -r and -t with Python 3.11.
    return program([sys.executable, "-m", "torch.distributed.run", "-r", "1", "-t", "1", "--nproc_per_node", str(size),
                    "--master_port", running.free_port(), *options, *command], limit_s)


def run(size, function, *arguments, timeout_s=60, deadline_s=120):
    """The outcome of function(rank, size, *arguments) on each rank. Ranks that have not ended by the deadline are killed."""
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(size):
            receive, report = os.pipe()
            child = os.fork()
            if child == 0:
                _rank(function, rank, size, arguments, folder, timeout_s, report)
            os.close(report)
            ranks.append((child, receive))
        return _collect(ranks, time.monotonic() + deadline_s)


def _collect(ranks, until):
    outcomes: list[Outcome] = []
    for child, receive in ranks:
        said = b""
        code: int | None = None
        os.set_blocking(receive, False)
        while code is None:
            try:
                said += os.read(receive, 1 << 20)
            except BlockingIOError:
                pass
            ended, state = os.waitpid(child, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(state)
            elif time.monotonic() > until:
                os.kill(child, signal.SIGKILL)
                until = time.monotonic() + 10
                said = pickle.dumps(("raised", "it had not ended by the deadline"))
            else:
                time.sleep(0.005)
        try:
            said += os.read(receive, 1 << 20)
        except BlockingIOError:
            pass
        os.close(receive)
        outcomes.append(Outcome(*pickle.loads(said)) if said else Outcome("ended", code))
    return outcomes


class TestCase(unittest.TestCase):
    def check(self, size, function, *arguments, **keywords):
        """All ranks return; a list of what they return."""
        outcomes = run(size, function, *arguments, **keywords)
        wrong = "\n".join(f"rank {rank}: {outcome}" for rank, outcome in enumerate(outcomes) if outcome.kind != "returned")
        self.assertFalse(wrong, wrong)
        return [outcome.value for outcome in outcomes]


def main():
    result = unittest.main("__main__", exit=False, verbosity=2).result
    failed = len(result.failures) + len(result.errors)
    count(max(0, result.testsRun - len(result.skipped) - failed), failed, len(result.skipped))
    sys.exit(1 if failed else 0)


def refused(kind, words, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        assert words in str(error), f"{error} does not say: {words}"
    else:
        raise AssertionError(f"not refused: {words}")


def same(found, expected, what=""):
    """With the same shape, type and bits, but for the sign of 0."""
    assert found.dtype is expected.dtype and found.shape == expected.shape, f"{what}: {found.dtype} {found.shape}, not {expected.dtype} {expected.shape}"
    assert torch.equal(found, expected), f"{what}: {found} is not {expected}"
