"""The plots: small multiples, both axes logarithmic, at most four beside one another."""

import itertools

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import report

# Peers in muted tones, Hocket in red, the limit as a dashed line.
STYLES = {
    "Open MPI": ("#4878a8", "-", "o"),
    "MPICH": ("#6a9f58", "-", "s"),
    "Gloo": ("#a07ab5", "-", "^"),
    "Open MPI 5": ("#1f4e79", "-", "o"),
    "MPICH 5": ("#2f6b1f", "-", "s"),
    "Intel MPI": ("#d18f00", "-", "D"),
    "oneCCL": ("#008b8b", "-", "v"),
    "Hocket": ("#c8102e", "-", "o"),
    "Hocket (malloc)": ("#e8836f", "-", "o"),
    report.BEFORE: ("#888888", ":", "x"),
    report.BEFORE + " (malloc)": ("#bbbbbb", ":", "x"),
    "roofline": ("#333333", "--", None),
    report.LIMIT: ("#333333", "--", None),
    "Hocket, ring": ("#e8836f", "-", "v"),
    "Hocket, blueconnect": ("#8c1c2c", "-", "D"),
    "Hocket, net": ("#e8836f", "-", "s"),
    "Hocket, ofi+tcp": ("#8c1c2c", "-", "^"),
}


MOST_COLUMNS = 4


def size_ticks(axes, sizes):
    ticks = [sizes[0] * 64**i for i in range(5) if sizes[0] * 64**i < sizes[-1] / 8] + [sizes[-1]]
    axes.set_xticks(ticks)
    axes.set_xticklabels([report.size_text(tick) for tick in ticks])
    axes.set_xlabel("size of the array")


def rank_ticks(axes, ranks):
    axes.set_xticks(ranks)
    axes.set_xticklabels([str(count) for count in ranks])
    axes.set_xlabel("ranks")


def axis_time(us):
    for limit, scale, unit in ((1e3, 1, "us"), (1e6, 1e3, "ms")):
        if us < limit:
            return f"{us / scale:g} {unit}"
    return f"{us / 1e6:g} s"


def draw_panel(axes, title, lines, ticks):
    """lines: {row: [(x, us)]}"""
    for row, all_points in lines.items():
        points = [point for point in all_points if point[1]]
        if not points:
            continue
        color, line, marker = STYLES[row]
        width = 2.2 if row.startswith("Hocket") else 1.4
        axes.plot(*zip(*points), line, color=color, marker=marker, markersize=3.5, linewidth=width, label=row)
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ticks(axes, sorted({x for points in lines.values() for x, _ in points}))
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda us, _: axis_time(us))
    axes.grid(True, which="major", color="#e4e4e4", linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def draw(panels, columns, title, ticks, file):
    """panels: [(title, lines) or None], with `columns` of them in a row; one legend for all."""
    height = -(-len(panels) // columns)
    figure, grid = plt.subplots(
        height, columns, sharey=True, squeeze=False, figsize=(1.2 + 3.4 * columns, 1.4 + 3.0 * height)
    )
    handles: dict[str, matplotlib.artist.Artist] = {}  # by label
    for axes, panel in itertools.zip_longest(grid.flat, panels):
        if panel is None:
            axes.set_visible(False)
            continue
        name, lines = panel
        draw_panel(axes, name, lines, ticks)
        axes.tick_params(labelleft=True)
        handles.update(zip(*reversed(axes.get_legend_handles_labels())))
    for axes, below in zip(grid[:-1].flat, grid[1:].flat):
        if below.get_visible():
            axes.set_xlabel("")
    for axes in grid[:, 0]:
        axes.set_ylabel("median time")
    figure.suptitle(title, fontsize=12, y=0.99)
    top = 1 - 0.35 / figure.get_figheight()
    per_line = max(3, 2 * columns)
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="upper center",
        bbox_to_anchor=(0.5, top),
        ncol=per_line,
        frameon=False,
        fontsize=9,
    )
    lines_of_legend = -(-len(handles) // per_line)
    figure.tight_layout(rect=(0, 0, 1, top - (0.2 * lines_of_legend - 0.15) / figure.get_figheight()))
    figure.savefig(file, metadata={"Date": None} if file.endswith(".svg") else None)
    plt.close(figure)


def by_size(cells):
    return {row: [(cell["bytes"], report.median(cell, row)) for cell in cells] for row in report.row_names(cells)}


def draw_host(cells, file, touch, place="on one host"):
    """A panel for each number of ranks and collective. Each number of ranks begins a row, unless there is one collective
    alone: then the numbers stand beside one another."""
    collectives = list(dict.fromkeys(cell["collective"] for cell in cells))
    counts = sorted({cell["ranks"] for cell in cells})
    columns = min(MOST_COLUMNS, len(counts) if len(collectives) == 1 else len(collectives))
    filling = [None] * (-len(collectives) % columns) if len(collectives) > 1 else []
    panels: list[tuple[str, dict] | None] = []
    for ranks in counts:
        for collective in collectives:
            group = [c for c in cells if (c["ranks"], c["collective"]) == (ranks, collective)]
            panels.append((f"{collective}, {ranks} ranks", by_size(group)))
        panels += filling
    draw(panels, columns, f"Collectives {place}, float32, {report.buffers_text(touch)}", size_ticks, file)


def draw_network(cells, file):
    of_panels = list(dict.fromkeys((cell["place"], cell["collective"]) for cell in cells))
    panels = [
        (f"{collective}, {place}", by_size([c for c in cells if (c["place"], c["collective"]) == (place, collective)]))
        for place, collective in of_panels
    ]
    draw(panels, min(2, len(panels)), "Collectives over networks, float32", size_ticks, file)


def draw_scaling(cells, file):
    setups = list(dict.fromkeys(name for cell in cells for name in cell["setup"]))
    panels = [
        (
            "set-up of a communicator",
            {name: [(c["ranks"], c["setup"].get(name)) for c in cells] for name in setups},
        ),
        (
            "all_reduce of 1 KiB",
            {row: [(c["ranks"], report.median(c, row)) for c in cells] for row in report.row_names(cells)},
        ),
    ]
    draw(panels, 2, "Cost over ranks on one host", rank_ticks, file)
