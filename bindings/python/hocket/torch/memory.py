"""Makes the elements of tensors contiguous in memory, so that Hocket can work on them."""
import torch


def check(tensor):
    if not tensor.is_cpu or tensor.layout is not torch.strided:
        raise ValueError(f"hocket: the backend takes dense tensors in memory of the CPU; this one is {tensor.layout} on {tensor.device}")
    if tensor.is_quantized and tensor.qscheme() not in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        raise ValueError(f"hocket: quantized tensors need one scale for all elements ({tensor.qscheme()} has more): move "
                         "tensor.int_repr(), the scales and the zero points")


def _plain(tensor):
    return tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj()


def _check_written(tensor):
    """Requires a separate place for each element of an output. copy_() would refuse others only at the end."""
    if tensor.numel() and any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape)):
        raise ValueError(f"hocket: a result cannot go to an expanded tensor (shape {tuple(tensor.shape)}, strides {tensor.stride()}), whose "
                         "elements share their memory: make it contiguous first (t = t.contiguous()) and use t")


def overlapping(tensors):
    """Returns for each tensor whether it shares memory with another."""
    shares, places = [False] * len(tensors), []
    for i, tensor in enumerate(tensors):
        if tensor.numel():
            last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
            places.append((tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size(), i))
    end, before = 0, None
    for begin, its_end, i in sorted(places):
        if begin < end:
            shares[i] = shares[before] = True
        if its_end > end:
            end, before = its_end, i
    return shares


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


class Memory:
    """The tensors as contiguous memory: the tensors themselves if they are contiguous, else a copy.

    tensors     the given tensors
    address     of the first element
    keep        objects that must live until the operation has ended
    after       pairs (target, source) to be copied when it has ended
    """

    __slots__ = ("tensors", "address", "keep", "after")

    def __init__(self, tensors, filled, written, copied=False):
        """filled: the operation reads the tensors; written: it writes to them. copied: it works on a copy in any
        case."""
        for tensor in tensors:
            check(tensor)
            if written:
                _check_written(tensor)
        self.tensors, self.after = tensors, None
        if not copied and (_plain(tensors[0]) if len(tensors) == 1 else _adjacent(tensors)):
            self.address, self.keep = tensors[0].data_ptr(), tensors
            return
        flat, views = _copies(tensors)
        if filled:
            copy_all(zip(views, tensors))
        if written:
            self.after = list(zip(tensors, views))
        self.address, self.keep = flat.data_ptr(), (flat, tensors)


class Scattered:
    """Tensors that stay where they are: each one's distance from the first in memory, in elements.

    Only tensors that are not contiguous themselves are copied."""

    __slots__ = ("tensors", "address", "keep", "after", "distances")

    def __init__(self, tensors, written):
        for tensor in tensors:
            check(tensor)
            if written:
                _check_written(tensor)
        pieces = [tensor if _plain(tensor) else _copies([tensor])[1][0] for tensor in tensors]
        copied = [(piece, tensor) for piece, tensor in zip(pieces, tensors) if piece is not tensor]
        self.tensors, self.after = tensors, None
        if written:
            self.after = [(tensor, piece) for piece, tensor in copied] or None
        else:
            copy_all(copied)
        self.keep = (pieces, tensors)
        places = [piece.data_ptr() for piece in pieces if piece.numel()]
        self.address = min(places, default=0)
        size = tensors[0].element_size()
        if any((place - self.address) % size for place in places):
            raise ValueError("hocket: the tensors of one list are not aligned to each other. Copy them to memory of their own")
        self.distances = [(piece.data_ptr() - self.address) // size if piece.numel() else 0 for piece in pieces]
