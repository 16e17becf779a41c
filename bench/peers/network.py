"""Part 2: all_reduce between hosts made of namespaces."""

import os
import secrets
import time

import build
import cells
import libraries
import report
from hosts import LINK, NETWORK, Hosts, HostsError

RATE = 1e9  # bits per second
SIZES = [64 << 10, 512 << 10, 4 << 20, 16 << 20, 64 << 20]
LOCAL_RANKS = 2


def slots(hosts):
    return ",".join(f"{hosts.address(host)}:{LOCAL_RANKS}" for host in range(hosts.count))


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
        drivers, lambda rank: hosts.address(rank // LOCAL_RANKS), lambda rank: hosts.enter(rank // LOCAL_RANKS)
    )


def hocket(drivers, hocket_build, hosts, name, choice):
    driver = os.path.join(drivers, "hocket")
    job = {"MASTER_ADDR": hosts.address(0), "MASTER_PORT": "29500", "HOCKET_SECRET": secrets.token_hex(16)}
    job = libraries.hocket_variables(hocket_build, {**job, **choice})

    def launch(ranks, _folder, arguments):
        return [
            (
                [*hosts.enter(rank // LOCAL_RANKS), driver, *arguments],
                {
                    **job,
                    **libraries.rank_variables(rank, ranks),
                    "HOCKET_FABRIC_ADDR": hosts.address(rank // LOCAL_RANKS),
                },
            )
            for rank in range(ranks)
        ]

    return libraries.Library(name, launch)


def between_hosts(builds, names, hosts):
    drivers, topology = build.DRIVERS, f"{LOCAL_RANKS}mx{hosts.count}h@1Gb/s"
    blueconnect = {"HOCKET_SCHEDULE": "blueconnect", "HOCKET_TOPOLOGY": topology}
    every = {
        "openmpi": [open_mpi(drivers, hosts)],
        "mpich": [mpich(drivers, hosts)],
        "gloo": [gloo(drivers, hosts)],
        "hocket": [
            hocket(drivers, builds["hocket"], hosts, "Hocket", {}),
            hocket(drivers, builds["hocket"], hosts, "Hocket, ring", {"HOCKET_SCHEDULE": "ring"}),
            hocket(drivers, builds["hocket"], hosts, "Hocket, blueconnect", blueconnect),
        ],
        "before": [hocket(drivers, builds["before"], hosts, report.BEFORE, {})],
    }
    return [library for name in names for library in every.get(name, [])]


def least_bytes(hosts, size):
    """Returns the bytes that all_reduce must move over the busiest link, in each direction."""
    return 2 * (hosts - 1) / hosts * size


def measure_between(hosts_count, builds, names, folder, deadline, cells_left):
    plan = [("all_reduce", size) for size in SIZES]
    place = f"{hosts_count} hosts x {LOCAL_RANKS} ranks, 1 Gbit/s"
    with Hosts(hosts_count, RATE, os.path.join(folder, f"hosts-{hosts_count}")) as hosts:
        group = cells.measure(
            between_hosts(builds, names, hosts),
            plan,
            hosts_count * LOCAL_RANKS,
            os.path.join(folder, f"between-{hosts_count}"),
            deadline,
            cells_left,
            meter=hosts.traffic,
        )
    cells.mark_uncrossed(group, lambda cell: least_bytes(hosts_count, cell["bytes"]))
    for cell in group:
        seconds = least_bytes(hosts_count, cell["bytes"]) * 8 / RATE
        cell["place"] = place
        cell["rows"][report.LIMIT] = {"median_us": seconds * 1e6, "wrong": 0}
    return group


def measure(builds, names, folder, seconds):
    deadline = time.monotonic() + seconds
    hosts_counts = [2, 4]
    measured = []
    for turn, count in enumerate(hosts_counts):
        build.say(f"{count} hosts x {LOCAL_RANKS} ranks")
        try:
            group = measure_between(count, builds, names, folder, deadline, (len(hosts_counts) - turn) * len(SIZES))
        except HostsError as error:
            print(f"left out: {error}")
            continue
        report.print_network_table(group)
        measured += group
    return measured

