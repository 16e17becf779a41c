"""Makes tables and verdicts from the measured cells."""

from report import print_columns, ratio_text, size_text

ONE_THREAD = "plain files, 1 thread"
SAME_IN_FLIGHT = "plain files, 32 threads"  # as many as Hocket has workers, by default
EACH = "plain files, read before each"


def count_text(count):
    for limit, unit in ((1_000_000, " million"), (1_000, ",000")):
        if count % limit == 0:
            return f"{count // limit}{unit}"
    return str(count)


def seconds_text(seconds):
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def share(cell, figure):
    """Returns Hocket's figure as a share of fio's best one."""
    return cell["rows"]["Hocket"][figure] / max(cell["rows"][row][figure] for row in ("fio", "fio, tuned"))


def print_disk(cells):
    print("\nSamples from the disk, cold, in random order, with direct I/O; us: processor time an operation")
    rows = list(cells[0]["rows"])
    columns = [f"{row} {unit}" for unit in ("MiB/s", "IOPS", "us") for row in rows]
    lines = []
    for cell in cells:
        figures = [cell["rows"][row] for row in rows]
        lines.append(
            [
                size_text(cell["bytes"]),
                str(cell["depth"]),
                *(f"{row['mib_per_s']:.0f}" for row in figures),
                *(f"{row['iops']:.0f}" for row in figures),
                *(f"{row['processor_us']:.1f}" for row in figures),
                ratio_text(share(cell, "iops")),
                f"{cell['put_mib_per_s']:.0f}",
            ]
        )
    print_columns(["size", "depth", *columns, "Hocket/best fio", "put MiB/s"], lines)


def print_memory(cells):
    print(
        "\nA resident sample of 1 KiB, got and released, random keys: ns of a core by the clock (of processor time)"
    )
    rows = list(cells[0]["rows"])
    print_columns(
        ["samples", "threads", *rows],
        [
            [
                count_text(cell["samples"]),
                str(cell["threads"]),
                *(
                    f"{cell['rows'][row]['nanoseconds']:.0f} ({cell['rows'][row]['processor']:.0f})"
                    for row in rows
                ),
            ]
            for cell in cells
        ],
    )


def epoch_groups(cells):
    """Returns [{1: cell, 2: cell, 3: cell}] for each set of samples."""
    groups: dict[tuple[int, int], dict[int, dict]] = {}
    for cell in cells:
        groups.setdefault((cell["samples"], cell["bytes"]), {})[cell["epoch"]] = cell
    return list(groups.values())


def epoch_seconds(group, row, epoch):
    """Readers without a cache have one figure for all epochs."""
    measured = group[epoch]["rows"].get(row) or group[1]["rows"][row]
    return measured["seconds"]


def print_epochs(cells):
    for group in epoch_groups(cells):
        first = group[1]
        size = ("about " if first["vary"] else "") + size_text(first["bytes"])
        print(
            f"\n{count_text(first['samples'])} samples of {size}; each read of the source first sleeps "
            f"{first['delay_us'] / 1000:g} ms: time of an epoch, and {ONE_THREAD}' over it"
        )
        lines = []
        for row in first["rows"]:
            times = [epoch_seconds(group, row, epoch) for epoch in group]
            ratios = [epoch_seconds(group, ONE_THREAD, epoch) / time for epoch, time in zip(group, times)]
            lines.append([row, *map(seconds_text, times), *map(ratio_text, ratios)])
        print_columns(["", *(f"epoch {e}" for e in group), *(f"x {e}" for e in group)], lines)


def stall(cell, row):
    """Returns how many milliseconds longer an iteration takes than with the data in arrays."""
    return cell["rows"][row]["milliseconds"] - cell["rows"]["arrays"]["milliseconds"]


def resolution(cell):
    """Returns the uncertainty of a stall, as a difference: the variation of the loop without I/O over the rounds."""
    times = [measured["milliseconds"] for measured in cell["rows"]["arrays"]["rounds"]]
    return max(max(times) - min(times), 0.01)


