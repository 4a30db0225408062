"""Every job that is this agent's: being claimed, running, found after a restart, or unreported."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from ec2_agent.logging import events
from ec2_agent.presence.usage import RunningProcesses
from joblane.job.head import Head
from joblane.job.judge import StopReason
from joblane.state.lease import AttemptProgress, Progress


class RunningAttempt(Protocol):
    """What the roster needs of an attempt: see Attempt."""

    @property
    def head(self) -> Head:
        """The job."""

    @property
    def started(self) -> bool:
        """Whether the job was started."""

    @property
    def progress(self) -> Progress | None:
        """What the job reported last."""

    @property
    def processes(self) -> RunningProcesses | None:
        """Its processes; None while it has none."""

    def request_stop(self, reason: StopReason) -> None:
        """Stop the job."""

    def follow(self) -> None:
        """Ship output as it comes: somebody reads it."""

    def abandon(self) -> None:
        """Kill the job and report nothing."""

    def renew(self, until: float) -> None:
        """Let the job run until then."""


class Found(Protocol):
    """What the roster needs of a job of an earlier process: see FoundJob."""

    @property
    def job_id(self) -> str:
        """The job."""

    def kill(self) -> None:
        """Kill the job."""

    def renew(self, until: float) -> None:
        """Let the job run until then."""


class Unreported(Protocol):
    """What the roster needs of the journal."""

    @property
    def job_ids(self) -> Sequence[str]:
        """Jobs whose outcomes wait to be reported."""


class Roster:
    """The jobs of one agent.

    A job that is active here and in no heartbeat is taken over by the next agent that gets its
    message (`Heartbeat.holds`), so a job is listed from before its claim until its report.
    """

    def __init__(self, journal: Unreported) -> None:
        self._journal = journal
        self.claiming: list[str] = []
        """Ids of the jobs that are being claimed now, one for each claim."""
        self.attempts: list[RunningAttempt] = []
        """Attempts that run now, the oldest first."""
        self._stop_all: StopReason | None = None
        """Why all attempts are to stop, those that begin later as well."""
        self._to_stop: set[str] = set()
        """Jobs that are to stop once their attempts are listed."""
        self.found: list[Found] = []
        """Jobs of an earlier process, until each is adopted or has been ended."""

    def job_ids(self) -> list[str]:
        """Ids of this agent's jobs, for its heartbeat."""
        return [
            *self.claiming,
            *(attempt.head.job_id for attempt in self.attempts),
            *self._journal.job_ids,
            *(found.job_id for found in self.found),
        ]

    @contextmanager
    def claims(self, job_id: str) -> Iterator[None]:
        """List a job while it is being claimed."""
        if job_id not in self.claiming:
            self._to_stop.discard(job_id)  # of an earlier claim, which was refused
        self.claiming.append(job_id)
        try:
            yield
        finally:
            self.claiming.remove(job_id)

    @contextmanager
    def runs(self, attempt: RunningAttempt) -> Iterator[None]:
        """List an attempt while it runs; one that is to stop by now is told so."""
        self.attempts.append(attempt)
        head = attempt.head
        if head.cancel_requested is not None or head.job_id in self._to_stop:
            attempt.request_stop(StopReason.COMMAND)
        elif self._stop_all is not None:
            attempt.request_stop(self._stop_all)
        try:
            yield
        finally:
            if attempt in self.attempts:
                self.attempts.remove(attempt)

    def stop_all(self, reason: StopReason) -> None:
        """Stop all attempts, and those that begin later: their claims are on their way."""
        self._stop_all = reason
        for attempt in self.attempts:
            attempt.request_stop(reason)

    def stop(self, job_id: str) -> list[RunningAttempt]:
        """Stop a job by a command, also one that is being claimed or adopted. Returns its attempts.

        agent                        table                   a user
        claim  ---------------->     active
                        (its answer is lost, the call is repeated)
                                     cancel requested  <---  cancel
        the command, from the inbox  <---------------------
        claim, repeated  ------->    active: the job as it was claimed
        stops it before its start
        """
        if job_id in self.claiming or any(found.job_id == job_id for found in self.found):
            self._to_stop.add(job_id)
        running = [attempt for attempt in self.attempts if attempt.head.job_id == job_id]
        for attempt in running:
            attempt.request_stop(StopReason.COMMAND)
        return running

    def drop_found(self, found: Found) -> None:
        """List a job of an earlier process no more: it has been adopted or has ended."""
        if found in self.found:
            self.found.remove(found)

    @property
    def started(self) -> int:
        """How many jobs have been started, and run."""
        return sum(attempt.started for attempt in self.attempts)

    def tenants(self) -> dict[str, str]:
        """Tenant of each attempt's job, for the heartbeat (`Heartbeat.tenants`)."""
        heads = [attempt.head for attempt in self.attempts]
        return {head.job_id: head.tenant if head.member_of is None else "" for head in heads}

    def progress(self) -> list[AttemptProgress]:
        """What the running jobs reported last, for the heartbeat."""
        return [
            AttemptProgress(attempt.head.job_id, attempt.head.epoch, said)
            for attempt in self.attempts
            if (said := attempt.progress) is not None
        ]

    def processes(self) -> list[RunningProcesses]:
        """The processes of the running jobs, to read what they use."""
        return [found for attempt in self.attempts if (found := attempt.processes) is not None]

    def abandon_all(self) -> None:
        """Kill every job and report nothing: the lease is lost."""
        if self.attempts:
            events.lease_lost(len(self.attempts))
        for attempt in self.attempts:
            attempt.abandon()
        for found in self.found:
            found.kill()

    def renew_all(self, until: float) -> None:
        """Let every job run until then, in seconds of the boot clock."""
        for attempt in self.attempts:
            attempt.renew(until)
        for found in self.found:
            found.renew(until)
