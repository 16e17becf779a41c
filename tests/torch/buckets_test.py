#!/usr/bin/python3
"""Buckets of DistributedDataParallel by plan, and the profiles that plans are made of."""
import copy
import time
import unittest

import ranks  # first: it skips without torch

# isort: split
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d
from torch.nn.parallel import DistributedDataParallel

import hocket
import hocket.torch
from hocket import overlap
from hocket.torch import planned
from ranks import same

LINEAR = 10 * 10 * 4 + 10 * 4  # bytes of a layer
BACKENDS = ("hocket", "gloo")


def model(layers=6):
    torch.manual_seed(5)
    return torch.nn.Sequential(*[torch.nn.Linear(10, 10) for _ in range(layers)])


def group_of(backend):
    return dist.group.WORLD if backend == "hocket" else dist.new_group(backend=backend)


def ways():
    """Of making the buckets: what this torch is given, and, where that is a list, also what is done before torch 2.11."""
    return (True, False) if planned.TAKES_A_LIST else (False,)


def ddp(takes_a_list, *arguments, **keywords):
    usual, planned.TAKES_A_LIST = planned.TAKES_A_LIST, takes_a_list
    try:
        return hocket.torch.planned_ddp(*arguments, **keywords)
    finally:
        planned.TAKES_A_LIST = usual


def buckets(one):
    """The names of each bucket's parameters."""
    names = {id(parameter): name for name, parameter in one.module.named_parameters()}
    return [sorted(names[id(parameter)] for parameter in bucket.parameters()) for bucket in one.reducer._get_zeros_like_grad_buckets()]


def names_of(*layers):
    return [sorted(f"{i}.{name}" for i in bucket for name in ("weight", "bias")) for bucket in layers]


def plan_of(ends, names, backward=True):
    return overlap.Plan("optimum", backward, tuple(ends), 0.0, 0.0, 0.0, 0.0, tuple(names))


def gradients(one, rank, steps=3):
    for step in range(steps):
        one.zero_grad()
        torch.manual_seed(10 * step + rank)
        one(torch.randn(4, 10)).square().mean().backward()
    return [parameter.grad.clone() for parameter in one.parameters()]


def by_plan(rank, size, backend):
    """The buckets of a plan, and the same gradients as with torch's own ones, to the bit: the order of two ranks' sum does not matter."""
    group = group_of(backend)
    expected = gradients(DistributedDataParallel(model(), process_group=group), rank)
    plan = plan_of((1, 4, 6), [str(i) for i in range(6)])  # modules
    all_keywords: tuple[dict[str, bool], ...] = (
        {}, {"gradient_as_bucket_view": True}, {"static_graph": True}, {"static_graph": True, "find_unused_parameters": True})
    for takes_a_list in ways():
        for keywords in all_keywords:
            one = ddp(takes_a_list, model(), plan, process_group=group, **keywords)
            for found, wanted in zip(gradients(one, rank), expected):
                same(found, wanted, f"{backend}, {takes_a_list}, {keywords}")
            assert buckets(one) == names_of((5, 4), (3, 2, 1), (0,)), buckets(one)
        if backend == "hocket":
            one = ddp(takes_a_list, model(), plan)
            hocket.torch.ddp_hook(one)
            for found, wanted in zip(gradients(one, rank), expected):
                same(found, wanted, "with ddp_hook")


def by_sizes(rank, size, backend):
    group = group_of(backend)
    sizes = hocket.torch.bucket_sizes([range(0, 3), range(3, 4), range(4, 6)], [list(layer.parameters()) for layer in model()])
    assert sizes == [2 * LINEAR, LINEAR, 3 * LINEAR], sizes
    for takes_a_list in ways():
        one = ddp(takes_a_list, model(), sizes, process_group=group)
        gradients(one, rank)
        assert buckets(one) == names_of((5, 4), (3,), (2, 1, 0)), buckets(one)
        one = ddp(takes_a_list, model(), [LINEAR, 2 * LINEAR], process_group=group)  # the last size holds for the rest
        gradients(one, rank)
        assert buckets(one) == names_of((5,), (4, 3), (2, 1), (0,)), buckets(one)


