"""Structs of options, filled from keyword arguments: the fields are those of hocket.h, and so are their meanings."""
from __future__ import annotations

import os
from typing import Any

from hocket._native import ffi, lib
from hocket.errors import invalid, keep

LONGEST_S = 24 * 3600  # a longer time counts as this, as in C


def text(value: Any) -> bytes:
    return os.fsencode(value)


def milliseconds(seconds: float, name: str = "timeout") -> int:
    if not 0 < seconds < float("inf"):
        raise invalid(f"{name} is {seconds!r}; it is a number of seconds above 0, and not infinite")
    return max(1, round(min(seconds, LONGEST_S) * 1000))


def constant(prefix: str, name: str) -> int:
    """Returns a constant, for example constant("HKT_PROGRESS_", "thread")."""
    number = getattr(lib, prefix + name.upper(), None)
    if number is None:
        names = sorted(other[len(prefix):].lower() for other in dir(lib) if other.startswith(prefix))
        raise invalid(f"{name!r} is not one of {', '.join(names)}")
    return number


def fill(options: Any, given: dict[str, Any]) -> list[Any]:
    """Sets fields by name; None leaves the default. Returns the objects that must live as long as the struct is
    used."""
    kept: list[Any] = []
    fields = dict(ffi.typeof(options).item.fields)
    for name, value in given.items():
        if value is None:
            continue
        kind = fields[name].type
        is_text = kind.kind == "pointer" and kind.item.kind == "primitive" and kind.item.cname == "char"
        if is_text:
            kept.append(ffi.new("char[]", text(value)))
        try:
            setattr(options, name, kept[-1] if is_text else value)
        except (TypeError, OverflowError) as error:
            raise invalid(f"{name} is {value!r}: {error}") from None
    return kept


# ---- A store of the program's own -----------------------------------------------------------------------------------

class Store:
    """An hkt_store over an object with set(key, value) and get(key): torch's Store, or a mapping-like client of the
    program's. get waits until the key exists, or raises."""

    def __init__(self, store: Any, prefix: str) -> None:
        self.store = store
        self.user = ffi.new_handle(self)
        self.struct = ffi.new("hkt_store*")
        lib.init_hkt_store(self.struct)
        self._prefix = ffi.new("char[]", text(prefix))
        self.struct.prefix = self._prefix
        self.struct.set = lib.hkt_py_store_set
        self.struct.get = lib.hkt_py_store_get
        self.struct.user = self.user

    def get(self, key: str, timeout_s: float) -> bytes:
        if hasattr(self.store, "wait"):  # torch's: otherwise its own timeout applies
            import datetime
            self.store.wait([key], datetime.timedelta(seconds=timeout_s))
        value = self.store.get(key)
        return value.encode() if isinstance(value, str) else bytes(value)


@ffi.def_extern(name="hkt_py_store_set", error=1, onerror=keep)
def _store_set(user: Any, key: Any, value: Any, size: int) -> int:
    ffi.from_handle(user).store.set(ffi.string(key).decode(), bytes(ffi.buffer(value, size)))
    return 0


@ffi.def_extern(name="hkt_py_store_get", error=1, onerror=keep)
def _store_get(user: Any, key: Any, value: Any, room: int, size: Any, timeout_ms: int) -> int:
    found = ffi.from_handle(user).get(ffi.string(key).decode(), timeout_ms / 1000)
    ffi.memmove(value, found, min(room, len(found)))
    size[0] = len(found)
    return 0


def unique_id_struct(given: Any) -> Any:
    """Returns the hkt_unique_id for the result of hocket.unique_id()."""
    made = ffi.new("hkt_unique_id*")
    data = given.encode() if isinstance(given, str) else bytes(given)
    if len(data) >= ffi.sizeof("hkt_unique_id"):
        raise invalid(f"the unique id has {len(data)} bytes, but at most {ffi.sizeof('hkt_unique_id') - 1} are allowed: pass rank 0's unchanged")
    ffi.memmove(ffi.addressof(made[0], "text"), data, len(data))
    return made


def counts_array(counts: Any, size: int, name: str) -> tuple[Any, list[int]]:
    numbers = [int(count) for count in counts]
    if len(numbers) != size:
        raise invalid(f"{name} has {len(numbers)} numbers; it must have one for each of the {size} ranks")
    try:
        return ffi.new("size_t[]", numbers), numbers
    except OverflowError:
        raise invalid(f"{name} is {numbers}; counts are 0 or more") from None
