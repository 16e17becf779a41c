"""A rank of a job in which the libraries that sys.argv names cannot be loaded. usage: bare_rank.py LIBRARY..."""
import ctypes
import os
import sys
import tempfile

for name in sys.argv[1:]:
    try:
        ctypes.CDLL(name)
    except OSError:
        continue
    sys.exit(f"{name} is there")

import numpy as np

import hocket


def words(error):
    return str(error).replace("\n", " ")[:150]


with hocket.init() as comm:
    x = comm.empty(100000)
    for _ in range(20):  # so often that plans would be compiled
        x[:] = comm.rank + 1
        comm.all_reduce(x)
        assert (x == 3).all(), x
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "own.sched")
        with open(path, "w") as file:
            file.write("operator absmax(a, b) = max(abs(a), abs(b))\n")
        own = comm.operator(path + ":absmax")
        for _ in range(20):
            y = comm.all_reduce(np.full(1000, [-1.0, 2.0][comm.rank]), op=own)
            assert (y == 2).all(), y
        try:
            comm.plan("all_reduce", "float64", own, executor="jit")
            sys.exit("there is a JIT without LLVM")
        except hocket.Error as error:
            print(f"right: {comm.info('provider')}; {words(error)}", flush=True)
try:
    os.environ["HOCKET_PROVIDER_FOR_ALL"] = "ofi+tcp"
    hocket.init(timeout=30)
    sys.exit("there is a provider without libfabric")
except hocket.Error as error:
    print(f"right: {words(error)}", flush=True)
