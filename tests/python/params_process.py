"""A server, or a worker that trains, in a process of its own. usage: params_process.py MODE OPTIONS     (see serving.Process)"""
import json
import sys

import numpy as np

import hocket.params as params


def say(**what):
    print(json.dumps(what), flush=True)


def hear():
    return sys.stdin.readline()


def server(listen="127.0.0.1:0", **options):
    """Serves until it is told to end."""
    with params.serve(listen, timeout=60, **options) as serving:
        say(address=serving.address)
        hear()


def gradient(number, step, weights):
    """Numbers whose sum depends on the order in which they are added."""
    random = np.random.default_rng((number, step)).standard_normal(weights.shape)
    return (weights * np.float32(0.125) + 10.0 ** random).astype(np.float32)


def first_weights(seed=1):
    random = np.random.default_rng(seed)
    return {"embedding": random.standard_normal((300, 20), np.float32), "b": random.standard_normal(3, np.float32),
            "output": random.standard_normal((20, 7), np.float32)}


def bytes_of(weights):
    return {name: array.tobytes().hex() for name, array in weights.items()}


def trainer(number, steps, **options):
    """Trains, and says what the weights are then. The workers begin with different weights, of which one's are taken."""
    weights = first_weights(number)
    with params.open(weights, number=number, timeout=60, gives_weights=number == 1, **options) as worker:
        for step in range(steps):
            worker.pull()
            worker.push({name: gradient(number, step, array) for name, array in weights.items()})
            worker.clock()
        worker.pull()
    say(**bytes_of(weights))


def pusher(number, rounds, **options):
    """Pushes ones, round by round, and says each; before each it waits for a line."""
    weights = {"w": np.zeros(1000)}
    with params.open(weights, number=number, timeout=60, **options) as worker:
        say(number=worker.number)
        for _ in range(rounds):
            hear()
            worker.push({"w": np.ones(1000)})
            say(round=worker.clock())
        hear()


if __name__ == "__main__":
    globals()[sys.argv[1]](**json.loads(sys.argv[2]))