def copied(rank, size, backend):
    if backend == "gloo":  # a copy takes the default group
        dist.destroy_process_group()
        dist.init_process_group(backend, store=dist.HashStore(), rank=rank, world_size=size)
    one = ddp(False, model(), [LINEAR, 100 * LINEAR])
    other = copy.deepcopy(one)
    gradients(other, rank)
    assert buckets(other) == buckets(one) == names_of((5,), (4, 3, 2, 1, 0)), buckets(other)


def unused(rank, size):
    """Parameters that are not reached: torch keeps its first buckets then."""
    plan = plan_of((1, 4, 6), [str(i) for i in range(6)])
    if not planned.TAKES_A_LIST:
        try:
            hocket.torch.planned_ddp(model(), plan, find_unused_parameters=True)
        except RuntimeError as error:
            return str(error)
    one = hocket.torch.planned_ddp(model(), plan, find_unused_parameters=True)
    gradients(one, rank)
    assert buckets(one) == names_of((5, 4), (3, 2, 1), (0,)), buckets(one)
    return "offers no way"


def different_plans(rank, size):
    ddp(False, model(), [LINEAR] if rank == 0 else [2 * LINEAR])


def no_way(rank, size):
    """As torch 2.0 and 2.1 are."""
    planned._CAN_CHANGE_GROUPS = False
    try:
        ddp(False, model(), [LINEAR], process_group=dist.new_group(backend="gloo"))
    except RuntimeError as error:
        return str(error)


class OneOf(torch.nn.Module):
    """Parameters of two types, or with sparse gradients."""

    def __init__(self, kind):
        super().__init__()
        self.first = torch.nn.Linear(2, 2) if kind == "types" else torch.nn.Embedding(3, 2, sparse=True)
        self.second = torch.nn.Linear(2, 2).double() if kind == "types" else torch.nn.Linear(2, 2)


def refused(rank, size):
    texts = []
    good = plan_of((6,), [str(i) for i in range(6)])
    cases: tuple[tuple[torch.nn.Module, overlap.Plan | list[int], dict[str, int]], ...] = (
        (model(), good, {"bucket_cap_mb": 3}), (model(), plan_of((6,), [str(i) for i in range(6)], False), {}),
        (model(), plan_of((5,), [str(i) for i in range(5)]), {}), (model(), plan_of((6,), ["0"] * 6), {}),
        (model(), [1, 0], {}), (model(), [], {}), (OneOf("types"), [8], {}), (OneOf("sparse"), [8], {}),
        (torch.nn.Tanh(), [8], {}))
    for module, plan, keywords in cases:
        try:
            hocket.torch.planned_ddp(module, plan, **keywords)
        except ValueError as error:
            texts.append(str(error))
    return texts


class Slow(torch.autograd.Function):
    """Takes its time in the backward pass."""

    @staticmethod
    def forward(context, x, seconds):
        context.seconds = seconds
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        time.sleep(context.seconds)
        return gradient, None


class SlowBetween(torch.nn.Module):
    def __init__(self, seconds):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second, self.seconds = torch.nn.Linear(10, 10), torch.nn.Linear(10, 10), seconds

    def forward(self, x):
        return {"y": [self.second(Slow.apply(self.first(x), self.seconds))]}


def step_of(module):
    return lambda: (module(torch.ones(4, 10))["y"][0].sum() * 1.0).backward()


def measured(rank, size, backend):
    """A wait of only one rank is in the profile of all ranks, at its layer."""
    module = SlowBetween(0.02 if rank == 1 else 0.0)
    profile = hocket.torch.measure_profile(module, step_of(module), group=group_of(backend), steps=3, warm_up=1, rounds=3)
    assert all(parameter.grad is None for parameter in module.parameters())
    assert not module._forward_hooks
    return profile


