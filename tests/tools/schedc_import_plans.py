"""Plans in MSCCL++'s JSON, made for tests of schedc import: each function returns a Plan, which has a text in both generations of the format.

Ranges are (gpu, buffer, first chunk, count).
"""
import json

OLD_NAMES = {"upkt": "cpkt", "cpkt": "tpkt", "res": "rs", "rre": "rrc", "rres": "rrcs", "repkt": "rpkt", "respkt": "rspkt"}
OLD_KINDS = {"memory": "sm", "port": "proxy", "switch": "nvls", "none": "none"}


class Plan:
    def __init__(self, collective, ranks, chunks, in_place=True, protocol="Simple", name="test", **fields):
        """chunks: of the input, the output and the scratch buffer."""
        self.ranks, self.chunks = ranks, chunks
        self.head = {"name": name, "collective": collective, "protocol": protocol, "inplace": in_place, **fields}
        self.blocks: list = [[] for _ in range(ranks)]
        self.semaphores: list = [[] for _ in range(ranks)]

    def op(self, gpu, tb, name, src=(), dst=(), kind="none", peers=(), tag=0, bufs=("i", "i"), **fields):
        """peers: those of the channels that are signalled, awaited or flushed. bufs: the buffers of an old channel."""
        while len(self.blocks[gpu]) <= tb:
            self.blocks[gpu].append([])
        made = {"name": name, "src": list(src), "dst": list(dst), "kind": kind, "peers": list(peers), "tag": tag, "bufs": bufs, "fields": fields}
        self.blocks[gpu][tb].append(made)
        return made

    def nop(self, gpu, tb):
        self.op(gpu, tb, "nop")

    def meet(self, gpu, tb, peers, tag=0, kind="memory", relaxed=False):
        """All that came before is over at the peers, too."""
        prefix = "rlx" if relaxed else ""
        self.nop(gpu, tb)
        self.op(gpu, tb, prefix + "signal", kind=kind, peers=peers, tag=tag)
        self.op(gpu, tb, prefix + "wait", kind=kind, peers=peers, tag=tag)
        self.nop(gpu, tb)

    def loop(self, gpu, tb, chunks, unit=1024):
        """What is done with the result is in the loop."""
        made = {"name": "pipeline", "chunks": chunks, "unit": unit, "ops": []}
        while len(self.blocks[gpu]) <= tb:
            self.blocks[gpu].append([])
        self.blocks[gpu][tb].append(made)
        return Loop(self, gpu, tb, made)

    def uses(self, old):
        """For each GPU the channels that it or its peers use: (kind, peer, tag, buffers)."""
        found: list = [set() for _ in range(self.ranks)]
        for gpu, blocks in enumerate(self.blocks):
            for op in (one for ops in blocks for outer in ops for one in outer.get("ops", [outer])):
                for peer, kind, tag, bufs in channels_of(gpu, op, old):
                    found[gpu].add((kind, peer, tag, bufs))
                    found[peer].add((kind, gpu, tag, bufs))
        return [sorted(one) for one in found]

    def tree(self, old=False):
        made = dict(self.head)
        names = ("inputChunks", "outputChunks", "scratchChunks") if old else ("input_chunks", "output_chunks", "scratch_chunks")
        made["gpus"] = []
        for gpu, used in enumerate(self.uses(old)):
            one = {"id": gpu, **dict(zip(names, self.chunks))}
            one.update(OldText(self, gpu, used).fields() if old else Text(self, gpu, used).fields())
            made["gpus"].append(one)
        return made

    def text(self, old=False):
        return json.dumps(self.tree(old), indent=1)


class Loop:
    def __init__(self, plan, gpu, tb, made):
        self.plan, self.gpu, self.tb, self.made = plan, gpu, tb, made

    def op(self, *arguments, **fields):
        self.made["ops"].append(self.plan.op(self.gpu, self.tb, *arguments, **fields))
        self.plan.blocks[self.gpu][self.tb].pop()


