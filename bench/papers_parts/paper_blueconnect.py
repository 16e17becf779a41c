"""BlueConnect: Cho et al., "BlueConnect: Decomposing All-Reduce for Deep Learning on Heterogeneous Network Hierarchy", MLSys 2019."""

import math

from schedc_runs import CLUSTERS, percent, require_same, table

MB = 1e6
SIZE = 100 * MB


def cluster(name):
    return f"{CLUSTERS}:{name}"


# The equations, for n bytes, p learners, w bytes a second. alpha: seconds of a message.


def ring(p, n, alpha, w):
    """Equation 1."""
    return (p - 1) * alpha + (p - 1) / p * n / w


def halving(p, n, alpha, w):
    """Equation 2. The paper's lg(3) is taken to be 2."""
    return math.ceil(math.log2(p)) * alpha + (p - 1) / p * n / w


def best(p, n, alpha, w):
    """Equation 3."""
    return (halving if math.log2(p).is_integer() else ring)(p, n, alpha, w)


def master(p, n, alpha, w):
    """Equation 4."""
    return halving(p, n, alpha, w) + ring(p, n, alpha, w)


def flat(sizes, rates, n, alpha):
    """Equations 5 and 6."""
    return 2 * ring(math.prod(sizes), n, alpha, min(rates))


def two_levels(sizes, rates, n, alpha):
    """Equation 7."""
    return 2 * master(sizes[0], n, alpha, rates[0]) + 2 * best(math.prod(sizes[1:]), n, alpha, min(rates))


def levels(sizes, rate_of, n, alpha, stage):
    """Equations 9 and 10. rate_of: the minimum, by level."""
    return sum(2 * stage(p, n / math.prod(sizes[:i]), alpha, rate_of(i)) for i, p in enumerate(sizes))


def on_tree(sizes, rates, last):
    """Returns Equation 9's minimum over 0 <= j <= i, or as printed over 0 <= j < i, which leaves nothing for i = 0: w_0 there."""
    return lambda i: min(rates[j] / math.prod(sizes[:j]) for j in range(max(1, i + last)))


def on_torus(sizes, rates, last):
    """Returns Equation 10's min {w_0, w_i / p_0}, or as printed min {w_0, w_j / p_0} over 1 <= j < i."""
    return lambda i: min([rates[0], *(rates[j] / sizes[0] for j in ([i] if last and i > 0 else range(1, i)))])


FIGURE1 = ([3, 2, 2], [32e9, 12.5e9, 25e9])
ALPHA = 10e-6


def equations(schedc):
    sizes, rates = FIGURE1

    def row(name, what, equation, schedule, topology, **options):
        ours = schedc.seconds(schedule, topology, SIZE, **options)
        if name != "7" and "printed" not in name:
            require_same(f"equation {name}", equation, ours)
        rows.append([name, what, f"{1e3 * equation:.6f}", f"{1e3 * ours:.6f}", f"{ours / equation - 1:+.1e}"])

    rows: list[list[str]] = []
    inside = {"network": "switch@32GB/s,10us"}
    row("1", "3 GPUs, `ring`", ring(3, SIZE, ALPHA, rates[0]), "ring", 3, **inside, collective="reduce_scatter")
    row("2, 3", "4 GPUs, `halving`", halving(4, SIZE, ALPHA, rates[0]), "halving", 4, **inside, collective="reduce_scatter")
    row("4", "4 GPUs, `ring` and `binomial`", master(4, SIZE, ALPHA, rates[0]), cluster("to_master"), 4, **inside, collective="reduce")
    row("5, 6", "`ring`", flat(sizes, rates, SIZE, ALPHA), "ring", cluster("figure1"))
    row(
        "7",
        "`two_level(halving, doubling)`",
        two_levels(sizes, rates, SIZE, ALPHA),
        "two_level(halving, doubling)",
        cluster("figure1_masters"),
    )
    for name, last in (("9", 1), ("9, as printed", 0)):
        row(name, "`rings`", levels(sizes, on_tree(sizes, rates, last), SIZE, ALPHA, ring), "rings", cluster("figure1"))
    for name, last in (("10", 1), ("10, as printed", 0)):
        row(name, "`rings`, torus", levels(sizes, on_torus(sizes, rates, last), SIZE, ALPHA, ring), "rings", cluster("torus1"))
    heads = ["equation", "what", "equation, ms", "ours, ms", "ours / equation - 1"]
    return "Figure 1's cluster, 100 MB, 10 us a message.\n\n" + table(heads, rows, 2)


def figure5(schedc):
    rows = []
    for name, topology in (("10 Gb/s, PCIe", "intel"), ("100 Gb/s, NVLink", "ibm")):
        for floats in (0.5e8, 1e8, 1.5e8, 2e8):
            nccl = schedc.seconds("ring", cluster(topology), 4 * floats)
            blue = schedc.predict("rings", cluster(topology), 4 * floats)
            slowest = max(level["seconds"] for level in blue["levels"])
            rows.append([name, f"{floats:.1e}", f"{1e3 * nccl:.1f}", f"{1e3 * blue['seconds']:.1f}", f"{nccl / blue['seconds']:.2f}"])
            rows[-1] += [f"{1e3 * slowest:.1f}", f"{nccl / slowest:.2f}"]
    return table(["two nodes of 4", "float32s", "`ring`, ms", "`rings`, ms", "faster by", "its slowest level alone, ms", "faster by"], rows)


