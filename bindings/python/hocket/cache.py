"""The data cache: samples by number, from slow storage once, and from memory ever after (docs/cache.md)."""
from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, NoReturn

import numpy as np

from hocket import options as opts
from hocket._native import ffi, lib
from hocket.batch import ASKED_EVERY_MS, Batch, Flight, Keys, bytes_of, keys_array
from hocket.errors import error_of, invalid, out_of_range, raise_last, raise_pending, text_of
from hocket.interruptible import interruptible
from hocket.loading import Functions
from hocket.state import CALLS, FLIGHT, NULL, destroy_later, forget, get_ident, is_busy, is_in_call, note_open


def size_of(text: int | str, name: str) -> int:
    """Returns a number of bytes, for 8 << 30 or "8GiB"."""
    if isinstance(text, int):
        return text
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?B)?\s*", text, re.IGNORECASE)
    if match is None:
        raise invalid(f"{name} is {text!r}; it is a number of bytes, or a text such as '8GiB'")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def _functions_of(source: Any, read: Any, source_index: Any, dataset: str | None) -> tuple[Callable[[int], Any], str]:
    """Returns read and dataset for a source of Python's."""
    if read is not None or source_index is not None or not hasattr(source, "dataset"):
        raise invalid(f"the source {source!r:.80} is no source beside read= or source_index=, and needs an attribute dataset: pass a folder, "
                      "a URL, or hocket.shards.CompressedMds; a function of yours is read=")
    return source, source.dataset if dataset is None else f"{dataset}, {source.dataset}"


