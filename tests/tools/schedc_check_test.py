#!/usr/bin/python3
"""schedc check, as its users and their tools run it: which files and definitions, and its messages in every form.

usage: tests/tools/schedc_check_test.py SCHEDC SCHEDULES
"""
import json
import os
import pty
import subprocess
import sys
import tempfile
import unittest

SCHEDC, SCHEDULES = "", ""
RIGHT = """algorithm tree broadcast(x, root; radix = 2) over g where radix >= 2 {
    for k in 0 ..< log_up(g.size, radix)
        each i in 0 ..< radix**k, j in 1 ..< min(radix, g.size) let child = i + j * radix**k where child < g.size
            x : root + i -> root + child
}
schedule all broadcast(x, root) { broadcast x over world from root using tree }
"""
# The character before the fault takes two bytes.
WRONG = "# é\nalgorithm ring all_gather(x) over g { # é\n    each r in g /* é */ x[r] : r -> r + 1\n}\n"
UNPROVED = "schedule bad all_reduce(x) {\n    all_reduce x over world using none\n}\n"
TWICE = "algorithm a all_gather(x) over g {}\nalgorithm a all_gather(x) over g {}\n"


def schedc(*arguments, text=None, **environment):
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "CLICOLOR_FORCE", "TERM")}
    done = subprocess.run([SCHEDC, *arguments], input=text, text=True, capture_output=True, timeout=120, env={**clean, **environment})
    return done.returncode, done.stdout, done.stderr


def on_terminal(*arguments, **environment):
    """What a terminal gets from stderr."""
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "CLICOLOR_FORCE")}
    ours, theirs = pty.openpty()
    process = subprocess.Popen([SCHEDC, *arguments], stdout=subprocess.DEVNULL, stderr=theirs, env={**clean, "TERM": "xterm", **environment})
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 4096):
            said += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    process.wait(timeout=120)
    return said.decode()


