"""Shared by the tests of Python programs: processes with a limit, and the counts of their cases."""
import glob
import os
import random
import socket
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


def run(command, limit_s=180, **environment):
    """The exit code, and what was said. A command that hangs is killed, with what it started."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True, env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **environment))
    try:
        said, _ = process.communicate(timeout=limit_s)
        return process.returncode, said
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        return -1, process.communicate()[0] + f"\n(it ran for more than {limit_s} s)"


def has(module):
    return subprocess.run([sys.executable, "-c", f"import {module}"], stderr=subprocess.DEVNULL).returncode == 0


def is_running(process):
    """False also for one that has ended, and nobody has asked how."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def free_port():
    """None that the kernel would give to a connection: between this call and the port's use other tests make many."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as limits:
        first, last = (int(word) for word in limits.read().split())
    others = [port for port in range(10000, 65536) if not first <= port <= last and port not in (29400, 29500)]  # torchrun's
    for port in random.sample(others, min(len(others), 100)):
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind(("", port))
            except OSError:
                continue
            return str(port)
    raise RuntimeError(f"of 100 ports outside of {first} to {last} none is free")


def write_counts(passed, failed, skipped):
    counts = os.environ.get("HOCKET_TEST_COUNTS")
    if counts:
        with open(counts, "w") as file:
            file.write(f"{passed} {failed} {skipped}\n")


def main():
    """Runs the test cases of the program; the exit status."""
    result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    write_counts(max(0, result.testsRun - skipped - failed), failed, skipped)
    return 1 if failed else 0


def need_package():
    """For programs that test the package: ends them, with a reason, where it was not built. One that was built and cannot
    be imported is a failure."""
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if not any(glob.glob(os.path.join(folder, "hocket", "_native*")) for folder in folders):
        print("skipped: the Python package was not built; it needs Debian's python3-dev, python3-cffi and python3-numpy")
        write_counts(0, 0, 1)
        sys.exit(77)
