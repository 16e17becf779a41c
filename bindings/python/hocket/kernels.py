"""The kernels of sparse collectives and of optimizers (docs/kernels.md), on arrays of the host, without a
communicator."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hocket import options as opts
from hocket._native import ffi, lib
from hocket.arrays import NAMES, TYPES, empty_like, resolve
from hocket.errors import invalid, raise_last
from hocket.state import NULL


def _check(status: int) -> None:
    if status < 0:
        raise_last(status)


def topk_count(count: int, density: float) -> int:
    """Returns how many of `count` elements the density stands for."""
    k = ffi.new("size_t*")
    _check(lib.hkt_topk_count(count, density, k))
    return k[0]


def topk(x: Any, k: int, *, residual: Any = None, values: Any = None, indices: Any = None, decay: float | None = None,
         scale: float | None = None, seed: int = 0, step: int = 0, shard: int = 0, thresholds: int = 0,
         select_non_finite: bool = False, threads: int = 0) -> tuple[Any, Any]:
    """Returns the k elements of largest magnitude: their values, and their indices (uint32, ascending). With a residual
    (float32, as many elements as x), error feedback: it is added before, and keeps the elements that were not selected.
    Both results are empty if the step was skipped because of an infinity or a NaN. The arguments are those of
    hkt_topk_options."""
    memory, count, number, kept = resolve(x, "x", False)
    options = ffi.new("hkt_topk_options*")
    lib.init_hkt_topk_options(options)
    held = opts.fill(options, {"seed": seed, "step": step, "shard": shard, "decay": decay, "scale": scale,
                               "thresholds": thresholds, "select_non_finite": int(select_non_finite), "threads": threads})
    if residual is not None:
        rest = _of(residual, "residual", TYPES["float32"], count, True)
        options.residual = ffi.cast("float*", rest)
    most = min(k, count)
    values = empty_like(x, (most,), number) if values is None else values
    indices = np.empty(most, np.uint32) if indices is None else indices
    to, places = _of(values, "values", None, most, True), _of(indices, "indices", TYPES["uint32"], most, True)
    options.value_type = resolve(values, "values", True)[2]
    selected = ffi.new("size_t*")
    _check(lib.hkt_topk(memory, count, number, k, options, to, ffi.cast("uint32_t*", places), selected, NULL))
    del held, kept
    return values[:selected[0]], indices[:selected[0]]


def scatter_add(dense: Any, values: Any, indices: Any, threads: int = 0) -> Any:
    """Computes dense[indices[i]] += values[i], one after another. Returns dense."""
    to, count, number, _ = resolve(dense, "dense", True)
    given, k, value_type, _ = resolve(values, "values", False)
    places = _of(indices, "indices", TYPES["uint32"], k, False)
    _check(lib.hkt_scatter_add(to, count, number, given, value_type, ffi.cast("uint32_t*", places), k, threads))
    return dense


def norms(tensors: Sequence[Any], threads: int = 0) -> np.ndarray[Any, Any]:
    """Returns the norm of each tensor, as float32."""
    pointers, counts, number, _ = _list(tensors, "tensors", None, False)
    result = np.empty(len(tensors), np.float32)
    _check(lib.hkt_norms(pointers, counts, len(tensors), number, ffi.from_buffer("float[]", result), threads))
    return result


def lars(weights: Sequence[Any], gradients: Sequence[Any], momenta: Sequence[Any], rate: float, **options: Any) -> bool:
    """Makes one step of LARS. Returns False if a norm was infinite or NaN, and the step was not made. options:
    hkt_lars_options."""
    return _step("hkt_lars_options", options, gradients, [(weights, "weights"), (momenta, "momenta")],
                 lambda lists, gradient, how, skipped: lib.hkt_lars(lists[0], gradient[0], lists[1], gradient[1], len(weights),
                                                                    gradient[2], rate, how, skipped))


def lamb(weights: Sequence[Any], gradients: Sequence[Any], first_moments: Sequence[Any], second_moments: Sequence[Any],
         rate: float, step: int, **options: Any) -> bool:
    """Makes one step of LAMB; the first has the number 1. Returns True if it was made. options: hkt_lamb_options."""
    if not 1 <= step < 1 << 64:
        raise invalid(f"step is {step}; the first one is 1, and each adds 1")
    return _step("hkt_lamb_options", options, gradients,
                 [(weights, "weights"), (first_moments, "first_moments"), (second_moments, "second_moments")],
                 lambda lists, gradient, how, skipped: lib.hkt_lamb(lists[0], gradient[0], lists[1], lists[2], gradient[1],
                                                                    len(weights), gradient[2], rate, step, how, skipped))


def _step(struct: str, given: dict[str, Any], gradients: Sequence[Any], states: list[tuple[Sequence[Any], str]], call: Any) -> bool:
    how = ffi.new(f"{struct}*")
    getattr(lib, f"init_{struct}")(how)
    fields = dict(ffi.typeof(struct).fields)
    for name in given:
        if name not in fields or name == "size":
            raise invalid(f"{name} is not an option of {struct}: there are {', '.join(field for field in fields if field != 'size')}")
    held = opts.fill(how, given)
    gradient = _list(gradients, "gradients", None, False)
    many = list(gradient[1])
    lists = []
    for tensors, name in states:
        made = _list(tensors, name, TYPES["float32"], True)
        if list(made[1]) != many:
            raise invalid(f"{name} have {list(made[1])} elements, and gradients {many}: they must be alike")
        lists.append(made)
    skipped = ffi.new("int32_t*")
    _check(call([ffi.cast("float**", made[0]) for made in lists], gradient, how, skipped))
    del held
    return not skipped[0]


def _of(array: Any, name: str, number: int | None, count: int, writable: bool) -> Any:
    memory, have, found, _ = resolve(array, name, writable)
    if number is not None and found != number:
        raise invalid(f"{name} has elements of {NAMES[found]}, and must have {NAMES[number]}")
    if have != count:
        raise invalid(f"{name} has {have} elements, and must have {count}")
    return memory


def _list(tensors: Sequence[Any], name: str, number: int | None, writable: bool) -> tuple[Any, Any, int, Any]:
    """Returns pointers and counts for C, the type, and the objects that keep the memory alive."""
    resolved = [resolve(tensor, f"{name}[{i}]", writable) for i, tensor in enumerate(tensors)]
    wanted = number if number is not None else resolved[0][2] if resolved else TYPES["float32"]
    for i, one in enumerate(resolved):
        if one[2] != wanted:
            raise invalid(f"{name}[{i}] has elements of {NAMES[one[2]]}, and must have {NAMES[wanted]}")
    return (ffi.new("void*[]", [ffi.cast("void*", one[0]) for one in resolved]), ffi.new("size_t[]", [one[1] for one in resolved]),
            wanted, resolved)
