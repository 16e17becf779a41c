"""Exceptions: one class for each status of the C ABI, made from the library's own names.

HKT_ERROR_PEER_LOST is PeerLostError, HKT_ERROR_TIMEOUT is TimeoutError, and so on. All derive from Error. Some are
also what Python programs catch: InvalidArgumentError is a ValueError, NotFoundError a KeyError (a cache is a mapping),
OutOfMemoryError a MemoryError; TimeoutError and InProgressError are builtin TimeoutErrors.
"""
from __future__ import annotations

import builtins
import re
import threading
from collections.abc import Sequence
from typing import Any, NoReturn

from hocket._native import ffi, lib


class Error(Exception):
    """An error reported by Hocket. str(error) has the whole text: the failure, its rank and place, and possible remedies.

    status: the number of the status in hocket.h, also of the class.
    """

    status: int = 0
    __str__ = Exception.__str__  # KeyError's would be the text's repr


# Builtin exceptions that Python programs catch.
_ALSO: dict[str, type] = {
    "InvalidArgumentError": ValueError,
    "NotFoundError": KeyError,
    "OutOfMemoryError": MemoryError,
    "TimeoutError": builtins.TimeoutError,
    "InProgressError": builtins.TimeoutError,
}


def _class_name(constant: str) -> str:
    """HKT_ERROR_PEER_LOST: PeerLostError."""
    words = constant[len("HKT_"):].replace("ERROR_", "").split("_")
    return "".join(word if word == "IO" else word.capitalize() for word in words) + "Error"


def _make_classes() -> dict[int, type[Error]]:
    classes: dict[int, type[Error]] = {}
    for number, constant in ffi.typeof("hkt_status").elements.items():
        if number == lib.HKT_SUCCESS:
            continue
        name = _class_name(constant)
        bases = (Error, _ALSO[name]) if name in _ALSO else (Error,)
        kind = ffi.string(lib.hkt_error_string(number)).decode()
        classes[number] = type(name, bases, {"__doc__": f"{constant} of hocket.h: {kind}.", "__module__": __name__,
                                             "status": number})
    return classes


CLASSES: dict[int, type[Error]] = _make_classes()  # by status
globals().update({made.__name__: made for made in CLASSES.values()})
__all__ = ["Error"] + sorted(made.__name__ for made in CLASSES.values())  # noqa: PLE0605 (a list, whose classes are made above)


def __getattr__(name: str) -> Any:  # for type checkers: the classes above are made while this is imported
    raise AttributeError(f"module 'hocket.errors' has no attribute {name!r}")


def text_of(pointer: Any) -> str:
    """Returns a string of the library; "" for null."""
    return ffi.string(pointer).decode(errors="replace") if pointer else ""


# An option's name in C. Python has no such structs; its arguments have the same names, and times are in seconds there
# (timeout for timeout_ms).
_OPTION = re.compile(r"\bhkt_\w+_options\.(?=\w)")


def error_of(status: int, text: str) -> Error:
    kind = CLASSES.get(status, Error)
    error = kind(_OPTION.sub("", text) or text_of(lib.hkt_error_string(status)))
    error.status = status
    return error


def raise_last(status: int, comm: Any = ffi.NULL) -> NoReturn:
    """Raises the error of the calling thread's last call of the library. comm: an hkt_comm*, or null."""
    raise_pending()
    text = text_of(lib.hkt_comm_last_error(comm)) or text_of(lib.hkt_last_error())
    raise error_of(status, text)


def invalid(text: str) -> Error:
    return error_of(lib.HKT_ERROR_INVALID_ARGUMENT, text)


def out_of_range(function: Any, arguments: Sequence[Any], error: OverflowError) -> Error:
    """For an OverflowError of cffi: finds the argument whose C type is too narrow for its number."""
    name = getattr(function, "__name__", "")
    for value, kind in zip(arguments, ffi.typeof(function).args if hasattr(lib, name) else ()):
        if kind.kind == "primitive" and isinstance(value, int):
            least = -(1 << 8 * ffi.sizeof(kind) - 1) if int(ffi.cast(kind, -1)) < 0 else 0
            most = least + (1 << 8 * ffi.sizeof(kind)) - 1
            if not least <= value <= most:
                return invalid(f"{value} is out of range: {name} takes a number from {least} to {most} there")
    return invalid(f"a number is out of range: {error}")


# ---- Exceptions in callbacks of the library ------------------------------------------------------------------

# An exception must not leave a C function: it is kept here, and raised when the library's call has returned.
_pending = threading.local()


def keep(kind: type, error: BaseException, traceback: Any) -> None:
    """onerror of callbacks that run in the caller's thread."""
    if getattr(_pending, "error", None) is None:
        _pending.error = error


def raise_pending() -> None:
    error = getattr(_pending, "error", None)
    if error is not None:
        _pending.error = None
        raise error
