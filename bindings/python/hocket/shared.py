"""A cache in a process of its own, whose memory level several processes share: the workers of a PyTorch DataLoader.

The process (hocket/serving.py) opens the cache. It copies batches, in C, into slots: memory that all processes map. A
process that has a batch has its slot, until it drops the last array that lies in it. A batch that is pickled takes its
slot along, so it comes from a worker to the program without a copy.
"""
from __future__ import annotations

import ctypes
import inspect
import json
import mmap
import os
import pickle
import secrets
import socket
import struct
import subprocess
import sys
import threading
import weakref
from typing import Any, NamedTuple

import numpy as np

from hocket._native import lib
from hocket.batch import Keys, bytes_of, keys_array
from hocket.cache import Cache
from hocket.errors import Error, error_of, invalid

# A question: its kind; bytes of keys that follow; a number; how many names of released slots follow.
REQUEST = struct.Struct("<4sIQI")
# An answer: status; bytes that follow, which are the answer or the error's text; a descriptor may come with it.
ANSWER = struct.Struct("<iI")
SLOT = struct.Struct("<IIQ")  # number, generation, size
# Removes the working folder from the path, which -c would put before installed modules.
_SERVING = "import sys; sys.path[:] = [folder for folder in sys.path if folder]; from hocket.serving import main; main()"
_CREDENTIALS = struct.Struct("3i")  # of SO_PEERCRED: process, user, group


class SlotName(NamedTuple):
    """generation: increases each time that the slot is used, so that it is not mistaken for an earlier use."""

    number: int
    generation: int
    size: int


def address_of(name: str) -> str:
    """Returns the address of a socket without a file, so that nothing is left when processes are killed."""
    return f"\0hocket-{name}"


def is_own(connection: socket.socket) -> bool:
    """Returns True if this user's process is at the other end: any user may connect to a socket without a file. Both
    sides check."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(credentials)[1] == os.geteuid()


def read(connection: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view, have = memoryview(data), 0
    while have < size:
        more = connection.recv_into(view[have:])
        if more == 0:
            raise ConnectionError("the connection has ended")
        have += more
    return data


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype, _libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                                                            ctypes.c_int, ctypes.c_int64]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Mapped:
    """A part of a file, mapped into memory. (Python's mmap keeps a descriptor for each mapping, and a process has few
    of those.)"""

    def __init__(self, descriptor: int, size: int, offset: int) -> None:
        self._unmap, self._size = _libc.munmap, size
        self.address = _libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, offset)
        if self.address == ctypes.c_void_p(-1).value:
            self.address = 0
            number = ctypes.get_errno()
            raise OSError(number, f"{size} bytes for a batch cannot be mapped: {os.strerror(number)}")

    def __del__(self) -> None:
        if self.address:
            self._unmap(self.address, self._size)


class _Lent:
    """A batch in its slot, which is released with the last array that refers to this."""

    def __init__(self, connection: _Connection, slot: SlotName, size: int) -> None:
        self._connection, self.slot, self.size = connection, slot, size
        self.is_given_away = False
        self.__array_interface__ = {"version": 3, "shape": (size,), "typestr": "|u1",
                                    "data": (connection.address(slot), False)}

    def __del__(self) -> None:
        try:
            if not self.is_given_away and self._connection.process == os.getpid():
                self._connection.freed.append(self.slot)
        except AttributeError:  # at the end of the interpreter, or it was never made
            pass


class _Connection:
    """A connection of one process to the cache's process."""

    def __init__(self, name: str, patience_s: float) -> None:
        """patience_s: for each answer."""
        self.process = os.getpid()
        self.freed: list[SlotName] = []  # released slots, reported with the next question
        self._lock = threading.RLock()  # reentrant: a signal handler gets it too, and then sees that the thread is already asking
        self._is_asking = False
        self._is_out_of_step = False  # the next bytes read are not the answer to the next question
        self._mapped: dict[int, Mapped] = {}  # by number
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(address_of(name))
        except OSError as error:
            self.close()
            raise error_of(lib.HKT_ERROR_IO, f"the process of the shared cache cannot be reached: {error}; has the program that made "
                           "the SharedCache ended, or closed it?") from None
        if not is_own(self._socket):
            self.close()
            raise error_of(lib.HKT_ERROR_IO, "the process of the shared cache is another user's, and serves nobody but that user: make "
                           "one of your own")
        # Set only now: earlier, connect() would fail instead of waiting when many processes connect at once.
        self._socket.settimeout(patience_s)

    def close(self) -> None:
        self._socket.close()

    def __del__(self) -> None:
        """Closes the socket only here: while it is open, the arrays that refer to it keep their slots."""
        try:
            self.close()
        except Exception:  # at the end of the interpreter, parts of it may be gone
            pass

    def ask(self, what: bytes, payload: Any = b"", number: int = 0) -> bytes:
        return self._ask(what, payload, number)[0]

    def _ask(self, what: bytes, payload: Any, number: int) -> tuple[bytes, list[int]]:
        with self._lock:
            if self._is_asking:
                raise invalid("a handler of a signal, or a finalizer, cannot use a SharedCache beside a call of its own thread: "
                              "do it later")
            if self._is_out_of_step:
                raise error_of(lib.HKT_ERROR_IO, "an exception, such as Ctrl-C, came in the middle of an answer of the shared cache, "
                               "or it does not answer any more; close it, and make another one")
            self._is_asking = True
            try:
                freed = [self.freed.pop() for _ in range(len(self.freed))]
                try:
                    question = REQUEST.pack(what, len(payload), number, len(freed))
                except struct.error:
                    self.freed += freed
                    raise invalid(f"{number!r:.80} is no number from 0 to 2**64 - 1, or there are too many keys at once: "
                                  f"{len(payload) // 8:,}") from None
                self._is_out_of_step = True
                self._socket.sendall(b"".join([question, payload, *(SLOT.pack(*slot) for slot in freed)]))
                head, descriptors, _, _ = socket.recv_fds(self._socket, ANSWER.size, 1)
                if not head:
                    raise ConnectionError("it has ended; see its stderr")
                head += read(self._socket, ANSWER.size - len(head))
                status, size = ANSWER.unpack(head)
                answer = bytes(read(self._socket, size))
                self._is_out_of_step = False
            except OSError as error:
                raise error_of(lib.HKT_ERROR_IO, f"the process of the shared cache does not answer: {error}") from None
            finally:
                self._is_asking = False
        if status < 0:
            raise error_of(status, answer.decode(errors="replace"))
        return answer, descriptors

    def address(self, slot: SlotName) -> int:
        mapped = self._mapped.get(slot.number)
        if mapped is None:
            offset, descriptors = self._ask(b"open", b"", slot.number)
            if not descriptors:
                raise error_of(lib.HKT_ERROR_IO, "the memory of a batch cannot be opened: this process has as many open files "
                               "as it may")
            try:
                mapped = Mapped(descriptors[0], slot.size, int.from_bytes(offset, "little"))
            finally:
                os.close(descriptors[0])
            self._mapped[slot.number] = mapped
        return mapped.address



