"""What operators and the clock may do to a job: pure decisions over its head.

`plan` says which transition an event is, or why it is refused; `apply` makes it in memory,
exactly as the store makes it in the table.
"""

from dataclasses import replace
from enum import Enum, auto

from joblane.head import SAME_ATTEMPT, Head, Step, waits_in_lane
from joblane.lifecycle import ENDED, TABLE, Event, State

_RESTARTS = frozenset({Event.RETRY, Event.REPLAY})

_DONE: dict[Event, str] = {
    Event.CANCEL: "cancelled",
    Event.EXPIRE: "expired",
    Event.RETRY: "retried",
    Event.REPLAY: "replayed",
    Event.DISMISS: "dismissed",
}


class NotAllowed(Exception):
    """The job cannot make this transition; the text is a sentence for whoever asked."""


def plan(head: Head, event: Event, now_ms: int, why: str) -> Step:
    """The step that `event` is for a job as it stands. Raises NotAllowed.

    `why` is the reason that goes into the timeline. An active job belongs to its agent: what
    ends it is the agent's settlement, so no event of this module moves it.
    """
    to = TABLE.get((head.state, event))
    verb = _DONE.get(event, event.value)
    if to is None or head.state is State.ACTIVE:
        raise NotAllowed(f"a job that is {head.state} cannot be {verb}{_instead(head)}")
    if event in _RESTARTS:
        if not head.spec.restartable and head.attempt > 0:
            raise NotAllowed(
                f"the job is not restartable and has been started, so it cannot be {verb}; "
                "submit it again"
            )
        if head.deadline_ms is not None and head.deadline_ms <= now_ms:
            raise NotAllowed(
                f"the job's deadline {head.spec.deadline} has passed, so it cannot be {verb}; "
                "submit it again"
            )
        return Step(to, now_ms, 0, f"{why}; {waits_in_lane(head.spec)}")
    return Step(to, now_ms, SAME_ATTEMPT, why)


def _instead(head: Head) -> str:
    match head.state:
        case State.ACTIVE:
            return "; cancel it first"
        case State.CANCELLED | State.EXPIRED | State.COMPLETED | State.DISMISSED:
            return ": it has ended"
        case _:
            return ""


def apply(head: Head, event: Event, step: Step, expires_at: int | None = None) -> Head:
    """Make a planned transition in memory. `expires_at` (Unix seconds) is for those that end.

    Raises ValueError for a step that the table does not have: a defect of ours.
    """
    if TABLE.get((head.state, event)) is not step.state:
        raise ValueError(f"{event} does not move a job from {head.state} to {step.state}")
    attempt = head.attempt if step.attempt == SAME_ATTEMPT else step.attempt
    after = replace(
        head,
        state=step.state,
        attempt=attempt,
        timeline=(*head.timeline, replace(step, attempt=attempt)),
        next_at_ms=None,
        condition=None,
        expires_at=expires_at if step.state in ENDED else None,
        wake_at_ms=_wake_after(head, event, step),
    )
    return after if event not in _RESTARTS else replace(after, cancel_requested=None, hidden=False)


def _wake_after(head: Head, event: Event, step: Step) -> int | None:
    """When the requeue function looks at the job next.

    A job that becomes pending here has no message yet. It is due at once, so whoever dies
    before having sent it leaves a row that the requeue function finds (see `Due.SEND`).
    """
    if step.state in ENDED:
        return None
    if event in _RESTARTS or event is Event.WAKE:
        return step.at_ms
    return head.wake_at_ms


class Due(Enum):
    """What a job whose `wake_at` has come needs."""

    NOTHING = auto()
    """The index lagged: the job has moved on."""
    EXPIRE = auto()
    TELL = auto()
    """It runs beyond its deadline: its agent is told to end it."""
    WAKE = auto()
    """Its `run_at` has come."""
    SEND = auto()
    """It is pending and its message may never have been sent."""
    REARM = auto()
    """It was started meanwhile; only its deadline is left to wait for, if it has one."""


def due(head: Head, now_ms: int) -> Due:
    """Judge a job that the index `wake` shows as due."""
    if head.wake_at_ms is None or head.wake_at_ms > now_ms:
        return Due.NOTHING
    if head.deadline_ms is not None and head.deadline_ms <= now_ms:
        return Due.TELL if head.state is State.ACTIVE else Due.EXPIRE
    if head.state is State.SCHEDULED:
        return Due.WAKE
    return Due.SEND if head.state is State.PENDING else Due.REARM


def rearmed(head: Head, now_ms: int) -> Head:
    """The job with its next `wake_at`: its deadline, unless that has been dealt with."""
    deadline_ms = head.deadline_ms
    later = deadline_ms if deadline_ms is not None and deadline_ms > now_ms else None
    return replace(head, wake_at_ms=later)
