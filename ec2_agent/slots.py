"""The agent's slots: which are taken, which jobs run in them, and how many are free by queue."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from ec2_agent.attempt.adoption import Adoption
from ec2_agent.host.capacity import Capacity, JobCounts
from ec2_agent.lanes.claiming import Claimer
from ec2_agent.lanes.memory import Memory
from ec2_agent.lanes.queue_limits import QueueLimits
from ec2_agent.logging import events
from ec2_agent.outcomes.journal import Journal
from ec2_agent.outcomes.judge import StopReason
from ec2_agent.presence.lease import Lease
from ec2_agent.presence.standing import Standing
from ec2_agent.state.supervisor import StateSupervisor
from joblane.job.head import Head
from joblane.job.lease import JobProgress, Progress


class RunningAttempt(Protocol):
    """What slots need of an attempt: see Attempt."""

    @property
    def head(self) -> Head:
        """The job."""

    @property
    def started(self) -> bool:
        """Whether the job has what a start needs."""

    @property
    def progress(self) -> Progress | None:
        """What the job reported last."""

    def request_stop(self, reason: StopReason) -> None:
        """Stop the job."""

    def follow(self) -> None:
        """Ship output as it comes: somebody reads it."""

    def abandon(self) -> None:
        """Kill the job and report nothing."""

    def renew(self, until: float) -> None:
        """Let the job run until then."""


class Slots:
    """Counts taken slots by queue, and knows every job that is this agent's."""

    def __init__(
        self,
        claimer: Claimer,
        journal: Journal,
        adoption: Adoption,
        changed: asyncio.Event,
        memory: Memory,
    ) -> None:
        """`changed` is set when a slot becomes free."""
        self.memory = memory
        self._claimer = claimer
        self._journal = journal
        self._adoption = adoption
        self._changed = changed
        self._taken: Counter[str] = Counter()
        self.begun = 0
        """Slots taken so far, those of jobs that have ended as well."""
        self.attempts: list[RunningAttempt] = []
        """Attempts that run now, the oldest first."""

    def take(self, queue: str, memory_mb: int) -> None:
        """Take a slot for a message of a queue, and the memory that its job asks for."""
        self._taken[queue] += 1
        self.begun += 1
        self.memory.take(memory_mb)

    def release(self, queue: str, memory_mb: int) -> None:
        """Free a slot of a queue, and the memory."""
        self._taken[queue] -= 1
        self.memory.release(memory_mb)
        self._changed.set()

    def taken(self, queue: str) -> int:
        """Slots that jobs of a queue take."""
        return self._taken[queue]

    def taken_by_queue(self) -> dict[str, int]:
        """Slots in use, for its heartbeat (`Heartbeat.taken`): no queue that uses none."""
        return {queue: count for queue, count in self._taken.items() if count > 0}

    def counts(self) -> JobCounts:
        """Count the slots taken, and the jobs in them that have been started."""
        return JobCounts(self._taken.total(), sum(a.started for a in self.attempts))

    @contextmanager
    def running(self, attempt: RunningAttempt) -> Iterator[None]:
        """List an attempt while it runs."""
        self.attempts.append(attempt)
        try:
            yield
        finally:
            if attempt in self.attempts:
                self.attempts.remove(attempt)

    def job_ids(self) -> list[str]:
        """Ids of this agent's jobs, for its heartbeat.

        A job that is active here and in no heartbeat is taken over by the next agent that gets
        its message (`Heartbeat.holds`), so a job is listed from before its claim until its report.
        """
        return [
            *self._claimer.claiming,
            *(attempt.head.job_id for attempt in self.attempts),
            *self._journal.job_ids,
            *(found.job_id for found in self._adoption.found),
        ]

    def tenants(self) -> dict[str, str]:
        """Tenant of each attempt's job, for the heartbeat (`Heartbeat.tenants`)."""
        heads = [attempt.head for attempt in self.attempts]
        return {head.job_id: head.tenant if head.member_of is None else "" for head in heads}

    def progress(self) -> list[JobProgress]:
        """What the running jobs reported last, for its heartbeat."""
        return [
            JobProgress(attempt.head.job_id, attempt.head.epoch, said)
            for attempt in self.attempts
            if (said := attempt.progress) is not None
        ]

    def abandon_all(self) -> None:
        """Kill every job and report nothing: the lease is lost."""
        if self.attempts:
            events.lease_lost(len(self.attempts))
        for attempt in self.attempts:
            attempt.abandon()
        for found in self._adoption.found:
            found.job.shim.kill()

    def renew_all(self, until: float) -> None:
        """Let every job run until then, in seconds of the boot clock."""
        for attempt in self.attempts:
            attempt.renew(until)
        for found in self._adoption.found:
            found.job.shim.renew(until)


def jobs_left(capacity: Capacity, memory: Memory) -> int:
    """How many more jobs the host can take, of all queues (`Heartbeat.left`)."""
    return max(0, min(capacity.left, memory.jobs))


@dataclass
class FreeSlots:
    """Decides how many more jobs of each queue the agent takes."""

    queues: Iterable[str]
    """Names of the queues that the agent serves."""
    slots: Slots
    capacity: Capacity
    limits: QueueLimits
    lease: Lease
    supervisor: StateSupervisor
    standing: Standing
    closed: bool = False
    """Set for good when the agent can start no more jobs."""

    def by_queue(self) -> Mapping[str, int]:
        """Free slots by queue for jobs of lanes; 0 or less: none."""
        return self._by_queue(closed=self.standing.closed)

    def for_targets(self) -> Mapping[str, int]:
        """Free slots by queue for jobs that this agent alone may run."""
        return self._by_queue(closed=self.standing.closed_to_targets)

    def may_receive_ahead(self, queue: str) -> bool:
        """Whether jobs of a queue will be taken when slots become free."""
        return self.able and not self.standing.closed and self.limits.of(queue) > 0

    @property
    def able(self) -> bool:
        """Whether jobs can be started at all, whether or not they are taken."""
        return not self.closed and self.lease.held and not self.supervisor.trouble

    def _by_queue(self, *, closed: bool) -> Mapping[str, int]:
        if closed or not self.able:
            return dict.fromkeys(self.queues, 0)
        left = jobs_left(self.capacity, self.slots.memory)
        return {
            name: min(left, self.limits.of(name) - self.slots.taken(name)) for name in self.queues
        }
