#!/usr/bin/python3
"""The backend hocket when a rank or message is lost, late, or given up."""
import datetime
import os
import signal
import tempfile
import threading
import time
from unittest import mock

import ranks  # first: it skips without torch

# isort: split
import torch
import torch.distributed as dist
from hocket._native import lib

import hocket.torch
from hocket import state
from hocket.torch import communicator, rendezvous
from ranks import same

HAS_2 = not torch.__version__.startswith("1.")


def _text_of(call, *arguments, **keywords):
    """Of the RuntimeError that the call must raise."""
    try:
        call(*arguments, **keywords)
    except RuntimeError as error:
        text = str(error)
        assert "hkt_" not in text and "HOCKET_TIMEOUT_MS" not in text, f"it advises what torch has not: {text}"
        return text
    raise AssertionError(f"{call} did not fail")


def store():
    return dist.distributed_c10d._get_default_store()


def wait_for_count(key, count):
    while store().add(key, 0) < count:
        time.sleep(0.01)


def die_alone(rank, size):
    """Kills rank 1 once the others are here: before, one may still need what another one sends in the operation before."""
    if rank == 1:
        wait_for_count("here", size - 1)
        os.kill(os.getpid(), signal.SIGKILL)
    store().add("here", 1)


def killed(rank, size):
    dist.barrier()
    die_alone(rank, size)
    text = _text_of(dist.all_reduce, torch.ones(1000))
    assert "rank 1 was lost" in text, text
    return text


def killed_behind_a_future(rank, size, hooked):
    """The future of an operation that fails has the error, and so has backward()."""
    one = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(10, 10))
    if hooked:
        hocket.torch.ddp_hook(one)
    one(torch.ones(2, 10)).sum().backward()
    die_alone(rank, size)
    text = _text_of(lambda: one(torch.ones(2, 10)).sum().backward())
    assert "rank 1" in text, text
    work = None
    try:
        work = dist.all_reduce(torch.ones(3), async_op=True)
    except RuntimeError:
        return  # the communicator is broken
    assert "rank 1" in _text_of(work.get_future().wait)


def late(rank, size):
    """The group's timeout, told with the name of who is missing."""
    if rank == 0:
        begin = time.monotonic()
        text = _text_of(dist.all_reduce, torch.ones(3))
        store().set("told", "1")
        assert "timeout" in text and "rank 1" in text, text
        assert time.monotonic() - begin < 30
    else:
        store().wait(["told"])


def wait_in_vain(rank, size):
    """A wait with a limit of its own breaks nothing: the operation goes on."""
    x = torch.ones(3)
    if rank == 0:
        work = dist.all_reduce(x, async_op=True)
        text = _text_of(work.wait, datetime.timedelta(milliseconds=100))
        assert "all_reduce has not ended within 100 ms" in text, text
        dist.distributed_c10d._get_default_group()._get_sequence_number_for_group()
        store().set("tried", "1")
        work.wait()
    else:
        store().wait(["tried"])
        dist.all_reduce(x)
    same(x, torch.full((3,), float(size)), "after a wait in vain")


def wait_too_long(rank, size):
    """More than a day counts as a day: a wait with it waits, and what is copied back at the end is."""
    x = torch.ones(40, 2)[:, 0]
    if rank == 0:
        work = dist.all_reduce(x, async_op=True)
        threading.Timer(0.3, store().set, ("waiting", "1")).start()
        work.wait(datetime.timedelta(days=2))
    else:
        store().wait(["waiting"])
        dist.all_reduce(x)
    same(x, torch.full((40,), float(size)), "after a wait of two days at most")
    group = dist.group.WORLD
    for longest in (datetime.timedelta(days=7), datetime.timedelta.max):
        group.set_timeout(longest)
        dist.all_reduce(x)
        group.monitored_barrier(longest)
        other = hocket.torch.ProcessGroup(dist.PrefixStore(str(longest), store()), rank, size, longest)
        other.allreduce([x]).wait()
        other.shutdown()
    same(x, torch.full((40,), float(size) ** 5), "with timeouts that are too long")
    comm = group._communicator.comm
    comm.barrier_monitored(1e300)
    comm.all_reduce(torch.ones(3), wait=False).wait(1e300)
    for wrong in (-1.0, float("nan")):
        try:
            comm.barrier_monitored(wrong)
        except ValueError as error:
            assert "above 0" in str(error), error
        else:
            raise AssertionError(f"a timeout of {wrong} was taken")