class SharedCache:
    """A hocket.Cache in its own process. Takes the arguments of hocket.Cache except comm; functions are pickled, so they
    must be importable there, and not of __main__.

    It can be used by this process and its children, whether they are forked or get it pickled: all share one memory
    level. Thread-safe; close() ends the process, and so does the end of the program that has made it.
    """

    def __init__(self, source: Any = None, **options: Any) -> None:
        if options.get("comm") is not None:
            raise invalid("a SharedCache has no comm: its process is no rank; use servers=")
        inspect.signature(Cache).bind(source, **options)  # an unknown argument raises TypeError here, not in the process
        self._maker = 0
        self._connections: dict[int, _Connection] = {}
        self._patience_s = _patience(options.get("timeout"))
        given = _pickled(dict(options, source=source if source is None or callable(source) else os.fspath(source)))
        self._name = secrets.token_hex(16)
        path = os.pathsep.join(folder for folder in sys.path if folder)
        self._process = subprocess.Popen([sys.executable, "-c", _SERVING, self._name],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ, PYTHONPATH=path))
        self._maker = os.getpid()
        try:
            self._open(given)
        except BaseException:  # such as Ctrl-C: the process that opens the cache is not waited for
            self._process.kill()
            self.close()
            raise

    def _open(self, given: bytes) -> None:
        try:  # stdin stays open: its end tells the process that this one has ended
            self._process.stdin.write(struct.pack("<I", len(given)) + given)  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]
        except BrokenPipeError:
            pass  # it has already ended, without an answer
        answer = self._process.stdout.readline().decode().strip()  # type: ignore[union-attr]
        if answer != "ready":
            status, _, text = answer.partition(" ")
            raise error_of(int(status or lib.HKT_ERROR_INTERNAL), json.loads(text) if text else "the process of the shared cache "
                           "has ended before it was ready; see its stderr")

    # ---- Samples -------------------------------------------------------------------------------------------------

    def copy_ragged(self, keys: Keys) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Returns the samples one after another, and their offsets, like Cache.copy_ragged."""
        lent, offsets = self._copy(keys_array(keys), b"copy")
        return np.asarray(lent), offsets

    def copy_batch(self, keys: Keys, out: Any = None) -> Any:
        """Returns samples of one size as the rows of one array, like Cache.copy_batch."""
        wanted = keys_array(keys)
        into = None if out is None else bytes_of(out)
        data, offsets = self.copy_ragged(wanted)
        rows = data.reshape(len(wanted), Cache._rows(wanted, offsets))
        if into is None:
            return rows
        if into.nbytes != rows.nbytes:
            raise invalid(f"out has {into.nbytes} bytes, and the {len(wanted)} samples have {rows.nbytes}")
        into[:] = data
        return out

    def __getitem__(self, key: int) -> np.ndarray[Any, Any]:
        return self.copy_ragged((key,))[0]

    def _copy(self, keys: np.ndarray[Any, Any], what: bytes) -> tuple[_Lent, np.ndarray[Any, Any]]:
        connection = self._connection()
        answer = connection.ask(what, keys.tobytes())
        offsets = np.frombuffer(answer, np.uint64, offset=SLOT.size)
        return _Lent(connection, SlotName(*SLOT.unpack_from(answer)), int(offsets[-1])), offsets

    def ragged_to_send(self, keys: Keys) -> tuple[_Lent, np.ndarray[Any, Any]]:
        """For a worker that will pickle the batch: does what copy_ragged does, but does not make an array."""
        return self._copy(keys_array(keys), b"send")

    def take(self, slot: SlotName, size: int) -> np.ndarray[Any, Any]:
        """Takes a batch that another process has pickled."""
        connection = self._connection()
        connection.ask(b"take", SLOT.pack(*slot))
        return np.asarray(_Lent(connection, slot, size))

    # ---- As a Cache ------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._number(b"size")

    @property
    def cursor(self) -> int:
        """As Cache.cursor."""
        return self._number(b"curs")

    def set_order(self, keys: Keys, cursor: int = 0) -> None:
        """As Cache.set_order; one order for all processes."""
        self._connection().ask(b"ordr", keys_array(keys).tobytes(), cursor)

    def prefetch(self, keys: Keys) -> None:
        """As Cache.prefetch."""
        self._connection().ask(b"pref", keys_array(keys).tobytes())

    def stats(self) -> dict[str, Any]:
        """As Cache.stats; and "slots", "slots_free", of the memory that batches are copied into."""
        return json.loads(self._connection().ask(b"stat"))

    def _number(self, what: bytes) -> int:
        return int.from_bytes(self._connection().ask(what), "little")

    # ---- Processes -------------------------------------------------------------------------------------------------

    def _connection(self) -> _Connection:
        connection = self._connections.get(os.getpid())
        if connection is None:  # a forked child makes its own
            for other in self._connections.values():
                other.close()  # this process's copy of the parent's
            connection = _Connection(self._name, self._patience_s)
            self._connections = {os.getpid(): connection}
            _by_name[self._name] = self
        return connection

    def __getstate__(self) -> dict[str, Any]:
        return {"_name": self._name, "_patience_s": self._patience_s}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._name, self._patience_s, self._maker = state["_name"], state["_patience_s"], 0
        self._connections = {}

    def close(self) -> None:
        """Ends the cache's process if this process has made it. Arrays stay valid. A second close() does nothing."""
        connections, self._connections = self._connections, {}
        if self._maker != os.getpid():
            return  # the connection ends with the last array in a slot
        self._maker = 0
        _by_name.pop(self._name, None)
        try:
            os.write(self._process.stdin.fileno(), b".")  # type: ignore[union-attr]  # forked children may have it open too
        except OSError:
            pass  # it has ended already
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                pipe.close()  # type: ignore[union-attr]
            except OSError:
                pass  # it has not read all of its input
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for connection in connections.values():  # now the slots of our arrays cannot be given to others
            connection.close()

    def __enter__(self) -> SharedCache:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # at the end of the interpreter, parts of it may be gone
            pass


