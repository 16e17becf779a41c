"""Measures two jobs on one slow link, one of which has priority over the other."""

import os
import threading
import time

from hosts import Hosts
from service import Service, middle, spread_text

SERVERS, WORKERS = 0, 1  # hosts: the servers of both jobs are on one, and their workers on the other
PAUSE = 0.5  # of a job that computes between its rounds


class Rounds(threading.Thread):
    """Runs rounds of a job, one after another, until it is stopped; then at most one more."""

    def __init__(self, service):
        super().__init__(daemon=True)
        self.service, self.failure = service, None
        self.stopped = threading.Event()

    def run(self):
        try:
            while not self.stopped.is_set():
                self.service.seconds("round")
        except Exception as error:  # passed to the thread that waits for this one
            self.failure = error

    def finish(self):
        self.stopped.set()
        self.join()
        if self.failure:
            raise self.failure


def start(hosts, program, folder, elements, priority):
    return Service(
        program,
        folder,
        1,
        elements,
        options=["--priority", str(priority)],
        servers=[(hosts.address(SERVERS), hosts.enter(SERVERS))],
        worker=lambda _: hosts.enter(WORKERS),
    )


class Case:
    """One of two jobs, with the times of its rounds alone and beside the other job."""

    def __init__(self, priority, pause):
        self.priority, self.pause = priority, pause  # pause: of the first job, between its rounds
        self.figures: dict[str, list[float]] = {"alone": [], "beside": [], "other alone": [], "other beside": []}

    def rounds(self, service, count):
        seconds = []
        for _ in range(count):
            time.sleep(self.pause)
            seconds.append(service.seconds("round"))
        return seconds

    def measure(self, one, other, count):
        self.figures["alone"] += self.rounds(one, count)
        since, before = time.monotonic(), received(other)
        for _ in range(count):
            other.seconds("round")
        self.figures["other alone"].append((received(other) - before) / (time.monotonic() - since))
        beside = Rounds(other)
        beside.start()
        self.rounds(one, 1)  # lets the other job reach its steady state
        since, before = time.monotonic(), received(other)
        self.figures["beside"] += self.rounds(one, count)
        self.figures["other beside"].append((received(other) - before) / (time.monotonic() - since))
        beside.finish()


def received(service):
    """Returns the bytes of updates that the server has received so far."""
    return sum(worker["received"] for worker in service.stats()["workers"])


def measure(hosts, program, folder, count, turns, mebibytes):
    elements = (mebibytes << 20) // 4
    cases = [Case(priority, pause) for priority, pause in ((0, 0.0), (1, 0.0), (1, PAUSE))]
    for turn in range(turns):
        for number, case in enumerate(cases):
            place = os.path.join(folder, f"{turn}-{number}")
            with (
                start(hosts, program, os.path.join(place, "one"), elements, case.priority) as one,
                start(hosts, program, os.path.join(place, "other"), elements, 0) as other,
            ):
                one.seconds("round")
                other.seconds("round")
                case.measure(one, other, count)
                one.require_right_weights()
                other.require_right_weights()
    return cases


def print_table(cases):
    print(
        "\n| the first job's priority | between its rounds it pauses | its round alone, s | beside the other job, s "
        "| beside / alone | the other job, MB/s, alone | beside |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for case in cases:
        alone, beside = (middle(case.figures[name])[0] for name in ("alone", "beside"))
        print(
            f"| {'higher' if case.priority else 'the same'} | {case.pause:g} s "
            f"| {spread_text(case.figures['alone'], 1, 3)} | {spread_text(case.figures['beside'], 1, 3)} "
            f"| {beside / alone:.2f} | {middle(case.figures['other alone'])[0] / 1e6:.1f} "
            f"| {middle(case.figures['other beside'])[0] / 1e6:.2f} |"
        )


def run(options, folder):
    folder = os.path.join(folder, "priority")
    os.makedirs(folder)
    with Hosts(2, options.rate * 1e6, os.path.join(folder, "hosts")) as hosts:
        cases = measure(hosts, options.program, folder, 10, options.network_rounds, options.priority_mebibytes)
    print(
        f"\nTwo jobs, each with a server and a worker, {options.priority_mebibytes} MiB of weights: the servers on one "
        f"host, the workers on another, links of {options.rate:g} Mbit/s"
    )
    print_table(cases)
    return [vars(case) for case in cases]
