"""Measures the trees for workers in racks, with a server outside of them and slow links."""

import os
from collections import Counter
from contextlib import ExitStack

from hosts import LINK, Hosts
from service import middle, service_of_each, spread_text

RACKS, HOSTS_OF_RACK = 2, 4
WORKERS = RACKS * HOSTS_OF_RACK
OVERSUBSCRIPTION = 4
TREES = ["direct", "binary", "rack", "degree 1", "auto"]
COUNT = 16  # tensors
CHUNK_BYTES = 64 << 10  # a chunk is forwarded once complete: the smaller, the sooner
SERVER = "server"
QUEUE_MS = 10  # switches have some hundred KiB for each port


class RackedHosts(Hosts):
    """Host 0 is at the switch. The others are at their racks' switches, which have a link to the first one."""

    def __init__(self, bits_per_second, folder, congestion):
        super().__init__(1 + WORKERS, bits_per_second, folder, QUEUE_MS, congestion)
        self.uplink_rate = bits_per_second * HOSTS_OF_RACK / OVERSUBSCRIPTION

    def _link_all(self):
        self._in(self.switch, f"ip link add {LINK} type bridge")
        self._in(self.switch, f"ip link set {LINK} up")
        self._link(0, LINK)
        for rack in range(RACKS):
            bridge, up, down = f"{LINK}-r{rack}", f"{LINK}-up{rack}", f"{LINK}-dn{rack}"
            self._in(self.switch, f"ip link add {bridge} type bridge")
            self._in(self.switch, f"ip link set {bridge} up")
            self._in(self.switch, f"ip link add {up} type veth peer name {down}")
            for end, of in ((up, bridge), (down, LINK)):
                self._in(self.switch, f"ip link set {end} master {of} up")
                self._hold_to_rate(self.switch, end, self.uplink_rate)
            for host in range(HOSTS_OF_RACK):
                self._link(1 + rack * HOSTS_OF_RACK + host, bridge)

    def counters(self):
        """Returns {link: (bytes to it, from it)}, of hosts' links and of racks' uplinks, as the switches count them."""
        folder = f"/proc/{self.switch}/root/sys/class/net"
        names = {SERVER: f"{LINK}-0"}
        names |= {f"worker {rank}": f"{LINK}-{1 + rank}" for rank in range(WORKERS)}
        names |= {f"rack {rack}": f"{LINK}-dn{rack}" for rack in range(RACKS)}

        def read(interface, way):
            with open(os.path.join(folder, interface, "statistics", f"{way}_bytes")) as file:
                return int(file.read())

        return {link: (read(interface, "tx"), read(interface, "rx")) for link, interface in names.items()}


# A node is a worker's rank, or None: the server.
def link_of(node):
    return SERVER if node is None else f"worker {node}"


def rack_of(node):
    return SERVER if node is None else f"rack {node // HOSTS_OF_RACK}"


def parents_in(stats):
    """Returns each worker's parent, as the server reports it."""
    of = {worker["number"]: worker["parent"] for worker in stats["workers"]}
    return {worker: None if parent == "server" else parent for worker, parent in of.items()}


def crossings(parents):
    """Returns how often all weights must cross each link: in both directions, once up and once down each branch."""
    times: Counter[str] = Counter()
    for child, parent in parents.items():
        times.update([link_of(child), link_of(parent)])
        if rack_of(child) != rack_of(parent):
            times.update({rack_of(child), rack_of(parent)} - {SERVER})
    return times


def measure(hosts, program, folder, rounds, mebibytes):
    figures = {}
    with ExitStack() as stack:
        services = service_of_each(
            TREES, stack, program, folder, WORKERS, mebibytes, COUNT, CHUNK_BYTES,
            servers=[(hosts.address(0), hosts.enter(0))],
            server_options=["--rack", SERVER],
            worker=lambda rank: hosts.enter(1 + rank),
            rack=rack_of,
        )
        for turn in range(-1, rounds):
            for tree, service in services.items():
                before = hosts.counters()
                seconds = service.seconds("round")
                after = hosts.counters()
                if turn < 0:
                    figures[tree] = {"parents": parents_in(service.stats()), "seconds": [], "bytes": []}
                    continue
                figures[tree]["seconds"].append(seconds)
                figures[tree]["bytes"].append(
                    {link: max(b - a for a, b in zip(before[link], after[link])) for link in before}
                )
        for service in services.values():
            service.require_right_weights()
    return figures


def print_table(figures, rate, mebibytes):
    print(
        "\n| tree | time, s | direct / this | server's link, MB | a rack's uplink, MB | busiest link, MB "
        "| must cross it | its time for that, s | time / that |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    direct = middle(figures["direct"]["seconds"])[0]
    for tree, row in figures.items():
        seconds = middle(row["seconds"])[0]
        crossed = {link: middle([each[link] for each in row["bytes"]])[0] / 1e6 for link in row["bytes"][0]}
        times = crossings(row["parents"])
        least = max(times.values()) * mebibytes * (1 << 20) / 1e6
        limit = least * 8e6 / rate
        uplink = max(crossed[f"rack {rack}"] for rack in range(RACKS))
        print(
            f"| {tree} | {spread_text(row['seconds'], 1, 2)} | {direct / seconds:.2f} | {crossed[SERVER]:.0f} "
            f"| {uplink:.0f} | {max(crossed.values()):.0f} | {least:.0f} | {limit:.2f} | {seconds / limit:.2f} |"
        )


def run(options, folder):
    rate = options.rate * 1e6
    folder = os.path.join(folder, "network")
    os.makedirs(folder)
    with RackedHosts(rate, os.path.join(folder, "hosts"), options.congestion) as hosts:
        figures = measure(hosts, options.program, folder, options.network_rounds, options.network_mebibytes)
    print(
        f"\n{RACKS} racks of {HOSTS_OF_RACK} workers, links of {options.rate:g} Mbit/s, uplinks of "
        f"{hosts.uplink_rate / 1e6:g} Mbit/s, {options.network_mebibytes} MiB of weights in chunks of {CHUNK_BYTES >> 10} KiB, TCP with {options.congestion}; "
        "bytes in the busier direction"
    )
    print_table(figures, rate, options.network_mebibytes)
    return figures
