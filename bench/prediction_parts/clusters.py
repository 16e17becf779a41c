"""Clusters of namespaces on which predictions are compared with measurements."""

import json
import os
import secrets
from dataclasses import dataclass

import runs
from hosts import LINK, Hosts
from libraries import rank_variables

PORT = "29500"
# On every cluster of hosts with several ranks; the last ones send selected values alone.
ON_HOSTS = [
    "ring",
    "direct",
    "halving",
    "butterfly",
    "blueconnect",
    "two_level",
    "double_tree",
    "pipelined_tree",
    "parameter_server",
    "naive_ag(0.01)",
    "hitopk(0.01)",
]
ON_BCUBE = [
    "bml",
    "bml_rings",
    "ring",
    "direct",
    "blueconnect",
    "two_level",
    "double_tree",
    "pipelined_tree",
    "parameter_server",
    "naive_ag(0.01)",
    "hitopk(0.01)",
]


def keeps_state(schedule):
    return schedule.startswith(("naive_ag", "hitopk"))


class UnevenHosts(Hosts):
    """The last host's link has a rate of its own."""

    def __init__(self, count, bits_per_second, last, folder):
        super().__init__(count, bits_per_second, folder)
        self.last = last

    def _rate_of(self, host):
        return self.last if host == self.count - 1 else self.bits_per_second


class BCubeHosts(Hosts):
    """BCube(ports, 2): host a + ports * b has an interface at switch b of level 0, and one at switch a of level 1.

    A host has one address, on both interfaces. To hosts that differ in both digits packets go by the host that
    differs in the first one alone, which passes them on."""

    def __init__(self, ports, bits_per_second, folder):
        super().__init__(ports * ports, bits_per_second, folder)
        self.ports = ports

    def _digits(self, host):
        return host % self.ports, host // self.ports

    @staticmethod
    def _interface(level):
        return f"{LINK}-n{level}"

    def _link_all(self):
        for level in range(2):
            for number in range(self.ports):
                self._in(self.switch, f"ip link add {LINK}-s{level}{number} type bridge")
                self._in(self.switch, f"ip link set {LINK}-s{level}{number} up")
        for host, pid in enumerate(self.pids):
            for level, number in enumerate(reversed(self._digits(host))):
                self._plug(host, level, f"{LINK}-s{level}{number}")
            self._in(pid, "tee /proc/sys/net/ipv4/ip_forward", "1")
        for host in range(self.count):
            self._add_routes(host)

    def _plug(self, host, level, bridge):
        pid, port, own = self.pids[host], f"{LINK}-{level}-{host}", self._interface(level)
        self._in(self.switch, f"ip link add {port} type veth peer name {own} netns {pid}")
        self._in(self.switch, f"ip link set {port} master {bridge} up")
        self._in(pid, f"ip address add {self.address(host)}/32 dev {own}")
        self._in(pid, f"ip link set {own} up")
        self._hold_to_rate(self.switch, port, self.bits_per_second)
        self._hold_to_rate(pid, own, self.bits_per_second)

    def _add_routes(self, host):
        own = self._digits(host)
        for other in range(self.count):
            first, _ = self._digits(other)
            if other == host:
                continue
            level = 0 if first != own[0] else 1
            by = other if level == 1 else first + self.ports * own[1]
            via = f"via {self.address(by)} onlink" if by != other else "scope link"
            self._in(
                self.pids[host],
                f"ip route add {self.address(other)}/32 dev {self._interface(level)} "
                f"src {self.address(host)} {via}",
            )


