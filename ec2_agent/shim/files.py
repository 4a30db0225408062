"""The files of a job directory, `jobs/JOB_ID.EPOCH/` in the agent's state directory.

    file     content                                           written by
    spec     the message that named the job                    agent, before the start
    shim     the shim's identity: pid, start time, boot        shim, when it takes the job
    log      the output, in records (`log.py`)                 shim, while the job runs
    stored   number of the last record that AWS has            agent
    result   the job's result as JSON, if it is large          shim, once, before `exit`
    exit     the exit record: how the job ended                shim, once
    sock     socket on which the shim accepts the agent        shim, while it runs

Every file but `log` is replaced by a rename, so each exists complete or not at all.
"""

import contextlib
import json
import os

TYPE_CHECKING = False  # see sandbox/wire.py
if TYPE_CHECKING:
    from typing import Any

SPEC, SHIM, LOG, STORED, EXIT, SOCKET = "spec", "shim", "log", "stored", "exit", "sock"
RESULT = "result"

_REPLACED = (SPEC, SHIM, STORED, EXIT, RESULT)
ALL = (LOG, SOCKET, *_REPLACED, *(name + ".new" for name in _REPLACED))
"""Every name that may exist in the directory."""

_JSON = json.JSONEncoder(separators=(",", ":"))


def write(directory: int, name: str, value: "dict[str, Any]", *, durable: bool = False) -> None:
    """Replace a file of a job directory by JSON; as `write_bytes`."""
    write_bytes(directory, name, _JSON.encode(value).encode(), durable=durable)


def write_bytes(directory: int, name: str, data: bytes, *, durable: bool = False) -> None:
    """Replace a file of a job directory; raises OSError, and the old file stays.

    `durable`: written to disk before this returns, so that it survives a power failure.
    """
    aside = name + ".new"
    fd = os.open(
        aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600, dir_fd=directory
    )
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(aside, dir_fd=directory)
        raise
    os.rename(aside, name, src_dir_fd=directory, dst_dir_fd=directory)
    if durable:
        os.fsync(directory)


def read(directory: int, name: str) -> "dict[str, Any] | None":
    """Read a file of a job directory; None if it does not exist or is not complete."""
    data = read_bytes(directory, name)
    try:
        value = None if data is None else json.loads(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def read_bytes(directory: int, name: str) -> bytes | None:
    """Read a file of a job directory as it is; None if it does not exist."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        return file.read()
