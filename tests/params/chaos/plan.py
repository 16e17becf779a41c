"""The events of a round of the chaos test, all drawn from one number, the seed."""
import dataclasses
import random

UNBOUNDED = -1
# The relative frequency of each fault.
WEIGHTS = {
    "kill_worker": 3, "kill_two_workers": 2, "worker_comes": 3, "worker_is_killed_as_it_comes": 1, "worker_leaves": 3,
    "kill_server": 4, "restart_server": 3, "kill_all_servers": 2, "kill_server_and_worker": 3,
    "stop_worker": 2, "stop_worker_for_too_long": 1, "stop_server": 2, "replace_a_server_that_stands_still": 1,
    "cut_host": 4, "cut_host_for_too_long": 1, "cut_host_again_and_again": 1, "cut_two_hosts_apart": 1,
    "fill_disk": 3, "kill_all": 3,
}
NEED_NETWORKS = {name for name in WEIGHTS if name.startswith("cut_")}
NEED_TWO_SERVERS = {"replace_a_server_that_stands_still"}


@dataclasses.dataclass
class Plan:
    seed: int
    servers: int
    workers: int
    staleness: int
    tree: str
    every: int
    chunk_bytes: int
    manner: str
    sleep_ms: int
    checkpoint_each: int
    silence_ms: int
    return_ms: int
    timeout_ms: int
    hosts: int
    shares_memory: bool  # processes of one host; those of different hosts never do
    server_hosts: list
    worker_hosts: list
    faults: list  # (seconds after the one before, name, seed of its own)

    def text(self):
        staleness = "unbounded" if self.staleness == UNBOUNDED else self.staleness
        names = ", ".join(name for _, name, _ in self.faults)
        return (f"{self.servers} servers, {self.workers} workers, {self.hosts} hosts, staleness {staleness}, tree {self.tree}, "
                f"every {self.every}, return_ms {self.return_ms}: {names}")


def draw(seed, has_networks=True, is_short=False):
    """has_networks: hosts can be made, and cut off. is_short: of some seconds."""
    chance = random.Random(seed)
    servers, workers = chance.choice([1, 2, 2, 3]), chance.randint(2, 6)
    hosts = chance.choice([1, 2, 3, 4, 5]) if has_networks else 1
    server_hosts = [chance.randrange(hosts) for _ in range(servers)]
    worker_hosts = [chance.randrange(hosts) for _ in range(workers)]
    # With the defaults an outage may take up to 9 s. Most rounds have shorter times.
    is_patient = not is_short and chance.random() < 0.2
    staleness = chance.choice([0, 0, 2, 2, UNBOUNDED])
    trees = ["direct", "auto"]
    if staleness != UNBOUNDED:
        trees += ["binary", "binary", "degree 1", "degree 3", "rack"]
    plan = Plan(
        seed=seed, servers=servers, workers=workers, staleness=staleness, tree=chance.choice(trees),
        every=chance.choice([1, 2, 5, 10, 20]), chunk_bytes=chance.choice([4096, 8192]),
        manner=chance.choice(["whole", "whole", "sparse", "apart"]), sleep_ms=chance.choice([20, 35, 60]),
        checkpoint_each=chance.choice([0, 0, 7, 30]), silence_ms=2000 if is_patient else 500,
        return_ms=10000 if is_patient else 3000, timeout_ms=30000, hosts=hosts, shares_memory=chance.random() < 0.5,
        server_hosts=server_hosts, worker_hosts=worker_hosts, faults=[])
    count = 2 if is_short else chance.randint(2, 4) if is_patient else chance.randint(3, 7)
    names = [name for name in WEIGHTS
             if (hosts > 1 or name not in NEED_NETWORKS) and (servers > 1 or name not in NEED_TWO_SERVERS)]
    for _ in range(count):
        pause = chance.choice([0, chance.uniform(0, 0.5), chance.uniform(0.5, 2)])
        name = chance.choices(names, [WEIGHTS[name] for name in names])[0]
        plan.faults.append((pause, name, chance.randrange(1 << 30)))
    # A busy machine may keep a worker from answering for some seconds more.
    if is_short and any(name == "stop_worker" for _, name, _ in plan.faults):
        plan.return_ms = 6000
    return plan
