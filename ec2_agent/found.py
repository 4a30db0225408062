"""A job's directory that an agent finds at its start, and whoever keeps the job."""

import os
import select
import socket
import time
from typing import Any

from ec2_agent.kept import Folder, end_process
from ec2_agent.shim import files
from ec2_agent.shim.pool import connect

ENDING_S = 5.0
"""How long a shim that refuses a connection is waited for: it is about to be gone."""

WRITTEN_S = 0.02
"""Pause before another look at who keeps a job."""


class ShimSilent(Exception):
    """A shim lives and cannot be reached; the text says whose. Its job ends with its lease."""


def reach(folder: Folder) -> socket.socket | None:
    """Connect to the shim of a directory that was found; None if it is gone.

    A shim is known by its number, its start and the host's boot together. Raises ShimSilent.
    """
    who = _keeper(folder)
    if who is None or not files.lives(who):
        return None
    try:
        return connect(folder.fd, who["pid"])
    except OSError as refused:
        # A shim listens as long as it lives: this one is ending, its files closed already.
        _gone_within(who["pid"], ENDING_S)
        if not files.lives(who):
            return None
        raise ShimSilent(f"{folder.path}: its shim {who['pid']} is silent: {refused}") from None


def clear(folder: Folder) -> None:
    """Remove a directory that does not say of which job it is; what runs there is killed.

    Raises ShimSilent, OSError.
    """
    who = _keeper(folder)
    if who is not None:
        end_process(who["init"])
    folder.remove()


def _keeper(folder: Folder) -> dict[str, Any] | None:
    """Read who keeps a job.

    agent                   shim                    the next agent
    gives it the job
    (killed)
                                                    finds no file `shim`: waits
                            takes the job
                            writes `shim`           finds it
    """
    ends = time.monotonic() + ENDING_S
    while (who := folder.read(files.SHIM)) is None and folder.in_hand:
        if time.monotonic() > ends:
            raise ShimSilent(f"{folder.path}: a shim that lives does not say who it is")
        time.sleep(WRITTEN_S)
    return who


def _gone_within(pid: int, seconds: float) -> None:
    """Wait until a process is gone, for so long at most."""
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
