"""Makes tables and verdicts from the measured cells."""

import statistics

PEERS = ("Open MPI", "MPICH", "Gloo", "Open MPI 5", "MPICH 5", "Intel MPI", "oneCCL")
SHARED, PLAIN = "Hocket", "Hocket (malloc)"
BEFORE = "before"
LIMIT = "links' limit"
RATIOS = "then the fastest peer's, and the limit's, over Hocket's"


def buffers_text(touch):
    """Says if ranks used their buffers between iterations (--touch)."""
    return "buffers touched between iterations" if touch else "buffers not touched between iterations"


def size_text(size):
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def short_size(size):
    """Returns the size as --sizes takes it."""
    for shift, unit in ((20, "M"), (10, "K")):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift}{unit}"
    return str(size)


def time_text(us):
    if us is None:
        return "-"
    scale, unit = (1, "us") if us < 999.5 else (1e3, "ms") if us < 999.5e3 else (1e6, "s")
    value = us / scale
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def median(cell, row):
    """Returns the median in us; None if there is no figure, or if it doesn't count because the result was wrong."""
    figures = cell["rows"].get(row, {})
    return None if figures.get("wrong") else figures.get("median_us")


def fastest(cell, rows=PEERS):
    """Returns (time, name) of the fastest of these rows, or None."""
    times = [(median(cell, row), row) for row in rows if median(cell, row)]
    return min(times, default=None)


def ratio(cell, row):
    """Returns how many times faster than the fastest peer this row is."""
    peer, own = fastest(cell), median(cell, row)
    return peer[0] / own if peer and own else None


def share(cell, row, limit="roofline"):
    """Returns this row's share of the limit's speed."""
    best, own = median(cell, limit), median(cell, row)
    return best / own if best and own else None


def ratio_text(value):
    return "-" if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def print_columns(header, lines):
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
    for line in [header, *lines]:
        print("  ".join(text.rjust(width) for text, width in zip(line, widths)))


def row_names(cells):
    return list(dict.fromkeys(name for cell in cells for name in cell["rows"]))


def measured(cells, row):
    return any(median(cell, row) for cell in cells)


def print_host_tables(cells, touch, place="on one host"):
    for collective, ranks in dict.fromkeys((c["collective"], c["ranks"]) for c in cells):
        group = [c for c in cells if (c["collective"], c["ranks"]) == (collective, ranks)]
        rows = [row for row in row_names(group) if measured(group, row)]
        own = [row for row in rows if row not in PEERS and row != "roofline" and not row.startswith(BEFORE)]
        limited = own if "roofline" in rows else []
        print(f"\n{collective}, {ranks} ranks {place}, float32, {buffers_text(touch)}: median time; {RATIOS}")
        header = ["size", *rows, *(f"peer/{row}" for row in own), *(f"roofline/{row}" for row in limited)]
        print_columns(
            header,
            [
                [
                    size_text(cell["bytes"]),
                    *(time_text(median(cell, row)) for row in rows),
                    *(ratio_text(ratio(cell, row)) for row in own),
                    *(ratio_text(share(cell, row)) for row in limited),
                ]
                for cell in group
            ],
        )


def print_network_table(group):
    rows = [row for row in row_names(group) if measured(group, row)]
    own = [row for row in rows if row not in PEERS and row not in (LIMIT, BEFORE)]
    limited = LIMIT in rows
    print(f"\n{group[0]['collective']}, {group[0]['place']}, float32: median time; {RATIOS}")
    header = ["size", *rows, *(f"peer/{row}" for row in own), *(f"limit/{row}" for row in own if limited)]
    print_columns(
        header,
        [
            [
                size_text(cell["bytes"]),
                *(time_text(median(cell, row)) for row in rows),
                *(ratio_text(ratio(cell, row)) for row in own),
                *(ratio_text(share(cell, row, LIMIT)) for row in own if limited),
            ]
            for cell in group
        ],
    )


def print_scaling_table(cells):
    rows = row_names(cells)
    setups = list(dict.fromkeys(name for cell in cells for name in cell["setup"]))
    print("\nCost over ranks on one host: set-up of a communicator (median), then all_reduce of 1 KiB (median)")
    print_columns(
        ["ranks", *(f"set-up {name}" for name in setups), *rows],
        [
            [
                str(cell["ranks"]),
                *(time_text(cell["setup"].get(name)) for name in setups),
                *(time_text(median(cell, row)) for row in rows),
            ]
            for cell in cells
        ],
    )


def print_problems(cells):
    """Prints each error and failure once. Returns how many of these are Hocket's or the roofline's. A peer's defects
    are printed and its figures left out, but they do not make the comparison fail."""
    seen: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        for row, figures in cell["rows"].items():
            text = "wrong results" if figures["wrong"] else figures.get("error")
            if text:
                where = f"{cell['collective']} of {size_text(cell['bytes'])} on {cell['ranks']} ranks"
                seen.setdefault((row, text), []).append(where)
    if seen:
        print("\nLeft out")
    for (row, text), places in seen.items():
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        print(f"  {row}: {text} ({', '.join(places[:3])}{more})")
    return sum(row not in PEERS and not row.startswith(BEFORE) for row, _ in seen)


def place(cell):
    return f"{size_text(cell['bytes'])}, " + cell.get("place", f"{cell['ranks']} ranks, {cell['collective']}")


def verdict(name, cells, figure, needed, strictly=False):
    """Returns one line: says if figure(cell) is at least (strictly: more than) the needed value in all cells."""
    values = [(figure(cell), cell) for cell in cells]
    values = [(value, cell) for value, cell in values if value is not None]
    if not values:
        return {"target": name, "verdict": "not measured"}
    short = [value for value, _ in values if not (value > needed if strictly else value >= needed)]
    least, where = min(values, key=lambda pair: pair[0])
    return {
        "target": name,
        "verdict": "not reached" if short else "reached",
        "least": least,
        "at": place(where),
        "short": len(short),
        "of": len(values),
    }


