"""Runs cases of PyTorch's own tests, each in processes of its own, and keeps what came out in a file: for distributed_cases and
torch_files."""
import os
import re
import signal
import tempfile
import time
import unittest


def reason_of(text):
    """The error in one line: the last informative line of the traceback."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Skip)\w*\b", line)]
    return (errors or lines or ["?"])[-1][:300].replace("\t", " ")


def _run(case, report):
    """In a process of its own: writes the outcome to the descriptor, and ends."""
    os.setsid()
    output = os.open(_output_of(os.getpid()), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    result = unittest.TestResult()
    unittest.TestSuite([case]).run(result)
    if result.skipped:
        outcome = ("skipped", result.skipped[0][1])
    elif result.errors or result.failures:
        outcome = ("failed", "\n".join(text for _, text in result.errors + result.failures))
    else:
        outcome = ("passed", "")
    os.write(report, "\t".join(outcome).encode())
    os.close(report)
    os._exit(0)


def _output_of(process):
    return os.path.join(tempfile.gettempdir(), f"distributed_case_{process}")


def outcome_of(case, deadline):
    """Runs a case; its status, its text and its output."""
    receive, report = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receive)
        _run(case, report)
    os.close(report)
    end, text, alive = time.monotonic() + deadline, b"", True
    os.set_blocking(receive, False)
    while alive and time.monotonic() < end:
        try:
            piece = os.read(receive, 1 << 16)
            text += piece
            alive = bool(piece)
        except BlockingIOError:
            time.sleep(0.02)
    try:
        os.killpg(child, signal.SIGKILL)  # the case's own session: also ranks that it has left behind
    except ProcessLookupError:
        pass
    os.waitpid(child, 0)
    os.close(receive)
    output = ""
    if os.path.exists(_output_of(child)):
        with open(_output_of(child), errors="replace") as file:
            output = file.read()
        os.unlink(_output_of(child))
    if alive:
        return "failed", f"it had not ended after {deadline} s", output
    status, _, words = text.decode(errors="replace").partition("\t")
    return status or "failed", words or ("" if status else "its process ended without an outcome"), output


class Results:
    """A file with a line for each case: name, status, seconds, reason. Cases that it has already are not run again, but
    for those that `again` is found in."""

    def __init__(self, path, again=None):
        self._path, self._again, self._have = path, again, {}
        if os.path.exists(path):
            with open(path) as file:
                self._have = {line.split("\t")[0]: line for line in file}

    def lacks(self, name):
        return name not in self._have or bool(self._again and re.search(self._again, name))

    def run(self, name, case, deadline, is_verbose, instead=lambda: ""):
        """instead: a function that is called when the case has passed, and gives another status, or ""."""
        begin = time.monotonic()
        status, text, output = outcome_of(case, deadline)
        if is_verbose and status == "failed":
            print(text, output, sep="\n----\n", flush=True)
        reason = "" if status == "passed" else reason_of(text)
        self.add(name, (status == "passed" and instead()) or status, time.monotonic() - begin, reason)

    def add(self, name, status, seconds, reason):
        line = f"{name}\t{status}\t{seconds:.1f}\t{reason}\n"
        print(line, end="", flush=True)
        self._have[name] = line
        with open(self._path + ".new", "w") as file:
            file.writelines(self._have.values())
        os.replace(self._path + ".new", self._path)
