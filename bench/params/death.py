"""The head of a rack dies. Measures how long its rack then has no head, and the bytes that cross its uplink."""

import os
import threading
import time

from racks import CHUNK_BYTES, COUNT, SERVER, WORKERS, RackedHosts, parents_in, rack_of
from service import Service, spread_text

MEBIBYTES = 2
ROUNDS = 20  # counted before and after
TIMES = 3
PATIENCE_SECONDS = 10
DEAD = 0  # the head of the first rack


def bytes_of_round(hosts, service):
    """Returns the bytes per round of the first rack's uplink, in the busier direction."""
    before = hosts.counters()[rack_of(DEAD)]
    service.job.tell(f"rounds {ROUNDS}")
    return max(b - a for a, b in zip(before, hosts.counters()[rack_of(DEAD)])) / ROUNDS


def seconds_without_head(service):
    """Returns the time after its death until the server has a living worker of its rack as a child."""
    start = time.monotonic()
    while time.monotonic() < start + PATIENCE_SECONDS:
        below = [worker for worker, parent in parents_in(service.stats()).items() if parent is None]
        heads = [worker for worker in below if rack_of(worker) == rack_of(DEAD)]
        if len(heads) == 1 and DEAD not in heads:
            return time.monotonic() - start
        time.sleep(0.01)
    return float("inf")


def measure(hosts, program, folder):
    options = ["--tensors", str(COUNT), "--tree", "rack", "--chunk-bytes", str(CHUNK_BYTES)]
    with Service(
        program,
        folder,
        WORKERS,
        (MEBIBYTES << 20) // 4 // COUNT,
        options=options,
        servers=[(hosts.address(0), hosts.enter(0))],
        server_options=["--rack", SERVER],
        worker=lambda rank: hosts.enter(1 + rank),
        rack=rack_of,
    ) as service:
        service.job.tell("rounds 1")
        before = bytes_of_round(hosts, service)
        service.job.kill(DEAD)
        rounds = threading.Thread(target=service.job.tell, args=[f"rounds {ROUNDS}"])
        rounds.start()
        seconds = seconds_without_head(service)
        rounds.join()
        return {"seconds": seconds, "before": before, "after": bytes_of_round(hosts, service)}


def run(options, folder):
    folder = os.path.join(folder, "death")
    os.makedirs(folder)
    with RackedHosts(options.rate * 1e6, os.path.join(folder, "hosts"), options.congestion) as hosts:
        runs = [measure(hosts, options.program, os.path.join(folder, str(turn))) for turn in range(TIMES)]
    print(f"\nThe head of a rack dies; {MEBIBYTES} MiB of weights, links of {options.rate:g} Mbit/s")
    print("\n| without a head, s | its uplink, MB a round, before | after | after / before |")
    print("|---:|---:|---:|---:|")
    each = {name: [row[name] for row in runs] for name in ("seconds", "before", "after")}
    ratio = [after / before for after, before in zip(each["after"], each["before"])]
    print(
        f"| {spread_text(each['seconds'], 1, 2)} | {spread_text(each['before'], 1e-6, 2)} "
        f"| {spread_text(each['after'], 1e-6, 2)} | {spread_text(ratio, 1, 2)} |"
    )
    return runs
