"""Runs the attempts of one agent: each is listed while it runs, and abandoned without a lease."""

from dataclasses import dataclass

from ec2_agent.attempt.adoption import FoundJob
from ec2_agent.attempt.run import Attempt, AttemptParts
from ec2_agent.messages.delivery import Delivery
from ec2_agent.presence.lease import Lease
from ec2_agent.presence.roster import Roster
from joblane.job.head import Head


@dataclass(frozen=True, slots=True)
class AttemptRunner:
    """Runs attempts with the parts of one agent."""

    parts: AttemptParts
    roster: Roster
    lease: Lease

    async def run(self, head: Head, delivery: Delivery) -> None:
        """Run one attempt of a claimed job to its end, and record its outcome."""
        attempt = Attempt(self.parts, head, delivery)
        with self.roster.runs(attempt):
            await self._run(attempt)

    async def adopt(self, head: Head, found: FoundJob) -> None:
        """Follow a job that an earlier process started to its end, and record its outcome."""
        attempt = Attempt(self.parts, head, found.delivery, found.job)
        attempt.renew(self.lease.until)
        with self.roster.runs(attempt):  # listed here before the list of found jobs drops it
            self.roster.drop_found(found)
            await self._run(attempt)

    async def _run(self, attempt: Attempt) -> None:
        if not self.lease.held:
            attempt.abandon()
        await attempt.run()
