"""A rank that torchrun has started. There MASTER_PORT belongs to torch's store, in which the ranks meet."""
import ctypes
import datetime
import os

from torch.distributed import TCPStore

from hocket_by_ctypes import Communicator, Failure, Store

store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), int(os.environ["WORLD_SIZE"]), False,
                 datetime.timedelta(seconds=30))
for group in ("first", "second"):
    comm = Communicator(Store(store, group))
    probe = (ctypes.c_float * 1)(comm.rank)
    comm.add_up(ctypes.addressof(probe), 1)
    print(f"{group}: {probe[0]}", flush=True)
try:
    Communicator()
except Failure as failure:
    print(f"without a store: {failure}", flush=True)
