"""Implements torch's operations with Hocket's.

torch's operations differ in which tensors are sent and received, and in how these are passed (one, a list, one that
holds all pieces). Each method converts them to one form, and _collective does the rest.
"""
import collections
import datetime
import re
import threading
from typing import Any, Callable, NamedTuple

import torch
from torch._C import _distributed_c10d as c10d

from hocket._native import ffi, lib
from hocket.interruptible import interruptible
from hocket.state import FLIGHT

from . import profiling
from .buckets import AT_THE_END, LEAST, called_by_backward
from .communicator import milliseconds
from .elements import factor_of, kind_of, operator_of
from .failures import Failure, in_words_of
from .memory import NOTHING, Memory, Scattered, are_meta, separated
from .sparse import Finished, all_reduce_sparse
from .work import Work

NAME = "hocket"
_NOWHERE = ffi.NULL
_NOT_GIVEN = datetime.timedelta(milliseconds=-1)  # c10d::kUnsetTimeout


class _Collected(NamedTuple):
    """An operation of a batch, as _start() was given it."""

    name: str
    arguments: Callable[[Any, Any], tuple[Any, ...]]
    send: Any
    recv: Any
    result: Any
    source: Any


class _Batch(threading.local):
    """Operations of one thread, collected between _start_coalescing and _end_coalescing, which starts them; None outside. Those of
    other threads begin at once meanwhile: they have no part in it."""

    collected: Any = None  # a list


def _one(tensors):
    if len(tensors) != 1:
        raise ValueError(f"hocket: one tensor is expected, not {len(tensors)}: a rank is one process with one device")
    return tensors[0]


