"""Makes a plan's batches the buckets of DistributedDataParallel.

    ddp = hocket.torch.planned_ddp(model, plan)

From torch 2.11 on DistributedDataParallel takes a list of sizes, bucket_cap_mb_list, and that is what it is given.
Before, it has one size, and one for the first bucket. But it makes its buckets twice, and the second time rank 0 tells
its own to the others by its process group. That is done here at once, and what is told is the plan.
"""
from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel

from hocket import overlap

_MIB = 1 << 20
TAKES_A_LIST = "bucket_cap_mb_list" in inspect.signature(DistributedDataParallel.__init__).parameters
_CAN_CHANGE_GROUPS = hasattr(c10d.Reducer, "_update_process_group")
_SETS_A_SIZE = ("bucket_cap_mb", "bucket_cap_mb_list")


def bytes_of(parameter):
    return parameter.numel() * parameter.element_size()


def trained_parameters(module):
    """Returns the parameters that DistributedDataParallel reduces, by name, in their order."""
    ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
    return {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad and name not in ignored}


def bucket_sizes(plan: overlap.Plan | Sequence[Sequence[int]],
                 layers: Iterable[int | torch.Tensor | Sequence[torch.Tensor]]) -> list[int]:
    """Returns a plan's bucket sizes, in bytes, in the order in which DistributedDataParallel fills them: the model's
    last layers first.

    plan    a hocket.overlap.Plan, or its batches of layers, such as [range(0, 3), range(3, 7)]
    layers  for each of the plan's layers, the model's first one first: its bytes, a parameter, or a list of parameters
    """
    return overlap.bucket_sizes(plan, [_layer_bytes(layer) for layer in layers])


def _layer_bytes(layer):
    if isinstance(layer, torch.Tensor):
        return bytes_of(layer)
    return sum(map(bytes_of, layer)) if isinstance(layer, (list, tuple)) else layer


def planned_ddp(module: torch.nn.Module, plan: overlap.Plan | Iterable[int], **keywords: Any) -> DistributedDataParallel:
    """Returns a DistributedDataParallel of the module whose buckets are those of a plan.

    plan        a hocket.overlap.Plan for the backward pass. Its layers are named like the module's parameters, as those of measure_profile are,
                or like modules: then all parameters of that module are the layer. Or sizes of buckets in bytes, as of
                bucket_sizes
    keywords    further arguments of DistributedDataParallel
    """
    for name in _SETS_A_SIZE:
        if keywords.get(name) is not None:
            raise ValueError(f"hocket: {name} is given, and the plan says how large the buckets are. Leave one of them out")
    parameters = trained_parameters(module)
    _refuse_what_has_buckets_of_its_own(module, parameters)
    buckets = _by_plan(plan, parameters) if isinstance(plan, overlap.Plan) else _by_sizes(plan, parameters)
    never_again = keywords.get("find_unused_parameters", False) and not keywords.get("static_graph", False)
    if not TAKES_A_LIST:
        if never_again:
            raise RuntimeError(f"hocket: with find_unused_parameters=True torch {torch.__version__} offers no way to choose buckets. Use torch 2.11 or "
                               "later, or static_graph=True, or leave it out")
        _refuse_another_way(keywords.get("process_group"))
        return _Planned(module, buckets, **keywords)
    sizes = [sum(bytes_of(parameters[name]) for name in bucket) for bucket in buckets]
    if never_again:  # the buckets of the first step stay, and are made beginning with the first parameter
        _refuse_another_order(buckets, parameters)
        sizes.reverse()
    return DistributedDataParallel(module, bucket_cap_mb_list=[size / _MIB for size in sizes], **keywords)


# ---- Which parameters are in which bucket ---------------------------------------------------------------------------

