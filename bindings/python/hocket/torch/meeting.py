"""Where the ranks of a process group meet: a key of its store."""
import contextlib
import datetime
import hashlib
import threading

from hocket.interruptible import interruptible

_MEMBERS = "hocket/members"
_REFUSAL = b"rank 0 failed: "  # what rank 0 puts where it cannot invite anybody (capi/joining.cpp)


def prefix_of(members):
    """Of the keys by which ranks meet that have given the same list."""
    return "hocket" + ("/" + hashlib.sha256(repr(members).encode()).hexdigest()[:16] if members else "")


class MeetingPlace:
    """A store for hocket.init. A later group may have the same name in the same store: so the invitation that rank 0 has put into it is
    taken out, once all ranks have joined and before any of them goes on, or once rank 0 has given up. None can find it when it makes that
    group, however late rank 0 is then. A refusal stays until rank 0 tries again, as the others may ask only later why it has failed."""

    def __init__(self, store):
        self._store, self._put, self._lists = store, [], []
        self._lock, self._is_over = threading.Lock(), False
        self.wait, self.get = store.wait, store.get

    def compare_members(self, members, rank, timeout_ms):
        """Each rank puts its list of the group's ranks into the store, and looks at those of the others in it: ranks that have given
        lists that differ, and that have one in common, all see it. Those that have none in common meet by themselves: see prefix_of()."""
        mine = ",".join(map(str, members))
        self._lists = [f"{_MEMBERS}/{member}" for member in members]
        self._store.set(self._lists[rank], mine)
        limit = datetime.timedelta(milliseconds=timeout_ms)
        for member, key in zip(members, self._lists):
            try:
                interruptible(lambda key=key: self._store.wait([key], limit))
            except RuntimeError as error:
                raise RuntimeError(f"hocket: a timeout has passed: rank {member} has not come to a new group of the ranks {mine} within "
                                   f"{timeout_ms} ms. All ranks must call new_group, in the same order") from error
            theirs = self._store.get(key).decode()
            if theirs != mine:
                raise ValueError(f"hocket: this rank has called new_group with the ranks {mine}, and rank {member}, in the same place of its "
                                 f"calls, with {theirs}. All ranks must call new_group with the same lists, in the same order")

    def set(self, key, value):
        with self._lock:
            if self._is_over:  # Ctrl-C has ended the wait for the call of C, not the call
                return
            if not value.startswith(_REFUSAL):
                self._put.append(key)
            self._store.set(key, value)

    def take_out(self, have_joined=False):
        """have_joined: all have, so that none still reads the lists."""
        with self._lock, contextlib.suppress(RuntimeError):  # stores that cannot, such as etcd's: there each group needs another prefix
            self._is_over = True
            for key in self._put + (self._lists if have_joined else []):
                self._store.delete_key(key)
