"""Futures of works. A function that a program adds to one with then() may wait for the next operation's future, as
PowerSGD's hook does, so it must not run on the communicator's one thread that reports ends."""
import os
import queue
import threading

import torch


class _Helpers:
    """Threads for functions that may wait for each other: there is always one more than those that are busy."""

    _IDLE = 4  # the number of idle threads that are kept

    def __init__(self):
        self._queue, self._idle, self._lock = queue.SimpleQueue(), 0, threading.Lock()

    def run(self, function):
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            else:
                threading.Thread(target=self._work, name="hocket-future", daemon=True).start()
        self._queue.put(function)

    def _work(self):
        while True:
            self._queue.get()()
            with self._lock:
                if self._idle == self._IDLE:
                    return
                self._idle += 1


_helpers = _Helpers()


def _in_a_child():
    global _helpers
    _helpers = _Helpers()  # threads do not survive a fork


os.register_at_fork(after_in_child=_in_a_child)


class Future(torch.futures.Future):
    """Records if any function was added to it. If not, completing it wakes the waiting threads and runs nothing."""

    def __init__(self):
        super().__init__()
        self._has_functions, self._lock = False, threading.Lock()

    def _add(self, add, function):
        with self._lock:
            if not self.done():
                self._has_functions = True
                return add(function)
        return add(function)  # called immediately, here

    def then(self, callback):
        return self._add(super().then, callback)

    def add_done_callback(self, callback):
        return self._add(super().add_done_callback, callback)

    def complete(self, result, error):
        with self._lock:
            if not self._has_functions:
                self._set(result, error)
                return
        _helpers.run(lambda: self._set(result, error))

    def _set(self, result, error):
        if error is None:
            self.set_result(result)
        else:
            self._set_unwrap_func(_raise)
            self.set_result(_Failed(error))


class OfCpp:
    """In place of a future, where C++ has one: function(result, error) completes it. Functions that were added to it are
    not recorded."""

    def __init__(self, function):
        self._function = function

    def complete(self, result, error):
        _helpers.run(lambda: self._function(result, error))


class _Failed:
    """The value of a future that has an error, because Python has no way to set one. Futures in Python raise the error;
    C++ looks for tensors in the value by pickling it, and reports the exception which that raises."""

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        raise self.error


def _raise(value):
    if isinstance(value, _Failed):
        raise value.error


def of_one_tensor(future, tensor):
    """Returns the future that C++ expects from a hook of DistributedDataParallel: its value is the tensor, or it has
    the error itself."""
    return torch.futures.Future.then(future, lambda ended: ended.value() and tensor)