def channels_of(gpu, op, old):
    """(peer, kind, tag, buffers) of each."""
    kind = op.get("kind", "none")
    if kind not in ("memory", "port"):
        return []
    if op["peers"]:
        return [(peer, kind, op["tag"], op["bufs"] if old else None) for peer in op["peers"]]
    remote = [(end, other) for mine, others in ((op["src"], op["dst"]), (op["dst"], op["src"])) for end in mine if end[0] != gpu
              for other in ([one for one in others if one[0] == gpu] or op["src"])[:1]]
    if old:
        return [(end[0], kind, op["tag"], (other[1], end[1])) for end, other in remote]
    return [(end[0], kind, op["tag"], None) for end, _ in remote] if kind == "port" else []


class Text:
    """A GPU in the format since MSCCL++ 0.8."""

    def __init__(self, plan, gpu, used):
        self.plan, self.gpu, self.used = plan, gpu, used
        self.remote: list = []
        self.groups: list = []

    def fields(self):
        blocks = [self.block(number, ops) for number, ops in enumerate(self.plan.blocks[self.gpu])]
        channels = [{"channel_type": kind, "connected_to": [one[1] for one in self.used if one[0] == kind]} for kind in ("memory", "port")]
        channels += [{"channel_type": "switch", "buffer_type": buffer, "rank_groups": [{"size": 1, "ranks": list(range(self.plan.ranks))}]} for buffer in self.groups]
        return {"threadblocks": blocks, "channels": channels, "semaphores": [{"init_value": value} for value in self.plan.semaphores[self.gpu]],
                "remote_buffers": [{"rank": rank, "type": buffer, "access_channel_types": [kind]} for rank, buffer, kind in self.remote]}

    def block(self, number, ops):
        self.ends: dict = {"memory": [], "port": [], "switch": []}
        self.refs: dict = {"memory": [], "port": []}
        made = [self.loop(op) if op["name"] == "pipeline" else self.op(op) for op in ops]
        return {"id": number, "ops": made, "channels": [{"channel_type": kind, "channel_ids": ids} for kind, ids in self.ends.items() if ids],
                "remote_buffer_refs": [{"access_channel_type": kind, "remote_buffer_ids": ids} for kind, ids in self.refs.items() if ids]}

    def loop(self, op):
        return {"name": "pipeline", "iter_context": {"unit_size": op["unit"], "num_chunks": op["chunks"]}, "ops": [self.op(one) for one in op["ops"]]}

    @staticmethod
    def number(known, one):
        if one not in known:
            known.append(one)
        return known.index(one)

    def channel(self, kind, peer, tag):
        all_ends = [one[1:3] for one in self.used if one[0] == kind]
        return self.number(self.ends[kind], all_ends.index((peer, tag)))

    def range(self, op, one):
        place = {"index": one[2], "size": one[3]}
        if one[0] == "all":
            return {"switch_channel_id": self.number(self.ends["switch"], self.number(self.groups, one[1])), **place}
        if one[0] == self.gpu:
            return {"type": one[1], **place}
        return {"buffer_id": self.number(self.refs[op["kind"]], self.number(self.remote, (one[0], one[1], op["kind"]))), **place}

    def op(self, op):
        made = {"name": op["name"], **op["fields"]}
        for key, ranges in (("src_buff", op["src"]), ("dst_buff", op["dst"])):
            if ranges:
                made[key] = [self.range(op, one) for one in ranges]
        if op["kind"] != "none":
            made["channel_type"] = op["kind"]
        used = channels_of(self.gpu, op, False)
        if used:
            made["channel_ids"] = [self.channel(kind, peer, tag) for peer, kind, tag, _ in used]
        return made


