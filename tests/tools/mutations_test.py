#!/usr/bin/python3
"""tests/mutations/run: where a mutation fits, what it makes of a file, and that the file is as before at the end."""
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
import unittest
from unittest import mock

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mutations", "run")
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("mutations_run", PATH)
spec = importlib.util.spec_from_loader(loader.name, loader)
assert spec is not None
run = importlib.util.module_from_spec(spec)
loader.exec_module(run)

SOURCE = "int f() {\n    if (a)\n        return 1;\n    return 2;\n}\n"


def mutation(search, replace):
    return run.Mutation("area", "name", {"pair": "a / b", "program": "tests/test_f", "test": "f, and g", "why": "It is off.",
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
        with self.assertRaisesRegex(run.Stale, "does not occur: return"):
            mutation("return", "throw").apply_to(SOURCE)

    def test_a_line_that_occurs_twice_is_refused(self):
        with self.assertRaisesRegex(run.Stale, "occurs 2 times, in lines 3, 8: return 1;"):
            mutation("return 1;", "return 3;").apply_to(SOURCE + SOURCE)

    def test_a_mutation_that_changes_nothing_is_refused(self):
        with self.assertRaisesRegex(run.Stale, "the same"):
            mutation("return 1;", "return 1;").apply_to(SOURCE)

    def test_keys_that_are_missing_are_named(self):
        with self.assertRaisesRegex(SystemExit, "area.toml: name: .*: pair, program, replace, search, test, why"):
            run.Mutation("area", "name", {"file": "f.cpp"})


class Judging(unittest.TestCase):
    """`run` with a build and a test that only look at the source."""

    def judge(self, search, replace, test, build=lambda program: (0, "")):
        with tempfile.TemporaryDirectory() as tree:
            path = os.path.join(tree, "f.cpp")
            with open(path, "w", encoding="utf-8") as file:
                file.write(SOURCE)

            def content():
                with open(path, encoding="utf-8") as file:
                    return file.read()

            with mock.patch.multiple(run, TREE=tree, build=build, test=lambda mutation: (test(content()), "")):
                result = run.judge(mutation(search, replace))
            self.assertEqual(content(), SOURCE)
            return result

    def test_a_test_that_fails_has_caught_it(self):
        self.assertEqual(self.judge("return 2;", "return 3;", lambda source: (1, 0) if "2" in source else (0, 1)), (True, "caught"))

    def test_a_test_that_passes_has_not(self):
        self.assertEqual(self.judge("return 2;", "return 3;", lambda source: (1, 0)), (False, "SURVIVED"))

    def test_what_does_not_fit_counts_as_survived(self):
        caught, words = self.judge("return 9;", "return 3;", lambda source: (1, 0))
        self.assertFalse(caught)
        self.assertIn("does not fit f.cpp: its search does not occur: return 9;", words)

    def test_what_does_not_build_counts_as_survived(self):
        caught, words = self.judge("return 2;", "return", lambda source: (1, 0), lambda program: (1, "expected ;"))
        self.assertFalse(caught)
        self.assertIn("does not build\nexpected ;", words)


if __name__ == "__main__":
    unittest.main()
