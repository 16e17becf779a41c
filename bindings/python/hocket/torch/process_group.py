"""Provides Hocket's operations to torch: as a process group, or as a backend for one kind of device.

torch 2 makes a process group of backends, one for each kind of device, and finds the backend by way of its dispatcher.
Our own process group in Python avoids that: a program's calls reach Operations directly, and works are Python objects. A
backend is used only if another one serves other devices ("cpu:hocket,cuda:nccl"), and by hocket.torch.native, which is
C++ and as fast behind the dispatcher.
"""
from __future__ import annotations

import datetime
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed
from torch._C import _distributed_c10d as c10d

from . import native
from .communicator import GroupCommunicator
from .operations import NAME, Operations
from .options import Options

# Programs that were written for Gloo give its options to all groups.
_OPTIONS_OF_GLOO = getattr(getattr(c10d, "ProcessGroupGloo", None), "_Options", ())


class Group(Operations):
    """What process groups have, whether their operations are those of Python or those of hocket.torch.native."""

    def __init__(self, store: Any, rank: int, size: int, timeout: datetime.timedelta, options: Options | None = None,
                 members: Sequence[int] = (), begins_job: bool = False) -> None:
        options = options or Options()
        self._hold(GroupCommunicator.joined(store, rank, size, timeout, options, members, begins_job), options, store)

    def _hold(self, communicator, options, store):
        super(Operations, self).__init__(communicator.rank, communicator.size)  # torch's process group
        self._begin(communicator, options)
        self._store = store
        if Backend is not None:  # for torch 2's queries to a group's backend: its devices, its capabilities, its name
            kind = c10d.ProcessGroup.BackendType.CUSTOM
            self._backend = self._make_backend(communicator, options)
            self._set_default_backend(kind)
            self._register_backend(torch.device("cpu"), kind, self._backend)

    def _make_backend(self, communicator, options):
        return Backend(communicator, options)

    def name(self) -> str:
        return NAME

    def get_group_store(self):
        return self._store

    def split_group(self, new_ranks, timeout=None, opts=None, group_name=None, group_desc=None, device_types=None):
        """Called by torch's split_group: a group of its own for the ranks, or None for a rank that is not in it."""
        communicator = self._communicator.split(list(new_ranks))
        given = getattr(opts, "given", None)
        if opts is not None and (given is None or given() != self._options.given()):  # after the call that all ranks make
            raise ValueError("hocket: a group that is split off has its parent's options; for others use new_group")
        if communicator is None:
            return None
        made = type(self).__new__(type(self))
        made._hold(communicator, self._options, torch.distributed.PrefixStore(f"{group_name}/", self._store))
        if timeout is not None:
            made.set_timeout(timeout)
        made._set_group_name(group_name or "")
        made._set_group_desc(group_desc or "")
        return made


def _python_can_be_a_backend():
    """torch 1.13 has no class for it, and in others, such as 2.6, it cannot be made from Python."""
    if not hasattr(c10d, "Backend"):
        return False
    try:
        type("Probe", (c10d.Backend,), {})(0, 1)
    except TypeError:
        return False
    return True


class _WithoutBackends:
    """What torch asks a group's backends, or stores in them, for a group that has none. The names are those of C++, but
    for the first."""

    _device_types = property(lambda self: [torch.device("cpu")])
    _group_name = _group_desc = ""

    def getGroupName(self):
        return self._group_name

    def setGroupName(self, name):
        self._group_name = name

    def getGroupDesc(self):
        return self._group_desc

    def setGroupDesc(self, text):
        self._group_desc = text


_HAVE_BACKENDS = _python_can_be_a_backend()


class ProcessGroup(Group, *(() if _HAVE_BACKENDS else (_WithoutBackends,)), c10d.ProcessGroup):  # type: ignore[misc]
    """Its operations are Python's."""


if _HAVE_BACKENDS:

    class Backend(Operations, c10d.Backend):
        def __init__(self, communicator, options):
            c10d.Backend.__init__(self, communicator.rank, communicator.size)
            self._begin(communicator, options)

        def _start_coalescing(self, *_):  # torch gives process groups alone a device
            super()._start_coalescing("cpu")

        start_coalescing = _start_coalescing

        supports_coalescing = supports_shrinking = False
        supports_splitting = True

        @property
        def options(self):
            """torch's own, for its C++ and its pipelines, which read the timeout."""
            return c10d.Backend.Options(NAME, datetime.timedelta(milliseconds=self._communicator.timeout_ms))

        def split(self, store, ranks, opts):
            """Called by torch for its own process groups, which have several backends. opts: a copy of the options above."""
            communicator = self._communicator.split(list(ranks))
            return None if communicator is None else Backend(communicator, self._options)

        def perform_nocolor_split(self, device):
            """Does nothing: the ranks of new_group meet in the store, and others have no part in it."""

        def eager_connect_single_device(self, device):
            """Does nothing: the ranks are connected."""

else:
    Backend = None  # type: ignore[assignment,misc]  # which is asked for with "is None"


def _backends_by_device():
    """Returns the names of the backends of the group that torch is making, by device. It does not tell a backend, so this
    reads a variable of torch's function; if there is none it returns what is right for "hocket" alone."""
    frame = sys._getframe(1).f_back
    for _ in range(2):  # hocket_autoload may be in between
        config = frame and frame.f_locals.get("backend_config")
        if config is not None:
            return config.get_device_backend_map()
        frame = frame and frame.f_back
    return {"cpu": NAME}


def create(given, options):
    """Called by torch for init_process_group and new_group; given: its _DistributedBackendOptions."""
    backends = _backends_by_device()
    others = [device for device, name in backends.items() if name == NAME and device != "cpu"]
    if others and backends.get("cpu") != NAME:  # torch 2.0 gives a backend that is named alone all devices
        raise ValueError(f"hocket: the backend takes tensors of the CPU, and not of {', '.join(others)}: name it for the CPU, beside another "
                         f"backend, as in \"cpu:hocket,{others[0]}:nccl\", or alone (\"hocket\")")
    if Backend is None and len(set(backends.values())) > 1:
        raise ValueError(f"hocket: torch {torch.__version__} has no backends in Python, so Hocket cannot stand beside another one in {backends}: "
                         "name it alone (\"hocket\"), make a group for each of them, or use a later torch")
    members = tuple(given.global_ranks_in_group or ())  # empty: the whole job, which begins with this group
    begins_job = not members
    if Backend is not None and len(set(backends.values())) > 1:
        options = options if isinstance(options, Options) else Options()  # or the other backend's options
        is_native = native.is_used()  # before the others are met, who would wait if it compiles
        communicator = GroupCommunicator.joined(given.store, given.group_rank, given.group_size, given.timeout, options, members,
                                                begins_job)
        return native.backend_of(communicator, options) if is_native else Backend(communicator, options)
    if isinstance(options, _OPTIONS_OF_GLOO):
        warnings.warn("hocket: pg_options are Gloo's, whose threads and devices Hocket does not have: they have no effect", stacklevel=2)
        options = None
    if options is not None and not isinstance(options, Options):
        raise TypeError(f"hocket: pg_options must be a hocket.torch.Options, not {type(options)}")
    kind = native.process_group() if native.is_used() else ProcessGroup
    return kind(given.store, given.group_rank, given.group_size, given.timeout, options, members, begins_job)
