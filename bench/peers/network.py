"""Part 2: collectives between hosts made of namespaces."""

import os
import secrets
import time
from dataclasses import dataclass

import build
import cells
import libraries
import report
from hosts import LINK, NETWORK, Hosts, HostsError

COLLECTIVES = ["all_reduce"]
SIZES = "64K,512K,4M,16M,64M"  # as --sizes takes them


@dataclass(frozen=True)
class Place:
    """Hosts: the ranks on each, and the rate of each one's link in bits per second."""

    ranks: tuple[int, ...]
    rates: tuple[float, ...]

    @property
    def text(self):
        if len(set(self.ranks)) == 1:
            ranks = f"{len(self.ranks)} hosts x {self.ranks[0]} ranks"
        else:
            ranks = f"hosts of {' + '.join(map(str, self.ranks))} ranks"
        rates = ", ".join(f"{rate / 1e9:g}" for rate in (self.rates if len(set(self.rates)) > 1 else self.rates[:1]))
        return f"{ranks}, {rates} Gbit/s"

    @property
    def is_even(self):
        return len(set(self.ranks)) == len(set(self.rates)) == 1

    def host_of(self, rank):
        host = 0
        while rank >= self.ranks[host]:
            rank -= self.ranks[host]
            host += 1
        return host

    def needed_bytes(self, collective, size):
        """Returns what must cross each host's link, in the direction that carries more. Not of all_reduce, whose bytes
        hosts may divide among themselves."""
        all_ranks = sum(self.ranks)
        shares = [ranks / all_ranks for ranks in self.ranks]
        if collective in ("all_gather", "reduce_scatter"):
            # Its own part one way, and all others the other way.
            return [max(share, 1 - share) * size for share in shares]
        if collective in ("broadcast", "reduce"):
            return [size for _ in shares]
        if collective in ("gather", "scatter"):
            return [(1 - shares[0]) * size] + [share * size for share in shares[1:]]
        assert collective == "all_to_all", collective
        return [ranks * (1 - share) * size for ranks, share in zip(self.ranks, shares)]

    def least_seconds(self, collective, size):
        if collective == "all_reduce":
            # Each element crosses every link once in each direction, and all links together 2 (hosts - 1) times.
            hosts = len(self.ranks)
            return max(size * 8 / min(self.rates), 2 * (hosts - 1) * size * 8 / sum(self.rates))
        return max(crosses * 8 / rate for crosses, rate in zip(self.needed_bytes(collective, size), self.rates))

    def least_bytes(self, collective, size):
        """Returns the bytes that must cross the busiest link, in one direction."""
        hosts = len(self.ranks)
        return 2 * (hosts - 1) / hosts * size if collective == "all_reduce" else max(self.needed_bytes(collective, size))


PLACES = {
    "2x2": Place((2, 2), (1e9,) * 2),
    "4x2": Place((2,) * 4, (1e9,) * 4),
    "uneven": Place((3, 3, 3), (1e9, 1e9, 0.2e9)),
    "3+2": Place((3, 2), (1e9,) * 2),
}
USUAL_PLACES = ["2x2", "4x2"]


class Linked(Hosts):
    """The hosts of a place."""

    def __init__(self, place, folder):
        super().__init__(len(place.ranks), max(place.rates), folder)
        self.place = place

    def _rate_of(self, host):
        return self.place.rates[host]


def slots(hosts):
    return ",".join(f"{hosts.address(host)}:{ranks}" for host, ranks in enumerate(hosts.place.ranks))


def open_mpi(drivers, hosts):
    settings = {
        "plm": "rsh",
        "plm_rsh_agent": hosts.agent,
        "pml": "ob1",
        "btl": "self,vader,tcp",
        "btl_tcp_if_include": NETWORK,
        "oob_tcp_if_include": NETWORK,
        "mpi_yield_when_idle": "1",  # by default it assumes that each host has its own cores
    }
    return libraries.open_mpi(drivers, ["--host", slots(hosts)], settings, hosts.enter(0))


