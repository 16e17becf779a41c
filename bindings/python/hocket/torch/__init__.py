"""Hocket as a backend of torch.distributed.

    import hocket.torch
    torch.distributed.init_process_group("hocket")

docs/torch.md says what it has. With torch 1.13 and 2.15; for tensors of the CPU.
"""
import inspect
from typing import Any

import torch.distributed

from .dynamo import make_opaque
from .hooks import SparseHook, ddp_hook, quantised_hook, sparse_hook
from .measuring import measure_profile
from .operations import NAME
from .optimizer import ParamsOptimizer
from .options import Options
from .planned import bucket_sizes, planned_ddp
from .process_group import Backend, ProcessGroup, create

__all__ = ["Backend", "Options", "ParamsOptimizer", "ProcessGroup", "SparseHook", "bucket_sizes", "ddp_hook", "measure_profile", "planned_ddp", "quantised_hook", "sparse_hook"]


def register() -> None:
    """Tells torch of the backend. torch calls it, too, where it looks for backends among the packages installed."""
    keywords: dict[str, Any] = {"extended_api": True}
    if "devices" in inspect.signature(torch.distributed.Backend.register_backend).parameters:
        keywords["devices"] = ["cpu"]
    backends = torch.distributed.Backend
    try:
        backends.register_backend(NAME, create, **keywords)
    except AssertionError:  # torch 2.5 and 2.6 refuse a name that they have, here from hocket_autoload
        backends._plugins[NAME.upper()] = backends._BackendPlugin(create, True)
    torch.distributed.Backend.HOCKET = NAME  # torch 1.13 would call it HOCKET in get_backend()


register()
make_opaque()
