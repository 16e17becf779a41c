"""A cache in a process of its own, whose memory level several processes share: the workers of a PyTorch DataLoader.

The process opens the cache. Each client has a connection to it, and memory that both map: the process copies batches
there, in C. It ends with the process that has started it.
"""
from __future__ import annotations

import json
import mmap
import os
import pickle
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from hocket._native import ffi, lib
from hocket.errors import Error, error_of, invalid
from hocket.cache import Cache, Keys, keys_array

_REQUEST = struct.Struct("<4sIQQ")  # what is asked for; bytes that follow; two numbers
_ANSWER = struct.Struct("<iI")  # status; bytes that follow: what was asked for, or the error's text
_OFFSETS = np.dtype("<u8")


def _read(connection: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view, have = memoryview(data), 0
    while have < size:
        more = connection.recv_into(view[have:])
        if more == 0:
            raise ConnectionError("the connection has ended")
        have += more
    return data


# ---- A client -----------------------------------------------------------------------------------------------------

class _Slot:
    """Shared memory that a batch lies in: free again with the last array that refers to it."""

    def __init__(self, pool: "_Connection", memory: mmap.mmap, number: int, size: int) -> None:
        self.memory, self.number, self.size = memory, number, size
        self._pool = pool

    def lend(self, size: int) -> "np.ndarray[Any, Any]":
        return np.asarray(_Lent(self, size))


class _Lent:
    def __init__(self, slot: _Slot, size: int) -> None:
        self._slot = slot
        buffer = ffi.from_buffer(slot.memory)
        self._buffer = buffer
        self.__array_interface__ = {"version": 3, "shape": (size,), "typestr": "|u1",
                                    "data": (int(ffi.cast("uintptr_t", buffer)), False)}

    def __del__(self) -> None:
        try:
            self._slot._pool.free.append(self._slot)
        except AttributeError:
            pass


class _Connection:
    """of one process."""

    def __init__(self, path: str) -> None:
        self.process = os.getpid()
        self.lock = threading.Lock()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(180)  # longer than what the cache waits for its source
        try:
            self.socket.connect(path)
        except OSError as error:
            raise error_of(lib.HKT_ERROR_IO, f"the process of the shared cache cannot be reached at {path}: {error}; has the "
                           "process that made the SharedCache ended, or closed it?") from None
        self.slots = 0
        self.free: List[_Slot] = []

    def ask(self, what: bytes, payload: Any = b"", first: int = 0, second: int = 0, descriptor: int = -1) -> bytearray:
        """With the lock."""
        try:
            header = _REQUEST.pack(what, len(payload), first, second)
            if descriptor >= 0:
                socket.send_fds(self.socket, [header], [descriptor])
            else:
                self.socket.sendall(header)
            if len(payload):
                self.socket.sendall(payload)
            status, size = _ANSWER.unpack(_read(self.socket, _ANSWER.size))
            answer = _read(self.socket, size)
        except OSError as error:
            raise error_of(lib.HKT_ERROR_IO, f"the process of the shared cache does not answer: {error}") from None
        if status < 0:
            raise error_of(status, answer.decode(errors="replace"))
        return answer

    def slot(self, size: int) -> _Slot:
        """With the lock. One that is free and large enough, or a new one."""
        for i, slot in enumerate(self.free):
            if slot.size >= size:
                return self.free.pop(i)
        size = max(1 << 16, (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE)
        descriptor = os.memfd_create("hocket-batch")
        try:
            os.ftruncate(descriptor, size)
            memory = mmap.mmap(descriptor, size)
            number = self.slots
            self.ask(b"slot", first=number, second=size, descriptor=descriptor)
        finally:
            os.close(descriptor)
        self.slots += 1
        return _Slot(self, memory, number, size)


class SharedCache:
    """A hocket.Cache in a process of its own. Takes what hocket.Cache takes, but for comm; functions are pickled, so they
    must be importable there, and not of __main__.

    It can be used by this process and its children, whether they are forked or get it pickled: all share one memory
    level. Thread-safe; close() ends the process, and so does the end of the program that has made it.
    """

    def __init__(self, source: Any = None, **options: Any) -> None:
        if options.get("comm") is not None:
            raise invalid("a SharedCache has no comm: its process is no rank; use servers=")
        self._folder = tempfile.mkdtemp(prefix="hocket-")
        self._path = os.path.join(self._folder, "cache")
        self._maker = os.getpid()
        self._size = 1 << 16  # of the largest batch so far
        self._connections: Dict[int, _Connection] = {}
        given = pickle.dumps({"path": self._path, "options": dict(options, source=source), "search": sys.path})
        self._process = subprocess.Popen([sys.executable, "-c", "import hocket.shared as s; s.serve()"], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, env=dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path))))
        assert self._process.stdin is not None and self._process.stdout is not None
        # stdin stays open: its end tells the process that we have ended.
        self._process.stdin.write(struct.pack("<I", len(given)) + given)
        self._process.stdin.flush()
        answer = self._process.stdout.readline().decode().strip()
        if answer != "ready":
            self.close()
            status, _, text = answer.partition(" ")
            raise error_of(int(status or lib.HKT_ERROR_INTERNAL), json.loads(text) if text else "the process of the shared cache "
                           "has ended before it was ready; what it said is on stderr")

    def _connection(self) -> _Connection:
        connection = self._connections.get(os.getpid())
        if connection is None:
            self._connections = {os.getpid(): _Connection(self._path)}  # a forked child has one of its own
            connection = self._connections[os.getpid()]
        return connection

    def copy_ragged(self, keys: Keys) -> Tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]:
        """The samples one after another, and their offsets, as Cache.copy_ragged. The array lies in memory that is used
        again when it is dropped."""
        wanted = keys_array(keys)
        connection = self._connection()
        with connection.lock:
            while True:
                slot = connection.slot(self._size)
                offsets = np.frombuffer(connection.ask(b"copy", memoryview(wanted).cast("B") if len(wanted) else b"", slot.number),
                                        _OFFSETS)
                size = int(offsets[-1])
                if size <= slot.size:
                    return slot.lend(size), offsets
                self._size = size
                connection.free.append(slot)

    def copy_batch(self, keys: Keys, out: Any = None) -> Any:
        """Samples of one size, as the rows of one array: as Cache.copy_batch."""
        wanted = keys_array(keys)
        data, offsets = self.copy_ragged(wanted)
        rows = data.reshape(len(wanted), Cache._rows(wanted, offsets))
        if out is None:
            return rows
        into = np.frombuffer(out, np.uint8) if not isinstance(out, np.ndarray) else out.reshape(-1).view(np.uint8)
        if into.nbytes != rows.nbytes:
            raise invalid(f"out has {into.nbytes} bytes, and the {len(wanted)} samples have {rows.nbytes}")
        into[:] = data
        return out

    def __getitem__(self, key: int) -> "np.ndarray[Any, Any]":
        return self.copy_ragged((key,))[0]

    def __len__(self) -> int:
        return self._number(b"size")

    @property
    def cursor(self) -> int:
        """As Cache.cursor."""
        return self._number(b"curs")

    def set_order(self, keys: Keys, cursor: int = 0) -> None:
        """As Cache.set_order; one order for all processes."""
        self._ask(b"ordr", keys_array(keys).tobytes(), cursor)

    def prefetch(self, keys: Keys) -> None:
        """As Cache.prefetch."""
        self._ask(b"pref", keys_array(keys).tobytes())

    def stats(self) -> Dict[str, Any]:
        """As Cache.stats, of the process."""
        return json.loads(bytes(self._ask(b"stat")))

    def _ask(self, what: bytes, payload: Any = b"", first: int = 0) -> bytearray:
        connection = self._connection()
        with connection.lock:
            return connection.ask(what, payload, first)

    def _number(self, what: bytes) -> int:
        return int.from_bytes(self._ask(what), "little")

    def __getstate__(self) -> Dict[str, Any]:
        return {"_path": self._path}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self._path, self._maker, self._size = state["_path"], 0, 1 << 16
        self._connections = {}

    def close(self) -> None:
        """Ends the process; only where it was made. A second close() does nothing."""
        self._connections = {}
        if self._maker != os.getpid():
            return
        self._maker = 0
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        try:
            os.rmdir(self._folder)  # the process has removed the socket
        except OSError:
            pass

    def __enter__(self) -> "SharedCache":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # at the end of the interpreter, parts of it may be gone
            pass


