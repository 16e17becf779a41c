"""Where the ranks of a process group meet: a key of its store."""
import contextlib


class MeetingPlace:
    """A store for hocket.init. A later group may have the same name in the same store: so once all ranks have joined, and before any of them
    goes on, what rank 0 has put into it is taken out. None can find it when it makes that group, however late rank 0 is then."""

    def __init__(self, store):
        self._store, self._put = store, []
        self.wait, self.get = store.wait, store.get

    def set(self, key, value):
        self._store.set(key, value)
        self._put.append(key)

    def take_out(self):
        with contextlib.suppress(RuntimeError):  # stores that cannot, such as etcd's: there each group needs another prefix
            for key in self._put:
                self._store.delete_key(key)
