"""Measures two servers, and the load of each of six workers with their trees."""

import os
from contextlib import ExitStack

from hosts import LINK, Hosts
from racks import CHUNK_BYTES, COUNT, QUEUE_MS
from service import middle, service_of_each, spread_text

SERVERS, WORKERS = 2, 6
TREES = ["direct", "binary", "degree 3", "degree 1", "auto"]


def carried(hosts):
    """Returns by worker the bytes to its host and from it, as the switch counts them."""
    folder = f"/proc/{hosts.switch}/root/sys/class/net"

    def read(host, way):
        with open(os.path.join(folder, f"{LINK}-{host}", "statistics", f"{way}_bytes")) as file:
            return int(file.read())

    return [read(SERVERS + rank, "tx") + read(SERVERS + rank, "rx") for rank in range(WORKERS)]


def measure(hosts, program, folder, rounds, mebibytes):
    figures: dict[str, dict[str, list]] = {tree: {"seconds": [], "bytes": []} for tree in TREES}
    with ExitStack() as stack:
        services = service_of_each(
            TREES, stack, program, folder, WORKERS, mebibytes, COUNT, CHUNK_BYTES,
            servers=[(hosts.address(host), hosts.enter(host)) for host in range(SERVERS)],
            worker=lambda rank: hosts.enter(SERVERS + rank),
        )
        for turn in range(-1, rounds):
            for tree, service in services.items():
                before = carried(hosts)
                seconds = service.seconds("round")
                if turn >= 0:
                    figures[tree]["seconds"].append(seconds)
                    figures[tree]["bytes"].append([b - a for a, b in zip(before, carried(hosts))])
        for service in services.values():
            service.require_right_weights()
    return figures


def print_table(figures):
    print("\n| tree | time, s | the busiest worker, MB | the idlest, MB | busiest / mean |")
    print("|---|---:|---:|---:|---:|")
    for tree, row in figures.items():
        each = [middle(of_one)[0] / 1e6 for of_one in zip(*row["bytes"])]
        print(
            f"| {tree} | {spread_text(row['seconds'], 1, 2)} | {max(each):.0f} | {min(each):.0f} "
            f"| {max(each) * len(each) / sum(each):.2f} |"
        )


def run(options, folder):
    folder = os.path.join(folder, "servers")
    os.makedirs(folder)
    with Hosts(SERVERS + WORKERS, options.rate * 1e6, os.path.join(folder, "hosts"), QUEUE_MS, options.congestion) as hosts:
        figures = measure(hosts, options.program, folder, options.network_rounds, options.network_mebibytes)
    print(
        f"\n{SERVERS} servers and {WORKERS} workers, links of {options.rate:g} Mbit/s, {options.network_mebibytes} MiB "
        "of weights; bytes of a round, both directions"
    )
    print_table(figures)
    return figures
