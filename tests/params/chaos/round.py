"""One round of the chaos test: a job, its faults, and what is said of it."""
import functools
import os
import random
import signal
import time

import faults
import oracle
from job import Failure, Job

LOOK_EVERY = 0.03
MOST_ROUNDS_AHEAD = 60  # of the round that all end with, before any worker has reached it
MOST_WITHOUT_PULL = 75  # seconds: no fault keeps a worker waiting for so long


class Active:
    """A fault that goes on."""

    def __init__(self, name, steps):
        self.name, self.steps = name, steps
        self.until = None
        self.deadline = 0.0

    def advance(self, now):
        """Returns whether the fault is over."""
        while True:
            if self.until is None:
                if now < self.deadline:
                    return False
            elif not self.until.is_so():
                if now > self.deadline:
                    raise Failure("hang", f"{self.name} waits in vain for {self.until.what}")
                return False
            try:
                step = next(self.steps)
            except StopIteration:
                return True
            self.until = step if isinstance(step, faults.Until) else None
            self.deadline = now + (step.seconds if self.until else step)


class Round:
    def __init__(self, plan, folder, tools, worker_program, is_isolated, port):
        self.plan = plan
        self.job = Job(plan, folder, tools, worker_program, is_isolated, port)
        self.faults = faults.Faults(self.job)
        self.active = []
        self.rested_from = 0.0  # the last interruption was over then
        self.went_on_from = self.looked = time.monotonic()
        self.longest_stall = 0.0

    def wait(self, until):
        """Outside of faults. A busy machine may let a job take long: it hangs if no worker pulls any more, and look()
        notices a single one that does not."""
        moved = began = time.monotonic()
        while not until.is_so():
            self.look()
            moved = max([moved, *(worker.pulls[-1].ended for worker in self.job.living() if worker.pulls)])
            if time.monotonic() > min(moved + until.seconds, began + 4 * until.seconds):
                raise Failure("hang", f"it waits in vain for {until.what}")
            time.sleep(LOOK_EVERY)

    def look(self):
        now = time.monotonic()
        self.longest_stall = max(self.longest_stall, now - self.looked)
        self.looked = now
        self.job.look()
        for worker in self.job.living():
            since = max(worker.pulls[-1].ended if worker.pulls else 0, self.went_on_from)
            if not worker.paused and time.monotonic() - since > MOST_WITHOUT_PULL:
                raise Failure("hang", f"worker {worker.slot} has pulled nothing for {MOST_WITHOUT_PULL} s")

    def is_slow(self):
        """This process had to wait for the machine for so long that others had, too: longer than a fault may take that
        ends nothing."""
        return self.longest_stall > self.plan.return_ms / 1000 / 5

    def run(self):
        self.begin()
        self.bring_about(list(self.plan.faults))
        self.end()
        oracle.judge(self.job)
        if self.job.oddities:
            raise Failure("odd", "\n".join(self.job.oddities))

    def begin(self):
        job = self.job
        chance = random.Random(self.plan.seed)
        starts = [functools.partial(job.start_server, index) for index in range(1, self.plan.servers)]
        starts += [functools.partial(job.start_worker, host, number) for number, host in enumerate(self.plan.worker_hosts)]
        chance.shuffle(starts)
        for start in [functools.partial(job.start_server, 0)] + starts:  # in any order, but this server has the address
            start()
        for server in job.servers:
            self.wait(faults.Until(server.serves, f"server {server.index} to serve"))
            job.server_is_back(server.index)
        self.wait(faults.Until(lambda: all(len(worker.pulls) >= 3 for worker in job.workers.values()), "the job to begin"))
        # A server that dies before its first one has nothing that another could go on from.
        self.wait(faults.Until(lambda: all(any(name.endswith(".checkpoint") for name in os.listdir(server.folder))
                                           for server in job.servers), "the first checkpoints"))

    # ---- Faults

    def may_begin(self, name, now):
        if any(active.name in faults.EXCLUSIVE for active in self.active):
            return False
        if name in faults.EXCLUSIVE:
            # All faults end then: a server that was to be restored dies with the rest.
            if self.active and random.Random(self.plan.seed).random() < 0.5:
                self.abandon()
            return not self.active
        if name in faults.INTERRUPT:
            return not any(active.name in faults.INTERRUPT for active in self.active) and now >= self.rested_from + faults.REST
        return True

    def abandon(self):
        for active in self.active:
            self.job.note(f"{active.name} is abandoned")
            active.steps.close()
        self.active = []

    def bring_about(self, pending):
        begins = time.monotonic() + pending[0][0]
        while pending or self.active:
            self.look()
            now = time.monotonic()
            if pending and now >= begins and self.may_begin(pending[0][1], now):
                _, name, seed = pending.pop(0)
                self.job.note(f"{name} begins")
                steps = self.faults.begin(name, seed)
                if steps is not None:
                    self.active.append(Active(name, steps))
                begins = now + (pending[0][0] if pending else 0)
            for active in list(self.active):
                if active.advance(time.monotonic()):
                    self.job.note(f"{active.name} is over")
                    self.active.remove(active)
                    if active.name in faults.INTERRUPT:
                        self.rested_from = now
            time.sleep(LOOK_EVERY)

    # ---- The end

    def end(self):
        """All end with one round, and pull once more when all have."""
        job = self.job
        if not job.ready():
            raise Failure("error", "nobody is left")
        clocks = [worker.pulls[-1].clock for worker in job.ready()]
        most = max(clocks) + (MOST_ROUNDS_AHEAD if self.plan.staleness >= 0 else 5)
        with open(job.path("end.new"), "w") as file:
            file.write(f"{most}\n")
        os.rename(job.path("end.new"), job.path("end"))
        job.note(f"all end with round {most}")
        self.wait(faults.Until(lambda: all(worker.paused for worker in job.living()), "all workers to have come to the end"))
        if self.plan.staleness < 0:
            # Pulls do not wait: until a server knows which workers do not come back, it does not know which
            # updates are lost.
            back = max(down[1] for down in job.servers_down) if job.servers_down else 0
            known = back + self.plan.return_ms / 1000 + faults.REST
            self.wait(faults.Until(lambda: time.monotonic() > known, "servers to know who does not come back"))
        open(job.path("end.last"), "w").close()
        self.wait(faults.Until(lambda: not job.living(), "all workers to leave"))
        for server in job.servers:
            server.is_expected = False
            server.process.send_signal(signal.SIGTERM)
        for server in job.servers:
            self.wait(faults.Until(lambda: server.process.poll() is not None, f"server {server.index} to end"))
            if server.process.returncode != 0:
                raise Failure("end", f"server {server.index} has ended with {server.process.returncode}: "
                                     f"{job.error_of_server(server.index)}")
        job.look()
