"""Sums sparse tensors: every rank gathers the elements of all, and adds them up."""
import zlib

import torch
from torch._C import _distributed_c10d as c10d

# The indices summed here come from torch and need no check; without this argument torch 2 would warn that it checks nothing.
_UNCHECKED = {"check_invariants": False} if hasattr(torch.sparse, "check_sparse_tensor_invariants") else {}


class Finished(c10d.Work):
    """A work that has already ended when it is made."""

    def __init__(self, result):
        super().__init__()
        self._result = result

    def wait(self, timeout=None):
        return True

    def is_completed(self):
        return True

    is_success = is_completed

    def exception(self):
        return None

    def when_ended(self, function):
        function()

    def tell_end(self, function):
        function(self._result, None)

    def result(self):
        return self._result

    def get_future(self):
        future = torch.futures.Future()
        future.set_result(self._result)
        return future


def _counts(group, count, tensor):
    """Returns the number of elements of each rank. Refuses tensors of other shapes, on all ranks, because their indices
    could lie outside this one; and of other types, because their values could not be gathered."""
    form = f"of {tensor.dtype} and {tuple(tensor.shape)} with {tensor.sparse_dim()} sparse dimensions"
    said = [torch.zeros(2, dtype=torch.int64) for _ in range(group.size())]
    group.allgather([said], [torch.tensor([count, zlib.crc32(form.encode())])]).wait()
    counts, forms = zip(*(x.tolist() for x in said))
    others = [rank for rank, other in enumerate(forms) if other != forms[group.rank()]]
    if others:
        raise ValueError(f"hocket: all_reduce: this rank's sparse tensor is {form}, and those of the ranks {others} are not")
    return counts


def _gather(group, tensor, counts):
    """Gathers the first dimensions of all ranks' tensors one after another; counts: each rank's number of rows."""
    pieces = [tensor.new_empty((count, *tensor.shape[1:])) for count in counts]
    group.allgather([pieces], [tensor]).wait()
    return torch.cat(pieces)


def all_reduce_sparse(group, tensor, opts):
    """Waits for the result, because the sizes are known only after a first round. The tensor becomes the sum,
    coalesced."""
    operators = c10d.ReduceOp.RedOpType
    if opts.reduceOp.op not in (operators.SUM, operators.AVG):
        raise ValueError("hocket: sparse tensors have sums and averages; convert the tensor with to_dense() for other operators")
    if not tensor.is_cpu or tensor.layout is not torch.sparse_coo:
        raise ValueError(f"hocket: sparse tensors are taken in COO layout, on the CPU, not {tensor.layout} on {tensor.device}")
    own = tensor.detach().coalesce()
    indices, values = own.indices().t().contiguous(), own.values().contiguous()
    counts = _counts(group, len(indices), own)
    indices = _gather(group, indices, counts).t()
    values = _gather(group, values, counts)
    total = torch.sparse_coo_tensor(indices, values, tensor.shape, **_UNCHECKED).coalesce()
    if opts.reduceOp.op == operators.AVG:
        total = total / group.size()
    with torch.no_grad():
        tensor.copy_(total)
    return Finished([tensor])
