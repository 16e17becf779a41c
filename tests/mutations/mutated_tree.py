"""A copy of the tracked files with a build folder, and layers over it in which mutations are built and tested."""
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading

from mutation_tables import ROOT

WORK = os.path.join(ROOT, "build", "mutations")
TREE = os.path.join(WORK, "tree")
BUILD = os.path.join(TREE, "build")
BUILD_S = 7200  # at most
# The tree lies in an ignored folder of another checkout: git is not to take it for a part of that.
ENVIRONMENT = dict(os.environ, GIT_CEILING_DIRECTORIES=WORK, HOCKET_TUNING="off", PATH="/usr/sbin:/usr/bin:/sbin:/bin")
ENVIRONMENT.pop("HOCKET_TEST_LONG", None)
# Makes the folder $1 show what the folder $2 changes of it, to one command, whose writes go to $2.
OVERLAY = 'mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$1" && cd "$1" && shift 2 && exec "$@"'
HUNG, HANGS = 1000, "it ran for more than"


class Stopped(Exception):
    """The run ends before its time: nothing follows from how a command ended."""


class Machine:
    """How many commands may run at once, as tests have deadlines."""
    def __init__(self, jobs):
        self.jobs, self.free, self.taking = jobs, threading.Semaphore(jobs), threading.Lock()
        self.lock, self.running, self.is_stopped = threading.Lock(), set(), False

    @contextlib.contextmanager
    def part(self, alone):
        """A turn beside others, or all turns."""
        turns = self.jobs if alone else 1
        with self.taking:  # by one at a time, as two that took all turns would each wait for the other's
            for _ in range(turns):
                self.free.acquire()
        try:
            yield
        finally:
            self.free.release(turns)


    def start(self, command, environment):
        """A process, with whatever it will start in a group of its own."""
        with self.lock:
            if self.is_stopped:
                raise Stopped
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                       cwd=TREE, start_new_session=True, env=environment)
            self.running.add(process)
            return process

    def end(self, process):
        with self.lock:
            self.running.remove(process)
            if self.is_stopped:
                raise Stopped

    def stop(self):
        with self.lock:
            self.is_stopped = True
            for process in self.running:
                os.killpg(process.pid, signal.SIGTERM)  # as ninja's commands have groups of their own, which it ends then


machine = Machine(1)


def run(command, limit_s=BUILD_S, layer=None, alone=False, **variables):
    """The exit status and what was said. A command that hangs is killed, with what it started."""
    if layer is not None:
        command = ["unshare", "--mount", "sh", "-c", OVERLAY, "sh", TREE, layer, *command]
    with machine.part(alone):
        process = machine.start(command, dict(ENVIRONMENT, **variables))
        try:
            said, _ = process.communicate(timeout=limit_s)
            return process.returncode, said
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            return HUNG, f"{HANGS} {limit_s:.0f} s\n{said}"
        finally:
            machine.end(process)


def files_of_tree():
    """Those that git knows, or would. Where the tree is no checkout, but came as an archive: all, without builds."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True,
                            env=dict(os.environ, GIT_CEILING_DIRECTORIES=os.path.dirname(ROOT)))
    if listed.returncode == 0:
        return {name for name in listed.stdout.decode().split("\0") if name and os.path.exists(os.path.join(ROOT, name))}
    files = set()
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name != "__pycache__" and not (folder == ROOT and name.startswith("build"))]
        files |= {os.path.relpath(os.path.join(folder, name), ROOT) for name in names}
    return files


def copy_tree():
    """Makes the copy what the checkout is. Files that are the same stay, so that they are not built again."""
    files = files_of_tree()
    for folder, folders, names in os.walk(TREE):
        if folder == TREE and "build" in folders:
            folders.remove("build")
        for name in names:
            path = os.path.join(folder, name)
            if os.path.relpath(path, TREE) not in files:
                os.remove(path)
    for name in files:
        source, target = os.path.join(ROOT, name), os.path.join(TREE, name)
        with open(source, "rb") as file:
            content = file.read()
        if os.path.exists(target):
            with open(target, "rb") as file:
                if file.read() == content:
                    continue
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(content)
        shutil.copymode(source, target)


def digest_of_tree():
    """Of all files of the copy, but for the mutations themselves."""
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(TREE):
        folders[:] = sorted(name for name in folders if os.path.join(folder, name) != BUILD)
        for path in sorted(os.path.join(folder, name) for name in names):
            if not path.endswith(".toml") or os.path.basename(folder) != "mutations":
                with open(path, "rb") as file:
                    digest.update(f"{os.path.relpath(path, TREE)}\0".encode() + hashlib.sha256(file.read()).digest())
    return digest.hexdigest()


def configure():
    command = ["configure", BUILD] if os.path.exists(os.path.join(BUILD, "build.ninja")) else ["setup", BUILD, TREE]
    # A mutation changes one file, mostly of a library: it alone is to be compiled.
    return run(["meson", *command, "-Dunity_libraries=false", "-Dunity_tests=enabled", "-Doptimization=1"])


def introspected(name):
    with open(os.path.join(BUILD, "meson-info", f"intro-{name}.json"), encoding="utf-8") as file:
        return json.load(file)


def with_opened(programs):
    """The targets of these programs, and those that their tests open when they run."""
    files = {target["id"]: target["filename"] for target in introspected("targets")}
    targets = set(programs)
    for test in introspected("tests"):
        if os.path.relpath(test["cmd"][0], BUILD) in programs:
            targets |= {os.path.relpath(path, BUILD) for target in test["depends"] for path in files[target]}
    # Tests with several processes run what the default target builds.
    return sorted(targets) + (["all"] if any(program.startswith("tests/multi/") for program in programs) else [])


def build(programs, layer=None, jobs=1):
    return run(["ninja", "-C", BUILD, "-j", str(jobs), *with_opened(programs)], layer=layer)


class Layers:
    """A mutation is built in a layer over the tree, which stays as it is: nothing is compiled again when the mutation goes.
    Where overlays cannot be mounted, as by users other than root, the tree itself is changed and built again."""
    def __init__(self):
        self.folder = os.path.join(WORK, "layers")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.can_mount = True
        with self.new() as layer:
            self.can_mount = run(["true"], layer=layer)[0] == 0

    @contextlib.contextmanager
    def new(self):
        if not self.can_mount:
            yield None
            return
        layer = tempfile.mkdtemp(dir=self.folder)
        try:
            for name in ("upper", "work"):
                os.mkdir(os.path.join(layer, name))
            yield layer
        finally:
            shutil.rmtree(layer, ignore_errors=True)

    @contextlib.contextmanager
    def changed(self, mutation, content):
        with self.new() as layer:
            source = os.path.join(TREE, mutation.file)
            target = source if layer is None else os.path.join(layer, "upper", mutation.file)
            with open(source, "rb") as file:
                before = file.read()
            try:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "w", encoding="utf-8") as file:
                    file.write(content)
                shutil.copymode(source, target)
                yield layer
            finally:
                if layer is None:
                    with open(source, "wb") as file:
                        file.write(before)
                    build([mutation.program])
