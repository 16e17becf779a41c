"""Makes the elements of tensors contiguous in memory, so that Hocket can work on them."""
import torch


def check(tensor):
    if not (tensor.is_cpu or tensor.is_meta) or tensor.layout is not torch.strided:
        raise ValueError(f"hocket: the backend takes dense tensors in memory of the CPU; this one is {tensor.layout} on {tensor.device}")
    if tensor.is_quantized and tensor.qscheme() not in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        raise ValueError(f"hocket: quantized tensors need one scale for all elements ({tensor.qscheme()} has more): move "
                         "tensor.int_repr(), the scales and the zero points")


def are_meta(tensors):
    """Returns whether the tensors are on the meta device, and so have no memory."""
    is_meta = tensors[0].is_meta
    if len(tensors) > 1 and any(tensor.is_meta != is_meta for tensor in tensors):
        raise ValueError("hocket: some tensors of one call are on the meta device, and others have memory")
    return is_meta


def _plain(tensor):
    return tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj()


def _check_written(tensor):
    """Requires a separate place for each element of an output. copy_() would refuse others only at the end."""
    if tensor.numel() and any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape)):
        raise ValueError(f"hocket: a result cannot go to an expanded tensor (shape {tuple(tensor.shape)}, strides {tensor.stride()}), whose "
                         "elements share their memory: make it contiguous first (t = t.contiguous()) and use t")


def _extent(tensor):
    """Returns the addresses of the tensor's first byte and of the byte after its last one; gaps count as its own."""
    if not tensor.numel():
        return tensor.data_ptr(), tensor.data_ptr()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


def _clusters(extents):
    """Groups tuples (begin, end, ...) so that those of different groups share no memory."""
    cluster, reach = [], 0
    for extent in sorted(extents, key=lambda extent: extent[:2]):
        if extent[0] >= reach and cluster:
            yield cluster
            cluster = []
        cluster.append(extent)
        reach = max(reach, extent[1])
    if cluster:
        yield cluster


def shared(tensors, is_written=None):
    """Returns the numbers of the tensors that share memory with others, if one of these is written. is_written: for
    each tensor; None: all of them."""
    extents = [(*_extent(tensor), i) for i, tensor in enumerate(tensors) if tensor.numel()]
    return {i for cluster in _clusters(extents) if len(cluster) > 1
            and (is_written is None or any(is_written[i] for _, _, i in cluster)) for _, _, i in cluster}


def separated(operations):
    """Takes pairs (send, recv) of operations that begin together. Returns them with copies in place of memory that one
    of them writes and another one uses, so each operation reads what was there before all of them, and of results for
    one place the last operation's remains."""
    extents = [(*_extent(tensor), i, memory) for i, pair in enumerate(operations) for memory in set(pair)
               if not memory.is_copy or memory.written for tensor in memory.tensors if tensor.numel()]
    copied = {}
    for cluster in _clusters(extents):
        if any(memory.written for *_, memory in cluster) and len({i for _, _, i, _ in cluster}) > 1:
            copied.update((memory, memory) for *_, memory in cluster if not memory.is_copy)
    copied = {memory: memory.copy() for memory in copied}
    return [(copied.get(send, send), copied.get(recv, recv)) for send, recv in operations]


def _copies(tensors):
    """Allocates contiguous memory for all tensors; returns it, and a view of it for each."""
    # Of quantized tensors only the numbers are moved; each keeps its own scale.
    dtype = tensors[0].flatten()[:0].int_repr().dtype if tensors[0].is_quantized else tensors[0].dtype
    flat = torch.empty(sum(tensor.numel() for tensor in tensors), dtype=dtype)
    views, begin = [], 0
    for tensor in tensors:
        views.append(flat[begin:begin + tensor.numel()].view(tensor.shape))
        begin += tensor.numel()
    return flat, views


def _adjacent(tensors):
    place = tensors[0].data_ptr()
    for tensor in tensors:
        if not _plain(tensor) or (tensor.numel() and tensor.data_ptr() != place):
            return False
        place += tensor.numel() * tensor.element_size()
    return True


def copy_all(pairs):
    with torch.no_grad():
        for target, source in pairs:
            values = source.int_repr() if source.is_quantized else source
            if target.is_quantized:
                values = torch._make_per_tensor_quantized_tensor(values, target.q_scale(), target.q_zero_point())
            target.copy_(values)


