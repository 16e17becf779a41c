"""MLNET: Mai, Hong and Costa, "Optimizing Network Performance in Distributed Machine Learning", HotCloud 2015."""

import statistics

from schedc_runs import table

SEEDS = 5
TREES = {"BASELINE": "direct", "RACK": "rack", "BINARY": "binary"}
BYTES = 260e9  # of an exchange: 65e9 float32
PERCENTILES = (10, 25, 50, 75, 90, 99, 100)


def workload(jobs, uplinks=""):
    return {"hosts": 1024, "network": f"fattree(16){uplinks}@10Gb/s; routing hash(1)", "rack": 8, "seed": 1, "jobs": jobs}


def job(workers, servers, tree, **members):
    data = {"bytes": 176.25e9, "slowest": 100e6, "fastest": 200e6}
    return {"workers": workers, "servers": servers, "tree": tree, "bytes": BYTES, "compute": 30, "data": data, **members}


# Makespans relative to BASELINE's, as the text gives them. By uplinks' oversubscription, servers, tree.
PRINTED1 = {
    ("", 50, "RACK"): "0.42",
    ("", 50, "BINARY"): "0.22",
    ("/4", 50, "RACK"): "0.27",
    ("/4", 50, "BINARY"): "0.34",
    ("/4", 400, "RACK"): "0.29",
    ("/4", 400, "BINARY"): "0.60",
}


def printed1(uplinks, servers, name):
    """Beside the figures the text says which is more."""
    return PRINTED1.get((uplinks, servers, name)) or ("under 1" if uplinks else "over 1" if servers >= 300 else "")


def makespans(schedc, uplinks, servers, tree):
    """By seed, for 260 GB and for a twentieth of that, which only divides the time of the exchange."""
    runs = schedc.simulate(workload([job(800, servers, tree)], uplinks), SEEDS, timeout=600)
    times = [run["jobs"][0] for run in runs]
    exchanges = [one["exchanges"][0]["push"] + one["exchanges"][0]["pull"] for one in times]
    return [[one["rounds"] * (30 + exchange / part) for one, exchange in zip(times, exchanges)] for part in (1, 20)]


def ratios(ours, baseline):
    parts = [mine / other for mine, other in zip(ours, baseline)]
    return f"{statistics.median(parts):.3f} ({min(parts):.3f}-{max(parts):.3f})"


def figure1(schedc):
    rows = []
    for figure, uplinks in (("1a, 1:1", ""), ("1b, 1:4", "/4")):
        for servers in (50, 100, 200, 300, 400):
            times = {name: makespans(schedc, uplinks, servers, tree) for name, tree in TREES.items()}
            row = [figure, str(servers)]
            for name in ("RACK", "BINARY"):
                row.append(printed1(uplinks, servers, name))
                row += [ratios(mine, other) for mine, other in zip(times[name], times["BASELINE"])]
            rows.append(row)
    heads = ["", "servers", "RACK, paper", "ours, 260 GB", "13 GB", "BINARY, paper", "ours, 260 GB", "13 GB"]
    return "Makespans relative to BASELINE's: medians of 5 seeds, least and most.\n\n" + table(heads, rows, 1)


def percentile(ordered, share):
    """The smallest value that so many percent don't exceed."""
    return ordered[max(0, -(-share * len(ordered) // 100) - 1)]


def figure2(schedc):
    rows = []
    for name, tree in TREES.items():
        runs = schedc.simulate(workload([job(800, 200, tree)]), SEEDS, timeout=600)
        links = [sorted(run["link_bytes"]) for run in runs]
        row = [statistics.median(percentile(one, share) for one in links) / 1e9 for share in PERCENTILES]
        total = statistics.median(sum(one) for one in links) / 1e12
        rows.append([name, *(f"{value:.0f}" for value in row), f"{total:.0f}"])
    heads = ["", *(f"{share} %" for share in PERCENTILES[:-1]), "all", "sum, TB"]
    return "GB of an exchange that so many of the links do not exceed, 800 workers, 200 servers, 1:1.\n\n" + table(heads, rows)


# Figure 3 at an eighth of its size: a fat-tree of 128 hosts, 20 jobs of 25 workers and 6 servers. There are as many processes on a
# host, and a server's link needs as long for an exchange, as with 1,024 hosts, 200 workers and 50 servers. Jobs run a part of the
# paper's iterations. Workers pass chunks on: a fluid tree would wait as a whole where one of its links belongs to another job.
JOBS, ITERATIONS, CHUNKS, SEEDS3 = 20, 2, 4, 3
SMALL_BYTES = BYTES / 50 * 200 / 25 * 6
# Relative to BASELINE's, by the text: median, 95th percentile, the last.
PRINTED3 = {"BASELINE, priorities": ("0.75", "", "1.02"), "trees, priorities": ("0.40", "0.46", "")}


def ends(schedc, tree, priorities):
    """By seed: when jobs end, in order."""
    one = {"workers": 25, "servers": 6, "tree": tree, "bytes": SMALL_BYTES, "compute": 30, "iterations": ITERATIONS}
    one["chunks"] = 0 if tree == "direct" else CHUNKS
    jobs = [{**one, "priority": number * priorities} for number in range(JOBS)]
    small = {"hosts": 128, "network": "fattree(8)@10Gb/s; routing hash(1)", "rack": 4, "seed": 1, "jobs": jobs}
    runs = schedc.simulate(small, SEEDS3, timeout=3600)
    return [sorted(times["end"] for times in run["jobs"]) for run in runs]


def figure3(schedc):
    def figures(ordered):
        return [statistics.median(ordered), percentile(ordered, 95), ordered[-1]]

    rows, baseline = [], None
    for name, tree in TREES.items():
        for priorities in (0, 1):
            times = [figures(one) for one in ends(schedc, tree, priorities)]
            baseline = baseline or times
            printed = PRINTED3.get(name + ", priorities" if tree == "direct" else "trees, priorities", ("",) * 3)
            row = [name, "yes" if priorities else "no"]
            for index in range(3):
                shares = [one[index] / other[index] for one, other in zip(times, baseline)]
                paper = f" ({printed[index]})" if priorities and printed[index] else ""
                row.append(f"{statistics.median(shares):.2f}{paper}")
            rows.append([*row, f"{statistics.median(one[0] for one in times) / ITERATIONS:.0f}"])
    heads = ["", "priorities", "median (paper)", "95th percentile (paper)", "last (paper)", "median, s an iteration"]
    return f"20 jobs' ends relative to BASELINE's, medians of {SEEDS3} seeds.\n\n" + table(heads, rows, 2)


FIGURES = {"mlnet-1": figure1, "mlnet-2": figure2, "mlnet-3": figure3}
