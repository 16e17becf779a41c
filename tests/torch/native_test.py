#!/usr/bin/python3
"""The operations in C++ (hocket.torch.native): when they are used, how they are built, and what they leave to Python.

The other tests of this folder run with them, too: tests/torch/run. Here they are built where torch is new enough, and
there is a compiler; the folder HOCKET_TEST_NATIVE_CACHE keeps them from one run to the next.
"""
import multiprocessing
import os
import pickle
import stat
import subprocess
import tempfile
import time
import unittest
import unittest.mock
import warnings

import ranks  # first: it skips without torch

# isort: split
import torch
import torch.distributed as dist

from hocket.torch import native
from hocket.torch.native import build
from ranks import same

IS_NEW = build._torch_version() >= build.LEAST_TORCH


class Environment:
    """Variables for the length of a `with` block; None: not set."""

    def __init__(self, **variables):
        self._variables = variables

    def _set(self, variables):
        for name, value in variables.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

    def __enter__(self):
        self._before = {name: os.environ.get(name) for name in self._variables}
        self._set(self._variables)

    def __exit__(self, *_):
        self._set(self._before)


def compiler(folder, commands):
    """A compiler that counts its calls, and does as the commands say; $out is the file that it should make."""
    path = os.path.join(folder, "compiler")
    with open(path, "w") as file:
        file.write(f'#!/bin/sh\necho >>{folder}/calls\nfor out; do :; done\n{commands}\n')
    os.chmod(path, 0o700)
    return path


def calls(folder):
    try:
        with open(os.path.join(folder, "calls")) as file:
            return len(file.readlines())
    except FileNotFoundError:
        return 0


def is_running(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def build_in_a_process(path):
    build.build(path)


class Builds(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.folder = self._folder.name
        self.cache = os.path.join(self.folder, "cache")
        self.path = os.path.join(self.cache, "hocket", "torch", "made.so")

    def environment(self, commands, **more):
        return Environment(XDG_CACHE_HOME=self.cache, CXX=compiler(self.folder, commands), **more)

    def test_once(self):
        """Of processes that want it at once, one compiles. What is there is whole, and private."""
        with self.environment('sleep 0.3; echo whole >"$out"'):
            processes = [multiprocessing.get_context("fork").Process(target=build_in_a_process, args=(self.path,)) for _ in range(4)]
            for process in processes:
                process.start()
            for process in processes:
                process.join()
        self.assertEqual([process.exitcode for process in processes], [0] * 4)
        self.assertEqual(calls(self.folder), 1)
        with open(self.path) as file:
            self.assertEqual(file.read(), "whole\n")
        for path in (self.path, os.path.dirname(self.path)):
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode) & 0o077, 0, path)

    def test_failure(self):
        """A compiler that fails, or is not there, leaves nothing that would be loaded, and what it said can be read."""
        with self.environment('echo half >"$out"; echo "no such header"; exit 1'), self.assertRaises(build.CannotBuild) as raised:
            build.build(self.path)
        self.assertIn(self.path + ".log", str(raised.exception))
        with open(self.path + ".log") as file:
            self.assertIn("no such header", file.read())
        with self.environment("", ), Environment(CXX="/there/is/none"), self.assertRaisesRegex(build.CannotBuild, "no compiler /there/is/none"):
            build.build(self.path)
        self.assertEqual([name for name in os.listdir(os.path.dirname(self.path)) if not name.endswith((".lock", ".log"))], [])

    def test_parents_that_there_are_not_yet(self):
        """They are for this user alone, too: else others could put a folder of theirs in the place of ours."""
        self.cache = os.path.join(self.folder, "a", "b")
        self.path = os.path.join(self.cache, "hocket", "torch", "made.so")
        before = os.umask(0)
        try:
            with self.environment('echo whole >"$out"'):
                build.build(self.path)
        finally:
            os.umask(before)
        made = os.path.dirname(self.path)
        while made != self.folder:
            self.assertEqual(stat.S_IMODE(os.stat(made).st_mode), 0o700, made)
            made = os.path.dirname(made)

    def test_a_compiler_that_does_not_end(self):
        """It is killed, and so is what it has started."""
        path = os.path.join(self.folder, "child")

        class Compiler(subprocess.Popen):
            """Its limit begins when it has told what it has started."""

            def __init__(self, *arguments, **keywords):
                super().__init__(*arguments, **keywords)
                until = time.monotonic() + 20
                while not os.path.exists(path) and time.monotonic() < until:
                    time.sleep(0.01)

        with self.environment(f'sleep 1000 & echo $! >{path}.new; mv {path}.new {path}; wait'), \
                unittest.mock.patch.object(build, "LONGEST_S", 0.5), unittest.mock.patch.object(subprocess, "Popen", Compiler), \
                self.assertRaisesRegex(build.CannotBuild, "has not ended within 0.5 s"):
            build.build(self.path)
        with open(path) as file:
            child = int(file.read())
        until = time.monotonic() + 20
        while is_running(child):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)

    def test_others_may_write(self):
        """What somebody else may have put there is not loaded."""
        os.makedirs(os.path.dirname(self.path))
        os.chmod(os.path.dirname(self.path), 0o777)
        with self.environment('echo >"$out"'), self.assertRaisesRegex(build.CannotBuild, "others may write"):
            build.build(self.path)
        self.assertEqual(calls(self.folder), 0)


