"""Algorithms in MSCCL's XML, made for tests of schedc import: each function returns an Algorithm."""
import xml.etree.ElementTree as xml

NOWHERE = ("i", -1)


class Algorithm:
    def __init__(self, coll, ranks, chunks, in_place=True, name="test"):
        """chunks: of the input, the output and the scratch buffer."""
        self.ranks = ranks
        self.root = xml.Element("algo", name=name, proto="Simple", nchannels="8", nchunksperloop=str(max(chunks)), ngpus=str(ranks),
                                coll=coll, inplace=str(int(in_place)))
        self.gpus = [xml.SubElement(self.root, "gpu", id=str(rank), i_chunks=str(chunks[0]), o_chunks=str(chunks[1]), s_chunks=str(chunks[2]))
                     for rank in range(ranks)]

    def tb(self, gpu, send=-1, recv=-1, chan=0):
        """The number of the threadblock of these peers, which is made if there is none yet."""
        for tb in self.gpus[gpu]:
            if (tb.get("send"), tb.get("recv"), tb.get("chan")) == (str(send), str(recv), str(chan)):
                return int(tb.get("id"))
        xml.SubElement(self.gpus[gpu], "tb", id=str(len(self.gpus[gpu])), send=str(send), recv=str(recv), chan=str(chan))
        return len(self.gpus[gpu]) - 1

    def step(self, gpu, tb, kind, src=NOWHERE, dst=NOWHERE, cnt=1, after=None):
        """after: (threadblock, step) of the same GPU. Returns (threadblock, step)."""
        steps = self.gpus[gpu][tb]
        depid, deps = after or (-1, -1)
        if after:
            self.gpus[gpu][depid][deps].set("hasdep", "1")
        xml.SubElement(steps, "step", s=str(len(steps)), type=kind, srcbuf=src[0], srcoff=str(src[1]), dstbuf=dst[0], dstoff=str(dst[1]),
                       cnt=str(cnt), depid=str(depid), deps=str(deps), hasdep="0")
        return tb, len(steps) - 1

    def at(self, gpu, tb, step):
        return self.gpus[gpu][tb][step]

    def text(self):
        xml.indent(self.root)
        return xml.tostring(self.root, encoding="unicode")


def ring_all_gather(ranks, parts=1, in_place=True, channels=1):
    """Each channel has its share of a rank's parts."""
    made = Algorithm("allgather", ranks, (parts, ranks * parts, 0), in_place, "ring allgather")
    count = parts // channels
    for rank in range(ranks):
        own = ("o", rank * parts) if in_place else ("i", 0)
        if not in_place:
            made.step(rank, made.tb(rank), "cpy", own, ("o", rank * parts), parts)
        for chan in range(channels):
            first = chan * count
            tb = made.tb(rank, (rank + 1) % ranks, (rank - 1) % ranks, chan)
            made.step(rank, tb, "s", (own[0], own[1] + first), NOWHERE, count)
            for s in range(1, ranks):
                place = ("o", (rank - s) % ranks * parts + first)
                made.step(rank, tb, "r" if s == ranks - 1 else "rcs", place, place, count)
    return made


def ring_all_reduce(ranks, parts=1, in_place=True):
    made = Algorithm("allreduce", ranks, (ranks * parts, 0 if in_place else ranks * parts, 0), in_place, "ring allreduce")
    out = "i" if in_place else "o"
    for rank in range(ranks):
        tb = made.tb(rank, (rank + 1) % ranks, (rank - 1) % ranks)

        def at(buffer, s, rank=rank):
            return buffer, (rank - s) % ranks * parts

        made.step(rank, tb, "s", at("i", 0), NOWHERE, parts)
        for s in range(1, ranks - 1):
            made.step(rank, tb, "rrs", at("i", s), NOWHERE, parts)
        made.step(rank, tb, "rrcs", at("i", ranks - 1), at(out, ranks - 1), parts)
        for s in range(ranks, 2 * ranks - 2):
            made.step(rank, tb, "rcs", at(out, s), at(out, s), parts)
        made.step(rank, tb, "r", NOWHERE, at(out, 2 * ranks - 2), parts)
    return made


