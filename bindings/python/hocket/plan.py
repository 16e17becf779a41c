"""Plans: a collective with its schedule, verified and compiled, to be started many times."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable, Union

from hocket._native import ffi, lib
from hocket.arrays import NAMES, Resolved, resolve, type_of
from hocket.collectives import run
from hocket.errors import invalid, text_of
from hocket.operators import Operator, op_number
from hocket.options import constant, counts_array, fill, text
from hocket.state import NULL, State

Parameters = Union[Sequence[float], Mapping[str, float]]

# Collectives whose count is that of one piece, either this rank's input or its output.
_PIECE_IS_GIVEN = {lib.HKT_ALL_GATHER, lib.HKT_GATHER}
_PIECE_IS_TAKEN = {lib.HKT_REDUCE_SCATTER, lib.HKT_SCATTER}


class Plan:
    """A plan made by Communicator.plan(). Making it is local and never waits. It can be started with any count, several
    times at once, unless its schedule keeps states: then its starts take turns, and have one count."""

    def __init__(self, state: State, size: int, collective: str, dtype: Any, op: str | Operator,
                 schedule: str | None, root: int, executor: str | None,
                 tensor_counts: Sequence[int] | None) -> None:
        self._handle = None
        number = ffi.new("hkt_collective*")
        self._is_own = lib.hkt_collective_from_name(text(collective), number) < 0
        self._collective, self._type, self._size = ffi.cast("int*", number)[0], type_of(dtype), size
        options = ffi.new("hkt_plan_options*")
        lib.init_hkt_plan_options(options)
        kept = fill(options, {"schedule": schedule, "root": root, "collective": collective if self._is_own else None,
                              "executor": None if executor is None else constant("HKT_EXECUTOR_", executor)})
        self._counts: list[int] = []
        if tensor_counts is not None:
            counts, many = counts_array(tensor_counts, len(tensor_counts), "tensor_counts")
            options.tensor_counts, options.tensors = counts, len(many)
            self._counts = list(many)
            kept.append(counts)
        made = ffi.new("hkt_plan**")
        state.call(lib.hkt_plan_create, self._collective, self._type, op_number(op), options, made)
        self._state, self._handle = state, made[0]
        # Of a collective that a file defines: how many times the count the two buffers have.
        self._extents = self._extents_of_one() if self._is_own else (1, 1)

    def _extents_of_one(self) -> tuple[int, int]:
        send, recv = ffi.new("size_t*"), ffi.new("size_t*")
        self._call(lib.hkt_plan_extents, 1, send, recv)
        return send[0], recv[0]

    # ---- Starting it ---------------------------------------------------------------------------------------------

    def start(self, array: Any, out: Any = None, *, parameters: Parameters = (), buffers: Sequence[Any] = (),
              wait: bool = True) -> Any:
        """Starts the plan on this rank's array; out None: in place. Returns out, or a Request.

        parameters: values for the schedule's parameters without a default, by name ({"density": 0.1}) or in its order.
        buffers: the further buffers that the schedule names after `with`. If only the root has an input or an output,
        the other ranks pass None for it. array, out and each of buffers may be lists of arrays, if the plan has
        tensor_counts.
        """
        self._check_open()
        if isinstance(array, (list, tuple)) or isinstance(out, (list, tuple)):
            return self._start_lists(array, out, parameters, buffers, wait)
        send, recv, count, kept = self._memory(array, out)
        options = NULL
        if parameters or buffers:
            resolved = [self._buffer(buffer, f"buffers[{i}]", self._elements(count)) for i, buffer in enumerate(buffers)]
            options, more = self._start_options(parameters, [one[0] for one in resolved])
            kept = (kept, more, resolved)
        return run(self._state, lib.hkt_plan_start_with, (send, recv, count, options), (kept, self),
                   array if out is None else out, wait, self._handle)

    def _memory(self, array: Any, out: Any) -> tuple[Any, Any, int, Any]:
        given = None if array is None else self._array(array, "array", out is None)
        taken = None if out is None else self._array(out, "out", True)
        if self._is_own:
            return self._own_memory(given, taken, out is None)
        if out is None and self._collective not in _PIECE_IS_GIVEN | _PIECE_IS_TAKEN:
            taken = given  # in place
        count = self._count(None if given is None else given[1], None if taken is None else taken[1])
        send, recv = (NULL if one is None else one[0] for one in (given, taken))
        return send, recv, count, (given, taken)

    def _own_memory(self, given: Resolved | None, taken: Resolved | None, in_place: bool) -> tuple[Any, Any, int, Any]:
        """As _memory(), for a collective that a file defines: its contract says how large the buffers are."""
        sent, received = self._extents
        if in_place and received:
            if sent != received and sent:
                raise invalid(f"out is None, but the collective takes {sent} times the count and gives {received} times: "
                              "in place, out is the larger array, and array the view of this rank's piece in it")
            taken = given
        counts = {self._own_count(one[1], times, name)
                  for one, times, name in ((given, sent, "array"), (taken, received, "out")) if one is not None and times}
        if not sent and not received:  # the contract says nothing of this rank: the arrays only tell the count
            counts = {one[1] for one in (given, taken) if one is not None}
        if len(counts) != 1:
            raise invalid("array and out are of different counts" if counts else
                          "array and out are None: start() cannot tell the count; pass an array of that length")
        send, recv = (NULL if one is None else one[0] for one in (given, taken))
        return send, recv, counts.pop(), (given, taken)

    @staticmethod
    def _own_count(elements: int, times: int, name: str) -> int:
        if elements % times:
            raise invalid(f"{name} has {elements} elements, which cannot be divided evenly into {times} pieces")
        return elements // times

    def _array(self, array: Any, name: str, writable: bool) -> Resolved:
        resolved = resolve(array, name, writable)
        if resolved[2] != self._type:
            raise invalid(f"{name} has elements of {NAMES[resolved[2]]}, and the plan is for {NAMES[self._type]}")
        return resolved

    def _buffer(self, array: Any, name: str, elements: int) -> Resolved:
        """Returns the buffer as hkt_start_options.buffers requires it."""
        resolved = resolve(array, name, False)
        wanted = lib.HKT_FLOAT64 if self._type == lib.HKT_FLOAT64 else lib.HKT_FLOAT32
        if resolved[2] != wanted or resolved[1] != elements:
            raise invalid(f"{name} has {resolved[1]} elements of {NAMES[resolved[2]]}; it must have {elements} of {NAMES[wanted]}")
        return resolved

    def _elements(self, count: int) -> int:
        """Returns the elements of the whole x for the count of a start."""
        is_by_piece = self._collective in _PIECE_IS_GIVEN | _PIECE_IS_TAKEN or self._collective == lib.HKT_ALL_TO_ALL
        return count * self._size if is_by_piece else count

    def _count(self, given: int | None, taken: int | None) -> int:
        """Returns the count as the collective's function takes it; see hkt_plan_start. None: this rank has no input, or
        no output."""
        if self._collective in _PIECE_IS_GIVEN:
            return self._piece(given, taken, "array")
        if self._collective in _PIECE_IS_TAKEN:
            return self._piece(taken, given, "out")
        if given is not None and taken is not None and given != taken:
            raise invalid(f"array has {given} elements, and out {taken}: they must have as many")
        count = given if given is not None else taken
        if count is None:
            raise invalid("array and out are None: every rank gives one of them, so that it knows the count")
        if self._collective != lib.HKT_ALL_TO_ALL:
            return count
        if count % self._size:
            raise invalid(f"array has {count} elements, which cannot be divided evenly by the {self._size} ranks")
        return count // self._size

    def _piece(self, piece: int | None, whole: int | None, name: str) -> int:
        if piece is None:
            raise invalid(f"{name} is None: every rank has a piece in it")
        if whole is not None and whole != piece * self._size:
            raise invalid(f"one rank's piece has {piece} elements, and all pieces have {whole}, not {self._size} times as many")
        return piece

    def _in_order(self, parameters: Parameters) -> list[float]:
        if not isinstance(parameters, Mapping):
            return [float(parameter) for parameter in parameters]
        names = self.parameters
        if set(parameters) != set(names):
            raise invalid(f"this plan's starts take the parameters {names}, not {sorted(parameters)}")
        return [float(parameters[name]) for name in names]

    def _start_options(self, parameters: Parameters, addresses: list[Any], tensors: int = 0) -> tuple[Any, Any]:
        options = ffi.new("hkt_start_options*")
        lib.init_hkt_start_options(options)
        numbers = ffi.new("double[]", self._in_order(parameters))
        buffers = ffi.new("void*[]", addresses)
        options.parameters, options.parameter_count = numbers, len(parameters)
        options.buffers, options.buffer_count = buffers, len(addresses)
        options.tensors = tensors
        return options, (options, numbers, buffers)

    def _start_lists(self, arrays: Any, outs: Any, parameters: Parameters, buffers: Sequence[Any], wait: bool) -> Any:
        """Starts the plan on tensors that do not lie one after another. Each buffer is a list, too."""
        kept: list[Any] = []

        def pointers(those: Any, name: str, resolved_as: Callable[[Any, str, int], Resolved]) -> Any:
            if those is None:
                return NULL
            if not isinstance(those, (list, tuple)) or len(those) != len(self._counts):
                raise invalid(f"{name} must be a list of {len(self._counts)} arrays: as many as tensor_counts of the plan has")
            resolved = [resolved_as(one, f"{name}[{i}]", count) for i, (one, count) in enumerate(zip(those, self._counts))]
            made = ffi.new("void*[]", [ffi.cast("void*", one[0]) for one in resolved])
            kept.append((made, resolved))
            return made

        def tensor(one: Any, name: str, count: int, writable: bool) -> Resolved:
            resolved = self._array(one, name, writable)
            if resolved[1] != count:
                raise invalid(f"{name} has {resolved[1]} elements; tensor_counts of the plan says {count}")
            return resolved

        send = pointers(arrays, "array", lambda one, name, count: tensor(one, name, count, outs is None))
        recv = send if outs is None else pointers(outs, "out", lambda one, name, count: tensor(one, name, count, True))
        lists = [pointers(buffer, f"buffers[{i}]", self._buffer) for i, buffer in enumerate(buffers)]
        options, more = self._start_options(parameters, [ffi.cast("void*", one) for one in lists], len(self._counts))
        return run(self._state, lib.hkt_plan_start_with, (send, recv, sum(self._counts), options),
                   (kept, more, self), arrays if outs is None else outs, wait, self._handle)

    # ---- Description ---------------------------------------------------------------------------------------------

    def explain(self) -> str:
        """Returns the plan in words: this rank's steps, with their source lines."""
        self._check_open()
        return text_of(lib.hkt_plan_explain(self._handle))

    def schedule(self, count: int) -> str:
        """Returns the schedule that a start with this count uses; below it the reason, if Hocket chose it."""
        self._check_open()
        return text_of(lib.hkt_plan_schedule(self._handle, count))

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters that each start takes, in their order."""
        self._check_open()
        names: list[str] = []
        while name := lib.hkt_plan_parameter(self._handle, len(names)):
            names.append(text_of(name))
        return names

    # ---- States ----------------------------------------------------------------------------------------------------

    def save_state(self) -> bytes:
        """Returns this rank's state: the data that its schedule keeps from one start to the next."""
        self._check_open()
        size = ffi.new("size_t*")
        self._call(lib.hkt_plan_save_state, NULL, 0, size)
        memory = ffi.new("char[]", size[0])
        self._call(lib.hkt_plan_save_state, memory, size[0], size)
        return bytes(ffi.buffer(memory, size[0]))

    def load_state(self, saved: Sequence[bytes]) -> None:
        """Replaces the state by the states that all ranks of a job have saved; their number and order may differ."""
        self._check_open()
        given: object = saved  # whatever its type says
        if isinstance(given, (bytes, bytearray, memoryview)):
            raise TypeError("load_state takes a list of what save_state returned on every rank that has saved: gather them "
                            "(all_gather_object), or load what every rank has saved")
        held = [ffi.from_buffer(one) for one in saved]
        self._call(lib.hkt_plan_load_state, ffi.new("void*[]", held), [len(one) for one in saved], len(held))

    def reset_state(self) -> None:
        """Sets the state to zeros; the next start may have another count. Call it on all ranks."""
        self._check_open()
        self._call(lib.hkt_plan_reset_state)

    # ---- Its end ---------------------------------------------------------------------------------------------------

    def _call(self, function: Callable[..., int], *arguments: Any) -> None:
        self._state.call(function, *arguments, of=self._handle)

    def _check_open(self) -> None:
        if self._handle is None or not self._state.handle:
            raise invalid("the plan is closed, or its communicator is")

    def close(self) -> None:
        """Frees the plan. Its starts must have ended. It is also freed when it is dropped."""
        handle, self._handle = self._handle, None
        if handle is not None and self._state.owned:
            lib.hkt_plan_destroy(handle)

    def __enter__(self) -> Plan:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # at the end of the interpreter, parts of it may be gone
            pass
