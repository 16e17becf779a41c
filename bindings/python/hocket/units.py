"""Samples that lie in larger units, which can be read only as a whole: compressed shards, row groups (docs/cache.md)."""
from __future__ import annotations

import hashlib
import os
import re
import threading
import time
import warnings
import weakref
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, Callable

from hocket._native import lib
from hocket.cache import Cache, size_of
from hocket.errors import Error, error_of, invalid


def in_words(size: float) -> str:
    """Returns a number of bytes for people: "1.5 GiB"."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"


class _Unit:
    """value: None while it is being loaded. users: those that have it lent, load it, or wait for it. is_lost: loading failed."""

    def __init__(self, size: int) -> None:
        self.value: Any = None
        self.size, self.users, self.is_lost = size, 1, False


_all_kept: weakref.WeakSet[Kept] = weakref.WeakSet()


def _begin_in_child() -> None:
    """A forked child has none of the threads that load units, nor those that hold locks. It has one thread yet."""
    for kept in _all_kept:
        kept._begin()


os.register_at_fork(after_in_child=_begin_in_child)


class Kept:
    """The units that were used last, of at most `most` bytes with those that are being loaded. Thread-safe.

    load(number) returns a unit and its bytes in memory. It is called once for all threads that want the unit at once.
    name(number): of a unit, for errors. patience_s: how long a thread waits for others' units."""

    def __init__(self, most: int, load: Callable[[int], tuple[Any, int]], name: Callable[[int], str], patience_s: float) -> None:
        self._most, self._load, self._name, self._patience_s = most, load, name, patience_s
        self._begin()
        _all_kept.add(self)

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._units: OrderedDict[int, _Unit] = OrderedDict()  # the one that was used last is the last
        self._bytes = 0
        self.loads = self.most_bytes = 0

    @contextmanager
    def lend(self, number: int, expected: int) -> Iterator[Any]:
        """Lends a unit. expected: its bytes, as far as they are known before it is loaded."""
        unit = self._take(number, expected)
        try:
            yield unit.value
        finally:
            with self._changed:
                unit.users -= 1
                self._changed.notify_all()

    def _take(self, number: int, expected: int) -> _Unit:
        until = time.monotonic() + self._patience_s
        with self._changed:
            while True:
                unit = self._units.get(number)
                if unit is not None and self._await(unit, until):
                    self._units.move_to_end(number)
                    return unit
                if unit is None and self._make_room(expected):
                    break
                if unit is None:
                    self._changed.wait(max(until - time.monotonic(), 0))
                if time.monotonic() >= until:
                    why = "others were loaded, and have all of kept; give a larger kept=, or" if unit is None else "another thread is loading it; give"
                    raise error_of(lib.HKT_ERROR_TIMEOUT, f"{self._name(number)} was not there within {self._patience_s:g} s: {why} a longer timeout=")
            unit = self._units[number] = _Unit(expected)
            self._count(expected)
        return self._fill(number, unit)

    def _await(self, unit: _Unit, until: float) -> bool:
        """Returns True once the unit is there, which is then this thread's, too: nobody drops a unit that threads wait for."""
        unit.users += 1
        is_there = False
        try:
            while unit.value is None and not unit.is_lost and time.monotonic() < until:
                self._changed.wait(max(until - time.monotonic(), 0))
            is_there = unit.value is not None
        finally:  # also where a signal's handler raises
            if not is_there:
                unit.users -= 1
        return is_there

    def _fill(self, number: int, unit: _Unit) -> _Unit:
        try:
            value, size = self._load(number)
            self.check(size, self._name(number))
        except BaseException:
            with self._changed:
                unit.is_lost = True
                self._drop(number)
                self._changed.notify_all()
            raise
        with self._changed:
            self._count(size - unit.size)
            unit.value, unit.size = value, size
            self.loads += 1
            self._make_room(0)
            self._changed.notify_all()
        return unit

    def check(self, size: int, name: str) -> None:
        """Refuses a unit that can never be kept."""
        if size > self._most:
            raise error_of(lib.HKT_ERROR_LIMIT, f"{name} takes {in_words(size)} in memory, and at most {in_words(self._most)} are kept: give a "
                           "larger kept=, or write smaller ones")

    def _make_room(self, size: int) -> bool:
        """Drops the units that nobody has used for longest, until there is room for so many bytes more."""
        for number in [number for number, unit in self._units.items() if unit.users == 0]:
            if self._bytes + size <= self._most:
                break
            self._drop(number)
        return self._bytes + size <= self._most

    def _drop(self, number: int) -> None:
        self._bytes -= self._units.pop(number).size

    def _count(self, size: int) -> None:
        self._bytes += size
        self.most_bytes = max(self.most_bytes, self._bytes)


