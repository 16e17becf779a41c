"""MSCCL++'s executor, as far as it says whether a plan is right: written apart from schedc import, to compare both.

Between two nops the threads of a threadblock do not wait for each other, so what stands there is done in any order, as the dice fall. Puts of
port channels come later, in the order of their channel. A chunk holds the inputs that are in it, each as often as it is. For texts of the
format since MSCCL++ 0.8 that are well-formed.
"""
import json
import math
import random


class Wrong(Exception):
    pass


SYNCHRONOUS = ("signal", "wait", "rlxsignal", "rlxwait", "flush", "sem_acquire", "sem_release")


class Block:
    def __init__(self, gpu, tree, rounds):
        self.gpu, self.at, self.started = gpu, 0, False
        self.ends: dict = {}
        self.remote: dict = {}
        self.left: list = []  # of the part, as (lane, step)
        for one in tree.get("channels", []):
            self.ends.setdefault(one["channel_type"], []).extend(one["channel_ids"])
        for one in tree.get("remote_buffer_refs", []):
            self.remote.setdefault(one["access_channel_type"], []).extend(one["remote_buffer_ids"])
        self.parts: list = [[]]  # between nops and barriers, which have a part of their own
        for op in tree["ops"]:
            for number in range(rounds if op["name"] == "pipeline" else 1):
                for each in op.get("ops", [op]):
                    one = {**each, "part": (number, rounds)} if "ops" in op else each
                    if one["name"] in ("nop", "barrier"):
                        self.parts += [[one], []]
                    else:
                        self.parts[-1].append(one)


