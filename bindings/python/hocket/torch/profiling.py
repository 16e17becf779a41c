"""Records operations in torch's profiler, under the names that its own backends use: "hocket:all_reduce", from start to
end."""
import threading

import torch

enabled = torch.autograd._profiler_enabled

# hkt_NAME -> the title, where the two differ.
_TITLES = {"recv_any": "recvAnySource", "barrier_start": "barrier", "all_gather_v": "all_gather", "gather_v": "gather",
           "scatter_v": "scatter", "reduce_scatter_v": "reduce_scatter", "all_to_all_v": "all_to_all"}


class Record:
    """One operation in the profile. It ends on the thread that reports the operation's end, so the profiler shows it as
    concurrent with the program."""

    def __init__(self, name, tensors):
        self._ended, self._future = threading.Event(), torch.futures.Future()
        handle = torch.autograd._record_function_with_args_enter(f"hocket:{_TITLES.get(name, name)}", *tensors)
        # A thread outside the profile ends it through a future, which knows the profile.
        torch.ops.profiler._call_end_callbacks_on_jit_fut(handle, self._future)

    def end(self):
        self._future.set_result(None)
        self._ended.set()

    def wait(self):
        """Waits until the profile has the end: otherwise a program that stops the profiler after its wait would miss
        it."""
        self._ended.wait(10)
