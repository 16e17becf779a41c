#!/usr/bin/python3
"""tools/check_commits, with a repository of its own: which messages it takes, what it says of others, and where it looks."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "check_commits")
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8",
               "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org",
               "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org"}
BODY = "\n\nA second push was counted twice.\n"


class Commits(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.repository = os.path.join(self.folder.name, "repository")
        os.makedirs(os.path.join(self.repository, "tools"))
        self.tool = shutil.copy(TOOL, os.path.join(self.repository, "tools"))
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", "tools")
        self.commit("Whatever came before the rules.")
        self.base = self.git("rev-parse", "HEAD")

    def git(self, *arguments, text=None):
        return subprocess.run(["git", *arguments], cwd=self.repository, env=ENVIRONMENT, input=text, text=True, check=True,
                              capture_output=True).stdout.strip()

    def commit(self, message):
        self.git("commit", "--quiet", "--allow-empty", "--cleanup=verbatim", "--file=-", text=message)

    def check(self, *arguments):
        done = subprocess.run([self.tool, *arguments], env=ENVIRONMENT, text=True, capture_output=True)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def takes(self, message):
        self.commit(message)
        status, said = self.check(self.base)
        self.assertEqual(status, 0, said)

    def refuses(self, message, fault):
        self.commit(message)
        status, said = self.check(self.base)
        self.assertEqual(status, 1, said)
        self.assertIn(f'{self.git("rev-parse", "HEAD")[:10]} "{message.splitlines()[0]}"', said)
        self.assertIn(fault, said)

    def test_takes_what_keeps_the_rules(self):
        self.takes("params: refuse a second push" + BODY)
        self.takes("runtime/params: feed what a server passes to its children" + BODY)
        self.takes("tests, docs: bring back the picture" + BODY)
        self.takes("ci: process " + "x" * 60 + BODY)
        self.takes("docs: link the page\n\nIt was lost:\nhttps://example.org/" + "x" * 120 + "\n")

    def test_refuses_a_subject_without_an_area(self):
        self.refuses("refuse a second push" + BODY, "has no area")
        self.refuses('Revert "params: refuse a second push"' + BODY, "has no area")

    def test_refuses_an_area_in_capitals(self):
        self.refuses("Params: refuse a second push" + BODY, "the area has capitals")

    def test_refuses_a_long_subject(self):
        self.refuses("params: refuse " + "x" * 58 + BODY, "73 characters, 72 at most")

    def test_refuses_a_full_stop(self):
        self.refuses("params: refuse a second push." + BODY, "full stop")

    def test_refuses_a_capital_after_the_area(self):
        self.refuses("params: Refuse a second push" + BODY, "has a capital")

    def test_refuses_what_is_no_order(self):
        self.refuses("params: refused a second push" + BODY, '"refused" tells the past')
        self.refuses("params: refusing a second push" + BODY, '"refusing" is a form in -ing')
        self.refuses("params: refuses a second push" + BODY, '"refuses" says')
        self.refuses("params: a second push is refused" + BODY, '"a" is no verb')

    def test_refuses_a_missing_body(self):
        self.refuses("params: refuse a second push\n", "there is no body")
        self.refuses("params: refuse a second push\n\nSigned-off-by: A <a@example.org>\n", "there is no body")

    def test_refuses_a_body_that_begins_at_once(self):
        self.refuses("params: refuse a second push\nIt was counted twice.\n", "leave it empty")

    def test_refuses_a_wide_body(self):
        self.refuses("params: refuse a second push\n\n" + "word " * 20 + "x\n", "line 3 has 101 characters")

    def test_leaves_merges_alone(self):
        self.git("checkout", "--quiet", "-b", "other", self.base)
        self.commit("docs: add a page" + BODY)
        self.git("checkout", "--quiet", "main")
        self.commit("docs: add another page" + BODY)
        self.git("merge", "--quiet", "--no-ff", "-m", "Merge branch 'other'", "other")
        status, said = self.check(self.base)
        self.assertEqual(status, 0, said)
        self.assertIn("2 of 2 commits", said)

    def test_looks_at_what_a_branch_has_of_its_own(self):
        self.git("checkout", "--quiet", "-b", "other")
        self.commit("docs: add a page" + BODY)
        self.git("checkout", "--quiet", "main")
        self.commit("Added on main")
        self.git("checkout", "--quiet", "other")
        status, said = self.check("main")
        self.assertEqual(status, 0, said)
        self.assertIn("1 of 1 commits", said)

    def test_passes_where_the_base_is_not_in_the_clone(self):
        self.commit("Wrong")
        for arguments in [("1" * 40,), ()]:
            status, said = self.check(*arguments)
            self.assertEqual(status, 0, said)
            self.assertIn("nothing is checked", said)

    def test_passes_in_a_shallow_clone_that_lacks_the_base(self):
        self.commit("Wrong")
        shallow = os.path.join(self.folder.name, "shallow")
        self.git("clone", "--quiet", "--depth=1", "file://" + self.repository, shallow)
        self.tool = os.path.join(shallow, "tools", "check_commits")
        status, said = self.check(self.base)
        self.assertEqual(status, 0, said)
        self.assertIn("nothing is checked", said)

    def test_passes_without_a_repository(self):
        shutil.rmtree(os.path.join(self.repository, ".git"))
        status, said = self.check()
        self.assertEqual(status, 0, said)
        self.assertIn("nothing is checked", said)

    def test_looks_at_the_commits_after_the_newest_tag(self):
        with open(self.tool) as file:
            text = file.read()
        begin = text.index('RULES_SINCE = "') + len('RULES_SINCE = "')
        with open(self.tool, "w") as file:
            file.write(text[:begin] + self.base + text[begin + 40:])
        self.git("tag", "v0", self.base + "~0")
        self.commit("Wrong")
        self.assertIn("0 of 1 commits", self.check()[1])
        self.git("tag", "v1")
        self.commit("docs: add a page" + BODY)
        status, said = self.check()
        self.assertEqual(status, 0, said)
        self.assertIn("1 of 1 commits", said)


if __name__ == "__main__":
    if shutil.which("git", path=ENVIRONMENT["PATH"]) is None:
        print("skipped: git is not installed: apt-get install git")
        sys.exit(77)
    unittest.main()