def ring_reduce_scatter(ranks, in_place=True):
    """With rrc and s, in two steps."""
    made = Algorithm("reduce_scatter", ranks, (ranks, 1, 0), in_place)
    for rank in range(ranks):
        tb = made.tb(rank, (rank + 1) % ranks, (rank - 1) % ranks)
        made.step(rank, tb, "s", ("i", (rank - 1) % ranks))
        for s in range(2, ranks):
            place = ("i", (rank - s) % ranks)
            made.step(rank, tb, "rrc", place, place)
            made.step(rank, tb, "s", place)
        made.step(rank, tb, "rrc", ("i", rank), ("o", 0))
    return made


def all_pairs_all_reduce(ranks, parts=1, adds_in_scratch=False):
    """Through scratch, with local reductions and a threadblock for each peer. What arrives may be added up in scratch first."""
    made = Algorithm("allreduce", ranks, (ranks * parts, 0, ranks * parts), True, "allpairs")
    for rank in range(ranks):
        got, last = [], None
        for peer in range(ranks):
            if peer != rank:
                tb = made.tb(rank, peer, peer)
                made.step(rank, tb, "s", ("i", peer * parts), NOWHERE, parts)
                got.append((made.step(rank, tb, "r", NOWHERE, ("s", peer * parts), parts), peer))
        adder = made.tb(rank)
        if adds_in_scratch:
            for after, peer in got[1:]:
                made.step(rank, adder, "nop", after=got[0][0])
                made.step(rank, adder, "re", ("s", peer * parts), ("s", got[0][1] * parts), parts, after)
            got = got[:1]
        for after, peer in got:
            last = made.step(rank, adder, "re", ("s", peer * parts), ("i", rank * parts), parts, after)
        for peer in range(ranks):
            if peer != rank:
                tb = made.tb(rank, peer, peer)
                made.step(rank, tb, "s", ("i", rank * parts), NOWHERE, parts, last)
                made.step(rank, tb, "r", NOWHERE, ("i", peer * parts), parts)
    return made


def all_to_all(ranks, parts=1):
    made = Algorithm("alltoall", ranks, (ranks * parts, ranks * parts, 0), False)
    for rank in range(ranks):
        made.step(rank, made.tb(rank), "cpy", ("i", rank * parts), ("o", rank * parts), parts)
        for peer in range(ranks):
            if peer != rank:
                tb = made.tb(rank, peer, peer)
                made.step(rank, tb, "s", ("i", peer * parts), NOWHERE, parts)
                made.step(rank, tb, "r", NOWHERE, ("o", peer * parts), parts)
    return made


def two_step_all_to_all(local, hosts):
    """Chunks for other hosts are gathered in scratch, by the GPU with the receiver's number in its host, and go on together."""
    ranks = local * hosts
    made = Algorithm("alltoall", ranks, (ranks, ranks, ranks), False, "two step")
    for rank in range(ranks):
        host, me = divmod(rank, local)
        arrived = {}
        for other in range(local):
            for to in range(hosts):
                chunk = to * local + other
                place = ("s", to * local + me)
                if other == me:
                    arrived[(to, me)] = made.step(rank, made.tb(rank), "cpy", ("i", chunk), place)
                else:
                    tb = made.tb(rank, host * local + other, host * local + other)
                    made.step(rank, tb, "s", ("i", chunk))
                    arrived[(to, other)] = made.step(rank, tb, "r", NOWHERE, ("s", to * local + other))
        for to in range(hosts):
            tb = made.tb(rank) if to == host else made.tb(rank, to * local + me, to * local + me, 1)
            for other in range(local):
                made.step(rank, tb, "nop", after=arrived[(to, other)])
            if to == host:
                made.step(rank, tb, "cpy", ("s", to * local), ("o", host * local), local)
            else:
                made.step(rank, tb, "s", ("s", to * local), NOWHERE, local)
                made.step(rank, tb, "r", NOWHERE, ("o", to * local), local)
    return made