class Check(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def lines(self, *arguments, **more):
        status, out, err = schedc("check", "--message-format", "json", *arguments, "-n", "3", "-t", "3", **more)
        self.assertEqual(err, "")
        return status, [json.loads(line) for line in out.splitlines()]


class Files(Check):
    def test_one_definition_of_a_file(self):
        path = self.file("a.sched", RIGHT)
        status, lines = self.lines(f"{path}:tree")
        self.assertEqual((status, [line.get("definition") for line in lines]), (0, ["algorithm tree(2) broadcast", None]))
        status, lines = self.lines(f"{path}:tree(3)")
        self.assertEqual(lines[0]["definition"], "algorithm tree(3) broadcast")
        self.assertEqual(lines[-1], {"kind": "sum", "right": 1, "wrong": 0, "warnings": 0})
        status, lines = self.lines(f"{path}:tree(1)")
        self.assertEqual((status, lines[0]["kind"]), (1, "error"))
        status, lines = self.lines(f"{path}:bush")
        self.assertEqual((status, lines[0]["message"]), (1, f"{path} defines no 'bush'"))
        status, lines = self.lines(f"{path}:tree(")
        self.assertEqual((status, lines[0]["kind"]), (1, "error"))

    def test_a_wrong_algorithm_tells_on_which_ranks_it_is_right(self):
        def hint(body, group="g"):
            path = self.file("wrong.sched", f"algorithm a all_reduce(x) over {group} {{ {body} }}\n")
            return self.lines(path)[1][0].get("hint", "")
        self.assertIn("right on 2, 4 and 8 ranks: write `where pow2(g.size)`",
                      hint("for k in 0 ..< log2_up(g.size)  each r in g  x : r +> r xor 2**k"))
        self.assertIn("of 2 to 8 ranks it is right on 4 alone: write `where team.size == 4`",
                      hint("for s in 1 ..< 4  each r in team  x[r - s] : r +> r + 1 "
                           "for s in 0 ..< 3  each r in team  x[r - s] : r -> r + 1", "team"))
        self.assertEqual(hint("x : 0 +> 1"), "")

    def test_several_values_of_a_parameter(self):
        path = self.file("a.sched", RIGHT)
        status, lines = self.lines("--with", "radix=2,3,8", path)
        self.assertEqual(status, 0)
        self.assertEqual([line.get("definition") for line in lines],
                         ["algorithm tree(2) broadcast", "algorithm tree(3) broadcast", "algorithm tree(8) broadcast",
                          "schedule all broadcast", None])
        _, lines = self.lines("--with", "radix=2", path, path)
        self.assertEqual(lines[-1]["right"], 4)
        status, lines = self.lines("--with", "radix=2,1", path)
        self.assertEqual((status, lines[-1]), (1, {"kind": "sum", "right": 2, "wrong": 1, "warnings": 0}))
        flat = os.path.join(SCHEDULES, "flat.sched")
        _, lines = self.lines("--with", "scatter=ring,direct", "--with", "gather=ring,direct", flat)
        self.assertEqual([line.get("definition") for line in lines][:-1],
                         [f"schedule flat(scatter = {one}, gather = {other}) all_reduce" for one in ("ring", "direct") for other in ("ring", "direct")])

    def test_values_that_are_none(self):
        path = self.file("a.sched", RIGHT)
        for given, said in (("radix", "gives no values"), ("=2", "gives no values"), ("radix=2,", "gives no values"),
                            ("size=2", "has a parameter 'size'")):
            status, lines = self.lines("--with", given, path)
            self.assertEqual(status, 1)
            self.assertIn(said, lines[-2 if lines[-1]["kind"] == "sum" else -1]["message"])

    def test_a_misspelled_parameter_is_no_definition(self):
        path = self.file("a.sched", RIGHT)
        status, _, err = schedc("check", "-n", "3", "-t", "3", "--with", "raidx=2", path)
        self.assertEqual((status, err.splitlines()),
                         (1, [f"error: nothing that is checked in {path} has a parameter 'raidx' (did you mean 'radix'?)",
                              "1 error; 2 definitions are right"]))

    def test_topologies_of_the_file_are_the_only_ones(self):
        path = self.file("a.sched", RIGHT + "topology box { level box[5] {} }\n")
        note = "; only the file's own topologies (-t names others)"
        _, out, _ = schedc("check", f"{path}:all")
        self.assertIn(f"on {path}:box; every root{note}\n", out)
        self.assertNotIn(note, schedc("check", f"{path}:all", "-t", "3")[1])

    def test_a_fault_is_told_once(self):
        path = self.file("a.sched", "algorithm two all_gather(x) over g {\n    each r in g x[r] : r -> r + 2\n}\n"
                         "schedule s all_gather(x) {\n    all_gather x over world using two\n}\n")
        status, lines = self.lines(path, "-n", "2", "-t", "2")
        self.assertEqual((status, [line["kind"] for line in lines], lines[-1]["wrong"]), (1, ["error", "sum"], 2))
        self.assertEqual(lines[0]["notes"][0]["message"], "algorithm two all_gather on topology 2 (levels: world)")

    def test_each_folder_is_named_once(self):
        _, _, err = schedc("explain", "zzzzzzzzzz", "-n", "4", HOCKET_SCHEDULE_PATH=f"{self.folder}:{self.folder}/")
        self.assertEqual(err.count(self.folder), 1)

    def test_folders_and_standard_input(self):
        self.file("b/one.sched", RIGHT)
        self.file("b/deep/two.sched", RIGHT)
        status, lines = self.lines(os.path.join(self.folder, "b"))
        self.assertEqual((status, lines[-1]), (0, {"kind": "sum", "right": 4, "wrong": 0, "warnings": 0}))
        status, lines = self.lines("-", text=RIGHT)
        self.assertEqual((status, lines[0]["file"], lines[-1]["right"]), (0, "<stdin>", 2))
        status, lines = self.lines("-", "--with", "radix=5", text=RIGHT)
        self.assertEqual((status, lines[0]["definition"]), (0, "algorithm tree(5) broadcast"))
        status, lines = self.lines("-", text=WRONG)
        self.assertEqual((status, lines[0]["file"], lines[0]["line"]), (1, "<stdin>", 3))

    def test_what_is_not_there(self):
        for name in ("none.sched", "none.sched:a"):
            status, lines = self.lines(os.path.join(self.folder, name))
            self.assertEqual(status, 1)
            self.assertIn("cannot read", lines[0]["message"])
        os.mkdir(os.path.join(self.folder, "empty"))
        status, lines = self.lines(os.path.join(self.folder, "empty"))
        self.assertEqual(status, 1)
        self.assertIn("has no .sched files", lines[0]["message"])

    def test_version(self):
        status, out, _ = schedc("--version")
        self.assertEqual(status, 0)
        self.assertRegex(out, r"\Aschedc \d+\.\d+\.\d+\n\Z")


NEEDLESS = """algorithm a reduce(x, root; k = 2) over g {
    each q in g where q != root
        x : q +> root
    each q in g where q != root
        x : root -> q
}
"""


class Warnings(Check):
    def test_they_have_places_and_refuse_nothing_but_strictly(self):
        path = self.file("needless.sched", NEEDLESS)
        status, lines = self.lines(path)
        self.assertEqual((status, [line["kind"] for line in lines]), (0, ["right", "warning", "warning", "sum"]))
        self.assertEqual([(line["line"], line["rule"]) for line in lines[1:3]], [(1, "unused"), (5, "needless")])
        self.assertEqual(lines[-1], {"kind": "sum", "right": 1, "wrong": 0, "warnings": 2})
        self.assertIn(f"{path}:5:9: warning[needless]: ", lines[2]["rendered"])
        self.assertEqual(self.lines("--strict", path)[0], 1)
        status, out, err = schedc("check", "--strict", "--quiet", path)
        self.assertEqual((status, out, err.splitlines()[-1]), (1, "", "1 definition is right, but --strict refuses 2 warnings"))
        status, out, err = schedc("check", path)
        self.assertEqual((status, out.splitlines()[-1]), (0, "1 definition is right, with 2 warnings"))
        self.assertEqual(err.count("warning["), 2)

    def test_comments_allow_them(self):
        status, out, err = schedc("check", "--strict", self.file("allowed.sched", "# schedc: allow unused, needless\n" + NEEDLESS))
        self.assertEqual((status, out.splitlines()[-1], err), (0, "1 definition is right", ""))

    def test_sarif_has_their_level(self):
        path = self.file("needless.sched", NEEDLESS)
        status, out, _ = schedc("check", "--message-format", "sarif", path)
        run = json.loads(out)["runs"][0]
        self.assertEqual(status, 0)
        self.assertEqual([(result["ruleId"], result["level"]) for result in run["results"]], [("unused", "warning"), ("needless", "warning")])
        self.assertEqual([rule["id"] for rule in run["tool"]["driver"]["rules"]], ["refused", "comment", "lossy", "needless", "unused"])

    def test_they_are_those_of_what_is_checked(self):
        path = self.file("two.sched", NEEDLESS + RIGHT)
        self.assertEqual(self.lines("--strict", f"{path}:tree")[1][-1], {"kind": "sum", "right": 1, "wrong": 0, "warnings": 0})
        self.assertEqual(self.lines(f"{path}:a")[1][-1], {"kind": "sum", "right": 1, "wrong": 0, "warnings": 2})

    def test_hints_say_what_was_tried(self):
        path = self.file("needless.sched", NEEDLESS)
        _, lines = self.lines("--with", "k=2,3", path)
        self.assertEqual(lines[3]["hint"], "it was so with all that was tried: algorithm a(2) reduce, algorithm a(3) reduce on groups of 3; every root. "
                         "Before you leave it out, check other groups (-n) and arguments (--with); or allow it, by a comment behind it: # schedc: allow needless")

    def test_a_wrong_file_has_none(self):
        path = self.file("wrong.sched", NEEDLESS.replace("x : q +> root", "x : q -> root"))
        status, lines = self.lines(path)
        self.assertEqual((status, [line["kind"] for line in lines]), (1, ["error", "sum"]))


class Forms(Check):
    def test_json_has_places_hints_and_notes(self):
        path = self.file("a.sched", WRONG)
        status, (error, total) = self.lines(path)
        self.assertEqual((status, total), (1, {"kind": "sum", "right": 0, "wrong": 1, "warnings": 0}))
        self.assertEqual({key: error[key] for key in ("kind", "file", "line", "column", "end_line", "end_column")},
                         {"kind": "error", "file": path, "line": 3, "column": 18, "end_line": 3, "end_column": 19})
        self.assertIn("comment begins with '#'", error["hint"])
        self.assertIn(f"{path}:3:18: error: ", error["rendered"])
        _, (error, _) = self.lines(self.file("b.sched", TWICE))
        self.assertEqual((error["notes"][0]["message"], error["notes"][0]["line"]), ("first here", 1))

    def test_json_holds_any_bytes(self):
        path = os.path.join(self.folder, "a.sched")
        with open(path, "wb") as file:
            file.write(b"algorithm \xff\xfe {}")
        status, (error, _) = self.lines(path)
        self.assertEqual((status, error["line"], error["column"]), (1, 1, 11))

    def sarif(self, *paths):
        status, out, err = schedc("check", "--message-format", "sarif", *paths, "-n", "3", "-t", "3")
        self.assertEqual(err, "")
        log = json.loads(out)
        self.assertEqual((log["version"], len(log["runs"])), ("2.1.0", 1))
        return status, log["runs"][0]

    def test_sarif_has_places_in_characters(self):
        path = self.file("a b%é.sched", "algorithm é")
        status, run = self.sarif(path, self.file("c.sched", TWICE))
        self.assertEqual((status, run["columnKind"], run["tool"]["driver"]["name"]), (1, "unicodeCodePoints", "schedc"))
        first, second = run["results"]
        self.assertEqual(first["ruleId"], run["tool"]["driver"]["rules"][0]["id"])
        place = first["locations"][0]["physicalLocation"]
        self.assertEqual(place["artifactLocation"]["uri"], "file://" + self.folder + "/a%20b%25%C3%A9.sched")
        self.assertEqual(place["region"]["startColumn"], 11)
        self.assertEqual(second["relatedLocations"][0]["physicalLocation"]["region"]["startLine"], 1)
        wrong = self.file("d.sched", "# \n" + WRONG.replace("/*", "x[g. é"))
        region = self.sarif(wrong)[1]["results"][0]["locations"][0]["physicalLocation"]["region"]
        with open(wrong, encoding="utf-8") as file:
            line = file.read().splitlines()[region["startLine"] - 1]
        self.assertEqual(line[region["startColumn"] - 1], "é")

    def test_sarif_has_notes_without_places_in_the_text(self):
        path = self.file("a.sched", "algorithm self all_gather(x) over g {\n    each r in g x[r] : r -> r\n}\n")
        text = self.sarif(path)[1]["results"][0]["message"]["text"]
        self.assertIn("\nnote: algorithm self all_gather on topology 3 (levels: world)\nhint: ", text)

    def test_sarif_of_what_is_right_is_empty(self):
        status, run = self.sarif(self.file("a.sched", RIGHT))
        self.assertEqual((status, run["results"]), (0, []))

    def test_formatting_reports_in_the_same_forms(self):
        path = self.file("a.sched", WRONG)
        status, out, err = schedc("fmt", "--message-format", "json", path)
        self.assertEqual((status, err, json.loads(out)["line"]), (1, "", 3))
        status, out, err = schedc("fmt", "--message-format", "sarif", path)
        self.assertEqual((status, err, len(json.loads(out)["runs"][0]["results"])), (1, "", 1))

    def test_what_is_not_proved_is_reported_where_it_is(self):
        status, (error, _) = self.lines(self.file("a.sched", UNPROVED))
        self.assertEqual((status, error["line"], error["column"]), (1, 2, 35))


class Colours(Check):
    def test_a_terminal_gets_colours(self):
        path = self.file("a.sched", WRONG)
        said = on_terminal("check", path)
        self.assertIn("\x1b[1;31merror: \x1b[0m", said)
        self.assertEqual(schedc("check", path)[2].count("\x1b"), 0)
        for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
            self.assertNotIn("\x1b", on_terminal("check", path, **{name: value}))
        self.assertNotIn("\x1b", on_terminal("check", "--color", "never", path))
        self.assertIn("\x1b", schedc("check", "--color", "always", path, NO_COLOR="1")[2])
        self.assertIn("\x1b", schedc("check", path, CLICOLOR_FORCE="1")[2])
        self.assertNotIn("\x1b", schedc("check", path, CLICOLOR_FORCE="0")[2])
        self.assertNotIn("\x1b", schedc("check", path, CLICOLOR_FORCE="1", NO_COLOR="1")[2])
        self.assertIn("\x1b", schedc("explain", path + ":ring", "-n", "3", "--color", "always")[2])

    def test_colours_are_all_that_is_added(self):
        path = self.file("a.sched", TWICE)
        coloured = schedc("check", "--color", "always", path)[2]
        for escape in ("\x1b[1;31m", "\x1b[1;36m", "\x1b[1;32m", "\x1b[1m", "\x1b[0m"):
            self.assertIn(escape, coloured)
            coloured = coloured.replace(escape, "")
        self.assertEqual(coloured, schedc("check", path)[2])

    def test_a_file_cannot_colour_the_terminal(self):
        self.assertNotIn("\x1b", schedc("check", self.file("a.sched", "algorithm \x1b[31m"))[2])


if __name__ == "__main__":
    SCHEDC, SCHEDULES = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
