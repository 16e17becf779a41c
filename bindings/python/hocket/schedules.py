"""Schedules without a job: checked and explained, as the tool schedc does."""
from __future__ import annotations

import os
from typing import Any, Callable

from hocket import options as opts
from hocket._native import ffi, lib
from hocket.errors import error_of, invalid, out_of_range, raise_last, text_of
from hocket.state import NULL


def check(file: str | os.PathLike[str], topology: str | None = None) -> str:
    """Checks every definition of a schedule file, on groups and topologies of many shapes, or on one topology. Returns
    a line for each definition. If one is wrong, raises ScheduleError, whose text is the compiler's diagnostic, with
    line, caret and counter-example."""
    if not os.path.exists(file):
        raise error_of(lib.HKT_ERROR_NOT_FOUND, f"there is no file {os.path.abspath(file)!r}; check() takes a schedule file, such as "
                       "'my.sched'. For a schedule of the library, see explain()")
    return _text(lambda place: lib.hkt_schedule_check(opts.text(file), _or_null(topology), place))


def explain(schedule: str | None = None, topology: str = "2", rank: int = 0, collective: str | None = None) -> str:
    """Returns in words what a rank does with a schedule: its steps, with their source lines. schedule: a name ("ring"),
    one with arguments, or a file; None: the one chosen for 1 MiB. topology: "2x3" (innermost first), "4". collective:
    None: the first that the schedule exists for."""
    number = -1
    if collective is not None:
        found = ffi.new("hkt_collective*")
        if lib.hkt_collective_from_name(opts.text(collective), found) < 0:
            raise invalid(text_of(lib.hkt_last_error()))
        number = ffi.cast("int*", found)[0]
    return _text(lambda place: lib.hkt_schedule_explain(_or_null(schedule), number, opts.text(topology), rank, place))


def _or_null(value: str | None) -> Any:
    return NULL if value is None else opts.text(value)


def _text(function: Callable[[Any], int]) -> str:
    place = ffi.new("char**")
    try:
        status = function(ffi.cast("const char**", place))
    except OverflowError as error:
        raise out_of_range(function, (), error) from None
    if status < 0:
        raise_last(status)
    return text_of(place[0])
