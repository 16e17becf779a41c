"""BML: Wang et al., "BML: A High-performance, Low-cost Gradient Synchronization Algorithm for DML Training", NeurIPS 2018."""

import json
import os

import bars
from schedc_runs import percent, require_same, table

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RATE = 1.25e9  # bytes a second, of the links of topology bcube
SIZE = 1_000_000_000
FAT_TREE = "fattree({})@10Gb/s,0us"
# Names as in the figure, and what is predicted: schedule, topology, network. By servers.
BARS = ["BML/BCube", "PS/BCube", "Hierarchical/Fat-Tree", "PS/Fat-Tree"]
FIGURE5 = {
    16: [
        ("bml", "bcube(4,2)", "latency none"),
        ("direct", "bcube(4,2)", "order digits; latency none"),
        ("blueconnect", "2x2x4", FAT_TREE.format(4)),
        ("direct", 16, FAT_TREE.format(4)),
    ],
    1024: [
        ("bml", "bcube(32,2)", "latency none"),
        ("direct", "bcube(32,2)", "order digits; latency none"),
        ("blueconnect", "8x8x16", FAT_TREE.format(16)),
        ("direct", 1024, FAT_TREE.format(16)),
    ],
}
FAST = 5e9  # bytes a second: 40 Gb/s, of the testbed
SERVERS = 9


def units(schedc, schedule, topology, network):
    """In times in which one link carries all data."""
    return schedc.seconds(schedule, topology, SIZE, network) * RATE / SIZE


def closed_forms(servers):
    n = round(servers**0.5)
    flat = 2 * (servers - 1) / servers
    return [flat / 2, 2 * (n - 1) / n, flat, flat]


def figure5(schedc):
    rows = []
    for servers, runs in FIGURE5.items():
        for name, form, (schedule, topology, network) in zip(BARS, closed_forms(servers), runs):
            ours = units(schedc, schedule, topology, network)
            require_same(f"{name} on {servers} servers", form, ours)
            rows.append([f"{servers:,}", name, f"`{schedule}`", f"{form:.9f}", f"{ours:.9f}", f"{abs(ours / form - 1):.0e}"])
    return "Times of gradient synchronization, in T_F.\n\n" + table(
        ["servers", "bar", "schedule", "closed form", "ours", "apart by"], rows, 3
    )


# Not in the figure: cluster, what, closed form, and what is predicted.
OTHERS = [
    ("BCube(3,2)", "BML", 8 / 9, ("bml", "bcube(3,2)", "latency none")),
    ("BCube(8,3)", "BML", 2 * 511 / (3 * 512), ("bml", "bcube(8,3)", "latency none")),
    ("BCube(3,2)", "PS", 4 / 3, ("direct", "bcube(3,2)", "order digits; latency none")),
    ("BCube(8,3)", "PS", 7 / 4, ("direct", "bcube(8,3)", "order digits; latency none")),
    ("Fat-Tree(4)", "ring", 2 * 15 / 16, ("ring", 16, FAT_TREE.format(4))),
    ("Fat-Tree(16)", "ring", 2 * 1023 / 1024, ("ring", 1024, FAT_TREE.format(16))),
    *(
        ("Fat-Tree(4)", f"PS, one drawn path ({seed})", 2 * 15 / 16, ("direct", 16, FAT_TREE.format(4) + f"; routing hash({seed})"))
        for seed in range(1, 6)
    ),
]


def others(schedc):
    rows = []
    for cluster, what, form, run in OTHERS:
        ours = units(schedc, *run)
        rows.append([cluster, what, f"{form:.9f}", f"{ours:.9f}", f"{ours / form - 1:.0e}"])
    return table(["cluster", "what", "closed form", "ours", "ours / closed form - 1"], rows, 2)


def draw_figure5(schedc, path):
    groups = {f"{servers:,} servers": [units(schedc, *run) for run in runs] for servers, runs in FIGURE5.items()}
    with open(path, "w") as file:
        file.write(bars.picture(groups, BARS, 2.5, 0.5, "T_F"))


