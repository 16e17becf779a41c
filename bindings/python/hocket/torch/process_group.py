"""Provides Hocket's operations to torch: as a process group, or as a backend for one kind of device.

torch 2 makes a process group of backends, one for each kind of device, and finds the backend by way of its dispatcher.
Our own process group avoids that: a program's calls reach Operations directly, and works are Python objects. A backend
is used only if another one serves other devices ("cpu:hocket,cuda:nccl").
"""
from __future__ import annotations

import datetime
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from .communicator import GroupCommunicator
from .operations import NAME, Operations
from .options import Options


class ProcessGroup(Operations, c10d.ProcessGroup):
    def __init__(self, store: Any, rank: int, size: int, timeout: datetime.timedelta, options: Options | None = None,
                 members: Sequence[int] = ()) -> None:
        c10d.ProcessGroup.__init__(self, rank, size)
        options = options or Options()
        self._begin(GroupCommunicator.joined(store, rank, size, timeout, options, members), options)
        if Backend is not None:  # for torch 2's queries to a group's backend: its devices, its capabilities, its name
            kind = c10d.ProcessGroup.BackendType.CUSTOM
            self._backend = Backend(self._communicator, options)
            self._set_default_backend(kind)
            self._register_backend(torch.device("cpu"), kind, self._backend)

    def name(self) -> str:
        return NAME


if hasattr(c10d, "Backend"):

    class Backend(Operations, c10d.Backend):
        def __init__(self, communicator, options):
            c10d.Backend.__init__(self, communicator.rank, communicator.size)
            self._begin(communicator, options)

        supports_coalescing = supports_splitting = supports_shrinking = False

else:  # torch 1.13
    Backend = None  # type: ignore[assignment,misc]  # which is asked for with "is None"


def _is_one_of_several():
    """Returns True if torch is making a group with another backend for another device. It does not tell a backend, so
    this reads a variable of torch's function; if there is none it returns False, which is right for "hocket" alone."""
    frame = sys._getframe(1).f_back
    config = frame and frame.f_locals.get("backend_config")
    return config is not None and len(set(config.get_device_backend_map().values())) > 1


def create(given, options):
    """Called by torch for init_process_group and new_group; given: its _DistributedBackendOptions."""
    members = tuple(given.global_ranks_in_group or ())  # empty: the whole job
    if Backend is not None and _is_one_of_several():
        options = options if isinstance(options, Options) else Options()  # or the other backend's options
        return Backend(GroupCommunicator.joined(given.store, given.group_rank, given.group_size, given.timeout, options, members), options)
    if options is not None and not isinstance(options, Options):
        raise TypeError(f"hocket: pg_options must be a hocket.torch.Options, not {type(options)}")
    return ProcessGroup(given.store, given.group_rank, given.group_size, given.timeout, options, members)
