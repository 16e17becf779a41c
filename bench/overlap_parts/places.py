"""Places where examples/deep_words runs: workers of a parameter service, or ranks, each on its own host."""

import os
import secrets
from typing import ClassVar

from runs import Program

PORT = 7000


def core_of(worker):
    """Divides the cores evenly among the workers at all times: otherwise the kernel may leave two on one for a
    second."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[worker % len(cores)]


class Place:
    """Starts a job on hosts; build: the build folder of its programs."""

    name: str
    what: str
    workers: int
    hosts_needed: int
    pulls: tuple[str, ...] = ("",)  # the ways in which weights come back
    has_bits_of_one_process = True

    def __init__(self, build, hosts):
        self.build, self.hosts = build, hosts

    def _program(self, host, secret, command, variables=None, core=None):
        own = {
            "HOCKET_SECRET": secret,
            "HOCKET_TUNING": "off",
            "HOCKET_FABRIC_ADDR": self.hosts.address(host),
        }
        name, *arguments = command
        on_core = [] if core is None else ["taskset", "-c", str(core)]
        return Program(
            [*self.hosts.enter(host), *on_core, os.path.join(self.build, name), *arguments],
            {**own, **(variables or {})},
        )


class Service(Place):
    name, what = "service", "a server and 2 workers"
    workers, hosts_needed = 2, 3
    pulls = ("backward", "forward")

    def programs(self, arguments):
        """The first program makes the report."""
        secret, at = secrets.token_hex(16), f"{self.hosts.address(0)}:{PORT}"
        join = ["--params", at, "--workers", str(self.workers), "--number"]
        return [
            *(
                self._program(
                    1 + number,
                    secret,
                    ["examples/deep_words", *arguments, *join, str(number)],
                    core=core_of(number),
                )
                for number in range(self.workers)
            ),
            self._program(0, secret, ["tools/hocket-params", "serve", "--listen", at, "--once"]),
        ]

    @classmethod
    def crossings(cls):
        """Returns how often all gradients cross the busiest link, the server's, in one direction."""
        return cls.workers


class Ranks(Place):
    name, what = "ranks", "4 ranks, all_reduce"
    workers, hosts_needed = 4, 4
    variables: ClassVar[dict[str, str]] = {}
    arguments: ClassVar[list[str]] = []

    def programs(self, arguments):
        secret = secrets.token_hex(16)
        job = {
            "MASTER_ADDR": self.hosts.address(0),
            "MASTER_PORT": str(PORT),
            "WORLD_SIZE": str(self.workers),
            **self.variables,
        }
        return [
            self._program(
                rank, secret, ["examples/deep_words", *arguments, *self.arguments], {**job, "RANK": str(rank)}, core_of(rank)
            )
            for rank in range(self.workers)
        ]

    @classmethod
    def crossings(cls):
        return 2 * (cls.workers - 1) / cls.workers


class Bml(Ranks):
    """Two levels of two hosts each. The bits of its results depend on the batches."""

    name, what = "bml", "4 ranks, all_reduce by BML"
    variables, arguments = {"HOCKET_TOPOLOGY": "bcube(2,2)"}, ["--schedule", "bml"]
    has_bits_of_one_process = False


KINDS: tuple[type[Place], ...] = (Service, Ranks, Bml)
PLACES = {place.name: place for place in KINDS}
