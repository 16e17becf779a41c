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


def chosen(options):
    """The first one is what all are compared with."""
    return [name for name in METHODS if name == FLAT or name in (options.method or METHODS)]


def training(options, steps):
    return ["--report", "--steps", str(steps), "--batch", str(options.batch), *options.argument]


def alone(place, options, folder):
    """The report of one process that does the work of all workers."""
    program = runs.Program(
        [os.path.join(options.build, "examples/deep_words"), *training(options, options.iterations)]
        + ["--workers", str(place.workers)]
    )
    return runs.run([program], folder)


def measure_profile(place, options, folder):
    """Some iterations more than the plan is made of, so that what it makes is seen in the same run, too."""
    file = os.path.join(folder, "profile.json")
    steps = options.measure + options.iterations
    own = ["--measure", str(options.measure), "--save-profile", file]
    report = runs.run(place.programs([*training(options, steps), *own]), folder)
    with open(file) as profile:
        return file, report, json.load(profile)


def alike(methods):
    """Lists of methods whose plans are the same: they are measured together."""
    plans = {}
    for method, reports in methods.items():
        plans.setdefault(tuple(reports[0]["ends"]), []).append(method)
    return list(plans.values())


def measure(kind, rate, options, folder):
    """Everything that was seen: {rate, profile, ...; runs: {method: [report]}}."""
    folder = os.path.join(folder, f"{kind.name}-{rate:g}")
    with Hosts(kind.hosts_needed, rate * 1e6, os.path.join(folder, "hosts"), QUEUE_MS, options.congestion) as hosts:
        place = kind(options.build, hosts)
        file, first, profile = measure_profile(place, options, folder)
        say(f"{kind.name}, {rate:g} Mbit/s: profile, {first['measured_seconds']:.3f} s")
        reports = {method: [] for method in chosen(options)}

        def run(method):
            arguments = [*training(options, options.iterations), "--profile", file, *METHODS[method]]
            report = runs.run(place.programs(arguments), folder)
            report["load"] = os.getloadavg()[0]
            reports[method].append(report)
            say(
                f"{method}: {len(report['ends'])} batches, {report['measured_seconds']:.3f} s, "
                f"predicted {report['predicted_seconds']:.3f} s"
            )

        for method in reports:
            run(method)
        plans = alike(reports)
        for turn in range(1, options.repetitions):
            for methods in plans if turn % 2 == 0 else reversed(plans):
                run(methods[turn % len(methods)])
    return {"rate": rate, "profile": profile, "profile_run": first, "plans": plans, "runs": reports}
