#!/usr/bin/python3
"""Runs the programs of docs/python.md as they stand there, with two ranks, and compares what they print.

usage: tutorial_test.py HOCKET_RUN     (PYTHONPATH has the package)
"""
import os
import re
import sys
import tempfile
import unittest

import running

running.need_package()
HOCKET_RUN = sys.argv[1]
DOCUMENT = os.path.join(running.HERE, "..", "..", "docs", "python.md")


def programs():
    """Of the document: name -> text, and the lines that all ranks together print."""
    with open(DOCUMENT, encoding="utf-8") as file:
        text = file.read()
    blocks = re.findall(r"```python\n# (\w+\.py)\n(.*?)```\n(?:\n(?:    [^\n]*\n)+)?\n```text\n(.*?)```", text, re.DOTALL)
    if len(blocks) != text.count("```python"):
        raise AssertionError("a block of docs/python.md has no name in its first line, or no text that it prints below it")
    return {name: (program, sorted(said.splitlines())) for name, program, said in blocks}


class Tutorial(unittest.TestCase):
    def test_its_programs(self):
        found = programs()
        self.assertGreater(len(found), 5)
        with tempfile.TemporaryDirectory() as folder:
            for name, (program, want) in found.items():
                if "torch" in program and not running.has("torch"):
                    continue
                with self.subTest(program=name):
                    path = os.path.join(folder, "tutorial_" + name)
                    with open(path, "w") as file:
                        file.write(program)
                    code, said = running.run([HOCKET_RUN, "-n", "2", "--timeout", "60", sys.executable, path], 90)
                    self.assertEqual(code, 0, said)
                    self.assertEqual(sorted(re.sub(r"^\[\d\] ", "", line) for line in said.splitlines()), want, said)


if __name__ == "__main__":
    sys.exit(running.main())
