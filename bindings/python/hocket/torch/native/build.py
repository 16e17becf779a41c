"""Compiles the native operations for the torch and the Python at hand, and keeps the result in the user's cache.

A file of the cache belongs to one torch, one Python, one compiler's ABI and one text of the sources: its name is a hash
of these. It is put there whole, by renaming; of processes that want it at once, one compiles, and the others wait.
"""
import contextlib
import fcntl
import hashlib
import os
import platform
import signal
import stat
import subprocess
import sysconfig
import tempfile
import time

import torch

LEAST_TORCH = (2, 15)  # whose headers have what the sources override
NAME = "hocket_torch_native"
LONGEST_S = 1800       # for half a minute of one core, where many programs want it
_HERE = os.path.dirname(os.path.abspath(__file__))
_SOURCES = ("module.cpp", "backend.cpp", "backend.hpp", "calls.hpp", "group.hpp", "memory.hpp", "python.hpp", "work.cpp", "work.hpp", "hocket.h")


class CannotBuild(Exception):
    """Says why."""


def _torch_version():
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in torch.__version__.split("+")[0].split(".")[:2])


def _flags():
    root = os.path.dirname(os.path.abspath(torch.__file__))
    folders = [os.path.join(root, "include"), os.path.join(root, "include", "torch", "csrc", "api", "include"), sysconfig.get_paths()["include"]]
    libraries = os.path.join(root, "lib")
    return ["-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w",
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}", f"-I{_HERE}", *(f"-isystem{folder}" for folder in folders),
            f"-L{libraries}", "-ltorch_python", "-ltorch_cpu", "-lc10"]


def _key():
    """A hash of all that decides what the file is."""
    digest = hashlib.sha256()
    for part in (torch.__version__, getattr(torch.version, "git_version", ""), sysconfig.get_config_var("EXT_SUFFIX"), platform.machine(),
                 *_flags()):
        digest.update(f"{part}\0".encode())
    for name in _SOURCES:
        with open(os.path.join(_HERE, name), "rb") as file:
            digest.update(file.read() + b"\0")
    return digest.hexdigest()[:32]


def folder():
    """Returns the cache's folder, as Hocket's table of tuning has it."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(cache if cache.startswith("/") else os.path.expanduser("~/.cache"), "hocket", "torch")


def _is_private(status):
    """Nobody else can have written it: what is loaded runs as this user."""
    return status.st_uid in (os.getuid(), 0) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _check_private(path):
    if not _is_private(os.stat(path)):
        raise CannotBuild(f"{path} belongs to another user, or others may write to it: remove it, or chmod go-w it")


def path_of_built(may_build):
    """Returns the path of the module for this torch; None if it is not there and may not be built."""
    if _torch_version() < LEAST_TORCH:
        if may_build:
            raise CannotBuild(f"they need torch {'.'.join(map(str, LEAST_TORCH))} or later, and this one is {torch.__version__}")
        return None
    path = os.path.join(folder(), f"{NAME}-{_key()}.so")
    if not os.path.exists(path):
        if not may_build:
            return None
        build(path)
    _check_private(folder())
    _check_private(path)
    return path


def build(path):
    """Compiles it to the path, unless another process does so first."""
    _make_private(folder())
    _check_private(folder())
    with _only_one(path + ".lock"):
        if not os.path.exists(path):
            _compile(path)


def _make_private(path):
    """Makes the folder, and those around it that there are not, for this user alone, whatever the umask allows others."""
    if os.path.isdir(path):
        return
    _make_private(os.path.dirname(path))
    with contextlib.suppress(FileExistsError):  # another process was first
        os.mkdir(path, mode=0o700)


@contextlib.contextmanager
def _only_one(path):
    """Waits for the lock of a file, which the system takes from a process that ends."""
    until = time.monotonic() + LONGEST_S
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "rb+") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise CannotBuild(f"another process has compiled for {LONGEST_S} s (it holds {path})") from None
                time.sleep(0.1)
        yield


def _compile(path):
    compiler = os.environ.get("CXX") or "c++"
    with tempfile.TemporaryDirectory(dir=folder()) as room:
        made = os.path.join(room, NAME + ".so")
        command = [*compiler.split(), os.path.join(_HERE, "module.cpp"), *_flags(), "-o", made]
        status, said = _run(command)
        if status:
            log = path + ".log"
            with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(" ".join(command) + "\n" + said)
            raise CannotBuild(f"{compiler} failed, as {log} says")
        os.chmod(made, 0o700)
        os.replace(made, path)


def _run(command):
    """Returns the exit status, and what was said. A compiler that does not end is killed with all that it has started."""
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                                   errors="replace", start_new_session=True)
    except FileNotFoundError as error:
        raise CannotBuild(f"there is no compiler {command[0]} (CXX names another)") from error
    try:
        said, _ = process.communicate(timeout=LONGEST_S)
        return process.returncode, said
    except subprocess.TimeoutExpired as error:
        raise CannotBuild(f"{command[0]} has not ended within {LONGEST_S:g} s") from error
    finally:
        if process.returncode is None:  # also after Ctrl-C, which the session of its own does not get
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
