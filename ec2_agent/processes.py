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

TYPE_CHECKING = False  # see sandbox/wire.py
if TYPE_CHECKING:
    from typing import Any

_PEER = struct.Struct("3i")  # pid, uid, gid: man 7 unix, SO_PEERCRED


def boottime() -> float:
    """Seconds since the host's boot: never set, and counted while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Id of the host's current boot."""
    return read_proc("/proc/sys/kernel/random/boot_id").decode("ascii").strip()


def read_proc(path: str) -> bytes:
    """Read a short file of /proc. Raises OSError.

    The kernel answers one read with all of it. A shim reads two for each job, and `Path` would take
    seven system calls and 25 us for each.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since the boot; None if it does not run."""
    try:
        fields = read_proc(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
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


def pid_of(pidfd: int) -> int:
    """Return the pid of a process that has not been reaped."""
    info = read_proc(f"/proc/self/fdinfo/{pidfd}")
    return int(info.partition(b"\nPid:")[2].split(None, 1)[0])


def identity(pid: int, boot: str | None = None) -> "dict[str, Any]":
    """Identify a process by pid, start time and boot, as JSON; a reused pid has another one.

    `boot` is what `boot_id` returned before, to save the look.
    """
    return {"pid": pid, "started": start_ticks(pid), "boot": boot or boot_id()}


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