class OldText(Text):
    """A GPU in the format until MSCCL++ 0.7."""

    def fields(self):
        blocks = [self.block(number, ops) for number, ops in enumerate(self.plan.blocks[self.gpu])]
        channels = [{"type": OLD_KINDS[kind], "srcbuff": bufs[0], "dstbuff": bufs[1], "connectedTo": [peer]} for kind, peer, _, bufs in self.used]
        channels += [{"type": "nvls", "buff": buffer, "rankGroups": [{"size": 1, "ranks": list(range(self.plan.ranks))}]} for buffer in self.groups]
        return {"chunkGroups": 1, "threadblocks": blocks, "channels": channels}

    def block(self, number, ops):
        self.ids: dict = {}
        made = [self.op(op) for op in ops]
        return {"id": number, "ops": made,
                "channels": [{"src": bufs[0], "dst": bufs[1], "ctype": OLD_KINDS[kind], "cids": ids} for (kind, bufs), ids in self.ids.items()]}

    def channel(self, kind, peer, tag, bufs):
        alike = [one[1:3] for one in self.used if (one[0], one[3]) == (kind, bufs)]
        return self.number(self.ids.setdefault((kind, bufs), []), alike.index((peer, tag)))

    def op(self, op):
        made: dict = {"name": OLD_NAMES.get(op["name"], op["name"])}
        if op["name"] == "nop":
            return made
        if op["name"] == "barrier":
            return {**made, "barrier_id": op["fields"]["barrier_id"], "nthread_blocks": op["fields"]["num_threadblocks"]}
        made["ctype"] = OLD_KINDS[op["kind"]]
        if op["peers"]:
            side = "i" if op["name"] == "wait" else "o"
            made.update({f"{side}_buff": dict(zip(("src", "dst"), op["bufs"])),
                         f"{side}_cids": [{"id": self.channel(op["kind"], peer, op["tag"], op["bufs"]), "off": 0} for peer in op["peers"]]})
            return made
        made["cnt"] = (op["src"] or op["dst"])[0][3]
        for side, key, ranges in (("i", "src", op["src"]), ("o", "dst", op["dst"])):
            local = [one for one in ranges if one[0] in (self.gpu, "all")]
            if local and not (key == "src" and op["name"] in ("put", "pws", "pwsf", "ppkt", "rppkt")) and not (key == "dst" and op["name"] == "get"):
                made.update({key: self.gpu, key + "buff": local[0][1], key + "off": local[0][2]})
                local = local[1:]
            if local:
                made[key + "s"] = [{"buff": one[1], "off": one[2]} for one in local]
            if op["kind"] == "switch":
                made[f"{side}_cids"] = [{"id": self.number(self.ids.setdefault(("switch", (ranges[0][1],) * 2), []), self.number(self.groups, ranges[0][1]))}]
        sides = ["i" for one in op["src"] if one[0] not in (self.gpu, "all")] + ["o" for one in op["dst"] if one[0] not in (self.gpu, "all")]
        remote = [one for one in op["src"] + op["dst"] if one[0] not in (self.gpu, "all")]
        for side, one, (peer, kind, tag, bufs) in zip(sides, remote, channels_of(self.gpu, op, True)):
            made[f"{side}_buff"] = dict(zip(("src", "dst"), bufs))
            made.setdefault(f"{side}_cids", []).append({"id": self.channel(kind, peer, tag, bufs), "off": one[2]})
        return made


def others(rank, ranks):
    return [peer for peer in range(ranks) if peer != rank]


def ring_all_reduce(ranks):
    """Sums arrive in scratch, and are added there to the own operand; then the results go around."""
    made = Plan("allreduce", ranks, (ranks, 0, ranks - 1), name="ring allreduce")
    for rank in range(ranks):
        after, before = (rank + 1) % ranks, (rank - 1) % ranks
        for step in range(2 * ranks - 2):
            chunk, arrives = (rank - step) % ranks, (rank - step - 1) % ranks
            is_sum = step < ranks - 1
            made.op(rank, 0, "put", [(rank, "i", chunk, 1)], [(after, "s", step, 1) if is_sum else (after, "i", chunk, 1)], "memory")
            made.nop(rank, 0)
            made.op(rank, 0, "signal", kind="memory", peers=[after])
            made.op(rank, 0, "wait", kind="memory", peers=[before])
            made.nop(rank, 0)
            if is_sum:
                made.op(rank, 0, "re", [(rank, "i", arrives, 1), (rank, "s", step, 1)], [(rank, "i", arrives, 1)])
                made.nop(rank, 0)
    return made


def one_phase_all_reduce(ranks):
    """Everybody gets all operands as packets, and adds them up."""
    made = Plan("allreduce", ranks, (1, 1, ranks), protocol="LL", name="one phase")
    for rank in range(ranks):
        made.op(rank, 0, "ppkt", [(rank, "i", 0, 1)] * (ranks - 1), [(peer, "s", rank, 1) for peer in others(rank, ranks)], "memory")
        made.nop(rank, 0)
        made.op(rank, 0, "repkt", [(rank, "i", 0, 1)] + [(rank, "s", peer, 1) for peer in others(rank, ranks)], [(rank, "i", 0, 1)])
    return made


