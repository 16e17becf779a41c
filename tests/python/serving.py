"""Servers and workers of the parameter service, for tests of hocket.params: in this process, or in others."""
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import unittest

import numpy as np

import hocket
import hocket.params as params
import running

SECRET = "a secret"
TIMEOUT_S = 60
PROCESS = os.path.join(running.HERE, "params_process.py")


def model():
    """First weights, of several types and shapes."""
    return {"a": np.arange(6, dtype=np.float32).reshape(3, 2), "b": np.zeros(4, np.float64), "c": np.full(5, 7, np.int64),
            "d": np.full((), 2, np.float32)}


def serve(*, timeout=TIMEOUT_S, **options):
    return params.serve("127.0.0.1:0", secret=SECRET, timeout=timeout, **options)


def open_worker(address, tensors, *, timeout=TIMEOUT_S, **options):
    return params.open(tensors, address=address, secret=SECRET, timeout=timeout, **options)


def open_workers(address, models, **options):
    """A worker for each of the models, with the numbers from 0: all of them together, as the job begins when all have come."""
    opened, errors = [None] * len(models), []

    def join(number):
        try:
            opened[number] = open_worker(address, models[number], workers=len(models), number=number, **options)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=join, args=(number,)) for number in range(len(models))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * TIMEOUT_S)
    if errors:
        raise errors[0]
    return opened


class Process:
    """params_process.py MODE, told its options as JSON. It says a line of JSON for each step, and goes on when it gets a line."""

    def __init__(self, mode, **options):
        self._process = subprocess.Popen([sys.executable, PROCESS, mode, json.dumps(options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         text=True, env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1", HOCKET_SECRET=SECRET))
        assert self._process.stdin and self._process.stdout
        self._input, self._output = self._process.stdin, self._process.stdout
        self._limit = threading.Timer(2 * TIMEOUT_S, self._process.kill)
        self._limit.daemon = True
        self._limit.start()

    def hear(self):
        line = self._output.readline()
        if not line:
            raise AssertionError(f"the process has ended with {self._process.wait()}")
        return json.loads(line)

    def go_on(self):
        self._input.write("\n")
        self._input.flush()

    def kill(self):
        self._process.kill()
        self.wait()

    def wait(self):
        """Its exit code, once it has ended by itself."""
        with contextlib.suppress(BrokenPipeError):
            self._input.close()
        code = self._process.wait(2 * TIMEOUT_S)
        self._limit.cancel()
        self._output.close()
        return code


class TestCase(unittest.TestCase):
    def refused(self, words, function, *arguments, error=hocket.InvalidArgumentError, **named):
        with self.assertRaises(error) as caught:
            function(*arguments, **named)
        for word in words:
            self.assertIn(word, str(caught.exception))
        self.assertNotRegex(str(caught.exception), r"hkt_\w+_options")  # a name in C

    def same(self, found, expected):
        self.assertEqual(found.dtype, np.asarray(expected).dtype)
        np.testing.assert_array_equal(found, expected)

    def eventually(self, condition):
        until = time.monotonic() + TIMEOUT_S
        while not condition():
            self.assertLess(time.monotonic(), until, "it did not come to that")
            time.sleep(0.001)

    def process(self, mode, **options):
        made = Process(mode, **options)
        self.addCleanup(made.kill)
        return made

    def serve(self, **options):
        server = serve(**options)
        self.addCleanup(server.close)
        return server

    def workers(self, models, **options):
        opened = open_workers(self.serve().address, models, **options)
        for worker in opened:
            self.addCleanup(worker.close)
        return opened
