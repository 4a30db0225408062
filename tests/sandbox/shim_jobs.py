"""Jobs under shims without a cloud: what the tests of shims start and wait for."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from ec2_agent.host.capacity import HostCapacity, JobCounts
from ec2_agent.jobs.context import TypedContext
from ec2_agent.jobs.directory import JobDirectory
from ec2_agent.jobs.running import RunningJob
from ec2_agent.jobs.shim_connection import ShimConnection
from ec2_agent.jobs.start import JobStarter
from ec2_agent.messages.delivery import Delivery
from ec2_agent.processes import boottime, kill_process
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import Ending, SandboxLimits, Spec
from ec2_agent.shim import files
from ec2_agent.shim.pool import Shims
from joblane.aws.queue.lanes import Received
from joblane.deployment.limits import Limits as TenantLimits
from joblane.job.head import Head, make_head
from tests.sandbox.running import strongest
from tests.support.jobs import JOB, submission

HEAD = make_head(JOB, "acme", submission(), 0)


def job_starter(
    launcher: Launcher, shims: Shims, jobs: Path, lease_s: float = 3600, *, reuse: bool = False
) -> JobStarter:
    """What an agent starts its jobs with, under a lease that lasts so long."""
    none = JobCounts(taken=0, started=0)
    capacity = HostCapacity(jobs, 4, lambda: 1000, lambda: none, time.monotonic, lambda: None)
    return JobStarter(
        launcher,
        shims,
        jobs,
        lambda: boottime() + lease_s,
        capacity=capacity,
        limits=TenantLimits(),
        reuse_shims=reuse,
    )


class Room:
    """A launcher, shims, and a directory for jobs."""

    def __init__(self, jobs: Path, *, reuse: bool = False, slots: int = 0) -> None:
        """`reuse`: whether a shim may have another job once the end of its job is recorded."""
        self.jobs = jobs
        self.reuse = reuse
        self.launcher = Launcher(isolation=strongest(), slots=slots)
        self.shims = Shims()
        self.epoch = 0
        self._open: list[tuple[Any, Any]] = []

    def close(self) -> None:
        """End what a test has left, also one that failed: shims, their jobs, and connections."""
        for shim, sandbox in self._open:
            shim.close()
            sandbox.release(killed=False)
        for directory in JobDirectory.all(self.jobs):
            if (shim := directory.read(files.SHIM)) is not None:
                kill_process(shim)
            directory.close()
        self.shims.close()
        self.launcher.close()

    def start(
        self,
        script: str,
        until_s: float = 3600,
        head: Head = HEAD,
        typed: TypedContext | None = None,
        **changes: Any,
    ) -> tuple[JobDirectory, Any, Any]:
        """Start a shell script that may run for so long without a word from us."""
        self.epoch += 1
        directory = make_directory(self.jobs, self.epoch)
        starter = job_starter(self.launcher, self.shims, self.jobs, until_s, reuse=self.reuse)
        fields = {
            "argv": ("/bin/sh", "-c", script),
            "env": {},
            "limits": SandboxLimits(),
            **changes,
        }
        spec = Spec(**fields)
        shim, sandbox = starter.start_in(directory, head, spec, typed=typed)
        self._open.append((shim, sandbox))
        return directory, shim, sandbox


def records(directory: JobDirectory) -> list[tuple[int, str, bytes]]:
    """What a job has written: number, stream and bytes of each record."""
    reader, found = directory.reader(), []
    while reader.unread:
        seq, stream, _, data = reader.read()
        found.append((seq, stream, data))
    return found


def output(directory: JobDirectory) -> bytes:
    """All that a job has written."""
    return b"".join(data for *_, data in records(directory))


def make_directory(jobs: Path, epoch: int) -> JobDirectory:
    """The directory of a claim."""
    delivery = Delivery("q", "lane", "dead", Received("{}", "r", 1, 2), 3.0)
    return JobDirectory.make(jobs, replace(HEAD, epoch=epoch), delivery)


def wait_end(directory: JobDirectory, shim: Any, sandbox: Any) -> Ending:
    """Wait for a job's end as an agent does."""
    end = wait_end_or_loss(directory, shim, sandbox)
    assert end is not None
    return end


def wait_end_or_loss(directory: JobDirectory, shim: Any, sandbox: Any) -> Ending | None:
    """As `wait_end`; None if the shim has ended without a record."""

    async def wait() -> Ending | None:
        link = ShimConnection(shim)
        end = await asyncio.wait_for(RunningJob(directory, link, sandbox).end(), 60)
        await asyncio.wait_for(link.gone, 60)
        return end

    return asyncio.run(wait())


def wait_for(done: Any) -> None:
    """Wait for something to become true; pytest's time limit ends what never does."""
    while not done():
        time.sleep(0.01)
