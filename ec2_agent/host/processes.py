"""Process identities that survive reuse of a pid, and the boot clock.

Imports only the standard library: shims import it.
"""

import contextlib
import os
import select
import signal
import socket
import struct
import time
from pathlib import Path

TYPE_CHECKING = False  # see sandbox/wire.py
if TYPE_CHECKING:
    from typing import Any

_PEER = struct.Struct("3i")  # pid, uid, gid: man 7 unix, SO_PEERCRED


def boottime() -> float:
    """Seconds since the host's boot: never set, and counted while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Id of the host's current boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since the boot; None if it does not run."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Process and user id at the other end of a Unix socket, from the kernel."""
    answer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    pid, uid, _ = _PEER.unpack(answer)
    return pid, uid


def is_ours(connection: socket.socket) -> bool:
    """Whether the other end is a process of the same user as this one."""
    return peer_of(connection)[1] == os.geteuid()


def identity(pid: int) -> "dict[str, Any]":
    """Identify a process by pid, start time and boot, as JSON; a reused pid has another one."""
    return {"pid": pid, "started": start_ticks(pid), "boot": boot_id()}


def is_running(process: "dict[str, Any]") -> bool:
    """Whether the process of an identity still runs."""
    return (
        process["boot"] == boot_id()
        and process["started"] is not None
        and start_ticks(process["pid"]) == process["started"]
    )


def kill_process(process: "dict[str, Any]") -> None:
    """Kill the process of an identity, and wait until it has ended. Raises OSError."""
    try:
        pidfd = os.pidfd_open(process["pid"])
    except ProcessLookupError:
        return
    try:
        if is_running(process):  # checked with the pidfd open, so the pid cannot be reused now
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself meanwhile
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            poll.poll()
    finally:
        os.close(pidfd)