# ---- The process ----------------------------------------------------------------------------------------------------

class _Service:
    """Answers one client, in a thread of its own."""

    def __init__(self, cache: Cache, connection: socket.socket) -> None:
        self._cache, self._connection = cache, connection
        self._slots: Dict[int, mmap.mmap] = {}

    def run(self) -> None:
        try:
            while True:
                header, descriptors, _, _ = socket.recv_fds(self._connection, _REQUEST.size, 1)
                if not header:
                    return
                header += bytes(_read(self._connection, _REQUEST.size - len(header)))
                what, size, first, second = _REQUEST.unpack(header)
                payload = _read(self._connection, size)
                try:
                    status, answer = 0, self._answer(what, payload, first, second, descriptors)
                except Exception as error:
                    status = getattr(error, "status", 0) or lib.HKT_ERROR_INTERNAL
                    cause = f" ({error.__cause__!r})" if error.__cause__ else ""
                    answer = f"{error}{cause}".encode()
                self._connection.sendall(_ANSWER.pack(status, len(answer)) + answer)
        except OSError:
            pass  # the client has ended
        finally:
            self._connection.close()

    def _answer(self, what: bytes, payload: bytearray, first: int, second: int, descriptors: List[int]) -> bytes:
        cache = self._cache
        if what == b"copy":
            memory = self._slots[first]
            return cache._copy(np.frombuffer(payload, np.uint64), ffi.from_buffer(memory), len(memory)).tobytes()
        if what == b"slot":
            self._slots[first] = mmap.mmap(descriptors[0], second)
            os.close(descriptors[0])
            return b""
        if what == b"ordr":
            cache.set_order(np.frombuffer(payload, np.uint64), first)
            return b""
        if what == b"pref":
            cache.prefetch(np.frombuffer(payload, np.uint64))
            return b""
        if what == b"stat":
            return json.dumps(cache.stats()).encode()
        if what in (b"size", b"curs"):
            return (len(cache) if what == b"size" else cache.cursor).to_bytes(8, "little")
        raise invalid(f"unknown question {what!r}")


def _listen(cache: Cache, listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_Service(cache, connection).run, daemon=True).start()


def serve() -> None:
    """The main function of the process."""
    import signal
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program; we end with it
    size = struct.unpack("<I", sys.stdin.buffer.read(4))[0]
    given = pickle.loads(sys.stdin.buffer.read(size))
    try:
        cache = Cache(**given["options"])
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(given["path"])
        listener.listen(64)
    except Exception as error:
        print(getattr(error, "status", 0) or lib.HKT_ERROR_INTERNAL, json.dumps(str(error)), flush=True)
        return
    threading.Thread(target=_listen, args=(cache, listener), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.buffer.read()  # until the program has ended, or closes it
    os.unlink(given["path"])
    cache.close()
    os._exit(0)  # threads may still be in a read from their clients
