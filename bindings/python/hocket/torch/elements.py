"""Maps torch's types and operators to Hocket's."""
import torch
from torch.distributed import ReduceOp

from hocket._native import lib

# dtype -> (hkt_type, elements of it in one of the dtype, whether they can be added up).
_KINDS = {
    torch.float32: (lib.HKT_FLOAT32, 1, True),
    torch.float64: (lib.HKT_FLOAT64, 1, True),
    torch.float16: (lib.HKT_FLOAT16, 1, True),
    torch.bfloat16: (lib.HKT_BFLOAT16, 1, True),
    torch.int8: (lib.HKT_INT8, 1, True),
    torch.int16: (lib.HKT_INT16, 1, True),
    torch.int32: (lib.HKT_INT32, 1, True),
    torch.int64: (lib.HKT_INT64, 1, True),
    torch.uint8: (lib.HKT_UINT8, 1, True),
    torch.bool: (lib.HKT_BOOL, 1, True),
    # A complex number is two real ones, which is correct for sums, averages and sums with a factor.
    torch.complex64: (lib.HKT_FLOAT32, 2, True),
    torch.complex128: (lib.HKT_FLOAT64, 2, True),
}
for _name, _type in (("uint16", lib.HKT_UINT16), ("uint32", lib.HKT_UINT32), ("uint64", lib.HKT_UINT64)):
    if hasattr(torch, _name):  # not in torch 1.13
        _KINDS[getattr(torch, _name)] = (_type, 1, True)
if hasattr(torch, "complex32"):
    _KINDS[torch.complex32] = (lib.HKT_FLOAT16, 2, True)

_OPERATORS = {
    "SUM": lib.HKT_SUM, "AVG": lib.HKT_AVERAGE, "PRODUCT": lib.HKT_PRODUCT, "MIN": lib.HKT_MIN, "MAX": lib.HKT_MAX,
    "BAND": lib.HKT_BAND, "BOR": lib.HKT_BOR, "BXOR": lib.HKT_BXOR,
}
_OPERATORS = {getattr(ReduceOp.RedOpType, name): operator for name, operator in _OPERATORS.items()}
# A sum of bool is "any of them", a product "all of them", as NCCL's backend has it.
_OF_BOOL = {lib.HKT_SUM: lib.HKT_MAX, lib.HKT_PRODUCT: lib.HKT_MIN}
_OF_COMPLEX = (lib.HKT_SUM, lib.HKT_AVERAGE)


def kind_of(dtype):
    """Returns (hkt_type, how many of them one element has, whether these can be reduced). Types that Hocket does not
    have (float8, quantized numbers) are moved as bytes."""
    kind = _KINDS.get(dtype)
    if kind is None:
        kind = _KINDS[dtype] = (lib.HKT_UINT8, torch.empty(0, dtype=dtype).element_size(), False)
    return kind


def operator_of(reduce_op, dtype):
    """Returns the hkt_op for a constant of ReduceOp and elements of that dtype; None for PREMUL_SUM, which needs its
    factor."""
    _, multiple, reduces = kind_of(dtype)
    if not reduces:
        raise TypeError(f"hocket: elements of {dtype} can be moved, but not reduced. Convert them to float32 or bfloat16 before")
    operator = _OPERATORS.get(reduce_op.op)
    if operator is None and reduce_op.op != ReduceOp.RedOpType.PREMUL_SUM:
        raise ValueError(f"hocket: there is no operator {reduce_op.op}")
    if multiple > 1 and operator is not None and operator not in _OF_COMPLEX:
        raise TypeError(f"hocket: {reduce_op.op} of {dtype} does not exist: complex numbers have sums and averages")
    return _OF_BOOL.get(operator, operator) if dtype is torch.bool else operator


def factor_of(reduce_op):
    """Returns the factor of a PREMUL_SUM, which torch shows only in its pickled form."""
    state = reduce_op.__getstate__()
    if not isinstance(state, tuple):
        raise ValueError("hocket: this version of torch does not tell the factor of PREMUL_SUM. Multiply the input and use SUM")
    return float(state[1])
