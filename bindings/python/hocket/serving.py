"""The process of a SharedCache: opens the cache, and copies batches for its clients into memory that all of them
map."""
from __future__ import annotations

import io
import json
import mmap
import os
import pickle
import signal
import socket
import struct
import sys
import threading
import time
from typing import Any

import numpy as np

from hocket._native import ffi, lib
from hocket.cache import Cache
from hocket.errors import Error, error_of, invalid
from hocket.shared import ANSWER, REQUEST, SLOT, Mapped, SlotName, address_of, is_own, read

# A worker that ends may have sent batches that no process will take: those that a program dropped in the middle of an
# epoch. At most this many are kept for it; a DataLoader has a few in flight for each worker.
_MOST_LEFT_BEHIND = 64
_PATIENCE_S = 5  # with calls of clients, at the end


class _Slot:
    def __init__(self, number: int, size: int, descriptor: int, offset: int) -> None:
        self.number, self.size, self.generation, self.offset = number, size, 0, offset
        self.memory = Mapped(descriptor, size, offset)
        self.owner: Any = None  # a client; None: it is free, or was sent
        self.sender: Any = None  # the client that has sent it, until another one takes it

    def name(self) -> SlotName:
        return SlotName(self.number, self.generation, self.size)


class Slots:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.descriptor = os.memfd_create("hocket-batches")  # one file for all slots, which lie in it one after another
        self._size = 0
        self._all: list[_Slot] = []
        self._free: list[_Slot] = []
        self._left: list[_Slot] = []  # sent by clients that have ended, oldest first

    def lend(self, size: int, client: Any) -> _Slot:
        """Lends a slot of at least this many bytes."""
        with self._lock:
            fitting = [slot for slot in self._free if slot.size >= size]
            if fitting:
                slot = min(fitting, key=lambda one: one.size)
                self._free.remove(slot)
            else:
                size = max(1 << 16, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
                os.ftruncate(self.descriptor, self._size + size)
                slot = _Slot(len(self._all), size, self.descriptor, self._size)
                self._size += size
                self._all.append(slot)
            slot.generation += 1
            slot.owner = client
            return slot

    def send(self, slot: _Slot, client: Any) -> None:
        with self._lock:
            slot.owner, slot.sender = None, client

    def take(self, name: SlotName, client: Any) -> None:
        with self._lock:
            slot = self._all[name.number]
            if slot.generation != name.generation or slot.sender is None:
                raise error_of(lib.HKT_ERROR_NOT_FOUND, "this batch is gone: its worker ended long ago, and nobody had taken it")
            slot.owner, slot.sender = client, None
            if slot in self._left:
                self._left.remove(slot)

    def free(self, name: SlotName) -> None:
        with self._lock:
            slot = self._all[name.number]
            if slot.generation == name.generation and slot not in self._free:
                self._free_now(slot)

    def _free_now(self, slot: _Slot) -> None:
        slot.owner = slot.sender = None
        slot.generation += 1  # a client that still has the slot's name cannot take it
        self._free.append(slot)

    def forget(self, client: Any) -> None:
        """Releases the slots of a client that has ended."""
        with self._lock:
            for slot in self._all:
                if slot.owner is client:
                    self._free_now(slot)
                elif slot.sender is client:
                    self._left.append(slot)
            while len(self._left) > _MOST_LEFT_BEHIND:
                self._free_now(self._left.pop(0))

    def offset(self, number: int) -> int:
        return self._all[number].offset

    def counts(self) -> dict[str, int]:
        with self._lock:
            return {"slots": len(self._all), "slots_free": len(self._free)}


class Service:
    """Answers one client, on its own thread."""

    def __init__(self, cache: Cache, slots: Slots, connection: socket.socket) -> None:
        self._cache, self._slots, self._connection = cache, slots, connection
        self._size = 1 << 16  # of its largest batch so far

    def run(self) -> None:
        try:
            while True:
                self._answer_one()
        except OSError:
            pass  # the client has ended
        finally:
            self._slots.forget(self)
            self._connection.close()

    def _answer_one(self) -> None:
        what, size, number, freed = REQUEST.unpack(read(self._connection, REQUEST.size))
        payload = read(self._connection, size)
        for _ in range(freed):
            self._slots.free(SlotName(*SLOT.unpack(read(self._connection, SLOT.size))))
        descriptors: list[int] = []
        try:
            status, answer = 0, self._answer(what, payload, number)
            if what == b"open":
                descriptors = [self._slots.descriptor]
        except Exception as error:
            status = error.status if isinstance(error, Error) and error.status < 0 else lib.HKT_ERROR_INTERNAL
            answer = (f"{error}" + (f" ({error.__cause__!r})" if error.__cause__ else "")).encode()
        head = ANSWER.pack(status, len(answer))
        if descriptors:
            socket.send_fds(self._connection, [head + answer], descriptors)
        else:
            self._connection.sendall(head + answer)

    def _answer(self, what: bytes, payload: bytearray, number: int) -> bytes:
        cache = self._cache
        if what in (b"copy", b"send"):
            return self._copy(np.frombuffer(payload, np.uint64), what == b"send")
        if what == b"take":
            self._slots.take(SlotName(*SLOT.unpack(payload)), self)
        elif what == b"ordr":
            cache.set_order(np.frombuffer(payload, np.uint64), number)
        elif what == b"pref":
            cache.prefetch(np.frombuffer(payload, np.uint64))
        elif what == b"stat":
            return json.dumps({**cache.stats(), **self._slots.counts()}).encode()
        elif what in (b"size", b"curs"):
            return (len(cache) if what == b"size" else cache.cursor).to_bytes(8, "little")
        elif what == b"open":
            return self._slots.offset(number).to_bytes(8, "little")
        else:
            raise invalid(f"unknown question {what!r}")
        return b""

    def _copy(self, keys: np.ndarray[Any, Any], is_sent: bool) -> bytes:
        while True:
            slot = self._slots.lend(self._size, self)
            try:
                offsets = self._cache._copy(keys, ffi.cast("char*", slot.memory.address), slot.size)
            except BaseException:
                self._slots.free(slot.name())
                raise
            if int(offsets[-1]) <= slot.size:
                break
            self._slots.free(slot.name())
            self._size = int(offsets[-1])
        if is_sent:
            self._slots.send(slot, self)
        return SLOT.pack(*slot.name()) + offsets.tobytes()


def _listen(cache: Cache, listener: socket.socket) -> None:
    slots = Slots()
    while True:
        try:
            _accept(cache, slots, listener)
        except (OSError, RuntimeError):  # no descriptor or thread is available until some clients have ended
            time.sleep(0.1)


def _accept(cache: Cache, slots: Slots, listener: socket.socket) -> None:
    connection, _ = listener.accept()  # closed with the last reference to it
    if is_own(connection):
        threading.Thread(target=Service(cache, slots, connection).run, daemon=True).start()


def main() -> None:
    """stdin: the options, pickled; one more byte, or the end of file, ends this process. stdout: "ready", or a status
    and a text."""
    # Output of the user's modules and functions goes to stderr: the pipe is not read after the answer.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program; this process ends with the program
    size = struct.unpack("<I", sys.stdin.buffer.read(4))[0]
    try:
        cache = Cache(**pickle.loads(sys.stdin.buffer.read(size)))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address_of(sys.argv[1]))
        listener.listen(4096)  # the longest queue that the kernel allows
    except Exception as error:
        print(getattr(error, "status", 0) or lib.HKT_ERROR_INTERNAL, json.dumps(str(error)), file=answer, flush=True)
        return
    threading.Thread(target=_listen, args=(cache, listener), daemon=True).start()
    print("ready", file=answer, flush=True)
    answer.close()
    sys.stdin.buffer.read(1)
    try:
        cache.destroy(_PATIENCE_S)
    except Error:
        pass  # a call still waits for its source; no writes are lost
    os._exit(0)  # threads may still wait for their clients
