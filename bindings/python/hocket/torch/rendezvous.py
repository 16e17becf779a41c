"""The place in a store where the ranks of a process group meet: a key."""
import contextlib
import datetime
import hashlib
import threading
import time

from hocket.interruptible import interruptible

_MEMBERS = "hocket/members"
_REFUSAL = b"rank 0 failed: "  # written by rank 0 if it cannot invite others (capi/joining.cpp)
_LOOK_AGAIN_S = 0.01
_job = ""  # identifies this default group: a later one, whose groups have the same names, may use the same store


def begin_job(text):
    global _job
    _job = text


def prefix_of(members):
    """Returns the prefix of the keys with which ranks that were given the same list meet."""
    return "hocket" + ("/" + hashlib.sha256(repr(members).encode()).hexdigest()[:16] if members else "")


class RendezvousPlace:
    """A store for hocket.init. A later group may have the same name in the same store, so rank 0's invitation is
    removed from it once all ranks have joined and before any of them continues, or once rank 0 has given up. So no rank
    finds it when it makes that later group, however late rank 0 is. A refusal stays until rank 0 tries again, because
    the others may ask only later why it has failed."""

    def __init__(self, store):
        self._store, self._put = store, []
        self._lock, self._is_over = threading.Lock(), False
        self.wait, self.get = store.wait, store.get

    def compare_members(self, members, rank, timeout_ms):
        """Puts this rank's list of the group's ranks into the store, where it stays, and reads the lists of its
        members. A rank that finds a different list raises ValueError. Lists that have no rank in common meet
        separately: see prefix_of()."""
        mine = ",".join(map(str, members))
        self._store.set(f"{_MEMBERS}/{members[rank]}", f"{_job} {mine}")
        interruptible(lambda: self._look_at_lists(members, mine, timeout_ms))

    def _look_at_lists(self, members, mine, timeout_ms):
        begun = time.monotonic()
        for member in members:
            try:
                theirs = self._list_of(member, begun + timeout_ms / 1000)
            except RuntimeError as error:
                if time.monotonic() - begun < 0.9 * timeout_ms / 1000:
                    raise RuntimeError(f"hocket: the store failed while the ranks {mine} met for a new group: {error}") from error
                raise RuntimeError(f"hocket: a timeout has passed: rank {member} has not come to a new group of the ranks {mine} within "
                                   f"{timeout_ms} ms. All ranks must call new_group, in the same order") from error
            if theirs != mine:
                raise ValueError(f"hocket: this rank has called new_group with the ranks {mine}, and rank {member}, in the same place of its "
                                 f"calls, with {theirs}. All ranks must call new_group with the same lists, in the same order")

    def _list_of(self, member, until):
        """Raises RuntimeError if the list has not come by then, or with the store's error."""
        key = f"{_MEMBERS}/{member}"
        while True:
            self._store.wait([key], datetime.timedelta(seconds=max(until - time.monotonic(), 0.001)))
            job, _, ranks = self._store.get(key).decode().partition(" ")
            if job == _job:
                return ranks
            if time.monotonic() >= until:
                raise RuntimeError("its entry in the store is an earlier job's")
            time.sleep(_LOOK_AGAIN_S)

    def set(self, key, value):
        with self._lock:
            if self._is_over:  # Ctrl-C has ended the wait for the call of C, not the call
                return
            if not value.startswith(_REFUSAL):
                self._put.append(key)
            self._store.set(key, value)

    def take_out(self):
        with self._lock, contextlib.suppress(RuntimeError):  # stores that cannot delete, such as etcd's: there each group needs another prefix
            self._is_over = True
            for key in self._put:
                self._store.delete_key(key)
