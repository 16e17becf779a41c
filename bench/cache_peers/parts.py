"""The four parts of the comparison. Each returns cells: {parameters, "rows": {name: {figure: median}}}."""

import json
import os
import shutil
import statistics
import sys
from dataclasses import dataclass

import drivers

KIB, MIB = 1 << 10, 1 << 20


@dataclass
class Extent:
    """The amount that is measured."""

    disk_sizes: tuple  # (bytes, samples)
    disk_depths: tuple
    disk_rounds: int
    memory_counts: tuple
    memory_operations: int
    memory_rounds: int
    epochs: tuple  # (samples, bytes, "vary" or "same")
    epochs_rounds: int
    training_samples: int  # a multiple of 32
    training_rounds: int
    training_bytes: int = 110 * KIB
    delay_us: int = 1000
    compute_us: int = 20000


FULL = Extent(
    disk_sizes=((4 * KIB, 128 * KIB), (16 * KIB, 64 * KIB), (128 * KIB, 16 * KIB), (MIB, 2 * KIB)),
    disk_depths=(32, 128),
    disk_rounds=3,
    memory_counts=(10_000, 1_000_000),
    memory_operations=400_000,
    memory_rounds=5,
    epochs=((2_000, 110 * KIB, "vary"), (20_000, 4 * KIB, "same")),
    epochs_rounds=3,
    training_samples=1920,
    training_rounds=3,
)
QUICK = Extent(
    disk_sizes=((4 * KIB, 32 * KIB), (128 * KIB, 2 * KIB)),
    disk_depths=(32,),
    disk_rounds=3,
    memory_counts=(10_000,),
    memory_operations=100_000,
    memory_rounds=3,
    epochs=((300, 110 * KIB, "vary"), (2_000, 4 * KIB, "same")),
    epochs_rounds=2,
    training_samples=320,
    training_rounds=2,
)


