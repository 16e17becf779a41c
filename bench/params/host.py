"""Measures two workers and a server on one host, beside copies of the bytes that a round must move."""

import os
from contextlib import ExitStack

from service import Service, spread_text

WORKERS = 2
MEBIBYTE = 1 << 20
LARGER_CHUNK = 512 << 10
DEFAULT, LARGER = "push and pull", f"push and pull, chunks of {LARGER_CHUNK >> 10} KiB"


def measure(program, folder, rounds, mebibytes):
    """Returns {name: seconds of each round}, with all measured in turns."""
    elements = mebibytes * MEBIBYTE // 4
    with ExitStack() as stack:
        one, larger, many, few = (
            stack.enter_context(Service(program, os.path.join(folder, name), WORKERS, count, options=options))
            for name, count, options in (
                ("one", elements, []),
                ("larger", elements, ["--chunk-bytes", str(LARGER_CHUNK)]),
                ("many", 1024, ["--tensors", "1000"]),
                ("few", MEBIBYTE, []),
            )
        )
        steps = {
            DEFAULT: (one, "round"),
            LARGER: (larger, "round"),
            "copied by the workers": (one, "copy own"),
            "copied by one thread": (one, "copy all"),
            "1,000 tensors of 4 KiB": (many, "round"),
            "one tensor of 4 MiB": (few, "round"),
        }
        figures: dict[str, list[float]] = {name: [] for name in steps}
        for turn in range(-2, rounds):
            for name, (service, command) in steps.items():
                seconds = service.seconds(command)
                if turn >= 0:
                    figures[name].append(seconds)
                if command == "round" and turn in (-1, rounds - 1):
                    service.require_right_weights()
    return figures


def ratios(figures, over, under):
    return [a / b for a, b in zip(figures[over], figures[under])]


def print_tables(figures, mebibytes):
    all_bytes = 2 * WORKERS * mebibytes
    print(f"\n{mebibytes} MiB of float32, {WORKERS} workers, 1 server: a push and a pull of all")
    by_workers, by_one = "copied by the workers", "copied by one thread"
    print("\n| | ms | / copied by the workers | / copied by one thread |")
    print("|---|---:|---:|---:|")
    for name in (DEFAULT, LARGER):
        over = [spread_text(ratios(figures, name, copied), 1, 2) for copied in (by_workers, by_one)]
        print(f"| {name} | {spread_text(figures[name], 1e3)} | {over[0]} | {over[1]} |")
    for name, what in (
        (by_workers, f"memcpy of the {all_bytes} MiB, half by each worker, at the same time"),
        (by_one, f"memcpy of the {all_bytes} MiB by one thread"),
    ):
        print(f"| {what} | {spread_text(figures[name], 1e3)} | | |")
    many, few = "1,000 tensors of 4 KiB", "one tensor of 4 MiB"
    print("\n| a push and a pull of | ms | / one tensor |")
    print("|---|---:|---:|")
    print(f"| {few} | {spread_text(figures[few], 1e3, 2)} | |")
    print(f"| {many} | {spread_text(figures[many], 1e3, 2)} | {spread_text(ratios(figures, many, few), 1, 2)} |")


def run(options, folder):
    figures = measure(options.program, os.path.join(folder, "host"), options.rounds, options.mebibytes)
    print_tables(figures, options.mebibytes)
    return figures

