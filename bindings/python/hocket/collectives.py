"""The collectives of a communicator, on arrays."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Union

import numpy as np

from hocket._native import ffi, lib
from hocket.arrays import NAMES, empty_like, resolve, shape_of
from hocket.errors import invalid, out_of_range, raise_pending
from hocket.interruptible import interruptible
from hocket.operators import Operator, op_number
from hocket.options import counts_array, milliseconds
from hocket.request import Request
from hocket.state import CALLS, FLIGHT, NULL, State, get_ident

_new = ffi.new
_wait = lib.hkt_py_wait
_CLOSED = lib.HKT_ERROR_ABORTED
_NUMBERS = (int, float, np.generic)
Op = Union[str, Operator]


def run(state: State, function: Callable[..., int], arguments: tuple[Any, ...], kept: Any, result: Any, wait: bool,
        plan: Any = None) -> Any:
    """Starts function(*arguments, communicator, request), or function(plan, *arguments, request). Waits, and returns the
    result; or returns a Request.

    A blocking call also waits for a request, so that Ctrl-C can end it (hkt_comm_options.is_interrupted). The handle is
    read when this call is counted, and not before: otherwise another thread might destroy it in between."""
    inside = state.inside
    flight = _new(FLIGHT)
    thread = get_ident()
    inside.append(thread)
    try:
        handle = state.handle
        try:
            if plan is None:
                status = function(*arguments, handle, flight)
            elif handle:
                status = function(plan, *arguments, flight)
            else:
                status = _CLOSED
        except OverflowError as error:
            raise out_of_range(function, arguments if plan is None else (plan, *arguments), error) from None
        if status:
            state.fail(status)
        if not wait:
            return Request(state, flight, kept, result)
        status = _wait(flight, -1)
        if status:
            raise_pending()
            state.fail(status)
        return result() if callable(result) else result
    except BaseException:
        if flight[0]:  # interrupted: the operation goes on, and has the arrays
            state.orphans.append((flight, kept))
        raise
    finally:
        inside.remove(thread)
        if state.orphans:
            state.reap()


CALLS.add(run.__code__)


def _as_array(number: Any) -> tuple[Any, Callable[[], Any]]:
    """Returns an array of a single number, and a function that returns what it is later, as the same kind of number."""
    made = np.array(number)
    if isinstance(number, np.generic):
        return made, lambda: made[()]
    return made, lambda: made.item()


class Collectives:
    """The collectives of a Communicator.

    array: this rank's input: a NumPy array, a PyTorch tensor, or anything with DLPack or the buffer protocol, without
    gaps. out: receives the result; None: a new array, or `array` itself if the result has the same size.
    op: "sum", "product", "max", "min", "average", "band", "bor", "bxor", or an Operator. wait: False returns a Request
    at once; its wait() returns the result. Arrays belong to Hocket until the operation has ended. all_reduce, reduce and
    broadcast of a number return a number, all_gather and gather of numbers return an array.
    """

    _state: State
    _rank: int
    _size: int

    def all_reduce(self, array: Any, out: Any = None, op: Op = "sum", wait: bool = True) -> Any:
        """Combines the arrays of all ranks, element by element; all ranks get the result. Works in place without
        out."""
        if out is None:
            result: Any = array
            if isinstance(array, _NUMBERS):
                array, result = _as_array(array)
            send, count, number, kept = resolve(array, "array", True)
            return run(self._state, lib.hkt_all_reduce,
                       (send, send, count, number, op_number(op)), kept, result, wait)
        send, count, number, kept = resolve(array, "array", False)
        recv, also = self._into(out, count, number)
        return run(self._state, lib.hkt_all_reduce, (send, recv, count, number, op_number(op)),
                   (kept, also), out, wait)

    def reduce_scatter(self, array: Any, out: Any = None, op: Op = "sum", wait: bool = True) -> Any:
        """Combines the arrays of all ranks; rank r gets the r-th of `size` equal pieces. A new array has 1/size of the
        first dimension."""
        send, count, number, kept = resolve(array, "array", False)
        piece = self._divided(count, "array")
        if out is None:
            out = empty_like(array, self._piece_shape(array), number)
        recv, also = self._into(out, piece, number)
        return run(self._state, lib.hkt_reduce_scatter, (send, recv, piece, number, op_number(op)),
                   (kept, also), out, wait)

    def all_gather(self, array: Any, out: Any = None, wait: bool = True) -> Any:
        """Gathers the arrays of all ranks, in the order of the ranks, on all ranks. A new array has the shape (size,
        *array.shape)."""
        if isinstance(array, _NUMBERS):
            array = np.array(array)
        send, count, number, kept = resolve(array, "array", False)
        if out is None:
            out = empty_like(array, (self._size, *shape_of(array)), number)
        recv, also = self._into(out, count * self._size, number)
        return run(self._state, lib.hkt_all_gather, (send, recv, count, number), (kept, also), out,
                   wait)

    def broadcast(self, array: Any, root: int = 0, wait: bool = True) -> Any:
        """Copies the root's array to all ranks, in place. See broadcast_object for other objects."""
        result: Any = array
        if isinstance(array, _NUMBERS):
            array, result = _as_array(array)
        memory, count, number, kept = resolve(array, "array", self._rank != root)
        return run(self._state, lib.hkt_broadcast, (memory, memory, count, number, root), kept, result,
                   wait)

    def reduce(self, array: Any, out: Any = None, op: Op = "sum", root: int = 0, wait: bool = True) -> Any:
        """Does what all_reduce does, but only the root gets the result, in place without out; the others get None."""
        is_root = self._rank == root
        in_place: Any = array
        if isinstance(array, _NUMBERS):
            array, in_place = _as_array(array)
        send, count, number, kept = resolve(array, "array", is_root and out is None)
        recv, also, result = NULL, None, None
        if is_root:
            recv, also, result = (send, None, in_place) if out is None else (*self._into(out, count, number), out)
        return run(self._state, lib.hkt_reduce, (send, recv, count, number, op_number(op), root),
                   (kept, also), result, wait)

    def gather(self, array: Any, out: Any = None, root: int = 0, wait: bool = True) -> Any:
        """Does what all_gather does, but only the root gets the arrays; the others get None."""
        if isinstance(array, _NUMBERS):
            array = np.array(array)
        send, count, number, kept = resolve(array, "array", False)
        recv, also, result = NULL, None, None
        if self._rank == root:
            result = empty_like(array, (self._size, *shape_of(array)), number) if out is None else out
            recv, also = self._into(result, count * self._size, number)
        return run(self._state, lib.hkt_gather, (send, recv, count, number, root), (kept, also),
                   result, wait)

    def scatter(self, array: Any = None, out: Any = None, root: int = 0, wait: bool = True) -> Any:
        """Sends rank r the r-th of `size` equal pieces of the root's array. The other ranks pass out; on the root,
        without out, a new array has 1/size of the first dimension."""
        if self._rank != root:
            if out is None:
                raise invalid(f"scatter: rank {self._rank} is not the root, so it must say where its piece goes: out=")
            recv, piece, number, also = resolve(out, "out", True)
            return run(self._state, lib.hkt_scatter, (NULL, recv, piece, number, root), also, out, wait)
        send, count, number, kept = resolve(array, "array", False)
        piece = self._divided(count, "array")
        if out is None:
            out = empty_like(array, self._piece_shape(array), number)
        recv, also = self._into(out, piece, number)
        return run(self._state, lib.hkt_scatter, (send, recv, piece, number, root), (kept, also), out,
                   wait)

    def all_to_all(self, array: Any, out: Any = None, wait: bool = True) -> Any:
        """Sends rank r the r-th of `size` equal pieces of each rank's array, in the order of the ranks."""
        send, count, number, kept = resolve(array, "array", False)
        piece = self._divided(count, "array")
        if out is None:
            out = empty_like(array, shape_of(array), number)
        recv, also = self._into(out, count, number)
        return run(self._state, lib.hkt_all_to_all, (send, recv, piece, number), (kept, also), out,
                   wait)

    # ---- Pieces of different sizes -------------------------------------------------------------------------------

    def all_gather_v(self, array: Any, counts: Sequence[int], out: Any = None, wait: bool = True) -> Any:
        """Does what all_gather does, where rank r contributes counts[r] elements; all ranks pass the same counts. A new
        array has one dimension, with all pieces one after another."""
        send, number, kept, numbers, many = self._piece(array, counts)
        if out is None:
            out = empty_like(array, (sum(many),), number)
        recv, also = self._into(out, sum(many), number)
        return run(self._state, lib.hkt_all_gather_v, (send, recv, numbers, number), (kept, also), out,
                   wait)

    def gather_v(self, array: Any, counts: Sequence[int], out: Any = None, root: int = 0, wait: bool = True) -> Any:
        """Does what gather does, where rank r contributes counts[r] elements."""
        send, number, kept, numbers, many = self._piece(array, counts)
        recv, also, result = NULL, None, None
        if self._rank == root:
            result = empty_like(array, (sum(many),), number) if out is None else out
            recv, also = self._into(result, sum(many), number)
        return run(self._state, lib.hkt_gather_v, (send, recv, numbers, number, root), (kept, also),
                   result, wait)

    def reduce_scatter_v(self, array: Any, counts: Sequence[int], out: Any = None, op: Op = "sum",
                         wait: bool = True) -> Any:
        """Does what reduce_scatter does, where rank r gets counts[r] elements. A new array has one dimension."""
        send, number, kept, numbers, many = self._whole(array, counts)
        if out is None:
            out = empty_like(array, (many[self._rank],), number)
        recv, also = self._into(out, many[self._rank], number)
        return run(self._state, lib.hkt_reduce_scatter_v,
                   (send, recv, numbers, number, op_number(op)), (kept, also), out, wait)

    def scatter_v(self, array: Any, counts: Sequence[int], out: Any = None, root: int = 0, wait: bool = True) -> Any:
        """Does what scatter does, where rank r gets counts[r] elements."""
        if self._rank != root:
            if out is None:
                raise invalid(f"scatter_v: rank {self._rank} is not the root, so it must say where its piece goes: out=")
            numbers, many = counts_array(counts, self._size, "counts")
            recv, have, number, also = resolve(out, "out", True)
            self._same_count("out", have, many[self._rank])
            return run(self._state, lib.hkt_scatter_v, (NULL, recv, numbers, number, root), also, out,
                       wait)
        send, number, kept, numbers, many = self._whole(array, counts)
        if out is None:
            out = empty_like(array, (many[self._rank],), number)
        recv, also = self._into(out, many[self._rank], number)
        return run(self._state, lib.hkt_scatter_v, (send, recv, numbers, number, root), (kept, also),
                   out, wait)

    def all_to_all_v(self, array: Any, send_counts: Sequence[int], recv_counts: Sequence[int], out: Any = None, *,
                     send_displs: Sequence[int] | None = None, recv_displs: Sequence[int] | None = None,
                     wait: bool = True) -> Any:
        """Does what all_to_all does: send_counts[q] elements go to rank q, recv_counts[q] come from it. displs: where
        in the arrays the pieces begin, in elements; None: one after another."""
        send, have, number, kept = resolve(array, "array", False)
        sends, send_end = self._placed(send_counts, send_displs, "send")
        recvs, recv_end = self._placed(recv_counts, recv_displs, "recv")
        if have < send_end:
            raise invalid(f"array has {have} elements, and the pieces that are sent reach to {send_end}")
        if out is None:
            out = empty_like(array, (recv_end,), number)
        recv, room, other, also = resolve(out, "out", True)
        self._same_type(other, number)
        if room < recv_end:
            raise invalid(f"out has {room} elements, and the pieces that are received reach to {recv_end}")
        return run(self._state, lib.hkt_all_to_all_v, (send, *sends, recv, *recvs, number),
                   (kept, also), out, wait)

    # ---- Barriers ------------------------------------------------------------------------------------------------

    def barrier(self, wait: bool = True) -> Any:
        """Returns when every rank has entered it."""
        return run(self._state, lib.hkt_barrier_start, (), None, None, wait)

    def barrier_monitored(self, timeout: float) -> None:
        """A barrier that reports missing ranks: after timeout seconds it raises TimeoutError, which names all ranks
        that have not entered it. The communicator stays usable."""
        within = milliseconds(timeout)
        interruptible(lambda: self._state.call(lib.hkt_barrier_monitored, within))

    # ---- Checks --------------------------------------------------------------------------------------------------

    def _into(self, out: Any, count: int, number: int) -> tuple[Any, Any]:
        """Returns the address of the memory to receive into, and an object that keeps it alive."""
        recv, have, other, kept = resolve(out, "out", True)
        self._same_type(other, number)
        self._same_count("out", have, count)
        return recv, kept

    @staticmethod
    def _same_type(out: int, array: int) -> None:
        if out != array:
            raise invalid(f"out has elements of {NAMES[out]}, and array of {NAMES[array]}")

    @staticmethod
    def _same_count(name: str, have: int, need: int) -> None:
        if have != need:
            raise invalid(f"{name} has {have} elements, and must have {need}")

    def _divided(self, count: int, name: str) -> int:
        if count % self._size:
            raise invalid(f"{name} has {count} elements, which cannot be divided evenly by the {self._size} ranks")
        return count // self._size

    def _piece_shape(self, array: Any) -> tuple[int, ...]:
        shape = shape_of(array)
        if not shape or shape[0] % self._size:
            raise invalid(f"array has the shape {shape}; its first dimension must be a multiple of the {self._size} ranks, "
                          "or pass out=")
        return (shape[0] // self._size, *shape[1:])

    def _piece(self, array: Any, counts: Sequence[int]) -> tuple[Any, int, Any, Any, list[int]]:
        numbers, many = counts_array(counts, self._size, "counts")
        send, have, number, kept = resolve(array, "array", False)
        self._same_count("array", have, many[self._rank])
        return send, number, kept, numbers, many

    def _whole(self, array: Any, counts: Sequence[int]) -> tuple[Any, int, Any, Any, list[int]]:
        numbers, many = counts_array(counts, self._size, "counts")
        send, have, number, kept = resolve(array, "array", False)
        self._same_count("array", have, sum(many))
        return send, number, kept, numbers, many

    def _placed(self, counts: Sequence[int], displs: Sequence[int] | None, name: str) -> tuple[tuple[Any, Any], int]:
        """Returns the two arrays for C, and where the last piece ends."""
        numbers, many = counts_array(counts, self._size, f"{name}_counts")
        if displs is None:
            return (numbers, NULL), sum(many)
        places, begins = counts_array(displs, self._size, f"{name}_displs")
        return (numbers, places), max((begin + count for begin, count in zip(begins, many) if count), default=0)
