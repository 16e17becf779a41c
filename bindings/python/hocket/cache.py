"""The data cache: samples by number, from slow storage once, and from memory ever after (docs/cache.md)."""
from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections.abc import Mapping
from typing import Any, Callable, Dict, Generator, Iterable, Iterator, List, NoReturn, Optional, Tuple, Union

import numpy as np

from hocket import options as opts
from hocket._native import ffi, lib
from hocket.errors import Error, error_of, invalid, keep, raise_last, raise_pending, text_of
from hocket.state import CALLS, FLIGHT, NULL, destroy_later, forget, get_ident, in_callback, is_busy, is_in_call, note_open

Keys = Union[Iterable[int], "np.ndarray[Any, Any]"]
_ASKED_EVERY_MS = 50  # how often a wait looks for signals


def size_of(text: Union[int, str], name: str) -> int:
    """8 << 30, or "8GiB"."""
    if isinstance(text, int):
        return text
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?B)?\s*", text, re.IGNORECASE)
    if match is None:
        raise invalid(f"{name} is {text!r}; it is a number of bytes, or a text such as '8GiB'")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def keys_array(keys: Keys) -> "np.ndarray[Any, Any]":
    """Keys as the C ABI takes them: uint64, one after another."""
    if not isinstance(keys, np.ndarray):
        keys = np.fromiter(keys, np.int64) if not isinstance(keys, (list, tuple, range)) else np.array(keys)
    if keys.size == 0:
        return np.empty(0, np.uint64)
    if keys.ndim != 1 or keys.dtype.kind not in "iu":
        raise invalid(f"keys have the shape {keys.shape} and the type {keys.dtype}; they are whole numbers, in one dimension")
    if keys.dtype.kind == "i" and keys.min() < 0:
        raise KeyError(int(keys.min()))
    return np.ascontiguousarray(keys, np.uint64)


def bytes_of(out: Any) -> "np.ndarray[Any, Any]":
    """The memory of what a batch is copied into."""
    try:
        array = np.asarray(out) if isinstance(out, np.ndarray) else memoryview(out)
    except TypeError:
        raise invalid(f"out is of type {type(out).__name__}, which has no memory by the buffer protocol: pass a NumPy array "
                      "(of a tensor on the host: tensor.numpy())") from None
    is_array = isinstance(array, np.ndarray)
    if not (array.flags.c_contiguous if is_array else array.c_contiguous):
        raise invalid(f"out has gaps or another order in memory (shape {array.shape}, strides {array.strides}): pass an array "
                      "without, such as numpy.empty(shape, dtype), and copy from that")
    if not array.flags.writeable if is_array else array.readonly:
        raise invalid("out is read-only, and samples are to be copied into it: pass an array that can be written to")
    if array.dtype.hasobject if is_array else "O" in array.format:
        raise invalid("out has elements that are objects of Python: pass an array of numbers")
    return array.reshape(-1).view(np.uint8) if is_array else np.frombuffer(array, np.uint8)


class _Loan:
    """A sample that is lent by the cache: read-only memory, given back with the last array that lies in it."""

    __slots__ = ("__array_interface__", "_cache", "sample", "__weakref__")

    def __init__(self, cache: "Cache", sample: Any) -> None:
        """The sample is not its own before it is in cache._loans."""
        self._cache, self.sample = cache, sample
        self.__array_interface__ = {"version": 3, "shape": (sample.bytes,), "typestr": "|u1",
                                    "data": (int(ffi.cast("uintptr_t", sample.data)), True)}

    def __del__(self) -> None:
        try:
            self._cache._give_back(id(self))
        except Exception:  # at the end of the interpreter, parts of it may be gone
            pass