class Cache(Mapping[int, "np.ndarray[Any, Any]"]):
    """Samples by key, as a mapping: cache[key] is a read-only array of bytes in the cache's memory, and not a copy.

    source: a folder, whose files are the samples, numbered in the order of their paths; or a packed file; or a source of
    Python's, such as hocket.shards.CompressedMds. Or read(key), which returns the bytes of a sample, with `dataset`, a name
    and version of them; its len(), if it has one, is the number of samples. decode(key, encoded) makes of them
    what memory holds (bytes, or an array), with `decoder`, its configuration in words. Both are called from several
    threads, and their exceptions are the cause of what a get raises. memory and disk: sizes, such as "8GiB".
    The other arguments are the fields of hkt_cache_options in hocket.h. All methods are thread-safe.

    A forked child must not use its parent's cache; hocket.SharedCache is for that.
    """

    def __init__(self, source: str | os.PathLike[str] | Callable[[int], Any] | None = None, *,
                 folder: str | os.PathLike[str] | None = None, memory: int | str | None = None,
                 disk: int | str | None = None, source_index: str | None = None,
                 read: Callable[[int], Any] | None = None, dataset: str | None = None,
                 decode: Callable[[int, memoryview], Any] | None = None, decoder: str | None = None,
                 comm: Any = None, servers: str | None = None, secret: str | None = None,
                 io: str | None = None, store: str | None = None, depth: int | None = None,
                 workers: int | None = None, timeout: float | None = None) -> None:
        self._handle = self._owned = NULL
        self._is_left = False  # set by the thread that began to open it
        self.process = os.getpid()
        self._inside: list[int] = []
        self._flying: dict[int, Flight] = {}  # by id: flights that were started, and are neither lent nor released
        self._left: list[Flight] = []  # those of them that no thread waits for any more
        self._loans: dict[int, tuple[Flight, int]] = {}  # by the id of the Loan: its flight, and its place in it
        if callable(source):
            read, dataset = _functions_of(source, read, source_index, dataset)
            source = None
        given = (source, folder, memory, read, comm, servers, os.environ.get("HOCKET_CACHE_FOLDER"), os.environ.get("HOCKET_CACHE_SERVERS"))
        if all(one is None for one in given):
            raise invalid("nothing says where a cache has its samples from: pass a source (a folder of files, or a packed file), read= and "
                          "dataset=, or comm= or servers=; or folder=, or memory=, for what lies there or put() brings")
        self._functions = Functions(read, decode)
        self._comm = None if comm is None else comm._state
        self._user = ffi.new_handle(self._functions)
        options = ffi.new("hkt_cache_options*")
        lib.init_hkt_cache_options(options)
        kept = opts.fill(options, {
            "folder": folder, "memory_bytes": None if memory is None else size_of(memory, "memory"),
            "disk_bytes": None if disk is None else size_of(disk, "disk"), "source": source,
            "source_index": source_index, "dataset": dataset, "decoder": decoder, "servers": servers, "secret": secret,
            "io": None if io is None else opts.constant("HKT_CACHE_IO_", io),
            "store": None if store is None else opts.constant("HKT_CACHE_STORE_", store), "depth": depth,
            "workers": workers, "timeout_ms": None if timeout is None else opts.milliseconds(timeout)})
        if read is not None:
            options.read, options.read_context = lib.hkt_py_cache_read, self._user
        if decode is not None:
            options.decode, options.decode_context = lib.hkt_py_cache_decode, self._user
        try:
            if self._comm is None:
                interruptible(lambda: self._open(options, kept))
            else:  # a call of the communicator
                interruptible(lambda: self._comm.call(lambda comm: self._open(options, kept, comm)))  # type: ignore[union-attr]
        except BaseException:  # another thread may open it later than now
            self._is_left = True
            self._free()
            raise

    def _open(self, options: Any, kept: Any, comm: Any = NULL) -> int:
        """kept: the objects that options refer to."""
        options.comm = comm
        made = ffi.new("hkt_cache**")
        status = lib.hkt_cache_open(options, made)
        del kept
        if status < 0:
            raise_last(status)
        if self._comm is not None:
            self._comm.blocks += 1  # the communicator is destroyed after this
        note_open(self)
        self._handle = self._owned = made[0]
        if self._is_left:
            self._free()
        return status

    # ---- Samples -------------------------------------------------------------------------------------------------

    def __getitem__(self, key: int) -> np.ndarray[Any, Any]:
        """Returns the sample: a read-only array of uint8 in memory that is lent as long as the array is alive."""
        return self.get_batch((key,))[0]

    def get_batch(self, keys: Keys, wait: bool = True) -> Any:
        """Returns the samples with these keys, lent, as a list of read-only arrays. wait=False: returns a Batch, which
        is loaded while the program computes; its wait() returns the list."""
        batch = Batch(self, keys_array(keys))
        return batch.wait() if wait else batch

    def batches(self, keys: Keys, batch_size: int) -> Iterator[list[np.ndarray[Any, Any]]]:
        """Yields the samples with these keys, lent, `batch_size` at a time; loads the next batch while one is used.
        Memory must hold two of them."""
        if batch_size < 1:
            raise invalid(f"batch_size is {batch_size}; it is 1 or more")
        wanted = keys_array(keys)
        following: Batch | None = None
        for begin in range(0, len(wanted), batch_size):
            batch = following or Batch(self, wanted[begin:begin + batch_size])
            rest = wanted[begin + batch_size:begin + 2 * batch_size]
            following = Batch(self, rest) if len(rest) else None
            yield batch.wait()

    def copy_batch(self, keys: Keys, out: Any = None) -> Any:
        """Returns the samples with these keys, copied into one array, in C. Samples of one size become rows: an array
        of uint8 of the shape (samples, bytes). out: an array to copy into, of any type, with as many bytes as all
        samples together and without gaps; it is returned. Samples of different sizes are an error: see copy_ragged."""
        wanted = keys_array(keys)
        if out is None:
            out, offsets = self.copy_ragged(wanted)
            rows = self._rows(wanted, offsets)
            return out.reshape(len(wanted), rows)
        room = ffi.from_buffer("char[]", bytes_of(out), True)
        offsets = self._copy(wanted, room, len(room))
        if int(offsets[-1]) != len(room):
            raise invalid(f"out has {len(room)} bytes, and the {len(wanted)} samples have {int(offsets[-1])}")
        self._rows(wanted, offsets)
        return out

    def copy_ragged(self, keys: Keys) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Returns the samples with these keys, copied one after another into one array of uint8; and their offsets,
        with the end of the last: sample i is data[offsets[i]:offsets[i + 1]]."""
        wanted = keys_array(keys)
        guess = np.empty(self._largest_copy, np.uint8)
        offsets = self._copy(wanted, ffi.from_buffer(guess), guess.nbytes)
        size = int(offsets[-1])
        if size > guess.nbytes:
            self._largest_copy = size
            guess = np.empty(size, np.uint8)
            offsets = self._copy(wanted, ffi.from_buffer(guess), size)
        return guess[:size], offsets

    _largest_copy = 1 << 16  # bytes of the largest batch so far: room for the next one

    def _copy(self, keys: np.ndarray[Any, Any], room: Any, size: int) -> np.ndarray[Any, Any]:
        """Like hkt_cache_copy_batch, but Ctrl-C ends it."""
        flight = self._start(keys)
        try:
            while not self._look(flight, ASKED_EVERY_MS):
                pass
            offsets = np.empty(len(keys) + 1, np.uint64)
            self._inside.append(get_ident())
            try:
                if not self._owned or id(flight) not in self._flying:  # destroy() was called in between
                    self._fail(lib.HKT_ERROR_ABORTED)
                lib.hkt_py_copy_samples(flight.samples, flight.count, room, size, ffi.from_buffer("uint64_t[]", offsets))
            finally:
                self._inside.remove(get_ident())
            return offsets
        finally:
            self._leave(flight)
            self._reap()

    @staticmethod
    def _rows(keys: np.ndarray[Any, Any], offsets: np.ndarray[Any, Any], advice: str = "use copy_ragged()") -> int:
        """Returns the size of each sample, if all have the same size. advice: for the error if they have not."""
        if len(keys) == 0:
            return 0
        sizes = np.diff(offsets)
        if (sizes != sizes[0]).any():
            other = int(np.argmax(sizes != sizes[0]))
            raise invalid(f"sample {keys[0]} has {sizes[0]} bytes, and sample {keys[other]} has {sizes[other]}: samples of "
                          f"different sizes are no rows of one array; {advice}")
        return int(sizes[0])

    def put(self, key: int, data: Any) -> None:
        """Adds a sample. A key is written once: the same bytes again are no error, other bytes are (MismatchError)."""
        memory = ffi.from_buffer(data)
        self._call(lib.hkt_cache_put, key, memory, len(memory))

    def prefetch(self, keys: Keys) -> None:
        """Starts to load samples that will be needed soon, in this order. Does not wait."""
        wanted = keys_array(keys)
        self._call(lib.hkt_cache_prefetch, ffi.from_buffer("uint64_t[]", wanted), len(wanted))

    def find(self, name: str) -> int:
        """Returns the key of a file of the source folder, given its path relative to the folder; or of a sample of another
        source, given its name there."""
        if self._functions.find is not None:
            return self._functions.find(name)
        key = ffi.new("uint64_t*")
        self._call(lib.hkt_cache_find, opts.text(name), key)
        return key[0]

    def name(self, key: int) -> str:
        """Returns the name of a sample of a folder or URL, by which find() finds it; of other sources, what errors call it."""
        found = ffi.new("char const**")
        self._call(lib.hkt_cache_name, key, found)
        return text_of(found[0])

    # ---- Order ---------------------------------------------------------------------------------------------------

    def set_order(self, keys: Keys, cursor: int = 0) -> None:
        """Sets the order in which samples will be got from now on, for one epoch or several; the first `cursor` of them
        have been got. The cache loads ahead, and evicts the sample that is needed furthest in the future. No keys: no
        order."""
        wanted = keys_array(keys)
        self._call(lib.hkt_cache_set_order, ffi.from_buffer("uint64_t[]", wanted), len(wanted), cursor)

    @property
    def cursor(self) -> int:
        """Returns the position in the order behind the furthest sample that was asked for."""
        return lib.hkt_cache_cursor(self._handle)

    # ---- As a mapping ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Returns the number of samples of the source; 0 if it is unknown (a read function without len(), or no source)."""
        return lib.hkt_cache_count(self._handle) or (self._functions.count if self._handle else 0)

    def __iter__(self) -> Iterator[int]:
        """Iterates over the keys of the source."""
        return iter(range(len(self)))

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, (int, np.integer)):
            return False
        if 0 <= key < len(self):
            return True
        try:
            self[int(key)]
            return True
        except (KeyError, ValueError):  # it may also have too many bits
            return False

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    # ---- The rest --------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, int | str]:
        """Returns counters since the cache was opened, and its current state: the fields of hkt_cache_stats."""
        self._reap()
        return self._answer("hkt_cache_stats", lib.hkt_cache_get_stats)

    def verify(self, progress: Callable[[int, int], Any] | None = None) -> dict[str, int | str]:
        """Reads and checks every record on the disk. progress(done, all) may return True to stop."""
        user = ffi.new_handle(progress)
        function = NULL if progress is None else lib.hkt_py_verify_progress
        return self._answer("hkt_cache_verification",
                            lambda handle, place, size: lib.hkt_cache_verify(handle, function, user, place, size))

    def _answer(self, struct: str, function: Callable[..., int]) -> dict[str, int | str]:
        place = ffi.new(f"{struct}*")
        self._call(function, place, ffi.sizeof(struct))
        raise_pending()
        values = {name: getattr(place, name) for name, _ in ffi.typeof(struct).fields}
        return {name: value if isinstance(value, int) else text_of(value) for name, value in values.items()}

    def flush(self) -> None:
        """Makes everything written before survive a loss of power."""
        self._call(lib.hkt_cache_flush)

    def serve(self, host: str, port: int = 0, secret: str | None = None) -> int:
        """Answers other processes' caches (servers=) at host:port until the cache is closed. Returns the port."""
        bound = ffi.new("int32_t*")
        self._call(lib.hkt_cache_serve, opts.text(host), port, NULL if secret is None else opts.text(secret),
                   bound)
        return bound[0]

    # ---- Calls -------------------------------------------------------------------------------------------------------

    def _call(self, function: Callable[..., int], *arguments: Any) -> None:
        """Calls function(handle, *arguments). The handle is read when the call is counted: see State.call."""
        self._inside.append(get_ident())
        try:
            try:
                status = function(self._handle, *arguments) if self._handle else lib.HKT_ERROR_ABORTED
            except OverflowError as error:
                raise out_of_range(function, (self._handle, *arguments), error) from None
            if status < 0:
                self._fail(status)
        finally:
            self._inside.remove(get_ident())

    def _fail(self, status: int, keys: Sequence[int] | np.ndarray[Any, Any] = ()) -> NoReturn:
        if not self._handle:
            raise error_of(lib.HKT_ERROR_ABORTED, "the cache is closed")
        error = error_of(status, text_of(lib.hkt_last_error()))
        raise error from self._functions.take_cause(status, keys)

    # ---- Samples on their way ----------------------------------------------------------------------------------------

    def _start(self, keys: np.ndarray[Any, Any]) -> Flight:
        """Starts to get samples. The caller waits for the flight with _look(), and gives it up with _leave()."""
        self._reap()
        flight = Flight(ffi.new(FLIGHT), ffi.new("hkt_sample[]", max(1, len(keys))), len(keys), keys)
        self._flying[id(flight)] = flight
        try:
            self._call(lib.hkt_cache_get_batch, ffi.from_buffer("uint64_t[]", keys), len(keys), flight.samples, flight.request)
        except BaseException:
            if flight.request[0]:
                self._leave(flight)
            else:
                self._flying.pop(id(flight), None)
            raise
        return flight

    def _look(self, flight: Flight, milliseconds: int) -> bool:
        """Waits this long; returns True if all its samples have arrived. Raises the error if they will not."""
        self._inside.append(get_ident())
        try:
            status = lib.hkt_py_wait(flight.request, milliseconds)
            if status < 0:
                self._fail(status, flight.keys)
        finally:
            self._inside.remove(get_ident())
        if status == lib.HKT_IN_PROGRESS:
            self._reap()  # it may need their memory
            return False
        return True

    def _leave(self, flight: Flight) -> None:
        """Gives up the flight. Its samples are written to its memory, so it is kept, without waiting, until they have
        arrived. Then they are released."""
        if id(flight) in self._flying:
            self._left.append(flight)
            if not self._handle:
                self._free()

    def _reap(self) -> None:
        """Releases samples that have arrived for flights that were given up."""
        if not self._left or not self.is_own():
            return
        self._inside.append(get_ident())
        try:
            self._reap_of(self._owned)
        finally:
            self._inside.remove(get_ident())
        self._free_if_unused()

    def _reap_of(self, owned: Any) -> None:
        for flight in list(self._left):
            if not owned or lib.hkt_py_wait(flight.request, 0) == lib.HKT_IN_PROGRESS:
                continue
            lib.hkt_py_give_back(owned, flight.samples, flight.count)
            self._flying.pop(id(flight), None)
            try:
                self._left.remove(flight)
            except ValueError:  # another thread was first
                pass

    def _give_back(self, number: int) -> None:
        """Releases the sample of the Loan with this id, which is being deleted."""
        loan = self._loans.get(number)
        if loan is None or not self._owned:  # otherwise destroy() releases it
            return
        if self.is_own():
            flight, place = loan
            lib.hkt_py_give_back(self._owned, flight.samples + place, 1)
        self._loans.pop(number, None)
        self._free_if_unused()

    def _free_if_unused(self) -> None:
        if not self._handle and not self._loans and not self._flying:
            self.destroy()

    def _reap_all(self) -> None:
        while self._left and self._owned:
            self._reap()
            time.sleep(0.001)

    # ---- The end -----------------------------------------------------------------------------------------------------

    def is_own(self) -> bool:
        return self.process == os.getpid()

    def close(self) -> None:
        """Makes writes durable, and frees the cache. If lent arrays are still alive, or batches are still being loaded,
        the cache is freed with the last of them. Waits for batches that were dropped while being loaded. A second
        close() does nothing."""
        if self._handle and is_in_call():
            raise invalid("a cache cannot be closed by a handler of a signal beside a call, nor by a function that a call "
                          "runs: close it later")
        if self.is_own():
            self._reap_all()
        self._free()

    def _free(self) -> None:
        """Does what close() does, without waiting for dropped batches: a thread frees the cache when those have
        arrived."""
        self._handle = NULL
        if not self.is_own():
            self.destroy()
            return
        self._free_if_unused()
        if self._left and self._owned:  # a daemon: at the end of the interpreter destroy() is called, and waits for a shorter time
            threading.Thread(target=self._reap_all, name="hocket-free", daemon=True).start()

    def destroy(self, patience_s: float = 120) -> None:
        """The last part of close(). At the end of the interpreter, lent samples are released first."""
        self._handle = NULL
        if not self._owned:
            return
        is_beside = is_in_call()
        if is_busy() or (is_beside and get_ident() in self._inside):  # it would wait for itself
            destroy_later(self)
            return
        if not is_beside:  # flights left by an exception in a handler, at points that Python cannot guard
            while get_ident() in self._inside:
                self._inside.remove(get_ident())
        owned, self._owned = self._owned, NULL  # from here on no thread begins to use it
        if not owned:
            return  # another thread was first
        try:
            if self.is_own():
                self._end_calls(owned, patience_s)
        except BaseException:
            self._owned = owned
            raise
        forget(self)
        self._flying.clear()
        self._loans.clear()
        lib.hkt_cache_close(owned)
        if self._comm is not None:
            self._comm.block_freed()

    def abandon(self) -> None:
        """Does nothing: the memory is freed with the process."""
        self._handle = self._owned = NULL

    def _end_calls(self, owned: Any, patience_s: float) -> None:
        """Waits for calls and pending batches, which have their own deadlines."""
        until = time.monotonic() + patience_s
        while self._inside or self._flying:
            if not self._inside:
                self._left = list(self._flying.values())
                self._reap_of(owned)
            if time.monotonic() > until:
                raise error_of(lib.HKT_ERROR_TIMEOUT, f"{len(self._inside) + len(self._flying)} calls of the cache have not ended in {patience_s:g} s")
            time.sleep(0.001)
        for flight, place in self._loans.values():
            lib.hkt_py_give_back(owned, flight.samples + place, 1)

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()
        else:  # such as Ctrl-C: the user stopped waiting for a source that does not answer, and this stops, too
            self._free()

    def __del__(self) -> None:
        try:
            if self._owned:
                self._free()
        except Exception:  # at the end of the interpreter, parts of it may be gone
            pass

    def __reduce__(self) -> NoReturn:
        raise invalid("a Cache is of the process that has opened it, and cannot be pickled for another one: use hocket.SharedCache, whose "
                      "memory several processes share")

    def __repr__(self) -> str:
        return "<hocket.Cache: closed>" if not self._handle else f"<hocket.Cache: {len(self)} samples>"


CALLS.update((Cache._call.__code__, Cache._look.__code__, Cache._copy.__code__))
