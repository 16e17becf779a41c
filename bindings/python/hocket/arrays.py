"""Resolves an array to what a collective takes: its address, its number of elements, and their type.

Accepts NumPy arrays, PyTorch tensors, objects with DLPack (__dlpack__) or the buffer protocol (array.array, bytearray,
memoryview, mmap), and Memory: an address. Nothing is ever copied. So arrays must lie in memory without gaps
(C-contiguous), and what is received must be writable; otherwise a call raises InvalidArgumentError before anything is
sent.
"""
from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple

import numpy as np

from hocket._native import ffi, lib
from hocket.errors import Error, invalid, text_of

ndarray = np.ndarray
_from_buffer = ffi.from_buffer
_BYTES = ffi.typeof("char[]")


class Memory(NamedTuple):
    """Elements at an address: for memory without a Python object, or for the least overhead of a call.

    address: of the first element; elements: their number; type: a number of hkt_type (hocket.arrays.TYPES["float32"]).
    keep: an object that keeps the memory alive; Hocket holds it until the operation has ended.
    """

    address: int
    elements: int
    type: int
    keep: Any = None


def _types_by_name() -> dict[str, int]:
    return {text_of(lib.hkt_type_name(number)): number for number in ffi.typeof("hkt_type").elements}


TYPES: dict[str, int] = _types_by_name()  # "float32": 0, as the library names them
NAMES: dict[int, str] = {number: name for name, number in TYPES.items()}
SIZES: dict[int, int] = {number: lib.hkt_type_size(number) for number in NAMES}


def _types_by_dtype() -> dict[Any, int]:
    known = {}
    for name, number in TYPES.items():
        if hasattr(np, "bool_" if name == "bool" else name):  # NumPy has no bfloat16
            known[np.dtype(name)] = number
    return known


_BY_DTYPE: dict[Any, int] = _types_by_dtype()  # NumPy's; PyTorch's are added when the first tensor is seen


def type_of(dtype: Any) -> int:
    """Returns the number of hkt_type for a NumPy dtype, a PyTorch dtype, or a name ("float32", "bfloat16")."""
    known = _BY_DTYPE.get(dtype) if not isinstance(dtype, str) else TYPES.get(dtype)
    if known is not None:
        return known
    name = str(dtype)
    if name.startswith("torch.") and name[len("torch."):] in TYPES:
        _BY_DTYPE[dtype] = TYPES[name[len("torch."):]]
        return _BY_DTYPE[dtype]
    try:
        made = np.dtype(dtype)
    except TypeError:
        raise _no_type(name) from None
    if made in _BY_DTYPE:
        return _BY_DTYPE[made]
    if made.name == "bfloat16":  # ml_dtypes
        _BY_DTYPE[made] = TYPES["bfloat16"]
        return TYPES["bfloat16"]
    if not made.isnative and made.newbyteorder("=") in _BY_DTYPE:
        raise invalid(f"the elements are {made.str}, of the other byte order; "
                      f"make them native: array.astype({made.newbyteorder('=').name!r})")
    raise _no_type(name)


def _no_type(name: str) -> Error:
    return invalid(f"elements of type {name} are not supported; there are {', '.join(TYPES)}")


def dtype_of(number: int) -> Any:
    """Returns the NumPy dtype for a number of hkt_type. bfloat16 needs ml_dtypes."""
    name = NAMES[number]
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise invalid("NumPy has no bfloat16: install ml_dtypes, or pass out=") from None
    return np.dtype(ml_dtypes.bfloat16)


# The resolved form of an array: an address that cffi takes, elements, type, and the object that keeps the memory alive.
Resolved = tuple[Any, int, int, Any]


def resolve(array: Any, name: str, writable: bool) -> Resolved:
    """name: the argument's name, for errors."""
    if type(array) is ndarray:
        number = _BY_DTYPE.get(array.dtype)
        if number is not None:
            try:
                address = _from_buffer(_BYTES, array, writable)
            except (ValueError, BufferError):
                _complain(array, name, writable)
            return address, array.size, number, address
    return _resolve_other(array, name, writable)


def _complain(array: Any, name: str, writable: bool) -> None:
    if not array.flags.c_contiguous:
        raise invalid(f"{name} has gaps or another order in memory (shape {array.shape}, strides {array.strides}); "
                      "Hocket copies nothing by itself: pass numpy.ascontiguousarray(array)")
    if writable and not array.flags.writeable:
        raise invalid(f"{name} is read-only, and the result is to be written to it; pass a copy, or another array as out=")
    raise invalid(f"{name}: its memory cannot be had by the buffer protocol")


def _resolve_other(array: Any, name: str, writable: bool) -> Resolved:
    if isinstance(array, Memory):
        return ffi.cast("void*", array.address), array.elements, array.type, array.keep
    if isinstance(array, ndarray):
        return _resolve_numpy(array, name, writable)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return _resolve_torch(array, name)
    if hasattr(array, "__dlpack__"):
        return _resolve_dlpack(array, name, writable)
    try:
        view = np.asarray(memoryview(array))
    except (TypeError, ValueError) as error:
        raise invalid(f"{name} is {_kind(array)}, which has no memory that Hocket can use ({error}); pass a NumPy array, "
                      "or an object with DLPack or the buffer protocol (other objects go by broadcast_object and all_gather_object)") from None
    return _resolve_numpy(view, name, writable)


