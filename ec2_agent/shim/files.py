"""What lies on disk of a running job: `jobs/JOB_ID.EPOCH/` in the agent's state directory.

    spec     which message it came with                       agent, before the start
    shim     who keeps it: pid, start time, boot               shim, when it takes the job
    log      its output, record by record (`log.py`)           shim, as it comes
    shipped  the last record that CloudWatch has               agent
    exit     how it ended                                      shim, once
    sock     where an agent reaches the shim                   shim, while it lives

Every file but `log` is replaced as a whole, by a rename, so each is there in full or not at all.
"""

import contextlib
import json
import os

TYPE_CHECKING = False  # see sandbox/wire.py
if TYPE_CHECKING:
    from typing import Any

SPEC, SHIM, LOG, SHIPPED, EXIT, SOCKET = "spec", "shim", "log", "shipped", "exit", "sock"

_REPLACED = (SPEC, SHIM, SHIPPED, EXIT)
ALL = (LOG, SOCKET, *_REPLACED, *(name + ".new" for name in _REPLACED))
"""Every name that may be there."""


def write(folder: int, name: str, value: "dict[str, Any]", *, durable: bool = False) -> None:
    """Write a file of a job's directory at once; raises OSError, and leaves what was there.

    `durable`: it outlives the host's power.
    """
    aside = name + ".new"
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(json.dumps(value, separators=(",", ":")).encode())
            file.flush()
            if durable:
                os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(aside, dir_fd=folder)
        raise
    os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
    if durable:
        os.fsync(folder)


def read(folder: int, name: str) -> "dict[str, Any] | None":
    """Read a file of a job's directory; None if it is not there, or not whole."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        try:
            value = json.loads(file.read())
        except ValueError:
            return None
    return value if isinstance(value, dict) else None


def boot_id() -> str:
    """Name this boot of the host; no process of another one lives."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def started(pid: int) -> int | None:
    """When a process started, in clock ticks since the boot; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b") ")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def identity(pid: int) -> "dict[str, Any]":
    """Name a process so that no later one of the same number is taken for it."""
    return {"pid": pid, "started": started(pid), "boot": boot_id()}


def lives(who: "dict[str, Any]") -> bool:
    """Whether the process of that identity is still there."""
    return (
        who["boot"] == boot_id()
        and who["started"] is not None
        and started(who["pid"]) == who["started"]
    )
