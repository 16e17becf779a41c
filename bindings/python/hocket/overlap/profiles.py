"""Profiles: how long each layer of a model communicates and computes."""
from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hocket._native import lib
from hocket.errors import error_of, invalid

_LONGEST = 1e9           # seconds
_MOST_BYTES = 1 << 48    # of a layer
_MOST_LAYERS = 20000
_MOST_NAME = 256         # bytes
_MOST_CONTENTION = 1000
_TIMES = "seconds, from 0 to 1e+09"
_PULL = '{"latency": 0.002, "startup": 0.001, "per_byte": 1e-08}'
_FORM = '{"startup": 0.001, "layers": [{"name": "conv1", "transfer": 0.002, "compute": 0.003, "bytes": 37888}, ...]}'


@dataclass(frozen=True)
class Layer:
    """One layer. transfer, compute: seconds. bytes: of its weights, or None. forward: the seconds of its forward pass;
    `compute` is then the backward pass. Set in all layers or in none."""

    name: str
    transfer: float
    compute: float
    bytes: int | None = None
    forward: float | None = None


@dataclass(frozen=True)
class Pull:
    """The cost of separate pulls, in seconds: n of them take latency + (n - 1) * startup + bytes * per_byte."""

    latency: float
    startup: float
    per_byte: float


@dataclass(frozen=True)
class Profile:
    """startup: the seconds that each communication takes in addition to its transfers. layers: Layers, the model's
    first one first in both directions. An invalid value raises InvalidArgumentError, which names its path.

    The other values are of a whole iteration, as measured by an Exchange. They do not affect plans.
    before      the seconds in which nothing can communicate: the forward pass, and the optimizer
    latency     additional seconds of communications that are in flight together, once for all of them
    contention  how much longer layers compute during communication, as a share

    pull        with a parameter service: the cost of pulls in the forward pass; None: that of transfers
    """

    startup: float
    layers: tuple[Layer, ...]
    before: float = 0
    latency: float = 0
    contention: float = 0
    pull: Pull | None = None

    def __init__(self, startup: float, layers: Iterable[Layer], before: float = 0, latency: float = 0, contention: float = 0,
                 pull: Pull | None = None) -> None:
        for name, seconds in (("startup", startup), ("before", before), ("latency", latency)):
            object.__setattr__(self, name, _time(name, seconds))
        object.__setattr__(self, "contention", _number("contention", contention, _MOST_CONTENTION, f"a share from 0 to {_MOST_CONTENTION}"))
        object.__setattr__(self, "layers", tuple(_checked(i, layer) for i, layer in enumerate(layers)))
        if not 1 <= len(self.layers) <= _MOST_LAYERS:
            raise invalid(f"layers is a list of {len(self.layers)}; it must be a list of 1 to {_MOST_LAYERS} layers")
        for i, layer in enumerate(self.layers):
            if (layer.forward is None) != (self.layers[0].forward is None):
                raise invalid(f"layers[{i if layer.forward is None else 0}].forward is missing; all layers must have the seconds of their forward "
                              "passes, or none")
        object.__setattr__(self, "pull", None if pull is None else _checked_pull(pull))

    @classmethod
    def from_json(cls, text: str | bytes) -> Profile:
        """Reads the text format of docs/overlap.md. Ignores members with other names."""
        try:
            given = json.loads(text)
        except ValueError as error:
            raise invalid(f"it is no JSON: {error}. A profile is {_FORM}") from None
        if not isinstance(given, dict):
            raise invalid(f"it is {_shown(given)}; a profile is {_FORM}")
        layers = _member(given, "", "layers", "the list of the model's layers")
        if not isinstance(layers, list):
            raise invalid(f"layers is {_shown(layers)}; it must be a list of 1 to {_MOST_LAYERS} layers")
        others = {name: given[name] for name in ("before", "latency", "contention") if name in given}
        if "pull" in given:
            others["pull"] = _pull_from(given["pull"])
        return cls(_member(given, "", "startup", _TIMES), [_layer_from(i, layer) for i, layer in enumerate(layers)], **others)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Profile:
        """Reads a file, such as examples/overlap/resnet-50.json."""
        try:
            with open(path, encoding="utf-8", opener=_open_regular) as file:
                text = file.read()
        except FileNotFoundError:
            raise error_of(lib.HKT_ERROR_NOT_FOUND, f"there is no file {os.path.abspath(path)!r}; a profile is {_FORM}") from None
        except UnicodeDecodeError as error:
            raise invalid(f"{os.fspath(path)}: it is no text: {error}. A profile is {_FORM}") from None
        try:
            return cls.from_json(text)
        except ValueError as error:
            raise invalid(f"{os.fspath(path)}: {error}") from None

    def to_json(self) -> str:
        layers = [{name: value for name, value in vars(layer).items() if value is not None} for layer in self.layers]
        pull = {} if self.pull is None else {"pull": vars(self.pull)}
        return json.dumps({"startup": self.startup, "before": self.before, "latency": self.latency, "contention": self.contention,
                           **pull, "layers": layers}, indent=1) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file for load(), and for the tool hocket-overlap."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_json())


