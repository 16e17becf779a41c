"""Batches of a cache: keys, samples being loaded, and arrays that lie in the cache's memory."""
from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from hocket._native import ffi, lib
from hocket.errors import Error, error_of, invalid
from hocket.state import CALLS

if TYPE_CHECKING:
    from hocket.cache import Cache

Keys = Union[Iterable[int], "np.ndarray[Any, Any]"]
ASKED_EVERY_MS = 50  # how often a wait looks for signals


def keys_array(keys: Keys) -> np.ndarray[Any, Any]:
    """Returns keys as the C ABI takes them: a contiguous array of uint64."""
    if not isinstance(keys, np.ndarray):
        keys = np.array(keys if isinstance(keys, (list, tuple, range)) else list(keys))
    if keys.size == 0:
        return np.empty(0, np.uint64)
    if keys.ndim != 1 or keys.dtype.kind not in "iu":
        raise invalid(f"keys have the shape {keys.shape} and the type {keys.dtype}; they are whole numbers, in one dimension")
    if keys.dtype.kind == "i" and keys.min() < 0:
        raise error_of(lib.HKT_ERROR_NOT_FOUND, f"there is no sample {keys.min()}: keys are 0 or more")
    return np.ascontiguousarray(keys, np.uint64)


def bytes_of(out: Any) -> np.ndarray[Any, Any]:
    """Returns the memory that a batch is copied into."""
    try:
        array: Any = np.asarray(out) if isinstance(out, np.ndarray) else memoryview(out)
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


@dataclass(eq=False)
class Flight:
    """Samples that C is getting. The cache keeps it from before the call until the samples are lent to arrays, or
    released."""

    request: Any  # state.FLIGHT
    samples: Any
    count: int
    keys: np.ndarray[Any, Any]


class Loan:
    """A sample lent by the cache: read-only memory, released with the last array that lies in it."""

    __slots__ = ("__array_interface__", "_cache", "flight", "place", "__weakref__")

    def __init__(self, cache: Cache, flight: Flight, place: int) -> None:
        """Owns the sample only once it is in cache._loans."""
        self._cache, self.flight, self.place = cache, flight, place
        sample = flight.samples[place]
        self.__array_interface__ = {"version": 3, "shape": (sample.bytes,), "typestr": "|u1",
                                    "data": (int(ffi.cast("uintptr_t", sample.data)), True)}

    def __del__(self) -> None:
        try:
            self._cache._give_back(id(self))
        except Exception:  # at the end of the interpreter, parts of it may be gone
            pass


class Batch:
    """Samples that are being loaded. Made by Cache.get_batch(keys, wait=False). `await batch` is like wait()."""

    def __init__(self, cache: Cache, keys: np.ndarray[Any, Any]) -> None:
        self._cache = cache
        self._loans: list[Loan] | None = None  # set while they become arrays
        self._result: list[Any] | None = None
        self._error: BaseException | None = None
        self._lock = threading.RLock()  # reentrant: a signal handler gets it too, and then sees that its thread is already waiting
        self._is_waiting = False
        self._flight = cache._start(keys)

    def wait(self, timeout: float | None = None) -> list[np.ndarray[Any, Any]]:
        """Waits and returns the samples. timeout: in seconds; then raises InProgressError, and the batch continues.
        Ctrl-C ends the wait, and the batch continues."""
        if timeout is not None and not timeout >= 0:
            raise invalid(f"timeout is {timeout}; it is a number of seconds, 0 or more")
        if not self._lock.acquire(timeout=-1 if timeout is None else min(timeout, threading.TIMEOUT_MAX)):
            raise _in_progress(timeout)  # another thread waits for it
        try:
            if self._is_waiting:
                raise invalid("a handler of a signal, or a finalizer, cannot wait for a batch beside a wait of the same thread; "
                              "done() can be asked")
            self._come(timeout)
        finally:
            self._lock.release()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def done(self) -> bool:
        """Returns True if the batch has arrived or failed. Never waits."""
        if not self._lock.acquire(False):
            return False  # another thread waits for it
        try:
            return self._is_over() or (not self._is_waiting and self._step(0))
        finally:
            self._lock.release()

    # ---- inside, with the lock -----------------------------------------------------------------------------------

    def _come(self, timeout: float | None) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        self._is_waiting = True
        try:
            while not self._is_over():
                left = ASKED_EVERY_MS if until is None else max(0, 1000 * (until - time.monotonic()))
                if not self._step(round(min(ASKED_EVERY_MS, left))) and until is not None and time.monotonic() >= until:
                    raise _in_progress(timeout)
        finally:
            self._is_waiting = False

    def _is_over(self) -> bool:
        if self._result is None and self._error is None and id(self._flight) not in self._cache._flying and not self._is_lent():
            self._error = error_of(lib.HKT_ERROR_ABORTED, "the cache was closed before the batch had come")
        return self._result is not None or self._error is not None

    def _is_lent(self) -> bool:
        return self._loans is not None and all(id(loan) in self._cache._loans for loan in self._loans)

    def _step(self, milliseconds: int) -> bool:
        cache, flight = self._cache, self._flight
        try:
            if not cache._look(flight, milliseconds):
                return False
        except Error as error:
            if not flight.request[1]:  # it has not failed: a signal handler raised the error, and C may still be getting samples
                raise
            cache._flying.pop(id(flight), None)
            self._error = error
            cache._free_if_unused()
            return True
        # An exception, such as Ctrl-C, may occur anywhere here: nothing is lost, and the next call continues where this
        # one ended.
        if self._loans is None:
            self._loans = [Loan(cache, flight, i) for i in range(flight.count)]
        if not self._is_lent():
            if id(flight) not in cache._flying:
                return self._is_over()
            cache._loans.update([(id(loan), (flight, loan.place)) for loan in self._loans])  # until now they were the flight's
        cache._flying.pop(id(flight), None)
        self._result = [np.asarray(loan) if flight.samples[loan.place].bytes else np.empty(0, np.uint8) for loan in self._loans]
        self._loans = None
        cache._free_if_unused()
        return True

    def __await__(self) -> Generator[Any, None, list[np.ndarray[Any, Any]]]:
        while not self._is_over() and not (yield from asyncio.get_running_loop().run_in_executor(None, self._comes_soon)):
            pass
        return self.wait()

    def _comes_soon(self) -> bool:
        """For an event loop, which joins its executor's threads when it ends, so that no thread waits for long."""
        try:
            self.wait(ASKED_EVERY_MS / 1000)
        except Error as error:  # of the batch: the next wait raises it again
            return error.status != lib.HKT_IN_PROGRESS
        return True

    def __del__(self) -> None:
        try:
            if self._is_lent():  # an exception occurred just after that
                self._cache._flying.pop(id(self._flight), None)
            else:
                self._cache._leave(self._flight)
        except Exception:  # it was never started, or the interpreter ends
            pass


def _in_progress(timeout: float | None) -> Error:
    return error_of(lib.HKT_IN_PROGRESS, f"the batch has not come within {timeout:g} s; it goes on")


CALLS.add(Batch._come.__code__)
