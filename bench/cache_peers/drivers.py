"""Installs the Debian packages that are missing, builds the drivers into build/compare-cache, and runs them."""

import json
import os
import signal
import subprocess
import sys

import build
from jobs import die_with_parent

SOURCES = os.path.join(build.ROOT, "bench", "cache_peers")
DRIVERS = os.path.join(build.ROOT, "build", "compare-cache")
PACKAGES = ["g++", "pkg-config", "fio", "liblmdb-dev"]
LIBRARIES: dict[str, list[str]] = {"disk": [], "memory": [], "epochs": ["lmdb"], "training": []}  # names for pkg-config
FLAGS = ["-std=c++20", "-O2", "-pthread"]
MOST_SECONDS = 900  # a program may take at most this long


class DriverError(Exception):
    pass


def sources_time():
    names = [os.path.join(SOURCES, name) for name in os.listdir(SOURCES)]
    return max(os.path.getmtime(name) for name in [*names, os.path.join(build.ROOT, "capi", "hocket.h")])


def compile_driver(name, hocket_build):
    driver = os.path.join(DRIVERS, name)
    if os.path.exists(driver) and os.path.getmtime(driver) > sources_time():
        return
    print(f"  {os.path.relpath(driver, build.ROOT)}", flush=True)
    flags = []
    if LIBRARIES[name]:
        asked = subprocess.run(
            ["pkg-config", "--cflags", "--libs", *LIBRARIES[name]], capture_output=True, text=True
        )
        if asked.returncode != 0:
            raise build.BuildError(asked.stderr.strip())
        flags = asked.stdout.split()
    source = os.path.join(SOURCES, name + ".cpp")
    hocket = ["-I", build.ROOT, "-L", os.path.join(hocket_build, "capi"), "-lhocket"]
    build.run(["g++", *FLAGS, source, "-o", driver, *hocket, *flags])


def prepare(hocket_build, parts):
    """Prepares everything that these parts need; returns Hocket's build folder."""
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"  # the distribution's own tools, as in tools/setup
    try:
        build.install_packages(PACKAGES)
        hocket_build = hocket_build or build.build_hocket()
        build.say("Building the drivers")
        os.makedirs(DRIVERS, exist_ok=True)
        for part in parts:
            compile_driver(part, hocket_build)
    except build.BuildError as error:
        sys.exit(f"compare-cache: {error}")
    os.environ["LD_LIBRARY_PATH"] = os.path.join(hocket_build, "capi")
    return hocket_build


def run(command, variables=None):
    """Returns what a program prints. If the program fails, ends this one. variables: added to its environment."""
    process = subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(variables or {})},
        process_group=0,  # because fio forks
        preexec_fn=die_with_parent,
    )
    try:
        output, errors = process.communicate(timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        raise DriverError(f"{os.path.basename(command[0])} has not ended after {MOST_SECONDS} s") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode != 0:
        text = errors.strip() or f"{os.path.basename(command[0])} ended with {process.returncode}"
        raise DriverError(text)
    return output


def figures(part, *arguments):
    """Returns the lines of figures that a driver prints."""
    output = run([os.path.join(DRIVERS, part), *arguments])
    return [json.loads(line) for line in output.splitlines()]


def versions():
    status = subprocess.run(
        ["dpkg-query", "-W", "-f=${Package} ${Version}\n", "fio", "liblmdb0"], capture_output=True, text=True
    )
    found = dict(line.split(" ", 1) for line in status.stdout.splitlines())
    found["hocket"] = build.commit()
    return found
