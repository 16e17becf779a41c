#!/usr/bin/python3
"""Training on several ranks, on the backend hocket: the same weights as one process has, and the same bits on all ranks."""
import contextlib
import gc
import os
import tempfile
import unittest
from unittest import mock

import ranks  # first: it skips without torch

# isort: split
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hocket.torch
from ranks import refused, same

HAS_2 = not torch.__version__.startswith("1.")
STEPS = 4
IS_LONG = "HOCKET_TEST_LONG" in os.environ  # as tests/support/long_form.hpp says


def model():
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.Tanh(), torch.nn.Linear(300, 300), torch.nn.Tanh(), torch.nn.Linear(300, 3))


def batch(step, size):
    torch.manual_seed(step)
    return torch.randn(8 * size, 20), torch.randn(8 * size, 3)


def train(one, optimizer, rank, size, steps=range(STEPS)):
    """On this rank's part of each batch; rank None: on all of it."""
    losses = []
    for step in steps:
        x, y = batch(step, size)
        if rank is not None:
            x, y = x[8 * rank:8 * rank + 8], y[8 * rank:8 * rank + 8]
        optimizer.zero_grad()
        loss = (one(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def alone(size):
    one = model()
    train(one, torch.optim.SGD(one.parameters(), 0.1), None, size)
    return one


def same_on_all_ranks(one):
    flat = torch.cat([p.detach().flatten() for p in one.parameters()])
    everyone = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, flat)
    for other in everyone:
        same(other, flat, "weights of another rank")


def close_to_alone(one, size, tolerance=1e-5):
    for found, expected in zip(one.parameters(), alone(size).parameters()):
        assert torch.allclose(found, expected, atol=tolerance), (found - expected).abs().max()


def ddp(rank, size):
    """The backend's own all_reduce, buckets in place, and torch's hooks."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    hooks = {"none": lambda one: None, "ddp_hook": hocket.torch.ddp_hook,
             "allreduce": lambda one: one.register_comm_hook(None, default_hooks.allreduce_hook),
             "fp16": lambda one: one.register_comm_hook(None, default_hooks.fp16_compress_hook)}
    ways: tuple[dict, ...] = ({}, {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.1}, {"find_unused_parameters": True})
    for number, (name, add) in enumerate(hooks.items()):
        for keywords in ways if IS_LONG else ways[number % 3:number % 3 + 1]:
            one = DistributedDataParallel(model(), **keywords)
            add(one)
            train(one, torch.optim.SGD(one.parameters(), 0.1), rank, size)
            same_on_all_ranks(one)
            close_to_alone(one, size, 2e-3 if name == "fp16" else 1e-5)


def in_place(rank, size, hooked):
    """Buckets become memory that the ranks share, and are given back when the model has gone."""
    one = DistributedDataParallel(model())
    if hooked:
        hocket.torch.ddp_hook(one)
    communicator = dist.group.WORLD._communicator
    train(one, torch.optim.SGD(one.parameters(), 0.1), rank, size)
    assert len(communicator.closing) == 1, communicator.closing
    assert communicator.comm.is_shared(communicator.closing[0].array)
    x = torch.ones(100000)
    for _ in range(4):  # not a bucket: it stays as it is
        dist.all_reduce(x)
    assert len(communicator.closing) == 1, communicator.closing
    bucket = next(bucket for bucket in communicator.buckets._known.values() if bucket.registration)
    assert not bucket.weak.expired()
    del one
    gc.collect()
    for _ in range(20):  # with torch 1.13 the last works, and their tensors, are kept for a while
        dist.barrier()
    assert bucket.weak.expired(), "what is registered keeps the bucket itself"
    other = DistributedDataParallel(torch.nn.Linear(200, 200))
    other(torch.ones(2, 200)).sum().backward()
    assert not communicator.closing, communicator.closing


def powersgd(rank, size):
    """Its hook waits for a future in what it has added to another one."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
    one = DistributedDataParallel(model())
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
    one.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    train(one, torch.optim.SGD(one.parameters(), 0.1), rank, size, range(6))
    same_on_all_ranks(one)


def sparse_hook(rank, size, schedule):
    one = DistributedDataParallel(model())
    keeps_going(one, hocket.torch.sparse_hook(one, density=0.2, schedule=schedule), rank, size)


def quantised_hook(rank, size, format):
    one = DistributedDataParallel(model())
    try:
        hocket.torch.quantised_hook(one, "int9")
        raise AssertionError("there is no such format")
    except hocket.Error as error:
        assert "there is no format 'int9' (did you mean 'int8'?)" in str(error), error
    keeps_going(one, hocket.torch.quantised_hook(one, format), rank, size)


def keeps_going(one, hook, rank, size):
    """The model learns, its ranks stay alike, and go on after a checkpoint."""
    optimizer = torch.optim.SGD(one.parameters(), 0.1)
    losses = train(one, optimizer, rank, size, [0, 1] * (20 if IS_LONG else 12))
    same_on_all_ranks(one)
    assert sum(losses[-2:]) < 0.9 * sum(losses[:2]), losses  # of both batches
    states: list[dict[int, tuple]] = [{}] * size
    dist.all_gather_object(states, hook.state_dict())
    hook.load_state_dict(states)
    train(one, optimizer, rank, size)
    same_on_all_ranks(one)


class Two(torch.nn.Module):
    """Two parameters, whose gradients are the factors; the second one's is ready first if `turned`. So DistributedDataParallel makes its
    buckets anew after the first step, in the other order or not."""

    def __init__(self, names, **given):
        super().__init__()
        for name in names:
            setattr(self, name, torch.nn.Parameter(given[name]))

    def forward(self, a, b, turned=False):
        of_a, of_b = (self.a * a).sum().float(), (self.b * b).sum().float()
        return of_b + of_a if turned else of_a + of_b


def sparse_hook_of_two(rank, size, schedule):
    """The kept part of a parameter's gradient reaches that parameter: over all steps it gets its whole gradient."""
    count = 50
    one = DistributedDataParallel(Two("ab", a=torch.zeros(count), b=torch.zeros(count)))
    hocket.torch.sparse_hook(one, density=0.1, schedule=schedule)
    gradients, zero = [torch.arange(1.0, count + 1), torch.arange(count, 0.0, -1)], torch.zeros(count)
    got = {"a": torch.zeros(count), "b": torch.zeros(count)}
    for step in range(50):
        one.zero_grad()
        one(gradients[step] if step < 2 else zero, zero).backward()
        for name, sum_of in got.items():
            sum_of.add_(getattr(one.module, name).grad)
    same(got["a"], sum(gradients), "what a got in all")
    same(got["b"], zero, "what b got in all")


def sparse_hook_of_two_types(rank, size, names, turned):
    """Buckets are numbered anew after the first step: the first may be of the other type then, with as many elements. At a density of 1
    everything is sent."""
    count = 4000
    one = DistributedDataParallel(Two(names, a=torch.zeros(count), b=torch.zeros(count, dtype=torch.bfloat16)))
    hook = hocket.torch.sparse_hook(one, density=1.0)
    for step in range(4):
        a, b = torch.arange(float(count)) % 7 + step, (torch.arange(float(count)) % 5).bfloat16()
        one.zero_grad()
        one(a * (rank + 1), b * (rank + 1), turned).backward()
        same(one.module.a.grad, a * 1.5, f"gradient of a, step {step}")
        same(one.module.b.grad, b * 1.5, f"gradient of b, step {step}")
    state = hook.state_dict()
    assert {entry[:3] for entry in state.values()} == {(("a",), "torch.float32", count), (("b",), "torch.bfloat16", count)}, state
    states: list[dict[int, tuple]] = [{}] * size
    dist.all_gather_object(states, state)
    hook.load_state_dict(states)
    hook.load_state_dict([{}] * size)  # of the first step, after which nothing is kept
    assert hook.state_dict() == {}, hook.state_dict()
    hook.load_state_dict(states)
    assert hook.state_dict() == state
    refused(TypeError, "a list of the state_dict() of every rank", hook.load_state_dict, state)
    assert hook.state_dict() == state
    hook.load_state_dict([{1 - index: entry for index, entry in state.items()} for state in states])  # they go by names, not by numbers
    wrong = [{index: (("c",), *entry[1:]) for index, entry in state.items()} for state in states]
    refused(ValueError, "is not in the states of 2 of 2 ranks", hook.load_state_dict, wrong)


class Bucket:
    """Of one tensor, as DistributedDataParallel gives it to a hook."""

    def __init__(self, tensor, *parameters):
        self.index, self.buffer, self.is_last = lambda: 0, lambda: tensor, lambda: True
        self.parameters = lambda: parameters or (tensor,)


def sparse_hook_refuses(rank, size):
    """Parameters that come in other buckets once something was kept of them, and tensors that do not fit a plan."""
    hook, p, q = hocket.torch.SparseHook(dist.group.WORLD, "naive_ag(0.5)"), torch.ones(3), torch.ones(3)
    for _ in range(2):
        hook.start(Bucket(torch.ones(6), p, q)).wait()
    for bucket in (Bucket(torch.ones(3), p), Bucket(torch.ones(6).double(), p, q), Bucket(torch.ones(6), q, p)):
        try:
            hook.start(bucket)
        except RuntimeError as error:
            assert "would be lost" in str(error), error
        else:
            raise AssertionError("gradients that were kept went to other parameters")
    try:
        hook.start(Bucket(torch.ones(7), p, q))
    except ValueError as error:
        assert "for 6 elements" in str(error) or "count of 6" in str(error), error
    else:
        raise AssertionError("a tensor of another size was taken")
    hook.start(Bucket(torch.ones(6), p, q)).wait()


def sparse_hook_interrupted(rank, size):
    """Ctrl-C between the start of a sum and the work that keeps its tensor: the tensor stays until the sum has ended."""
    hooks, state = hocket.torch.hooks, dist.group.WORLD._communicator.state
    hook, tensor = hooks.SparseHook(dist.group.WORLD, "naive_ag(0.5)"), torch.ones(1000)
    hook.start(Bucket(tensor)).wait()  # the first is dense

    def interrupt(*_):
        raise KeyboardInterrupt

    with mock.patch.object(hooks, "Work", interrupt), contextlib.suppress(KeyboardInterrupt):
        hook.start(Bucket(tensor))
    assert any(x is tensor for _, kept in state.orphans for x in kept), "nobody keeps the tensor"
    while state.orphans:
        state.reap()
    dist.barrier()


def sparse_gradients(rank, size):
    """Gradients of an embedding are sparse tensors."""
    torch.manual_seed(1)
    one = DistributedDataParallel(torch.nn.EmbeddingBag(50, 4, sparse=True))
    one(torch.tensor([[rank, 7]])).sum().backward()
    found = one.module.weight.grad.to_dense()
    expected = torch.zeros(50, 4)
    for r in range(size):
        expected[[r, 7]] += 0.5 / size
    assert torch.allclose(found, expected), found - expected


def zero(rank, size):
    from torch.distributed.optim import ZeroRedundancyOptimizer
    for overlap in (False, True):
        one = DistributedDataParallel(model())
        optimizer = ZeroRedundancyOptimizer(one.parameters(), torch.optim.SGD, lr=0.1, parameters_as_bucket_view=overlap)
        train(one, optimizer, rank, size)
        same_on_all_ranks(one)
        close_to_alone(one, size)


def uneven(rank, size):
    """Ranks with different numbers of batches: the others' all_reduces are met by join()."""
    one = DistributedDataParallel(model())
    optimizer = torch.optim.SGD(one.parameters(), 0.1)
    with one.join():
        train(one, optimizer, rank, size, range(2 + rank))
    same_on_all_ranks(one)


def fsdp(rank, size):
    from torch.distributed.fsdp import FullyShardedDataParallel
    one = FullyShardedDataParallel(model(), device_id=torch.device("cpu"))
    train(one, torch.optim.SGD(one.parameters(), 0.1), rank, size)
    with FullyShardedDataParallel.summon_full_params(one):
        close_to_alone(one, size)


def fully_shard(rank, size):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard as shard
    mesh = init_device_mesh("cpu", (size,))
    one = model()
    for layer in one:
        shard(layer, mesh=mesh)
    shard(one, mesh=mesh)
    train(one, torch.optim.SGD(one.parameters(), 0.1), rank, size)
    for found, expected in zip(one.parameters(), alone(size).parameters()):
        assert torch.allclose(found.full_tensor(), expected, atol=1e-5)


def mesh(rank, size):
    """Two dimensions of ranks, and tensors that are divided over them."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    grid = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("outer", "inner"))
    x = torch.tensor([float(rank)])
    dist.all_reduce(x, group=grid["inner"].get_group())
    same(x, torch.tensor([float(sum(r for r in range(size) if r // (size // 2) == rank // (size // 2)))]), "all_reduce over a dimension")
    torch.manual_seed(3)
    a, b = torch.randn(8, 8), torch.randn(8, 8)
    product = distribute_tensor(a, grid, [Shard(0), Replicate()]) @ distribute_tensor(b, grid, [Replicate(), Shard(1)])
    assert torch.allclose(product.full_tensor(), a @ b, atol=1e-5)
    moved = distribute_tensor(a, grid, [Shard(0), Shard(0)]).redistribute(grid, [Shard(1), Replicate()])
    same(moved.full_tensor(), a, "redistributed")


def functional(rank, size):
    """Collectives as torch.compile sees them."""
    import torch.distributed._functional_collectives as collectives
    total = sum(range(size))
    same(collectives.all_reduce(torch.full((3,), float(rank)), "sum", dist.group.WORLD) + 0, torch.full((3,), float(total)), "functional all_reduce")
    same(collectives.all_gather_tensor(torch.full((2,), float(rank)), 0, dist.group.WORLD) + 0, torch.arange(size).float().repeat_interleave(2),
         "functional all_gather")
    same(collectives.reduce_scatter_tensor(torch.arange(size).float(), "sum", 0, dist.group.WORLD) + 0, torch.tensor([float(rank * size)]),
         "functional reduce_scatter")
    same(collectives.all_to_all_single(torch.full((size,), float(rank)), None, None, dist.group.WORLD) + 0, torch.arange(size).float(),
         "functional all_to_all")


def checkpoint(rank, size, folder):
    import torch.distributed.checkpoint as checkpoint_
    state = {"x": torch.full((5,), 1.5), "rank": torch.tensor(0)}
    checkpoint_.save(state, checkpoint_id=folder)
    loaded = {"x": torch.zeros(5), "rank": torch.tensor(9)}
    checkpoint_.load(loaded, checkpoint_id=folder)
    same(loaded["x"], state["x"], "loaded")


@contextlib.contextmanager
def set_topology(topology):
    if topology:
        os.environ["HOCKET_TOPOLOGY"] = topology
    try:
        yield
    finally:
        os.environ.pop("HOCKET_TOPOLOGY", None)


class Training(ranks.TestCase):
    def test_ddp(self):
        self.check(2, ddp)

    def test_buckets_in_place(self):
        for hooked in (False, True):
            with self.subTest(hooked=hooked):
                self.check(2, in_place, hooked)

    def test_powersgd(self):
        os.environ["HOCKET_PROGRESS"] = "calls"  # not for torch, which waits for futures outside of Hocket
        try:
            self.check(2, powersgd)
        finally:
            del os.environ["HOCKET_PROGRESS"]

    def test_sparse_hook(self):
        for size, topology, schedule in ((2, None, None), (4, "2x2", None), (2, None, "naive_ag(0.3)")):
            with self.subTest(size=size, topology=topology, schedule=schedule):
                with set_topology(topology):
                    self.check(size, sparse_hook, schedule)

    def test_quantised_hook(self):
        for size, topology, format in ((2, None, "int8"), (3, None, "sign"), (4, "2x2", "int4(64)"), (2, None, "bfloat16")):
            with self.subTest(size=size, topology=topology, format=format):
                with set_topology(topology):
                    self.check(size, quantised_hook, format)

    def test_sparse_hook_of_two(self):
        for size, topology, schedule in ((2, None, None), (2, None, "naive_ag(0.1)"), (4, "2x2", None)):
            with self.subTest(size=size, topology=topology, schedule=schedule):
                with set_topology(topology):
                    self.check(size, sparse_hook_of_two, schedule)

    def test_sparse_hook_of_two_types(self):
        for names in ("ab", "ba"):
            for turned in (False, True):
                with self.subTest(names=names, turned=turned):
                    self.check(2, sparse_hook_of_two_types, names, turned)

    def test_sparse_hook_refuses(self):
        self.check(2, sparse_hook_refuses)

    def test_sparse_hook_interrupted(self):
        self.check(2, sparse_hook_interrupted)

    def test_sparse_gradients_and_uneven_inputs(self):
        self.check(3, sparse_gradients)
        self.check(3, uneven)

    def test_zero(self):
        self.check(3, zero)

    @unittest.skipUnless(HAS_2, "torch 1.13 has these for CUDA alone, or not at all")
    def test_fsdp_and_meshes(self):
        for function in (fsdp, fully_shard, mesh, functional):
            with self.subTest(function=function.__name__):
                self.check(4, function)

    @unittest.skipUnless(HAS_2, "not in torch 1.13")
    def test_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            self.check(2, checkpoint, folder)

    @unittest.skipUnless(os.path.exists("/usr/share/dict/american-english"), "Debian's package wamerican is not installed")
    def test_example(self):
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/ddp.py")
        for hook in ("none", "sparse") if IS_LONG else ("sparse",):
            status, said = ranks.torchrun(2, [program, "--words", "2000", "--epochs", "1", "--hook", hook], 150)
            self.assertEqual(status, 0, said)
            for line in ("2 ranks, 7 steps an epoch", "epoch 0: ", "the weights are the same on all ranks"):
                self.assertIn(line, said)


if __name__ == "__main__":
    ranks.main()
