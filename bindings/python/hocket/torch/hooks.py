"""Hooks for DistributedDataParallel: averages that Hocket takes, sparse sums, and sums that travel in fewer bits.

    model = DistributedDataParallel(model)
    hocket.torch.ddp_hook(model)                           # or
    hook = hocket.torch.sparse_hook(model, density=0.01)   # or
    hook = hocket.torch.quantised_hook(model, format="int8")
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch._C import _distributed_c10d as c10d
from torch.distributed import ReduceOp
from torch.nn.parallel import DistributedDataParallel

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


def ddp_hook(model: DistributedDataParallel) -> None:
    """Makes Hocket average the gradients of a DistributedDataParallel as part of the sum: exact sums are divided once,
    whereas torch divides each rank's gradients before they are added."""
    model.register_comm_hook(_group_of(model), _average)


class _Bucket:
    """A plan, and the parameters whose gradients it sums: they are kept alive so that their ids stay unique."""

    def __init__(self, parameters, plan, dtype, index):
        self.parameters, self.plan, self.dtype, self.index = parameters, plan, dtype, index
        self.has_state = False


class SparseHook:
    """Sums only the largest gradients, or all in fewer bits. A rank keeps the rest, and adds it to the next step's
    gradients.

    schedule    one of those of sparse.md or quantised.md, with its arguments; it may keep states, but take no parameters
    names       of the parameters, by their ids: state_dict() has them

    The kept gradients belong to the parameters of a bucket. DistributedDataParallel makes other buckets after its first
    step, in which therefore nothing is kept: the first gradient of each parameter is sent whole.
    """

    def __init__(self, group: Any, schedule: str, names: dict[int, str] | None = None) -> None:
        self.group, self.schedule = group, schedule
        self._names = names or {}
        self._seen: dict[int, Any] = {}     # ids of parameters that have had their first step
        self._buckets: dict[Any, _Bucket] = {}  # by their parameters' ids and type

    def _plan(self, bucket, tensor):
        parameters = list(bucket.parameters())
        key = (tensor.dtype, *map(id, parameters))
        known = self._buckets.get(key)
        if known is None:
            self._check_new(bucket.index(), parameters, tensor.dtype)
            communicator = self.group._communicator
            plan = communicator.comm.plan("all_reduce", str(tensor.dtype).partition(".")[2], "sum", schedule=self.schedule)
            communicator.closing.append(plan)
            known = self._buckets[key] = _Bucket(parameters, plan, tensor.dtype, bucket.index())
        known.index, known.has_state = bucket.index(), True
        return known.plan

    def _check_new(self, index, parameters, dtype):
        mine = set(map(id, parameters))
        for other in self._buckets.values():
            if mine & set(map(id, other.parameters)):
                raise RuntimeError(
                    f"hocket: bucket {index} ({dtype}) has parameters of what was bucket {other.index} ({other.dtype}), whose sums have "
                    "kept gradients that were not sent yet: they would be lost. A sparse hook takes other buckets, or another type, "
                    "after the first step alone: make another DistributedDataParallel, and a hook for it")

    def _is_first(self, bucket):
        new = [parameter for parameter in bucket.parameters() if id(parameter) not in self._seen]
        self._seen.update((id(parameter), parameter) for parameter in new)
        return bool(new)

    def start(self, bucket):
        if self._is_first(bucket):
            return _average(self.group, bucket)
        communicator, tensor = self.group._communicator, bucket.buffer()
        plan = self._plan(bucket, tensor)
        tensor.div_(self.group.size())
        flight, (address, count, _, _) = ffi.new(FLIGHT), plan._array(tensor, "the bucket", True)
        try:
            communicator.call("all_reduce", lambda _: lib.hkt_plan_start(plan._handle, address, address, count, flight))
            work = Work(communicator, flight, "all_reduce", None, (tensor, plan), None, [tensor])
            return of_one_tensor(work.get_future(), tensor)
        except BaseException:
            if flight[0]:  # Ctrl-C came before the request was stored: its objects must stay alive
                communicator.state.orphans.append((flight, (tensor, plan)))
            raise

    def _describe(self, one):
        names = tuple(self._names.get(id(parameter), "?") for parameter in one.parameters)
        return names, str(one.dtype), sum(parameter.numel() for parameter in one.parameters)

    def state_dict(self) -> dict[int, tuple[Any, ...]]:
        """Returns the gradients that this rank has not sent yet: for each bucket its parameters' names, type, elements,
        and bytes. Save it with the model, on every rank."""
        return {one.index: (*self._describe(one), one.plan.save_state()) for one in self._buckets.values() if one.has_state}

    def load_state_dict(self, all_ranks: Sequence[dict[int, tuple[Any, ...]]]) -> None:
        """all_ranks: a list of the state_dict() of all ranks that have saved, in any order; the number of ranks may
        differ now. Call this after the second step, when the buckets exist that the states belong to."""
        if not isinstance(all_ranks, (list, tuple)) or not all(isinstance(states, dict) for states in all_ranks):
            raise TypeError("hocket: load_state_dict takes a list of the state_dict() of every rank that has saved: gather them "
                            "(all_gather_object), or load what every rank has saved")
        if all_ranks and not any(all_ranks):  # saved before there were any unsent gradients
            for one in self._buckets.values():
                one.plan.reset_state()
                one.has_state = False
            return
        found = []
        for one in self._buckets.values():
            wanted = self._describe(one)
            saved = [entry[-1] for states in all_ranks for entry in states.values() if tuple(entry[:-1]) == wanted]
            if len(saved) != len(all_ranks):
                names, dtype, count = wanted
                raise ValueError(f"hocket: bucket {one.index}, of {count} elements of {dtype} ({', '.join(names)}), is not in the states of "
                                 f"{len(all_ranks) - len(saved)} of {len(all_ranks)} ranks. Load after the second step, and with the same "
                                 "model and bucket_cap_mb")
            found.append((one, saved))
        if not found:
            raise ValueError("hocket: there are no buckets yet that a state could belong to: load after the second step")
        for one, saved in found:
            one.plan.load_state(saved)
            one.has_state = True


