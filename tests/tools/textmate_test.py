#!/usr/bin/python3
"""The TextMate grammar for editors has the words of the language, and colours the library's texts."""
import json
import os
import re
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def listed(text, name):
    return set(re.findall(r'"(\w+)"', text.split(name + "[] = {")[1].split("}")[0]))


GRAMMAR = json.loads(read("tools", "schedc", "editors", "sched.tmLanguage.json"))


def words_of(scope):
    found: set[str] = set()
    for pattern in GRAMMAR["patterns"]:
        if pattern["name"] == scope:
            for group in re.findall(r"\(\?:([\w|]+)\)", pattern["match"]):
                found.update(group.split("|"))
    return found


def scope_at(line, wanted):
    """The scope of the first match that begins where the text does, in the order of the patterns."""
    at = line.index(wanted)
    for pattern in GRAMMAR["patterns"]:
        found = re.compile(pattern["match"]).search(line, at)
        if found and found.start() == at and found.end() > at:
            return pattern["name"]
    return None


class TextMate(unittest.TestCase):
    def test_has_the_words_of_the_language(self):
        words = words_of("storage.type.sched") | words_of("keyword.control.sched") | words_of("keyword.operator.word.sched")
        self.assertEqual(words, listed(read("dsl", "syntax", "words.hpp"), "reserved"))
        names = read("dsl", "syntax", "names.cpp")
        self.assertEqual(words_of("support.function.sched"), listed(names, "own_functions"))
        self.assertEqual(words_of("variable.language.sched"), listed(names, "own_names"))
        collectives = set(re.findall(r"ROW\((\w+), HKT", read("dsl", "base", "collective.hpp")))
        self.assertEqual(words_of("support.type.sched"), collectives)

    def test_colours_lines_as_they_are_read(self):
        self.assertEqual(scope_at("x[r - s] : r +> r + 1  # wraps", "+>"), "keyword.operator.sched")
        self.assertEqual(scope_at("x[r - s] : r +> r + 1  # wraps", "# wraps"), "comment.line.number-sign.sched")
        self.assertEqual(scope_at("    reduce_scatter x over world", "reduce_scatter"), "support.type.sched")
        self.assertIsNone(scope_at("    gather[0] : 0 -> 1", "gather"))
        self.assertEqual(scope_at("level a[2] { latency 1.5us }", "1.5us"), "constant.numeric.sched")
        self.assertEqual(scope_at("for k in log2(n) >.. 0", ">.."), "keyword.operator.sched")
        self.assertIsNone(scope_at("let format = 1", "format"))
        self.assertEqual(scope_at("collective scan(x) over g {", "collective"), "storage.type.contract.sched")
        self.assertEqual(scope_at("    after  each r in g  x : r = combined x : g", "after"), "keyword.control.contract.sched")
        self.assertEqual(scope_at("    after  each r in g  x : r = combined x : g", "combined"), "keyword.control.contract.sched")
        self.assertIsNone(scope_at("    combined[0] : 0 -> 1", "combined"))


if __name__ == "__main__":
    unittest.main()
