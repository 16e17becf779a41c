"""Operations in torch's profiler, under the names that its own backends have: "hocket:all_reduce", from start to end."""
import threading

import torch
from torch.autograd import _profiler_enabled as enabled  # noqa: F401

# hkt_NAME -> the title, where the two differ.
_TITLES = {"recv_any": "recvAnySource", "barrier_start": "barrier", "all_gather_v": "all_gather", "gather_v": "gather",
           "scatter_v": "scatter", "reduce_scatter_v": "reduce_scatter", "all_to_all_v": "all_to_all"}


class Record:
    """One operation in the profile. It ends in the thread that tells of the operation's end, so the profiler shows it as one that went
    on beside the program."""

    def __init__(self, name, tensors):
        self._ended = threading.Event()
        self._handle = torch.autograd._record_function_with_args_enter(f"hocket:{_TITLES.get(name, name)}", *tensors)

    def end(self):
        torch.autograd._record_function_with_args_exit(self._handle)
        self._ended.set()

    def wait(self):
        """Until the profile has the end: a program that stops the profiler after its wait would miss it."""
        self._ended.wait(10)
