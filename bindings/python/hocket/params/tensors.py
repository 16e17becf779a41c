"""The tensors that a service keeps: their names, shapes and types; checks if an array fits one of them."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hocket._native import ffi
from hocket.arrays import NAMES, SIZES, Resolved, ndarray, resolve, shape_of
from hocket.errors import invalid
from hocket.state import NULL

_HOST_DEVICES = (1, 3)  # of DLPack: host memory, and host memory pinned by CUDA


@dataclass(frozen=True)
class Tensor:
    """A tensor of the service. index: its number; type: of hkt_type."""

    name: str
    index: int
    shape: tuple[int, ...]
    count: int
    type: int


Found = tuple[Tensor, Any, Any]  # a tensor, the address of as many elements, and the object that keeps them alive


class Model:
    """The tensors of a service, in the order of their numbers; arrays: those it was opened with, by name."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        if not isinstance(tensors, Mapping) or not tensors:
            raise invalid(f"tensors is {tensors!r:.80}; it must be a dict from names to arrays, with one or more")
        self.arrays: dict[str, Any] = dict(tensors)
        self.tensors: dict[str, Tensor] = {}
        self._found: list[Found] = []
        self._names: list[Any] = []
        for index, (name, array) in enumerate(self.arrays.items()):
            self._names.append(ffi.new("char[]", _utf8(name)))
            address, count, number, kept = on_host(array, f"tensors[{name!r}]", False)
            self.tensors[name] = Tensor(name, index, shape_of(array), count, number)
            self._found.append((self.tensors[name], address, kept))

    def for_open(self, gives_weights: bool) -> tuple[Any, int, Any]:
        """Returns hkt_params_tensor[], its length, and pointers to the first weights, or null. Valid as long as this
        object."""
        described = [{"name": name, "count": tensor.count, "type": tensor.type}
                     for name, tensor in zip(self._names, self.tensors.values())]
        return ffi.new("hkt_params_tensor[]", described), len(described), pointers(self._found) if gives_weights else NULL

    def tensor(self, name: Any) -> Tensor:
        found = self.tensors.get(name) if isinstance(name, str) else None
        if found is None:
            names = ", ".join(list(self.tensors)[:20]) + (", ..." if len(self.tensors) > 20 else "")
            raise invalid(f"there is no tensor {name!r:.80}; the service was opened with {names}")
        return found

    def find(self, arrays: Mapping[str, Any], what: str, writable: bool) -> list[Found]:
        """Returns the arrays by name, in the order of their tensors. what: names the argument, for errors."""
        if not isinstance(arrays, Mapping):
            raise invalid(f"{what} is {arrays!r:.80}; it must be a dict from names of tensors to arrays")
        found = [self.find_one(self.tensor(name), array, f"{what}[{name!r}]", writable) for name, array in arrays.items()]
        if writable:
            _refuse_shared(found, what)
        return sorted(found, key=lambda one: one[0].index)

    def find_one(self, tensor: Tensor, array: Any, what: str, writable: bool) -> Found:
        address, _count, number, kept = on_host(array, what, writable)
        check_type(tensor, number, array, what)
        shape = shape_of(array)
        if shape != tensor.shape and shape != (tensor.count,):
            raise invalid(f"{what} has the shape {shape}, and the tensor {tensor.name!r} has {tensor.shape}: pass an array of that "
                          f"shape, or a flat one of {tensor.count} elements")
        return tensor, address, kept


def _refuse_shared(found: list[Found], what: str) -> None:
    """Refuses memory that two tensors would be written to: one of them would be lost."""
    places = sorted(((int(ffi.cast("uintptr_t", address)), tensor) for tensor, address, _ in found),
                    key=lambda place: (place[0], place[1].index))
    for (begin, tensor), (next_begin, other) in zip(places, places[1:]):
        if next_begin < begin + tensor.count * SIZES[tensor.type]:
            raise invalid(f"{what}[{tensor.name!r}] and {what}[{other.name!r}] have memory in common, and weights of both would be written to it: "
                          "give each an array of its own, or, where one tensor has two names (tied weights), open the service with one of them")


def _utf8(name: Any) -> bytes:
    if not isinstance(name, str) or not name or "\0" in name:
        raise invalid(f"{name!r:.80} is not a name of a tensor: it must be a text that is not empty, without a zero in it")
    return name.encode()


def check_type(tensor: Tensor, number: int, array: Any, what: str) -> None:
    if number != tensor.type:
        name = NAMES[tensor.type]
        how = f"array.astype({name!r})" if isinstance(array, ndarray) else "an array of that type"
        raise invalid(f"{what} has elements of {NAMES[number]}, and the tensor {tensor.name!r} has {name}: pass {how}")


def on_host(array: Any, name: str, writable: bool) -> Resolved:
    """Does what resolve() does, but refuses device memory."""
    resolved = resolve(array, name, writable)
    if not isinstance(array, ndarray) and _is_on_device(array):
        raise invalid(f"{name} is in memory of a device; the parameter service takes memory of the host: pass a copy there")
    return resolved


def _is_on_device(array: Any) -> bool:
    is_cuda = getattr(array, "is_cuda", None)
    if is_cuda is not None:  # PyTorch's attribute is faster to read
        return bool(is_cuda)
    device = getattr(array, "__dlpack_device__", None)
    return device is not None and device()[0] not in _HOST_DEVICES


def pointers(found: Iterable[Found]) -> Any:
    return ffi.new("void*[]", [ffi.cast("void*", address) for _, address, _ in found])


def ranges(found: list[Found]) -> list[list[Found]]:
    """Groups tensors that follow each other: each group is one call of C."""
    made: list[list[Found]] = []
    for one in found:
        if made and made[-1][-1][0].index + 1 == one[0].index:
            made[-1].append(one)
        else:
            made.append([one])
    return made
