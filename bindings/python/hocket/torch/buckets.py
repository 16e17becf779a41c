"""DistributedDataParallel's buckets in memory that the ranks of a host share, so that none of them copies.

A bucket is reduced in every step, stays in one place as long as its model lives, and is never resized, so registering
it (hkt_mem_register) is possible and pays off. For other tensors a process group does not know that. Registered memory
must not be freed: so a second tensor of the same memory is kept here, and dropped after the bucket itself.
"""
import sys

import torch

import hocket

LEAST = 1 << 16  # bytes; below this a copy costs less
AT_THE_END = 50  # milliseconds that a pass waits for its last bucket
_USES = 3        # DistributedDataParallel makes other buckets after the first step
_AUTOGRAD = torch.autograd.__file__.rpartition("/")[0]


def called_by_backward():
    """Returns True if the caller's caller is C++ in a backward pass: then it is DistributedDataParallel, and the tensor
    is a bucket. Python's innermost frame is that of torch's function that runs the pass."""
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
    """The buckets of one communicator, by their addresses. closing: the list of objects to be closed before it."""

    def __init__(self, comm, closing):
        self._comm, self._closing, self._known = comm, closing, {}
        self._step, self._before, self._last = set(), 0, 0  # addresses: of this pass, of the previous one, and the bucket that ended the previous pass

    def is_last(self, tensor):
        """Returns True if the last backward pass ended with this bucket: then this pass, too, can only wait after
        it."""
        address = tensor.data_ptr()
        if address in self._step:
            self._last, self._step = self._before, set()
        self._step.add(address)
        self._before = address
        return address == self._last

    def see(self, tensor):
        """Call this when a bucket is about to be reduced, because it is not written to then."""
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
            bucket.registration = self._comm.register(tensor.detach())  # keeps that second tensor
        except hocket.Error:
            return  # memory of another kind, such as a file's: it is copied, as before
        self._closing.append(bucket.registration)

    def _drop(self, address):
        bucket = self._known.pop(address, None)
        if bucket is not None and bucket.registration is not None:
            self._closing.remove(bucket.registration)
            bucket.registration.close()
