"""One place at one rate: a profile, and then every method with it, in turns."""

import json
import os
import sys
import time

import runs
from hosts import Hosts

MEBIBYTE = 1 << 20
FLAT = "sequential"
METHODS = {
    FLAT: ["--method", FLAT],
    "layers": ["--method", "layers"],
    **{
        f"buckets of {size} MiB": ["--method", "buckets", "--bucket-bytes", str(size * MEBIBYTE)]
        for size in (1, 4, 25)
    },
    **{name: ["--method", name] for name in ("algorithm1", "algorithm2", "ibatch", "mg_wfbp", "optimum")},
}
QUEUE_MS = 10  # switches have some hundred KiB for each port


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class Way:
    """A method, and when weights are pulled ("": there are no pulls)."""

    def __init__(self, method, pulls):
        self.method, self.pulls = method, pulls
        self.arguments = METHODS[method] + (["--pulls", pulls] if pulls else [])
        self.name = f"{method}, pulls {pulls}" if pulls else method


def chosen(kind, options):
    """The first method of each way to pull is the reference for the others."""
    methods = [name for name in METHODS if name == FLAT or name in (options.method or METHODS)]
    pulls = [way for way in kind.pulls if not way or way in (options.pulls or kind.pulls)]
    return [
        Way(method, way) for way in pulls for method in methods if not (way == "forward" and method == "mg_wfbp")
    ]


def training(options, steps):
    return ["--report", "--steps", str(steps), "--batch", str(options.batch), *options.argument]


def alone(place, options, folder):
    """Returns the report of one process that does the work of all workers."""
    program = runs.Program(
        [os.path.join(options.build, "examples/deep_words"), *training(options, options.iterations)]
        + ["--workers", str(place.workers)]
    )
    return runs.run([program], folder)


def measure_profile(place, options, folder):
    """Runs some more iterations than the plan is based on, so that the same run also shows the plan's effect."""
    file = os.path.join(folder, "profile.json")
    steps = options.measure + options.iterations
    own = ["--measure", str(options.measure), "--save-profile", file]
    report = runs.run(place.programs([*training(options, steps), *own]), folder)
    with open(file) as profile:
        return file, report, json.load(profile)


def alike(ways, reports):
    """Returns lists of ways whose plans are equal: they are measured together."""
    plans: dict[tuple, list[Way]] = {}
    for way in ways:
        first = reports[way.name][0]
        plans.setdefault((way.pulls, tuple(first["ends"]), tuple(first["pull_ends"])), []).append(way)
    return list(plans.values())


def measure(kind, rate, options, folder):
    """Returns all measurements: {rate, profile, plans: [{pulls, methods, runs: [report]}]}."""
    folder = os.path.join(folder, f"{kind.name}-{rate:g}")
    with Hosts(kind.hosts_needed, rate * 1e6, os.path.join(folder, "hosts"), QUEUE_MS, options.congestion) as hosts:
        place = kind(options.build, hosts)
        file, first, profile = measure_profile(place, options, folder)
        say(f"{kind.name}, {rate:g} Mbit/s: profile, {first['measured_seconds']:.3f} s")
        ways = chosen(kind, options)
        reports: dict[str, list[dict]] = {way.name: [] for way in ways}

        def run(way):
            arguments = [*training(options, options.iterations), "--profile", file, *way.arguments]
            report = runs.run(place.programs(arguments), folder)
            report["load"] = os.getloadavg()[0]
            reports[way.name].append(report)
            say(
                f"{way.name}: {len(report['ends'])} + {len(report['pull_ends'])} batches, "
                f"{report['measured_seconds']:.3f} s, predicted {report['predicted_seconds']:.3f} s"
            )

        for way in ways:
            run(way)
        plans = alike(ways, reports)
        for turn in range(1, options.repetitions):
            for same in plans if turn % 2 == 0 else reversed(plans):
                run(same[turn % len(same)])
    rows = [
        {
            "pulls": same[0].pulls,
            "methods": [way.method for way in same],
            "runs": [report for way in same for report in reports[way.name]],
        }
        for same in plans
    ]
    return {"rate": rate, "profile": profile, "profile_run": first, "plans": rows}
