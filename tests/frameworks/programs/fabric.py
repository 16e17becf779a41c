"""Lightning Fabric, whose strategy takes the backend's name: fabric.py BACKEND"""
import os
import sys

import outcome
import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies import DDPStrategy


def main(backend):
    fabric = Fabric(accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]), strategy=DDPStrategy(process_group_backend=backend))
    fabric.launch()
    assert torch.distributed.get_backend() == backend
    model, optimizer = fabric.setup(model := outcome.model(), torch.optim.AdamW(model.parameters(), 0.01))
    losses = []
    for i, (inputs, targets) in enumerate(outcome.batches(fabric.global_rank)):
        with fabric.no_backward_sync(model, enabled=i % 3 == 1):
            loss = outcome.loss_of(model(inputs), targets)
            fabric.backward(loss)
        if i % 3 != 1:
            fabric.clip_gradients(model, optimizer, max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(fabric.all_reduce(loss.detach(), reduce_op="mean").item())
    ranks = fabric.all_gather(torch.tensor(fabric.global_rank))
    assert ranks.tolist() == list(range(fabric.world_size)), ranks
    assert fabric.broadcast({"of": fabric.global_rank}, src=1) == {"of": 1}
    fabric.barrier()
    outcome.check_learnt(losses)
    outcome.tell(fabric.global_rank, outcome.digest(model.parameters()))
    torch.distributed.destroy_process_group()


main(sys.argv[1])
