"""The agent's side of the shims: a process to fork them from, and some that wait for a job."""

import collections
import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import joblane
from ec2_agent.sandbox import Sandbox, SandboxRefused, wire

SPARE = 2
"""Shims that wait for a job, so that no start waits for a fork."""

READY_S = 10.0
"""How long a fork may take, on a host that is very busy."""

TRIES = 2 * SPARE + 1
"""All that wait may have died with the process that made them."""

# As the launcher process: what the packages' own __init__ would load is not needed there.
_BOOT = """\
import os, sys, types
for name, place in zip(("ec2_agent", "ec2_agent.sandbox", "joblane"), sys.argv[2:]):
    package = types.ModuleType(name)
    package.__path__ = [place]
    sys.modules[name] = package
os.dup2(int(sys.argv[1]), 3, inheritable=False)
from ec2_agent.shim import zygote
zygote.main()
"""


class _ForkerGone(OSError):
    """The process that shims are forked from is gone."""


class Shims:
    """Hands out shims; every method may be called from any thread."""

    def __init__(self, cgroup: Path | None = None) -> None:
        """Start the process that they are forked from; `cgroup` is where they live, if not here."""
        self._cgroup = cgroup
        self._lock = threading.Lock()
        self._spare: collections.deque[socket.socket] = collections.deque()
        self._start()
        self._refill()

    @property
    def pid(self) -> int:
        """The process that shims are forked from."""
        return self._process.pid

    def take(self) -> socket.socket:
        """Give the connection to a shim without a job.

        Raises SandboxRefused, and OSError when this process has no descriptors left.
        """
        with self._lock:
            for _ in range(TRIES):
                try:
                    self._refill()
                except _ForkerGone:  # by a mistake or an operator: have another
                    self._drop()
                    self._start()
                    continue
                shim = self._spare.popleft()
                if _is_ready(shim):
                    with contextlib.suppress(OSError):
                        self._refill()
                    return shim
                shim.close()
        raise SandboxRefused("no shim could be started; the agent's standard error may say why")

    def close(self) -> None:
        """End what waits for a job; shims that have one stay."""
        with self._lock:
            self._drop()

    def _start(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        agent = Path(__file__).parent.parent
        places = [str(agent), str(agent / "sandbox"), str(Path(joblane.__file__).parent)]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BOOT, str(theirs.fileno()), *places],
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )
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
                    raise _ForkerGone(str(gone)) from gone
            self._spare.append(ours)

    def _drop(self) -> None:
        for shim in self._spare:
            shim.close()
        self._spare.clear()
        self._control.close()
        self._process.wait()


def _is_ready(shim: socket.socket) -> bool:
    """Wait until a shim says that it is there; False if it is gone, or does not get so far."""
    poll = select.poll()
    poll.register(shim, select.POLLIN)
    return bool(poll.poll(READY_S * 1000)) and wire.receive_answer(shim) == wire.READY


def entrust(
    shim: socket.socket,
    folder: int,
    sandbox: Sandbox,
    fds: tuple[int, int, int, int],
    order: dict[str, Any],
) -> None:
    """Give a started sandbox to a shim, which holds it alone from here on.

    `fds` are our ends of stdout, stderr and the line, and the launcher's lock: while the shim
    lives nobody removes the job's cgroup. The caller closes its copies. Raises OSError when the
    shim is gone; the sandbox is still ours then.
    """
    slot, pidfd = sandbox.holdings
    leaf = None if sandbox.leaf is None else str(sandbox.leaf)
    body = json.dumps({"leaf": leaf, "past": sandbox.past, **order}).encode()
    given = [folder, slot, pidfd, *fds]
    socket.send_fds(shim, [body], given, socket.MSG_NOSIGNAL)
    sandbox.surrender()


def connect(folder: int, pid: int) -> socket.socket:
    """Connect to the shim of a job's directory; raises OSError unless it is that process."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        sock.connect(f"/proc/self/fd/{folder}/sock")
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        peer = int.from_bytes(raw[:4], sys.byteorder), int.from_bytes(raw[4:8], sys.byteorder)
        if peer != (pid, os.geteuid()):
            raise PermissionError(f"process {peer[0]} of user {peer[1]} answers for shim {pid}")
    except OSError:
        sock.close()
        raise
    return sock