def _refuse_what_has_buckets_of_its_own(module, parameters):
    if not parameters:
        raise ValueError("hocket: the module has no parameters that are trained")
    kinds = sorted({f"{parameter.dtype} on {parameter.device}" for parameter in parameters.values()})
    if len(kinds) > 1:
        raise ValueError(f"hocket: the parameters are {' and '.join(kinds)}. DistributedDataParallel has buckets for each of these, which a plan "
                         "does not know: use bucket_cap_mb")
    for name, one in module.named_modules():
        if isinstance(one, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and one.sparse and one.weight.requires_grad:
            raise ValueError(f"hocket: the gradients of {name or 'the module'} are sparse. DistributedDataParallel reduces them by themselves, which a "
                             "plan does not know: use sparse=False")


def _by_plan(plan, parameters):
    """Returns lists of names, in the order of the buckets."""
    if not plan.backward:
        raise ValueError("hocket: the plan is one for the forward pass. Gradients are reduced in the backward pass: hocket.overlap.plan(profile, "
                         "backward=True)")
    layers = {}
    for i, name in enumerate(plan.names):
        if layers.setdefault(name, i) != i:
            raise ValueError(f"hocket: layers {layers[name]} and {i} of the plan are both called {name!r}. Names must be those of parameters or modules")
    members = {}
    for name in reversed(list(parameters)):
        layer = name
        while layer and layer not in layers:
            layer = layer.rpartition(".")[0]
        if not layer:
            raise ValueError(f"hocket: the plan has no layer for the parameter {name!r}: none is named after it or after a module that contains it. Plan with a profile of this module "
                             "(hocket.torch.measure_profile), or give sizes (hocket.torch.bucket_sizes)")
        members.setdefault(layers[layer], []).append(name)
    buckets = [[name for layer in batch for name in members.get(layer, ())] for batch in plan.in_time]
    return [bucket for bucket in buckets if bucket]


def _by_sizes(sizes, parameters):
    """Works as torch does: a bucket is closed when it has this many bytes, and the last size holds for all that
    follow."""
    sizes = list(sizes)
    if not sizes or not all(isinstance(size, int) and size > 0 for size in sizes):
        raise ValueError(f"hocket: {sizes} are given in the place of a plan, and must be sizes of buckets: whole numbers of bytes above 0")
    buckets, have = [[]], 0
    for name in reversed(list(parameters)):
        if buckets[-1] and have >= sizes[min(len(buckets), len(sizes)) - 1]:
            buckets.append([])
            have = 0
        buckets[-1].append(name)
        have += bytes_of(parameters[name])
    return buckets


def _refuse_another_order(buckets, parameters):
    order = {name: i for i, name in enumerate(reversed(list(parameters)))}
    until = 0
    for bucket in buckets:
        until += len(bucket)
        for name in bucket:
            if order[name] >= until:
                raise ValueError("hocket: with find_unused_parameters=True buckets have parameters in the module's order, and the plan wants "
                                 f"{name!r} earlier. Leave find_unused_parameters out, or add static_graph=True")


# ---- Before torch 2.11 ----------------------------------------------------------------------------------------------

class _Told:
    """The data that a reducer broadcasts in its group when it rebuilds its buckets: the indices of parameters, one
    bucket after another, followed by the number of buckets; and how many parameters each bucket has. All ranks then use
    rank 0's data."""

    def __init__(self, buckets):
        self._messages = [[index for bucket in buckets for index in bucket] + [len(buckets)], [len(bucket) for bucket in buckets]]

    def put(self, tensors):
        numbers = self._messages.pop(0) if self._messages else []
        if tensors[0].numel() == len(numbers):  # otherwise rank 0 has a different plan, or torch broadcasts something else: the buckets are checked later
            tensors[0].copy_(torch.tensor(numbers, dtype=tensors[0].dtype))


class _Passing(c10d.ProcessGroup):
    """A C++ process group for a reducer, so that Python sees its broadcasts. told: data to broadcast instead, or
    None."""

    def __init__(self, group):
        c10d.ProcessGroup.__init__(self, group.rank(), group.size())
        self._group, self.told = group, None

    def allreduce(self, tensors, options):
        return self._group.allreduce(tensors, options)

    def broadcast(self, tensors, options):
        if self.told is not None:
            self.told.put(tensors)
        return self._group.broadcast(tensors, options)

    def getBackendName(self):
        return f"{self._group.name()} by way of hocket"  # with the name alone, torch's logger takes this for the C++ object, and reads its members


def _is_python(group):
    return inspect.isfunction(type(group).broadcast)


def _refuse_another_way(group):
    """For torch 2.0 and 2.1: a reducer asks its group for C++ parts that a Python group does not have, and keeps the
    group that it was given."""
    if torch.__version__.startswith("1.") or _CAN_CHANGE_GROUPS or _is_python(group or torch.distributed.group.WORLD):
        return
    raise RuntimeError(f"hocket: torch {torch.__version__} offers no way to choose buckets with a backend of C++, such as gloo. Use torch 2.11 or "
                       "later, or the backend hocket")


class _Planned(DistributedDataParallel):
    """buckets: lists of names of parameters."""

    def __init__(self, module, buckets, **keywords):
        self.__dict__.update(_buckets=buckets, _passing=None)  # before nn.Module is initialized
        super().__init__(module, **keywords)
        self._make_buckets()

    def __getstate__(self):
        return {name: value for name, value in super().__getstate__().items() if name not in ("_passing", "_reduced")}

    def __setstate__(self, state):
        self.__dict__["_passing"] = None
        super().__setstate__(state)
        self._make_buckets()

    def _ddp_init_helper(self, parameters, *others, **named):
        group = self.process_group
        self.__dict__["_reduced"] = list(parameters)
        if not _is_python(group) and not _CAN_CHANGE_GROUPS:  # the reducer keeps this group
            self.process_group = self.__dict__["_passing"] = _Passing(group)
        try:
            super()._ddp_init_helper(parameters, *others, **named)
        finally:
            self.process_group = group

    def _make_buckets(self):
        indices = {id(parameter): i for i, parameter in enumerate(self._reduced)}
        parameters = trained_parameters(self.module)
        wanted = [[indices[id(parameters[name])] for name in bucket] for bucket in self._buckets]
        with self._telling(_Told(wanted)):
            self.reducer._push_all_rebuilt_params()
            self.reducer._rebuild_buckets()
        made = [[indices.get(id(parameter)) for parameter in bucket.parameters()] for bucket in self.reducer._get_zeros_like_grad_buckets()]
        if made != wanted:
            raise RuntimeError(f"hocket: rank {self.process_group.rank()} has buckets of {_counts(made)} parameters, and its plan has {_counts(wanted)}. Either "
                               f"rank 0 has another plan: broadcast one; or torch {torch.__version__} makes buckets in another way: use torch 2.11 or later")

    @contextlib.contextmanager
    def _telling(self, told):
        group = self.process_group
        if _is_python(group):
            broadcast = group.broadcast

            def telling(tensors, options):
                told.put(tensors)
                return broadcast(tensors, options)

            group.broadcast = telling  # only for this object
            try:
                yield
            finally:
                del group.broadcast
            return
        passing = self._passing or _Passing(group)
        passing.told = told
        if self._passing is None:
            self.reducer._update_process_group(passing)
        try:
            yield
        finally:
            passing.told = None
            if self._passing is None:
                self.reducer._update_process_group(group)


def _counts(buckets):
    return ", ".join(str(len(bucket)) for bucket in buckets)
