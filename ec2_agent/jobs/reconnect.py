"""Connecting to the shims of jobs that an earlier process of this agent started."""

import socket
import time
from typing import Any

from ec2_agent.jobs.directory import JobDirectory
from ec2_agent.processes import is_running, kill_process
from ec2_agent.shim import files
from ec2_agent.shim.pool import connect

ENDING_S = 5.0
"""How long to wait until a shim that refuses connections has let its job go."""

LOOK_EVERY_S = 0.02
"""Pause before a directory is looked at again."""


class ShimUnreachable(Exception):
    """A shim runs and cannot be reached; the text says which. Its job ends with its lease."""


def reconnect(directory: JobDirectory) -> socket.socket | None:
    """Connect to the shim of a job directory; None if it has let the job go, or has ended.

    The directory's lock decides, not the process: a shim that has let go may have another job.
    Raises ShimUnreachable.
    """
    shim = _shim_identity(directory)
    if shim is None or not is_running(shim) or not directory.locked:
        return None
    try:
        return connect(directory.fd, shim["pid"])
    except OSError as refused:
        # A shim listens until it lets the job go: this one is about to.
        if not _stays_locked(directory, ENDING_S):
            return None
        raise ShimUnreachable(
            f"{directory.path}: its shim, process {shim['pid']}, does not answer: {refused}"
        ) from None


def discard(directory: JobDirectory) -> None:
    """Remove a directory without a readable `spec`, and kill the job in it.

    Raises ShimUnreachable and OSError.
    """
    shim = _shim_identity(directory)
    if shim is not None:
        kill_process(shim["init"])
    directory.remove()


def _shim_identity(directory: JobDirectory) -> dict[str, Any] | None:
    """Read the file `shim`, which a shim writes when it takes a job; None if there is no shim.

    agent                   shim                    the next agent
    passes it the job
    (killed)
                                                    finds no file `shim`: waits
                            takes the job
                            writes `shim`           finds it
    """
    ends = time.monotonic() + ENDING_S
    while (shim := directory.read(files.SHIM)) is None and directory.locked:
        if time.monotonic() > ends:
            raise ShimUnreachable(
                f"{directory.path}: its shim runs and has not written its identity"
            )
        time.sleep(LOOK_EVERY_S)
    return shim


def _stays_locked(directory: JobDirectory, seconds: float) -> bool:
    """Whether a directory is still locked after `seconds`; returns at once when it is not."""
    ends = time.monotonic() + seconds
    while directory.locked:
        if time.monotonic() > ends:
            return True
        time.sleep(LOOK_EVERY_S)
    return False
