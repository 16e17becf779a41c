"""Keys as a program names them, and orders that a seed decides."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hocket.errors import invalid


def numbers_of(keys: Any, count: int) -> tuple[np.ndarray[Any, Any], bool]:
    """Returns the keys as an array, and if they were one number. keys: a number, several in anything with an order, or a
    slice; those below 0 count from the end of `count` samples, as a list's do."""
    if isinstance(keys, slice):
        if count == 0:
            raise invalid("how many samples the source has is not known, and a slice needs it: name the keys")
        return np.arange(*keys.indices(count)), False
    is_array = isinstance(keys, np.ndarray)
    wanted = keys if is_array else np.asarray(keys if np.ndim(keys) == 0 or hasattr(keys, "__array__") else list(keys))
    is_one = wanted.ndim == 0
    if wanted.size == 0:
        return np.empty(0, np.int64), False
    if wanted.ndim > 1 or wanted.dtype.kind not in "iu":
        raise invalid(f"the keys are {keys!r:.80}; they are whole numbers, in one dimension at most")
    wanted = wanted.reshape(-1)
    if wanted.dtype.kind == "u" or wanted.min() >= 0:
        return wanted, is_one
    if wanted.min() < -count:
        raise IndexError(f"there is no sample {wanted.min()}: the dataset has {count}, numbered from 0")
    return np.where(wanted < 0, wanted + count, wanted), is_one


def in_order(count: int, shuffle: bool, seeds: Sequence[int]) -> np.ndarray[Any, Any]:
    """Returns the numbers below count, shuffled as the seeds decide, or not."""
    order = np.arange(count)
    return np.random.Generator(np.random.PCG64(list(seeds))).permutation(order) if shuffle else order
