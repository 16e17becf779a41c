#!/usr/bin/python3
"""tests/mutations/run: where a mutation fits, what it makes of a file, how tests judge it, and that the file is as before at the end."""
import os
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mutations"))
import mutated_tree
import mutation_tables
import verdicts

SOURCE = "int f() {\n    if (a)\n        return 1;\n    return 2;\n}\n"


def mutation(search, replace):
    return mutation_tables.Mutation("area", "name", {"pair": "a / b", "program": "tests/test_f", "test": "f, and g", "why": "It is off.",
                                         "file": "f.cpp", "search": search, "replace": replace})


class Replacing(unittest.TestCase):
    def test_a_line_keeps_its_indentation(self):
        self.assertEqual(mutation("return 1;", "return 3;").apply_to(SOURCE), SOURCE.replace("1", "3"))

    def test_nothing_in_its_place_removes_the_line(self):
        self.assertEqual(mutation("return 2;", "").apply_to(SOURCE), SOURCE.replace("    return 2;\n", ""))

    def test_lines_of_a_block_keep_their_indentation(self):
        changed = mutation("if (a)\n    return 1;\n", "if (b)\n    return 1;\n").apply_to(SOURCE)
        self.assertEqual(changed, SOURCE.replace("(a)", "(b)"))

    def test_part_of_a_line_is_no_line(self):
        with self.assertRaisesRegex(mutation_tables.Stale, "does not occur: return"):
            mutation("return", "throw").apply_to(SOURCE)

    def test_a_line_that_occurs_twice_is_refused(self):
        with self.assertRaisesRegex(mutation_tables.Stale, "occurs 2 times, in lines 3, 8: return 1;"):
            mutation("return 1;", "return 3;").apply_to(SOURCE + SOURCE)

    def test_a_mutation_that_changes_nothing_is_refused(self):
        with self.assertRaisesRegex(mutation_tables.Stale, "the same"):
            mutation("return 1;", "return 1;").apply_to(SOURCE)

    def test_keys_that_are_missing_are_named(self):
        with self.assertRaisesRegex(SystemExit, "area.toml: name: .*: pair, program, replace, search, test, why"):
            mutation_tables.Mutation("area", "name", {"file": "f.cpp"})