def two_phase_all_reduce(ranks, parts=1):
    """Packets of all pairs, sums that are sent as packets at once."""
    made = Plan("allreduce", ranks, (ranks * parts, 0, 2 * ranks * parts), protocol="LL", name="two phases", use_double_scratch_buffer=True)
    for rank in range(ranks):
        own = rank * parts
        for peer in others(rank, ranks):
            made.op(rank, 0, "ppkt", [(rank, "i", peer * parts, parts)], [(peer, "s", own, parts)], "memory")
        made.op(rank, 0, "respkt", [(rank, "i", own, parts)] + [(rank, "s", peer * parts, parts) for peer in others(rank, ranks)],
                [(rank, "i", own, parts)] + [(peer, "s", (ranks + rank) * parts, parts) for peer in others(rank, ranks)], "memory")
        for peer in others(rank, ranks):
            made.op(rank, 1, "upkt", [(rank, "s", (ranks + peer) * parts, parts)], [(rank, "i", peer * parts, parts)])
    return made


def direct_all_gather(ranks, parts=1, in_place=True):
    """A threadblock for each peer; a barrier before the last signals."""
    made = Plan("allgather", ranks, (parts, ranks * parts, 0), in_place, name="direct")
    for rank in range(ranks):
        own = (rank, "i", 0, parts)
        for tb, peer in enumerate(others(rank, ranks)):
            made.op(rank, tb, "put", [own], [(peer, "o", rank * parts, parts)], "memory", tag=tb)
            if tb == 0 and not in_place:
                made.op(rank, tb, "copy", [own], [(rank, "o", rank * parts, parts)])
            if ranks > 2:
                made.op(rank, tb, "barrier", barrier_id=0, num_threadblocks=ranks - 1)
            made.meet(rank, tb, [peer])
    return made


def reading_reduce_scatter(ranks, in_place=True):
    """Everybody reads the others' operands."""
    made = Plan("reducescatter", ranks, (ranks, 1, 0), in_place, name="reading")
    for rank in range(ranks):
        made.meet(rank, 0, others(rank, ranks), relaxed=False)
        made.op(rank, 0, "rre", [(rank, "i", rank, 1)] + [(peer, "i", rank, 1) for peer in others(rank, ranks)], [(rank, "o", 0, 1)], "memory")
    return made


def sending_all_reduce(ranks, parts=1):
    """Reads, adds up and sends in one operation."""
    made = Plan("allreduce", ranks, (ranks * parts, ranks * parts, 0), name="all pairs")
    for rank in range(ranks):
        for part in range(parts):
            chunk = rank * parts + part
            made.meet(rank, part, others(rank, ranks), tag=part)
            made.op(rank, part, "rres", [(rank, "i", chunk, 1)] + [(peer, "i", chunk, 1) for peer in others(rank, ranks)],
                    [(rank, "i", chunk, 1)] + [(peer, "i", chunk, 1) for peer in others(rank, ranks)], "memory")
            made.meet(rank, part, others(rank, ranks), tag=part)
    return made


def direct_all_to_all(ranks, parts=1):
    made = Plan("alltoall", ranks, (ranks * parts, ranks * parts, ranks * parts), False, name="direct")
    for rank in range(ranks):
        made.op(rank, 0, "copy", [(rank, "i", rank * parts, parts)], [(rank, "o", rank * parts, parts)])
        for peer in others(rank, ranks):
            made.op(rank, 0, "put", [(rank, "i", peer * parts, parts)], [(peer, "o", rank * parts, parts)], "memory")
        made.meet(rank, 0, others(rank, ranks))
    return made


