"""Lets torch know the backend "hocket" of a program that does not import hocket.torch.

The wheel names this module in the entry point "torch.backends", which torch 2.5 and later call at their own import. So it
imports nothing of Hocket before a process group is made, and no fault of Hocket's ends an import of torch. Versions of
torch that load a backend when it is asked for (about 2.15) find the entry point "torch.distributed.backends" instead.
"""
from __future__ import annotations

from typing import Any

import torch.distributed


def register() -> None:
    if not torch.distributed.is_available() or hasattr(torch.distributed.Backend, "_ensure_backend_registered"):
        return
    torch.distributed.Backend.register_backend("hocket", _create, extended_api=True, devices=["cpu"])


def _create(given: Any, options: Any) -> Any:
    from hocket.torch.process_group import create  # which also registers itself in this function's place
    return create(given, options)
