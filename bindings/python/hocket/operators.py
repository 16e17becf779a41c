"""Operators of reductions: by name, with a factor, and from schedule files."""
from __future__ import annotations

from typing import Any

from hocket._native import ffi, lib
from hocket.arrays import type_of
from hocket.errors import invalid, text_of
from hocket.options import text
from hocket.state import State


def _ops_by_name() -> dict[str, int]:
    return {text_of(name): number for number in sorted(ffi.typeof("hkt_op").elements) if (name := lib.hkt_op_name(number))}


OPS: dict[str, int] = _ops_by_name()  # "sum": 0, as the library names them


class Operator:
    """An operator made for a communicator, to be passed as op=. Made by Communicator.premul_sum() and operator().
    Operations started with it continue after it is dropped."""

    def __init__(self, state: State, number: int, description: str) -> None:
        self._state, self.number, self._description = state, number, description

    @classmethod
    def premul_sum(cls, state: State, factor: float) -> Operator:
        made = ffi.new("hkt_op*")
        state.call(lambda comm: lib.hkt_premul_sum_create(factor, comm, made))
        return cls(state, _number_of(made), f"premul_sum, factor {factor}")

    @classmethod
    def defined(cls, state: State, name: str) -> Operator:
        made = ffi.new("hkt_op*")
        state.call(lib.hkt_op_create, text(name), made)
        return cls(state, _number_of(made), name)

    def __del__(self) -> None:
        try:
            if self._state.handle:
                lib.hkt_op_destroy(self.number, self._state.handle)
        except AttributeError:  # it was never made
            pass

    def __repr__(self) -> str:
        return f"<hocket.Operator: {self._description}>"


def _number_of(made: Any) -> int:
    return ffi.cast("int*", made)[0]


def op_number(op: str | Operator) -> int:
    number = OPS.get(op) if type(op) is str else getattr(op, "number", None)
    if number is None:
        there_are = f"there are {', '.join(map(repr, OPS))}, and what premul_sum() and operator() make"
        hint = f"; do you mean {op.lower()!r}?" if isinstance(op, str) and op.lower() in OPS else ""
        raise invalid(f"op is {op!r}; {there_are}{hint}")
    return number


def supports(op: str | Operator, dtype: Any) -> bool:
    """Returns True if the operator exists for elements of the type."""
    return bool(lib.hkt_op_supports(op_number(op), type_of(dtype)))
