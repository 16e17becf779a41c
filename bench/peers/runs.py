"""Runs the programs of one job: starts and awaits them together, and reads what the first one says."""

import json
import os
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

from jobs import JobError, die_with_parent

PATIENCE_SECONDS = 300  # of a job
GRACE_SECONDS = 5  # for the others once one has failed, to report their reasons, too


@dataclass
class Program:
    command: list
    variables: dict = field(default_factory=dict)


def _start(program, folder, number, stack):
    output, errors = (
        stack.enter_context(open(os.path.join(folder, f"{number}.{name}"), "w+")) for name in ("out", "err")
    )
    process = subprocess.Popen(
        program.command,
        env={**os.environ, **program.variables},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        process_group=0,
        preexec_fn=die_with_parent,
    )
    stack.callback(_end, process)
    return process, output, errors


def _end(process):
    if process.poll() is None:
        process.kill()
        process.wait()


def _text(file):
    file.seek(0)
    return file.read()


def _wait_for_all(processes):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(process.poll() is None for process in processes):
        if time.monotonic() > deadline:
            return
        if any(process.poll() not in (None, 0) for process in processes):
            deadline = min(deadline, time.monotonic() + GRACE_SECONDS)
        time.sleep(0.02)


def output_of(programs, folder):
    """Returns the output of the first program, when all have ended."""
    os.makedirs(folder, exist_ok=True)
    with ExitStack() as stack:
        started = [_start(program, folder, number, stack) for number, program in enumerate(programs)]
        _wait_for_all([process for process, _, _ in started])
        for program, (process, _, errors) in zip(programs, started):
            if process.poll() != 0:
                how = "did not end in time" if process.poll() is None else f"ended with {process.poll()}"
                said = " | ".join(line.strip() for line in _text(errors).splitlines()[-3:])
                raise JobError(f"{' '.join(program.command)} {how}: {said or 'it says nothing'}")
        return _text(started[0][1])


def run(programs, folder):
    """Returns the report of the first program, its last line of JSON, when all have ended."""
    lines = output_of(programs, folder).splitlines()
    if not lines or not lines[-1].startswith("{"):
        raise JobError(f"{' '.join(programs[0].command)} has no report")
    return json.loads(lines[-1])
