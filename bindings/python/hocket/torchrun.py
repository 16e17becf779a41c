"""Supports jobs started by torchrun. MASTER_PORT belongs to torch's store there, so the ranks meet in that store."""
from __future__ import annotations

import datetime
import itertools
import os
import sys
from typing import Any

from hocket.errors import invalid
from hocket.options import LONGEST_S

_CONNECTING_S = 60  # at most, unless init() was given a timeout: as in C
_met = itertools.count()  # a key of the store is set once, so each init() of a process has its own prefix


def is_launcher() -> bool:
    """If HOCKET_SECRET is set, the user has chosen a port as well, as in C."""
    return "TORCHELASTIC_RUN_ID" in os.environ and not os.environ.get("HOCKET_SECRET")


def rendezvous(timeout: float | None) -> tuple[Any, int, int, str]:
    """Returns the store, this process's rank, the number of ranks, and the suffix for the prefix of keys. All ranks
    call init() the same number of times."""
    try:
        from torch.distributed.rendezvous import rendezvous
    except ImportError as error:
        raise invalid(f"torchrun has started this process, so the ranks meet in torch's store, but torch cannot be imported "
                      f"({error}); install it for {sys.executable}, or set MASTER_PORT to another port and HOCKET_SECRET") from error
    longest = datetime.timedelta(seconds=_CONNECTING_S if timeout is None else min(timeout, LONGEST_S))
    store, rank, size = next(rendezvous("env://", timeout=longest))
    return store, rank, size, f"/{next(_met)}"
