"""The life of a shim's process: one job after another, and nothing of a job beyond its end."""

import gc
import json
import os
import socket

from ec2_agent.processes import identity
from ec2_agent.sandbox import wire
from ec2_agent.shim.shim import Shim

TYPE_CHECKING = False  # see sandbox/wire.py
if TYPE_CHECKING:
    from typing import Any

JOBS = 100
"""Jobs of one process, one at a time; another is forked after that. A fork costs as much CPU time
as three jobs under a shim that is used again, and its memory is as the zygote's."""


def serve(agent: socket.socket) -> None:
    """Run the shim of one job after another, until the agent has none or one is lost to it."""
    process = identity(os.getpid())
    os.umask(0o177)
    before = _descriptors()
    for _ in range(JOBS):
        if not _serve_one(agent, process):
            return
        # The zygote has switched off collections by themselves, so all that a job leaves is of the
        # first generation. A full collection would also empty the interpreter's free lists.
        gc.collect(1)
        if _descriptors() != before:
            return  # what is left of the job, and should not be, ends with this process


def _serve_one(agent: socket.socket, process: "dict[str, Any]") -> bool:
    """Wait for a job and run its shim until its end; returns whether another may follow.

    What it knows of the job is in this frame, which ends with the job.
    """
    try:
        agent.setblocking(True)
        agent.send(wire.READY, socket.MSG_NOSIGNAL)
    except OSError:
        return False
    body, fds = wire.receive_raw(agent)
    # Without an order, the agent has ended, or needs fewer shims.
    return bool(body) and Shim(agent, json.loads(body.decode()), fds, process).run()


def _descriptors() -> set[str]:
    """The descriptors of this process."""
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - pathlib is slower
