#!/usr/bin/env python3
"""Trains a PyTorch model whose weights are on the servers of a parameter service: the loop is that of any optimizer.

    python3 examples/params_torch.py --workers 2                         # a server in this process, and two workers, as processes
    HOCKET_SECRET=some-text build/tools/hocket-params serve --listen :7000               # or servers of their own, on any hosts,
    HOCKET_SECRET=some-text python3 examples/params_torch.py --address 10.0.0.4:7000 --workers 2      # and each worker by itself

A sample is a bag of 10 words of 2,000. Each word has a number that nobody knows; the question is whether their sum is above 0. Of the embedding only
the rows of a batch's words have gradients, and only these are pushed. The last line says how many of 4,000 new bags are told right.
"""
import argparse
import os
import secrets
import subprocess
import sys

import torch

import hocket.params
import hocket.torch

WORDS, BAG = 2000, 10


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", help="of the first server; without it the program starts a server and all workers")
    parser.add_argument("--workers", type=int, default=2, help="the job begins when this many have come")
    parser.add_argument("--update", default="adam(0.01)", help="the rule by which the servers update weights")
    parser.add_argument("--staleness", type=int, default=0, help="how many rounds a worker may be ahead; -1: without a bound")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=64)
    return parser.parse_args()


def bags(count, seed):
    numbers = torch.randn(WORDS, generator=torch.Generator().manual_seed(0))
    words = torch.randint(WORDS, (count, BAG), generator=torch.Generator().manual_seed(1 + seed))
    return words, (numbers[words].sum(1) > 0).long()


def work(options):
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.EmbeddingBag(WORDS, 32, mode="sum", sparse=True), torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2))
    loss = torch.nn.CrossEntropyLoss()
    with hocket.torch.ParamsOptimizer(model, options.address, update=options.update, workers=options.workers, staleness=options.staleness,
                                      overlap=True) as optimizer:  # pushes gradients and pulls weights while the model computes
        number = optimizer.worker.number
        for step in range(options.steps):
            words, answers = bags(options.batch, 1 + number * options.steps + step)  # other samples on each worker
            optimizer.zero_grad()
            loss(model(words), answers).backward()
            optimizer.step()
        optimizer.pull(min(options.staleness, 0))  # of all rounds so far, of all workers, if there is a bound
        with torch.no_grad():
            words, answers = bags(4000, 0)
            right = (model(words).argmax(1) == answers).float().mean().item()
        print(f"worker {number}: {100 * right:.1f} % right after {options.steps} steps\n", end="", flush=True)  # one write, as workers share the terminal


def run_all():
    """Starts a server, and this program once for each worker, with the same options. Returns True if all of them ended
    well."""
    os.environ.setdefault("HOCKET_SECRET", secrets.token_hex(16))  # inherited by workers; no other process may know it
    with hocket.params.serve("127.0.0.1:0") as server:
        command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--address", server.address]
        workers = [subprocess.Popen(command) for _ in range(arguments().workers)]
        return all([worker.wait() == 0 for worker in workers])


if __name__ == "__main__":
    chosen = arguments()
    if chosen.address is None:
        sys.exit(0 if run_all() else 1)
    work(chosen)