def stall_ratio(cell, row):
    """Returns how many times smaller the stall is than with files that are read before each iteration. Limited to what
    the resolution can show."""
    return stall(cell, EACH) / max(stall(cell, row), resolution(cell))


def print_training(cells):
    for cell in cells:
        print(
            f"\nIterations over 32 samples of about {size_text(cell['bytes'])}, {cell['compute_us'] / 1000:g} ms of "
            f"arithmetic each; each read of the source first sleeps {cell['delay_us'] / 1000:g} ms.\n"
            f"Stall: the time beyond that of the loop over arrays (which differs by {resolution(cell):.2f} ms over "
            "the rounds: no less is told from none)"
        )
        lines = []
        for row, figures in cell["rows"].items():
            less = "-" if row == "arrays" else ratio_text(stall_ratio(cell, row))
            lines.append([row, f"{figures['milliseconds']:.2f} ms", f"{stall(cell, row):.2f} ms", less])
        print_columns(["", "iteration", "stall", "less by"], lines)


PRINT = {"disk": print_disk, "memory": print_memory, "epochs": print_epochs, "training": print_training}


# ---- Verdicts


def verdict(target, values, needed, most=False):
    """values: {where: value}; each must be at least `needed`, or at most."""
    if not values:
        return {"target": target, "verdict": "not measured"}
    worst = (max if most else min)(values, key=values.get)
    short = [value for value in values.values() if not (value <= needed if most else value >= needed)]
    return {
        "target": target,
        "verdict": "not reached" if short else "reached",
        "worst": values[worst],
        "at": worst,
        "short": len(short),
        "of": len(values),
    }


def disk_verdicts(cells):
    def shares(figure, is_meant):
        return {
            f"{size_text(c['bytes'])}, depth {c['depth']}": share(c, figure) for c in cells if is_meant(c["bytes"])
        }

    return [
        verdict("disk: 0.95 of fio's bandwidth from 128 KiB", shares("mib_per_s", lambda b: b >= 128 << 10), 0.95),
        verdict("disk: 0.85 of fio's IOPS at 4 KiB", shares("iops", lambda b: b == 4 << 10), 0.85),
    ]


def memory_verdicts(cells):
    times = {
        f"{count_text(c['samples'])} samples, {c['threads']} threads": c["rows"]["Hocket get"]["nanoseconds"]
        for c in cells
    }
    return [verdict("memory: get and release within 300 ns", times, 300, most=True)]


def epochs_verdicts(cells):
    later, first = {}, {}
    for group in epoch_groups(cells):
        size = size_text(group[1]["bytes"])
        for row in group[1]["rows"]:
            if row.startswith("Hocket"):
                where = f"{size}, {row}"
                later[where] = epoch_seconds(group, ONE_THREAD, 2) / epoch_seconds(group, row, 2)
                first[where] = epoch_seconds(group, SAME_IN_FLIGHT, 1) / epoch_seconds(group, row, 1)
    return [
        verdict("epochs: the second 10 x faster than plain files", later, 10),
        verdict("epochs: the first as fast as 32 threads on plain files", first, 1),
    ]


def training_verdicts(cells):
    ratios = {
        row: stall_ratio(cell, row)
        for cell in cells
        for row in cell["rows"]
        if row.startswith("Hocket") and not row.endswith("1")
    }
    return [verdict("training: a tenth of the stall from the second epoch on", ratios, 10)]


VERDICTS = {
    "disk": disk_verdicts,
    "memory": memory_verdicts,
    "epochs": epochs_verdicts,
    "training": training_verdicts,
}


def print_verdicts(verdicts):
    print("\nTargets")
    for v in verdicts:
        line = f"  {v['verdict']:<13}{v['target']}"
        if "worst" in v:
            line += f" (worst: {ratio_text(v['worst'])}, {v['at']}"
            line += f"; {v['short']} of {v['of']} short)" if v["short"] else ")"
        print(line)
