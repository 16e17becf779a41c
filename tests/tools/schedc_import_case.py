"""What the tests of schedc import share."""
import os
import re
import subprocess
import tempfile
import unittest

PROGRAMS: list[str] = []  # schedc, and hocket-run and hocket-bench if schedules run, too


def schedc(*arguments, text=None):
    done = subprocess.run([PROGRAMS[0], *arguments], input=text, text=True, capture_output=True, timeout=120, env={**os.environ, "NO_COLOR": "1"})
    return done.returncode, done.stdout, done.stderr


def rounds(text):
    found = re.search(r"^# (\d+) round", text, re.MULTILINE)
    assert found
    return int(found[1])


class Import(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def imported(self, algorithm):
        status, out, err = schedc("import", "-", text=algorithm if isinstance(algorithm, str) else algorithm.text())
        self.assertEqual((status, err), (0, ""))
        return out

    def refused(self, text, *expected):
        status, out, err = schedc("import", "-", text=text if isinstance(text, str) else text.text())
        self.assertEqual((status, out), (1, ""), err)
        for one in expected:
            self.assertIn(one, err)
        return err

    def proved(self, text, ranks, definitions=2):
        path = self.path("a.sched", text)
        status, out, err = schedc("check", "--strict", "-n", str(ranks), "--", path)
        self.assertEqual(status, 0, err)
        self.assertIn(f"{definitions} definitions are right", out)
        self.assertEqual(schedc("fmt", "--check", path)[0], 0)

    def run_on(self, text, ranks):
        collective = re.search(r"^schedule \w+ (\w+)", text, re.MULTILINE)
        assert collective
        done = subprocess.run([PROGRAMS[1], "-n", str(ranks), PROGRAMS[2], collective[1], "--schedule", self.path("a.sched", text),
                               "-b", "4", "-e", "64K", "-f", "128", "-n", "1", "-w", "0"],
                              text=True, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
