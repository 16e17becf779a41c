"""Sums up the cells of part host: how far Hocket is ahead of the fastest peer, and how far behind the limit."""

import statistics

import report

MEMORIES = {report.SHARED: "hkt_mem_alloc", report.PLAIN: "malloc"}
PEER, LIMIT = "peer", "limit"


def time_against(cell, against):
    """Returns (time, name of the row) of the fastest peer or of the limit, or None."""
    return report.fastest(cell, report.PEERS if against == PEER else ("roofline",))


def ratios(cells, row, against):
    """Returns (other's time / this row's time, other's name, cell) for each cell that has both."""
    pairs = [(time_against(cell, against), report.median(cell, row), cell) for cell in cells]
    return [(other[0] / own, other[1], cell) for other, own, cell in pairs if other and own]


def sum_up(cells, ranks, row, against):
    """Returns the summary of these cells, or None if none of them has both times."""
    found = ratios([cell for cell in cells if cell["ranks"] == ranks], row, against)
    if not found:
        return None
    least, name, cell = min(found, key=lambda entry: entry[0])
    return {
        "ranks": ranks,
        "memory": MEMORIES[row],
        "against": against,
        "behind": sum(ratio < 1 for ratio, _, _ in found),
        "of": len(found),
        "mean": statistics.geometric_mean(ratio for ratio, _, _ in found),
        "least": least,
        "at": f"{cell['collective']}, {report.short_size(cell['bytes'])}",
        "least_against": name,
    }


def of_cells(cells):
    """Returns a summary for each number of ranks, memory, and what Hocket is compared with."""
    counts = sorted({cell["ranks"] for cell in cells})
    every = [sum_up(cells, ranks, row, against) for ranks in counts for against in (PEER, LIMIT) for row in MEMORIES]
    return [entry for entry in every if entry]


HEADER = ["ranks", "memory", "against", "behind", "mean", "least", "at"]


def lines(entries):
    """Returns the texts of HEADER's columns for each entry."""
    return [
        [
            str(entry["ranks"]),
            entry["memory"],
            entry["against"],
            f"{entry['behind']} of {entry['of']}",
            report.ratio_text(entry["mean"]),
            report.ratio_text(entry["least"]),
            entry["at"] + (f" ({entry['least_against']})" if entry["against"] == PEER else ""),
        ]
        for entry in entries
    ]


def print_summary(entries, touch):
    if entries:
        print(f"\nSummary of this host, {report.buffers_text(touch)}: times of the fastest peer, and of the limit, over")
        print("Hocket's. behind: cells in which Hocket is slower; mean: the geometric one; least: the least, and its cell")
        report.print_columns(HEADER, lines(entries))
