"""Joins the native operations with those in Python. Imported only when the module has been built."""
import ctypes
import importlib.machinery
import importlib.util
import os

from torch._C import _distributed_c10d as c10d

import hocket
from hocket import state
from hocket._native import ffi

from ..process_group import Backend, Group
from ..work import Work, destroyed_before, not_ended, waits_beside
from .build import NAME

_module = None
NativeProcessGroup = None


def load(path):
    """Imports the module at the path."""
    global _module, NativeProcessGroup
    # Its functions of C are those of the library that hocket._native has loaded, for itself alone until here.
    ctypes.CDLL(f"libhocket.so.{hocket.__version__.partition('.')[0]}", mode=os.RTLD_NOLOAD | os.RTLD_GLOBAL | os.RTLD_NOW)
    loader = importlib.machinery.ExtensionFileLoader(NAME, path)
    spec = importlib.util.spec_from_file_location(NAME, path, loader=loader)
    _module = importlib.util.module_from_spec(spec)
    loader.exec_module(_module)
    # A thread in one of its calls has no frame of ours, except where C asks whether the call is interrupted, and where
    # C++ asks the bridge: a signal's handler that ran there would wait for its own thread.
    state.CALLS.add(state._is_interrupted.__code__)
    for method in (Bridge.failure, Bridge.not_ended, Bridge.destroyed_before, Bridge.waits_beside, Bridge.adopt, Bridge.sweep):
        state.CALLS.add(method.__code__)
    NativeProcessGroup = _make_process_group()


class Bridge(Backend):
    """The operations in Python, and what the native ones ask beside them."""

    def failure(self, status):
        return self._communicator.failure(status)

    def not_ended(self, name, limit):
        return not_ended(name, limit, self._communicator)

    def destroyed_before(self, name):
        return destroyed_before(name)

    def waits_beside(self, name):
        return waits_beside(name)

    def adopt(self, request, name, timeout, inputs, result, source):
        """Returns a work for a request that C++ has started."""
        flight = ffi.new(state.FLIGHT)
        flight[0] = ffi.cast("hkt_request *", request)
        return Work(self._communicator, flight, name, timeout, (inputs, result), None, result, ffi.new("int32_t *", source))

    def sweep(self):
        return self._communicator.sweep()

    def split(self, store, ranks, opts):
        communicator = self._communicator.split(list(ranks))
        return None if communicator is None else make_backend(communicator, Bridge(communicator, self._options))


def make_backend(communicator, bridge, group=None):
    """group: the process group that has this backend alone, or None."""
    calls = communicator.enter_from(_module.Calls)
    return _module.make_backend(calls, bridge, communicator.rank, communicator.size, group)


# The methods that torch's own process group has, and passes to its backends.
_TORCHS = ("allreduce", "allreduce_coalesced", "broadcast", "reduce", "allgather", "allgather_coalesced", "all_gather_single",
           "all_gather_single_coalesced", "allgather_into_tensor_coalesced", "_allgather_base", "gather", "gather_single",
           "gather_into_tensor", "scatter", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_single_coalesced",
           "reduce_scatter_tensor_coalesced", "_reduce_scatter_base", "alltoall", "alltoall_base", "all_to_all_single", "send", "recv",
           "recv_anysource", "barrier", "set_timeout", "_start_coalescing", "_end_coalescing", "_get_sequence_number_for_group")


def _make_process_group():
    class NativeProcessGroup(Group, _module.ProcessGroup):
        """torch's process group, with the native backend. What is no collective is Python's."""

        def _make_backend(self, communicator, options):
            self._bridge = Bridge(communicator, options)
            return make_backend(communicator, self._bridge, self)

        def _reduce_bucket(self, *arguments):  # for hooks of DistributedDataParallel
            return self._bridge._reduce_bucket(*arguments)

    for name in _TORCHS:
        setattr(NativeProcessGroup, name, vars(c10d.ProcessGroup)[name])  # as it is, so that it becomes a method here, too
    return NativeProcessGroup
