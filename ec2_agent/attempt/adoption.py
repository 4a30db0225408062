"""Adoption: a starting agent goes on with the jobs that its earlier process started.

Each job runs under a shim, which its directory names. The claim stays valid: this agent has the
same name, and its lease goes on.

    earlier process                shim                     this process
    starts a job                   runs it
    last heartbeat at 0            may run it up to 240
    (killed)                       runs it
                                                            finds it, lists it
                                                            heartbeat at 20
                                   up to 260         <---   renews

If no agent comes, the shim kills the job at 240, a minute before others may take it over.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ec2_agent.attempt.shipping import OutputShipper
from ec2_agent.calls import AWS_ERRORS, in_thread
from ec2_agent.jobs.directory import JobDirectory
from ec2_agent.jobs.reconnect import ENDING_S, discard, reconnect
from ec2_agent.jobs.running import RunningJob
from ec2_agent.jobs.shim_connection import ShimConnection
from ec2_agent.logging import events
from ec2_agent.messages.delivery import Delivery, decode_delivery, message_of
from ec2_agent.presence.lease import Lease
from ec2_agent.presence.roster import Roster
from ec2_agent.retry import Backoff, RetryPolicy, retry
from ec2_agent.shim import files
from joblane.aws.job.jobs import JobStore
from joblane.aws.job.output_store import OutputStore
from joblane.job.head import Head
from joblane.job.message import Message
from joblane.job.output import stream_name
from joblane.state.lifecycle import State
from joblane.state.trace import job_trace

RETRY = RetryPolicy(first_s=1.0, longest_s=5.0)
"""For reading a job that was found."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundJob:
    """A job of an earlier process; whether it is still this agent's is to be checked."""

    job_id: str
    epoch: int
    delivery: Delivery
    job: RunningJob
    runs: bool
    """Whether it ran when it was found."""

    def kill(self) -> None:
        """Kill the job."""
        self.job.shim.kill()

    def renew(self, until: float) -> None:
        """Let the job run up to a moment of CLOCK_BOOTTIME."""
        self.job.shim.renew(until)

    @property
    def trace_id(self) -> str:
        """The job's trace-id."""
        message = message_of(self.delivery)
        return job_trace(self.job_id, message.caller_trace if message else None).trace_id


class Adoption:
    """Finds the jobs of an earlier process, and checks whether they are still this agent's."""

    def __init__(self, jobs: Path, store: JobStore, roster: Roster) -> None:
        self._jobs = jobs
        self._store = store
        self._roster = roster

    def find(self) -> list[FoundJob]:
        """Read every job directory, connect to the shims, and list the jobs as this agent's.

        Raises ShimUnreachable.
        """
        all_found = []
        for directory in JobDirectory.all(self._jobs):
            spec = directory.read(files.SPEC)
            if spec is None:
                discard(directory)  # its agent was killed while making it, or the disk lost it
                continue
            shim = reconnect(directory)
            job_id, epoch = spec["job_id"], spec["epoch"]
            # A shim with an exit record holds output files.
            runs = shim is not None and directory.read(files.EXIT) is None
            job = RunningJob(directory, ShimConnection(shim))
            found = FoundJob(job_id, epoch, decode_delivery(spec), job, runs)
            self._roster.found.append(found)
            all_found.append(found)
            events.job_found(found, epoch, "runs" if runs else "has ended")
        return all_found

    async def check(self, found: FoundJob, agent: str, lease: Lease) -> Head | None:
        """Read the job; None if it is no longer this agent's to run and to report."""
        try:
            head = await retry(
                lambda: in_thread(lambda: self._store.get(found.job_id), "adopt"),
                Backoff(RETRY),
                proceed=lambda: lease.held,
                event=partial(events.not_adopted_yet, found),
            )
        except AWS_ERRORS:
            return None
        ours = (State.ACTIVE, found.epoch, agent)
        if head is None or not lease.held or (head.state, head.epoch, head.agent) != ours:
            return None
        return head

    async def end(self, found: FoundJob, output: OutputStore) -> None:
        """End a job that another agent owns, or whose outcome was recorded already.

        Output of one whose outcome was recorded may still have to be shipped.
        """
        job = found.job
        job.shim.kill()
        ending = await job.end()
        if not found.runs and ending is not None and not ending.lease_lost:
            tenant = Message.decode(found.delivery.received.body).tenant
            stream = stream_name(tenant, found.job_id, found.epoch)
            await OutputShipper(job, output, stream, found).finish(None)
        elif found.runs:
            events.stranger_killed(found)
        job.remove()
        await job.let_shim_end(ENDING_S)