class Cache(Mapping):  # type: ignore[type-arg]
    """Samples by key, as a mapping: cache[key] is a read-only array of bytes in the cache's memory, and not a copy.

    source: a folder, whose files are the samples, numbered in the order of their paths; or a packed file. Or read(key),
    which returns the bytes of a sample, with `dataset`, a name and version of them. decode(key, encoded) makes of them
    what memory holds (bytes, or an array), with `decoder`, its configuration in words. Both are called from several
    threads, and their exceptions are the cause of what a get raises. memory and disk: sizes, such as "8GiB".
    The other arguments are the fields of hkt_cache_options in hocket.h. All methods are thread-safe.

    A forked child must not use its parent's cache; hocket.SharedCache is for that.
    """

    def __init__(self, source: Union[str, "os.PathLike[str]", None] = None, *,
                 folder: Union[str, "os.PathLike[str]", None] = None, memory: Union[int, str, None] = None,
                 disk: Union[int, str, None] = None, source_index: Optional[str] = None,
                 read: Optional[Callable[[int], Any]] = None, dataset: Optional[str] = None,
                 decode: Optional[Callable[[int, memoryview], Any]] = None, decoder: Optional[str] = None,
                 comm: Any = None, servers: Optional[str] = None, secret: Optional[str] = None,
                 io: Optional[str] = None, store: Optional[str] = None, depth: Optional[int] = None,
                 workers: Optional[int] = None, timeout: Optional[float] = None) -> None:
        self._handle = self._owned = NULL
        self.process = os.getpid()
        self._inside: List[int] = []
        self._loans: Dict[int, Any] = {}  # hkt_sample*, by the id of what holds it
        self._flying: Dict[int, Any] = {}  # batches that are on their way: their flights (state.FLIGHT), samples, and how many
        self._functions = _Functions(read, decode)
        self._comm = None if comm is None else comm._state
        self._user = ffi.new_handle(self._functions)
        options = ffi.new("hkt_cache_options*")
        lib.init_hkt_cache_options(options)
        kept = opts.fill(options, {
            "folder": folder, "memory_bytes": None if memory is None else size_of(memory, "memory"),
            "disk_bytes": None if disk is None else size_of(disk, "disk"), "source": source,
            "source_index": source_index, "dataset": dataset, "decoder": decoder, "servers": servers, "secret": secret,
            "comm": None if comm is None else comm._state.handle,
            "io": None if io is None else opts.constant("HKT_CACHE_IO_", io),
            "store": None if store is None else opts.constant("HKT_CACHE_STORE_", store), "depth": depth,
            "workers": workers, "timeout_ms": None if timeout is None else opts.milliseconds(timeout)})
        if read is not None:
            options.read, options.read_context = lib.hkt_py_cache_read, self._user
        if decode is not None:
            options.decode, options.decode_context = lib.hkt_py_cache_decode, self._user
        made = ffi.new("hkt_cache**")
        status = lib.hkt_cache_open(options, made)
        del kept
        if status < 0:
            raise_last(status)
        self._handle = self._owned = made[0]
        if self._comm is not None:
            self._comm.blocks += 1  # the communicator is destroyed after this
        note_open(self)

    # ---- Samples -------------------------------------------------------------------------------------------------

    def __getitem__(self, key: int) -> "np.ndarray[Any, Any]":
        """The sample: a read-only array of uint8, whose memory is lent as long as the array is alive."""
        return self.get_batch((key,))[0]

    def get_batch(self, keys: Keys, wait: bool = True) -> Any:
        """The samples with these keys, lent, as a list of read-only arrays. wait=False: a Batch, which comes while the
        program computes; its wait() gives the list."""
        batch = Batch(self, keys_array(keys))
        return batch.wait() if wait else batch

    def batches(self, keys: Keys, batch_size: int) -> Iterator[List["np.ndarray[Any, Any]"]]:
        """The samples with these keys, lent, `batch_size` at a time: the next batch comes while one is used. Memory must
        hold two of them."""
        if batch_size < 1:
            raise invalid(f"batch_size is {batch_size}; it is 1 or more")
        wanted = keys_array(keys)
        following: Optional[Batch] = None
        for begin in range(0, len(wanted), batch_size):
            batch = following or Batch(self, wanted[begin:begin + batch_size])
            rest = wanted[begin + batch_size:begin + 2 * batch_size]
            following = Batch(self, rest) if len(rest) else None
            yield batch.wait()

    def copy_batch(self, keys: Keys, out: Any = None) -> Any:
        """The samples with these keys, copied into one array, in C. Samples of one size become rows: an array of uint8 of
        the shape (samples, bytes). out: an array to copy into, of any type, as many bytes as all samples together, and
        no gaps; it is returned. Samples of different sizes are an error: see copy_ragged."""
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

    def copy_ragged(self, keys: Keys) -> Tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]:
        """The samples with these keys, copied one after another into one array of uint8; and where each begins, with
        the end of the last: sample i is data[offsets[i]:offsets[i + 1]]."""
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

    def _copy(self, keys: "np.ndarray[Any, Any]", room: Any, size: int) -> "np.ndarray[Any, Any]":
        offsets = np.empty(len(keys) + 1, np.uint64)
        self._call(lib.hkt_cache_copy_batch, ffi.from_buffer("uint64_t[]", keys), len(keys), room, size,
                   ffi.from_buffer("uint64_t[]", offsets))
        return offsets

    @staticmethod
    def _rows(keys: "np.ndarray[Any, Any]", offsets: "np.ndarray[Any, Any]") -> int:
        """The size of each sample, if it is the same for all."""
        if len(keys) == 0:
            return 0
        sizes = np.diff(offsets)
        if (sizes != sizes[0]).any():
            other = int(np.argmax(sizes != sizes[0]))
            raise invalid(f"sample {keys[0]} has {sizes[0]} bytes, and sample {keys[other]} has {sizes[other]}: samples of "
                          "different sizes are no rows of one array; use copy_ragged()")
        return int(sizes[0])

    def put(self, key: int, data: Any) -> None:
        """Adds a sample. A key is written once: the same bytes again are no error, other bytes are (MismatchError)."""
        memory = ffi.from_buffer(data)
        self._call(lib.hkt_cache_put, key, memory, len(memory))

    def prefetch(self, keys: Keys) -> None:
        """Starts to load samples that will be needed soon, in this order; returns at once."""
        wanted = keys_array(keys)
        self._call(lib.hkt_cache_prefetch, ffi.from_buffer("uint64_t[]", wanted), len(wanted))

    def find(self, name: str) -> int:
        """The key of a file of the source folder, by its path relative to the folder."""
        key = ffi.new("uint64_t*")
        self._call(lib.hkt_cache_find, opts.text(name), key)
        return key[0]

    # ---- Order ---------------------------------------------------------------------------------------------------

    def set_order(self, keys: Keys, cursor: int = 0) -> None:
        """The order in which samples will be got from now on, an epoch or several; the first `cursor` of them have been
        got. The cache loads ahead, and evicts what is needed furthest in the future. No keys: no order."""
        wanted = keys_array(keys)
        self._call(lib.hkt_cache_set_order, ffi.from_buffer("uint64_t[]", wanted), len(wanted), cursor)

    @property
    def cursor(self) -> int:
        """The position in the order just behind the furthest sample that was asked for."""
        return lib.hkt_cache_cursor(self._handle)

    # ---- As a mapping ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of samples of the source; 0 if it is not known (read, or no source)."""
        return lib.hkt_cache_count(self._handle)

    def __iter__(self) -> Iterator[int]:
        """The keys of the source."""
        return iter(range(len(self)))

    def __contains__(self, key: object) -> bool:
        if isinstance(key, (int, np.integer)) and 0 <= key < len(self):
            return True
        try:
            self[key]  # type: ignore[index]
            return True
        except (KeyError, LookupError, Error, TypeError):
            return False

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    # ---- The rest --------------------------------------------------------------------------------------------------

    def stats(self) -> Dict[str, Union[int, str]]:
        """Counts since the cache was opened, and its state now: the fields of hkt_cache_stats."""
        return self._answer("hkt_cache_stats", lib.hkt_cache_get_stats)

    def verify(self, progress: Optional[Callable[[int, int], Any]] = None) -> Dict[str, Union[int, str]]:
        """Reads and checks every record on the disk. progress(done, all) may return True to stop."""
        user = ffi.new_handle(progress)
        function = NULL if progress is None else lib.hkt_py_verify_progress
        return self._answer("hkt_cache_verification",
                            lambda handle, place, size: lib.hkt_cache_verify(handle, function, user, place, size))

    def _answer(self, struct: str, function: Callable[..., int]) -> Dict[str, Union[int, str]]:
        place = ffi.new(f"{struct}*")
        self._call(function, place, ffi.sizeof(struct))
        raise_pending()
        values = {name: getattr(place, name) for name, _ in ffi.typeof(struct).fields}
        return {name: value if isinstance(value, int) else text_of(value) for name, value in values.items()}

    def flush(self) -> None:
        """What was written before survives a loss of power once this returns."""
        self._call(lib.hkt_cache_flush)

    def serve(self, host: str, port: int = 0, secret: Optional[str] = None) -> int:
        """Answers other processes' caches (servers=) at host:port until the cache is closed. Returns the port."""
        bound = ffi.new("int32_t*")
        self._call(lib.hkt_cache_serve, opts.text(host), port, NULL if secret is None else opts.text(secret),
                   bound)
        return bound[0]

    # ---- Calls, and the end ------------------------------------------------------------------------------------------

    def _call(self, function: Callable[..., int], *arguments: Any) -> None:
        """function(handle, *arguments). The handle is looked at when the call is counted: see State.call."""
        self._inside.append(get_ident())
        try:
            status = function(self._handle, *arguments) if self._handle else lib.HKT_ERROR_ABORTED
            if status < 0:
                self._fail(status)
        finally:
            self._inside.remove(get_ident())

    def _fail(self, status: int) -> NoReturn:
        if not self._handle:
            raise error_of(lib.HKT_ERROR_ABORTED, "the cache is closed")
        error = error_of(status, text_of(lib.hkt_last_error()))
        raise error from self._functions.take_cause(status)

    def _give_back(self, number: int) -> None:
        sample = self._loans.pop(number, None)
        if sample is None:
            return
        if self._owned and self.is_own():
            lib.hkt_cache_release(self._owned, sample, 1)
        self._free_if_unused()

    def _free_if_unused(self) -> None:
        if not self._handle and not self._loans and not self._flying:
            self.destroy()

    def is_own(self) -> bool:
        return self.process == os.getpid()

    def close(self) -> None:
        """Makes durable what was written, and frees the cache: if arrays on loan are still alive, once the last of them
        is gone. A second close() does nothing."""
        if self._handle and is_in_call():
            raise invalid("a cache cannot be closed by a handler of a signal beside a call, nor by a function that a call "
                          "runs: close it later")
        self._handle = NULL
        if self.is_own():
            self._free_if_unused()
        else:
            self.destroy()

    def destroy(self, patience_s: float = 120) -> None:
        """What close() does in the end. At the end of the interpreter samples on loan are given back before."""
        self._handle = NULL
        if not self._owned:
            return
        is_beside = is_in_call()
        if is_busy() or (is_beside and get_ident() in self._inside):  # it would wait for itself
            destroy_later(self)
            return
        if not is_beside:  # what an exception of a handler has left, where Python cannot be on its guard
            while get_ident() in self._inside:
                self._inside.remove(get_ident())
        until = time.monotonic() + patience_s
        while self._inside and self.is_own():  # they have deadlines of their own
            if time.monotonic() > until:
                raise error_of(lib.HKT_ERROR_TIMEOUT, f"{len(self._inside)} calls of the cache have not ended in {patience_s:g} s")
            time.sleep(0.001)
        owned, self._owned = self._owned, NULL
        if not owned:
            return  # another thread was first
        forget(self)
        if self.is_own():
            for flight, samples, count in self._flying.values():
                if lib.hkt_py_wait(flight, -1) == lib.HKT_SUCCESS:
                    lib.hkt_cache_release(owned, samples, count)
            for sample in self._loans.values():
                lib.hkt_cache_release(owned, sample, 1)
        self._flying.clear()
        self._loans.clear()
        lib.hkt_cache_close(owned)
        if self._comm is not None:
            self._comm.block_freed()

    def __enter__(self) -> "Cache":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            if self._owned:
                self.destroy()
        except Exception:  # at the end of the interpreter, parts of it may be gone
            pass

    def __repr__(self) -> str:
        return "<hocket.Cache: closed>" if not self._handle else f"<hocket.Cache: {len(self)} samples>"


