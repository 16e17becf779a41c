"""Faults. Each is a generator: it yields the seconds to wait, or an Until. A fault ends its effects also if it is closed
early, which the caller may do at any time."""
import dataclasses
import os
import random
import signal
import time
import typing

from job import Failure

PATIENCE = 60  # seconds, for steps that take only a few: other work may keep the machine busy
# After an outage both sides need some seconds to find each other (docs/params.md). Two in a row would be a longer one.
REST = 4


@dataclasses.dataclass
class Until:
    is_so: typing.Callable
    what: str
    seconds: float = PATIENCE


class Faults:
    def __init__(self, job):
        self.job, self.plan = job, job.plan

    def begin(self, name, seed):
        """None: it cannot be now."""
        return getattr(self, name)(random.Random(seed))

    # ---- How long

    def short(self, chance):
        """Less than return_ms: it ends nothing."""
        if self.plan.return_ms >= 10000:
            return chance.uniform(1, 9)
        return chance.uniform(0.3, 2.1)

    def until_a_restart(self, chance):
        return chance.choice([0, chance.uniform(0, 0.5), chance.uniform(0.5, 2), self.plan.return_ms / 1000 + chance.uniform(0, 1)])

    # ---- Workers

    def candidates(self):
        return [worker for worker in self.job.ready() if not worker.is_stopped and not worker.is_asked_to_leave
                and not worker.may_fail]

    def steady(self):
        """Those that may stay behind when others are killed."""
        return [worker for worker in self.candidates() if worker.host not in self.job.cut_hosts]

    def some_workers(self, chance, count):
        candidates = self.candidates()
        chosen = chance.sample(candidates, min(count, len(candidates)))
        while chosen and not [worker for worker in self.steady() if worker not in chosen]:
            chosen.pop()
        return chosen

    def free_host(self, chance):
        return chance.choice([host for host in range(self.plan.hosts) if host not in self.job.cut_hosts] or [0])

    def kill_worker(self, chance, count=1):
        if not self.some_workers(chance, 1):
            yield from self.worker_comes(chance)
        for _ in range(count):
            for worker in self.some_workers(chance, 1):
                self.job.kill_worker(worker)
            yield chance.choice([0, 0.2])

    def kill_two_workers(self, chance):
        return self.kill_worker(chance, 2)

    def worker_comes(self, chance, attempts=5):
        for _ in range(attempts):
            worker = self.job.start_worker(self.free_host(chance))
            # It may get the error that it joined while a server was replaced, and can join again.
            worker.may_fail = "it comes"
            yield Until(lambda: len(worker.pulls) >= 2 or not worker.is_living(), f"worker {worker.slot} to come")
            if worker.error is None or worker.gone_from is not None:
                if worker.may_fail == "it comes":
                    worker.may_fail = ""
                return
            # The first server may be killed at that moment.
            if not any(text in worker.error for text in ("it can come again", "broke before the job began")):
                raise Failure("error", f"worker {worker.slot} cannot come: {worker.error}")
        raise Failure("error", "a worker cannot come, however often it tries")

    def worker_is_killed_as_it_comes(self, chance):
        worker = self.job.start_worker(self.free_host(chance))
        worker.may_fail = "it is killed as it comes"
        try:
            yield chance.uniform(0, 0.4)
        finally:
            self.job.kill_worker(worker)

    def worker_leaves(self, chance):
        chosen = self.some_workers(chance, 1)
        if not chosen:
            yield from self.worker_comes(chance)
        for worker in chosen:
            worker.is_asked_to_leave = True
            self.job.signal_worker(worker, signal.SIGTERM)
            yield Until(lambda: worker.has_ended, f"worker {worker.slot} to leave")

    def stop_worker(self, chance):
        chosen = self.candidates()
        if not chosen:
            return
        worker = chance.choice(chosen)
        self.job.signal_worker(worker, signal.SIGSTOP)
        try:
            yield self.short(chance)
        finally:
            if worker.is_living():
                self.job.signal_worker(worker, signal.SIGCONT)

    def stop_worker_for_too_long(self, chance):
        chosen = self.some_workers(chance, 1)
        for worker in chosen:
            self.give_up_on(worker, "it stands still for too long")
            self.job.signal_worker(worker, signal.SIGSTOP)
            try:
                yield from self.await_given_up([worker])
            finally:
                if not worker.has_ended:
                    self.job.signal_worker(worker, signal.SIGCONT)
            yield Until(lambda: worker.has_ended, f"worker {worker.slot}, which was given up, to be told so")
        if not chosen:
            yield 0

    def give_up_on(self, worker, why):
        worker.may_fail = why
        worker.gone_from = time.monotonic()
        worker.given_up_before = self.job.given_up[worker.number]

    def await_given_up(self, workers):
        for worker in workers:
            yield Until(lambda: self.job.is_given_up(worker) or worker.has_ended,
                        f"servers to go on without worker {worker.slot}")

    # ---- Servers

    def free_servers(self):
        return [server.index for server in self.job.servers if server.is_expected and not server.is_reserved]

    def restore(self, index, chance, *how):
        """Starts it in its own place. A full disk keeps it from that."""
        server = self.job.servers[index]
        port = int(server.at.rsplit(":", 1)[1]) if server.at and chance.random() < 0.5 else None
        while True:
            disk_was_full = index in self.job.full_disks
            self.job.start_server(index, "--restore", *how, port=port)
            yield Until(lambda: server.serves() or server.process.poll() is not None, f"server {index} to serve")
            if server.at is not None:
                return self.job.server_is_back(index)
            if not disk_was_full and index not in self.job.full_disks:
                raise Failure("error", f"server {index} cannot be restored: {self.job.error_of_server(index)}")
            yield 0.3

    def end_server(self, index, number):
        server = self.job.servers[index]
        self.job.server_has_gone(index)
        self.job.signal_server(index, number)
        if server.is_stopped:
            self.job.signal_server(index, signal.SIGCONT)
        yield Until(lambda: server.process.poll() is not None, f"server {index} to end")
        expected = [-signal.SIGKILL] if number == signal.SIGKILL else [0, 1] if self.has_been_full(index) else [0]
        if server.process.returncode not in expected:
            raise Failure("end", f"server {index}, asked to end, has ended with {server.process.returncode}: "
                                 f"{self.job.error_of_server(index)}")

    def has_been_full(self, index):
        return index in self.job.full_disks

    def replace(self, indices, number, chance, also=lambda: None):
        """Ends servers, and starts others in their places."""
        for index in indices:
            self.job.servers[index].is_reserved = True
        try:
            for index in indices:
                yield from self.end_server(index, number)
            also()
            order = list(indices)
            chance.shuffle(order)
            for index in order:
                yield self.until_a_restart(chance)
                yield from self.restore(index, chance)
        finally:
            for index in indices:
                self.job.servers[index].is_reserved = False

    def kill_server(self, chance):
        free = self.free_servers()
        return self.replace([chance.choice(free)], signal.SIGKILL, chance) if free else None

    def restart_server(self, chance):
        free = self.free_servers()
        return self.replace([chance.choice(free)], signal.SIGTERM, chance) if free else None

    def kill_all_servers(self, chance):
        free = self.free_servers()
        chance.shuffle(free)
        return self.replace(free, signal.SIGKILL, chance) if free else None

    def kill_server_and_worker(self, chance):
        free = self.free_servers()

        def kill_some_worker():
            for worker in self.some_workers(chance, 1):
                self.job.kill_worker(worker)

        return self.replace([chance.choice(free)], signal.SIGKILL, chance, kill_some_worker) if free else None

    def stop_server(self, chance):
        """Also for longer than return_ms: it does not blame its workers."""
        free = self.free_servers()
        if not free:
            return
        index = chance.choice(free)
        self.job.servers[index].is_reserved = True
        self.job.signal_server(index, signal.SIGSTOP)
        try:
            yield self.short(chance) if chance.random() < 0.7 else self.plan.return_ms / 1000 + 1
        finally:
            self.job.signal_server(index, signal.SIGCONT)
            self.job.servers[index].is_reserved = False

    def replace_a_server_that_stands_still(self, chance):
        """It is thought to be dead. Later it goes on beside the one in its place, until it hears of that. The first
        server, which tells it, stays: its successor would not know which of the two is the later one."""
        free = self.free_servers()
        if 0 not in free or free == [0]:
            return
        index = chance.choice(free[1:])
        server, first = self.job.servers[index], self.job.servers[0]
        old = server.process
        server.is_reserved = first.is_reserved = True
        try:
            self.job.signal_server(index, signal.SIGSTOP)
            self.job.server_has_gone(index)
            yield chance.uniform(0, 1)
            server.at = None  # its port is taken
            yield from self.restore(index, chance)
            yield chance.uniform(0, 1)
            self.job.note(f"the old server {index} goes on")
            old.send_signal(signal.SIGCONT)
            yield Until(lambda: old.poll() is not None, f"the old server {index} to end")
        finally:
            old.kill()
            old.wait()
            server.is_reserved = first.is_reserved = False

    # ---- Networks

    def cut_host(self, chance, times=1):
        free = [host for host in range(self.plan.hosts) if host not in self.job.cut_hosts]
        host, how = chance.choice(free), chance.choice(["switch", "switch", "cable"])
        duration = self.short(chance) / (2 * times - 1)
        for time_left in range(times, 0, -1):
            self.cut(host, how)
            try:
                yield duration
            finally:
                self.mend(host, how)
            if time_left > 1:
                yield duration

    def cut_host_again_and_again(self, chance):
        return self.cut_host(chance, chance.randint(2, 4))

    def cut(self, host, how):
        self.job.note(f"host {host} is cut off ({how})")
        self.job.cut_hosts.add(host)
        self.job.hosts.cut_off(host, how)

    def mend(self, host, how):
        self.job.hosts.mend(host, how)
        self.job.cut_hosts.discard(host)
        self.job.note(f"host {host} is back")

    def cut_host_for_too_long(self, chance):
        """Of workers alone: a server that hears of nobody for too long gives all of them up."""

        def on(host):
            return [worker for worker in self.job.living() if worker.host == host]

        candidates = set(self.candidates())
        hosts = [host for host in range(self.plan.hosts)
                 if host not in self.plan.server_hosts and host not in self.job.cut_hosts and on(host)
                 and candidates.issuperset(on(host)) and any(worker.host != host for worker in self.steady())]
        if not hosts:
            yield from self.stop_worker_for_too_long(chance)
            return
        host, how = chance.choice(hosts), chance.choice(["switch", "cable"])
        workers = on(host)
        for worker in workers:
            self.give_up_on(worker, "it is cut off for too long")
        self.cut(host, how)
        try:
            yield from self.await_given_up(workers)
        finally:
            self.mend(host, how)
        for worker in workers:
            yield Until(lambda: worker.has_ended, f"worker {worker.slot}, which was given up, to be told so")

    def cut_two_hosts_apart(self, chance):
        host, other = chance.sample(range(self.plan.hosts), 2)
        is_servers = {host, other} & set(self.plan.server_hosts)
        self.job.note(f"hosts {host} and {other} are cut apart")
        self.job.cut_hosts.update((host, other))
        self.job.hosts.set_apart(host, other, True)
        try:
            yield self.short(chance) if is_servers else chance.uniform(0.5, 6)
        finally:
            self.job.hosts.set_apart(host, other, False)
            self.job.cut_hosts.difference_update((host, other))
            self.job.note(f"hosts {host} and {other} are together again")

    # ---- Disks

    def fill_disk(self, chance):
        """Or the folder cannot be written to for a while, where there is no disk of its own."""
        free = [server for server in self.job.servers if server.index not in self.job.full_disks]
        if not free:
            return
        server = chance.choice(free)
        self.job.note(f"the disk of server {server.index} is full")
        self.job.full_disks.add(server.index)
        filler = os.path.join(server.folder, "filler")
        try:
            if self.job.is_isolated:
                fill(filler)
            else:
                os.rename(server.folder, server.folder + "-away")
            yield chance.uniform(0.3, 4)
        finally:
            if self.job.is_isolated:
                os.remove(filler)
            else:
                os.rename(server.folder + "-away", server.folder)
            self.job.note(f"the disk of server {server.index} has room again")
        yield 1.5  # it tries again once a second: until then it may be stopped, and say that it has no last checkpoint
        self.job.full_disks.discard(server.index)

    # ---- All

    def kill_all(self, chance):
        """All processes die. The servers go on from their checkpoints, with other workers: from whole rounds, or as
        the refusal says."""
        job = self.job
        yield from self.end_all(chance)
        job.life += 1
        before, count = "as they are", chance.randint(2, self.plan.workers)
        how: list[str] = []
        for attempt in range(2):
            order = list(range(self.plan.servers))
            chance.shuffle(order)
            for index in order:
                yield chance.choice([0, chance.uniform(0, 1)])
                yield from self.restore(index, chance, *how)
            workers = [job.start_worker(self.free_host(chance)) for _ in range(count)]
            for worker in workers:
                worker.may_fail = "the servers may not fit together"
            yield Until(lambda: all(len(worker.pulls) >= 2 or worker.has_ended for worker in workers),
                        "workers to come to servers that were restored")
            refused = [worker for worker in workers if worker.error is not None]
            if not refused:
                break
            how, before = self.way_back(workers, attempt)
            for index in range(self.plan.servers):
                yield from self.end_server(index, chance.choice([signal.SIGKILL, signal.SIGTERM]))
        for worker in workers:
            worker.may_fail = ""
        job.ways_back.append(before)
        job.note(f"the job goes on: {before}")

    def end_all(self, chance):
        job = self.job
        now = time.monotonic()
        number = chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
        ends = [worker for worker in job.workers.values() if not worker.has_ended] + list(job.servers)
        chance.shuffle(ends)
        for one in ends:
            if one in job.servers:
                yield from self.end_server_for_good(one, number)
            else:
                one.died_with_all = one.is_living()
                one.given_up_before = self.job.given_up[one.number]
                one.gone_from = one.gone_from or now
                one.process.kill()
                one.process.wait()
                one.has_ended = True
            yield chance.choice([0, 0, chance.uniform(0, 0.2)])
        job.note("all are dead")
        job.look()
        for worker in job.workers.values():
            # The others went on without it before they died, so it may lack more rounds than they
            # do.
            worker.died_with_all &= worker.life < job.life or not job.is_given_up(worker)

    def end_server_for_good(self, server, number):
        """Also one that is just starting."""
        if server.is_expected:
            yield from self.end_server(server.index, number)
        elif server.process.poll() is None:
            server.process.kill()
            server.process.wait()

    def way_back(self, workers, attempt):
        """The advice in the workers' errors, which is the same in all."""
        self.job.note(f"refused: {workers[0].error}")
        advice = {advice_in(worker.error or "") for worker in workers}
        if attempt > 0 or len(advice) != 1 or None in advice:
            raise Failure("wrong", f"some workers are refused, or all after the servers went back: "
                                   f"{ {worker.slot: worker.error for worker in workers} }")
        back = advice.pop()
        return (["--accept-torn"] if back == "torn" else ["--round", str(back)]), back


def advice_in(error):
    """The round to go back to, or "torn"; None: another error."""
    if "--restore --round " in error:
        return int(error.split("--restore --round ")[1].split("|")[0])
    return "torn" if "--restore --accept-torn" in error else None


INTERRUPT = {"stop_worker", "stop_worker_for_too_long", "stop_server", "replace_a_server_that_stands_still", "cut_host",
             "cut_host_for_too_long", "cut_host_again_and_again", "cut_two_hosts_apart"}
EXCLUSIVE = {"kill_all"}


def fill(path):
    """Until nothing more goes onto the disk."""
    with open(path, "wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                pass
