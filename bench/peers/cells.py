"""Measures libraries against one another, interleaved: for each size a few iterations of one library, then of the next,
for several rounds. So other load on the machine affects all of them alike."""

import os
import statistics
import sys
import time
from dataclasses import dataclass

from jobs import Job, JobError
from libraries import DIVIDED

PAGE = 4096
MOST_ROUNDS, FEWEST_ROUNDS = 6, 3
MOST_PER_ROUND = 200
LONG_SECONDS = 0.02  # an iteration this long needs no warm-up
MOST_FAILURES = 3


def counts(collective, size, ranks):
    """Returns the count that the collective's call takes for an array of `size` bytes, rounded up."""
    if collective in DIVIDED:
        return -(-size // (4 * ranks))
    return -(-size // 4)


class Runner:
    """A library's job, started when it is first needed and again after a failure."""

    def __init__(self, library, ranks, folder, most_bytes, meter=None, touch=False):
        self.library, self.ranks, self.folder = library, ranks, folder
        self.bytes = -(-(most_bytes + 4 * ranks) // PAGE) * PAGE
        self.job = None
        self.starts = 0
        self.meter = meter  # () -> bytes so far over each link
        self.touch = touch  # between iterations, ranks read results and write inputs
        self.errors = []

    def ready(self):
        if self.job is None:
            if len(self.errors) >= MOST_FAILURES:
                raise JobError(self.errors[-1])
            self.starts += 1
            name = f"{self.library.name}-{self.ranks}-{self.starts}".replace(" ", "-")
            folder = os.path.join(self.folder, name)
            self.job = Job(self.library, self.ranks, folder)
            self.job.tell("join")
            for memory in self.library.memories:
                self.job.tell(f"allocate {memory} {self.bytes}")
        return self.job

    def fail(self, error):
        if len(self.errors) < MOST_FAILURES:
            self.errors.append(str(error))
        self.stop()

    def stop(self):
        if self.job:
            self.job.stop()
            self.job = None


@dataclass
class Row:
    """One library with one kind of memory, in one cell."""

    runner: Runner
    memory: str
    collective: str
    size: int
    algorithm: str = ""
    estimate: float = 0  # seconds
    wrong: int = 0
    crossed: float = float("inf")  # bytes over the busiest link in an iteration
    error: str = ""

    def __post_init__(self):
        self.name = self.runner.library.row(self.memory)
        self.spans = []

    def run(self, algorithm, warmup, iterations, check=False):
        job = self.runner.ready()
        count = counts(self.collective, self.size, self.runner.ranks)
        wrong = job.tell(
            f"run {self.collective} {algorithm} {self.memory} {count} {warmup} {iterations} {int(check)} "
            f"{int(self.runner.touch)}"
        )
        self.wrong += sum(wrong.values())
        return job.spans(iterations)

    def probe(self):
        """Checks the result, chooses the algorithm, and estimates an iteration's time."""
        algorithms = self.runner.library.algorithms[self.collective]
        best: dict[str, float] = {}
        for algorithm, most in algorithms.items():
            if most is not None and self.size > most:
                continue
            rough = min(self.run(algorithm, 0, 1, check=True)) * 1e-9
            if rough < LONG_SECONDS:
                iterations = max(3, min(100, int(0.02 / rough)))
                rough = statistics.median(self.run(algorithm, 2, iterations)) * 1e-9
            best[algorithm] = rough
        self.algorithm = min(best, key=best.__getitem__)
        self.estimate = best[self.algorithm]

    def measure_round(self, seconds):
        iterations = max(1, min(MOST_PER_ROUND, int(seconds / self.estimate)))
        warmup = 0 if self.estimate > LONG_SECONDS else max(2, iterations // 10)
        meter = self.runner.meter
        before = meter() if meter else []
        self.spans += self.run(self.algorithm, warmup, iterations)
        if meter:
            moved = max(now - then for now, then in zip(meter(), before))
            self.crossed = min(self.crossed, moved / (warmup + iterations))
        self.estimate = statistics.median(self.spans) * 1e-9

    def attempt(self, step):
        """Runs a step of this row. If it fails, this row's part in the cell ends, but not the comparison."""
        if self.error:
            return
        try:
            step()
        except JobError as error:
            self.error = str(error)
            self.runner.fail(error)

    def figures(self):
        if self.error or not self.spans:
            return {"error": self.error or "not measured", "wrong": self.wrong}
        spans = sorted(self.spans)
        figures = {
            "median_us": statistics.median(spans) / 1000,
            "min_us": spans[0] / 1000,
            "p90_us": spans[int(0.9 * len(spans))] / 1000,
            "iterations": len(spans),
            "algorithm": self.algorithm,
            "wrong": self.wrong,
        }
        if self.runner.meter:
            figures["crossed_bytes"] = self.crossed
        return figures


def measure_cell(runners, collective, size, seconds):
    """Returns the figures of one collective and size, by the names of the rows; takes about `seconds`."""
    offering = [runner for runner in runners if collective in runner.library.algorithms]
    rows = [Row(runner, memory, collective, size) for runner in offering for memory in runner.library.memories]
    for row in rows:
        row.attempt(row.probe)
    alive = [row for row in rows if not row.error]
    share = seconds / max(1, len(alive)) / MOST_ROUNDS
    end = time.monotonic() + seconds
    for turn in range(MOST_ROUNDS if alive else 0):
        if turn >= FEWEST_ROUNDS and time.monotonic() > end:
            break
        for row in alive[turn % len(alive) :] + alive[: turn % len(alive)]:
            row.attempt(lambda row=row: row.measure_round(share))
    return {row.name: row.figures() for row in rows}


def measure(libraries, plan, ranks, folder, deadline, cells_left, meter=None, touch=False):
    """plan: (collective, size) pairs. cells_left cells share the time until the deadline; these are the next ones
    among them. meter(): the bytes so far over each link. touch: between iterations, ranks read results and write inputs.
    Returns the cells."""
    runners = [Runner(library, ranks, folder, max(size for _, size in plan), meter, touch) for library in libraries]
    cells = []
    try:
        for done, (collective, size) in enumerate(plan):
            seconds = max(0.05, (deadline - time.monotonic()) / (cells_left - done))
            show_progress(f"{collective}, {ranks} ranks, {size} bytes")
            rows = measure_cell(runners, collective, size, seconds)
            cells.append({"collective": collective, "ranks": ranks, "bytes": size, "rows": rows})
    finally:
        show_progress("")
        for runner in runners:
            runner.stop()
    return cells


def mark_uncrossed(group, least):
    """Marks a library that moved less than the minimum over the links: it used another path, and its figure doesn't
    count."""
    for cell in group:
        for figures in cell["rows"].values():
            if figures.get("crossed_bytes", least(cell)) < 0.99 * least(cell):
                figures["error"] = f"only {figures['crossed_bytes']:.0f} bytes crossed the links"
                del figures["median_us"]


def show_progress(text):
    """Prints a line over the last one."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
