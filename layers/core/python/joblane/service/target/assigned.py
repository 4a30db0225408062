"""End jobs that only one agent may run, when that agent is silent or lost."""

from contextlib import suppress
from dataclasses import dataclass

from joblane.aws.fleet.agents import AgentStore
from joblane.aws.job.jobs import JobStore
from joblane.job.assigned import Fate, Verdict, judge
from joblane.job.head import Head
from joblane.job.moves import AttemptFacts, NotAllowed
from joblane.service.job.operations import Operations, unless_gone
from joblane.state.lease import Heartbeat
from joblane.state.lifecycle import Event, Outcome, State
from joblane.state.retention import Retention
from joblane.state.timeline import Step


@dataclass(frozen=True)
class AssignedJobs:
    """Ends assigned jobs. Every method may be called again after a crash at any point."""

    jobs: JobStore
    agents: AgentStore
    operations: Operations
    retention: Retention

    def settle_with_agent(self, head: Head, now_ms: int) -> bool:
        """Read a job's agent, and do what follows; whether that ended the job. As `settle`."""
        agent = self.agents.get(head.assigned or "")
        return self.settle(head, agent, now_ms) not in {Fate.WAIT, Fate.STOP}

    def settle(self, head: Head, agent: Heartbeat | None, now_ms: int) -> Fate:
        """Do what follows for a job from what is known of its agent; returns what that was.

        The job is moved as it was read, so an agent that claims or ends it meanwhile is first:

            requeue                      table                      agent
            reads: pending, reply_by passed, and its agent's row
                                         active, epoch 1   <------  claim, a moment before reply_by
            move if pending, 0  ----->   refused

        Raises Refused if the job has changed, Gone if it was deleted.
        """
        verdict = judge(head, agent, now_ms)
        match verdict.fate:
            case Fate.NO_REPLY:
                self.operations.move(head, Event.NO_REPLY, verdict.reason, now_ms)
            case Fate.EXPIRE:
                self.operations.move(head, Event.EXPIRE, verdict.reason, now_ms)
            case Fate.LOST:
                self.end_lost(head, verdict, now_ms)
            case Fate.STOP:
                with suppress(NotAllowed):  # requested before; its agent is asked again
                    self.operations.request_stop(head, verdict.reason)
        return verdict.fate

    def end_lost(self, head: Head, verdict: Verdict, now_ms: int) -> None:
        """End the attempt of a job whose agent was lost.

        Conditional on the epoch, as every end of an attempt: if the agent comes back before this,
        its own report is first, and after it, that is refused.
        """
        state, reason = State.FAILED, verdict.reason
        if head.cancel_requested is not None:
            state, reason = State.CANCELLED, f"{head.cancel_requested}; {reason}"
        member = head.member_of is not None
        expires_at = self.retention.expires_at(state, now_ms, member=member)
        facts = AttemptFacts(Outcome.LOST, expires_at=expires_at)
        step = Step(state, now_ms, head.attempt, reason)
        unless_gone(lambda: self.jobs.settle(head, step, facts))
