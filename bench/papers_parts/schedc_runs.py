"""Runs schedc, and prints tables in Markdown."""

import json
import os
import subprocess
import tempfile

CLUSTERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clusters.sched")


class SchedcError(Exception):
    pass


class Schedc:
    """Predictions are ideal: a message costs its latency and its bytes."""

    def __init__(self, program):
        self.program = program

    def predict(self, schedule, topology, size, network="", collective=None, element="float32"):
        """topology: as schedc takes it, or a number of ranks. element: its type. Returns schedc's JSON."""
        where = ["-n", str(topology)] if isinstance(topology, int) else ["-t", topology]
        what = [*(["-c", collective] if collective else []), *(["-N", network] if network else []), "--type", element]
        return json.loads(self.run("predict", schedule, *where, "-b", str(round(size)), *what, "--ideal", "--json"))

    def seconds(self, *what, **options):
        return self.predict(*what, **options)["seconds"]

    def messages(self, schedule, topology, size, network=""):
        """Returns begin and end of each message, in seconds."""
        with tempfile.TemporaryDirectory(prefix="hkt-papers-") as folder:
            path = os.path.join(folder, "trace.json")
            what = ["-N", network] if network else []
            self.run("predict", schedule, "-t", topology, "-b", str(size), *what, "--ideal", "--trace", path)
            with open(path) as file:
                events = [event for event in json.load(file) if event.get("cat") == "message"]
        return [(event["ts"] * 1e-6, (event["ts"] + event["dur"]) * 1e-6) for event in events]

    def simulate(self, workload, seeds=1, timeout=60):
        """Returns the runs of schedc's JSON."""
        with tempfile.NamedTemporaryFile("w", prefix="hkt-papers-", suffix=".json") as file:
            json.dump(workload, file)
            file.flush()
            text = self.run("simulate", file.name, "--seeds", str(seeds), "--timeout", str(timeout), "--json")
        return json.loads(text)["runs"]

    def run(self, *arguments):
        try:
            done = subprocess.run([self.program, *arguments], capture_output=True, text=True)
        except OSError as error:
            raise SchedcError(f"{self.program} does not run: {error}; build it (ninja -C build tools/schedc), or name --build") from error
        if done.returncode != 0:
            raise SchedcError(f"schedc {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout


def require_same(what, closed_form, ours):
    """Where a closed form says what is simulated."""
    if abs(ours / closed_form - 1) > 1e-9:
        raise SchedcError(f"{what} takes {ours!r}, and by its closed form {closed_form!r}")


def table(heads, rows, texts=1):
    """Of text cells; the first `texts` columns are words, the others are numbers."""
    lines = [heads, ["---"] * texts + ["---:"] * (len(heads) - texts), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def percent(part, digits=0):
    return f"{100 * part:.{digits}f} %"
