"""Measures profiles of models for the planner of overlap (docs/overlap.md): when gradients are ready, and the cost of
their sums.

    profile = hocket.torch.measure_profile(model, lambda: loss(model(x), y).backward())
"""
from __future__ import annotations

import contextlib
import statistics
import time
from typing import Any, Callable

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hocket
from hocket import overlap

from .planned import bytes_of, trained_parameters

_LEAST, _MOST = 1 << 8, 1 << 25  # sizes of the measured all_reduces, in bytes
_SIZES = 9  # a third of them are short enough to show the start-up


def measure_profile(model: torch.nn.Module, step: Callable[[], Any], *, group: Any = None, steps: int = 10, warm_up: int = 3,
                    rounds: int = 9) -> overlap.Profile:
    """The profile of a model's backward pass: a layer for each parameter, named like it, in the opposite order of that in which gradients are ready.
    Call it on all ranks: of each time the slowest rank's counts, so all have the same profile, and make the same plan of it.

    model   a module, or a DistributedDataParallel, whose gradients are not reduced meanwhile
    step    a function that runs the model forward and backward once, without an optimizer: the ranks' weights would no longer be the same
    group   the process group that will reduce the gradients: by default the DistributedDataParallel's, or that of all ranks
    steps   how many are measured, after warm_up others; times are medians. Copies of the gradients are reduced meanwhile, as communication takes the processor's
            time, too
    rounds  how many all_reduces of each size are measured

    Gradients that there were before are changed, as by any step; those that there were not are None again.
    """
    is_ddp = isinstance(model, DistributedDataParallel)
    module = model.module if is_ddp else model
    group = group or (model.process_group if is_ddp else dist.group.WORLD)
    parameters = trained_parameters(module)
    _refuse(parameters, steps, rounds)
    sizes = [bytes_of(parameter) for parameter in parameters.values()]
    without = [parameter for parameter in parameters.values() if parameter.grad is None]
    with model.no_sync() if is_ddp else contextlib.nullcontext(), _Watch(module, parameters) as watch:
        for _ in range(warm_up):
            step()
        _refuse_what_never_comes(_slowest(watch.times_of(step, group), group), parameters)  # so that all ranks reduce equally often
        load = _Load(group, next(iter(parameters.values())).dtype, sum(sizes))
        samples = [watch.times_of(step, group, load) for _ in range(steps)]
    for parameter in without:
        parameter.grad = None
    ready = _slowest([statistics.median(times) for times in zip(*samples)], group)
    _refuse_what_never_comes(ready, parameters)
    startup, per_byte = _cost(group, load.whole, rounds)
    return _profile(list(parameters), sizes, ready, startup, per_byte)


def _refuse(parameters, steps, rounds):
    if not parameters:
        raise ValueError("hocket: the module has no parameters that are trained")
    for name, parameter in parameters.items():
        if parameter.device.type != "cpu":
            raise ValueError(f"hocket: {name} is on {parameter.device}. When a gradient is ready there, the processor does not know: only models of "
                             "the CPU can be measured")
    if steps < 1 or rounds < 1:
        raise ValueError(f"hocket: steps is {steps}, and rounds {rounds}: at least one of each must be measured")


def _refuse_what_never_comes(ready, parameters):
    missing = [name for name, seconds in zip(parameters, ready) if seconds == float("inf")]
    if missing:
        raise ValueError(f"hocket: on some rank {len(missing)} of {len(ready)} parameters got no gradient, {missing[0]!r} among them. A "
                         "plan is for passes that reach all parameters: does step() call the model, and backward()?")


def _profile(names, sizes, ready, startup, per_byte):
    """ready: when each parameter's gradient was ready, since the pass began."""
    layers, before = [], 0.0
    for i in sorted(range(len(names)), key=lambda i: (ready[i], -i)):  # the last ones come first
        layers.append(overlap.Layer(names[i], per_byte * sizes[i], ready[i] - before, sizes[i]))
        before = ready[i]
    return overlap.Profile(startup, reversed(layers))


def _slowest(values, group):
    tensor = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(tensor, dist.ReduceOp.MAX, group=group)
    return tensor.tolist()


