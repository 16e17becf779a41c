"""A rank whose tensors are on a CUDA device: each result equals the same call's on the host, bit for bit. tools/gpu-check starts it."""
import os

import torch

import hocket

TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8]
COUNTS = [1, 1000, 4096, 300_001, 5_000_000]


def numbers(rank, count, dtype):
    """On the host. Small and whole: their sums are exact in every type and order."""
    return ((torch.arange(count) * 7 + 3 * rank) % 5).to(dtype)


def same(what, on_device, on_host):
    if not torch.equal(on_device.cpu(), on_host):
        wrong = (on_device.cpu() != on_host).nonzero().flatten()
        raise SystemExit(f"{what}: {len(wrong)} elements are wrong, the first one at {int(wrong[0])}")


def collectives(comm, count, dtype):
    rank, size = comm.rank, comm.size
    mine, all_mine = numbers(rank, count, dtype), numbers(rank, count * size, dtype)
    for name, call, array in (
            ("all_reduce", lambda x: comm.all_reduce(x, out=torch.empty_like(x)), mine),
            ("all_reduce in place", comm.all_reduce, mine),
            ("reduce_scatter", comm.reduce_scatter, all_mine),
            ("all_gather", comm.all_gather, mine),
            ("all_to_all", comm.all_to_all, all_mine),
            ("broadcast", lambda x: comm.broadcast(x, root=size - 1), mine)):
        on_device = call(array.cuda())
        if not on_device.is_cuda:
            raise SystemExit(f"{name} gave a tensor on {on_device.device}")
        same(f"{name} of {count} {dtype}", on_device, call(array.clone()))
    there = mine.cuda()
    came = torch.zeros_like(there)
    sent = comm.send(there, (rank + 1) % size, wait=False)
    comm.recv(came, (rank - 1) % size)
    sent.wait()
    same(f"a message of {count} {dtype}", came, numbers((rank - 1) % size, count, dtype))


def in_order_of_a_stream(comm):
    """Work of the stream that is before a start is read, and work behind its end reads the result; nobody synchronises."""
    stream = torch.cuda.Stream()
    comm.set_stream(stream.cuda_stream)
    factor = torch.ones(4000, 4000, device="cuda")
    x = torch.zeros(3_000_000, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for step in range(1, 6):
            for _ in range(10):
                factor @ factor
            x.fill_(step)
            request = comm.all_reduce(x, wait=False)
            request.wait()
            x.mul_(2)
            same(f"step {step} on a stream", x, torch.full((3_000_000,), 2.0 * step * comm.size))
    comm.set_stream(0)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.zeros(1, device="cuda")  # the driver is in the process before the communicator looks for it
    with hocket.init() as comm:
        for dtype in TYPES:
            for count in COUNTS:
                collectives(comm, count, dtype)
        in_order_of_a_stream(comm)
        if comm.rank == 0:
            print(f"{len(TYPES)} types, {len(COUNTS)} sizes, {comm.size} ranks: all as on the host")


if __name__ == "__main__":
    main()
