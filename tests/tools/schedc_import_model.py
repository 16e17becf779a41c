"""MSCCL's interpreter, as far as it says whether an algorithm is right: written apart from schedc import, to compare both.

Threadblocks take turns; a send never waits. A chunk holds the inputs that are in it, each as often as it is.
"""
import xml.etree.ElementTree as xml


class Wrong(Exception):
    pass


def number(node, name):
    return int(node.attrib[name])


class Model:
    def __init__(self, text):
        root = xml.fromstring(text)
        self.coll, self.in_place = root.attrib["coll"], number(root, "inplace") == 1
        self.top = int(root.get("root", "0"))
        self.gpus = {number(gpu, "id"): gpu for gpu in root}
        self.ranks = len(self.gpus)
        sizes = [max(number(gpu, name) for gpu in root) for name in ("i_chunks", "o_chunks")]
        by_input, by_output = (1, self.ranks), (self.ranks, 1)
        piece = {"allgather": by_input, "gather": by_input, "reduce_scatter": by_output, "scatter": by_output}.get(self.coll, (1, 1))
        self.piece = max(sizes[0] // piece[0], sizes[1] // piece[1])
        self.inputs, self.outputs = self.piece * piece[0], self.piece * piece[1]
        self.memory = {}
        self.messages = {}
        for rank in self.gpus:
            if self.coll not in ("broadcast", "scatter") or rank == self.top:
                for chunk in range(self.inputs):
                    self.memory[self.place(rank, "i", chunk)] = [(rank, chunk)]

    def place(self, rank, buffer, offset):
        """In place, a piece lies where the whole buffer has it."""
        if self.in_place and buffer in "io":
            is_piece = (self.coll, buffer) in (("allgather", "i"), ("reduce_scatter", "o"))
            return rank, "io", offset + (rank * self.piece if is_piece else 0)
        return rank, buffer, offset

    def read(self, place):
        if place not in self.memory:
            raise Wrong(f"{place} holds nothing")
        return self.memory[place]

    def step(self, rank, tb, step):
        kind = step.attrib["type"]
        if kind == "nop":
            return
        count = number(step, "cnt")
        src, dst = ([self.place(rank, step.attrib[which + "buf"], number(step, which + "off") + i) for i in range(count)] for which in ("src", "dst"))
        if kind in ("s", "cpy"):
            values = [self.read(place) for place in src]
        elif kind == "re":
            values = [self.read(a) + self.read(b) for a, b in zip(src, dst)]
        else:
            values = self.messages[self.incoming(rank, tb)].pop(0)
            if len(values) != count:
                raise Wrong("counts differ")
            if kind.startswith("rr"):
                values = [value + self.read(place) for value, place in zip(values, src)]
        if kind not in ("s", "rrs"):
            for place, value in zip(dst, values):
                self.memory[place] = value
        if kind.endswith("s"):
            self.messages.setdefault((rank, number(tb, "send"), tb.attrib["chan"]), []).append(values)

    def incoming(self, rank, tb):
        return number(tb, "recv"), rank, tb.attrib["chan"]

    def can_go_on(self, rank, tb, step, done):
        depid, deps = number(step, "depid"), number(step, "deps")
        if depid >= 0 and done[rank, depid] <= deps:
            return False
        return step.attrib["type"] not in ("r", "rcs", "rrc", "rrs", "rrcs") or bool(self.messages.get(self.incoming(rank, tb)))

    def run(self):
        done = {(rank, number(tb, "id")): 0 for rank, gpu in self.gpus.items() for tb in gpu}
        goes_on = True
        while goes_on:
            goes_on = False
            for rank, gpu in self.gpus.items():
                for tb in gpu:
                    at = done[rank, number(tb, "id")]
                    if at < len(tb) and self.can_go_on(rank, tb, tb[at], done):
                        self.step(rank, tb, tb[at])
                        done[rank, number(tb, "id")] += 1
                        goes_on = True
        if any(done[rank, number(tb, "id")] < len(tb) for rank, gpu in self.gpus.items() for tb in gpu):
            raise Wrong("steps wait for each other")
        if any(self.messages.values()):
            raise Wrong("messages are left")

    def expected(self, rank, chunk):
        if self.coll in ("allgather", "gather"):
            return [(chunk // self.piece, chunk % self.piece)]
        if self.coll == "alltoall":
            each = self.piece // self.ranks
            return [(chunk // each, rank * each + chunk % each)]
        if self.coll == "broadcast":
            return [(self.top, chunk)]
        if self.coll == "scatter":
            return [(self.top, rank * self.piece + chunk)]
        if self.coll == "reduce_scatter":
            return [(other, rank * self.piece + chunk) for other in range(self.ranks)]
        return [(other, chunk) for other in range(self.ranks)]

    def check(self):
        for rank in [self.top] if self.coll in ("gather", "reduce") else self.gpus:
            for chunk in range(self.outputs):
                value = self.read(self.place(rank, "o", chunk))
                if sorted(value) != self.expected(rank, chunk):
                    raise Wrong(f"gpu {rank} chunk {chunk}: {value}")


def why_wrong(text):
    """Why an algorithm's result is wrong, or None if it is right. For texts that are well-formed."""
    try:
        model = Model(text)
        model.run()
        model.check()
    except Wrong as error:
        return str(error)
    return None