def hierarchical_all_reduce(local=2, hosts=2):
    """In each host pairs exchange halves, between hosts port channels put sums into scratch, in each host all is put together again."""
    ranks = local * hosts
    made = Plan("allreduce", ranks, (local, local, local + hosts), name="hierarchical")
    for rank in range(ranks):
        host, me = divmod(rank, local)
        near = [host * local + other for other in range(local) if other != me]
        far = [other * local + me for other in range(hosts) if other != host]
        for peer in near:
            made.op(rank, 0, "put", [(rank, "i", peer % local, 1)], [(peer, "s", me, 1)], "memory")
        made.meet(rank, 0, near)
        made.op(rank, 0, "re", [(rank, "i", me, 1)] + [(rank, "s", peer % local, 1) for peer in near], [(rank, "i", me, 1)])
        made.nop(rank, 0)
        bufs = ("i", "s")
        made.op(rank, 0, "pwsf", [(rank, "i", me, 1)] * len(far), [(peer, "s", local + host, 1) for peer in far], "port")
        made.op(rank, 0, "wait", kind="port", peers=far, bufs=bufs)
        made.nop(rank, 0)
        made.op(rank, 0, "re", [(rank, "i", me, 1)] + [(rank, "s", local + peer // local, 1) for peer in far], [(rank, "i", me, 1)])
        made.nop(rank, 0)
        for peer in near:
            made.op(rank, 0, "put", [(rank, "i", me, 1)], [(peer, "i", me, 1)], "memory")
        made.meet(rank, 0, near)
    return made


def port_all_gather(ranks):
    """Puts, signals and flushes apart."""
    made = Plan("allgather", ranks, (1, ranks, 0), name="ports")
    for rank in range(ranks):
        peers = others(rank, ranks)
        bufs = ("o", "o")
        made.op(rank, 0, "put", [(rank, "o", rank, 1)] * len(peers), [(peer, "o", rank, 1) for peer in peers], "port")
        made.op(rank, 0, "signal", kind="port", peers=peers, bufs=bufs)
        made.op(rank, 0, "flush", kind="port", peers=peers, bufs=bufs)
        made.op(rank, 0, "wait", kind="port", peers=peers, bufs=bufs)
    return made


def ring_of_packets(ranks):
    """An all_gather: packets are read, sent on and unpacked."""
    made = Plan("allgather", ranks, (1, ranks, ranks), protocol="LL", name="ring of packets")
    for rank in range(ranks):
        after = (rank + 1) % ranks
        made.op(rank, 0, "ppkt", [(rank, "o", rank, 1)], [(after, "s", rank, 1)], "memory")
        for step in range(1, ranks):
            chunk = (rank - step) % ranks
            if step < ranks - 1:
                made.op(rank, 0, "rppkt", [(rank, "s", chunk, 1)], [(after, "s", chunk, 1)], "memory")
            made.op(rank, 1, "upkt", [(rank, "s", chunk, 1)], [(rank, "o", chunk, 1)])
    return made


def send_and_receive(ranks):
    """By packets of port channels, where they are put as they are."""
    made = Plan("sendrecv", ranks, (1, 1, 2), False, "LL", "send recv")
    for rank in range(ranks):
        made.op(rank, 0, "cpkt", [(rank, "i", 0, 1)], [(rank, "s", 0, 1)])
        made.nop(rank, 0)
        made.op(rank, 0, "ppkt", [(rank, "s", 0, 1)], [((rank + 1) % ranks, "s", 1, 1)], "port")
        made.op(rank, 0, "upkt", [(rank, "s", 1, 1)], [(rank, "o", 0, 1)])
    return made


def switch_all_reduce(ranks):
    """Each GPU reduces and stores its chunk for all, through the switch."""
    made = Plan("allreduce", ranks, (ranks, 0, 0), name="switch")
    for rank in range(ranks):
        made.meet(rank, 0, others(rank, ranks))
        made.op(rank, 0, "glres", [("all", "i", rank, 1)], [("all", "i", rank, 1)], "switch")
        made.meet(rank, 0, others(rank, ranks))
    return made


def switch_all_gather(ranks):
    made = Plan("allgather", ranks, (1, ranks, 0), name="stores")
    for rank in range(ranks):
        made.op(rank, 0, "gstore", [(rank, "o", rank, 1)], [("all", "o", rank, 1)], "switch")
        made.meet(rank, 0, others(rank, ranks))
    return made


def looping_all_reduce(ranks):
    """One threadblock copies to scratch, one reduces through the switch, one copies back, each in a loop."""
    made = Plan("allreduce", ranks, (ranks, 0, ranks), name="loops", reuse_resources=True)
    for rank in range(ranks):
        made.semaphores[rank] = [0, 0, 3]
        peers = others(rank, ranks)
        first, second, third = (made.loop(rank, tb, 1) for tb in range(3))
        first.op("sem_acquire", semaphore_ids=[2])
        first.op("nop")
        for chunk in range(ranks):
            first.op("copy", [(rank, "i", chunk, 1)], [(rank, "s", chunk, 1)])
        first.op("nop")
        first.op("signal", kind="memory", peers=peers)
        first.op("wait", kind="memory", peers=peers)
        first.op("nop")
        first.op("sem_release", semaphore_ids=[0])
        second.op("sem_acquire", semaphore_ids=[0])
        second.op("nop")
        second.op("glres", [("all", "s", rank, 1)], [("all", "s", rank, 1)], "switch")
        second.op("nop")
        second.op("sem_release", semaphore_ids=[1])
        third.op("sem_acquire", semaphore_ids=[1])
        third.op("nop")
        third.op("signal", kind="memory", peers=peers, tag=1)
        third.op("wait", kind="memory", peers=peers, tag=1)
        third.op("nop")
        for chunk in range(ranks):
            third.op("copy", [(rank, "s", chunk, 1)], [(rank, "i", chunk, 1)])
        third.op("nop")
        third.op("sem_release", semaphore_ids=[2])
    return made


def shared_all_gather(ranks, blocks=2):
    """Threadblocks share each put."""
    made = Plan("allgather", ranks, (1, ranks, 0), name="shared")
    for rank in range(ranks):
        for tb in range(blocks):
            for peer in others(rank, ranks):
                made.op(rank, tb, "put", [(rank, "o", rank, 1)], [(peer, "o", rank, 1)], "memory", tbg_info={"tb_id": tb, "tbg_size": blocks})
            made.meet(rank, tb, others(rank, ranks), tag=tb)
    return made


def copying_packets_all_reduce():
    """Of two GPUs: the sum stays in packets, too, and goes on from there."""
    made = Plan("allreduce", 2, (2, 2, 6), protocol="LL", name="copies")
    for rank in range(2):
        peer = 1 - rank
        made.op(rank, 0, "ppkt", [(rank, "i", peer, 1)], [(peer, "s", 0, 1)], "memory")
        made.op(rank, 0, "recspkt", [(rank, "i", rank, 1), (rank, "s", 0, 1)], [(rank, "i", rank, 1), (rank, "s", 1, 1), (peer, "s", 2, 1)], "memory")
        made.op(rank, 1, "upkt", [(rank, "s", 2, 1)], [(rank, "i", peer, 1)])
    return made


def chain_broadcast(ranks, parts):
    """From GPU 0 on, part by part."""
    made = Plan("broadcast", ranks, (parts, parts, 0), name="chain")
    for rank in range(ranks):
        for part in range(parts):
            if rank > 0:
                made.op(rank, 0, "wait", kind="memory", peers=[rank - 1])
                made.nop(rank, 0)
            if rank < ranks - 1:
                made.op(rank, 0, "put", [(rank, "o", part, 1)], [(rank + 1, "o", part, 1)], "memory")
                made.nop(rank, 0)
                made.op(rank, 0, "signal", kind="memory", peers=[rank + 1])
    return made


def reducing_and_sending(ranks=2):
    """res: a sum of local buffers that is sent at once."""
    made = Plan("allreduce", ranks, (ranks, 0, ranks), name="res")
    for rank in range(ranks):
        peer = 1 - rank
        made.op(rank, 0, "put", [(rank, "i", peer, 1)], [(peer, "s", rank, 1)], "memory")
        made.meet(rank, 0, [peer])
        made.op(rank, 0, "res", [(rank, "i", rank, 1), (rank, "s", peer, 1)], [(rank, "i", rank, 1), (peer, "i", rank, 1)], "memory")
        made.meet(rank, 0, [peer])
    return made


def getting_all_gather(ranks):
    made = Plan("allgather", ranks, (1, ranks, 0), name="gets")
    for rank in range(ranks):
        made.meet(rank, 0, others(rank, ranks))
        for peer in others(rank, ranks):
            made.op(rank, 0, "get", [(peer, "o", peer, 1)], [(rank, "o", peer, 1)], "memory")
    return made
