"""The agent's pool of shims: the process that forks them, and shims that wait for a job."""

import asyncio
import collections
import contextlib
import json
import os
import select
import socket
import threading
from pathlib import Path
from typing import Any

import joblane
from ec2_agent.processes import peer_of
from ec2_agent.sandbox import wire
from ec2_agent.sandbox.handle import Sandbox
from ec2_agent.sandbox.model import SandboxRefused
from ec2_agent.sandbox.zygote_process import start_zygote

SPARE = 2
"""Shims that wait for a job at least, so that no start waits for a fork."""

SHRINK_S = 10.0
"""Shims above `SPARE` that waited all this time are ended: after a peak of 200 jobs, 200 wait."""

READY_S = 10.0
"""How long a fork may take on a busy host."""

TRIES = SPARE + 1
"""Shims that are forked for one start. Those that wait may all have ended before."""


class _ZygoteGone(OSError):
    """The process that forks shims has ended."""


class Shims:
    """Hands out shims; every method may be called from any thread."""

    def __init__(self, cgroup: Path | None = None) -> None:
        """Start the process that forks them, in `cgroup` if given."""
        self._cgroup = cgroup
        self._lock = threading.Lock()
        """Held while a shim is taken, which may wait for a fork."""
        self._spare: collections.deque[socket.socket] = collections.deque()
        """Changed by single operations only, so that `put_back` waits for nobody."""
        self._fewest = 0
        """Shims that waited at the same time, at least, since the last look of `_shrink`."""
        self._shrinking = False
        """Whether a look of `_shrink` is due."""
        self._start()
        self._refill()

    @property
    def pid(self) -> int:
        """Id of the process that forks shims."""
        return self._process.pid

    def take(self) -> socket.socket:
        """Return the connection to a shim without a job.

        Raises SandboxRefused, and OSError when this process has no descriptors left.
        """
        with self._lock:
            for _ in range(len(self._spare) + TRIES):
                try:
                    self._refill()
                    shim = self._spare.popleft()
                except _ZygoteGone:  # killed from outside: start another
                    self._control.close()
                    self._process.wait()
                    self._start()
                    continue
                except IndexError:  # `_shrink` was quicker
                    continue
                self._fewest = min(self._fewest, len(self._spare))
                if _is_ready(shim):
                    with contextlib.suppress(OSError):
                        self._refill()
                    return shim
                shim.close()
        raise SandboxRefused("no shim could be started: see the agent's standard error")

    def put_back(self, shim: socket.socket) -> None:
        """Take the connection to a shim that is to have another job; from the event loop only."""
        self._spare.append(shim)
        if not self._shrinking and len(self._spare) > SPARE:
            self._shrink_later()

    def close(self) -> None:
        """End the shims without a job; those with a job run on."""
        with self._lock:
            while self._spare:
                self._spare.popleft().close()
            self._control.close()
            self._process.wait()

    def _shrink_later(self) -> None:
        self._shrinking, self._fewest = True, len(self._spare)
        asyncio.get_running_loop().call_later(SHRINK_S, self._shrink)

    def _shrink(self) -> None:
        """End the shims that no start has needed since the last look."""
        self._shrinking = False
        for _ in range(self._fewest - SPARE):
            with contextlib.suppress(IndexError):
                self._spare.popleft().close()
        if len(self._spare) > SPARE:
            self._shrink_later()

    def _start(self) -> None:
        layers = Path(joblane.__file__).parents[1]
        self._control, self._process = start_zygote("ec2_agent.shim", layers)
        if self._cgroup is not None:
            (self._cgroup / "cgroup.procs").write_text(str(self._process.pid))

    def _refill(self) -> None:
        while len(self._spare) < SPARE:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                try:
                    socket.send_fds(
                        self._control, [b"fork"], [theirs.fileno()], socket.MSG_NOSIGNAL
                    )
                except OSError as gone:
                    ours.close()
                    raise _ZygoteGone(str(gone)) from gone
            self._spare.append(ours)


def _is_ready(shim: socket.socket) -> bool:
    """Wait until a shim reports that it is ready; False if it has ended or takes too long.

    Of one that is used again, the last messages about its last job are skipped.
    """
    poll = select.poll()
    poll.register(shim, select.POLLIN)
    message = b"other"
    while message not in (b"", wire.READY) and poll.poll(READY_S * 1000):
        message = wire.receive_answer(shim)
    return message == wire.READY


def hand_over(
    shim: socket.socket,
    directory: int,
    sandbox: Sandbox,
    fds: tuple[int, ...],
    order: dict[str, Any],
) -> None:
    """Pass a started sandbox to a shim, which alone holds it from now on.

    `fds` are the agent's ends of stdout and the line, the launcher's lock (while it is held, no
    launcher removes the job's cgroup), then as `order` says: the agent's end of stderr, the values
    of secrets, for a typed job its params and the lock of its bundle, and the work directory if its
    files are collected. The caller closes its copies. Raises
    OSError if the shim has ended; the caller still holds the sandbox then.
    """
    leaf = None if sandbox.leaf is None else str(sandbox.leaf)
    body = json.dumps({"leaf": leaf, "counters": sandbox.counters, **order}).encode()
    given = [directory, sandbox.fileno(), sandbox.pidfd, *fds]
    socket.send_fds(shim, [body], given, socket.MSG_NOSIGNAL)
    sandbox.detach()


def connect(directory: int, pid: int) -> socket.socket:
    """Connect to the shim of a job directory; raises OSError unless process `pid` answers."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        sock.connect(f"/proc/self/fd/{directory}/sock")
        peer = peer_of(sock)
        if peer != (pid, os.geteuid()):
            raise PermissionError(f"process {peer[0]} of user {peer[1]} answers for shim {pid}")
    except OSError:
        sock.close()
        raise
    return sock
