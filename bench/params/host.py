"""Part 1: two workers and a server on one host, beside copies of the bytes that a round must move."""

import os
from contextlib import ExitStack

from service import Service, spread_text

WORKERS = 2
MEBIBYTE = 1 << 20


def measure(program, folder, rounds, mebibytes):
    """{what: seconds of each round}, all in turns."""
    elements = mebibytes * MEBIBYTE // 4
    with ExitStack() as stack:
        one, many, few = (
            stack.enter_context(Service(program, os.path.join(folder, name), WORKERS, count, options=options))
            for name, count, options in (
                ("large", elements, []),
                ("many", 1024, ["--tensors", "1000"]),
                ("few", MEBIBYTE, []),
            )
        )
        steps = {
            "round": (one, "round"),
            "copied by the workers": (one, "copy own"),
            "copied by one thread": (one, "copy all"),
            "1,000 tensors of 4 KiB": (many, "round"),
            "one tensor of 4 MiB": (few, "round"),
        }
        figures = {name: [] for name in steps}
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
    print("\n| | ms | push and pull / this |")
    print("|---|---:|---:|")
    print(f"| push and pull | {spread_text(figures['round'], 1e3)} | |")
    for name, what in (
        ("copied by the workers", f"memcpy of the {all_bytes} MiB, half by each worker, at the same time"),
        ("copied by one thread", f"memcpy of the {all_bytes} MiB by one thread"),
    ):
        print(f"| {what} | {spread_text(figures[name], 1e3)} | {spread_text(ratios(figures, 'round', name), 1, 2)} |")
    many, few = "1,000 tensors of 4 KiB", "one tensor of 4 MiB"
    print("\n| a push and a pull of | ms | / one tensor |")
    print("|---|---:|---:|")
    print(f"| {few} | {spread_text(figures[few], 1e3, 2)} | |")
    print(f"| {many} | {spread_text(figures[many], 1e3, 2)} | {spread_text(ratios(figures, many, few), 1, 2)} |")


def run(options, folder):
    figures = measure(options.program, os.path.join(folder, "host"), options.rounds, options.mebibytes)
    print_tables(figures, options.mebibytes)
    return figures

