"""DeepSpeed's ZeRO: zero.py STAGE BACKEND"""
import os
import sys

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed
import outcome
import torch


def main(stage, backend):
    deepspeed.init_distributed(dist_backend=backend)
    assert torch.distributed.get_backend() == backend
    rank = torch.distributed.get_rank()
    how = {
        "train_micro_batch_size_per_gpu": outcome.BATCH, "gradient_accumulation_steps": 2, "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True}},
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
        "zero_force_ds_cpu_optimizer": False,
    }
    model = outcome.model()
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=how)
    losses = []
    for inputs, targets in outcome.batches(rank):
        loss = outcome.loss_of(engine(inputs), targets)
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    with deepspeed.zero.GatheredParameters(list(engine.module.parameters()), enabled=stage == 3):
        found = outcome.digest(engine.module.parameters())
    outcome.check_learnt(losses)
    outcome.tell(rank, found)
    engine.destroy()
    torch.distributed.destroy_process_group()


main(int(sys.argv[1]), sys.argv[2])
