"""Part 3: the cost of more ranks on one host, up to more ranks than cores: set-up and small messages."""

import os
import statistics
import time

import build
import cells
import report
from jobs import Job, JobError
from libraries import that_can_share_cores

RANKS = [2, 4, 8, 16, 32]
BYTES = 1024
SETUPS = 3


def set_up(library, ranks, folder):
    """Returns how many us joining takes, from the first rank's start to the last one's end; the processes are already
    running."""
    job = Job(library, ranks, folder)
    try:
        job.tell("join")
        return job.spans(1)[0] / 1000
    finally:
        job.stop()


def set_ups(libraries, ranks, folder):
    """Returns the median by the library's name, measured interleaved. A library that fails has none."""
    times: dict[str, list[float]] = {}
    failed = {}
    for turn in range(SETUPS):
        for library in libraries:
            cells.show_progress(f"set-up {turn + 1} of {library.name} on {ranks} ranks")
            name = library.name.replace(" ", "-")
            try:
                if library.name not in failed:
                    times.setdefault(library.name, []).append(
                        set_up(library, ranks, os.path.join(folder, f"set-up-{name}-{ranks}-{turn}"))
                    )
            except JobError as error:
                failed[library.name] = error
                print(f"set-up of {library.name} on {ranks} ranks failed: {error}")
    return {name: statistics.median(values) for name, values in times.items() if name not in failed}


def measure(libraries, folder, seconds):
    build.say(f"{RANKS[0]} to {RANKS[-1]} ranks on this host")
    deadline = time.monotonic() + seconds
    measured = []
    for turn, ranks in enumerate(RANKS):
        fitting = that_can_share_cores(libraries, ranks)
        times = set_ups(fitting, ranks, folder)
        (cell,) = cells.measure(
            fitting,
            [("all_reduce", BYTES)],
            ranks,
            os.path.join(folder, f"scaling-{ranks}"),
            deadline,
            2 * (len(RANKS) - turn),
        )
        measured.append({**cell, "place": f"{ranks} ranks", "setup": times})
    report.print_scaling_table(measured)
    return measured