class Model:
    def __init__(self, text, dice, rounds):
        root = json.loads(text)
        self.dice, self.coll, self.in_place, self.trees = dice, root["collective"], root["inplace"], root["gpus"]
        self.ranks = len(self.trees)
        shares = [op["tbg_info"]["tbg_size"] for gpu in self.trees for tb in gpu["threadblocks"] for op in tb["ops"] if "tbg_info" in op]
        self.fine = math.lcm(rounds, *shares)
        sizes = [max(gpu[name] for gpu in self.trees) * self.fine for name in ("input_chunks", "output_chunks")]
        piece = {"allgather": (1, self.ranks), "reducescatter": (self.ranks, 1)}.get(self.coll, (1, 1))
        self.piece = max(sizes[0] // piece[0], sizes[1] // piece[1])
        if self.in_place and piece != (1, 1) and sizes[0] == sizes[1]:
            self.piece = sizes[0] // self.ranks
        self.inputs, self.outputs = self.piece * piece[0], self.piece * piece[1]
        self.whole = [size == self.piece * self.ranks for size in sizes]
        self.memory: dict = {}
        self.packets: dict = {}
        self.signals: dict = {}
        self.queues: dict = {}
        self.channels = [self.ends_of(gpu) for gpu in self.trees]
        self.semaphores = [[one["init_value"] for one in gpu.get("semaphores", [])] for gpu in self.trees]
        self.blocks = [Block(rank, tb, rounds) for rank, gpu in enumerate(self.trees) for tb in gpu["threadblocks"]]
        for rank in range(self.ranks):
            if self.coll != "broadcast" or rank == 0:
                for chunk in range(self.inputs):
                    self.memory[self.place(rank, "i", chunk + (rank * self.piece if self.is_whole("i", "allgather") else 0))] = [(rank, chunk)]

    def ends_of(self, gpu):
        """By kind, what each end is: (peer, number among those of the kind to the peer); groups: their GPUs and the buffer."""
        ends: dict = {"memory": [], "port": [], "switch": []}
        for channel in gpu["channels"]:
            kind = channel["channel_type"]
            if kind == "switch":
                ends[kind] += [(group["ranks"], channel.get("buffer_type", channel.get("buff"))) for group in channel["rank_groups"]]
            for peer in channel.get("connected_to", []):
                ends[kind].append((peer, sum(one[0] == peer for one in ends[kind])))
        return ends

    def is_whole(self, buffer, coll):
        return self.in_place and self.coll == coll and self.whole["io".index(buffer)]

    def place(self, rank, buffer, chunk):
        """In place, a piece lies where the whole buffer has it."""
        if not self.in_place or buffer == "s":
            return rank, buffer, chunk
        is_piece = (self.coll, buffer) in (("allgather", "i"), ("reducescatter", "o")) and not self.is_whole(buffer, self.coll)
        return rank, "io", chunk + (rank * self.piece if is_piece else 0)

    def places(self, block, op, one):
        """The places of a range, for each GPU that it is at."""
        share, shares = op.get("part", (op.get("tbg_info", {}).get("tb_id", 0), op.get("tbg_info", {}).get("tbg_size", 1)))
        count = one["size"] * self.fine
        chunks = range(one["index"] * self.fine + count * share // shares, one["index"] * self.fine + count * (share + 1) // shares)
        if "type" in one:
            where = [(block.gpu, one["type"])]
        elif "buffer_id" in one:
            remote = self.trees[block.gpu]["remote_buffers"][block.remote[op["channel_type"]][one["buffer_id"]]]
            where = [(remote["rank"], remote["type"])]
        else:
            ranks, buffer = self.channels[block.gpu]["switch"][block.ends["switch"][one["switch_channel_id"]]]
            where = [(rank, buffer) for rank in sorted(ranks, key=lambda rank: rank != block.gpu)]
        return [[self.place(rank, buffer, chunk) for chunk in chunks] for rank, buffer in where]

    def end(self, block, op, number):
        kind = op["channel_type"]
        return (kind, *self.channels[block.gpu][kind][block.ends[kind][op["channel_ids"][number]]])

    def value(self, place):
        if place not in self.memory:
            raise Wrong(f"{place} holds nothing")
        return self.memory[place]

    def sum_of(self, sources, packets):
        return [pair for place, is_packet in zip(sources, packets) for pair in (self.packets[place] if is_packet else self.value(place))]

    def actions(self, block, op):
        """What the threads do, chunk by chunk: (sources, which are packets, targets, which are packets)."""
        name = op["name"]
        sources = [place for one in op["src_buff"] for place in self.places(block, op, one)]
        targets = [place for one in op["dst_buff"] for place in self.places(block, op, one)]
        reads = [name in ("upkt", "rppkt", "gstorepkt") or (name.endswith("pkt") and name.startswith("re") and i > 0)
                 or (name == "ppkt" and op["channel_type"] == "port") for i in range(len(sources))]
        writes = [name in ("cpkt", "ppkt", "rppkt", "gstorepkt") or (name.endswith("pkt") and name.startswith("re") and i > 0) for i in range(len(targets))]
        if name in ("put", "pws", "pwsf", "get", "ppkt"):
            pairs = [([a], [x], [b], [y]) for a, x, b, y in zip(sources, reads, targets, writes)]
        else:
            pairs = [(sources, reads, targets, writes)]
        return [[([a[i] for a in s], r, [b[i] for b in t], w) for i in range(len(s[0]))] for s, r, t, w in pairs]

    def move(self, action):
        sources, reads, targets, writes = action
        value = self.sum_of(sources, reads)
        for place, is_packet in zip(targets, writes):
            if is_packet:
                if self.packets.get(place, value) != value:
                    raise Wrong("packets are written twice")
                self.packets[place] = value
            else:
                self.memory[place] = value

    def can_move(self, action, polls=True):
        return not polls or all(place in self.packets for place, is_packet in zip(action[0], action[1]) if is_packet)

    def start(self, block):
        """Turns the operations until the next nop into steps that go on as the dice fall: (lane, step)."""
        block.left = []
        for op in block.parts[block.at]:
            name = op["name"]
            if name in SYNCHRONOUS:
                count = len(op.get("channel_ids", op.get("semaphore_ids", [])))
                block.left += [(lane, (name, op, lane)) for lane in range(count)]
            elif name not in ("nop", "barrier"):
                by_port = op.get("channel_type") == "port"
                for lane, actions in enumerate(self.actions(block, op)):
                    for lane_number, target in enumerate(actions and op["dst_buff"]) if name == "rppkt" and by_port else [(lane, None)]:
                        if target:
                            places = self.places(block, op, target)[0]
                            chosen = [(s, r, [places[i]], [True]) for i, (s, r, _, _) in enumerate(actions)]
                        else:
                            chosen = actions
                        if by_port:
                            block.left.append((lane_number, ("post", op, lane_number, chosen)))
                        else:
                            block.left += [(None, ("move", action)) for action in chosen]
        block.started = True

    def queue(self, block, op, number):
        kind, peer, which = self.end(block, op, number)
        return self.queues.setdefault((block.gpu, peer, kind, which), [])

    def try_step(self, block, step):
        if step[0] == "move":
            if self.can_move(step[1]):
                self.move(step[1])
                return True
            return False
        name, op, number = step[:3]
        if name == "post":
            if op["name"] == "rppkt" and not all(self.can_move(action) for action in step[3]):
                return False
            queue = self.queue(block, op, number)
            queue += [("move", action) for action in step[3]]
            if op["name"] in ("pws", "pwsf"):
                queue.append(("signal",))
            return op["name"] != "pwsf" or not self.drain(block, op, number)
        if name.endswith("signal"):
            self.queue(block, op, number).append(("signal",))
        elif name == "flush":
            return True  # since 0.8 the executor does nothing
        elif name.endswith("wait"):
            kind, peer, which = self.end(block, op, number)
            key = (peer, block.gpu, kind, which)
            if not self.signals.get(key):
                return False
            self.signals[key] -= 1
        else:
            semaphores, which = self.semaphores[block.gpu], op["semaphore_ids"][number]
            if name == "sem_acquire" and semaphores[which] == 0:
                return False
            semaphores[which] += -1 if name == "sem_acquire" else 1
        return True

    def drain(self, block, op, number):
        kind, peer, which = self.end(block, op, number)
        while self.queues.get((block.gpu, peer, kind, which)):
            self.deliver((block.gpu, peer, kind, which))
        return False

    def deliver(self, key):
        one = self.queues[key].pop(0)
        if one[0] == "signal":
            self.signals[key] = self.signals.get(key, 0) + 1
            return
        if not self.can_move(one[1]):
            raise Wrong("packets are put before they are there")
        self.move(one[1])

    def advance(self, block):
        """One step of a threadblock, or its way behind a nop or a barrier. Returns whether there was one."""
        if block.at >= len(block.parts):
            return False
        if not block.started:
            self.start(block)
        lanes, chances = set(), []
        for i, (lane, _) in enumerate(block.left):
            if lane is None or lane not in lanes:
                chances.append(i)
            lanes.add(lane)
        self.dice.shuffle(chances)
        for i in chances:
            if self.try_step(block, block.left[i][1]):
                del block.left[i]
                return True
        if block.left:
            return False
        part = block.parts[block.at]
        if part and part[0]["name"] == "barrier":
            there = [other for other in self.blocks if other.gpu == block.gpu and other.at < len(other.parts) and other.parts[other.at]
                     and other.parts[other.at][0]["name"] == "barrier" and other.parts[other.at][0]["barrier_id"] == part[0]["barrier_id"]]
            if len(there) < part[0]["num_threadblocks"]:
                return False
        else:
            there = [block]
        for one in there:
            one.at, one.started = one.at + 1, False
        return True

    def run(self):
        idle = 0
        while idle < 2:
            went = False
            order = self.blocks[:]
            self.dice.shuffle(order)
            for block in order:
                for _ in range(self.dice.choice((1, 1, 3, 20))):
                    if not self.advance(block):
                        break
                    went = True
            for key, queue in self.queues.items():
                while queue and (self.dice.random() < 0.3 or not went):
                    self.deliver(key)
                    went = True
            idle = 0 if went else idle + 1
        if any(block.at < len(block.parts) for block in self.blocks):
            raise Wrong("operations wait for each other")
        if any(self.signals.values()):
            raise Wrong("signals are left")

    def expected(self, rank, chunk):
        if self.coll == "allgather":
            return [(chunk // self.piece, chunk % self.piece)]
        if self.coll == "alltoall":
            each = self.piece // self.ranks
            return [(chunk // each, rank * each + chunk % each)]
        if self.coll == "broadcast":
            return [(0, chunk)]
        if self.coll == "reducescatter":
            return [(other, rank * self.piece + chunk) for other in range(self.ranks)]
        return [(other, chunk) for other in range(self.ranks)]

    def check(self):
        shifts = set()
        for rank in range(self.ranks):
            for chunk in range(self.outputs):
                value = self.value(self.place(rank, "o", chunk + (rank * self.piece if self.is_whole("o", "reducescatter") else 0)))
                if self.coll == "sendrecv":
                    shifts.add((rank - value[0][0]) % self.ranks)
                    if len(value) != 1 or value[0][1] != chunk or len(shifts) != 1:
                        raise Wrong(f"gpu {rank} chunk {chunk}: {value}")
                elif sorted(value) != self.expected(rank, chunk):
                    raise Wrong(f"gpu {rank} chunk {chunk}: {value}")


def why_wrong(text, seeds=4):
    """Why a plan's result is wrong in some order, or None if it has been right in all that were tried."""
    for seed in range(seeds):
        try:
            model = Model(text, random.Random(seed), 1 + seed % 2)
            model.run()
            model.check()
        except Wrong as error:
            return str(error)
    return None