def steps(schedc):
    pieces = 2 * SERVERS  # of the gradient on BCube(3,2), each with its own time T_C
    spans = sorted({(round(begin, 9), round(end, 9)) for begin, end in schedc.messages("bml", "bcube(3,2)", SIZE, "latency none")})
    counts = [(end - begin) * RATE / SIZE * pieces for begin, end in spans]
    text = "Steps of BML on BCube(3,2), in T_C: paper 6, 2, 2, 6, together 16; ours "
    text += ", ".join(f"{count:.6g}" for count in counts) + f", together {sum(counts):.6g}.\n\n"
    rows = []
    for n, k, ports in ((4, 2, 4), (32, 2, 16)):
        servers = n**k
        cube = schedc.predict("bml", f"bcube({n},{k})", SIZE)["switches"]
        tree = schedc.predict("blueconnect", f"{ports // 2}x{ports // 2}x{ports}", SIZE, f"fattree({ports})")["switches"]
        rows.append(
            [
                f"{servers:,}",
                f"BCube({n},{k})",
                str(k * servers // n),
                str(cube),
                f"Fat-Tree({ports})",
                str(5 * servers // ports),
                str(tree),
            ]
        )
    return text + table(["servers", "network", "switches, kN/n", "ours", "network", "5N/n", "ours"], rows, 2)


def communication(schedc, model, tensor):
    """Seconds of an iteration's communication on the testbed: BML, a server on each host, and the server of the largest tensor."""
    link = f"@{FAST / 1e9}GB/s,0us"
    cube = schedc.seconds("bml", "bcube(3,2)", model, f"level port switch{link}; level port1 switch{link}")
    parts = schedc.seconds("direct", SERVERS, model, f"switch{link}")
    whole = schedc.seconds("parameter_server(1)", SERVERS, tensor, f"switch{link}")
    return cube, parts, whole


def bounds(schedc, name, model, tensor, printed):
    """By how much BML shortens iterations, if the computation is a part of the iteration on the fat-tree with equal parts."""
    cube, parts, whole = communication(schedc, model, tensor)
    text = f"{name}, {model / 1e6:.1f} MB, 40 Gb/s: communication of an iteration takes {1e3 * cube:.4g} ms by BML, "
    text += f"{1e3 * parts:.4g} ms with equal parts on all servers of a fat-tree, {1e3 * whole:.4g} ms if its largest tensor, "
    text += f"{tensor / 1e6:.1f} MB, is on one server.\n\n"
    rows = []
    for share in (0, 0.25, 0.5, 0.75, 0.9):
        compute = parts * share / (1 - share)
        rows.append(
            [percent(share), f"{1e3 * compute:.4g}", percent(1 - (compute + cube) / (compute + parts), 1)]
            + [percent(1 - (compute + cube) / (compute + whole), 1)]
        )
    text += table(["computation, share of an iteration with equal parts", "ms", "BML saves, equal parts", "BML saves, whole tensors"], rows)
    text += "\n"
    for saved in printed:
        compute = (whole - cube) / saved - whole
        equal = "more than equal parts allow" if saved > 0.5 else f"with equal parts {1e3 * ((parts - cube) / saved - parts):.4g} ms"
        text += f"- the printed {percent(saved, 1)} needs computation of {1e3 * compute:.4g} ms with whole tensors (an iteration "
        text += f"on the fat-tree takes {compute + whole:.3g} s); {equal}\n"
    return text


def lenet(schedc):
    tensors = [5 * 5 * 32, 32, 5 * 5 * 32 * 64, 64, 7 * 7 * 64 * 1024, 1024, 1024 * 10, 10]
    return bounds(schedc, "LeNet-5", 4 * sum(tensors), 4 * max(tensors), (0.187, 0.564))


def vgg19(schedc):
    with open(os.path.join(ROOT, "examples", "overlap", "vgg19.json")) as file:
        layers = [layer["bytes"] for layer in json.load(file)["layers"]]
    return bounds(schedc, "VGG-19", sum(layers), max(layers), (0.292, 0.521))


FIGURES = {"bml-5": figure5, "bml-others": others, "bml-steps": steps, "bml-6": lenet, "bml-7": vgg19}