def faster(what, cells, row):
    """Returns the verdict on being faster than all peers."""
    return verdict(f"{what}: faster than every peer", cells, lambda c: ratio(c, row), 1, strictly=True)


def faster_in_both(what, cells):
    return [faster(f"{what}, hkt_mem_alloc", cells, SHARED), faster(f"{what}, malloc", cells, PLAIN)]


def host_verdicts(cells):
    cells = [c for c in cells if c["ranks"] in (2, 4)]
    reduces = [c for c in cells if c["collective"] == "all_reduce"]
    large = [c for c in reduces if c["bytes"] >= 64 << 10]
    what = "1. all_reduce from 64 KiB"
    verdicts = [
        *faster_in_both("1. all_reduce at every size", reduces),
        verdict(what + ", hkt_mem_alloc: 3 x the fastest peer", large, lambda c: ratio(c, SHARED), 3),
        verdict(what + ", hkt_mem_alloc: 0.8 of the roofline", large, lambda c: share(c, SHARED), 0.8),
        verdict(what + ", malloc: 1.5 x the fastest peer", large, lambda c: ratio(c, PLAIN), 1.5),
    ]
    for collective in ("reduce_scatter", "all_gather", "broadcast"):
        group = [c for c in cells if c["collective"] == collective]
        verdicts += faster_in_both(f"2. {collective} at every size", group)
    return verdicts


def network_verdicts(cells):
    verdicts = []
    for row, choice in (("Hocket, blueconnect", "blueconnect"), ("Hocket", "Hocket's choice")):
        what = f"3. between hosts, {choice}"
        within = what + ": within 10 % of the links' limit"
        of_it = [cell for cell in cells if row in cell["rows"]]
        verdicts.append(verdict(within, of_it, lambda c, row=row: share(c, row, LIMIT), 1 / 1.1))
        verdicts.append(faster(what, of_it, row))
    return verdicts


def loopback_verdicts(cells):
    def of_own(cell, row):
        """Returns this row's share of the speed of Hocket's own TCP."""
        own, other = median(cell, SHARED), median(cell, row)
        return own / other if own and other else None

    ways = [row for row in row_names(cells) if row.startswith(SHARED + ", ")]
    return [
        verdict("5. tcp loopback: at least 1.2 times the fastest peer's speed", cells, lambda c: ratio(c, SHARED), 1.2),
        *(verdict(f"5. {row}: at least 0.9 of Hocket's own TCP", cells, lambda c, row=row: of_own(c, row), 0.9)
          for row in ways),
    ]


def scaling_verdicts(cells):
    """Checks that time is linear from the fewest ranks on: twice the ranks take at most twice the time."""
    timed = sorted((c for c in cells if c["setup"].get("Hocket")), key=lambda c: c["ranks"])

    def linear(cell):
        ranks, us = cell["ranks"] / timed[0]["ranks"], cell["setup"]["Hocket"] / timed[0]["setup"]["Hocket"]
        return ranks / us

    return [
        verdict("4. set-up grows no worse than linearly with the ranks", timed[1:], linear, 1),
        *faster_in_both("4. all_reduce of 1 KiB on 2 to 32 ranks", cells),
    ]


def than_before(cell, row):
    """Returns how many times faster than the other build this is; row: Hocket's."""
    earlier, now = median(cell, row.replace(SHARED, BEFORE)), median(cell, row)
    return earlier / now if earlier and now else None


def before_verdicts(cells):
    """Compares this build with the one of --before, in every cell that both have."""
    verdicts = []
    for row in (SHARED, PLAIN):
        ratios = [value for cell in cells if (value := than_before(cell, row))]
        if not ratios:
            continue
        mean = statistics.geometric_mean(ratios)
        verdicts.append(
            {
                "target": f"{row}: at least 0.98 of the speed before (geometric mean of {len(ratios)} cells)",
                "verdict": "reached" if mean >= 0.98 else "not reached",
                "mean": mean,
            }
        )
        name = f"{row}: at least 0.9 of the speed before in each cell"
        verdicts.append(verdict(name, cells, lambda c, row=row: than_before(c, row), 0.9))
    set_ups = [c["setup"] for c in cells if c.get("setup", {}).get(BEFORE) and c["setup"].get(SHARED)]
    if set_ups:
        mean = statistics.geometric_mean(s[BEFORE] / s[SHARED] for s in set_ups)
        name = f"set-up: at least 0.98 of the speed before (geometric mean of {len(set_ups)})"
        verdicts.append({"target": name, "verdict": "reached" if mean >= 0.98 else "not reached", "mean": mean})
    return verdicts


def print_slower(cells, least=0.9):
    """Prints the cells that are slower than before. Measure them again: one slow cell in a hundred is chance."""
    for row in (SHARED, PLAIN):
        for cell in cells:
            value = than_before(cell, row)
            if value and value < least:
                print(f"  slower than before: {row}, {place(cell)}: {ratio_text(value)}")


def print_verdicts(verdicts):
    print("\nTargets")
    for v in verdicts:
        line = f"  {v['verdict']:<13}{v['target']}"
        if "mean" in v:
            line += f" (it is {v['mean']:.3f})"
        if "least" in v:
            line += f" (least: {ratio_text(v['least'])}, {v['at']}"
            line += f"; {v['short']} of {v['of']} short)" if v["short"] else ")"
        print(line)
