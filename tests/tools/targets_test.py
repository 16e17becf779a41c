#!/usr/bin/python3
"""Checks that the test programs and tools that scripts and documents name are targets of the build: a script that
looks for a program at its former place may skip it without a word.

usage: tests/tools/targets_test.py BUILD
"""
import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = sys.argv.pop(1)
IN_BUILD = re.compile(r"(?:\bbuild|\$hocket|\$build)/((?:tests|tools)/[\w/-]*\w)(?![\w./*-])")
TEST_PROGRAM = re.compile(r"(?<![\w/])(tests/(?:\w+/)*test_\w+)(?![\w.*])")

MADE_UP = {"tests/tools/mutations_test.py", "tests/tools/targets_test.py"}  # their programs exist nowhere


def named_programs(text):
    return set(IN_BUILD.findall(text)) | set(TEST_PROGRAM.findall(text))


class Targets(unittest.TestCase):
    def test_named_programs_are_targets(self):
        listed = subprocess.run(["ninja", "-C", BUILD, "-t", "targets", "all"], capture_output=True, text=True, check=True)
        targets = {line.partition(":")[0] for line in listed.stdout.splitlines()}
        folders = {os.path.dirname(target) for target in targets}
        files = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                               capture_output=True, text=True).stdout.split("\0")
        if files == [""]:
            self.skipTest("this is no checkout")
        named = 0
        for name in files:
            path = os.path.join(ROOT, name)
            if not os.path.isfile(path) or name in MADE_UP:
                continue
            with open(path, encoding="utf-8", errors="replace") as file:
                programs = named_programs(file.read())
            named += len(programs)
            for program in programs:
                self.assertTrue(program in targets or program in folders or os.path.exists(os.path.join(ROOT, program)),
                                f"{name} names {program}, which is no target of the build")
        self.assertGreater(named, 100)

    def test_names_are_found(self):
        self.assertEqual(named_programs('if [[ -x $hocket/tests/capi/test_a ]]; then build/tools/schedc x; fi; build/tests/*.log'),
                         {"tests/capi/test_a", "tools/schedc"})
        self.assertEqual(named_programs('program = "tests/multi/test_b"\nbuild/tools/schedc.man tests/torch/test_c.py'), {"tests/multi/test_b"})


if __name__ == "__main__":
    unittest.main()