class Operations:
    """The operations that a process group and a backend of torch share. Subclasses add rank(), size() and a name."""

    def _begin(self, communicator, options):
        self._communicator, self._options = communicator, options
        self._timeout = None   # as set by set_timeout, in milliseconds
        self._batch = _Batch()
        self._sequence = 0     # operations started
        self._recent = recent_works()

    # ---- Collectives of one tensor

    def allreduce(self, tensors, opts=c10d.AllreduceOptions()):
        tensor = _one(tensors)
        if called_by_backward() and not tensor.is_sparse:
            return self._reduce_bucket(tensor, Memory(tensors, True, True), opts, self._communicator.buckets.is_last(tensor))
        return self._all_reduce(tensor, opts)

    def _all_reduce(self, tensor, opts):
        if tensor.is_sparse:
            if self._batch.collected is not None:
                raise ValueError("hocket: sparse tensors cannot be coalesced: call all_reduce for each of them")
            return self._kept(all_reduce_sparse(self, tensor, opts))
        memory = Memory([tensor], True, True)
        return self._collective("all_reduce", memory, memory, tensor.numel(), tensor, opts, [tensor], reduces=True)

    def _reduce_bucket(self, tensor, memory, opts, is_last):
        """Runs all_reduce on a bucket of DistributedDataParallel, in memory that the ranks share. After the last one of
        a step the backward pass waits in C++ until another thread notifies it; waiting here first, for a limited time,
        avoids that delay."""
        if tensor.numel() * tensor.element_size() >= LEAST:
            self._communicator.buckets.see(tensor)
        work = self._collective("all_reduce", memory, memory, tensor.numel(), tensor, opts, [tensor], reduces=True)
        if is_last:
            work.end(AT_THE_END)
        return work

    def broadcast(self, tensors, opts=c10d.BroadcastOptions()):
        tensor = _one(tensors)
        root = opts.rootRank == self.rank()
        memory = Memory(tensors, root, not root)
        return self._collective("broadcast", memory, memory, tensor.numel(), tensor, opts, [tensor], rooted=True)

    def reduce(self, tensors, opts=c10d.ReduceOptions()):
        tensor = _one(tensors)
        root = opts.rootRank == self.rank()
        memory = Memory(tensors, True, root)
        return self._collective("reduce", memory, memory if root else NOTHING, tensor.numel(), tensor, opts, [tensor], True, True)

    # ---- Collectives with a piece for each rank. `pieces`: a tensor for each rank, or one that holds all of them

    def _pieces_from_all(self, name, pieces, tensor, opts, rooted=False):
        """Implements all_gather and gather: `pieces` is None where they are not received."""
        count, send, recv = tensor.numel(), Memory([tensor], True, False), NOTHING
        if pieces is not None:
            count, recv = self._count(name, pieces, tensor), Memory(pieces, False, True)
            send = send.apart_from(recv, -self._place(count, tensor))
        return self._collective(name, send, recv, count, tensor, opts, pieces or [tensor], rooted=rooted)

    def _pieces_to_all(self, name, pieces, tensor, opts, reduces=False, rooted=False):
        """Implements reduce_scatter and scatter: `pieces` is None where they are not sent."""
        count, send, recv = tensor.numel(), NOTHING, Memory([tensor], False, True)
        if pieces is not None:
            count = self._count(name, pieces, tensor)
            send = Memory(pieces, True, False).apart_from(recv, self._place(count, tensor))
        return self._collective(name, send, recv, count, tensor, opts, [tensor], reduces, rooted)

    def _count(self, name, pieces, tensor):
        """Returns the elements of each rank's piece, or the list of them if they differ."""
        size = self.size()
        _require_one_dtype(name, [tensor, *pieces])
        if len(pieces) == 1 and size > 1:
            if pieces[0].numel() != size * tensor.numel():
                raise ValueError(f"hocket: {name} with {size} ranks and pieces of {tensor.numel()} elements needs a tensor of "
                                 f"{size * tensor.numel()}, not {pieces[0].numel()}")
            return tensor.numel()
        if len(pieces) != size:
            raise ValueError(f"hocket: {name} needs a tensor for each of {size} ranks, not {len(pieces)}")
        counts = [piece.numel() for piece in pieces]
        if counts[self.rank()] != tensor.numel():
            raise ValueError(f"hocket: {name}: this rank's piece has {counts[self.rank()]} elements in the list, and {tensor.numel()} "
                             "by itself")
        return counts[0] if counts.count(counts[0]) == size else counts

    def _place(self, count, tensor):
        """Returns where this rank's piece lies among all pieces, in bytes."""
        rank = self.rank()
        return (sum(count[:rank]) if isinstance(count, list) else rank * count) * tensor.element_size()

    def allgather(self, outputs, inputs, opts=c10d.AllgatherOptions()):
        return self._pieces_from_all("all_gather", _one(outputs), _one(inputs), opts)

    def all_gather_single(self, output, tensor, opts=c10d.AllgatherOptions()):
        return self._pieces_from_all("all_gather", [output], tensor, opts)

    def gather(self, outputs, inputs, opts=c10d.GatherOptions()):
        pieces = _one(outputs) if opts.rootRank == self.rank() else None
        return self._pieces_from_all("gather", pieces, _one(inputs), opts, rooted=True)

    def gather_single(self, output, tensor, opts=c10d.GatherOptions()):
        return self._pieces_from_all("gather", [output] if opts.rootRank == self.rank() else None, tensor, opts, rooted=True)

    def scatter(self, outputs, inputs, opts=c10d.ScatterOptions()):
        pieces = _one(inputs) if opts.rootRank == self.rank() else None
        return self._pieces_to_all("scatter", pieces, _one(outputs), opts, rooted=True)

    def reduce_scatter(self, outputs, inputs, opts=c10d.ReduceScatterOptions()):
        return self._pieces_to_all("reduce_scatter", _one(inputs), _one(outputs), opts, reduces=True)

    def reduce_scatter_single(self, output, tensor, opts=c10d.ReduceScatterOptions()):
        return self._pieces_to_all("reduce_scatter", [tensor], output, opts, reduces=True)

    def alltoall(self, outputs, inputs, opts=c10d.AllToAllOptions()):
        for tensors in (outputs, inputs):
            if len(tensors) != self.size():
                raise ValueError(f"hocket: all_to_all needs a tensor for each of {self.size()} ranks, not {len(tensors)}")
        _require_one_dtype("all_to_all", [*inputs, *outputs])
        send, recv = Scattered.of_exchange(inputs, outputs)
        return self._exchange(send, [t.numel() for t in inputs], recv, [t.numel() for t in outputs], inputs[0], opts, outputs)

    def all_to_all_single(self, output, tensor, output_splits, input_splits, opts=c10d.AllToAllOptions()):
        size = self.size()
        _require_one_dtype("all_to_all", [tensor, output])
        recv = Memory([output], False, True)
        send = Memory([tensor], True, False).apart_from(recv, 0 if list(input_splits) == list(output_splits) else None)
        if not output_splits and not input_splits:
            for x in (tensor, output):
                if x.dim() == 0 or x.shape[0] % size:
                    raise ValueError(f"hocket: all_to_all: the first dimension of {tuple(x.shape)} is not divided evenly by {size} ranks")
            if tensor.numel() != output.numel():
                raise ValueError(f"hocket: all_to_all without split sizes needs an output of {tensor.numel()} elements, as the input has, "
                                 f"not {output.numel()}")
            return self._collective("all_to_all", send, recv, tensor.numel() // size, tensor, opts, [output])
        return self._exchange(send, _of_splits(tensor, input_splits, size), recv, _of_splits(output, output_splits, size), tensor, opts,
                              [output])

    def _exchange(self, send, send_counts, recv, recv_counts, tensor, opts, result):
        kind, multiple, _ = kind_of(tensor.dtype)

        def sizes(numbers):
            return _NOWHERE if numbers is None else ffi.new("size_t[]", [multiple * n for n in numbers])

        def arguments(send, recv):
            return (ffi.cast("void *", send.address), sizes(send_counts), sizes(send.distances),
                    ffi.cast("void *", recv.address), sizes(recv_counts), sizes(recv.distances), kind)

        return self._start("all_to_all_v", arguments, opts.timeout, send, recv, result)

    def barrier(self, opts=c10d.BarrierOptions()):
        return self._start("barrier_start", lambda send, recv: (), opts.timeout, NOTHING, NOTHING, [])

    # ---- Several at once

    def _together(self, starts):
        if self._batch.collected is not None:  # inside a coalescing manager, which ends the batch
            for start in starts:
                start()
            return None
        self._batch.collected = []
        try:
            for start in starts:
                start()
        except BaseException:
            self._batch.collected = None
            raise
        return self._end_coalescing() or self._kept(Finished([]))

    def allreduce_coalesced(self, tensors, opts=c10d.AllreduceCoalescedOptions()):
        return self._together([lambda t=t: self._all_reduce(t, opts) for t in tensors])

    def allgather_coalesced(self, output_lists, inputs, opts=c10d.AllgatherOptions()):
        return self._together([lambda i=i, t=t: self.allgather([[outputs[i] for outputs in output_lists]], [t], opts)
                               for i, t in enumerate(inputs)])

    def all_gather_single_coalesced(self, outputs, inputs, opts=c10d.AllgatherOptions()):
        return self._together([lambda o=o, t=t: self.all_gather_single(o, t, opts) for o, t in zip(outputs, inputs)])

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=c10d.ReduceScatterOptions()):
        return self._together([lambda o=o, t=t: self.reduce_scatter_single(o, t, opts) for o, t in zip(outputs, inputs)])

    def _start_coalescing(self, *device):
        """torch 1.13 passes no device, and expects a work for each operation."""
        if device:
            self._batch.collected = []

    def _end_coalescing(self, *_):
        """Starts all operations that this thread has collected since, and returns one work for them."""
        batch, self._batch.collected = self._batch.collected, None
        if not batch:
            return None
        name, pairs = batch[0].name, separated([(one.send, one.recv) for one in batch])
        record = profiling.Record(name, [t for send, _ in pairs for t in send.tensors]) if profiling.enabled() else None
        flights, joined = [ffi.new(FLIGHT) for _ in batch], ffi.new(FLIGHT)
        keep = pairs, [one.source for one in batch]
        try:
            for one, (send, recv), flight in zip(batch, pairs, flights):
                self._call(one.name, one.arguments(send, recv), flight)
            requests = ffi.new("hkt_request *[]", [flight[0] for flight in flights])
            self._communicator.call(name, lambda _: lib.hkt_request_join(requests, len(batch), joined))
        except BaseException:  # those that have been started go on
            left = [joined] if joined[0] else flights
            self._communicator.state.orphans.extend((flight, keep) for flight in left if flight[0])
            raise
        after = [pair for _, recv in pairs for pair in recv.after or ()]
        result = [tensor for one in batch for tensor in one.result]
        return self._work(joined, f"{name} and what was started with it", self._timeout, keep, after, result, None, record)

    # ---- Between two ranks

    def send(self, tensors, peer, tag):
        tensor = _one(tensors)
        return self._message("send", tensor, (peer, tag), send=Memory(tensors, True, False))

    def recv(self, tensors, peer, tag):
        tensor = _one(tensors)
        return self._message("recv", tensor, (peer, tag), recv=Memory(tensors, False, True), source=ffi.new("int32_t *", peer))

    def recv_anysource(self, tensors, tag):
        tensor, source = _one(tensors), ffi.new("int32_t *", -1)
        return self._message("recv_any", tensor, (tag, source), recv=Memory(tensors, False, True), source=source)

    def _message(self, name, tensor, where, send=NOTHING, recv=NOTHING, source=None):
        kind, multiple, _ = kind_of(tensor.dtype)
        count = multiple * tensor.numel()

        def arguments(send, recv):
            return (ffi.cast("void *", send.address or recv.address), count, kind, *where)

        return self._start(name, arguments, None, send, recv, [tensor], source)

    # ---- Shared by all

    def _collective(self, name, send, recv, count, tensor, opts, result, reduces=False, rooted=False):
        """Starts a collective whose functions take send, recv, count, type, and then an operator and a root if they
        have them. A list of counts selects the function with _v."""
        kind, multiple, _ = kind_of(tensor.dtype)
        if isinstance(count, list):
            name, count = name + "_v", ffi.new("size_t[]", [multiple * n for n in count])
        else:
            count *= multiple
        more = []
        made = None
        if reduces:
            operator = operator_of(opts.reduceOp, tensor.dtype)
            if operator is None:  # operations started with it keep its factor
                made = self._communicator.comm.premul_sum(factor_of(opts.reduceOp))
                operator = made.number
            more.append(operator)
        if rooted:
            more.append(opts.rootRank)

        def arguments(send, recv, _made=made):
            return (ffi.cast("void *", send.address), ffi.cast("void *", recv.address), count, kind, *more)

        return self._start(name, arguments, opts.timeout, send, recv, result)

    def _start(self, name, arguments, timeout, send, recv, result, source=None):
        """arguments(send, recv): those of hkt_NAME before its last ones, which are the communicator and the request's
        address. In a batch the operation only begins at its end. Tensors without memory are passed by."""
        batch = self._batch.collected
        if send.is_meta or recv.is_meta:
            are_meta([*send.tensors, *recv.tensors])
            return self._kept(Finished(result)) if batch is None else None
        if batch is not None:
            batch.append(_Collected(name, arguments, send, recv, result, source))
            return None
        record = profiling.Record(name, send.tensors or recv.tensors) if profiling.enabled() else None
        flight = ffi.new(FLIGHT)
        try:
            self._call(name, arguments(send, recv), flight)
            limit = milliseconds(timeout) or self._timeout
            return self._work(flight, name, limit, (send.keep, recv.keep), recv.after, result, source, record)
        except BaseException:
            if flight[0]:  # Ctrl-C came before the request was stored: its objects must stay alive
                self._communicator.state.orphans.append((flight, (send.keep, recv.keep, source)))
            raise

    def _call(self, name, arguments, flight):
        function = getattr(lib, "hkt_" + name)
        self._communicator.call(name, lambda handle: function(*arguments, handle, flight))
        self._sequence += 1

    def _work(self, *details):
        return self._kept(Work(self._communicator, *details))

    def _kept(self, work):
        if self._recent is not None:
            self._recent.append(work)
        return work

    # ---- About the group

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        limit = self._communicator.timeout_ms
        if isinstance(timeout, datetime.timedelta):
            # torch's dispatcher passes -1 ms if none was given; 0 is no time at all
            limit = limit if timeout == _NOT_GIVEN else milliseconds(timeout) or 1
        try:
            interruptible(lambda: self._communicator.call("monitored_barrier", lambda handle: lib.hkt_barrier_monitored(handle, limit)))
        except Failure as error:
            cause = error.__cause__
            if getattr(cause, "status", None) not in (lib.HKT_ERROR_TIMEOUT, lib.HKT_ERROR_PEER_LOST):
                raise
            raise Failure(in_words_of(self._absent(cause, limit, wait_all_ranks), self._communicator.members)) from cause

    def _absent(self, error, limit, all_of_them):
        """Returns the missing ranks in Gloo's words, which programs look for, followed by Hocket's."""
        rank = self.rank()
        if rank != 0:
            return (f"Rank {rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. "
                    f"{error}")
        if error.status == lib.HKT_ERROR_PEER_LOST:
            names = [str(name) for name in self._communicator.comm.lost()]
        else:  # "absent: ranks 1, 3-5 (4 of 8)"
            runs = re.findall(r"(\d+)(?:-(\d+))?", str(error).partition("absent:")[2].partition("(")[0])
            names = [str(name) for first, last in runs for name in range(int(first), int(last or first) + 1)]
        who = f"Ranks {', '.join(names)}" if all_of_them and len(names) > 1 else f"Rank {(names or ['?'])[0]}"
        return f"Rank 0 timed out in monitoredBarrier: {who} failed to pass monitoredBarrier in {limit} ms. {error}"

    def set_timeout(self, timeout):
        """Sets the timeout of waits from now on. The communicator's own timeout for an operation does not change."""
        self._timeout = milliseconds(timeout)

    def abort(self):
        if not self._communicator.comm.closed:
            self._communicator.comm.abort()

    def shutdown(self):
        self._communicator.destroy()

    def getBackendName(self):
        return NAME

    @property
    def options(self):
        return self._options

    def _get_sequence_number_for_group(self):
        return self._sequence

    def _set_sequence_number_for_group(self):
        self._sequence = 0

    # Names in other versions of torch for the same functions.
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    alltoall_base = all_to_all_single
    gather_into_tensor = gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    recvAnysource = recv_anysource
    start_coalescing, end_coalescing = _start_coalescing, _end_coalescing


def _require_one_dtype(name, tensors):
    if any(tensor.dtype is not tensors[0].dtype for tensor in tensors):
        raise TypeError(f"hocket: {name}: tensors of one call have one dtype; these have {sorted({str(t.dtype) for t in tensors})}")


def _of_splits(tensor, splits, size):
    """Returns the elements for each rank, given numbers of rows."""
    if not splits:
        if tensor.dim() == 0 or tensor.shape[0] % size:
            raise ValueError(f"hocket: all_to_all: the first dimension of {tuple(tensor.shape)} is not divided evenly by {size} ranks")
        return [tensor.numel() // size] * size
    rows = tensor.shape[0] if tensor.dim() else 0
    if len(splits) != size or sum(splits) != rows:
        raise ValueError(f"hocket: all_to_all: the split sizes {list(splits)} are not {size} numbers that add up to {rows} rows")
    row = tensor.numel() // rows if rows else 0
    return [n * row for n in splits]


def recent_works():
    """The most recent works. torch before 2.7 does not keep the Python part of a work that C++ holds, and asks it for a
    future right after the start: until then it must stay alive, even if the operation has ended."""
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 7):
        return None
    return collections.deque(maxlen=16)