def _kind(array: Any) -> str:
    return f"of type {type(array).__module__}.{type(array).__qualname__}"


def _resolve_numpy(array: Any, name: str, writable: bool) -> Resolved:
    """Handles subclasses, and types that the buffer protocol does not have."""
    if isinstance(array, np.ma.MaskedArray):
        raise invalid(f"{name} is a masked array, whose mask would be lost: pass array.filled(value), or array.data and "
                      "numpy.ma.getmaskarray(array), each by itself")
    number = type_of(array.dtype)
    if not array.flags.c_contiguous or (writable and not array.flags.writeable):
        _complain(array, name, writable)
    return ffi.cast("void*", array.__array_interface__["data"][0]), array.size, number, array


def _resolve_torch(tensor: Any, name: str) -> Resolved:
    """Uses PyTorch's own functions, because its DLPack costs several microseconds."""
    number = _BY_DTYPE.get(tensor.dtype)
    if number is None:
        number = type_of(tensor.dtype)
    if tensor.layout is not sys.modules["torch"].strided:
        raise invalid(f"{name} is sparse ({tensor.layout}): pass tensor.to_dense(); hocket.torch's process group adds sparse tensors up "
                      "as they are, and its sparse_hook sends sparse gradients")
    if not (tensor.is_cpu or tensor.is_cuda):
        raise invalid(f"{name} is on the device {tensor.device.type!r}; Hocket takes memory of the host and of CUDA (tensors on 'meta' "
                      "have none): pass a tensor there")
    if not tensor.is_contiguous():
        raise invalid(f"{name} has gaps or another order in memory (shape {tuple(tensor.shape)}); "
                      "Hocket copies nothing by itself: pass tensor.contiguous()")
    if tensor.is_neg() or tensor.is_conj():
        raise invalid(f"{name} is a view whose sign torch keeps apart from its memory: pass tensor.resolve_neg() or "
                      "tensor.resolve_conj()")
    if tensor.requires_grad:
        raise invalid(f"{name} requires gradients, which Hocket does not calculate: pass tensor.detach()")
    return ffi.cast("void*", tensor.data_ptr()), tensor.numel(), number, tensor


# ---- DLPack ---------------------------------------------------------------------------------------------------

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]

_HOST, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
_CODES = {(0, 8): "int8", (0, 16): "int16", (0, 32): "int32", (0, 64): "int64",
          (1, 8): "uint8", (1, 16): "uint16", (1, 32): "uint32", (1, 64): "uint64",
          (2, 16): "float16", (2, 32): "float32", (2, 64): "float64", (4, 16): "bfloat16", (6, 8): "bool"}


def _resolve_dlpack(array: Any, name: str, writable: bool) -> Resolved:
    try:
        try:
            capsule = array.__dlpack__(max_version=(1, 0))
        except TypeError:  # it does not support versions
            capsule = array.__dlpack__()
    except Exception as error:
        raise invalid(f"{name} ({_kind(array)}) gives no memory by DLPack: {error}") from error
    label = _name_of(capsule)
    address = _pointer_of(capsule, label)
    if label == b"dltensor_versioned":
        versioned = ffi.cast("hkt_py_versioned_tensor*", address)
        if writable and versioned.flags & 1:
            raise invalid(f"{name} is read-only, and the result is to be written to it; pass a copy, or another array as out=")
        tensor = versioned.tensor
    else:
        tensor = ffi.cast("hkt_py_tensor*", address)[0]
    number = TYPES.get(_CODES.get((tensor.code, tensor.bits), ""))
    if number is None or tensor.lanes != 1:
        raise _no_type(f"(DLPack) code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes")
    if tensor.device_type not in (_HOST, _CUDA, _CUDA_HOST, _CUDA_MANAGED):
        raise invalid(f"{name} is on a device of DLPack's kind {tensor.device_type}; Hocket takes memory of the host and of CUDA")
    count = 1
    for i in reversed(range(tensor.ndim)):
        if tensor.strides and tensor.shape[i] > 1 and tensor.strides[i] != count:
            raise invalid(f"{name} has gaps or another order in memory; Hocket copies nothing by itself: pass a contiguous copy")
        count *= tensor.shape[i]
    # The capsule frees the tensor when it is no longer referenced.
    return ffi.cast("char*", tensor.data) + tensor.byte_offset, count, number, (capsule, array)


# ---- Results ---------------------------------------------------------------------------------------------------

def shape_of(array: Any) -> tuple[int, ...]:
    """Returns () for a single number, (elements,) for an object without a shape."""
    shape = getattr(array, "shape", None)
    if shape is not None:
        return tuple(shape)
    if isinstance(array, Memory):
        return (array.elements,)
    try:
        return tuple(memoryview(array).shape or ())
    except TypeError:  # its only interface is DLPack
        return (resolve(array, "array", False)[1],)


def empty_like(array: Any, shape: tuple[int, ...], number: int) -> Any:
    """Returns a new array for a result: a tensor for a tensor, else NumPy's."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return torch.empty(shape, dtype=array.dtype, device=array.device)
    dtype = array.dtype if isinstance(array, ndarray) else dtype_of(number)
    return np.empty(shape, dtype)
