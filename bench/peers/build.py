"""Installs the Debian packages that are missing and builds the drivers into build/peers."""

import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCES = os.path.join(ROOT, "bench", "peers")
DRIVERS = os.path.join(ROOT, "build", "peers")
HEADERS = [
    os.path.join(SOURCES, "driver.hpp"),
    os.path.join(ROOT, "capi", "hocket.h"),
    os.path.join(ROOT, "dsl", "base", "collective.hpp"),
]
PACKAGES = [
    "g++",
    "openmpi-bin",
    "libopenmpi-dev",
    "mpich",
    "libmpich-dev",
    "libgloo-dev",
    "python3-matplotlib",
    "iproute2",
]
FLAGS = ["-std=c++20", "-O3", "-march=native", "-I", ROOT]


class BuildError(Exception):
    pass


def say(text):
    print(f"\n== {text}", flush=True)


def run(command, **options):
    if subprocess.run(command, **options).returncode != 0:
        raise BuildError("this failed: " + " ".join(command))


def installed(package):
    status = subprocess.run(
        ["dpkg-query", "-W", "-f=${db:Status-Abbrev}", package], capture_output=True, text=True
    )
    return status.stdout[1:2] == "i"


def install_packages(packages):
    missing = [package for package in packages if not installed(package)]
    if not missing:
        return
    say("Installing " + " ".join(missing))
    as_root = []
    if os.geteuid() != 0:
        if not shutil.which("sudo"):
            raise BuildError(
                "These packages are missing, and there is no sudo. As root: apt-get install " + " ".join(missing)
            )
        as_root = ["sudo"]
    install = [
        *as_root,
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "install",
        "-y",
        "-q",
        "--no-install-recommends",
        *missing,
    ]
    if subprocess.run(install).returncode != 0:
        # The package lists may be old, or were never fetched.
        run([*as_root, "apt-get", "update", "-q"])
        run(install)


def build_hocket():
    """Returns the build folder."""
    run([os.path.join(ROOT, "tools", "setup")])
    return os.path.join(ROOT, "build")


def compile_driver(name, source, command, also=()):
    """Compiles the driver if the source, a header, or one of the other files is newer than it."""
    source, driver = os.path.join(SOURCES, source), os.path.join(DRIVERS, name)
    newest = max(os.path.getmtime(path) for path in (source, *HEADERS, *also))
    if os.path.exists(driver) and os.path.getmtime(driver) > newest:
        return
    print(f"  {os.path.relpath(driver, ROOT)}", flush=True)
    run([command[0], *FLAGS, source, "-o", driver, *command[1:]])


def build_drivers(hocket_build):
    say("Building the drivers")
    os.makedirs(DRIVERS, exist_ok=True)
    compile_driver("openmpi", "mpi.cpp", ["mpicxx.openmpi"])
    compile_driver("mpich", "mpi.cpp", ["mpicxx.mpich"])
    compile_driver("gloo", "gloo.cpp", ["g++", "-lgloo", "-lpthread"])
    compile_driver("roofline", "roofline.cpp", ["g++"])
    compile_driver(
        "hocket", "hocket_driver.cpp", ["g++", "-L", os.path.join(hocket_build, "capi"), "-lhocket"]
    )


def versions():
    asked = ["openmpi-bin", "mpich", "libgloo-dev"]
    lines = subprocess.run(
        ["dpkg-query", "-W", "-f=${Package} ${Version}\n", *asked], capture_output=True, text=True
    )
    found = dict(line.split(" ", 1) for line in lines.stdout.splitlines())
    found["hocket"] = commit()
    return found


def commit():
    """Returns this tree's commit; "unknown" if there is no git, or the tree is not a checkout."""
    if not shutil.which("git"):
        return "unknown"
    # A tree that was unpacked inside another checkout is not part of that.
    environment = dict(os.environ, GIT_CEILING_DIRECTORIES=os.path.dirname(ROOT))
    described = subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True, env=environment
    )
    return described.stdout.strip() or "unknown"


def prepare(hocket_build, packages=()):
    """Prepares everything that a comparison needs, with these packages as well; returns Hocket's build folder."""
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"  # the distribution's own tools, as in tools/setup
    try:
        install_packages([*PACKAGES, *packages])
        hocket_build = hocket_build or build_hocket()
        build_drivers(hocket_build)
    except BuildError as error:
        sys.exit(f"compare-peers: {error}")
    return hocket_build
