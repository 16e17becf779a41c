"""A rank whose program makes processes in Python's ways. usage: forking_rank.py fork|forkserver|spawn|dataloader"""
import ctypes
import gc
import multiprocessing
import os
import sys

from hocket_by_ctypes import INVALID_ARGUMENT, Communicator, Failure

COUNT = 300_001  # not a multiple of a page: the buffer shares its outer pages with malloc's other blocks
comm: Communicator  # made by main(); a child by fork has it, too


def fill(buffer, rank, step):
    for i in range(0, COUNT, 997):
        buffer[i] = rank + step + i % 7


def check(buffer, size, step):
    for i in range(0, COUNT, 997):
        right = sum(rank + step + i % 7 for rank in range(size))
        if buffer[i] != right:
            raise AssertionError(f"step {step}: element {i} is {buffer[i]}, not {right}")


def use_heap():
    """Allocates, writes and frees memory that shares pages with the registered buffer."""
    kept = [bytearray(b"x" * size) for size in range(1, 4000, 29)]
    more = [bytes(block) for block in kept]
    del kept[::2], more[::3]
    gc.collect()


def in_child(method, results):
    """Whatever a child does with the parent's communicator is refused, and hurts nobody."""
    try:
        use_heap()
        if method == "fork":
            own = (ctypes.c_float * 100)()
            try:
                comm.add_up(ctypes.addressof(own), 100)
                results.put("the child was let in")
                return
            except Failure as failure:
                if failure.status != INVALID_ARGUMENT or "fork" not in str(failure):
                    results.put(f"the refusal is {failure.status}: {failure}")
                    return
            del globals()["comm"]  # destroys the child's copy
            gc.collect()
        elif "comm" in globals():
            results.put(f"a child by {method} has a communicator")
            return
        # A world of its own.
        os.environ["RANK"], os.environ["WORLD_SIZE"] = "0", "1"
        alone = Communicator()
        values = (ctypes.c_float * 100)(*range(100))
        alone.add_up(ctypes.addressof(values), 100)
        use_heap()
        results.put("well" if list(values) == list(range(100)) else "the child's own sum is wrong")
    except BaseException as error:  # the parent must learn of it
        results.put(repr(error))


def run_children(method):
    context = multiprocessing.get_context(method)
    buffers = [(ctypes.c_float * COUNT)() for _ in range(3)]
    for buffer in buffers:
        comm.register(ctypes.addressof(buffer), ctypes.sizeof(buffer))
    results = context.Queue()
    for step in range(3):
        children = [context.Process(target=in_child, args=(method, results)) for _ in range(2)]
        for child in children:
            child.start()
        for buffer in buffers:  # beside the children
            fill(buffer, comm.rank, step)
            comm.add_up(ctypes.addressof(buffer), COUNT)
            check(buffer, comm.size, step)
        for _ in children:
            said = results.get(timeout=60)
            if said != "well":
                raise AssertionError(said)
        for child in children:
            child.join(60)
            if child.exitcode != 0:
                raise AssertionError(f"a child ended with {child.exitcode}")
        use_heap()
    with context.Pool(2) as pool:
        if pool.map(abs, range(-50, 0)) != list(range(50, 0, -1)):
            raise AssertionError("the pool is wrong")
    for buffer in buffers:
        comm.deregister(ctypes.addressof(buffer))


def train_with_dataloader():
    """PyTorch's DataLoader forks its workers while gradients are registered; each worker inherits everything."""
    import torch

    class Examples(torch.utils.data.Dataset):
        def __len__(self):
            return 400

        def __getitem__(self, index):
            if index % 10 == 0:
                use_heap()
            return torch.full((64,), float(index)), index

    torch.set_num_threads(1)
    torch.manual_seed(5)
    model = torch.nn.Linear(64, 5000)
    bucket = torch.zeros(sum(p.numel() for p in model.parameters()))
    comm.register(bucket.data_ptr(), 4 * bucket.numel())
    seen = 0
    for epoch in range(2):
        for inputs, indices in torch.utils.data.DataLoader(Examples(), batch_size=20, num_workers=2):
            model.zero_grad()
            (model(inputs / 400) * (comm.rank + 1)).mean().backward()
            own = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
            bucket.copy_(own)
            comm.add_up(bucket.data_ptr(), bucket.numel())
            # All ranks have the same inputs: the gradients differ by a factor.
            right = own / (comm.rank + 1) * sum(rank + 1 for rank in range(comm.size))
            if not torch.allclose(bucket, right, rtol=1e-5):
                raise AssertionError(f"the sums are wrong in epoch {epoch}, after {seen} examples")
            seen += len(indices)
    if seen != 800:
        raise AssertionError(f"{seen} examples were seen")
    comm.deregister(bucket.data_ptr())


def main():
    global comm
    comm = Communicator()
    method = sys.argv[1]
    if method == "dataloader":
        train_with_dataloader()
    else:
        run_children(method)
    probe = (ctypes.c_float * 1)(comm.rank)
    comm.add_up(ctypes.addressof(probe), 1)  # no rank has been lost
    print(f"right after {method}: {probe[0]}", flush=True)


if __name__ == "__main__":
    main()
