"""Which layers communicate together while others compute (docs/overlap.md): profiles, and plans of batches.

    profile = hocket.overlap.Profile.load("profile.json")
    plan = hocket.overlap.plan(profile, backward=True)
    for batch in plan.in_time:                    # a range of the profile's layers
        reduce_together(batch)
"""
from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import Any, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from hocket._native import ffi, lib
from hocket.errors import error_of, invalid, raise_last
from hocket.state import NULL

_LONGEST = 1e9           # seconds
_MOST_BYTES = 1 << 48    # of a layer
_MOST_LAYERS = 20000
_MOST_NAME = 256         # bytes
_TIMES = "seconds, from 0 to 1e+09"
_FORM = '{"startup": 0.001, "layers": [{"name": "conv1", "transfer": 0.002, "compute": 0.003, "bytes": 37888}, ...]}'
_METHODS = {name[len("HKT_OVERLAP_"):].lower(): number for number, name in ffi.typeof("hkt_overlap_method").elements.items()}


@dataclass(frozen=True)
class Layer:
    """One layer. transfer, compute: seconds. bytes: of its weights, or None."""

    name: str
    transfer: float
    compute: float
    bytes: Optional[int] = None


@dataclass(frozen=True)
class Profile:
    """startup: the seconds that each communication takes besides its transfers. layers: Layers, the model's first one first in
    both directions. What is not possible is refused when it is made (InvalidArgumentError), with its path."""

    startup: float
    layers: Tuple[Layer, ...]

    def __init__(self, startup: float, layers: Iterable[Layer]) -> None:
        object.__setattr__(self, "startup", _time("startup", startup))
        object.__setattr__(self, "layers", tuple(_checked(i, layer) for i, layer in enumerate(layers)))
        if not 1 <= len(self.layers) <= _MOST_LAYERS:
            raise invalid(f"layers is a list of {len(self.layers)}; it must be a list of 1 to {_MOST_LAYERS} layers")

    @classmethod
    def from_json(cls, text: Union[str, bytes]) -> "Profile":
        """From the text of docs/overlap.md. Members with other names are passed over."""
        try:
            given = json.loads(text)
        except ValueError as error:
            raise invalid(f"it is no JSON: {error}. A profile is {_FORM}") from None
        if not isinstance(given, dict):
            raise invalid(f"it is {_shown(given)}; a profile is {_FORM}")
        layers = _member(given, "", "layers", "the list of the model's layers")
        if not isinstance(layers, list):
            raise invalid(f"layers is {_shown(layers)}; it must be a list of 1 to {_MOST_LAYERS} layers")
        return cls(_member(given, "", "startup", _TIMES), [_layer_from(i, layer) for i, layer in enumerate(layers)])

    @classmethod
    def load(cls, path: Union[str, "os.PathLike[str]"]) -> "Profile":
        """From a file, such as examples/overlap/resnet-50.json."""
        try:
            with open(path, encoding="utf-8") as file:
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
        return json.dumps({"startup": self.startup, "layers": layers}, indent=1) + "\n"

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """For load(), and for the tool hocket-overlap."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_json())


@dataclass(frozen=True)
class Plan:
    """Batches of consecutive layers, and what they are predicted to take.

    ends            for each batch, in the model's order, how many layers there are up to its end
    seconds         from the beginning to the end
    communication   how long the link is busy, with start-ups; computation: how long layers compute; overlap: how long both go on
    names           of the profile's layers
    """

    method: str
    backward: bool
    ends: Tuple[int, ...]
    seconds: float
    communication: float
    computation: float
    overlap: float
    names: Tuple[str, ...]

    @property
    def batches(self) -> List[range]:
        """The layers of each batch, from 0, in the model's order."""
        return [range(first, end) for first, end in zip((0, *self.ends), self.ends)]

    @property
    def in_time(self) -> List[range]:
        """The batches in the order in which they communicate."""
        return self.batches[::-1] if self.backward else self.batches


def plan(profile: Profile, method: str = "optimum", *, backward: bool = False, limit_bytes: int = 0,
         bucket_bytes: Optional[int] = None) -> Plan:
    """The batches in which a model's layers communicate. method: "optimum", or one of the others of docs/overlap.md.
    limit_bytes: the most bytes of a batch of several layers; 0: any number. bucket_bytes: with "buckets", at how many
    bytes a batch is closed; None: 25 MiB."""
    if method not in _METHODS:
        raise invalid(f"{method!r} is not one of {', '.join(sorted(_METHODS))}")
    options = ffi.new("hkt_overlap_options*")
    lib.init_hkt_overlap_options(options)
    options.method, options.backward = _METHODS[method], int(backward)
    options.limit_bytes = _count("limit_bytes", limit_bytes)
    if bucket_bytes is not None:
        options.bucket_bytes = _count("bucket_bytes", bucket_bytes)
    layers = profile.layers
    sizes = [layer.bytes for layer in layers]
    have_all = None not in sizes
    if not have_all and (method == "buckets" or limit_bytes):
        raise invalid(f"{'the method buckets' if method == 'buckets' else 'limit_bytes'} needs the bytes of all layers, and "
                      f"layers[{sizes.index(None)}] ({layers[sizes.index(None)].name}) has none")
    ends, batches, predicted = ffi.new("size_t[]", len(layers)), ffi.new("size_t*"), ffi.new("hkt_overlap_prediction*")
    status = lib.hkt_overlap_plan(
        profile.startup, ffi.new("double[]", [layer.transfer for layer in layers]), ffi.new("double[]", [layer.compute for layer in layers]),
        ffi.new("uint64_t[]", sizes) if have_all else NULL, len(layers), options, ends, batches, predicted, ffi.sizeof("hkt_overlap_prediction"))
    if status < 0:
        raise_last(status)
    return Plan(method, bool(backward), tuple(ends[0:batches[0]]), predicted.seconds, predicted.communication, predicted.computation,
                predicted.overlap, tuple(layer.name for layer in layers))


