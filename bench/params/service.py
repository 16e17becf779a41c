"""A parameter service for one measurement: servers, and workers that obey commands (params_bench.cpp)."""

import json
import os
import secrets
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "peers"))
import libraries
from jobs import Job, JobError, die_with_parent

PATIENCE_SECONDS = 5


class Service:
    """with Service(program, folder, workers, count, ...) as service: ...

    count: the number of elements of each tensor. servers: (address, prefix of its command) for each. worker: such a
    prefix, by rank."""

    def __init__(self, program, folder, workers, count, *, options=(), server_options=(),
                 servers=(("127.0.0.1", ()),), worker=libraries.here, rack=None):
        self.servers: list[subprocess.Popen[str]] = []
        secret = {"HOCKET_SECRET": secrets.token_hex(16)}
        os.makedirs(folder)
        try:
            at = ""  # the first server's address
            for address, enter in servers:
                joins = ["--join", at] if at else ["--servers", str(len(servers))]
                own_at = self._serve([*enter, program, "serve", "--listen", f"{address}:0", *joins, *server_options],
                                     secret, folder)
                at = at or own_at

            def launch(ranks, _folder, arguments):
                own = ["--server", at, "--count", str(count), *options]
                return [
                    (
                        [*worker(rank), program, "work", *arguments, *own, *(["--rack", rack(rank)] if rack else [])],
                        {**secret, **libraries.rank_variables(rank, ranks)},
                    )
                    for rank in range(ranks)
                ]

            self.job = Job(libraries.Library("parameter service", launch), workers, os.path.join(folder, "job"))
        except BaseException:
            self._stop_servers()
            raise

    def _serve(self, command, secret, folder):
        """Starts a server and returns its address."""
        with open(os.path.join(folder, "log"), "ab") as log:
            server = subprocess.Popen(
                command,
                env={**os.environ, **secret},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                process_group=0,
                preexec_fn=die_with_parent,
            )
        self.servers.append(server)
        assert server.stdout  # a pipe
        at = server.stdout.readline().strip()
        if not at:
            raise JobError("a server did not start")
        return at

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.job.stop()
        self._stop_servers()

    def _stop_servers(self):
        for server in reversed(self.servers):
            try:
                server.communicate("", PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()

    def seconds(self, command):
        """Returns the time from the first worker's start to the last one's end."""
        self.job.tell(command)
        return self.job.spans(1)[0] * 1e-9

    def stats(self):
        """Returns the stats of the first server."""
        server = self.servers[0]
        assert server.stdin and server.stdout  # pipes
        server.stdin.write("\n")
        server.stdin.flush()
        return json.loads(server.stdout.readline())

    def require_right_weights(self):
        wrong = sum(self.job.tell("wrong").values())
        if wrong:
            raise JobError(f"{wrong} weights are wrong")


def service_of_each(trees, stack, program, folder, workers, mebibytes, tensors, chunk_bytes, **places):
    """Returns {tree: Service}, with all of them running. places: as Service takes them."""
    return {
        tree: stack.enter_context(
            Service(
                program,
                os.path.join(folder, tree.replace(" ", "-")),
                workers,
                (mebibytes << 20) // 4 // tensors,
                options=["--tensors", str(tensors), "--tree", tree, "--chunk-bytes", str(chunk_bytes)],
                **places,
            )
        )
        for tree in trees
    }


def middle(values):
    """Returns the median, and the range of the middle half of the values."""
    low, median, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return median, low, high


def spread_text(values, factor=1.0, digits=1):
    median, low, high = (factor * value for value in middle(values))
    return f"{median:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
