"""A job in the list of a condition that it waits for."""

from collections.abc import Sequence
from dataclasses import dataclass

from joblane.deployment.names import Lane
from joblane.job.disk import OUTPUT_MB
from joblane.job.head import Head
from joblane.job.spec import DEFAULT_MEMORY_MB
from joblane.state.lifecycle import State
from joblane.state.timeline import BLOCK_SERIES, Step
from joblane.state.trace import TraceContext, job_trace


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job in a condition's list: all that its return to its lane takes."""

    job_id: str
    tenant: str
    queue: str
    lane: Lane
    first_ms: int
    """When it blocked first, without another end of an attempt since: the policy's time limit
    counts from here, so a job that blocks again and again does not wait for ever."""
    blocked_ms: int
    """When it blocked this time."""
    memory_mb: int = DEFAULT_MEMORY_MB
    """Memory that it asks for."""
    disk_mb: int = OUTPUT_MB
    """What it puts on the disk (`Head.disk_mb`)."""
    work_mb: int = 0
    """How much of that is its work directory."""
    caller_trace: TraceContext | None = None
    """Trace context that it was submitted with."""
    assigned: str | None = None
    """Name of the only agent that may run it; None for most."""

    @property
    def trace_id(self) -> str:
        """Its trace-id."""
        return job_trace(self.job_id, self.caller_trace).trace_id

    @property
    def again(self) -> bool:
        """Whether it was resubmitted before, and blocked again."""
        return self.blocked_ms > self.first_ms


def waiting_job(head: Head) -> WaitingJob:
    """The list entry of a blocked job, as `JobStore.block` returned it."""
    blocked_ms = head.timeline[-1].at_ms
    return WaitingJob(
        job_id=head.job_id,
        tenant=head.tenant,
        queue=head.queue,
        lane=head.lane,
        first_ms=_first_blocked(head.timeline, blocked_ms),
        blocked_ms=blocked_ms,
        memory_mb=head.spec.resources.memory,
        disk_mb=head.disk_mb,
        work_mb=head.work_mb,
        caller_trace=head.caller_trace,
        assigned=head.assigned,
    )


def _first_blocked(timeline: Sequence[Step], blocked_ms: int) -> int:
    """When the series of blocks began that no other end of an attempt interrupts."""
    first = blocked_ms
    for step in reversed(timeline):
        if step.state not in BLOCK_SERIES:
            break
        if step.state is State.BLOCKED:
            first = step.began_ms
    return first
