"""Part 4: collectives whose messages all go over TCP on the loopback interface, as with one rank on each host."""

import json
import os
import time

import build
import cells
import libraries
import report
from hosts import call

# Ways of Hocket's messages, by the name of the row.
WAYS = {"Hocket": "tcp", "Hocket, net": "net", "Hocket, ofi+tcp": "ofi+tcp"}
OPEN_MPI = {"pml": "ob1", "btl": "self,tcp", "btl_tcp_if_include": "lo"}
INTEL_MPI = {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}


def over_tcp(library, variables):
    """Returns the library with environment variables that lead all its messages over TCP."""

    def launch(ranks, folder, arguments):
        return [(command, {**own, **variables}) for command, own in library.launch(ranks, folder, arguments)]

    return libraries.Library(library.name, launch, algorithms=library.algorithms, yields=library.yields)


def every_library(builds):
    drivers = build.DRIVERS
    mca = {"OMPI_MCA_" + name: value for name, value in OPEN_MPI.items()}
    every = {
        "openmpi": [libraries.open_mpi(drivers, settings=OPEN_MPI)],
        "gloo": [libraries.gloo(drivers)],
        "hocket": [
            libraries.hocket(drivers, builds["hocket"], {"HOCKET_PROVIDER_FOR_ALL": way}, ["malloc"], name)
            for name, way in WAYS.items()
        ],
        "before": [
            libraries.hocket(
                drivers, builds["before"], {"HOCKET_PROVIDER_FOR_ALL": "tcp"}, ["malloc"], report.BEFORE
            )
        ],
    }
    for name, variables in (("openmpi5", mca), ("impi", INTEL_MPI)):
        if name in builds["wheels"]:
            every[name] = [over_tcp(builds["wheels"][name], variables)]
    return every


def traffic():
    return [json.loads(call("ip", "-s", "-j", "link", "show", "lo"))[0]["stats64"]["tx"]["bytes"]]


def least_bytes(cell):
    """Returns the bytes that all ranks together must send."""
    others = cell["ranks"] - 1
    if cell["collective"] in ("gather", "scatter"):
        return others / cell["ranks"] * cell["bytes"]
    return (2 if cell["collective"] == "all_reduce" else 1) * others * cell["bytes"]


def measure(options, builds, folder, seconds):
    plan = [(collective, size) for collective in options.collective for size in options.sizes]
    deadline = time.monotonic() + seconds
    every = every_library(builds)
    chosen = [library for name in options.libraries for library in every.get(name, [])]
    measured = []
    for turn, ranks in enumerate(options.ranks):
        build.say(f"{ranks} ranks, tcp loopback")
        group = cells.measure(
            libraries.that_can_share_cores(chosen, ranks),
            plan,
            ranks,
            os.path.join(folder, f"loopback-{ranks}"),
            deadline,
            (len(options.ranks) - turn) * len(plan),
            meter=traffic,
            touch=options.touch,
        )
        cells.mark_uncrossed(group, least_bytes)
        report.print_host_tables(group, options.touch, place="over TCP on loopback")
        measured += group
    return measured
