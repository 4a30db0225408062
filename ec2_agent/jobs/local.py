"""Jobs on this host without a deployment: as the agent starts them, under a real shim."""

import itertools
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from ec2_agent.host.capacity import HostCapacity, JobCounts
from ec2_agent.jobs.context import TypedContext
from ec2_agent.jobs.directory import JobDirectory
from ec2_agent.jobs.start import JobStarter
from ec2_agent.messages.delivery import Delivery
from ec2_agent.processes import boottime
from ec2_agent.sandbox.handle import Sandbox
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import Spec
from ec2_agent.shim.pool import Shims
from joblane.aws.queue.lanes import Received
from joblane.deployment.limits import Limits
from joblane.job.head import Head

LEASE_S = 8 * 86_400.0
"""Longer than any timeout: there is no other agent."""


@dataclass(frozen=True, slots=True)
class LocalJobs:
    """Starts jobs that no table knows."""

    launcher: Launcher
    shims: Shims
    jobs: Path
    """A directory for their directories."""
    _epochs: Iterator[int] = field(default_factory=lambda: itertools.count(1), init=False)

    def start(
        self, head: Head, spec: Spec, typed: TypedContext | None = None
    ) -> tuple[JobDirectory, socket.socket, Sandbox]:
        """Start a job, and hand it to a shim. Blocking. Raises SandboxRefused or ShimLost.

        Returns its directory, the connection to its shim, and its sandbox.
        """
        none = JobCounts(taken=0, started=0)
        starter = JobStarter(
            self.launcher,
            self.shims,
            self.jobs,
            lambda: boottime() + LEASE_S,
            capacity=HostCapacity(
                self.jobs, 1, lambda: 1, lambda: none, time.monotonic, lambda: None
            ),
            limits=Limits(),
        )
        delivery = Delivery("local", "", "", Received("{}", "", 1, 0), time.time())
        epoch = replace(head, epoch=next(self._epochs))
        directory = JobDirectory.make(self.jobs, epoch, delivery)
        try:
            shim, sandbox = starter.start_in(directory, head, spec, typed=typed)
        except BaseException:
            directory.remove()
            raise
        return directory, shim, sandbox
