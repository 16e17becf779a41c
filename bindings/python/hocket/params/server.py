"""A server of a parameter service in this process, and the status of any server."""
from __future__ import annotations

import contextlib
import json
import os
import time
from typing import Any

from hocket import options as opts
from hocket._native import ffi, lib
from hocket.errors import Error, raise_last, text_of
from hocket.interruptible import interruptible
from hocket.params.handles import ServiceHandle
from hocket.request import checked
from hocket.state import NULL, Ending

_SLICE_MS = 50  # of a wait, between two checks for signals and for close()


class Server:
    """Keeps weights of a service, on one of Hocket's threads. Made by serve() and open_with_ranks(). Thread-safe.

    It is closed by close(), at the end of a `with` block, when it is dropped, and before the interpreter ends.
    Remaining workers take it for a server that has died, and wait for its replacement."""

    def __init__(self, handle: ServiceHandle) -> None:
        """Use serve()."""
        self._handle = handle
        self._address = text_of(lib.hkt_params_server_address(handle.handle))
        self._is_finished = False

    @property
    def address(self) -> str:
        """The address at which workers and other servers reach it: "10.0.0.4:7000"."""
        return self._address

    @property
    def closed(self) -> bool:
        return not self._handle.handle

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until workers have connected and all have left. timeout: in seconds; then returns False. Ctrl-C ends
        the wait. Raises the error that has made the server fail: BootstrapError (the first server cannot be reached),
        MismatchError (it refuses this one), IOError of hocket, OutOfMemoryError."""
        until = None if timeout is None else time.monotonic() + checked(timeout)
        while True:
            left = _SLICE_MS if until is None else max(0, min(_SLICE_MS, round(1000 * (until - time.monotonic()))))
            if self._handle.call(lib.hkt_params_server_wait, left) == lib.HKT_SUCCESS:
                return True
            if until is not None and time.monotonic() >= until:
                return False

    def stats(self) -> dict[str, Any]:
        """Returns status() of this server."""
        found: list[dict[str, Any]] = []

        def ask(handle: Any) -> int:
            text = ffi.new("const char**")
            status = lib.hkt_params_server_stats(handle, text)
            if status >= 0:
                found.append(json.loads(text_of(text[0])))  # before this thread's next call
            return status

        self._handle.call(ask)
        return found[0]

    def finish(self) -> None:
        """Ends the server, and returns when its last checkpoint, of all rounds so far, is on the disk, if it has a
        folder for checkpoints. Afterwards only close() may be called. Errors: IOError of hocket (the last checkpoint
        could not be written), and the error that has made the server fail."""
        self._is_finished = True
        interruptible(lambda: self._handle.call(lib.hkt_params_server_finish))

    def close(self) -> None:
        """Calls finish(), unless that was called, and frees the server, also if finish() raises. A second close() does
        nothing."""
        if self.closed:
            return
        self._handle.refuse_beside_a_call()
        try:
            if not self._is_finished:
                self.finish()
        finally:
            self._handle.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        with contextlib.ExitStack() as stack:
            if kind is not None:  # the first error counts
                stack.enter_context(contextlib.suppress(Error))
            self.close()

    def __repr__(self) -> str:
        return f"<hocket.params.Server: {'closed' if self.closed else 'at ' + self._address}>"

    def __reduce__(self) -> Any:
        raise TypeError("a server of a parameter service cannot be pickled")


def serve(listen: str, *, join: str | None = None, secret: str | None = None,
          checkpoints: str | os.PathLike[str] | None = None, checkpoint_every: int | None = None, restore: bool = False,
          round: int | None = None, accept_torn: bool = False, index: int | None = None, servers: int | None = None,
          rack: str | None = None, timeout: float | None = None, silence: float | None = None,
          return_within: float | None = None) -> Server:
    """Begins to serve, and returns at once. The first worker that connects describes the tensors.

    listen: "host:port" or ":port" (all addresses); port 0: any free port (Server.address). join: "host:port" of the first
    server; None: this is the first one. servers: for the first one: the number of servers, including itself (1). secret:
    HOCKET_SECRET. checkpoints: the folder for this server's checkpoint; it must exist. checkpoint_every: rounds between
    two of them (10). restore: continues from a checkpoint in the folder; index: the server's, if the folder has those
    of several servers; round: goes back to the checkpoint of all rounds below it; accept_torn: new workers continue
    from it even if servers, or chunks, have different rounds. rack: shared with the workers near it (this host).
    timeout: seconds to wait for the first server (HOCKET_TIMEOUT_MS; 60). silence: seconds after which a worker is
    suspected (2). return_within: seconds after which a worker that does not answer is taken out of the job (10).
    Errors: InvalidArgumentError, BootstrapError (the address), NotFoundError (there is no checkpoint to restore),
    IOError of hocket (the checkpoint, or its folder), OutOfMemoryError."""
    options = ffi.new("hkt_params_server_options*")
    lib.init_hkt_params_server_options(options)
    seconds = {"timeout_ms": ("timeout", timeout), "silence_ms": ("silence", silence), "return_ms": ("return_within", return_within)}
    kept = opts.fill(options, {
        "listen": listen, "join": join, "secret": secret, "checkpoints": checkpoints, "checkpoint_every": checkpoint_every,
        "restore": int(restore), "round": round, "accept_torn": int(accept_torn), "index": index, "servers": servers, "rack": rack,
        **{field: None if value is None else opts.milliseconds(value, name) for field, (name, value) in seconds.items()}})

    def begin() -> Server:
        made = ffi.new("hkt_params_server**")
        status = lib.hkt_params_server_start(options, made)
        if status < 0:
            raise_last(status)
        return server_of(made[0])

    server = interruptible(begin)
    del kept
    return server


def server_of(handle: Any) -> Server:
    return Server(ServiceHandle("server", handle, lib.hkt_params_server_stop, Ending(), None))


def status(address: str, *, secret: str | None = None, timeout: float | None = None) -> dict[str, Any]:
    """Asks the server at "host:port", and returns its state: "server", "at", "clock" (the rounds that all of its weights
    have), "workers" and more; before the job has begun also "waits_for", in words. hkt_params_status in hocket.h has
    all of it. secret: HOCKET_SECRET. timeout: seconds (HOCKET_TIMEOUT_MS; 60). Errors: InvalidArgumentError,
    BootstrapError (no server at the address, or a different secret), MismatchError, TimeoutError, PeerLostError."""
    limit = 0 if timeout is None else opts.milliseconds(timeout)

    def ask() -> dict[str, Any]:
        found = ffi.new("const char**")
        status = lib.hkt_params_status(opts.text(address), NULL if secret is None else opts.text(secret), limit, found)
        if status < 0:
            raise_last(status)
        return json.loads(text_of(found[0]))

    return interruptible(ask)
