"""accelerate with a process group that the program has made: accelerated.py BACKEND"""
import sys

import outcome
import torch
from accelerate import Accelerator


def main(backend):
    torch.distributed.init_process_group(backend)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    assert torch.distributed.get_backend() == backend
    rank = accelerator.process_index
    data = torch.utils.data.TensorDataset(*[torch.cat(parts) for parts in zip(*[pair for one in range(accelerator.num_processes)
                                                                                for pair in outcome.batches(one)])])
    model = outcome.model()
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), 0.01),
                                                   torch.utils.data.DataLoader(data, batch_size=outcome.BATCH, shuffle=True,
                                                                               generator=torch.Generator().manual_seed(5)))
    losses = []
    for _ in range(2):
        for inputs, targets in loader:
            with accelerator.accumulate(model):
                loss = outcome.loss_of(model(inputs), targets)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(accelerator.reduce(loss.detach(), "mean").item())
    gathered = accelerator.gather_for_metrics(torch.full((2,), float(rank)))
    assert gathered.tolist() == [float(one) for one in range(accelerator.num_processes) for _ in range(2)], gathered
    outcome.check_learnt(losses)
    outcome.tell(rank, outcome.digest(accelerator.unwrap_model(model).parameters()))
    accelerator.end_training()


main(sys.argv[1])
