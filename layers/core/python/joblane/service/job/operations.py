"""Transitions that operators and the clock make: the decision, its write, and its messages."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from joblane.aws.job.jobs import JobStore, Refused
from joblane.aws.queue.lanes import Lanes
from joblane.contract.problems import FieldProblem, TryAgain
from joblane.errors import Failure
from joblane.job.head import Head
from joblane.job.message import Command
from joblane.job.moves import NotAllowed, check_restart, plan, plan_restart
from joblane.service.decide_again import decide_again
from joblane.service.job.wake_up import renewal_delay_s, send_wake_up
from joblane.state.lifecycle import ENDED, Event, State
from joblane.state.retention import Retention

if TYPE_CHECKING:  # most functions restart no job
    from joblane.service.group.restart import GroupRestart
    from joblane.service.job.present_code import PresentCode
    from joblane.service.key.admission import KeyAdmission, Renewed

T = TypeVar("T")

BUSY = "the job is being changed by other requests; try again"
"""Text for the caller when it changed on every try."""


class Gone(Failure):
    """The job was deleted meanwhile."""


class DoesNotFit(NotAllowed):
    """The present version of its type does not take a job; the text says what to do instead."""

    def __init__(self, text: str, errors: tuple[FieldProblem, ...]) -> None:
        super().__init__(text)
        self.errors = errors
        """Every wrong field."""


@dataclass(frozen=True, slots=True)
class CancelResult:
    """A job after a request to cancel it, and a sentence that says what happens next."""

    head: Head
    note: str


@dataclass(frozen=True)
class Operations:
    """Makes transitions. Every method may be called again after a crash at any point."""

    jobs: JobStore
    lanes: Lanes
    retention: Retention
    keyed: "KeyAdmission | None" = None
    """Admits jobs with a key that are restarted; None where no job is restarted."""
    groups: "Callable[[], GroupRestart] | None" = None
    """Returns what retries members of groups; None where they are not retried."""
    present: "Callable[[], PresentCode] | None" = None
    """Returns what finds the present versions of types; None where no typed job is restarted."""

    def move(self, head: Head, event: Event, why: str, now_ms: int, to: Head | None = None) -> Head:
        """Make one transition; `to` is `head` with what else changes.

        Raises NotAllowed, Refused when the job has changed, Gone.
        """
        step = plan(head, event, now_ms, why)
        expires_at = self.expires_at(head, step.state, now_ms)
        return unless_gone(lambda: self.jobs.move(head, event, step, expires_at=expires_at, to=to))

    def expires_at(self, head: Head, state: State, now_ms: int) -> int | None:
        """When the row of a job that goes to `state` now expires; None if that is not its end."""
        if state not in ENDED:
            return None
        return self.retention.expires_at(state, now_ms, member=head.member_of is not None)

    def decide(
        self, head: Head, event: Event, why: str, now_ms: int, *, exact: bool = False
    ) -> Head:
        """Make a transition; if the job changes meanwhile, decide again on the changed job.

        `exact` makes it from the state of `head` or not at all. Raises NotAllowed and Gone,
        TryAgain if the job changed on every try, and Refused with `exact`.
        """
        return repeat_on_change(lambda seen: self.move(seen, event, why, now_ms), head, exact=exact)

    def cancel(self, head: Head, why: str, now_ms: int, *, exact: bool = False) -> CancelResult:
        """Cancel a waiting job at once; ask the agent of a running one to stop it.

        Raises NotAllowed with the reason: the job has ended, or was asked to stop before; in
        the second case its agent is asked again, because the first caller may have died between
        the write and the message. `exact` as in `decide`: of a running job, the attempt that
        `head` shows.
        """

        def once(seen: Head) -> CancelResult:
            if seen.state is State.ACTIVE:
                return self.request_stop(seen, why, exact=exact)
            ended = self.move(seen, Event.CANCEL, why, now_ms)
            return CancelResult(ended, _describe_cancelled(seen))

        return repeat_on_change(once, head, exact=exact)

    def hide(self, head: Head, *, hidden: bool) -> Head:
        """Leave an ended job out of lists, or show it again. Safe to repeat.

        Raises NotAllowed for a job that has not ended, and Refused and Gone as `move`.
        """
        if head.member_of is not None:
            raise NotAllowed(
                f"the job is a member of group {head.member_of.group_id}, and is in no list"
            )
        if not head.ended:
            from joblane.job.refusals import not_ended  # refusals only

            raise NotAllowed(not_ended(head, "hidden"))
        return unless_gone(lambda: self.jobs.set_hidden(head, hidden=hidden))

    def request_stop(self, head: Head, why: str, *, exact: bool = False) -> CancelResult:
        """Request the end of a running job: write it to the job, then send it to its agent.

            API                          table                      agent
            request_cancel  --------->   active, cancel_requested
            (killed here)
                                         refused           <------  settle: retry
                                         cancelled         <------  settle: cancelled

        So the job stops even if the message never reaches its agent: at the end of its attempt,
        or when its agent's lease has ended. Raises NotAllowed if it was requested before (and
        asks the agent again), and Refused if the job is not active any more.
        """
        before: str | None = None
        try:
            head = self.jobs.request_cancel(head.job_id, why, head.epoch if exact else None)
        except Refused as refusal:
            other = refusal.head is not None and exact and refusal.head.epoch != head.epoch
            if refusal.head is None or refusal.head.state is not State.ACTIVE or other:
                raise
            head, before = refusal.head, refusal.head.cancel_requested
        agent = head.agent or "?"
        command = Command(command="cancel", job_id=head.job_id, caller_trace=head.caller_trace)
        sent = self.lanes.send_command(agent, command)
        note = (
            f"agent {agent} was asked to stop the job"
            if sent
            else f"agent {agent} has no inbox any more; the job ends when its lease has ended"
        )
        if before is not None:
            raise NotAllowed(f"the job is already being stopped ({before}); {note}")
        return CancelResult(head, note)

    def restart(
        self,
        head: Head,
        event: Event,
        why: str,
        now_ms: int,
        *,
        exact: bool = False,
        same_version: bool = False,
    ) -> Head:
        """Retry or replay an ended job: the row first, then its message.

        A typed job takes the present version of its type (`PresentCode`), or with `same_version`
        stays as it is.

        In this order, because an agent deletes the message of an ended job. A row without a
        message is due in the index `wake`, and the requeue function sends one:

            API                          table                      requeue
            move: replay  ----------->   pending, due
            (killed here)
                                         pending, due      ------>  sends the message
                                         pending           <------  rearm

        A job with a key is admitted again in the transaction of the move (`KeyAdmission.restart`),
        and has no message while it waits for a slot.

        A member of a group is retried together with its group (`GroupRestart.one`).

        Raises what `decide` raises, TryAgain if the key or the group changed on every try, and
        DoesNotFit if the present version of its type does not take the job.
        """
        if head.member_of is not None and event is Event.RETRY:
            if self.groups is None:
                raise ValueError("members of groups are not retried here")
            return self.groups().one(head, why, now_ms, exact=exact)

        def once(seen: Head) -> Head:
            check_restart(seen, event, now_ms)  # before its type is read
            renewed = None if same_version else self._renew(seen, now_ms)
            to = seen if renewed is None else renewed.head
            if seen.key is None and to.key is None:
                step = plan_restart(seen, to, event, now_ms, why)
                return unless_gone(lambda: self.jobs.move(seen, event, step, to=to))
            if self.keyed is None:
                raise ValueError("jobs with a key are not restarted here")
            admit = self.keyed.restart
            return unless_gone(lambda: admit(seen, event, why, now_ms, renewed))

        back = repeat_on_change(once, head, exact=exact)
        if back.state is State.PENDING:
            self.send(back, now_ms)
        return back

    def _renew(self, head: Head, now_ms: int) -> "Renewed | None":
        """A typed job with the present version of its type; None for all others."""
        if head.type_version is None:
            return None
        if self.present is None:
            raise ValueError("jobs of types are not restarted here")
        return self.present().of(head, now_ms)

    def send(self, head: Head, now_ms: int) -> bool:
        """Send a waiting job's message, and note on the row that it is sent. Safe to repeat.

        Of one between two attempts it is delayed until the next may start, by `MAX_DELAY_S` at
        most; an agent that receives it then hides it for the rest. False if its queue is gone, as
        `send_wake_up`: it is not tried again every minute.
        """
        sent = send_wake_up(self.lanes, head, renewal_delay_s(head, now_ms) or 0)
        self.jobs.rearm(head, now_ms)
        return sent

    def wake_up(self, head: Head) -> bool:
        """Send another message for a job; its row stays as it is. False as in `send`."""
        return send_wake_up(self.lanes, head)


def _describe_cancelled(seen: Head) -> str:
    """When a job was cancelled that did not run at that time."""
    if seen.state is State.BLOCKED:
        return "cancelled while it was blocked"
    if not any(step.state is State.ACTIVE for step in seen.timeline):
        return "cancelled before it ran"
    return "cancelled between two attempts; it is not started again"


def unless_gone(call: Callable[[], T]) -> T:
    """Make a conditional write; raises Gone in place of Refused for a job that was deleted."""
    try:
        return call()
    except Refused as refusal:
        if refusal.head is None:
            raise Gone from refusal
        raise


def repeat_on_change(call: Callable[[Head], T], head: Head, *, exact: bool) -> T:
    """Call with the job as it was last seen, until it did not change before the write.

    With `exact` only while another request was writing it, which may have been refused.
    """

    def once() -> T:
        nonlocal head
        try:
            return unless_gone(lambda: call(head))
        except Refused as refusal:
            head = refusal.head or head
            raise

    passes = Refused if exact else ()
    return decide_again(once, busy=TryAgain(BUSY, retry_after_s=1), passes=passes)