class Batch:
    """Samples that are on their way. Made by Cache.get_batch(keys, wait=False). `await batch` is wait()."""

    def __init__(self, cache: Cache, keys: "np.ndarray[Any, Any]") -> None:
        self._cache, self._count = cache, len(keys)
        self._samples = ffi.new("hkt_sample[]", max(1, len(keys)))
        self._loans: Optional[List[_Loan]] = None  # while they become arrays
        self._result: Optional[List[Any]] = None
        self._error: Optional[BaseException] = None
        self._lock = threading.Lock()
        self._flight = flight = ffi.new(FLIGHT)
        cache._flying[id(self)] = flight, self._samples, len(keys)
        try:
            cache._call(lib.hkt_cache_get_batch, ffi.from_buffer("uint64_t[]", keys), len(keys), self._samples,
                        flight)
        except BaseException:
            if not flight[0]:
                cache._flying.pop(id(self), None)
            raise

    def wait(self, timeout: Optional[float] = None) -> List["np.ndarray[Any, Any]"]:
        """The samples, once all are there. timeout: seconds; then InProgressError, and the batch goes on."""
        if timeout is not None and timeout < 0:
            raise invalid(f"timeout is {timeout}; it is a number of seconds, 0 or more")
        until = None if timeout is None else time.monotonic() + timeout
        if not self._lock.acquire(timeout=-1 if timeout is None else min(timeout, threading.TIMEOUT_MAX)):
            raise _in_progress(timeout)  # another thread waits for it
        try:
            while not self._is_over():
                left = _ASKED_EVERY_MS if until is None else max(0, 1000 * (until - time.monotonic()))
                if not self._step(round(min(_ASKED_EVERY_MS, left))) and until is not None and time.monotonic() >= until:
                    raise _in_progress(timeout)
        finally:
            self._lock.release()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def done(self) -> bool:
        """Whether the batch is there, or has failed. Never waits."""
        if not self._lock.acquire(False):
            return False  # another thread waits for it
        try:
            return self._is_over() or self._step(0)
        finally:
            self._lock.release()

    def _is_over(self) -> bool:
        if self._result is None and self._error is None and id(self) not in self._cache._flying and not self._is_lent():
            self._error = error_of(lib.HKT_ERROR_ABORTED, "the cache was closed before the batch had come")
        return self._result is not None or self._error is not None

    def _is_lent(self) -> bool:
        return self._loans is not None and all(id(loan) in self._cache._loans for loan in self._loans)

    def _step(self, milliseconds: int) -> bool:
        cache = self._cache
        cache._inside.append(get_ident())
        try:
            status = lib.hkt_py_wait(self._flight, milliseconds)
        finally:
            cache._inside.remove(get_ident())
        if status == lib.HKT_IN_PROGRESS:
            return False
        try:
            if status < 0:
                cache._fail(status)
        except Error as error:
            cache._flying.pop(id(self), None)
            self._error = error
            cache._free_if_unused()
            return True
        # An exception, such as Ctrl-C, may come anywhere here: nothing is lost, and the next step goes on where this ended.
        if self._loans is None:
            self._loans = [_Loan(cache, ffi.new("hkt_sample*", self._samples[i])) for i in range(self._count)]
        if not self._is_lent():
            if id(self) not in cache._flying:
                return self._is_over()
            cache._loans.update([(id(loan), loan.sample) for loan in self._loans])  # until now the samples were the batch's
        cache._flying.pop(id(self), None)
        self._result = [np.asarray(loan) if loan.sample.bytes else np.empty(0, np.uint8) for loan in self._loans]
        self._loans = None
        cache._free_if_unused()
        return True

    def __await__(self) -> Generator[Any, None, List["np.ndarray[Any, Any]"]]:
        if not self._is_over():
            yield from asyncio.get_running_loop().run_in_executor(None, self.wait)
        return self.wait()

    def destroy(self) -> None:
        """Its samples come into memory of this object: so wait for them, within the cache's deadline."""
        try:
            self._lock = threading.Lock()  # an exception, such as Ctrl-C, may have left the other one locked
            self.wait()
        except BaseException:
            pass

    def __del__(self) -> None:
        try:
            if not self._is_over() and self._cache.is_own():
                if is_busy():  # read or decode, which this batch may wait for
                    destroy_later(self)
                else:
                    self.destroy()
        except BaseException:
            pass