def planned_as_measured(rank, size, backend):
    """From the measurement to the trained model; a DistributedDataParallel that is measured reduces nothing."""
    group = group_of(backend)
    module, reduced = model(), []
    one = DistributedDataParallel(module, process_group=group)

    def hook(_, bucket):
        reduced.append(bucket.index())
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    one.register_comm_hook(None, hook)
    profile = hocket.torch.measure_profile(one, lambda: one(torch.ones(4, 10)).sum().backward(), steps=3, rounds=3)
    assert not reduced, reduced
    gradients(one, rank, 1)
    assert reduced
    del one
    for limit in (0, 2 * LINEAR):
        plan = overlap.plan(profile, backward=True, limit_bytes=limit)
        one = hocket.torch.planned_ddp(module, plan, process_group=group)
        found = gradients(one, rank)
        wanted = [sorted(profile.layers[i].name for i in batch) for batch in plan.in_time]
        assert buckets(one) == wanted, (buckets(one), wanted)
        for mine in found:
            everyone = [torch.empty_like(mine) for _ in range(size)]
            dist.all_gather(everyone, mine, group=group)
            for other in everyone:
                same(other, mine)
        for left, right in zip(found, gradients(DistributedDataParallel(model(), process_group=group), rank)):
            same(left, right, "torch's own buckets")


def never_reached(rank, size):
    module = model(2)
    hocket.torch.measure_profile(module, lambda: module[1 if rank == 1 else slice(2)](torch.ones(1, 10)).sum().backward(), steps=2, rounds=2)


class Planned(ranks.TestCase):
    def refusal(self, outcome, *words):
        self.assertEqual(outcome.kind, "raised")
        for word in words:
            self.assertIn(word, outcome.value)

    def test_sizes_of_a_plan(self):
        plan = plan_of((2, 3), "abc")
        self.assertEqual(hocket.torch.bucket_sizes(plan, [torch.empty(3), [torch.empty(2), torch.empty(1, dtype=torch.float64)], 7]), [7, 28])

    def test_buckets_are_those_of_the_plan(self):
        for function in (by_plan, by_sizes):
            for backend in BACKENDS:
                with self.subTest(function=function.__name__, backend=backend):
                    self.check(2, function, backend)

    def test_copied(self):
        for size, backend in ((2, "hocket"), (1, "gloo")):
            with self.subTest(backend=backend):
                self.check(size, copied, backend)

    def test_unused_parameters(self):
        for text in self.check(2, unused):
            self.assertIn("offers no way", text)

    @unittest.skipUnless(hasattr(_distributed_c10d, "Backend"), "torch 1.13 has a way")
    def test_where_torch_has_no_way(self):
        self.assertIn("offers no way to choose buckets with a backend of C++", self.check(1, no_way)[0])

    def test_ranks_with_other_plans(self):
        first, second = ranks.run(2, different_plans)
        self.assertEqual(first.kind, "returned")
        self.refusal(second, "rank 1 has buckets of", "and its plan has", "rank 0 has another plan")

    def test_refused(self):
        wanted = ("bucket_cap_mb is given", "for the forward pass", "for the parameter '5.bias': none is named after it", "both called '0'", "whole numbers of bytes above 0",
                  "whole numbers of bytes above 0", "torch.float32 on cpu and torch.float64 on cpu", "the gradients of first are sparse", "no parameters that are trained")
        for texts in self.check(1, refused):
            self.assertEqual(len(texts), len(wanted), texts)
            for text, words in zip(texts, wanted):
                self.assertIn(words, text)


class Measured(ranks.TestCase):
    def test_the_slowest_rank_counts(self):
        for backend in BACKENDS:
            with self.subTest(backend=backend):
                one, other = self.check(2, measured, backend)
                self.assertEqual(one, other)
                self.assertEqual([layer.name.split(".")[0] for layer in one.layers], ["first", "first", "second", "second"])
                self.assertEqual(sorted(layer.bytes for layer in one.layers), [40, 40, 400, 400])
                self.assertGreaterEqual(one.layers[1].compute, 0.02)
                self.assertGreater(one.layers[0].transfer + one.startup, 0)

    def test_then_planned(self):
        for backend in BACKENDS:
            with self.subTest(backend=backend):
                self.check(2, planned_as_measured, backend)

    def test_a_parameter_that_gets_no_gradient_on_one_rank_is_told_to_all(self):
        for outcome in ranks.run(2, never_reached):
            self.assertEqual(outcome.kind, "raised")
            self.assertIn("2 of 4 parameters got no gradient, '0.weight' among them", outcome.value)


if __name__ == "__main__":
    ranks.main()