def show_progress(text):
    """Prints a line over the last one."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def medians(measured):
    """Converts [{figure: value}] to {figure: median}, and all the values."""
    middle = {name: statistics.median(figures[name] for figures in measured) for name in measured[0]}
    return {**middle, "rounds": measured}


# ---- Disk

# fio's fastest configuration: buffers in huge pages, which the disk fills with fewer and larger transfers, and buffers
# and files that are registered with the kernel. Hocket has both.
TUNED = ["--fixedbufs=1", "--registerfiles=1"]
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def fio(file, size, length, total, depth, is_tuned):
    output = drivers.run(
        [
            "fio",
            "--name=read",
            "--readonly",
            f"--filename={file}",
            "--ioengine=io_uring",
            *(TUNED if is_tuned else []),
            "--direct=1",
            "--rw=randread",
            "--randrepeat=0",
            f"--bs={size}",
            f"--iodepth={depth}",
            f"--size={length}",
            f"--io_size={total}",
            "--output-format=json",
        ],
        HUGE_PAGES if is_tuned else None,
    )
    job = json.loads(output[output.index("{") :])["jobs"][0]
    read, seconds = job["read"], job["read"]["runtime"] / 1000
    processor = (job["usr_cpu"] + job["sys_cpu"]) / 100 * seconds
    return disk_figures(size, read["total_ios"], seconds, processor)


def disk_figures(size, operations, seconds, processor):
    return {
        "iops": operations / seconds,
        "mib_per_s": operations * size / seconds / MIB,
        "processor_us": processor / operations * 1e6,
    }


def hocket_disk(folder, size, samples, depth):
    line = drivers.figures("disk", "read", folder, size, samples, depth)[0]
    return disk_figures(size, line["operations"], line["seconds"], line["processor_seconds"])


def disk_cell(folder, samples_folder, size, samples, depth, rounds):
    file, length, total = os.path.join(folder, "fio"), samples * size, samples // 4 * 3 * size
    ways = {
        "fio": lambda: fio(file, size, length, total, depth, False),
        "fio, tuned": lambda: fio(file, size, length, total, depth, True),
        "Hocket": lambda: hocket_disk(samples_folder, size, samples, depth),
    }
    measured: dict[str, list[dict]] = {name: [] for name in ways}
    for turn in range(rounds):
        for name in list(ways)[:: 1 if turn % 2 == 0 else -1]:
            show_progress(f"disk, {size} bytes, depth {depth}, round {turn + 1}: {name}")
            measured[name].append(ways[name]())
    rows = {name: medians(figures) for name, figures in measured.items()}
    return {"bytes": size, "depth": depth, "samples": samples, "rows": rows}


def measure_disk(extent, folder):
    """Puts Hocket's samples and fio's file in the same folder, and reads both with direct I/O."""
    largest = max(size * samples for size, samples in extent.disk_sizes)
    show_progress("disk: filling fio's file")
    drivers.run(
        ["fio", "--name=fill", f"--filename={os.path.join(folder, 'fio')}", "--rw=write", "--bs=1M"]
        + [f"--size={largest}", "--end_fsync=1", "--direct=1", "--refill_buffers"]
    )
    cells = []
    for size, samples in extent.disk_sizes:
        samples_folder = os.path.join(folder, f"samples-{size}")
        show_progress(f"disk: putting {samples} samples of {size} bytes")
        filled = drivers.figures("disk", "fill", samples_folder, size, samples)[0]
        for depth in extent.disk_depths:
            cell = disk_cell(folder, samples_folder, size, samples, depth, extent.disk_rounds)
            cell["put_mib_per_s"] = size * samples / filled["seconds"] / MIB
            cells.append(cell)
        shutil.rmtree(samples_folder)
    return cells


# ---- Memory, epochs, training: these drivers run all ways and rounds themselves


def grouped(lines, keys, *names):
    """Returns cells, each made of the lines that agree in `keys`, with the medians of these figures."""
    cells: dict[tuple, dict[str, list[dict]]] = {}  # the measurements of each row, by the values of the keys
    for line in lines:
        rows = cells.setdefault(tuple(line[key] for key in keys), {})
        rows.setdefault(line["row"], []).append({name: line[name] for name in names})
    return [
        {**dict(zip(keys, values)), "rows": {name: medians(measured) for name, measured in rows.items()}}
        for values, rows in cells.items()
    ]


def measure_memory(extent, folder):
    show_progress("memory")
    counts = ",".join(str(count) for count in extent.memory_counts)
    lines = drivers.figures("memory", extent.memory_rounds, extent.memory_operations, counts)
    return grouped(lines, ("samples", "threads"), "nanoseconds", "processor")


def measure_epochs(extent, folder):
    cells = []
    for samples, size, vary in extent.epochs:
        show_progress(f"epochs: {samples} samples of {size} bytes")
        place = os.path.join(folder, f"epochs-{size}")
        os.makedirs(place)
        lines = drivers.figures("epochs", place, samples, size, vary, extent.epochs_rounds, extent.delay_us)
        shutil.rmtree(place)
        for cell in grouped(lines, ("epoch",), "seconds"):
            cells.append(
                {"samples": samples, "bytes": size, "vary": vary == "vary", "delay_us": extent.delay_us, **cell}
            )
    return cells


def measure_training(extent, folder):
    show_progress("training")
    lines = drivers.figures(
        "training",
        folder,
        extent.training_samples,
        extent.training_bytes,
        extent.training_rounds,
        extent.delay_us,
        extent.compute_us,
    )
    facts = {"bytes": extent.training_bytes, "delay_us": extent.delay_us, "compute_us": extent.compute_us}
    return [{**facts, **cell} for cell in grouped(lines, (), "milliseconds")]


MEASURE = {
    "disk": measure_disk,
    "memory": measure_memory,
    "epochs": measure_epochs,
    "training": measure_training,
}