def _in_progress(timeout: Optional[float]) -> Error:
    return error_of(lib.HKT_IN_PROGRESS, f"the batch has not come within {timeout:g} s; it goes on")


CALLS.update((Cache._call.__code__, Batch._step.__code__))


# ---- Functions that the cache calls, in threads of its own ------------------------------------------------------------

def _into_value(value: Any, data: Any) -> int:
    found = ffi.from_buffer(np.ascontiguousarray(data) if isinstance(data, np.ndarray) else data)
    room = lib.hkt_cache_value_reserve(value, len(found))
    if not room:
        return lib.HKT_ERROR_LIMIT
    ffi.memmove(room, found, len(found))
    return lib.HKT_SUCCESS


def _status_of(error: BaseException) -> int:
    if isinstance(error, Error) and error.status < 0:
        return error.status
    if isinstance(error, LookupError):
        return lib.HKT_ERROR_NOT_FOUND
    return lib.HKT_ERROR_OUT_OF_MEMORY if isinstance(error, MemoryError) else lib.HKT_ERROR_IO


class _Functions:
    """read and decode of a cache, and what they have raised last. (It does not refer to the cache, which then is freed as
    soon as it is dropped.)"""

    def __init__(self, read: Any, decode: Any) -> None:
        self.read, self.decode = read, decode
        self._raised: List[BaseException] = []

    def run(self, value: Any, function: Callable[..., Any], *arguments: Any) -> int:
        with in_callback:
            try:
                return _into_value(value, function(*arguments))
            except BaseException as error:  # a C function cannot be left by it
                self._raised = [*self._raised[-15:], error]
                return _status_of(error)

    def take_cause(self, status: int) -> Optional[BaseException]:
        """Why a get has failed with the status, if it is for what one of the functions has raised."""
        for error in reversed(self._raised):
            if _status_of(error) == status:
                self._raised.remove(error)
                return error
        return None


@ffi.def_extern(name="hkt_py_cache_read", error=lib.HKT_ERROR_IO)
def _read(context: Any, key: int, value: Any) -> int:
    functions = ffi.from_handle(context)
    return functions.run(value, functions.read, key)


@ffi.def_extern(name="hkt_py_cache_decode", error=lib.HKT_ERROR_IO)
def _decode(context: Any, key: int, encoded: Any, size: int, value: Any) -> int:
    functions = ffi.from_handle(context)
    return functions.run(value, functions.decode, key, memoryview(ffi.buffer(encoded, size)).toreadonly())


@ffi.def_extern(name="hkt_py_verify_progress", error=1, onerror=keep)
def _progress(context: Any, done: int, all_: int) -> int:
    return 1 if ffi.from_handle(context)(done, all_) else 0
