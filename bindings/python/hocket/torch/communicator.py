"""Hocket's communicator of one process group, with the operations in flight."""
import datetime
import hashlib
import os

import numpy as np

import hocket
from hocket._native import ffi
from hocket.state import CALLS, destroy_later, get_ident, is_busy, is_in_call

from .buckets import Buckets
from .failures import Failure, as_torch
from .rendezvous import RendezvousPlace, begin_job, prefix_of

_MILLISECOND = datetime.timedelta(milliseconds=1)
_LONGEST = datetime.timedelta(days=1)
_AT_LEAST = 16  # works between two checks for those that have ended


def milliseconds(timeout):
    """Returns the milliseconds of a timedelta, a day at most, as in C; None for torch's values that mean "none was
    given": 0 and -1 ms. Values below that come from times longer than torch can count."""
    if timeout is None:
        return None
    value = (min(timeout, _LONGEST) if timeout >= -_MILLISECOND else _LONGEST) // _MILLISECOND
    return value if value > 0 else None


def _drawn_by_rank_0(comm):
    drawn = np.frombuffer(os.urandom(8), np.uint8).copy()
    comm.broadcast(drawn)
    return drawn.tobytes().hex()


class GroupCommunicator:
    """Owns the communicator, which is destroyed once: by destroy(), with the object, or by hocket at the end of the process.

    pending     works that have not ended: they keep their tensors alive, also if the program drops them
    closing     plans and registered memory of hooks, to be closed before
    members     the numbers of the group's ranks in the job
    calls       those from C++ (native/calls.hpp), if there are any: they have works of their own
    """

    def __init__(self, comm, timeout_ms, members):
        self.comm, self.state, self.timeout_ms, self.members = comm, comm._state, timeout_ms, members
        self.rank, self.size = comm.rank, comm.size
        self.pending, self.closing, self.calls = set(), [], None
        self._until_sweep = _AT_LEAST
        self.buckets = Buckets(comm, self.closing)

    @classmethod
    def joined(cls, store, rank, size, timeout, options, members=(), begins_job=False):
        """Meets the other ranks in the store. members: if new_group() was given them, () for all that the store is for.
        begins_job: for torch's default group alone. A group that a program makes beside it, perhaps of some of the ranks,
        must not rename the job, by which the ranks of new_group() know each other."""
        place, timeout_ms = RendezvousPlace(store), milliseconds(timeout) or 1
        try:
            try:
                if members:
                    place.compare_members(members, rank, timeout_ms)
                comm = hocket.init(rank=rank, world_size=size, store=place, store_prefix=prefix_of(members), timeout=timeout_ms / 1000,
                                   progress="thread",  # regardless of HOCKET_PROGRESS, because futures are waited for outside of Hocket
                                   **options.given())
            finally:
                place.take_out()
            if members:
                comm.barrier()  # no rank continues before all have joined
            else:
                drawn = _drawn_by_rank_0(comm)  # no rank continues before all have joined
                if begins_job:
                    begin_job(drawn)
        except hocket.Error as error:
            raise as_torch(error, members) from error
        return cls(comm, timeout_ms, members or tuple(range(size)))

    def split(self, ranks):
        """Makes the communicator of these ranks of this one, in their order. All ranks call this, each with its own group; a
        rank that is in none passes another's, and gets None."""
        is_member = self.rank in ranks
        try:
            comm = self.comm.split(min(ranks) if is_member else None, ranks.index(self.rank) if is_member else 0)
            if comm is None:
                return None
            mine = np.frombuffer(hashlib.sha256(repr(ranks).encode()).digest()[:8], np.uint64)
            is_same = (comm.all_gather(mine) == mine).all()
        except hocket.Error as error:
            raise as_torch(error, self.members) from error
        if not is_same:
            comm.close()
            raise ValueError(f"hocket: this rank has called split_group with the group {ranks}, and a rank that is in a group with it has "
                             "called it with another one. All ranks must pass the same list of groups, in the same order")
        return GroupCommunicator(comm, self.timeout_ms, tuple(self.members[rank] for rank in ranks))

    def enter_from(self, calls):
        """Lets C++ make calls, too, until the communicator is closed. calls: a function of its handle."""
        self.calls = calls(int(ffi.cast("uintptr_t", self.state.handle)))
        self.state.exchanges[id(self.calls)] = self.calls
        return self.calls

    def is_in_call(self):
        """Returns True if some thread is in a call of the communicator, such as a wait."""
        return bool(self.state.inside) or (self.calls is not None and self.calls.is_under_way)

    def failure(self, status):
        """Returns the exception for a call of this thread that has just ended with this status."""
        try:
            self.state.fail(status)
        except BaseException as error:  # including Ctrl-C
            return as_torch(error, self.members)

    def call(self, what, function):
        """Calls function(handle), a call of the library. The handle is read when the call is counted, so that the
        communicator is not destroyed in between."""
        thread = get_ident()
        self.state.inside.append(thread)
        try:
            handle = self.state.handle
            if not handle:
                raise Failure(f"hocket: {what} on a process group that has been destroyed")
            status = function(handle)
            if status < 0:
                raise self.failure(status)
            return status
        finally:
            self.state.inside.remove(thread)
            if self.state.orphans:
                self.state.reap()

    def started(self, work):
        """Records a work. At intervals ends those that no thread waits for: so there are never more than twice those in
        flight, and a few; and they are removed even if all later ones are waited for."""
        self.pending.add(work)
        self._until_sweep -= 1
        if self._until_sweep <= 0:
            self.sweep()

    def sweep(self):
        """Ends the works that have ended; returns True if there are others."""
        for other in list(self.pending):
            other.end(0)
        self._until_sweep = _AT_LEAST + len(self.pending)
        return bool(self.pending)

    def destroy(self):
        if not self.state.handle:
            return
        if is_busy() or is_in_call():  # dropped in a function that Hocket has called, or during a call
            destroy_later(self)
            return
        for work in list(self.pending):  # ends those that are complete
            work.end(0)
        if not self.pending and not (self.calls and self.calls.in_flight):  # otherwise their tensors must stay
            for thing in self.closing:
                thing.close()
        self.comm.close()
        if self.calls:
            self.calls.destroyed()
        for work in list(self.pending):
            work.end(0)

    def __del__(self):
        if hasattr(self, "state"):
            self.destroy()


CALLS.add(GroupCommunicator.call.__code__)