class _Watch:
    """Records when the gradients of a module's parameters are ready, in seconds since the backward pass reached its
    outputs."""

    def __init__(self, module, parameters):
        self._module, self._parameters = module, list(parameters.values())
        self._began, self._ready, self._handles, self._nodes, self._load = None, {}, [], [], None

    def __enter__(self):
        self._handles.append(self._module.register_forward_hook(self._forward))
        for i, parameter in enumerate(self._parameters):
            node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]  # the node that adds to its gradient; DistributedDataParallel waits for the same one
            self._nodes.append(node)  # which lives as long as it is referenced
            self._handles.append(node.register_hook(lambda *_, i=i: self._is_ready(i)))
        return self

    def __exit__(self, *_):
        for handle in self._handles:
            handle.remove()
        self._nodes.clear()

    def _forward(self, module, inputs, outputs):
        self._began, self._ready = None, {}  # of several passes the last one counts
        if self._load is not None:
            self._load.wait()
        for tensor in _tensors_in(outputs):
            if tensor.requires_grad:
                tensor.register_hook(self._begin)

    def _begin(self, *_):
        if self._began is None:
            self._began = time.perf_counter()

    def _is_ready(self, i):
        self._begin()
        self._ready[i] = time.perf_counter() - self._began
        if self._load is not None:
            self._load.add(self._parameters[i].grad)

    def times_of(self, step, group, load=None):
        self._began, self._ready, self._load = None, {}, load
        dist.barrier(group=group)
        try:
            step()
        finally:
            if load is not None:
                load.wait()
        return [self._ready.get(i, float("inf")) for i in range(len(self._parameters))]


class _Load:
    """Imitates DistributedDataParallel during the pass: copies gradients into buckets, and reduces each full bucket.
    All buckets have one size, so ranks whose gradients come in a different order still match."""

    BUCKET = 1 << 20  # bytes

    def __init__(self, group, dtype, total):
        self._group, self._filled, self._reduced, self._works = group, 0, 0, []
        size = torch.empty((), dtype=dtype).element_size()
        self._bucket = self.BUCKET // size
        self.whole = torch.zeros(-(-max(total, self.BUCKET) // self.BUCKET) * self._bucket, dtype=dtype)

    def add(self, gradient):
        if gradient.layout is torch.strided:
            room = self.whole[self._filled:self._filled + gradient.numel()]
            room.copy_(gradient.detach().reshape(-1)[:room.numel()])
        self._filled += gradient.numel()
        while self._reduced + self._bucket <= min(self._filled, self.whole.numel()):
            bucket = self.whole[self._reduced:self._reduced + self._bucket]
            self._works.append(dist.all_reduce(bucket, group=self._group, async_op=True))
            self._reduced += self._bucket

    def wait(self):
        for work in self._works:
            work.wait()
        self._filled, self._reduced, self._works = 0, 0, []


def _tensors_in(outputs):
    if isinstance(outputs, torch.Tensor):
        yield outputs
    elif isinstance(outputs, dict):
        for value in outputs.values():
            yield from _tensors_in(value)
    elif isinstance(outputs, (list, tuple)):
        for value in outputs:
            yield from _tensors_in(value)
    elif hasattr(outputs, "__dict__"):  # a dataclass, as transformers have
        yield from _tensors_in(vars(outputs))


# ---- The costs of an all_reduce --------------------------------------------------------------------------------------

def _cost(group, whole, rounds):
    """The start-up and the seconds of a byte of the group's all_reduces, of sizes up to that of the tensor."""
    element = whole.element_size()
    most = min(whole.numel() * element, _MOST)
    sizes = sorted({_LEAST * round((most / _LEAST) ** (i / (_SIZES - 1))) for i in range(_SIZES)})
    tensors = [whole[:size // element] for size in sizes]
    with _like_a_bucket(group, whole[:sizes[-1] // element]):
        times = [[_seconds_of(tensor, group) for tensor in tensors] for _ in range(rounds + 1)][1:]
    flat = _slowest([seconds for turn in times for seconds in turn], group)
    medians = [statistics.median(flat[i::len(sizes)]) for i in range(len(sizes))]
    return overlap.fit_cost(sizes, medians)


@contextlib.contextmanager
def _like_a_bucket(group, tensor):
    """Hocket's groups keep buckets in memory that the ranks share (buckets.py)."""
    communicator = getattr(group, "_communicator", None)
    registration = None
    if communicator is not None:
        with contextlib.suppress(hocket.Error):  # otherwise it is copied, as buckets are then
            registration = communicator.comm.register(tensor)
    try:
        yield
    finally:
        if registration is not None:
            registration.close()


def _seconds_of(tensor, group):
    dist.barrier(group=group)
    begin = time.perf_counter()
    dist.all_reduce(tensor, group=group)
    return time.perf_counter() - begin
