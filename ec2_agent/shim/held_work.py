"""The work directory of a job that has output files, held after its end until they are uploaded.

The descriptor pins the directory's mount, so its files outlive the sandbox, and an agent that is
killed. They are gone with the last descriptor: nothing is left to be swept.
"""

import contextlib
import json
import os
import socket
import time

from ec2_agent.sandbox import wire
from ec2_agent.shim import files

WITHOUT_AGENT_S = 3600.0
"""How long it is held while no agent is connected. The lease of one that does not come back ends
within minutes, and other agents run the job again."""

CHECK_S = 1.0
"""Seconds between two looks at whether it is still needed."""


class HeldWork:
    """The descriptor of a work directory; without one nothing is held."""

    def __init__(self, fd: int | None) -> None:
        """Take over a descriptor."""
        self._fd = fd
        self._alone_since: float | None = None

    def send(self, agent: socket.socket) -> None:
        """Send an agent a copy; a message without one if it is not held."""
        fds = () if self._fd is None else (self._fd,)
        with contextlib.suppress(OSError):  # the agent asks again after it has connected again
            wire.send_raw(agent, json.dumps({"is": "work"}).encode(), fds)

    def release(self) -> None:
        """Close it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def is_needed(self, *, has_agent: bool) -> bool:
        """Whether it is still held; released once its job's directory is gone, or nobody comes."""
        now = time.monotonic()
        if has_agent:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
        alone_s = 0.0 if self._alone_since is None else now - self._alone_since
        # The shim's current directory is that of the job.
        if alone_s > WITHOUT_AGENT_S or not os.path.lexists(files.SPEC):
            self.release()
        return self._fd is not None
