"""Where the ranks of a process group meet: a key of its store."""
import contextlib
import threading

_REFUSAL = b"rank 0 failed: "  # what rank 0 puts where it cannot invite anybody (capi/joining.cpp)


class MeetingPlace:
    """A store for hocket.init. A later group may have the same name in the same store: so the invitation that rank 0 has put into it is
    taken out, once all ranks have joined and before any of them goes on, or once rank 0 has given up. None can find it when it makes that
    group, however late rank 0 is then. A refusal stays until rank 0 tries again, as the others may ask only later why it has failed."""

    def __init__(self, store):
        self._store, self._put = store, []
        self._lock, self._is_over = threading.Lock(), False
        self.wait, self.get = store.wait, store.get

    def set(self, key, value):
        with self._lock:
            if self._is_over:  # Ctrl-C has ended the wait for the call of C, not the call
                return
            if not value.startswith(_REFUSAL):
                self._put.append(key)
            self._store.set(key, value)

    def take_out(self):
        with self._lock, contextlib.suppress(RuntimeError):  # stores that cannot, such as etcd's: there each group needs another prefix
            self._is_over = True
            for key in self._put:
                self._store.delete_key(key)