def absent(rank, size):
    """A monitored barrier names all who are missing, and the group goes on."""
    group = dist.group.WORLD
    if rank in (0, 1):
        limit = datetime.timedelta(milliseconds=200)
        if rank == 0:
            store().wait(["came"])  # however late rank 1 is
        text = _text_of(group.monitored_barrier, limit, wait_all_ranks=True)
        if rank == 0:
            assert "Ranks 2, 3 failed to pass monitoredBarrier" in text, text
        assert "absent:" in text, text
        if rank == 1:
            store().set("came", "1")  # it counts as there from then on, and now waits again
        store().add("tried", 1)
        group.monitored_barrier()
    else:
        wait_for_count("tried", 2)
        group.monitored_barrier()
    x = torch.ones(2)
    dist.all_reduce(x)
    same(x, torch.full((2,), float(size)), "after a monitored barrier")


def different(rank, size):
    text = _text_of(dist.all_reduce, torch.ones(3 + rank))
    assert "all_reduce" in text and "3" in text and "4" in text, text


def in_a_group(rank, size):
    """Texts about a group's ranks say which ranks of the job these are."""
    words = "rank 0 of the group is rank 1 of the job, rank 1 of the group is rank 3 of the job"
    # The timeout is also that of all four for making the group.
    group, limit = dist.new_group([1, 3], timeout=datetime.timedelta(seconds=4)), datetime.timedelta(milliseconds=100)
    if group is dist.GroupMember.NON_GROUP_MEMBER:
        return
    if rank == 1:
        assert words in _text_of(group.monitored_barrier, limit)
        work = dist.all_reduce(torch.ones(3), group=group, async_op=True)
        assert words.partition(",")[0] in _text_of(work.wait, limit)
        assert words in _text_of(work.wait)
        store().set("done", "1")
    else:
        store().wait(["done"])


def aborted(rank, size):
    """abort() ends what waits, on all ranks."""
    if rank == 0:
        threading.Timer(0.3, dist.group.WORLD.abort).start()
        text = _text_of(dist.recv, torch.ones(3), 1)
        store().wait(["heard"])
    else:
        text = _text_of(dist.recv, torch.ones(3), 0, tag=5)
        store().set("heard", "1")
    assert "abort" in text, text


def destroyed(rank, size):
    """A group may be destroyed with operations under way; their works say so."""
    group = dist.new_group()
    work = group.recv([torch.ones(3)], (rank + 1) % size, 9)
    future = work.get_future()
    dist.barrier()
    if HAS_2:
        dist.destroy_process_group(group)
    else:
        group.shutdown()
    for call in (work.wait, future.wait):
        text = _text_of(call)
        assert "destroyed" in text or "abort" in text, text
    assert work.is_completed() and not work.is_success()
    assert "destroyed" in _text_of(group.allreduce, [torch.ones(1)])
    x = torch.ones(1)
    dist.all_reduce(x)  # the other group goes on
    same(x, torch.tensor([float(size)]), "after another group was destroyed")


def looked_at_while_freed(rank, size):
    """Who looks at an operation while its communicator is being freed hears of it, and does not take the memory that C still
    writes to."""
    group = hocket.torch.ProcessGroup(dist.PrefixStore("freed", store()), rank, size, datetime.timedelta(seconds=30))
    if rank == 1:
        store().wait(["freed"])  # else the operation could end because this rank has left
        group.shutdown()
        return
    work = group.recv([torch.ones(3)], 1, 9)
    flight, found = work._flight, []

    class Freeing:
        """The library, while it frees a communicator."""

        def __getattr__(self, name):
            return getattr(lib, name)

        def hkt_comm_destroy(self, handle):
            assert "destroyed" in _text_of(work.wait)
            found.append([kept for one, kept in group._communicator.state.orphans if one is flight])
            lib.hkt_comm_destroy(handle)

    with mock.patch.object(state, "lib", Freeing()):
        group.shutdown()
    store().set("freed", "1")
    assert len(found) == 1 and len(found[0]) == 1, found
    assert not group._communicator.state.orphans


class Interrupt:
    """Ctrl-C for this process in a `with` block that must end with it. until: called by another thread; returns when it is time."""

    def __init__(self, until):
        self._until = until

    def _send(self):
        self._until()
        os.kill(os.getpid(), signal.SIGINT)

    def __enter__(self):
        threading.Thread(target=self._send).start()

    def __exit__(self, kind, *_):
        assert kind is KeyboardInterrupt, f"not interrupted: {kind}"
        return True


