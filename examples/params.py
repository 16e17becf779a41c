#!/usr/bin/env python3
"""Trains logistic regression with the parameter service, from NumPy.

    python3 examples/params.py --workers 3 --servers 2                          # starts all of them on this host, as processes
    HOCKET_SECRET=some-text python3 examples/params.py serve [::]:7000          # or each by itself: a server,
    HOCKET_SECRET=some-text python3 examples/params.py work 10.0.0.4:7000 --workers 2     # and two workers, on any hosts

Each worker has samples of its own. A step pulls the weights, computes a gradient from 64 samples, and pushes it; servers take the
average of all workers' gradients. The last line says how many of 10,000 samples that nobody has trained with are told right.
"""
import argparse
import os
import secrets
import subprocess
import sys

import numpy as np

import hocket.params

FEATURES, BATCH = 200, 64


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["all", "serve", "work"], default="all")
    parser.add_argument("address", nargs="?", help="serve: where to listen; work: where the first server is")
    parser.add_argument("--workers", type=int, default=2, help="the job begins when this many have come")
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--join", help="serve: the address of the first server, if this is not the first one")
    parser.add_argument("--staleness", type=int, default=0, help="how many rounds a worker may be ahead; -1: without a bound")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rate", type=float, default=0.5)
    given = parser.parse_args()
    if given.what != "all" and given.address is None:
        parser.error(f"{given.what} needs an address")
    return given


def samples(count, seed):
    """Returns numbers, and the side of a plane on which they lie; the plane is the same for all seeds."""
    plane = np.random.default_rng(0).standard_normal(FEATURES, np.float32)
    x = np.random.default_rng((1, seed)).standard_normal((count, FEATURES), np.float32)
    return x, (x @ plane > 0.5 * np.linalg.norm(plane)).astype(np.float32)


def gradients(weights, x, y):
    error = 1 / (1 + np.exp(-(x @ weights["w"] + weights["b"]))) - y
    return {"w": x.T @ error / len(y), "b": np.full(1, error.mean(), np.float32)}


def work(options):
    weights = {"w": np.zeros(FEATURES, np.float32), "b": np.zeros(1, np.float32)}
    with hocket.params.open(weights, address=options.address, workers=options.workers, staleness=options.staleness,
                            update=f"sgd({options.rate})") as worker:
        x, y = samples(BATCH * 100, 1 + worker.number)
        for step in range(options.steps):
            begin = BATCH * (step % 100)
            worker.pull()                                                # into the arrays of `weights`
            worker.push(gradients(weights, x[begin:begin + BATCH], y[begin:begin + BATCH]))
            worker.clock()
        worker.pull(staleness=min(options.staleness, 0))                 # all rounds so far, of all workers, where there is a bound
        x, y = samples(10000, 0)
        right = np.mean((x @ weights["w"] + weights["b"] > 0) == (y > 0.5))
        print(f"worker {worker.number}: {100 * right:.1f} % right after {options.steps} steps\n", end="", flush=True)  # one write, as workers share the terminal


def serve(options):
    with hocket.params.serve(options.address, join=options.join, servers=options.servers) as server:
        print(server.address, flush=True)
        server.wait()


def run_all(options):
    """Starts this program once for each server and worker. Returns True if all of them ended well."""
    os.environ.setdefault("HOCKET_SECRET", secrets.token_hex(16))  # inherited by them; no other process may know it
    numbers = [f"--{name}={getattr(options, name)}" for name in ("workers", "servers", "staleness", "steps", "rate")]
    processes = []

    def start(*words, **keywords):
        processes.append(subprocess.Popen([sys.executable, os.path.abspath(__file__), *words, *numbers], **keywords))
        return processes[-1]

    first = start("serve", "127.0.0.1:0", stdout=subprocess.PIPE, text=True)
    address = first.stdout.readline().strip()
    for _ in range(1, options.servers):
        start("serve", "127.0.0.1:0", "--join", address, stdout=subprocess.DEVNULL)
    for _ in range(options.workers):
        start("work", address)
    return all([process.wait() == 0 for process in processes])


if __name__ == "__main__":
    chosen = arguments()
    if chosen.what == "all":
        sys.exit(0 if run_all(chosen) else 1)
    (serve if chosen.what == "serve" else work)(chosen)
