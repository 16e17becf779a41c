"""Hocket under torchft, whose managers make a new group when replicas come and go.

    from hocket.torch.torchft import ProcessGroupHocket
    manager = torchft.Manager(pg=ProcessGroupHocket(), ...)
"""
from __future__ import annotations

from typing import Any

from torchft.process_group import ProcessGroupWrapper

from .process_group import ProcessGroup


class ProcessGroupHocket(ProcessGroupWrapper):
    """In place of torchft.ProcessGroupGloo. configure() leaves the group of before, whose operations end with an error, and
    meets the others in the store that it is given. timeout: of that meeting, and of each operation."""

    def _create_pg(self, store: Any, rank: int, world_size: int) -> Any:
        return ProcessGroup(store, rank, world_size, self._timeout)

    def getBackendName(self) -> str:
        return "torchft-hocket"