def until_in_call():
    while not dist.group.WORLD._communicator.is_in_call():
        time.sleep(0.05)


def interrupted(rank, size):
    """Ctrl-C ends a wait, and nothing else."""
    x = torch.ones(3)
    if rank == 0:
        work = dist.all_reduce(x, async_op=True)
        with Interrupt(until_in_call):
            work.wait()
        store().set("interrupted", "1")
        work.wait()
    else:
        store().wait(["interrupted"])
        dist.all_reduce(x)
    same(x, torch.full((3,), float(size)), "after Ctrl-C")


def waits_beside(rank, size):
    """A handler of a signal cannot wait for what its thread waits for, and is told so."""
    x = torch.ones(3)
    said: list[str] = []
    if rank == 0:
        def handle(*_):
            if not dist.group.WORLD._communicator.is_in_call():  # not in the wait yet
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                return
            assert not work.is_completed()
            for call in (work.wait, work.get_future, lambda: work.wait(datetime.timedelta(seconds=1))):
                try:
                    call()
                except ValueError as error:
                    said.append(str(error))
            store().set("handled", "1")
        signal.signal(signal.SIGALRM, handle)
        work = dist.all_reduce(x, async_op=True)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        work.wait()
        assert len(said) == 3 and all("beside a wait of the same thread" in text for text in said), said
    else:
        store().wait(["handled"])
        dist.all_reduce(x)
    same(x, torch.full((3,), float(size)), "after a handler's wait")


def other_lists(rank, size):
    """new_group in another order: the lists have ranks in common, and all hear it at once. Lists that have none make a group each."""
    mine = [0, 3] if rank in (0, 3) else [1, 2]
    x = torch.tensor([float(rank)])
    dist.all_reduce(x, group=dist.new_group(mine))
    same(x, torch.tensor([3.0]), f"all_reduce in a group of {mine}")
    dist.barrier()
    if rank < 3:
        try:
            dist.new_group([0, 1] if rank == 0 else [0, 1, 2])
        except ValueError as error:
            assert "with the same lists" in str(error) and "0,1,2" in str(error), error
        else:
            raise AssertionError("a group was made of different lists")
    dist.barrier()


def earlier_lists(rank, size):
    """A list that ranks of an earlier job left in the store is not taken for one of this job. (torch 1.13 itself cannot make a second
    default group with one store.)"""
    shared = dist.HashStore()
    shared.set("hocket/members/1", "an-earlier-job 1,2")

    def come_late():
        time.sleep(0.2)
        rendezvous.RendezvousPlace(shared).compare_members([0, 1], 1, 20000)
    thread = threading.Thread(target=come_late)
    thread.start()
    rendezvous.RendezvousPlace(shared).compare_members([0, 1], 0, 20000)
    thread.join()
    shared.set("hocket/members/3", "an-earlier-job 0,3")
    text = _text_of(rendezvous.RendezvousPlace(shared).compare_members, [0, 3], 0, 300)
    assert "rank 3 has not come" in text, text
    assert communicator.milliseconds(datetime.timedelta(days=-13503981)) == 24 * 3600 * 1000  # as torch gives 200,000,000 days
    assert communicator.milliseconds(datetime.timedelta(milliseconds=-1)) is None


def interrupted_barrier(rank, size):
    """Ctrl-C ends the wait in a monitored barrier. The barrier itself goes on, and so does the group."""
    if rank == 0:
        with Interrupt(until_in_call):
            dist.group.WORLD.monitored_barrier(datetime.timedelta(seconds=60))
        store().set("interrupted", "1")
        while dist.group.WORLD._communicator.state.inside:
            time.sleep(0.01)
    else:
        store().wait(["interrupted"], datetime.timedelta(seconds=30))
        dist.group.WORLD.monitored_barrier()
    x = torch.ones(3)
    dist.all_reduce(x)
    same(x, torch.full((3,), float(size)), "after a monitored barrier that was interrupted")