def _patience(timeout: float | None) -> float:
    """Returns how long an answer may take: longer than the cache waits for its source, twice for a batch."""
    if timeout is None:
        text = os.environ.get("HOCKET_TIMEOUT_MS", "")
        timeout = int(text) / 1000 if text.isdecimal() else 60
    return min(max(180, 2 * timeout + 60), 1e6)


def _pickled(options: dict[str, Any]) -> bytes:
    for name in ("source", "read", "decode"):
        if getattr(options.get(name), "__module__", None) == "__main__":
            raise invalid(f"{name} is defined in __main__, which the process of a shared cache does not have: put it into a module")
    try:
        return pickle.dumps(options)
    except Exception as error:
        raise invalid(f"the options of a shared cache are pickled for its process, and that failed: {error}") from error


# By name, for batches that are unpickled. Weak, because dropping a cache must end its process.
_by_name: weakref.WeakValueDictionary[str, SharedCache] = weakref.WeakValueDictionary()
_others: dict[str, SharedCache] = {}  # made here and kept, for batches of caches that this process does not have


def taken(name: str, slot: SlotName, size: int) -> np.ndarray[Any, Any]:
    """Rebuilds a pickled batch."""
    cache = _by_name.get(name)
    if cache is None or os.getpid() not in cache._connections:
        cache = SharedCache.__new__(SharedCache)
        cache.__setstate__({"_name": name, "_patience_s": _patience(None)})  # a slot is taken at once
        _others[name] = cache
    try:
        return cache.take(slot, size)
    except Error as error:
        if error.status == lib.HKT_ERROR_IO:  # the cache's process has ended
            _others.pop(name, None)
        raise
