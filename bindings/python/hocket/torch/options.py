"""Options of a process group of Hocket."""
from __future__ import annotations

from typing import Any


class Options:
    """Pass it to init_process_group or new_group as pg_options. Missing options are taken from the environment, then
    from Hocket's defaults (capi/hocket.h, hkt_comm_options; docs/running.md).

    schedule        HOCKET_SCHEDULE: the schedule of the collectives that it exists for
    schedule_path   HOCKET_SCHEDULE_PATH: folders of .sched files, separated by ":"
    topology        HOCKET_TOPOLOGY
    provider        HOCKET_PROVIDER
    executor        HOCKET_EXECUTOR
    """

    def __init__(self, schedule: str | None = None, schedule_path: str | None = None, topology: str | None = None,
                 provider: str | None = None, executor: str | None = None) -> None:
        self.schedule, self.schedule_path, self.topology = schedule, schedule_path, topology
        self.provider, self.executor = provider, executor

    def given(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}
