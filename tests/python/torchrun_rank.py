"""A rank that torchrun has started, with nothing but hocket.init(). usage: torchrun_rank.py restarted | meeting | port"""
import os
import sys

import numpy as np

import hocket


def meeting():
    attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
    for which in ("first", "second"):
        comm = hocket.init(timeout=60)
        print(f"attempt {attempt}, {which}: {comm.all_reduce(np.array([float(comm.rank)]))[0]}", flush=True)
    comm.barrier()  # so that torchrun ends no rank before it has printed
    return attempt, comm.rank


def restarted():
    if meeting() == ("0", 1):
        sys.exit("once")


def port():
    os.environ["MASTER_PORT"] = os.environ["HOCKET_TEST_PORT"]
    comm = hocket.init(timeout=60)
    print(f"{'with' if 'torch' in sys.modules else 'without'} torch: {comm.all_reduce(np.array([float(comm.rank)]))[0]}", flush=True)


globals()[sys.argv[1]]()
