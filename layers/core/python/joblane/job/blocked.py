"""A job in the list of a condition that it waits for."""

from collections.abc import Sequence
from dataclasses import dataclass

from joblane.job.head import Head
from joblane.state.lifecycle import State
from joblane.state.timeline import BLOCK_SERIES, Step, waits_since
from joblane.state.trace import TraceContext, job_trace


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job in a condition's list. Its row says where its message goes: it may be edited."""

    job_id: str
    tenant: str
    first_ms: int
    """When it blocked first, without another end of an attempt since: the policy's time limit
    counts from here, so a job that blocks again and again does not wait for ever."""
    blocked_ms: int
    """When it blocked this time."""
    caller_trace: TraceContext | None = None
    """Trace context that it was submitted with."""

    @property
    def trace_id(self) -> str:
        """Its trace-id."""
        return job_trace(self.job_id, self.caller_trace).trace_id

    @property
    def again(self) -> bool:
        """Whether it was resubmitted before, and blocked again."""
        return self.blocked_ms > self.first_ms


def waiting_job(head: Head) -> WaitingJob:
    """The list entry of a blocked job. An edit changes nothing about it."""
    blocked_ms = waits_since(head.timeline).at_ms
    return WaitingJob(
        job_id=head.job_id,
        tenant=head.tenant,
        first_ms=_first_blocked(head.timeline, blocked_ms),
        blocked_ms=blocked_ms,
        caller_trace=head.caller_trace,
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