def made_at_last(rank, size):
    """A group that could not be made leaves nothing in the store that the others would find when it is made again."""
    limit = datetime.timedelta(seconds=10)

    def make(within=limit):
        return hocket.torch.ProcessGroup(again, rank, size, within)

    for how in ("timeout", "Ctrl-C"):
        again = dist.PrefixStore(how, store())
        if rank == 0 and how == "timeout":
            _text_of(make, datetime.timedelta(milliseconds=300))
        elif rank == 0:
            with Interrupt(lambda: again.wait(["hocket/hocket"])):  # this rank's invitation is there
                make()
        if rank == 0:
            again.set("failed", "1")
            again.wait(["others come"])
            time.sleep(0.3)
        else:
            again.wait(["failed"])
            again.set("others come", "1")
        group = make()
        x = torch.ones(3)
        group.allreduce([x]).wait()
        same(x, torch.full((3,), float(size)), f"in a group that could not be made at first: {how}")
        group.shutdown()


def refused(rank, size):
    """The others receive the reason why rank 0 cannot join, even if they ask later."""
    again = dist.PrefixStore("refused", store())
    if rank == 0:
        os.environ["HOCKET_FABRIC_ADDR"] = "192.0.2.1"  # no host's address
    else:
        again.wait(["refused"])
    text = _text_of(hocket.torch.ProcessGroup, again, rank, size, datetime.timedelta(seconds=10))
    assert ("192.0.2.1" if rank == 0 else "rank 0 failed: ") in text, text
    again.set("refused", "1")


def put_too_late(rank, size):
    """After Ctrl-C the call that joins goes on: what it puts into the store then must not be there for the next group."""
    place = hocket.torch.rendezvous.RendezvousPlace(store())
    place.take_out()
    place.set("late", b"1")
    assert store().add("late", 1) == 1, "the key was there"


def left(rank, size):
    """Works and a group that are never waited for or destroyed: the process ends all the same."""
    try:
        dist.all_reduce(torch.ones(1000), async_op=True)
        dist.all_reduce(torch.ones(1000), async_op=True).get_future()
    except RuntimeError as error:  # the other one has ended already
        assert "was lost" in str(error) or "has left the job" in str(error), error


def forked(rank, size):
    """A child may not use the group, and its end disturbs nobody."""
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(torch.ones(2))
        except (RuntimeError, ValueError) as error:
            os._exit(0 if "fork" in str(error) or "child" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, "the child was let in, or told nothing about it"
    x = torch.ones(1)
    dist.all_reduce(x)
    same(x, torch.tensor([float(size)]), "after a child")


# A worker of torchrun. Those of the second attempt have the store of the first, in which rank 0 is the last to come.
RESTARTED = """
import os, time
import torch, torch.distributed as dist
import hocket.torch
rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
if rank == 0:
    time.sleep(attempt)
dist.init_process_group("hocket")
x = torch.ones(1)
dist.all_reduce(x)
if attempt == 0:
    os._exit(1) if rank == 1 else time.sleep(1000)
print(f"rank {rank}, attempt {attempt}: {x.item()}", flush=True)
dist.destroy_process_group()
"""


class Failures(ranks.TestCase):
    def lose(self, function, *arguments):
        outcomes = ranks.run(3, function, *arguments)
        self.assertEqual((outcomes[1].kind, outcomes[1].value), ("ended", -signal.SIGKILL))
        for rank in (0, 2):
            self.assertEqual(outcomes[rank].kind, "returned", outcomes[rank])

    def test_killed(self):
        self.lose(killed)

    def test_killed_behind_a_future(self):
        for hooked in (False, True):
            with self.subTest(hooked=hooked):
                self.lose(killed_behind_a_future, hooked)

    def test_late(self):
        outcomes = ranks.run(2, late, timeout_s=5)  # also the longest that the two may take to meet
        self.assertEqual(outcomes[0].kind, "returned", outcomes[0])

    def test_restarted(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "worker.py")
            with open(path, "w") as file:
                file.write(RESTARTED)
            status, said = ranks.torchrun(2, [path], 120, "--max_restarts", "1")
        self.assertEqual(status, 0, said)
        for rank in (0, 1):
            self.assertIn(f"rank {rank}, attempt 1: 2.0", said)

    def test_the_rest(self):
        for size, function in ((2, wait_in_vain), (2, wait_too_long), (2, waits_beside), (4, other_lists), (1, earlier_lists), (4, absent), (2, different), (4, in_a_group), (2, aborted), (2, destroyed), (2, looked_at_while_freed), (2, interrupted),
                               (2, interrupted_barrier), (2, made_at_last), (2, refused), (1, put_too_late), (2, left), (2, forked)):
            with self.subTest(function=function.__name__):
                self.check(size, function)


if __name__ == "__main__":
    ranks.main()
