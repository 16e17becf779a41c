"""CommLib: Shi et al., "Towards scalable distributed training of deep learning on public cloud clusters", MLSys 2021."""

import math

from schedc_runs import percent, table

NODES, GPUS = 16, 8
RANKS = NODES * GPUS
# Of schedules/topologies/cloud.sched: bytes a second, seconds.
INTRA, INTRA_LATENCY = 130e9, 3e-6
INTER, INTER_LATENCY = 3.125e9, 30e-6
DENSITY = 0.01
IMAGES = 1_281_167  # of ImageNet


def selection(elements):
    """Seconds of MSTopK with error feedback: the line through two times of docs/kernels.md, measured on an NVIDIA H200."""
    (few, fast), (many, slow) = (1.0e6, 84e-6), (25.6e6, 279e-6)
    return fast + (slow - fast) * (elements - few) / (many - few)


def closed_forms(d, element, sharers, dense):
    """Equations 7 to 10 for float32. element: bytes of a selected one. sharers: of a NIC. dense: Algorithm 2's last step."""
    part = d / GPUS
    reduce = (GPUS - 1) * INTRA_LATENCY + 4 * (GPUS - 1) * part / INTRA
    gathers = element // 4  # of values, and of indices
    inter = gathers * INTER_LATENCY * math.log2(NODES) + element * (NODES - 1) * DENSITY * part * sharers / INTER
    last = part if dense else DENSITY * part * NODES
    return [reduce, selection(part), inter, INTRA_LATENCY * math.log2(GPUS) + 4 * (GPUS - 1) * last / INTRA]


def figure8(schedc):
    text = ""
    for name, d in (("ResNet-50", 25e6), ("Transformer", 110e6)):
        prediction = schedc.predict(f"hitopk({DENSITY})", "cloud", 4 * d)
        first, between, last = (line["seconds"] for line in prediction["lines"])
        rows = []

        def row(what, parts):
            rows.append([what] + [f"{1e3 * part:.3f} ({percent(part / sum(parts))})" for part in parts])

        row("as printed: 4 bytes, a NIC for each GPU, sparse last step", closed_forms(d, 4, 1, False))
        row("8 bytes, a NIC for 8 GPUs, dense last step", closed_forms(d, 8, GPUS, True))
        row("ours, `hitopk(0.01)`", [first, selection(d / GPUS), between, last])
        heads = ["", "1: reduce-scatter, ms", "2: MSTopK", "3: all-gather between nodes", "4: all-gather"]
        text += f"{name}, {d / 1e6:g} million float32:\n\n{table(heads, rows)}\n"
    return text


def figure7(schedc):
    """A selected float16 is 6 bytes with its index."""
    schedules = [f"naive_ag({DENSITY})", "pipelined_tree(32)", "torus", f"hitopk({DENSITY})"]
    rows = []
    for d in (256e3, 1e6, 4e6, 16e6, 25e6, 64e6, 128e6):
        rows.append([f"{d / 1e6:g}"] + [f"{1e3 * schedc.seconds(schedule, 'cloud', 2 * d, element='float16'):.3f}" for schedule in schedules])
    return "Figure 7, float16, in ms:\n\n" + table(["million elements", "NaiveAG", "TreeAR", "2DTAR", "HiTopKComm"], rows)


# Name, parameters, batch of a GPU (None: the paper gives none), samples a second of one GPU; Table 3's of 128 GPUs by Dense-SGD,
# 2DTAR-SGD, MSTopK-SGD, with the scaling efficiency that it prints.
TABLE3 = [
    ("ResNet-50, 224", 25e6, 256, 1150, [(64000, 43.5), (134656, 91.4), (133376, 90.6)]),
    ("ResNet-50, 96", 25e6, 256, 4400, [(113280, 20.1), (313600, 56.7), (396800, 70.5)]),
    ("VGG-19", 143.65e6, 256, 560, [(17920, 25), (47616, 66.4), (57600, 80.4)]),
    ("Transformer", 110e6, None, 32, [(678, 16.5), (2534, 61.6), (3502, 87.8)]),
]
METHODS = [("Dense-SGD", "pipelined_tree(32)"), ("2DTAR-SGD", "torus"), ("MSTopK-SGD", f"hitopk({DENSITY})")]


def table3(schedc):
    rows = []
    for name, d, batch, single, columns in TABLE3:
        for (method, schedule), (throughput, printed) in zip(METHODS, columns):
            efficiency = throughput / (RANKS * single)
            whole = schedc.seconds(schedule, "cloud", 2 * d, element="float16")
            row = [name, method, f"{printed} %", percent(efficiency, 1), "-", "-", "-", f"{1e3 * whole:.1f}", "-"]
            if batch:
                alone, iteration = batch / single, batch * RANKS / throughput
                exposed = iteration - alone
                row[4:7] = (f"{1e3 * value:.1f}" for value in (alone, iteration, exposed))
                row[8] = percent(exposed / whole)
            rows.append(row)
    heads = ["model", "method", "efficiency, printed", "throughput / (128 x one GPU's)", "an iteration of one GPU, ms", "of 128 GPUs"]
    heads += ["exposed communication", "all communication, ours, float16", "exposed / ours"]
    return table(heads, rows, 2)


TABLE4 = [(13, 96, 4400, 366208, 65), (11, 128, 3010, 269696, 70), (3, 224, 1240, 131712, 83), (1, 288, 710, 72960, 80)]


def table5(schedc):
    rows, total = [], 0.0
    for epochs, side, single, throughput, printed in TABLE4:
        seconds = epochs * IMAGES / throughput
        total += seconds
        rows.append(
            [
                f"{side} x {side}",
                str(epochs),
                f"{throughput:,}",
                f"{printed} %",
                percent(throughput / (RANKS * single), 1),
                f"{seconds:.1f}",
            ]
        )
    rows.append(["all", "28", "", "", "", f"{total:.1f} (printed 151)"])
    return table(["input", "epochs", "images a second (Table 4)", "efficiency, printed", "by its figures", "seconds"], rows)


def pto(schedc):
    """The paper does not say how many layers the Transformer has; the time of gathering so few bytes hardly depends on it."""
    rows = []
    for name, layers, alone, printed in (("ResNet-50", 161, 11e-3, 7), ("Transformer", 161, 30e-3, 14)):
        for schedule in ("direct", "doubling", "ring"):
            gather = schedc.seconds(schedule, "cloud", 4 * layers, collective="all_gather")
            ours = alone / RANKS + gather
            rows.append(
                [name, f"`{schedule}`", f"{1e3 * alone:g}", f"{1e3 * alone / RANKS:.3f}", f"{1e3 * gather:.3f}", f"{1e3 * ours:.2f}"]
            )
            rows[-1] += [str(printed), f"{printed - 1e3 * ours:.1f}"]
    heads = ["model", "all_gather", "LARS on one GPU, ms", "a 128th", "all_gather of 161 float32", "sum", "printed", "not explained"]
    return table(heads, rows, 2)


FIGURES = {
    "commlib-7": figure7,
    "commlib-8": figure8,
    "commlib-table3": table3,
    "commlib-table5": table5,
    "commlib-pto": pto,
}