class Stored:
    """The files of a local folder, or the objects below a URL, which a cache of its own reads, with its retries and checks.
    Thread-safe."""

    def __init__(self, source: str | os.PathLike[str], source_index: str | None, memory: int, timeout: float) -> None:
        self.source, self.memory, self._index = os.fspath(source), memory, ""
        self.cache: Cache | None = None
        if re.match("[a-z0-9]+://", self.source):
            # The units are kept elsewhere. What the environment says of caches is for that of the samples.
            self.cache = Cache(self.source, source_index=source_index, memory=memory, folder="", servers="", timeout=timeout)
            if source_index is not None and os.path.isfile(source_index):
                with open(source_index, "rb") as file:
                    self._index = hashlib.sha256(file.read()).hexdigest()
        elif source_index is not None:
            raise invalid(f"source_index is for URLs, and the source {self.source} is a folder, whose files are read as they are")
        else:
            self.source = _lasting(self.source)  # the program may go to another folder

    def path(self, name: str) -> str:
        """Returns the path of a file of the folder."""
        if os.path.isabs(name) or ".." in name.split("/") or "\0" in name:
            raise invalid(f"{name!r:.80} is not below {self.source}: give names of files in it")
        return os.path.join(self.source, name)

    def version(self, name: str) -> str:
        """Returns what shows that a file has changed. Reads of objects notice that by themselves; for them it is the digest of
        the index, so that what was kept of other objects is not taken for theirs, and "" without an index in a file."""
        if self.cache is not None:
            return self._index
        try:
            facts = os.stat(self.path(name))
        except OSError as error:
            raise _of_file(error, self.path(name)) from None
        return f"{facts.st_size} {facts.st_mtime_ns}"

    def read(self, name: str, version: str) -> Any:
        """Returns the bytes of a file that has this version, or of an object."""
        if self.cache is not None:
            return self.cache[self.cache.find(name)]
        try:
            with open(self.path(name), "rb") as file:
                data = file.read()
        except OSError as error:
            raise _of_file(error, self.path(name)) from None
        self.check_version(name, version)
        return data

    def check_version(self, name: str, version: str) -> None:
        if self.version(name) != version:
            raise error_of(lib.HKT_ERROR_IO, f"{self.path(name)} has changed since the source was opened: open it again")


def _lasting(path: Any) -> Any:
    """Returns the path from the root, so that a process that was started in another folder has the same files. URLs stay."""
    return path if path is None or re.match("[a-z0-9]+://", os.fspath(path)) else os.path.abspath(path)


def _of_file(error: OSError, path: str) -> Error:
    status = lib.HKT_ERROR_NOT_FOUND if isinstance(error, FileNotFoundError) else lib.HKT_ERROR_IO
    return error_of(status, f"the file {path} cannot be read: {error.strerror}; check the name, and that it may be read")


class Units:
    """A source of samples that lie in units. A Cache or SharedCache takes it in the place of a folder: called with a key it
    returns the sample's bytes. Thread-safe. Pickled for another process, it is opened anew there.

    Those who derive from it define _load and _sample, and call _open at the end of __init__.

    dataset: says what the samples are, so that those on the disk are not taken for others."""

    dataset: str
    _what: str  # the units in words: "shard"

    def __init__(self, options: dict[str, Any]) -> None:
        """options: the arguments of the class that derives from this one."""
        self._options = {**options, **{name: _lasting(options[name]) for name in ("source", "source_index") if name in options}}

    def __reduce__(self) -> Any:
        return _made, (type(self), self._options)

    def _open(self, names: Sequence[str], counts: Sequence[int], sizes: Sequence[int], kept: int | str, timeout: float) -> None:
        """names: of the units. counts: of their samples. sizes: in memory, as far as they are known."""
        self._names, self._sizes = names, sizes
        self._ends = list(accumulate(counts))
        most, total = size_of(kept, "kept"), sum(sizes)
        self._kept = Kept(most, self._load, names.__getitem__, timeout)
        for name, size in zip(names, sizes):
            self._kept.check(size, name)
        if total > most:
            warnings.warn(f"the {len(names)} {self._what}s take {in_words(total)} in memory, and {in_words(most)} of them are kept: in a "
                          f"shuffled order, a first epoch loads a whole {self._what}, of {in_words(total / len(names))}, for {1 - most / total:.0%} of "
                          "its samples. Give a larger kept=, and the cache a folder=, which later epochs read from", stacklevel=3)

    def _load(self, number: int) -> tuple[Any, int]:
        """Returns a unit, and its bytes in memory."""
        raise NotImplementedError

    def _sample(self, unit: Any, place: int) -> Any:
        """Returns the bytes of a sample of a unit, which do not lie in the unit's memory."""
        raise NotImplementedError

    def __len__(self) -> int:
        """Returns the number of samples."""
        return self._ends[-1] if self._ends else 0

    def __call__(self, key: int) -> Any:
        if not 0 <= key < len(self):
            raise error_of(lib.HKT_ERROR_NOT_FOUND, f"there is no sample {key}: the source has {len(self)}, numbered from 0")
        number = bisect_right(self._ends, key)
        with self._kept.lend(number, self._sizes[number]) as unit:
            return self._sample(unit, key - (self._ends[number - 1] if number else 0))

    def find(self, name: str) -> int:
        """Returns the key of a sample, given its unit's name and its number there: "shard.00000.mds/7"."""
        unit, _, place = name.rpartition("/")
        if unit in self._names and place.isascii() and place.isdigit():
            number = self._names.index(unit)
            begin = self._ends[number - 1] if number else 0
            if begin + int(place) < self._ends[number]:
                return begin + int(place)
        raise error_of(lib.HKT_ERROR_NOT_FOUND, f"there is no sample {name!r:.80}; names are those of {self._what}s, with a number: "
                       f"{self._names[0]}/0")

    def stats(self) -> dict[str, int]:
        """Returns how many units were loaded, and the most bytes that units have taken so far."""
        return {"loads": self._kept.loads, "most_bytes": self._kept.most_bytes}


def _made(kind: Callable[..., Units], options: dict[str, Any]) -> Units:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whoever made it first has been warned
        return kind(**options)