class Judging(unittest.TestCase):
    """`judge` in a tree of one file, with a build and a test that only look at the file."""

    def setUp(self):
        work = self.enterContext(tempfile.TemporaryDirectory())
        self.tree = os.path.join(work, "tree")
        os.mkdir(self.tree)
        self.path = os.path.join(self.tree, "f.cpp")
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(SOURCE)
        self.enterContext(mock.patch.multiple(mutated_tree, WORK=work, TREE=self.tree))
        self.enterContext(mock.patch.multiple(verdicts, WORK=work, TREE=self.tree))
        self.asked: list[tuple[bool, bool]] = []  # the form of each test without a mutation

    def judge(self, search, replace, test, build=lambda programs, layer=None: (0, ""), can_mount=False):
        def test_layer(mutation, layer, is_long, limit_s=0, alone=False, options=()):
            if not options:
                self.asked.append((is_long, alone))
            with open(self.path if layer is None else os.path.join(layer, "upper", "f.cpp"), encoding="utf-8") as file:
                passed, failed = test(file.read(), is_long, alone)
            said = f"{mutated_tree.HANGS} 60 s" if failed == 2 else ""
            return verdicts.End(passed, failed, said, 60 if failed == 2 else 1, is_killed=failed == 3)

        layers = mutated_tree.Layers()
        self.assertFalse(os.listdir(layers.folder))
        layers.can_mount = can_mount
        with mock.patch.object(verdicts, "test", test_layer), mock.patch.object(verdicts, "build", build), \
                mock.patch.object(mutated_tree, "build", build):
            result = verdicts.judge(mutation(search, replace), layers, verdicts.Unchanged(layers))
        with open(self.path, encoding="utf-8") as file:
            self.assertEqual(file.read(), SOURCE)
        self.assertFalse(os.listdir(layers.folder))
        return result

    def test_a_test_that_fails_has_caught_it(self):
        caught = self.judge("return 2;", "return 3;", lambda source, is_long, alone: (1, 0) if "2" in source else (0, 1))
        self.assertEqual(caught, (True, "caught"))
        self.assertEqual(self.asked, [(True, False), (False, False)])

    def test_a_test_that_does_not_end_has_caught_it_and_this_is_said(self):
        caught = self.judge("return 2;", "return 3;", lambda source, is_long, alone: (1, 0) if "2" in source else (0, 2))
        self.assertEqual(caught, (True, "caught (it ran for more than 60 s)"))

    def test_a_test_that_was_killed_says_nothing(self):
        caught, words = self.judge("return 2;", "return 3;", lambda source, is_long, alone: (1, 0) if "2" in source else (0, 3))
        self.assertFalse(caught)
        self.assertIn("NOT TESTED: something killed the test", words)

    def test_the_long_form_is_asked_where_the_usual_one_passes(self):
        for usual in ((1, 0), (0, 0)):
            with self.subTest(usual=usual):
                caught = self.judge("return 2;", "return 3;",
                                    lambda source, is_long, alone: usual if not is_long else (1, 0) if "2" in source else (0, 1))
                self.assertEqual(caught, (True, "caught (long form)"))

    def test_a_test_that_passes_has_not(self):
        self.assertEqual(self.judge("return 2;", "return 3;", lambda source, is_long, alone: (1, 0)), (False, "SURVIVED"))

    def test_a_test_that_is_skipped_has_not(self):
        caught = self.judge("return 2;", "return 3;", lambda source, is_long, alone: (1, 0) if "2" in source else (0, 0))
        self.assertEqual(caught, (False, "SURVIVED"))

    def test_a_test_that_fails_without_it_says_nothing_unless_it_passes_alone(self):
        caught, words = self.judge("return 2;", "return 3;", lambda source, is_long, alone: (0, 1))
        self.assertFalse(caught)
        self.assertIn("NOT TESTED: without it the test does not pass", words)
        self.assertEqual(self.asked, [(True, False), (True, True), (False, False), (False, True)])
        caught = self.judge("return 2;", "return 3;", lambda source, is_long, alone: (1, 0) if alone else (0, 1))
        self.assertEqual(caught, (True, "caught"))

    def test_a_test_that_nothing_runs_says_nothing(self):
        caught, words = self.judge("return 2;", "return 3;", lambda source, is_long, alone: (0, 0))
        self.assertFalse(caught)
        self.assertIn("NOT TESTED: no test case ran", words)

    def test_what_does_not_fit_counts_as_survived(self):
        caught, words = self.judge("return 9;", "return 3;", lambda source, is_long, alone: (1, 0))
        self.assertFalse(caught)
        self.assertIn("does not fit f.cpp: its search does not occur: return 9;", words)

    def test_what_does_not_build_counts_as_survived(self):
        caught, words = self.judge("return 2;", "return", lambda source, is_long, alone: (1, 0),
                                   lambda programs, layer=None: (1, "expected ;"))
        self.assertFalse(caught)
        self.assertIn("does not build\nexpected ;", words)

    def test_a_deadline_that_passes_without_it_too_says_nothing(self):
        lately = "NOT TESTED: it fails late, and without the mutation, too"
        for passes, words in ((True, "caught (it ran for more than 60 s)"), (False, lately)):
            with self.subTest(passes=passes), \
                    mock.patch.object(verdicts.Unchanged, "end_of", lambda self, mutation, is_long: verdicts.End(1, 0, "", 1)), \
                    mock.patch.object(verdicts.Unchanged, "passes_now", lambda self, mutation, is_long: passes):
                judged = self.judge("return 2;", "return 3;", lambda source, is_long, alone: (0, 2), can_mount=True)
                self.assertEqual(judged[0], passes)
                self.assertEqual(judged[1].split("\n")[0], words)

    def test_the_tree_stays_as_it_is_while_a_layer_is_judged(self):
        def build(programs, layer):
            with open(self.path, encoding="utf-8") as file:
                self.assertEqual(file.read(), SOURCE)
            return 0, ""

        def test(source, is_long, alone):
            return (1, 0) if "2" in source else (0, 1)

        with mock.patch.object(verdicts.Unchanged, "end_of", lambda self, mutation, is_long: verdicts.End(1, 0, "", 1)):
            self.assertEqual(self.judge("return 2;", "return 3;", test, build, can_mount=True), (True, "caught"))