def _sum_sparsely(hook, bucket):
    return hook.start(bucket)


def sparse_hook(model: DistributedDataParallel, density: float = 0.01, schedule: str | None = None) -> SparseHook:
    """Makes the gradients of a DistributedDataParallel be summed sparsely, with error feedback. By default uses hitopk
    if the group has two levels of ranks (hosts, or a declared topology), and naive_ag if it has one. With many ranks or
    hosts, schedule="oktopk(0.01)" or "oktopk_hosts(0.01)" sends less."""
    return _hook_of(model, schedule, f"hitopk({density})", f"naive_ag({density})")


def quantised_hook(model: DistributedDataParallel, format: str = "int8") -> SparseHook:
    """Makes the gradients of a DistributedDataParallel travel in fewer bits, with error feedback. format: bfloat16,
    float16, float8, int8, int4 or sign, also "int8(64)" with 64 elements to a scale. Uses quantised_hosts, in which only
    what goes between hosts is narrower, if the group has two levels of ranks, and quantised if it has one; sparse_hook
    takes these by name, too. Raises hocket.Error if there is no such format."""
    return _hook_of(model, None, f"quantised_hosts({format})", f"quantised({format})")


def _hook_of(model, schedule, of_two_levels, of_others):
    group = _group_of(model)
    if schedule is None:
        levels = group._communicator.comm.info("topology").count("x") + 1
        schedule = of_two_levels if levels == 2 else of_others
    group._communicator.comm.plan("all_reduce", "float32", "sum", schedule=schedule).close()  # refuses a wrong one here
    names = {id(parameter): name for name, parameter in model.module.named_parameters()}
    hook = SparseHook(group, schedule, names)
    model.register_comm_hook(hook, _sum_sparsely)
    return hook
