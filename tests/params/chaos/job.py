"""The processes of one round: servers, workers, and the hosts that they run on; and what they have written."""
import collections
import dataclasses
import json
import os
import random
import re
import signal
import subprocess
import time

FIRST_PORT = 7000
DISK_MIB = 8
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


class Failure(Exception):
    """An outcome that must not happen. kind: hang, wrong, error, end."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")


class Lines:
    """The lines of a file that another process writes, as they come."""

    def __init__(self, path):
        self.path = path
        self.file = None
        self.rest = b""

    def more(self):
        if self.file is None:
            try:
                self.file = open(self.path, "rb")
            except FileNotFoundError:
                return []
        lines = (self.rest + self.file.read()).split(b"\n")
        self.rest = lines.pop()
        return [line.decode("utf-8", errors="replace") for line in lines]


@dataclasses.dataclass
class Pull:
    worker: "Worker"
    clock: int
    staleness: int
    began: float
    ended: float
    seen: dict  # slot: (first, end of each block; 0: the block has nothing of it)


class Worker:
    def __init__(self, slot, host, life):
        self.slot, self.host, self.life = slot, host, life
        self.number = self.first = self.process = None
        self.pulls = []
        self.gone_from = None  # then it was killed, stopped or cut off, and did not come back
        self.given_up_before = 0  # the number of lines that gave it up before it stood still or was cut off
        self.died_with_all = False
        self.may_fail = ""  # why
        self.error = None   # the worker's error
        self.paused = False
        self.left = None    # its clock when it left
        self.is_asked_to_leave = False
        self.is_stopped = False
        self.has_ended = False

    def is_living(self):
        return not self.has_ended and self.gone_from is None

    def is_ready(self):
        return self.is_living() and len(self.pulls) > 0


class Server:
    def __init__(self, index, host, folder):
        self.index, self.host, self.folder = index, host, folder
        self.process = None
        self.is_expected = False  # to run
        self.is_stopped = False
        self.is_reserved = False  # by a fault
        self.starts = 0
        self.at = None
        self.output: Lines | None = None

    def serves(self):
        assert self.output is not None, "it was not started"
        for line in self.output.more():
            if line.startswith("serving at "):
                self.at = line.split()[-1]
        return self.at is not None


class Hosts:
    """Namespaces with a network each, at a switch in this process's own one. They end with it: it has a
    namespace for processes, too."""

    def __init__(self, count, shares_memory):
        self.holders = []
        if count == 0:
            return
        run("ip", "link", "add", "switch", "type", "bridge")
        run("ip", "link", "set", "switch", "up")
        # Without /proc a process cannot open another one's memory.
        hide = "" if shares_memory else "mount -t tmpfs none /proc && "
        for host in range(count):
            holder = subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c", hide + "echo here; exec sleep 1000000"],
                                      stdout=subprocess.PIPE, text=True)
            self.holders.append(holder)
            assert holder.stdout  # a pipe
            if holder.stdout.readline() != "here\n":
                raise RuntimeError("a host cannot be made")
            pid = str(holder.pid)
            run("ip", "link", "add", f"port{host}", "type", "veth", "peer", "name", "cable", "netns", pid)
            run("ip", "link", "set", f"port{host}", "master", "switch", "up")
            self.on(host, "ip", "link", "set", "lo", "up")
            self.on(host, "ip", "addr", "add", self.address(host) + "/24", "dev", "cable")
            self.on(host, "ip", "link", "set", "cable", "up")

    def enter(self, host):
        return ["nsenter", "-t", str(self.holders[host].pid), "-n", "-m"] if self.holders else []

    def on(self, host, *words):
        run("nsenter", "-t", str(self.holders[host].pid), "-n", *words)

    def address(self, host):
        return f"10.77.0.{host + 1}" if self.holders else "127.0.0.1"

    def cut_off(self, host, how):
        run("ip", "link", "set", f"port{host}", *(["nomaster"] if how == "switch" else ["down"]))

    def mend(self, host, how):
        run("ip", "link", "set", f"port{host}", *(["master", "switch"] if how == "switch" else ["up"]))

    def set_apart(self, host, other, are_apart):
        for here, there in ((host, other), (other, host)):
            self.on(here, "ip", "route", "add" if are_apart else "del", "blackhole", self.address(there) + "/32")


class Job:
    def __init__(self, plan, folder, tools, worker_program, is_isolated, port=FIRST_PORT):
        self.plan, self.folder, self.tools, self.worker_program = plan, folder, tools, worker_program
        self.is_isolated = is_isolated
        self.port = port
        self.servers = [self.place_of_server(index, host) for index, host in enumerate(plan.server_hosts)]
        self.hosts = Hosts(plan.hosts if is_isolated else 0, plan.shares_memory)  # which have the disks, too
        self.life = 0
        self.ways_back = []    # of each later life: a round, "as they are" or "torn"
        self.servers_down = []  # [from, to]: times when a server was not there
        self.workers = {}
        self.lost = collections.defaultdict(list)  # by number: (first, end; None: not known)
        self.full_disks = set()
        self.cut_hosts = set()
        self.given_up: collections.Counter[int] = collections.Counter()  # by number: the number of lines that say so
        self.lines = {}
        self.oddities = []
        self.events = open(os.path.join(folder, "events"), "w", encoding="utf-8")
        self.environment = dict(
            os.environ, HOCKET_SECRET=f"chaos {plan.seed}", HOCKET_TUNING="off", HOCKET_TIMEOUT_MS=str(plan.timeout_ms),
            HOCKET_PARAMS_ADDRESS=f"{self.hosts.address(plan.server_hosts[0])}:{port}",
            HOCKET_SCHEDULE_PATH=os.path.join(ROOT, "schedules"), HOCKET_ENCRYPTION=("off", "on")[plan.seed % 2])
        self.environment.pop("HOCKET_LOG", None)
        # With /proc hidden the loader cannot find the program's folder.
        self.environment["LD_LIBRARY_PATH"] = ":".join(
            filter(None, [os.environ.get("LD_LIBRARY_PATH"), os.path.join(os.path.dirname(tools), "capi")]))

    def place_of_server(self, index, host):
        """With a disk of its own."""
        place = os.path.join(self.folder, f"checkpoints-{index}")
        os.makedirs(place)
        if self.is_isolated:
            run("mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "none", place)
        return Server(index, host, place)

    def note(self, text):
        self.events.write(f"{time.monotonic():.4f} {text}\n")
        self.events.flush()

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, words, host, name):
        """stdout and stderr are files of that name."""
        self.lines[name + ".err"] = Lines(self.path(name + ".err"))
        with open(self.path(name + ".out"), "w") as out, open(self.path(name + ".err"), "w") as err:
            return subprocess.Popen(self.hosts.enter(host) + words, env=self.environment, stdin=subprocess.DEVNULL,
                                    stdout=out, stderr=err)

    # ---- Servers

    def start_server(self, index, *how, port=None):
        plan, server = self.plan, self.servers[index]
        if index == 0:
            port = self.port
        address = self.hosts.address(server.host)
        words = [os.path.join(self.tools, "hocket-params"), "serve", "--listen", f"{address}:{port or 0}",
                 "--checkpoints", server.folder, "--every", str(plan.every), "--silence-ms", str(plan.silence_ms),
                 "--return-ms", str(plan.return_ms), "--rack", f"rack {server.host % 2}"]
        if index > 0:
            words += ["--join", self.environment["HOCKET_PARAMS_ADDRESS"]]
        elif not how:
            words += ["--servers", str(plan.servers)]
        name = f"server-{index}-{server.starts}"
        server.starts += 1
        server.at = None
        server.output = Lines(self.path(name + ".out"))
        server.process = self.start(words + list(how), server.host, name)
        server.is_stopped = False
        self.note(f"{name} starts {' '.join(how)}")

    def server_has_gone(self, index):
        """Somebody ends it on purpose."""
        server = self.servers[index]
        server.is_expected = False
        self.servers_down.append([time.monotonic(), None, index])

    def server_is_back(self, index):
        server = self.servers[index]
        server.is_expected = True
        for down in self.servers_down:
            if down[2] == index and down[1] is None:
                down[1] = time.monotonic()
        self.note(f"server {index} serves at {server.at}")

    def signal_server(self, index, number):
        self.note(f"{signal.Signals(number).name} to server {index}")
        self.servers[index].process.send_signal(number)
        if number in (signal.SIGSTOP, signal.SIGCONT):
            self.servers[index].is_stopped = number == signal.SIGSTOP

    def error_of_server(self, index):
        name = f"server-{index}-{self.servers[index].starts - 1}.err"
        with open(self.path(name), encoding="utf-8", errors="replace") as file:
            return file.read().strip()

    # ---- Workers

    def start_worker(self, host, number=-1):
        plan, slot = self.plan, len(self.workers)
        if slot >= 64:
            raise RuntimeError("there are no slots left")
        worker = self.workers[slot] = Worker(slot, host, self.life)
        words = [self.worker_program]
        chance = random.Random(plan.seed * 100 + slot)
        for name, value in (("slot", slot), ("workers", plan.workers), ("number", number), ("staleness", plan.staleness),
                            ("tree", plan.tree), ("rack", f"rack {host % 2}"), ("chunk-bytes", plan.chunk_bytes),
                            ("sleep-ms", max(1, int(plan.sleep_ms * chance.uniform(0.5, 1.5)))), ("manner", plan.manner),
                            ("checkpoint-each", plan.checkpoint_each if slot % 3 == 0 else 0),
                            ("timeout-ms", plan.timeout_ms), ("end", self.path("end")), ("log", self.path(f"worker-{slot}"))):
            words += ["--" + name, str(value)]
        self.lines[slot] = Lines(self.path(f"worker-{slot}"))
        worker.process = self.start(words, host, f"worker-{slot}")
        self.note(f"worker {slot} starts on host {host}")
        return worker

    def signal_worker(self, worker, number):
        self.note(f"{signal.Signals(number).name} to worker {worker.slot}")
        worker.process.send_signal(number)
        if number in (signal.SIGSTOP, signal.SIGCONT):
            worker.is_stopped = number == signal.SIGSTOP

    def kill_worker(self, worker):
        if not worker.is_living():
            return
        worker.gone_from = time.monotonic()
        self.signal_worker(worker, signal.SIGKILL)
        worker.process.wait()
        worker.has_ended = True

    def living(self):
        return [worker for worker in self.workers.values() if worker.is_living()]

    def ready(self):
        return [worker for worker in self.living() if worker.is_ready()]

    def is_given_up(self, worker):
        """Servers said that they go on without it."""
        return self.given_up[worker.number] > worker.given_up_before

    # ---- Their messages

    def look(self):
        for slot, worker in self.workers.items():
            for line in self.lines[slot].more():
                self.take(worker, line)
            if not worker.has_ended and worker.process.poll() is not None:
                self.take_end(worker)
        for name, lines in list(self.lines.items()):
            if isinstance(name, str):
                for line in lines.more():
                    self.take_error_line(name, line)
        for server in self.servers:
            if server.is_expected and server.process.poll() is not None:
                raise Failure("end", f"server {server.index} has ended with {server.process.returncode}: "
                                     f"{self.error_of_server(server.index)}")

    def take(self, worker, line):
        when, what, rest = (line.split(" ", 2) + [""])[:3]
        if what == "pull":
            head, _, tail = rest.partition(":")
            words = head.split()
            seen = {}
            for word in tail.split():
                slot, first, runs = word.split(":")
                ends = []
                for run_of in runs.split(","):
                    end, count = run_of.split("*")
                    ends += [int(end)] * int(count)
                seen[int(slot)] = (int(first), ends)
            worker.pulls.append(Pull(worker, int(words[0]), int(words[2]), float(words[4]), float(when), seen))
        elif what == "ready":
            worker.number, worker.first = (int(word) for word in rest.split()[1::2])
        elif what == "paused":
            worker.paused = True
        elif what == "left":
            worker.left = int(rest)
        elif what == "error":
            worker.error = rest
            self.note(f"worker {worker.slot}: error {rest}")
        elif what == "WRONG:":
            raise Failure("wrong", f"worker {worker.slot}: {rest}")
        elif what == "no" and all(name != "fill_disk" for _, name, _ in self.plan.faults):
            raise Failure("error", f"worker {worker.slot}: no {rest}")

    def take_end(self, worker):
        for line in self.lines[worker.slot].more():
            self.take(worker, line)
        worker.has_ended = True
        code = worker.process.returncode
        self.note(f"worker {worker.slot} has ended with {code}")
        if worker.gone_from is not None and code == -signal.SIGKILL:
            return
        if worker.error is not None:
            if not worker.may_fail:
                raise Failure("error", f"worker {worker.slot} has an error without a cause: {worker.error}")
        elif code != 0 or worker.left is None:
            raise Failure("end", f"worker {worker.slot} has ended with {code}")

    def take_error_line(self, name, line):
        if line.startswith("hocket-params: ") and "goes on without worker " in line:
            given_up = re.search(r"goes on without worker (\d+)", line)
            if given_up is None:
                raise RuntimeError(f"{name} does not say which worker was given up: {line}")
            self.given_up[int(given_up[1])] += 1
            self.note(line)
        lost = re.search(r"updates of worker (\d+) (from round (\d+) on|of round (\d+)|of rounds (\d+) to (\d+)), which", line)
        if lost:
            number, _, on, one, first, last = lost.groups()
            said = (int(on), None) if on else (int(one), int(one) + 1) if one else (int(first), int(last) + 1)
            if said not in self.lost[int(number)]:
                self.lost[int(number)].append(said)
                self.note(line)
        # A server took a correct process for an incorrect one.
        if ("ends a connection: " in line and "it does not answer" not in line) or "Sanitizer" in line:
            self.oddities.append(f"{name}: {line}")
            self.note(f"{name}: {line}")

    def state(self):
        """For whoever looks at a failure."""
        try:
            done = subprocess.run(self.hosts.enter(self.plan.server_hosts[0]) +
                                  [os.path.join(self.tools, "hocket-params"), "status", self.environment["HOCKET_PARAMS_ADDRESS"],
                                   "--timeout-ms", "3000"], env=self.environment, capture_output=True, text=True, timeout=20)
            return done.stdout + done.stderr
        except subprocess.TimeoutExpired:
            return "no status comes\n"

    def describe(self):
        return json.dumps({worker.slot: dict(
            number=worker.number, first=worker.first, host=worker.host, pulls=len(worker.pulls),
            clock=worker.pulls[-1].clock if worker.pulls else None, gone_from=worker.gone_from, may_fail=worker.may_fail,
            error=worker.error, left=worker.left, paused=worker.paused) for worker in self.workers.values()}, indent=1)
