"""Connecting to the shims of jobs that an earlier process of this agent started."""

import os
import select
import socket
import time
from typing import Any

from ec2_agent.host.processes import is_running, kill_process
from ec2_agent.jobs.directory import JobDirectory
from ec2_agent.shim import files
from ec2_agent.shim.pool import connect

ENDING_S = 5.0
"""How long to wait for the end of a shim that refuses connections: it is ending."""

IDENTITY_EVERY_S = 0.02
"""Pause before the file `shim` is looked for again."""


class ShimUnreachable(Exception):
    """A shim runs and cannot be reached; the text says which. Its job ends with its lease."""


def reconnect(directory: JobDirectory) -> socket.socket | None:
    """Connect to the shim of a job directory; None if it has ended. Raises ShimUnreachable."""
    shim = _shim_identity(directory)
    if shim is None or not is_running(shim):
        return None
    try:
        return connect(directory.fd, shim["pid"])
    except OSError as refused:
        # A shim listens as long as it runs: this one is ending and has closed its socket.
        _wait_for_end(shim["pid"], ENDING_S)
        if not is_running(shim):
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
        time.sleep(IDENTITY_EVERY_S)
    return shim


def _wait_for_end(pid: int, seconds: float) -> None:
    """Wait until a process has ended, `seconds` at most."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        poll.poll(int(seconds * 1000))
    finally:
        os.close(pidfd)