class Nothing:
    """Takes the place of a Memory if a rank sends or receives nothing."""

    tensors, address, end, keep, after = (), 0, 0, None, None
    written, is_copy, is_meta = False, True, False


NOTHING = Nothing()


class Memory:
    """The tensors as contiguous memory: the tensors themselves if they are contiguous, else a copy.

    tensors     the given tensors
    written     whether the operation writes to them
    address     of the first element; end: the address after the last one
    is_copy     whether this is memory of its own
    is_meta     whether the tensors have no memory
    keep        objects that must live until the operation has ended
    after       pairs (target, source) to be copied when it has ended
    """

    distances = None  # as Scattered has them; None: the tensors lie one after another

    __slots__ = ("tensors", "_filled", "written", "address", "end", "is_copy", "is_meta", "keep", "after")

    def __init__(self, tensors, filled, written, copied=False):
        """filled: the operation reads the tensors; written: it writes to them. copied: it works on a copy in any
        case."""
        for tensor in tensors:
            check(tensor)
            if written:
                _check_written(tensor)
        self.tensors, self._filled, self.written, self.after = tensors, filled, written, None
        self.is_meta = are_meta(tensors)
        if self.is_meta:
            self.address, self.end, self.is_copy, self.keep = 0, 0, True, None
            return
        self.is_copy = copied or not (_plain(tensors[0]) if len(tensors) == 1 else _adjacent(tensors))
        if not self.is_copy:
            self.address, self.keep = tensors[0].data_ptr(), tensors
            self.end = self.address + sum(tensor.numel() for tensor in tensors) * tensors[0].element_size()
            return
        flat, views = _copies(tensors)
        if filled:
            copy_all(zip(views, tensors))
        if written:
            self.after = list(zip(tensors, views))
        self.address, self.keep = flat.data_ptr(), (flat, tensors)
        self.end = self.address + flat.numel() * flat.element_size()

    def copy(self):
        return Memory(self.tensors, self._filled, self.written, copied=True)

    def apart_from(self, recv, distance):
        """Returns this memory, which an operation sends, or a copy if recv overlaps it. That is only allowed in place: if
        recv begins so many bytes behind the beginning of this."""
        is_apart = self.end <= recv.address or recv.end <= self.address
        return self if is_apart or recv.address - self.address == distance else self.copy()


class Scattered:
    """Tensors that stay where they are: each one's distance from the first in memory, in elements. Only those that are
    not contiguous themselves, or whose numbers are in `copied`, are copied."""

    __slots__ = ("tensors", "written", "address", "is_copy", "is_meta", "keep", "after", "distances")

    def __init__(self, tensors, written, copied=()):
        for tensor in tensors:
            check(tensor)
            if written:
                _check_written(tensor)
        self.tensors, self.written, self.after = tensors, written, None
        self.is_meta = are_meta(tensors)
        if self.is_meta:
            self.address, self.is_copy, self.keep, self.distances = 0, True, None, None
            return
        pieces = [_copies([tensor])[1][0] if i in copied or not _plain(tensor) else tensor for i, tensor in enumerate(tensors)]
        replaced = [(piece, tensor) for piece, tensor in zip(pieces, tensors) if piece is not tensor]
        self.is_copy = len(replaced) == len(tensors)
        if written:
            self.after = [(tensor, piece) for piece, tensor in replaced] or None
        else:
            copy_all(replaced)
        self.keep = (pieces, tensors)
        places = [piece.data_ptr() for piece in pieces if piece.numel()]
        self.address = min(places, default=0)
        size = tensors[0].element_size()
        if any((place - self.address) % size for place in places):
            raise ValueError("hocket: the tensors of one list are not aligned to each other. Copy them to memory of their own")
        self.distances = [(piece.data_ptr() - self.address) // size if piece.numel() else 0 for piece in pieces]

    def copy(self):
        return Scattered(self.tensors, self.written, range(len(self.tensors)))

    @staticmethod
    def of_exchange(inputs, outputs):
        """Returns both lists' memory. They share some only in place: if each tensor of one is at a tensor of the other."""
        copied = shared(outputs)
        is_in_place = all(_plain(sent) and _plain(received) and _extent(sent) == _extent(received)
                          for sent, received in zip(inputs, outputs))
        if is_in_place and not copied:
            return Scattered(inputs, False), Scattered(outputs, True)
        both = shared([*inputs, *outputs], [False] * len(inputs) + [True] * len(outputs))
        return Scattered(inputs, False, both), Scattered(outputs, True, copied)