def kind_of_group(rank, size, variables):
    """With these variables: the class of a new group, and what was warned of."""
    with Environment(**variables), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        groups = [dist.new_group(), dist.new_group()]
    x = torch.ones(3)
    for group in groups:
        dist.all_reduce(x, group=group)
    same(x, torch.full((3,), float(size) ** 2), "all_reduce")
    return type(groups[-1]).__name__, [str(one.message) for one in warned if "hocket" in str(one.message)]


class Modes(ranks.TestCase):
    """Started with HOCKET_TORCH_NATIVE=off, so that nothing is loaded before."""

    def kinds(self, folder, commands, mode):
        variables = {"HOCKET_TORCH_NATIVE": mode, "XDG_CACHE_HOME": os.path.join(folder, "cache"), "CXX": compiler(folder, commands)}
        with Environment(HOCKET_TORCH_NATIVE="off"):
            return self.check(2, kind_of_group, variables)

    def test_auto_never_builds(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.kinds(folder, "exit 1", "auto"), [("ProcessGroup", [])] * 2)
            self.assertEqual(calls(folder), 0)

    def test_on_says_once_why_not(self):
        with tempfile.TemporaryDirectory() as folder:
            for kind, warned in self.kinds(folder, "exit 1", "on"):
                self.assertEqual((kind, len(warned)), ("ProcessGroup", 1), warned)
                self.assertIn(" failed, as " if IS_NEW else "need torch 2.15 or later", warned[0])
                self.assertIn("python -m hocket.torch.native", warned[0])
            self.assertEqual(calls(folder), 2 if IS_NEW else 0)  # the second rank tries, too, since nothing is there

    def test_others(self):
        for mode in ("of", "ON"):
            with Environment(HOCKET_TORCH_NATIVE=mode), self.assertRaisesRegex(ValueError, "one of auto, on, off"):
                native.is_used()


