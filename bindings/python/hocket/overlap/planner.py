"""Plans of batches, from profiles."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hocket._native import ffi, lib
from hocket.errors import invalid, raise_last
from hocket.overlap.profiles import Profile, count_of
from hocket.state import NULL

_METHODS = {name[len("HKT_OVERLAP_"):].lower(): number for number, name in ffi.typeof("hkt_overlap_method").elements.items()}


def method_number(name: str) -> int:
    if name not in _METHODS:
        raise invalid(f"{name!r} is not one of {', '.join(sorted(_METHODS))}")
    return _METHODS[name]


def ranges_of(ends: Sequence[int]) -> list[range]:
    return [range(first, end) for first, end in zip((0, *ends), ends)]


@dataclass(frozen=True)
class Plan:
    """Batches of consecutive layers, and their predicted times.

    ends            for each batch, in the model's order, the number of layers up to its end
    seconds         from the beginning to the end
    communication   how long the link is busy, with start-ups; computation: how long layers compute; overlap: how long both go on
    names           of the profile's layers
    """

    method: str
    backward: bool
    ends: tuple[int, ...]
    seconds: float
    communication: float
    computation: float
    overlap: float
    names: tuple[str, ...]

    @property
    def batches(self) -> list[range]:
        """The layers of each batch, from 0, in the model's order."""
        return ranges_of(self.ends)

    @property
    def in_time(self) -> list[range]:
        """The batches in the order in which they communicate."""
        return self.batches[::-1] if self.backward else self.batches


def plan(profile: Profile, method: str = "optimum", *, backward: bool = False, limit_bytes: int = 0,
         bucket_bytes: int | None = None) -> Plan:
    """Returns the batches in which a model's layers communicate. method: "optimum", or one of the others of
    docs/overlap.md. limit_bytes: the largest size of a batch of several layers; 0: no limit. bucket_bytes: with
    "buckets", the size at which a batch is closed; None: 25 MiB."""
    options = ffi.new("hkt_overlap_options*")
    lib.init_hkt_overlap_options(options)
    options.method, options.backward = method_number(method), int(backward)
    options.limit_bytes = count_of("limit_bytes", limit_bytes)
    if bucket_bytes is not None:
        options.bucket_bytes = count_of("bucket_bytes", bucket_bytes)
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


def bucket_sizes(batches: Plan | Sequence[Sequence[int]], layer_bytes: Sequence[int]) -> list[int]:
    """Returns the bytes of each batch in the order in which a backward pass fills them: from the model's last layers to
    its first. batches: a Plan, or consecutive layers such as [range(0, 3), range(3, 7)], in either order. layer_bytes:
    by layer, the model's first one first. A bucket that is closed as soon as it has this many bytes holds exactly its
    batch's layers. For that, a batch whose layers have no bytes at all is left out, as are layers without bytes at the
    edge of a batch."""
    sizes = [count_of(f"layer_bytes[{i}]", size) for i, size in enumerate(layer_bytes)]
    given = sorted(batches.batches if isinstance(batches, Plan) else (list(batch) for batch in batches), key=list)
    layers = [layer for batch in given for layer in batch]
    if layers != list(range(len(sizes))):
        raise invalid(f"the batches have the layers {_listed(layers)}; they must have each of the {len(sizes)} layers of layer_bytes once, "
                      "and each batch consecutive ones")
    found = [sum(sizes[layer] for layer in batch) for batch in reversed(given)]
    return [size for size in found if size > 0]


def fit_cost(sizes: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """Returns the start-up time and the seconds per byte of measured communications: of `sizes` bytes, in `seconds`. It
    is the line with nonnegative numbers that has the smallest sum of errors relative to the measured times: so short
    and long communications count alike, and a time that is far too long does not shift the line."""
    points = list(zip(sizes, map(float, seconds)))
    if len(sizes) != len(seconds) or len(set(sizes)) < 2 or not all(time > 0 for _, time in points):
        raise invalid(f"{len(sizes)} sizes and {len(seconds)} times are given: a line needs as many of both, two different sizes, and times above 0")
    lines = [(time, 0.0) for _, time in points] + [(0.0, time / size) for size, time in points if size]
    for i, a in enumerate(points):  # an optimal line passes through two of the points
        for b in points[i + 1:]:
            if a[0] != b[0]:
                slope = (b[1] - a[1]) / (b[0] - a[0])
                lines.append((a[1] - slope * a[0], slope))
    return min((line for line in lines if line[0] >= 0 and line[1] >= 0),
               key=lambda line: sum(abs(line[0] + line[1] * size - time) / time for size, time in points))


def _listed(numbers: list[int]) -> str:
    return str(numbers) if len(numbers) <= 20 else f"{str(numbers[:20])[:-1]}, ...]"
