"""torchft: each rank is a replica, and the last one is lost and comes back: fault_tolerant.py BACKEND

It comes back with other weights, and gets those of the others. At the end all have the same, which differ from run to run, as
nobody knows in which step a replica is missed.
"""
import datetime
import os
import sys

import outcome
import torch
from torch.distributed import TCPStore
from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo
from torchft.coordination import LighthouseServer

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LIMIT = datetime.timedelta(seconds=20)
LOST_AT, LAST = 4, 12


def group_of(backend):
    if backend == "gloo":
        return ProcessGroupGloo(timeout=LIMIT)
    from hocket.torch.torchft import ProcessGroupHocket
    return ProcessGroupHocket(timeout=LIMIT)


class Replica:
    def __init__(self, backend, lighthouse, seed):
        self.model = outcome.model()
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.add_(0.1 * seed)
        optimizer = torch.optim.SGD(self.model.parameters(), 0.05)
        self.store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
        self.manager = Manager(pg=group_of(backend), min_replica_size=SIZE - 1, replica_id=f"replica{RANK}", lighthouse_addr=lighthouse, rank=0,
                               world_size=1, store_addr="localhost", store_port=self.store.port, timeout=LIMIT, quorum_timeout=LIMIT,
                               load_state_dict=self.load, state_dict=self.state)
        self.inner, self.parallel = optimizer, DistributedDataParallel(self.manager, self.model)
        self.optimizer = Optimizer(self.manager, optimizer)

    def state(self):
        return {"model": self.model.state_dict(), "optimizer": self.inner.state_dict()}

    def load(self, state):
        self.model.load_state_dict(state["model"])
        self.inner.load_state_dict(state["optimizer"])

    def train(self, until):
        losses = []
        while self.manager.current_step() < until:
            inputs, targets = next(outcome.batches(1000 * RANK + self.manager.current_step(), 1))
            self.optimizer.zero_grad()
            loss = outcome.loss_of(self.parallel(inputs), targets)
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return losses

    def close(self):
        self.manager.shutdown(wait=False)


def meet(store, where):
    store.set(f"{where}, rank {RANK}", "")
    for rank in range(SIZE):
        store.get(f"{where}, rank {rank}")


def main(backend):
    meeting = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    if RANK == 0:
        server = LighthouseServer(bind="[::]:0", min_replicas=SIZE - 1, join_timeout_ms=3000)
        meeting.set("lighthouse", server.address())
    lighthouse = meeting.get("lighthouse").decode()
    replica = Replica(backend, lighthouse, 0)
    meet(meeting, "replicas")
    if RANK == SIZE - 1:
        replica.train(LOST_AT)
        replica.close()
        losses = []
    else:
        losses = replica.train(LOST_AT + 3)
    meet(meeting, "those that are left have gone on")  # before: a new replica counts, and they would wait for it
    if RANK == SIZE - 1:
        replica = Replica(backend, lighthouse, RANK)
    meet(meeting, "back again")
    losses += replica.train(LAST)
    assert replica.manager.num_participants() in (SIZE - 1, SIZE), replica.manager.num_participants()
    if RANK == 0:
        outcome.check_learnt(losses)
    meeting.set(f"weights of {RANK}", outcome.digest(replica.model.parameters()) + f" after {replica.manager.current_step()}")
    everyone = {meeting.get(f"weights of {rank}") for rank in range(SIZE)}
    assert len(everyone) == 1, everyone
    outcome.tell(RANK, f"the same weights after {replica.manager.current_step()} steps")
    meet(meeting, "the end")
    replica.close()
    if RANK == 0:
        server.shutdown()


main(sys.argv[1])
