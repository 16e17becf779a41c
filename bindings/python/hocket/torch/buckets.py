"""DistributedDataParallel's buckets in memory that the ranks of a host share, so that none of them copies.

A bucket is reduced in every step, lies in one place as long as its model lives, and is never resized, so it is worth to be registered
(hkt_mem_register), and can be. Of other tensors a process group does not know that. Registered memory must not be freed: so a second
tensor of the same memory is kept here, and goes when the bucket itself has gone.
"""
import sys

import torch

import hocket

LEAST = 1 << 16  # bytes, below which a copy costs less
AT_THE_END = 50  # milliseconds that a pass waits with its last bucket
_USES = 3        # DistributedDataParallel makes other buckets after the first step
_AUTOGRAD = torch.autograd.__file__.rpartition("/")[0]


def called_by_backward():
    """Whether the caller's caller is C++ in a backward pass: then it is DistributedDataParallel, and what it reduces is a bucket. Python's
    innermost frame is that of torch's function that runs the pass."""
    frame = sys._getframe(1).f_back
    if frame is None:  # a thread of C++
        return False
    code = frame.f_code
    return code.co_name in ("_engine_run_backward", "backward") and code.co_filename.startswith(_AUTOGRAD)


class _Bucket:
    __slots__ = ("weak", "elements", "uses", "registration")

    def __init__(self, tensor):
        self.weak, self.elements = torch._C._WeakTensorRef(tensor), tensor.numel()
        self.uses, self.registration = 0, None


class Buckets:
    """of one communicator, by their addresses. closing: the list of what is to be closed before it."""

    def __init__(self, comm, closing):
        self._comm, self._closing, self._known = comm, closing, {}
        self._step, self._before, self._last = set(), 0, 0  # addresses: of this pass, the one before, the one that ended the pass before

    def is_last(self, tensor):
        """Whether the backward pass that asked last ended with this bucket: then this one, too, has nothing left to do but to wait."""
        address = tensor.data_ptr()
        if address in self._step:
            self._last, self._step = self._before, set()
        self._step.add(address)
        self._before = address
        return address == self._last

    def see(self, tensor):
        """To be called when a bucket is about to be reduced: nobody writes to it now."""
        for address in [a for a, bucket in self._known.items() if bucket.weak.expired()]:
            self._drop(address)
        address = tensor.data_ptr()
        bucket = self._known.get(address)
        if bucket is None or bucket.elements != tensor.numel():
            self._drop(address)
            bucket = self._known[address] = _Bucket(tensor)
        bucket.uses += 1
        if bucket.uses == _USES:
            self._register(bucket, tensor)

    def _register(self, bucket, tensor):
        try:
            bucket.registration = self._comm.register(tensor.detach())  # which keeps that second tensor
        except hocket.Error:
            return  # memory of another kind, such as a file's: it goes by copy, as before
        self._closing.append(bucket.registration)

    def _drop(self, address):
        bucket = self._known.pop(address, None)
        if bucket is not None and bucket.registration is not None:
            self._closing.remove(bucket.registration)
            bucket.registration.close()
