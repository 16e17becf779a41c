"""What can be chosen for a process group of Hocket."""
from hocket._native import ffi


class Options:
    """Give it to init_process_group or new_group as pg_options. What is not given is taken from the environment, then Hocket's
    default (capi/hocket.h, hkt_comm_options; docs/running.md).

    schedule        HOCKET_SCHEDULE: the schedule of the collectives that it exists for
    schedule_path   HOCKET_SCHEDULE_PATH: folders of .sched files, separated by ":"
    topology        HOCKET_TOPOLOGY
    provider        HOCKET_PROVIDER
    """

    def __init__(self, schedule=None, schedule_path=None, topology=None, provider=None):
        self.schedule, self.schedule_path, self.topology, self.provider = schedule, schedule_path, topology, provider

    def into(self, native):
        """Sets the fields of an hkt_comm_options; returns what must live as long as these are read."""
        texts = {name: ffi.new("char[]", value.encode()) for name, value in vars(self).items() if value is not None}
        for name, text in texts.items():
            setattr(native, name, text)
        return texts
