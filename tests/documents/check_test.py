#!/usr/bin/python3
"""Breaks a copy of the documents in each way, and sees that tests/documents/check finds it."""
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PAGE = "docs/decisions/net-libsodium.md"
INDEX = "docs/decisions/README.md"
VARIABLES = "runtime/base/environment.cpp"
LONG = "word " * 21


def append(text):
    return lambda old: old + text


def replace(text, by):
    def change(old):
        assert text in old, text
        return old.replace(text, by, 1)
    return change


# A file, a change of it, and the words that the check must print then. None: it must find nothing wrong.
CASES = [
    ("README.md", append(""), None),
    ("docs/running.md", append("\n" + LONG + "\n"), "columns, more than 100"),
    ("docs/running.md", append("\n- " + LONG + "\n"), "columns, more than 100"),
    ("docs/running.md", append("\n    " + LONG + "\n"), None),
    ("docs/running.md", append("\n```\n" + LONG + "\n```\n"), None),
    ("docs/running.md", append("\n- an item\n\n  ```\n  " + LONG + "\n  ```\n"), None),
    ("docs/running.md", append("\n| " + LONG + "|\n|---|\n"), None),
    ("docs/running.md", append("\n[x](https://example.org/" + "x" * 100 + ")\n"), None),
    ("docs/running.md", append("\n[x](no-such-page.md)\n"), "no-such-page.md leads nowhere"),
    ("docs/running.md", append("\n[on two\nlines](no-such-page.md)\n"), "no-such-page.md leads nowhere"),
    ("docs/running.md", append("\n`[x](no-such-page.md)`\n"), None),
    ("docs/running.md", append("\n[x](#no-such-heading)\n"), "has no heading #no-such-heading"),
    ("docs/running.md", append("\n[x](c-abi.md#no-such-heading)\n"), "c-abi.md has no heading"),
    ("docs/running.md", append("\n## Twice\n\n## Twice\n\n[x](#twice-1)\n"), None),
    ("README.md", append("\n" + "word\n" * 60), "words, more than 330"),
    ("README.md", replace("    tools/test ", "    tools/tset "), "tools/tset is no program"),
    (INDEX, replace("(net-libsodium.md)", "(net-one-admission.md)"), "net-libsodium.md is not in the table"),
    (PAGE, replace("- Date: 20", "- Date: 30"), "the line of net-libsodium.md says"),
    (PAGE, replace("in force", "overtaken"), "no lines of Date, Area and State"),
    (PAGE, replace("## Price", "## Costs"), "its parts are not"),
    (VARIABLES, replace(" RAILS ", " "), "RAILS is read, and not in the list"),
    (VARIABLES, replace(" RAILS ", " RAILS RIALS "), "RIALS is in the list of variables, and nothing reads it"),
]


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        # The documents, and sources that name variables, are copied. Everything else that they link to is a link.
        for name in os.listdir(ROOT):
            path = os.path.join(ROOT, name)
            if name in ("docs", "runtime") or name.endswith(".md"):
                if os.path.isdir(path):
                    shutil.copytree(path, os.path.join(folder, name))
                else:
                    shutil.copy(path, folder)
            elif not name.startswith((".", "build-")) and not os.path.exists(os.path.join(path, "build.ninja")):
                os.symlink(path, os.path.join(folder, name))
        for page, change, wanted in CASES:
            path = os.path.join(folder, page)
            with open(path, encoding="utf-8") as file:
                old = file.read()
            with open(path, "w", encoding="utf-8") as file:
                file.write(change(old))
            run = subprocess.run([os.path.join(HERE, "check"), "--root", folder], capture_output=True, text=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(old)
            said = run.stdout + run.stderr
            if (run.returncode, wanted is None or wanted in said) != (0 if wanted is None else 1, True):
                failed += 1
                print(f"{page}, {wanted or 'nothing wrong'}: exit code {run.returncode}\n{said}")
    print(f"{len(CASES)} cases, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