class Layers(unittest.TestCase):
    def setUp(self):
        self.work = self.enterContext(tempfile.TemporaryDirectory())
        self.tree = os.path.join(self.work, "tree")
        os.mkdir(self.tree)
        with open(os.path.join(self.tree, "f.cpp"), "w", encoding="utf-8") as file:
            file.write(SOURCE)
        self.enterContext(mock.patch.multiple(mutated_tree, WORK=self.work, TREE=self.tree))

    def test_a_command_sees_the_layer_and_writes_to_it_alone(self):
        layers = mutated_tree.Layers()
        if not layers.can_mount:
            self.skipTest("overlays cannot be mounted")
        with layers.changed(mutation("return 2;", "return 3;"), "changed") as layer:
            status, said = mutated_tree.run(["sh", "-c", "cat f.cpp; echo built >f.o; rm f.cpp; ls"], layer=layer)
            self.assertEqual((status, said), (0, "changedf.o\n"))
            status, said = mutated_tree.run(["sh", "-c", "ls"], layer=layer)
            self.assertEqual((status, said), (0, "f.o\n"))
        self.assertEqual(os.listdir(self.tree), ["f.cpp"])
        self.assertEqual(mutated_tree.run(["cat", "f.cpp"]), (0, SOURCE))

    def test_a_command_that_hangs_ends(self):
        ended = mutated_tree.run(["sh", "-c", "echo begun; sleep 100"], limit_s=0.2)
        self.assertEqual(ended, (mutated_tree.HUNG, "it ran for more than 0 s\nbegun\n"))


    def test_a_run_that_ends_before_its_time_leaves_nothing(self):
        machine = mutated_tree.Machine(1)
        with mock.patch.object(mutated_tree, "machine", machine):
            timer = threading.Timer(0.1, machine.stop)
            timer.start()
            for _ in range(2):
                with self.assertRaises(mutated_tree.Stopped):
                    mutated_tree.run(["sleep", "100"])
            timer.join()


class Turns(unittest.TestCase):
    def test_one_that_runs_alone_waits_for_the_others(self):
        machine, ended, waits = mutated_tree.Machine(2), [], []

        def alone(name):
            waits.append(name)
            with machine.part(alone=True):
                ended.append(name)

        threads = [threading.Thread(target=alone, args=[name]) for name in ("a", "b")]
        with machine.part(alone=False):
            for thread in threads:
                thread.start()
            while len(waits) < 2:
                time.sleep(0.001)
            self.assertEqual(ended, [])
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(ended), ["a", "b"])


class Continuing(unittest.TestCase):
    """What a run leaves for one that continues it."""

    def setUp(self):
        self.work = self.enterContext(tempfile.TemporaryDirectory())
        self.tree = os.path.join(self.work, "tree")
        os.mkdir(self.tree)
        self.write("f.cpp", SOURCE)
        self.enterContext(mock.patch.multiple(mutated_tree, TREE=self.tree, BUILD=os.path.join(self.tree, "build")))
        self.enterContext(mock.patch.object(verdicts, "WORK", self.work))

    def write(self, name, content):
        with open(os.path.join(self.tree, name), "w", encoding="utf-8") as file:
            file.write(content)

    def test_a_verdict_holds_for_the_same_sources_and_the_same_mutation(self):
        one, other = mutation("return 1;", "return 3;"), mutation("return 2;", "return 3;")
        verdicts.Results(False).add(one, False, "SURVIVED")
        self.assertEqual(verdicts.Results(True).of(one), (False, "SURVIVED"))
        self.assertIsNone(verdicts.Results(True).of(other))
        self.assertIsNone(verdicts.Results(False).of(one))
        self.write("g.cpp", "")
        self.assertIsNone(verdicts.Results(True).of(one))

    def test_a_mutation_that_was_not_tested_is_judged_again(self):
        one = mutation("return 1;", "return 3;")
        verdicts.Results(False).add(one, False, "NOT TESTED: without it the test does not pass")
        self.assertIsNone(verdicts.Results(True).of(one))


if __name__ == "__main__":
    unittest.main()
