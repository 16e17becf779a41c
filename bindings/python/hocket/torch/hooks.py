"""Hooks for DistributedDataParallel: its buckets reduced where they are, or sparsely.

    model = DistributedDataParallel(model)
    hocket.torch.ddp_hook(model)                       # or
    hook = hocket.torch.sparse_hook(model, density=0.01)
"""
from torch._C import _distributed_c10d as c10d
from torch.distributed import ReduceOp

import hocket
from hocket._native import ffi, lib

from .future import of_one_tensor
from .memory import Memory
from .work import Work


def _group_of(model):
    group = model.process_group
    if not hasattr(group, "_communicator"):
        raise TypeError(f"hocket: this model's process group is of {type(group)}. Give DistributedDataParallel one of the backend hocket")
    return group


class _Buckets:
    """The memory of a model's buckets, as memory that the ranks of a host share: so none of them copies.

    Registered memory must not be freed, and a registration keeps its bucket. DistributedDataParallel makes other buckets once, after
    the first step."""

    def __init__(self, group):
        self.group, self._shared = group, {}  # by the bucket's index: (address, elements, registration)

    def take(self, bucket):
        tensor, index = bucket.buffer(), bucket.index()
        where = (tensor.data_ptr(), tensor.numel())
        if self._shared.get(index, (None,))[0] != where:
            self._drop(index)
            try:
                shared = self.group._communicator.comm.register(tensor)
            except hocket.Error:  # memory of another kind: it goes by copy, as before
                shared = None
            else:
                self.group._communicator.closing.append(shared)
            self._shared[index] = (where, shared)
        if bucket.is_last():
            for other in [i for i in self._shared if i > index]:
                self._drop(other)
        return tensor

    def _drop(self, index):
        _, shared = self._shared.pop(index, (None, None))
        if shared is not None:
            self.group._communicator.closing.remove(shared)
            shared.close()


def _average(buckets, bucket):
    tensor = buckets.take(bucket)
    options = c10d.AllreduceOptions()
    options.reduceOp = ReduceOp.AVG
    memory = Memory([tensor], True, True)
    work = buckets.group._collective("all_reduce", memory, memory, tensor.numel(), tensor, options, [tensor], reduces=True)
    return of_one_tensor(work.get_future(), tensor)


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
        self.group, self.schedule = group, schedule
        self._plans = {}  # by the bucket's index: (plan, elements)

    def _plan(self, index, tensor):
        communicator = self.group._communicator
        plan, count = self._plans.get(index, (None, 0))
        if plan is None:
            plan = communicator.comm.plan("all_reduce", str(tensor.dtype).partition(".")[2], "sum", schedule=self.schedule)
            communicator.closing.append(plan)
        elif count != tensor.numel():
            plan.reset_state()
        self._plans[index] = (plan, tensor.numel())
        return plan

    def start(self, bucket):
        communicator, tensor = self.group._communicator, bucket.buffer()
        plan = self._plan(bucket.index(), tensor)
        tensor.div_(self.group.size())
        slot, address = ffi.new("hkt_request **"), ffi.cast("void *", tensor.data_ptr())
        communicator.call(lib.hkt_plan_start, plan._handle, address, address, tensor.numel(), slot)
        work = Work(communicator, slot[0], "all_reduce", None, (tensor, plan), None, [tensor])
        return of_one_tensor(work.get_future(), tensor)

    def state_dict(self):
        """What this rank has not sent yet: for each bucket its elements, and bytes. Save it with the model, on every rank."""
        return {index: (count, plan.save_state()) for index, (plan, count) in self._plans.items()}

    def load_state_dict(self, all_ranks):
        """all_ranks: the state_dict() of all ranks that have saved, in any order; there may be more or fewer ranks now. To be called after
        the second step, once the buckets are those that the states are of."""
        for index, (plan, count) in self._plans.items():
            had = sorted({saved[index][0] for saved in all_ranks})
            if had != [count]:
                raise ValueError(f"hocket: bucket {index} has {count} elements now, and had {had} when it was saved. Load after the second "
                                 "step, and with the same model and bucket_cap_mb")
            plan.load_state([saved[index][1] for saved in all_ranks])


def _sum_sparsely(hook, bucket):
    return hook.start(bucket)


def sparse_hook(model, density=0.01, schedule=None):
    """Has the gradients of a DistributedDataParallel added up sparsely, with error feedback. By default hitopk where the group has two levels
    of ranks (hosts, or a declared topology), and naive_ag where it has one."""
    group = _group_of(model)
    if schedule is None:
        levels = group._communicator.comm.info("topology").count("x") + 1
        schedule = f"{'hitopk' if levels == 2 else 'naive_ag'}({density})"
    hook = SparseHook(group, schedule)
    model.register_comm_hook(hook, _sum_sparsely)
    return hook