def hierarchical_all_reduce(local, hosts):
    """In each host a reduce_scatter of pairs, between hosts an all_reduce of pairs, in each host an all_gather."""
    ranks = local * hosts
    made = Algorithm("allreduce", ranks, (local, local, hosts), True, "hierarchical")
    for rank in range(ranks):
        host, me = divmod(rank, local)
        peers = [host * local + other for other in range(local) if other != me]
        last = None
        for peer in peers:
            tb = made.tb(rank, peer, peer)
            made.step(rank, tb, "s", ("i", peer % local))
            last = made.step(rank, tb, "rrc", ("i", me), ("i", me), after=last)
        arrived = []
        for other in range(hosts):
            if other != host:
                tb = made.tb(rank, other * local + me, other * local + me, 1)
                sent = made.step(rank, tb, "s", ("i", me), after=last)
                arrived.append((sent, made.step(rank, tb, "r", NOWHERE, ("s", other)), other))
        adder = made.tb(rank)
        for sent, _, _ in arrived:
            made.step(rank, adder, "nop", after=sent)
        for _, got, other in arrived:
            last = made.step(rank, adder, "re", ("s", other), ("i", me), after=got)
        for peer in peers:
            tb = made.tb(rank, peer, peer)
            made.step(rank, tb, "s", ("i", me), after=last)
            made.step(rank, tb, "r", NOWHERE, ("i", peer % local))
    return made


def chain_broadcast(ranks, parts, root=0):
    """One part after the other goes down the chain."""
    made = Algorithm("broadcast", ranks, (parts, parts, 0), False)
    made.root.set("root", str(root))
    for i in range(ranks):
        rank = (root + i) % ranks
        tb = made.tb(rank, -1 if i == ranks - 1 else (rank + 1) % ranks, -1 if i == 0 else (rank - 1) % ranks)
        if i == 0:
            made.step(rank, made.tb(rank, chan=1), "cpy", ("i", 0), ("o", 0), parts)
        for part in range(parts):
            if i == 0:
                made.step(rank, tb, "s", ("i", part))
            else:
                made.step(rank, tb, "r" if i == ranks - 1 else "rcs", ("o", part), ("o", part))
    return made


def star(coll, ranks, root):
    """All send to the root, or it to all."""
    pieces = {"gather": (1, ranks), "scatter": (ranks, 1), "reduce": (1, 1)}[coll]
    made = Algorithm(coll, ranks, (*pieces, 0), False)
    made.root.set("root", str(root))
    own = {"gather": (0, root), "scatter": (root, 0), "reduce": (0, 0)}[coll]
    last = made.step(root, made.tb(root), "cpy", ("i", own[0]), ("o", own[1]))
    for rank in range(ranks):
        if rank == root:
            continue
        there, here = made.tb(rank, root, root), made.tb(root, rank, rank)
        if coll == "scatter":
            made.step(root, here, "s", ("i", rank))
            made.step(rank, there, "r", NOWHERE, ("o", 0))
            continue
        made.step(rank, there, "s", ("i", 0))
        if coll == "gather":
            made.step(root, here, "r", NOWHERE, ("o", rank))
        else:
            last = made.step(root, here, "rrc", ("o", 0), ("o", 0), after=last)
    return made


def all_to_all_in_place(ranks):
    """Pairs exchange their chunks; what arrives waits in scratch until the chunk in its place has been sent."""
    made = Algorithm("alltoall", ranks, (ranks, ranks, ranks), True)
    for rank in range(ranks):
        for peer in range(ranks):
            if peer != rank:
                tb = made.tb(rank, peer, peer)
                made.step(rank, tb, "s", ("i", peer))
                made.step(rank, tb, "r", NOWHERE, ("s", peer))
                made.step(rank, tb, "cpy", ("s", peer), ("o", peer))
    return made


def both_ways_all_reduce():
    """Three GPUs in a row. The middle one passes on a sum each way, and its own operand is in both."""
    made = Algorithm("allreduce", 3, (1, 1, 0), False)
    for end, other in ((0, 2), (2, 0)):
        away = made.tb(end, 1, 1)
        made.step(end, away, "s", ("i", 0))
        made.step(1, made.tb(1, other, end), "rrs", ("i", 0))
        made.step(end, away, "rrc", ("i", 0), ("o", 0))
    made.step(0, made.tb(0, 1, 1), "s", ("o", 0))
    made.step(1, made.tb(1, 2, 0), "r", NOWHERE, ("o", 0))
    return made
