#!/usr/bin/python3
"""schedc fmt, as its users run it: what it writes, what it leaves alone, and what it says.

usage: tests/tools/schedc_format_test.py SCHEDC SCHEDULES
"""
import os
import subprocess
import sys
import tempfile
import unittest

SCHEDC, SCHEDULES = "", ""
UGLY = b"# head\nalgorithm a all_gather(x) over g {\neach r in g,q in g where q!=r\nx[r]:r->q # all\n}\n"
PRETTY = b"""# head
algorithm a all_gather(x) over g {
    each r in g, q in g where q != r
        x[r] : r -> q  # all
}
"""


def schedc(*arguments, text=b""):
    done = subprocess.run([SCHEDC, "fmt", *arguments], input=text, capture_output=True, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def patched(content, diff):
    """Applies a unified diff."""
    old, at = content.splitlines(keepends=True), 0
    new: list[bytes] = []
    removed: list[bytes] = []
    before = b""
    for line in diff.splitlines(keepends=True)[2:]:
        if line.startswith(b"@@"):
            first, count = (int(number) for number in line.split()[1][1:].split(b","))
            start = first - 1 if count else first
            new += old[at:start]
            at = start
        elif line.startswith(b"\\"):
            last = new if before == b"+" else removed
            last[-1] = last[-1].removesuffix(b"\n")
        else:
            removed = [line[1:]] if line[:1] == b"-" else []
            if line[:1] != b"+":
                at += 1
            if line[:1] == b" ":
                assert old[at - 1] == line[1:], line
            if line[:1] != b"-":
                new.append(line[1:])
            before = line[:1]
    return b"".join(new + old[at:])


class Format(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name, content):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def content(self, path):
        with open(path, "rb") as file:
            return file.read()

    def test_the_library_is_formatted(self):
        self.assertEqual(schedc("--check", "--diff", SCHEDULES), (0, "", ""))

    def test_formats_in_place_and_then_no_more(self):
        path = self.file("a.sched", UGLY)
        os.chmod(path, 0o640)
        self.assertEqual(schedc(path), (0, f"{path}: formatted\n", ""))
        self.assertEqual(self.content(path), PRETTY)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o640)
        before = os.stat(path)
        self.assertEqual(schedc(path), (0, "", ""))
        self.assertEqual(os.stat(path).st_ino, before.st_ino)
        self.assertEqual(os.listdir(self.folder), ["a.sched"])

    def test_formats_standard_input(self):
        self.assertEqual(schedc("-", text=UGLY), (0, PRETTY.decode(), ""))
        status, out, err = schedc("-", text=b"algorithm a")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("<stdin>:1:12: error: expected a collective", err)

    def test_formats_what_is_below_a_folder(self):
        paths = [self.file(name, UGLY) for name in ("b/c.sched", "b/a.sched", "b/d/e.sched")]
        other = self.file("b/f.txt", UGLY)
        status, out, _ = schedc(os.path.join(self.folder, "b"))
        self.assertEqual((status, out.splitlines()), (0, sorted(f"{path}: formatted" for path in paths)))
        self.assertEqual(self.content(other), UGLY)
        os.mkdir(os.path.join(self.folder, "empty"))
        status, _, err = schedc(os.path.join(self.folder, "empty"))
        self.assertEqual(status, 1)
        self.assertIn("empty has no .sched files", err)

    def test_check_and_diff_write_nothing(self):
        path = self.file("a.sched", UGLY)
        self.assertEqual(schedc("--check", path), (1, f"{path}: not formatted\n", ""))
        status, out, _ = schedc("--diff", path)
        self.assertEqual(status, 1)
        self.assertEqual(self.content(path), UGLY)
        # What patch makes of it is what would have been written.
        self.assertEqual(patched(UGLY, out.encode()), PRETTY)
        self.file("a.sched", PRETTY)
        self.assertEqual(schedc("--check", "--diff", path), (0, "", ""))

    def test_a_diff_has_hunks_where_the_changes_are(self):
        lines = [b"algorithm a%d all_gather(x) over g {}\n" % i for i in range(60)]
        lines[9] = b"algorithm  a9 all_gather(x) over g {  }\n\n\n\n"
        lines[12] = b"algorithm a12 all_gather( x ) over g\n{\n}\n"
        lines[40] = b"algorithm a40 all_gather(x) over g{}\r\n"
        lines[59] = b"algorithm a59 all_gather(x) over g { x:0->1 }"
        path = self.file("a.sched", b"".join(lines))
        status, out, _ = schedc("--diff", path)
        self.assertEqual((status, out.count("@@ -")), (1, 3))
        self.assertIn("\\ No newline at end of file", out)
        self.assertEqual(schedc(path)[0], 0)
        self.assertEqual(patched(b"".join(lines), out.encode()), self.content(path))

    def test_leaves_alone_what_does_not_parse_and_formats_the_rest(self):
        wrong, right = self.file("a.sched", b"algorithm  a"), self.file("b.sched", UGLY)
        status, out, err = schedc(wrong, os.path.join(self.folder, "none.sched"), right)
        self.assertEqual((status, out), (1, f"{right}: formatted\n"))
        self.assertIn(f"{wrong}:1:13: error: expected a collective", err)
        self.assertIn("none.sched: ", err)
        self.assertEqual(self.content(wrong), b"algorithm  a")
        self.assertEqual(self.content(right), PRETTY)

    def test_a_link_stays_one(self):
        path, link = self.file("a.sched", UGLY), os.path.join(self.folder, "link.sched")
        os.symlink("a.sched", link)
        self.assertEqual(schedc(link)[0], 0)
        self.assertTrue(os.path.islink(link))
        self.assertEqual(self.content(path), PRETTY)

    @unittest.skipIf(os.getuid() == 0, "root writes everywhere")
    def test_says_what_cannot_be_written(self):
        path = self.file("locked/a.sched", UGLY)
        os.chmod(os.path.dirname(path), 0o500)
        status, _, err = schedc(path)
        os.chmod(os.path.dirname(path), 0o700)
        self.assertEqual(status, 1)
        self.assertIn(f"cannot write {path}: Permission denied", err)


if __name__ == "__main__":
    SCHEDC, SCHEDULES = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
