"""Hocket's communicator of one process group, with the operations in flight."""
import datetime
import os

import numpy as np
import torch.distributed

import hocket
from hocket._native import lib
from hocket.state import CALLS, destroy_later, get_ident, is_busy, is_in_call

from .buckets import Buckets
from .rendezvous import RendezvousPlace, begin_job, prefix_of

Failure = getattr(torch.distributed, "DistBackendError", RuntimeError)  # torch 1.13 has no class for it
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


def as_torch(error):
    """Converts to exceptions that torch's programs catch: ValueError for wrong arguments, which Hocket's class also is;
    RuntimeError for the rest."""
    if not isinstance(error, hocket.Error) or isinstance(error, ValueError):
        return error
    text = str(error)
    if error.status == lib.HKT_ERROR_TIMEOUT:
        text = f"hocket: a timeout has passed: {text}"  # Gloo uses these words, which programs look for
    failure = Failure(text)
    failure.__cause__ = error
    return failure


class GroupCommunicator:
    """Owns the communicator, which is destroyed once: by destroy(), with the object, or by hocket at the end of the process.

    pending     works that have not ended: they keep their tensors alive, also if the program drops them
    closing     plans and registered memory of hooks, to be closed before
    """

    def __init__(self, store, rank, size, timeout, options, members=()):
        """members: the group's ranks in the job, if new_group() was given them."""
        self.rank, self.size, self.timeout_ms = rank, size, milliseconds(timeout) or 1
        self.pending, self.closing = set(), []
        self._until_sweep = _AT_LEAST
        try:
            self._join(store, options, members)
        except hocket.Error as error:
            raise as_torch(error) from error
        self.buckets = Buckets(self.comm, self.closing)

    def _join(self, store, options, members):
        place = RendezvousPlace(store)
        try:
            if members:
                place.compare_members(members, self.rank, self.timeout_ms)
            self.comm = hocket.init(rank=self.rank, world_size=self.size, store=place, store_prefix=prefix_of(members),
                                    timeout=self.timeout_ms / 1000,
                                    progress="thread",  # regardless of HOCKET_PROGRESS, because futures are waited for outside of Hocket
                                    **options.given())
        finally:
            place.take_out()
        self.state = self.comm._state
        if members:
            self.comm.barrier()  # no rank continues before all have joined
        else:
            begin_job(self._drawn_by_rank_0())

    def _drawn_by_rank_0(self):
        drawn = np.frombuffer(os.urandom(8), np.uint8).copy()
        self.comm.broadcast(drawn)
        return drawn.tobytes().hex()

    def failure(self, status):
        """Returns the exception for a call of this thread that has just ended with this status."""
        try:
            self.state.fail(status)
        except BaseException as error:  # including Ctrl-C
            return as_torch(error)

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
            for other in list(self.pending):
                other.end(0)
            self._until_sweep = _AT_LEAST + len(self.pending)

    def destroy(self):
        if not self.state.handle:
            return
        if is_busy() or is_in_call():  # dropped in a function that Hocket has called, or during a call
            destroy_later(self)
            return
        for work in list(self.pending):  # ends those that are complete
            work.end(0)
        if not self.pending:  # otherwise their tensors must stay
            for thing in self.closing:
                thing.close()
        self.comm.close()
        for work in list(self.pending):
            work.end(0)

    def __del__(self):
        if hasattr(self, "state"):
            self.destroy()


CALLS.add(GroupCommunicator.call.__code__)
