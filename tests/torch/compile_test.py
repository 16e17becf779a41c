#!/usr/bin/python3
"""torch.compile over models and functions that communicate: with the bits that the same ones have without it."""
import unittest

import ranks  # first: it skips without torch

# isort: split
import torch
import torch.distributed as dist

from ranks import same

HAS_2 = not torch.__version__.startswith("1.")


def _all_gather(x):
    out = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(out, x)
    return torch.cat(out) + 1


def _asynchronous(x):
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    return x + 1


def _message(x):
    if dist.get_rank() == 0:
        dist.send(x, 1)
    else:
        dist.recv(x, 0)
    return x * 2


def _messages(x):
    other, got = 1 - dist.get_rank(), torch.empty_like(x)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, other), dist.P2POp(dist.irecv, got, other)]):
        work.wait()
    return got * 2


def _broadcast(x):
    dist.broadcast(x, 0)
    return x + 1


def _reduce(x):
    dist.reduce(x, 1)
    return x + 1


def _reduce_scatter(x):
    out = torch.empty(2)
    dist.reduce_scatter(out, list(x.chunk(2)))
    return out * 2


def _scatter(x):
    out = torch.empty_like(x)
    dist.scatter(out, [x + 1, x + 2] if dist.get_rank() == 0 else None, src=0)
    return out * 2


def _all_to_all(x):
    out = [torch.empty(2), torch.empty(2)]
    dist.all_to_all(out, list(x.chunk(2)))
    return torch.cat(out) * 2


def _barrier(x):
    dist.barrier()
    return x + 1


def _coalesced(x):
    y = x + 1
    dist.all_reduce_coalesced([x, y])
    return x * y


FUNCTIONS = [_all_gather, _asynchronous, _message, _messages, _broadcast, _reduce, _reduce_scatter, _scatter, _all_to_all, _barrier, _coalesced]


def functions(rank, size):
    for function in FUNCTIONS:
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="aot_eager")
        for step in range(2):
            x = torch.arange(4.0) * (step + 1) + rank
            expected = function(x.clone())
            same(compiled(x.clone()), expected, f"{function.__name__}, call {step}")


def _trained(compile_, hook):
    torch._dynamo.reset()
    torch.manual_seed(1)
    layers = [torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 8)]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
    if hook:
        import hocket.torch
        hocket.torch.ddp_hook(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = compile_(model)
    torch.manual_seed(2 + dist.get_rank())
    for _ in range(4):
        optimizer.zero_grad()
        run(torch.randn(4, 8)).square().sum().backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()] + list(model.buffers())


def data_parallel(rank, size):
    for hook in (False, True):
        expected = _trained(lambda model: model, hook)
        for found, one in zip(_trained(lambda model: torch.compile(model, backend="eager"), hook), expected):
            same(found, one, f"a parameter or buffer after four steps, hook: {hook}")


@unittest.skipUnless(HAS_2, "torch 1.13 does not compile")
class Compile(ranks.TestCase):
    @classmethod
    def setUpClass(cls):
        import torch._dynamo  # noqa: F401 (which takes seconds, once for all ranks)

    def test_functions(self):
        self.check(2, functions)

    def test_data_parallel(self):
        self.check(2, data_parallel)


if __name__ == "__main__":
    ranks.main()
