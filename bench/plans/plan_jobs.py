"""Runs ranks that start plans (plan_driver.cpp), on this host or on hosts made of namespaces."""

import os
import secrets
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "peers"))
import build
import libraries
from jobs import Job, JobError

DRIVER = os.path.join(build.DRIVERS, "plans")
TARGETS = ["capi/libhocket.so", "tools/hocket-run", "tools/schedc"]


def prepare(hocket_build):
    """Builds Hocket if no build folder is given, and the driver. Returns the build folder."""
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"  # the distribution's own tools, as in tools/setup
    os.environ["HOCKET_TUNING"] = "off"
    try:
        hocket_build = os.path.abspath(hocket_build) if hocket_build else build.build_hocket()
        os.makedirs(build.DRIVERS, exist_ok=True)
        link = ["-L", os.path.join(hocket_build, "capi"), "-lhocket"]
        build.compile_driver("plans", os.path.join("..", "plans", "plan_driver.cpp"), ["g++", *link])
    except build.BuildError as error:
        sys.exit(str(error))
    return hocket_build


def machine():
    """Returns a line that says where and when this was measured."""
    with open("/proc/cpuinfo") as lines:
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    return (
        f"{model}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}, "
        f"{time.strftime('%Y-%m-%d %H:%M')}, commit {build.commit()}"
    )


def on_this_host(hocket_build):
    """Starts ranks that share memory."""
    run = os.path.join(hocket_build, "tools", "hocket-run")

    def launch(ranks, _folder, arguments):
        command = [run, "-n", str(ranks), DRIVER, *arguments]
        return [(command, libraries.hocket_variables(hocket_build))]

    return libraries.Library("plans", launch)


def on_hosts(hocket_build, hosts, local_ranks):
    """Starts local_ranks on each host; those share memory, because they share a network and a host name."""
    job = {"MASTER_ADDR": hosts.address(0), "MASTER_PORT": "29500", "HOCKET_SECRET": secrets.token_hex(16)}

    def launch(ranks, _folder, arguments):
        started = []
        for rank in range(ranks):
            host = rank // local_ranks
            own = {**libraries.rank_variables(rank, ranks), "HOCKET_FABRIC_ADDR": hosts.address(host)}
            command = [*hosts.enter(host), DRIVER, *arguments]
            started.append((command, libraries.hocket_variables(hocket_build, {**job, **own})))
        return started

    return libraries.Library("plans", launch)


class Plans:
    """with Plans(library, ranks, folder, count, buffers) as plans: ..."""

    def __init__(self, library, ranks, folder, count, buffers=0):
        self.job = Job(library, ranks, folder)
        self.ranks = ranks
        self.numbers = {}  # the plans' numbers, by the names of their schedules
        try:
            self.job.tell(f"allocate {count} {buffers}")
        except BaseException:
            self.job.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.job.stop()

    def make(self, schedule, tensors="-"):
        self.numbers[schedule] = self.job.tell(f"plan {schedule} {tensors}")[0]

    def drop(self, schedule):
        self.job.tell(f"drop {self.numbers.pop(schedule)}")

    def run(self, schedule, iterations=1):
        """Returns the seconds of each iteration, from the first rank's start to the last rank's end."""
        self.job.tell(f"run {self.numbers[schedule]} {iterations}")
        return [span * 1e-9 for span in self.job.spans(iterations)]

    def same_bits(self):
        """Checks that all ranks have the same result; raises an error if not."""
        if len(set(self.job.tell("hash").values())) != 1:
            raise JobError("the ranks' results differ")


def median(values):
    return statistics.median(values) if values else float("nan")