def mpich(drivers, hosts):
    options = ["-launcher", "rsh", "-launcher-exec", hosts.agent, "-hosts", slots(hosts)]
    return libraries.mpich(drivers, options, {"UCX_NET_DEVICES": LINK, "UCX_TLS": "tcp,self"}, hosts.enter(0))


def gloo(drivers, hosts):
    return libraries.gloo(
        drivers, lambda rank: hosts.address(hosts.place.host_of(rank)), lambda rank: hosts.enter(hosts.place.host_of(rank))
    )


def hocket(drivers, hocket_build, hosts, name, choice):
    driver = os.path.join(drivers, "hocket")
    job = {"MASTER_ADDR": hosts.address(0), "MASTER_PORT": "29500", "HOCKET_SECRET": secrets.token_hex(16)}
    job = libraries.hocket_variables(hocket_build, {**job, **choice})

    def launch(ranks, _folder, arguments):
        return [
            (
                [*hosts.enter(hosts.place.host_of(rank)), driver, *arguments],
                {
                    **job,
                    **libraries.rank_variables(rank, ranks),
                    "HOCKET_FABRIC_ADDR": hosts.address(hosts.place.host_of(rank)),
                },
            )
            for rank in range(ranks)
        ]

    return libraries.Library(name, launch)


def between_hosts(builds, names, hosts, collectives):
    drivers, place = build.DRIVERS, hosts.place
    ways = [hocket(drivers, builds["hocket"], hosts, "Hocket", {})]
    if place.is_even and collectives == COLLECTIVES:
        topology = f"{place.ranks[0]}mx{hosts.count}h@{place.rates[0] / 1e9:g}Gb/s"
        blueconnect = {"HOCKET_SCHEDULE": "blueconnect", "HOCKET_TOPOLOGY": topology}
        ways += [
            hocket(drivers, builds["hocket"], hosts, "Hocket, ring", {"HOCKET_SCHEDULE": "ring"}),
            hocket(drivers, builds["hocket"], hosts, "Hocket, blueconnect", blueconnect),
        ]
    every = {
        "openmpi": [open_mpi(drivers, hosts)],
        "mpich": [mpich(drivers, hosts)],
        "gloo": [gloo(drivers, hosts)],
        "hocket": ways,
        "before": [hocket(drivers, builds["before"], hosts, report.BEFORE, {})],
    }
    return [library for name in names for library in every.get(name, [])]


def measure_between(name, plan, builds, names, folder, deadline, cells_left):
    place = PLACES[name]
    with Linked(place, os.path.join(folder, f"hosts-{name}")) as hosts:
        group = cells.measure(
            between_hosts(builds, names, hosts, list(dict.fromkeys(collective for collective, _ in plan))),
            plan,
            sum(place.ranks),
            os.path.join(folder, f"between-{name}"),
            deadline,
            cells_left,
            meter=hosts.traffic,
        )
    cells.mark_uncrossed(group, lambda cell: place.least_bytes(cell["collective"], cell["bytes"]))
    for cell in group:
        seconds = place.least_seconds(cell["collective"], cell["bytes"])
        cell["place"] = place.text
        cell["rows"][report.LIMIT] = {"median_us": seconds * 1e6, "wrong": 0}
    return group


def measure(builds, names, places, plan, folder, seconds):
    """plan: (collective, size) pairs."""
    deadline = time.monotonic() + seconds
    measured = []
    for turn, name in enumerate(places):
        place = PLACES[name]
        build.say(place.text)
        try:
            group = measure_between(name, plan, builds, names, folder, deadline, (len(places) - turn) * len(plan))
        except HostsError as error:
            print(f"left out: {error}")
            continue
        for collective in dict.fromkeys(collective for collective, _ in plan):
            report.print_network_table([cell for cell in group if cell["collective"] == collective])
        measured += group
    return measured