def plain(rank, size):
    """Plain tensors take the native way, and others Python's; a group counts both."""
    group = dist.group.WORLD
    assert type(group).__name__ == "NativeProcessGroup", type(group)
    bridge = group._bridge

    def started(call):
        begin = bridge._sequence, group._get_sequence_number_for_group()
        call()
        return bridge._sequence - begin[0], group._get_sequence_number_for_group() - begin[1]

    x, out = torch.ones(4), torch.empty(size, 4)
    right, left = (rank + 1) % size, (rank + size - 1) % size

    def exchange():
        sent = dist.isend(x, right)
        dist.recv(out[0], left)
        sent.wait()

    natively = {
        "all_reduce": lambda: dist.all_reduce(x), "broadcast": lambda: dist.broadcast(x, 0), "reduce": lambda: dist.reduce(x, 0),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(out, x), "all_gather": lambda: dist.all_gather(list(out.unbind(0)), x),
        "in place": lambda: dist.all_gather_into_tensor(out, out[rank]), "barrier": dist.barrier,
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(x, out), "reduce_scatter": lambda: dist.reduce_scatter(x, list(out.unbind(0))),
        "all_to_all_single": lambda: dist.all_to_all_single(torch.empty_like(out), out),
    }
    for name, call in natively.items():
        assert started(call) == (0, 1), f"{name}: {started(call)}"
    assert started(exchange) == (0, 2), "messages"
    overlapping = torch.ones(4 * size + 1)
    in_python = {
        "every other": lambda: dist.all_reduce(torch.ones(8)[::2]), "bool": lambda: dist.all_reduce(torch.ones(3).bool()),
        "separate": lambda: dist.all_gather([torch.empty(4) for _ in range(size)], x),
        "overlapping": lambda: dist.all_gather_into_tensor(overlapping[1:], overlapping[:4]),
    }
    for name, call in in_python.items():
        assert started(call) == (1, 1), f"{name}: {started(call)}"


def seen(rank, size):
    """torch's hooks around collectives and its flight recorder see operations of both kinds, and their ends."""
    from torch._C import _distributed_c10d as c10d
    group, heard = dist.group.WORLD, []
    group.register_pre_hook(1 << 40, lambda told: heard.append(("before", told.name.name)))
    group.register_post_hook(1 << 40, lambda told: heard.append(("after", told.name.name)))
    dist.all_reduce(torch.ones(3))
    dist.all_reduce(torch.ones(6)[::2])
    assert heard == [("before", "ALLREDUCE"), ("after", "ALLREDUCE")] * 2, heard

    def states():
        return [entry["state"] for entry in pickle.loads(c10d._dump_fr_trace(backend="hocket"))["entries"]]

    dist.all_reduce(torch.ones(5), async_op=True).get_future().wait()
    waits = dist.irecv(torch.ones(2), (rank + 1) % size, tag=3)
    assert states() == ["completed"] * 3 + ["scheduled"], states()
    dist.send(torch.ones(2), (rank + size - 1) % size, tag=3)
    waits.wait()
    assert states() == ["completed"] * 5, states()


def kept(rank, size):
    """A work that is dropped while its operation goes on: its tensors live, and its communicator may be destroyed."""
    pending = dist.group.WORLD._communicator.pending
    x = torch.zeros(100)
    dist.irecv(x, (rank + 1) % size, tag=8)  # dropped
    assert len(pending) == 1, pending
    assert not dist.group.WORLD._communicator.calls.in_flight
    dist.barrier()
    dist.send(torch.ones(100), (rank + size - 1) % size, tag=8)
    dist.barrier()
    same(x, torch.ones(100), "a receive whose work was dropped")
    group = dist.new_group()
    work = group.recv([x], (rank + 1) % size, 9)
    dist.destroy_process_group(group)
    try:
        work.wait()
    except RuntimeError as error:
        assert "was destroyed before recv had ended" in str(error), error
    else:
        raise AssertionError("a receive in a group that was destroyed has ended")


@unittest.skipUnless(IS_NEW, f"needs torch {build.LEAST_TORCH}")
class Natively(ranks.TestCase):
    _folder: tempfile.TemporaryDirectory[str]
    _environment: Environment

    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory()
        cls._environment = Environment(HOCKET_TORCH_NATIVE="on",
                                       XDG_CACHE_HOME=os.environ.get("HOCKET_TEST_NATIVE_CACHE") or cls._folder.name)
        cls._environment.__enter__()
        try:
            build.path_of_built(True)
        except build.CannotBuild as error:
            cls.tearDownClass()
            raise unittest.SkipTest(str(error)) from None

    @classmethod
    def tearDownClass(cls):
        cls._environment.__exit__()
        cls._folder.cleanup()

    def test_plain(self):
        for size in (2, 3):
            with self.subTest(size=size):
                self.check(size, plain)

    def test_the_rest(self):
        for function in (seen, kept):
            with self.subTest(function=function.__name__):
                self.check(2, function)


if __name__ == "__main__":
    ranks.main()