def bucket_sizes(batches: Union[Plan, Sequence[Sequence[int]]], layer_bytes: Sequence[int]) -> List[int]:
    """The bytes of each batch in the order in which a backward pass fills them: from the model's last layers to its first.
    batches: a Plan, or consecutive layers such as [range(0, 3), range(3, 7)], in either order. layer_bytes: of each layer, the
    model's first one first. A bucket that is closed as soon as it has so many bytes holds just its batch's layers: so a batch
    whose layers have no bytes at all is left out, as are layers of no bytes at the edge of a batch."""
    sizes = [_count(f"layer_bytes[{i}]", size) for i, size in enumerate(layer_bytes)]
    given = sorted(batches.batches if isinstance(batches, Plan) else (list(batch) for batch in batches), key=list)
    layers = [layer for batch in given for layer in batch]
    if layers != list(range(len(sizes))):
        raise invalid(f"the batches have the layers {_listed(layers)}; they must have each of the {len(sizes)} layers of layer_bytes once, "
                      "and each batch consecutive ones")
    found = [sum(sizes[layer] for layer in batch) for batch in reversed(given)]
    return [size for size in found if size > 0]


def fit_cost(sizes: Sequence[int], seconds: Sequence[float]) -> Tuple[float, float]:
    """The start-up and the seconds of a byte of communications that were measured: of `sizes` bytes, in `seconds`. It is the line, with neither below 0,
    that has the smallest sum of errors, each as a part of the time that was measured: so short and long communications count alike, and a time
    that is far too long does not draw the line to itself."""
    points = list(zip(sizes, map(float, seconds)))
    if len(sizes) != len(seconds) or len(set(sizes)) < 2 or not all(time > 0 for _, time in points):
        raise invalid(f"{len(sizes)} sizes and {len(seconds)} times are given: a line needs as many of both, two different sizes, and times above 0")
    lines = [(time, 0.0) for _, time in points] + [(0.0, time / size) for size, time in points if size]
    for i, a in enumerate(points):  # one that goes through two of the points is a best one
        for b in points[i + 1:]:
            if a[0] != b[0]:
                slope = (b[1] - a[1]) / (b[0] - a[0])
                lines.append((a[1] - slope * a[0], slope))
    return min((line for line in lines if line[0] >= 0 and line[1] >= 0),
               key=lambda line: sum(abs(line[0] + line[1] * size - time) / time for size, time in points))


# ---- What is given --------------------------------------------------------------------------------------------------

def _listed(numbers: List[int]) -> str:
    return str(numbers) if len(numbers) <= 20 else f"{str(numbers[:20])[:-1]}, ...]"


def _shown(value: Any) -> str:
    """A value as a message shows it."""
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
    is_number = hasattr(value, "__float__") and not isinstance(value, (bool, str))
    try:
        seconds = float(value) if is_number else math.nan
    except OverflowError:  # of a whole number
        seconds = math.inf
    if not 0 <= seconds <= _LONGEST:
        raise invalid(f"{path} is {_shown(value)}; it must be {_TIMES}")
    return seconds


def _count(path: str, value: Any) -> int:
    try:
        count = -1 if isinstance(value, bool) else value.__index__()
    except AttributeError:
        count = -1
    if not 0 <= count <= _MOST_BYTES:
        raise invalid(f"{path} is {_shown(value)}; it must be a whole number from 0 to {_MOST_BYTES}")
    return int(count)


def _checked(index: int, layer: Any) -> Layer:
    path = f"layers[{index}]"
    if not isinstance(layer, Layer):
        raise invalid(f"{path} is {_shown(layer)}; it must be a hocket.overlap.Layer")
    name = layer.name
    if not isinstance(name, str) or not 0 < len(name.encode(errors="replace")) <= _MOST_NAME or any(c < " " or c == "\x7f" for c in name):
        raise invalid(f"{path}.name is {_shown(name)}; it must be a text of one line and up to {_MOST_NAME} bytes")
    return Layer(name, _time(f"{path}.transfer", layer.transfer), _time(f"{path}.compute", layer.compute),
                 None if layer.bytes is None else _count(f"{path}.bytes", layer.bytes))


def _layer_from(index: int, given: Any) -> Layer:
    path = f"layers[{index}]"
    if not isinstance(given, dict):
        raise invalid(f'{path} is {_shown(given)}; it must be an object: {{"name": "conv1", "transfer": 0.002, "compute": 0.003}}')
    if "bytes" in given and given["bytes"] is None:
        raise invalid(f"{path}.bytes is null; it must be a whole number from 0 to {_MOST_BYTES}, or left out")
    return Layer(given.get("name", f"layer {index + 1}"), _member(given, f"{path}.", "transfer", _TIMES),
                 _member(given, f"{path}.", "compute", _TIMES), given.get("bytes"))
