"""Hooks for DistributedDataParallel: its buckets reduced where they are, or sparsely.

    model = DistributedDataParallel(model)
    hocket.torch.ddp_hook(model)                       # or
    hook = hocket.torch.sparse_hook(model, density=0.01)
"""
from torch._C import _distributed_c10d as c10d
from torch.distributed import ReduceOp

from hocket._native import ffi, lib

from .elements import kind_of
from .memory import Memory
from .work import Work


def _group_of(model):
    group = model.process_group
    if not hasattr(group, "_communicator"):
        raise TypeError(f"hocket: this model's process group is of {type(group)}. Give DistributedDataParallel one of the backend hocket")
    return group


class _Buckets:
    """The memory of a model's buckets, as memory that the ranks of a host share: so none of them copies.

    Registered memory must not be freed, so this holds the buckets. DistributedDataParallel makes others once, after the first step."""

    def __init__(self, group):
        self.group, self._communicator, self._tensors = group, group._communicator, {}

    def take(self, bucket):
        tensor, index = bucket.buffer(), bucket.index()
        known = self._tensors.get(index)
        if known is None or known.data_ptr() != tensor.data_ptr() or known.numel() != tensor.numel():
            self._drop(index)
            self._communicator.share(tensor)
            self._tensors[index] = tensor
        if bucket.is_last():
            for other in [i for i in self._tensors if i > index]:
                self._drop(other)
        return tensor

    def _drop(self, index):
        tensor = self._tensors.pop(index, None)
        if tensor is not None:
            self._communicator.unshare(tensor)

    def __del__(self):
        for index in list(self._tensors):
            self._drop(index)


def _average(buckets, bucket):
    tensor = buckets.take(bucket)
    options = c10d.AllreduceOptions()
    options.reduceOp = ReduceOp.AVG
    memory = Memory([tensor], True, True)
    return buckets.group._collective("all_reduce", memory, memory, tensor.numel(), tensor, options, tensor, reduces=True).get_future()


def ddp_hook(model):
    """Reduces the buckets of a DistributedDataParallel in place: the ranks of a host work on each other's. The average is taken by Hocket,
    which saves a pass over the gradients."""
    model.register_comm_hook(_Buckets(_group_of(model)), _average)


class SparseHook:
    """Sums of the largest gradients alone. What a rank does not send it keeps, and adds to the next step's.

    schedule    one of those of sparse.md, with its arguments; it may keep states, but take no parameters
    Plans, and so what is kept, are for buckets: they begin anew when DistributedDataParallel makes other buckets, after its first step.
    """

    def __init__(self, group, schedule):
        self.group, self.schedule, self._communicator = group, schedule, group._communicator
        self._plans = {}  # by the bucket's index: (plan, elements)

    def _plan(self, index, tensor):
        plan, count = self._plans.get(index, (None, 0))
        if plan is None:
            text = ffi.new("char[]", self.schedule.encode())
            options = ffi.new("hkt_plan_options *", {"size": ffi.sizeof("hkt_plan_options"), "schedule": text})
            plan = self._communicator.plan(lib.HKT_ALL_REDUCE, kind_of(tensor.dtype)[0], lib.HKT_SUM, options)
        elif count != tensor.numel():
            self._communicator.must(lib.hkt_plan_reset_state(plan))
        self._plans[index] = (plan, tensor.numel())
        return plan

    def __call__(self, _, bucket):
        tensor = bucket.buffer()
        plan = self._plan(bucket.index(), tensor)
        tensor.div_(self.group.size())
        slot, address = ffi.new("hkt_request **"), ffi.cast("void *", tensor.data_ptr())
        self._communicator.must(lib.hkt_plan_start(plan, address, address, tensor.numel(), slot))
        return Work(self._communicator, slot[0], "all_reduce", None, tensor, None, tensor).get_future()

    def state_dict(self):
        """What this rank has not sent yet: bytes for each bucket. Save it with the model, on every rank."""
        saved = {}
        for index, (plan, count) in self._plans.items():
            size = ffi.new("size_t *")
            self._communicator.must(lib.hkt_plan_save_state(plan, ffi.NULL, 0, size))
            memory = bytearray(size[0])
            self._communicator.must(lib.hkt_plan_save_state(plan, ffi.from_buffer(memory), len(memory), size))
            saved[index] = (count, bytes(memory))
        return saved

    def load_state_dict(self, all_ranks, model):
        """all_ranks: state_dict() of all ranks that have saved, in any order; there may be more or fewer ranks now. After the second step at
        the earliest, once the buckets are those that the states are of."""
        for index, (plan, count) in self._plans.items():
            states = [saved[index] for saved in all_ranks]
            if any(one != count for one, _ in states):
                raise ValueError(f"hocket: bucket {index} has {count} elements now, and had {sorted({one for one, _ in states})} when it was saved")
            memories = [ffi.from_buffer(state) for _, state in states]
            self._communicator.must(lib.hkt_plan_load_state(
                plan, ffi.new("void *[]", memories), ffi.new("size_t[]", [len(memory) for memory in memories]), len(memories)))


def sparse_hook(model, density=0.01, schedule=None):
    """Has the gradients of a DistributedDataParallel added up sparsely, with error feedback. By default hitopk where the group has two levels
    of ranks (hosts, or a declared topology), and naive_ag where it has one."""
    group = _group_of(model)
    if schedule is None:
        topology = ffi.string(lib.hkt_comm_info(group._communicator.handle, b"topology")).decode()
        schedule = f"{'hitopk' if topology.count('x') == 1 else 'naive_ag'}({density})"
    hook = SparseHook(group, schedule)
    model.register_comm_hook(None, hook)
    return hook
