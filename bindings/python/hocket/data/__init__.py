"""PyTorch over the cache: a Dataset whose batches are copied in C, and a Sampler with an order that can be resumed.

    cache = hocket.SharedCache("/nfs/train", memory="8GiB")
    dataset = Dataset(cache, dtype=torch.float32, shape=(3, 96, 96))
    sampler = Sampler(dataset, batch_size=64, seed=7)
    loader = DataLoader(dataset, batch_size=None, sampler=sampler, num_workers=2)
    for epoch in range(first, 10):  # 0, or the epoch of your checkpoint
        sampler.set_epoch(epoch)
        for batch in loader: ...

To resume, keep the epoch and sampler.state_dict(batches) in the checkpoint, and call sampler.load_state_dict() before the
loop. After load_state_dict() of torchdata's StatefulDataLoader sampler.epoch is not the state's until an iteration begins:
let the program's own epoch begin the loop, as here.

Without workers hocket.Cache does as well. A message from a worker costs more than a batch of small samples. So let a
worker send several batches at once:

    loader = DataLoader(dataset, batch_size=8, sampler=sampler, num_workers=2, collate_fn=as_it_is)
    for batch in one_by_one(loader): ...
"""
from hocket.data.dataset import Dataset, as_it_is, one_by_one
from hocket.data.mixture import Mixture
from hocket.data.sampler import Sampler
from hocket.data.stream import Stream

__all__ = ["Dataset", "Mixture", "Sampler", "Stream", "as_it_is", "one_by_one"]