class RailedBCubeHosts(Hosts):
    """BCube(ports, 2) without routes: each switch has a subnet of its own, and a host an address in each of its two.

    Where ranks meet, and what hosts say to those that differ in both digits, goes over a third network, whose links
    are held to no rate."""

    def __init__(self, ports, bits_per_second, folder):
        super().__init__(ports * ports, bits_per_second, folder)
        self.ports = ports

    def _link_all(self):
        super()._link_all()
        for level in range(2):
            for number in range(self.ports):
                self._in(self.switch, f"ip link add {LINK}-s{level}{number} type bridge")
                self._in(self.switch, f"ip link set {LINK}-s{level}{number} up")
        for host, pid in enumerate(self.pids):
            digits = host % self.ports, host // self.ports
            for level in range(2):
                switch, end, own = digits[1 - level], f"{LINK}-{level}-{host}", f"{LINK}-n{level}"
                self._in(self.switch, f"ip link add {end} type veth peer name {own} netns {pid}")
                self._in(self.switch, f"ip link set {end} master {LINK}-s{level}{switch} up")
                self._in(pid, f"ip address add 10.{78 + level}.{switch}.{digits[level] + 1}/24 dev {own}")
                self._in(pid, f"ip link set {own} up")
                for where, interface in ((self.switch, end), (pid, own)):
                    super()._hold_to_rate(where, interface, self.bits_per_second)

    def _hold_to_rate(self, pid, interface, bits_per_second):
        """Called for the network where ranks meet."""

    def variables(self, _host):
        return {}

    def sent(self, host):
        """Returns the bytes that a host has sent, by interface."""
        links = json.loads(self._in(self.pids[host], "ip -s -j link"))
        return {link["ifname"]: link["stats64"]["tx"]["bytes"] for link in links}


@dataclass
class Place:
    """name: for the command line."""

    name: str
    what: str
    schedules: list
    make: object  # (folder) -> Hosts
    hosts: int
    local_ranks: int
    topology: str = ""  # as it is declared; "": as Hocket finds it
    network: str = ""  # rules of it

    @property
    def ranks(self):
        return self.hosts * self.local_ranks


def _mbit(rate):
    return rate * 1e6


def on_hosts(name, what, rate, hosts=4, local_ranks=2, last=None):
    return Place(
        name,
        f"{hosts} hosts x {local_ranks} ranks, {what}",
        ON_HOSTS,
        lambda folder: UnevenHosts(hosts, _mbit(rate), _mbit(last or rate), folder),
        hosts,
        local_ranks,
    )


PLACES = [
    on_hosts("200", "200 Mbit/s", 200),
    on_hosts("1000", "1 Gbit/s", 1000),
    on_hosts("uneven", "200 Mbit/s, the last one 100 Mbit/s", 200, last=100),
    Place(
        "bcube",
        "BCube(3,2): 9 hosts with 2 interfaces each, 200 Mbit/s",
        ON_BCUBE,
        lambda folder: BCubeHosts(3, _mbit(200), folder),
        hosts=9,
        local_ranks=1,
        topology="bcube(3,2)",
        network="order digits",
    ),
    Place(
        "rails",
        "BCube(3,2) without routes: 9 hosts with 2 interfaces each, 20 Mbit/s",
        ["bml", "blueconnect"],
        lambda folder: RailedBCubeHosts(3, _mbit(20), folder),
        hosts=9,
        local_ranks=1,
        topology="bcube(3,2)",
    ),
]


class Jobs:
    """Starts programs of a build folder as jobs on the hosts of a place."""

    def __init__(self, build, place, hosts, folder):
        self.build, self.place, self.hosts, self.folder = build, place, hosts, folder
        self.started = 0

    def run(self, program, *arguments, **variables):
        """Returns rank 0's output."""
        self.started += 1
        job = {
            "MASTER_ADDR": self.hosts.address(0),
            "MASTER_PORT": PORT,
            "HOCKET_SECRET": secrets.token_hex(16),
            "HOCKET_TUNING": "off",
            **variables,
        }
        programs = []
        for rank in range(self.place.ranks):
            host = rank // self.place.local_ranks
            own = {**rank_variables(rank, self.place.ranks), **self.hosts.variables(host)}
            command = [*self.hosts.enter(host), os.path.join(self.build, "tools", program), *arguments]
            programs.append(runs.Program(command, {**job, **own}))
        return runs.output_of(programs, os.path.join(self.folder, f"job-{self.started}"))
