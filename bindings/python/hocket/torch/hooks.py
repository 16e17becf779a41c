"""Hooks for DistributedDataParallel: averages that Hocket takes, and sparse sums.

    model = DistributedDataParallel(model)
    hocket.torch.ddp_hook(model)                       # or
    hook = hocket.torch.sparse_hook(model, density=0.01)
"""
from torch._C import _distributed_c10d as c10d
from torch.distributed import ReduceOp

from hocket._native import ffi, lib
from hocket.state import FLIGHT

from .future import of_one_tensor
from .memory import Memory
from .work import Work


def _group_of(model):
    group = model.process_group
    if not hasattr(group, "_communicator"):
        raise TypeError(f"hocket: this model's process group is of {type(group)}. Give DistributedDataParallel one of the backend hocket")
    return group


def _average(group, bucket):
    tensor = bucket.buffer()
    options = c10d.AllreduceOptions()
    options.reduceOp = ReduceOp.AVG
    work = group._reduce_bucket(tensor, Memory([tensor], True, True), options, bucket.is_last())
    return of_one_tensor(work.get_future(), tensor)


def ddp_hook(model):
    """Has the average of a DistributedDataParallel's gradients taken by Hocket, as part of the sum: exact sums are divided once, where torch
    divides each rank's gradients before they are added."""
    model.register_comm_hook(_group_of(model), _average)


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
        flight, address = ffi.new(FLIGHT), ffi.cast("void *", tensor.data_ptr())
        try:
            communicator.call("all_reduce", lambda _: lib.hkt_plan_start(plan._handle, address, address, tensor.numel(), flight))
            work = Work(communicator, flight, "all_reduce", None, (tensor, plan), None, [tensor])
            return of_one_tensor(work.get_future(), tensor)
        except BaseException:
            if flight[0]:  # Ctrl-C has come before somebody had the request: what it uses must stay
                communicator.state.orphans.append((flight, (tensor, plan)))
            raise

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