# GPUs, nodes at a rack switch, racks.
FIGURE6 = [(4, 1, 1), (8, 2, 1), (16, 4, 1), (32, 8, 1), (48, 12, 1), (64, 16, 1), (96, 12, 2), (128, 16, 2), (192, 16, 3)]
ALONE = 0.163  # seconds of an iteration on one GPU
BATCH = 32
PRINTED = {"ring": "118 to 150", "two levels": "58.0", "BlueConnect": "31.0"}  # ms, 192 GPUs


def overheads(schedc, gpus, nodes, racks, alpha):
    """Seconds of `ring`, of two levels, of BlueConnect by rings and by halving where a size is a power of two."""
    hosts = f"level gpu switch@32GB/s,{alpha * 1e6:g}us; level node switch@12.5GB/s,{alpha * 1e6:g}us"
    own = f"{hosts}; level rack switch@{12.5 * nodes}GB/s,{alpha * 1e6:g}us"  # racks don't block
    racked = cluster(f"minsky({nodes}, {racks})")
    masters = nodes * racks
    halves = "halvings" if racks != 3 else "halvings_above"
    by_halving = None if math.log2(nodes) % 1 else schedc.seconds(cluster(halves), racked, SIZE, own)
    return [
        schedc.seconds("ring", racked, SIZE, own),
        schedc.seconds(
            "two_level" if math.log2(masters) % 1 else "two_level(halving, doubling)", cluster(f"hosts({masters})"), SIZE, hosts
        ),
        schedc.seconds("rings", racked, SIZE, own),
        by_halving,
    ]


def closed_forms(nodes, racks, alpha):
    sizes, rates = [4, nodes, racks], [32e9, 12.5e9, 200e9]
    one_level = [size for size in sizes if size > 1]
    rate = on_tree(sizes, rates, 1)
    return [
        flat(one_level, rates[: len(one_level)], SIZE, alpha),
        2 * master(4, SIZE, alpha, rates[0]) + (2 * best(nodes * racks, SIZE, alpha, rates[1]) if nodes * racks > 1 else 0),
        levels(sizes, rate, SIZE, alpha, ring),
        None if math.log2(nodes) % 1 else levels(sizes, rate, SIZE, alpha, best),
    ]


def cell(value):
    return "-" if value is None else f"{1e3 * value:.1f}"


def figure6(schedc):
    text = ""
    for alpha in (300e-6, 10e-6):
        rows, last = [], []
        for gpus, nodes, racks in FIGURE6:
            last = overheads(schedc, gpus, nodes, racks, alpha)
            cells = zip(closed_forms(nodes, racks, alpha), last)
            rows.append([str(gpus), *(cell(value) for pair in cells for value in pair)])
        heads = ["GPUs", "ring, Eq. 6", "ours", "two levels, Eq. 7", "ours", "BlueConnect, Eq. 9", "ours", "by halving", "ours"]
        text += f"Figure 6a, communication of an iteration in ms, {alpha * 1e6:g} us a message:\n\n{table(heads, rows)}\n"
        text += f"At 192 GPUs, from these times:\n\n{consequences(last)}\n"
    return text


def consequences(seconds):
    """Figures 6b to 6d at 192 GPUs."""
    rows = []
    for name, value in zip(PRINTED, seconds):
        total = ALONE + value
        future = ALONE / 4.8 + value / 2
        paper_gain, half_gain = (ALONE + 0.031) / (ALONE + 0.058), (ALONE / 4.8 + 0.0155) / (ALONE / 4.8 + 0.029)
        gain = total / (ALONE + seconds[2]) - 1
        projected = future / (ALONE / 4.8 + seconds[2] / 2) - 1
        rows.append(
            [
                name,
                PRINTED[name],
                cell(value),
                percent(ALONE / total, 1),
                f"{192 * BATCH / total:,.0f}",
                percent(gain, 1),
                percent(projected, 1),
            ]
        )
        if name == "two levels":
            rows[-1][5] += f" (11 %; {percent(1 / paper_gain - 1)} by 58.0 and 31.0)"
            rows[-1][6] += f" (22 %; {percent(1 / half_gain - 1)} by 58.0 and 31.0)"
        elif name == "ring":
            rows[-1][5] += " (45 %)"
    heads = ["", "paper, ms", "ours, ms", "efficiency (6b)", "images a second (6c)", "BlueConnect is faster by (paper), 6c", "6d"]
    return table(heads, rows)


FIGURES = {"blueconnect-equations": equations, "blueconnect-5": figure5, "blueconnect-6": figure6}
