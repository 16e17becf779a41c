"""For the programs of this folder: a small task, and what it has made of a model."""
import hashlib
import os
import sys

import torch

SIZE, BATCH, STEPS = 48, 16, 12


def model():
    """The same on each rank."""
    torch.manual_seed(11)
    return torch.nn.Sequential(torch.nn.Linear(SIZE, 96), torch.nn.LayerNorm(96), torch.nn.GELU(), torch.nn.Linear(96, SIZE))


def batches(rank, steps=STEPS):
    """Inputs and targets of a rank."""
    draw = torch.Generator().manual_seed(1000 + rank)
    for _ in range(steps):
        inputs = torch.randn(BATCH, SIZE, generator=draw)
        yield inputs, torch.roll(inputs, 1, dims=1)


def loss_of(outputs, targets):
    return torch.nn.functional.mse_loss(outputs, targets)


def digest(tensors):
    """The bits of tensors, as a short text."""
    bits = hashlib.sha256()
    for tensor in tensors:
        bits.update(tensor.detach().float().contiguous().cpu().numpy().tobytes())
    return bits.hexdigest()[:16]


def check_learnt(losses):
    assert losses[-1] < 0.9 * losses[0], f"nothing was learnt: {losses}"


def tell(rank, found):
    """Writes a line for tests/frameworks/run, which compares those of the backends."""
    path = os.environ.get("HOCKET_TEST_OUTCOME")
    if path:
        with open(path, "a") as file:
            file.write(f"rank {rank}: {found}\n")
    print(f"rank {rank}: {found}", file=sys.stderr)
