"""The ranks of one library: processes that live as long as the comparison and answer commands.

A rank waits for its next command in read() on a unix socket. It ends when the socket is closed, so nothing stays
behind even if this program is killed. A job that doesn't answer in time has failed."""

import ctypes
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import time

MOST_ITERATIONS = 1024  # driver.hpp: kMostIterations
HEAD = 4096
ANSWER_SECONDS = 90  # a rank ends by itself after 60


def die_with_parent():
    """Runs in a child before it starts its program: makes the kernel kill it when this process ends in any way."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


class JobError(Exception):
    pass


class Job:
    """The ranks of a library, in a folder that the job creates."""

    def __init__(self, library, ranks, folder):
        self.ranks = ranks
        self.socket_path = os.path.join(folder, "socket")
        self.shared_path = os.path.join(folder, "shared")
        self.log_path = os.path.join(folder, "log")
        self.processes = []
        self.channels: list[socket.socket | None] = [None] * ranks
        self.times: memoryview | None = None
        os.makedirs(folder)
        try:
            self._map_times()
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(self.socket_path)
                listener.listen(ranks)
                arguments = [self.socket_path, self.shared_path, str(ranks)]
                self._start(library.launch(ranks, folder, arguments))
                self._accept(listener)
        except BaseException:
            self.stop()
            raise

    def _map_times(self):
        size = HEAD + self.ranks * 2 * MOST_ITERATIONS * 8
        with open(self.shared_path, "w+b") as shared:
            shared.truncate(size)
            self.times = memoryview(mmap.mmap(shared.fileno(), size))[HEAD:].cast("q")

    def _start(self, commands):
        with open(self.log_path, "ab") as log:
            for command, variables in commands:
                # In its own process group, so that Ctrl-C reaches only this process. But not in its own session: the
                # kernel divides the cores among sessions first, and no rank would yield to one in another session.
                process = subprocess.Popen(
                    command,
                    env={**os.environ, **variables},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    process_group=0,
                    preexec_fn=die_with_parent,
                )
                self.processes.append(process)

    def _accept(self, listener):
        deadline = time.monotonic() + ANSWER_SECONDS
        listener.settimeout(0.2)
        for _ in range(self.ranks):
            channel = self._accept_one(listener, deadline)
            channel.settimeout(ANSWER_SECONDS)
            self.channels[int(self._read_line(channel).split()[1])] = channel

    def _accept_one(self, listener, deadline):
        while True:
            try:
                return listener.accept()[0]
            except socket.timeout:
                if any(p.poll() not in (None, 0) for p in self.processes) or time.monotonic() > deadline:
                    raise JobError(self._failure("its ranks did not start")) from None

    def _read_line(self, channel):
        line = b""
        while not line.endswith(b"\n"):
            piece = channel.recv(4096)
            if not piece:
                raise JobError(self._failure("a rank ended"))
            line += piece
        return line.decode(errors="replace").strip()

    def _failure(self, what):
        time.sleep(0.2)  # for processes that are just ending
        codes = {p.poll() for p in self.processes} - {None, 0}
        what += f" (exit code {', '.join(map(str, sorted(codes)))})" if codes else ""
        with open(self.log_path, errors="replace") as log:
            tail = [line.rstrip() for line in log if line.strip()][-2:]
        return what + (": " + " | ".join(tail) if tail else "")

    def tell(self, command):
        """Gives all ranks the same command; returns their numbers. After an error the job can't be used any more."""
        try:
            for channel in filter(None, self.channels):
                channel.sendall(command.encode() + b"\n")
            return self._answers(command)
        except OSError as error:
            raise JobError(self._failure(f"'{command}': {error}")) from None

    def _answers(self, command):
        numbers = {}
        waiting = {channel: rank for rank, channel in enumerate(self.channels) if channel}
        deadline = time.monotonic() + ANSWER_SECONDS
        while waiting:
            ready = select.select(list(waiting), [], [], max(0, deadline - time.monotonic()))[0]
            if not ready:
                late = ", ".join(map(str, waiting.values()))
                raise JobError(self._failure(f"'{command}': no answer from rank {late} in {ANSWER_SECONDS} s"))
            for channel in ready:
                rank, answer = waiting.pop(channel), self._read_line(channel)
                if not answer.startswith("ok "):
                    raise JobError(f"rank {rank}: {answer.removeprefix('error ')}")
                numbers[rank] = int(answer.split()[1])
        return numbers

    def spans(self, iterations):
        """Returns for each of the last command's iterations the ns from the first rank's start to the last rank's
        end."""
        per_rank, times = 2 * MOST_ITERATIONS, self.times
        assert times is not None, "the job was stopped"
        return [
            max(times[rank * per_rank + MOST_ITERATIONS + i] for rank in range(self.ranks))
            - min(times[rank * per_rank + i] for rank in range(self.ranks))
            for i in range(iterations)
        ]

    def kill(self, rank):
        """Excludes the rank from later commands. None of them may need all ranks."""
        with self.channels[rank] as channel:
            self.channels[rank] = None
            self._kill(self._pid(channel))

    def stop(self):
        ranks = [self._pid(channel) for channel in self.channels if channel]
        for channel in self.channels:
            if channel:
                channel.close()
        self.channels = [None] * self.ranks
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline and any(p.poll() is None for p in self.processes):
            time.sleep(0.01)
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(2)
                except subprocess.TimeoutExpired:
                    pass
        if any(p.poll() is None for p in self.processes):
            for pid in ranks:
                self._kill(pid)
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if self.times is not None:
            self.times.release()
            self.times = None

    @staticmethod
    def _pid(channel):
        credentials = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return struct.unpack("3i", credentials)[0]

    def _kill(self, pid):
        """Kills a rank that hangs. Checks its command line, because another process may have its number by now."""
        try:
            with open(f"/proc/{pid}/cmdline", errors="replace") as command:
                if self.socket_path in command.read():
                    os.kill(pid, signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            pass
