"""How tests end without a mutation and with it."""
import contextlib
import hashlib
import json
import os
import signal
import tempfile
import threading
import time
import typing

from mutated_tree import BUILD, HANGS, TREE, WORK, build, digest_of_tree, run
from mutation_tables import Stale

TEST_S = 900  # at most


class End(typing.NamedTuple):
    """How a test program ended. One that crashes or hangs has failed."""
    passed: int
    failed: int
    said: str
    seconds: float
    is_killed: bool = False  # by whoever ends programs on this machine


def test(mutation, layer, is_long, limit_s=TEST_S, alone=False, options=()):
    """Runs the test cases that the filter names."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        counts = os.path.join(folder, "counts")
        variables = {"HOCKET_TEST_COUNTS": counts, **({"HOCKET_TEST_LONG": "1"} if is_long else {})}
        status, said = run([os.path.join(BUILD, mutation.program), mutation.filter, *options], limit_s, layer, alone, **variables)
        try:
            with open(counts) as file:
                passed, failed, _ = (int(word) for word in file.read().split())
        except (OSError, ValueError):
            passed, failed = 0, 1
    is_killed = -status in (signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
    return End(passed, failed if status == 0 else max(failed, 1), said, time.monotonic() - begin, is_killed)


class Unchanged:
    """How tests end without a mutation. Each form of each runs once; one that fails, once more and alone."""
    def __init__(self, layers):
        self.layers, self.lock = layers, threading.Lock()
        self.locks: dict[tuple[str, str, bool], threading.Lock] = {}
        self.ends: dict[tuple[str, str, bool], End] = {}

    def end_of(self, mutation, is_long):
        key = mutation.program, mutation.test, is_long
        with self.lock:
            own = self.locks.setdefault(key, threading.Lock())
        with own, self.layers.new() as layer:
            if key not in self.ends:
                end = test(mutation, layer, is_long)
                self.ends[key] = end if end.failed == 0 else test(mutation, layer, is_long, alone=True)
            return self.ends[key]

    def passes_now(self, mutation, is_long):
        with self.layers.new() as layer:
            return test(mutation, layer, is_long).failed == 0


def judge(mutation, layers, unchanged):
    """(caught, in words)."""
    try:
        with open(os.path.join(TREE, mutation.file), encoding="utf-8") as file:
            content = mutation.apply_to(file.read())
    except (OSError, Stale) as error:
        return False, f"NOT TESTED: it does not fit {mutation.file}: its search {error}"
    if not layers.can_mount:
        unchanged.end_of(mutation, True)  # later the tree itself is changed
    is_built = False
    with contextlib.ExitStack() as stack:
        layer = None
        # Tests with many cases have a sample of them (tests/support/long_form.hpp), which is enough for most mutations.
        for is_long in (False, True):
            before = unchanged.end_of(mutation, is_long)
            if before.failed != 0:
                return False, "NOT TESTED: without it the test does not pass\n" + before.said[-2000:]
            if before.passed == 0:
                continue
            if not is_built:
                layer = stack.enter_context(layers.changed(mutation, content))
                status, said = build([mutation.program], layer)
                if status != 0:
                    if "static assertion failed" in said:
                        return True, "caught (by the compiler)"
                    return False, "NOT TESTED: with it the test does not build\n" + said[-2000:]
                is_built = True
            # A test that hangs must not hang for long; it has the time that it would need on a machine with many times the load.
            limit_s = min(TEST_S, 60 + 10 * before.seconds)
            after = test(mutation, layer, is_long, limit_s, options=["--abort"])
            if after.is_killed:
                return False, "NOT TESTED: something killed the test\n" + after.said[-2000:]
            if after.failed != 0:
                note(mutation, after.said)
                # A deadline that passed may be the load's fault.
                if after.seconds > 5 + 2 * before.seconds and layers.can_mount and not unchanged.passes_now(mutation, is_long):
                    return False, "NOT TESTED: it fails late, and without the mutation, too\n" + after.said[-2000:]
                hang = after.said.split("\n")[0]
                return True, "caught" + (f" ({hang})" if hang.startswith(HANGS) else " (long form)" if is_long else "")
    if not is_built:
        return False, "NOT TESTED: no test case ran, as there is none of this name, or it is skipped"
    return False, "SURVIVED"


def note(mutation, said):
    """Keeps what a test said of a mutation, as it may have failed for another reason."""
    folder = os.path.join(WORK, "said")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, mutation.name), "w", encoding="utf-8") as file:
        file.write(said)


class Results:
    """The verdicts, which a run leaves for one that continues it."""
    def __init__(self, is_continued):
        self.path, self.sources, self.lock = os.path.join(WORK, "results"), digest_of_tree(), threading.Lock()
        self.known = {}
        if is_continued and os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                for line in file:
                    key, caught, words = json.loads(line)
                    self.known[key] = caught, words

    def key(self, mutation):
        return hashlib.sha256(json.dumps([self.sources, mutation.table], sort_keys=True).encode()).hexdigest()

    def of(self, mutation):
        return self.known.get(self.key(mutation))

    def add(self, mutation, caught, words):
        with self.lock:
            self.known[self.key(mutation)] = caught, words
            # A mutation that cannot be tested is judged again: what is at fault may be the machine.
            if not words.startswith("NOT TESTED"):
                with open(self.path, "a", encoding="utf-8") as file:
                    file.write(json.dumps([self.key(mutation), caught, words]) + "\n")