# ---- Checks of arguments -----------------------------------------------------------------------------------------

def _open_regular(path: str, flags: int) -> int:
    """An opener for open() that refuses special files: a FIFO would be waited for, and a device may never end."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):  # open() itself refuses a folder
        return descriptor
    os.close(descriptor)
    raise invalid(f"{os.fspath(path)}: it is no regular file; name one. A profile is {_FORM}")


def _shown(value: Any) -> str:
    """Returns the value as a message shows it."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    text = "null" if value is None else json.dumps(value) if isinstance(value, (str, bool)) else repr(value)
    return text if len(text) <= 40 else text[:40] + "..."


def _member(given: Mapping[str, Any], path: str, key: str, wanted: str) -> Any:
    if key not in given:
        raise invalid(f"{path}{key} is missing; it must be {wanted}")
    return given[key]


def _time(path: str, value: Any) -> float:
    return _number(path, value, _LONGEST, _TIMES)


def _number(path: str, value: Any, most: float, wanted: str) -> float:
    is_number = hasattr(value, "__float__") and not isinstance(value, (bool, str))
    try:
        number = float(value) if is_number else math.nan
    except OverflowError:  # of an integer
        number = math.inf
    if not 0 <= number <= most:
        raise invalid(f"{path} is {_shown(value)}; it must be {wanted}")
    return number


def count_of(path: str, value: Any) -> int:
    try:
        count = -1 if isinstance(value, bool) else value.__index__()
    except AttributeError:
        count = -1
    if not 0 <= count <= _MOST_BYTES:
        raise invalid(f"{path} is {_shown(value)}; it must be a whole number from 0 to {_MOST_BYTES}")
    return int(count)


def name_of(path: str, name: Any) -> str:
    try:
        size = len(name.encode()) if isinstance(name, str) else 0
    except UnicodeEncodeError:  # half of a surrogate pair, which is not text
        size = 0
    if not 0 < size <= _MOST_NAME or any(c < " " or c == "\x7f" for c in name):
        raise invalid(f"{path} is {_shown(name)}; it must be a text of one line and up to {_MOST_NAME} bytes")
    return name


def _checked(index: int, layer: Any) -> Layer:
    path = f"layers[{index}]"
    if not isinstance(layer, Layer):
        raise invalid(f"{path} is {_shown(layer)}; it must be a hocket.overlap.Layer")
    return Layer(name_of(f"{path}.name", layer.name), _time(f"{path}.transfer", layer.transfer), _time(f"{path}.compute", layer.compute),
                 None if layer.bytes is None else count_of(f"{path}.bytes", layer.bytes),
                 None if layer.forward is None else _time(f"{path}.forward", layer.forward))


def _checked_pull(pull: Any) -> Pull:
    if not isinstance(pull, Pull):
        raise invalid(f"pull is {_shown(pull)}; it must be a hocket.overlap.Pull")
    return Pull(*(_time(f"pull.{name}", value) for name, value in vars(pull).items()))


def _pull_from(given: Any) -> Pull:
    if not isinstance(given, dict):
        raise invalid(f"pull is {_shown(given)}; it must be an object, or left out: {_PULL}")
    return Pull(*(_member(given, "pull.", name, _TIMES) for name in ("latency", "startup", "per_byte")))


def _layer_from(index: int, given: Any) -> Layer:
    path = f"layers[{index}]"
    if not isinstance(given, dict):
        raise invalid(f'{path} is {_shown(given)}; it must be an object: {{"name": "conv1", "transfer": 0.002, "compute": 0.003}}')
    if "bytes" in given and given["bytes"] is None:
        raise invalid(f"{path}.bytes is null; it must be a whole number from 0 to {_MOST_BYTES}, or left out")
    forward = _time(f"{path}.forward", given["forward"]) if "forward" in given else None
    return Layer(given.get("name", f"layer {index + 1}"), _member(given, f"{path}.", "transfer", _TIMES),
                 _member(given, f"{path}.", "compute", _TIMES), given.get("bytes"), forward)
