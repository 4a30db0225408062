"""What operators and the clock do to jobs: the decision, its write, and whoever must hear of it."""

from dataclasses import dataclass

from joblane.aws.jobs import JobStore, Refused
from joblane.aws.lanes import Lanes
from joblane.head import Head
from joblane.lifecycle import ENDED, Event, State
from joblane.message import Command, Message
from joblane.moves import NotAllowed, plan
from joblane.retention import Retention

TURNS = 4
"""How often a decision is made again because the job moved in between. A job makes a handful of
transitions in its whole life, so the second turn nearly always settles it."""


class Gone(Exception):
    """The job was deleted meanwhile."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A job after an operator's request, and a sentence on what follows."""

    head: Head
    note: str


class Operations:
    """Moves jobs. Every method may be called again after a crash, at any point of it."""

    def __init__(self, jobs: JobStore, lanes: Lanes, retention: Retention) -> None:
        self._jobs = jobs
        self._lanes = lanes
        self._retention = retention

    def move(self, head: Head, event: Event, why: str, now_ms: int) -> Head:
        """Make one transition. Raises NotAllowed, Refused when the job has moved, Gone."""
        step = plan(head, event, now_ms, why)
        ends = step.state in ENDED
        expires_at = self._retention.expires_at(step.state, now_ms) if ends else None
        try:
            return self._jobs.move(head, event, step, expires_at=expires_at)
        except Refused as refusal:
            if refusal.head is None:
                raise Gone from refusal
            raise

    def decide(
        self, head: Head, event: Event, why: str, now_ms: int, *, exact: bool = False
    ) -> Head:
        """Make a transition, whatever state the job is in by the time of the write.

        `exact` makes it from the state of `head` or not at all. Raises NotAllowed and Gone,
        and Refused if it moves on every time.
        """
        turns = 1 if exact else TURNS
        for turn in range(1, turns + 1):
            try:
                return self.move(head, event, why, now_ms)
            except Refused as refusal:
                if refusal.head is None or turn == turns:
                    raise
                head = refusal.head
        raise AssertionError("the last turn returns or raises")

    def cancel(self, head: Head, why: str, now_ms: int, *, exact: bool = False) -> Answered:
        """Cancel a job that waits at once; have the agent of one that runs end it.

        Raises NotAllowed with a sentence: it has ended, or was asked to end before; in the
        second case its agent is told again, for whoever died between the write and the message.
        `exact` as in `decide`: of a job that runs, the attempt that `head` shows.
        """
        turns = 1 if exact else TURNS
        for turn in range(1, turns + 1):
            try:
                if head.state is State.ACTIVE:
                    return self.tell(head, why, exact=exact)
                ended = self.move(head, Event.CANCEL, why, now_ms)
                return Answered(ended, "cancelled before it ran, or between two attempts")
            except Refused as refusal:
                if refusal.head is None:
                    raise Gone from refusal
                if turn == turns:
                    raise
                head = refusal.head
        raise AssertionError("the last turn returns or raises")

    def hide(self, head: Head, *, hidden: bool) -> Head:
        """Leave a job that has ended out of lists, or show it again; once done, it stays done.

        Raises NotAllowed for one that has not ended, and Refused and Gone as `move`.
        """
        if not head.ended:
            raise NotAllowed(
                f"a job that is {head.state} cannot be hidden; lists show what goes on"
            )
        try:
            return self._jobs.set_hidden(head, hidden=hidden)
        except Refused as refusal:
            if refusal.head is None:
                raise Gone from refusal
            raise

    def tell(self, head: Head, why: str, *, exact: bool = False) -> Answered:
        """Ask for the end of an active job: note it on the job, then tell its agent.

            API                          table                      agent
            request_cancel  --------->   active, cancel_requested
            (killed here)
                                         refused           <------  settle: retry
                                         cancelled         <------  settle: cancelled

        So the job ends even if its agent is never told: at the end of its attempt, or when its
        agent's lease has ended. Raises NotAllowed if it was asked before (and tells the agent
        again), and Refused if it is not active any more.
        """
        before: str | None = None
        try:
            head = self._jobs.request_cancel(head.job_id, why, head.epoch if exact else None)
        except Refused as refusal:
            other = refusal.head is not None and exact and refusal.head.epoch != head.epoch
            if refusal.head is None or refusal.head.state is not State.ACTIVE or other:
                raise
            head, before = refusal.head, refusal.head.cancel_requested
        agent = head.agent or "?"
        told = self._lanes.tell(agent, Command(command="cancel", job_id=head.job_id))
        note = (
            f"agent {agent}, which runs the job, is told to end it"
            if told
            else f"agent {agent} has no inbox any more; the job ends when its lease has ended"
        )
        if before is not None:
            raise NotAllowed(f"the job was asked to end already ({before}); {note}")
        return Answered(head, note)

    def restart(
        self, head: Head, event: Event, why: str, now_ms: int, *, exact: bool = False
    ) -> Head:
        """Retry or replay a job that has ended: the row, then its message.

        In this order, because an agent deletes the message of a job that has ended. A row
        without a message is due in the index `wake`, and the requeue function sends one:

            API                          table                      requeue
            move: replay  ----------->   pending, due
            (killed here)
                                         pending, due      ------>  sends the message
                                         pending           <------  rearm

        Raises NotAllowed, Refused and Gone as `decide`.
        """
        back = self.decide(head, event, why, now_ms, exact=exact)
        self.send(back, now_ms)
        return back

    def send(self, head: Head, now_ms: int) -> None:
        """Send a pending job's message, then let its row rest. Twice is harmless."""
        self.call(head)
        self._jobs.rearm(head, now_ms)

    def call(self, head: Head) -> None:
        """Send a fresh wake-up call; the row stays as it is."""
        lane = self._lanes.lane(head.queue, head.spec.priority)
        lane.send(Message(job_id=head.job_id, tenant=head.tenant))
