"""The mutations, as the tables beside this file describe them, and the sources that they make."""
import os
import sys
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
KEYS = {"pair", "program", "test", "why", "file", "search", "replace"}


class Stale(Exception):
    """A mutation does not fit the source any more; the text says how to mend it."""


def shifted(lines, indentation):
    return [indentation + line if line else line for line in lines]


def replaced(content, search, replace):
    """The content of a file with the one place that `search` describes replaced; Stale unless there is exactly one."""
    lines, wanted = content.split("\n"), search.split("\n")
    found = []
    for begin in range(len(lines) - len(wanted) + 1):
        block = lines[begin:begin + len(wanted)]
        indentation = block[0][:len(block[0]) - len(wanted[0])]
        if not indentation.strip() and shifted(wanted, indentation) == block:
            found.append((begin, indentation))
    if len(found) != 1:
        times = f"occurs {len(found)} times, in lines {', '.join(str(begin + 1) for begin, _ in found)}" if found else "does not occur"
        raise Stale(f"{times}: {search}")
    begin, indentation = found[0]
    lines[begin:begin + len(wanted)] = shifted(replace.split("\n"), indentation) if replace else []
    return "\n".join(lines)


class Mutation:
    def __init__(self, area, name, table):
        if table.keys() != KEYS:
            sys.exit(f"tests/mutations/{area}.toml: {name}: these keys are missing or unknown: {', '.join(sorted(table.keys() ^ KEYS))}")
        self.area, self.name = area, name
        self.table = table
        self.pair, self.program, self.test, self.file = table["pair"], table["program"], table["test"], table["file"]
        self.search, self.replace = table["search"].removesuffix("\n"), table["replace"].removesuffix("\n")
        self.filter = self.test.replace(",", "\\,")  # between filters, to Catch2

    def apply_to(self, content):
        changed = replaced(content, self.search, self.replace)
        if changed == content:
            raise Stale("search and replace are the same")
        return changed


def all_mutations():
    mutations: dict[str, Mutation] = {}
    for file_name in sorted(os.listdir(HERE)):
        area, _, suffix = file_name.rpartition(".")
        if suffix != "toml":
            continue
        with open(os.path.join(HERE, file_name), "rb") as file:
            for name, table in tomllib.load(file).items():
                if name in mutations:
                    sys.exit(f"{name} is in tests/mutations/{mutations[name].area}.toml and in {file_name}: rename one")
                mutations[name] = Mutation(area, name, table)
    return mutations


def chosen(names):
    """All without names. A name is that of a mutation or of an area."""
    mutations = all_mutations()
    areas = {mutation.area for mutation in mutations.values()}
    unknown = [name for name in names if name not in mutations and name not in areas]
    if unknown:
        sys.exit(f"no mutation and no area has this name: {', '.join(unknown)}")
    return [m for m in mutations.values() if not names or m.name in names or m.area in names]


def check(mutations, build_folder):
    programs = None
    if build_folder:
        with open(os.path.join(build_folder, "build.ninja"), encoding="utf-8") as file:
            programs = {line.split(":")[0].removeprefix("build ") for line in file if line.startswith("build ")}
    stale = 0
    for mutation in mutations:
        fault = None
        try:
            with open(os.path.join(ROOT, mutation.file), encoding="utf-8") as file:
                mutation.apply_to(file.read())
            if programs is not None and mutation.program not in programs:
                fault = f"{mutation.program} is no program of {build_folder}"
        except OSError as error:
            fault = f"{mutation.file} cannot be read: {error.strerror}"
        except Stale as error:
            fault = f"{mutation.file} no longer fits: search {error}"
        if fault:
            stale += 1
            print(f"tests/mutations/{mutation.area}.toml: {mutation.name}: {fault}")
    print(f"{len(mutations) - stale} of {len(mutations)} mutations apply")
    return 1 if stale else 0
