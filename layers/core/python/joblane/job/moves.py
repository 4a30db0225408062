"""Transitions that operators and the passing of time cause. Pure functions of a job's head.

`plan` returns the transition of an event or says why it is refused; `apply` makes it in memory,
exactly as the store makes it in the table.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from joblane.errors import Failure
from joblane.job.head import Head, waits, with_step
from joblane.state.lease import LEASE_S
from joblane.state.lifecycle import ENDED, OF_GROUPS, TABLE, Event, Outcome, State, name_done
from joblane.state.result import ResultObject
from joblane.state.timeline import SAME_ATTEMPT, Step, fold

if TYPE_CHECKING:  # most jobs leave no files
    from joblane.files.models import OutputSummary

_RESTARTS = frozenset({Event.RETRY, Event.REPLAY, Event.RETRY_QUEUED, Event.REPLAY_QUEUED})

_SENT = frozenset({Event.RETRY, Event.REPLAY, Event.WAKE, Event.REOPEN})
"""Events after which messages have to be sent: of the job, or of members of a group."""

CALLED_FOR = frozenset({State.PENDING, State.RETRY, State.BLOCKED})
"""States of jobs that an agent must hear of after an edit: it starts them, or puts a blocked one on
the list of its condition, which the agent that blocked it may not have done before it died."""

_OF_DEAD_LETTERS = frozenset({Event.REPLAY, Event.DISMISS})
"""Operations of the dead-letter list, which has no members of groups."""

_NO_ATTEMPT: dict[str, Any] = {
    "agent": None,
    "outcome": None,
    "exit_code": None,
    "signal": None,
    "usage_json": None,
}
"""What belongs to the last attempt, which a restarted job has not: its timeline keeps it."""


class NotAllowed(Failure):
    """The job cannot make this transition; the text says why, for the caller."""


def plan(head: Head, event: Event, now_ms: int, why: str) -> Step:
    """The step that `event` causes in the job's current state. Raises NotAllowed.

    `why` is the reason for the timeline. An active job belongs to its agent: only the agent's
    settlement ends it, so no event of this module moves it.
    """
    to = TABLE.get((head.state, event))
    verb = name_done(event)
    if head.group is not None and event not in OF_GROUPS:
        raise NotAllowed(
            f"the job is a group of {head.group.members} jobs, which cannot be {verb} as one job; "
            f"use the group's routes, /v1/groups/{head.job_id}"
        )
    if head.member_of is not None and event in _OF_DEAD_LETTERS:
        raise NotAllowed(
            f"the job is member {head.member_of.index} of group {head.member_of.group_id}, and "
            f"cannot be {verb}; retry it, or the group's failed members"
        )
    if to is None or head.state is State.ACTIVE:
        from joblane.job.refusals import refusal  # refusals only

        raise NotAllowed(refusal(head, event))
    if event in OF_GROUPS and not head.spec.makes_group:
        raise NotAllowed(f"a job that is no group cannot be {verb}")
    if event in _RESTARTS and head.spec.makes_group:
        raise NotAllowed(f"a group without members cannot be {verb}; submit it again")
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
        # A job that waits for its key has the reason from its caller.
        wait = f"; {waits(head)}" if to is State.PENDING else ""
        return Step(to, now_ms, 0, f"{why}{wait}")
    return Step(to, now_ms, SAME_ATTEMPT, why)


def plan_restart(head: Head, to: Head, event: Event, now_ms: int, why: str) -> Step:
    """The step with which `head` becomes `to`, the same job with the present version of its type.

    Refused as `plan` refuses it, for what the job was and for what it becomes: one that was
    started under the promise that it is never started twice is not.
    """
    check_restart(head, event, now_ms)
    step = plan(to, event, now_ms, why)
    if to.type_version == head.type_version:
        return step
    return replace(step, from_version=head.type_version)


def check_restart(head: Head, event: Event, now_ms: int) -> None:
    """Refuse as `plan` what no version of a job's type could be started as.

    A deadline that an earlier version set counts anew from the restart.
    """
    if not head.deadline_is_given:
        head = replace(head, spec=head.spec.model_copy(update={"deadline": None}))
    plan(head, event, now_ms, "")


def apply(head: Head, event: Event, step: Step, expires_at: int | None = None) -> Head:
    """Make a planned transition in memory. `expires_at` (Unix seconds) is set if the job ends.

    Raises ValueError for a step that is not in the table of transitions.
    """
    if TABLE.get((head.state, event)) is not step.state:
        raise ValueError(f"{event} does not move a job from {head.state} to {step.state}")
    attempt = head.attempt if step.attempt == SAME_ATTEMPT else step.attempt
    after = replace(
        head,
        state=step.state,
        attempt=attempt,
        timeline=fold((*head.timeline, replace(step, attempt=attempt))),
        next_at_ms=None,
        condition=None,
        expires_at=expires_at if step.state in ENDED else None,
        wake_at_ms=_wake_after(head, event, step),
        reply_by_ms=reply_by(head, step),
    )
    again = event in _RESTARTS or event is Event.REOPEN
    return replace(after, cancel_requested=None, hidden=False, **_NO_ATTEMPT) if again else after


def reply_by(head: Head, step: Step) -> int | None:
    """When the only agent of a job must have claimed it; None if it is not to start now."""
    if head.assigned is None or step.state is not State.PENDING:
        return None
    return step.at_ms + head.reply_timeout_ms


def _wake_after(head: Head, event: Event, step: Step) -> int | None:
    """When the requeue function checks the job next.

    A job that becomes pending here has no message yet. It is due at once: after a crash before
    the message is sent, the requeue function finds the row (`Due.SEND`).
    """
    if step.state in ENDED:
        return None
    if event in _SENT:
        return step.at_ms
    if step.state is State.WAITING:  # it gets its message with its slot
        return head.deadline_ms
    return head.wake_at_ms


class Due(Enum):
    """What to do with a job whose `wake_at` is reached."""

    NOTHING = auto()
    """The index was stale: the job has moved on."""
    EXPIRE = auto()
    TELL = auto()
    """It runs beyond its deadline: ask its agent to stop it."""
    WAKE = auto()
    """Its `run_at` is reached."""
    CHOOSE = auto()
    """Its `run_at` is reached, and the agents of its target are chosen now."""
    WATCH = auto()
    """It is a group: see what has become of its members."""
    SEND = auto()
    """It waits for an agent, and its message may not have been sent."""
    REARM = auto()
    """It has started; only its deadline, if any, is left to wait for."""
    JUDGE = auto()
    """Only one agent may run it: see what has become of that one (`joblane.job.assigned`)."""


def due(head: Head, now_ms: int) -> Due:
    """Decide what to do with a job that the index `wake` lists as due."""
    if head.wake_at_ms is None or head.wake_at_ms > now_ms:
        return Due.NOTHING
    if head.state is State.PROCESSING:
        return Due.WATCH
    if head.deadline_ms is not None and head.deadline_ms <= now_ms:
        return _at_deadline(head)
    if head.state is State.SCHEDULED:
        return Due.CHOOSE if head.spec.target or head.spec.array else Due.WAKE
    if head.assigned is not None and not _awaits_message(head):
        return Due.JUDGE
    return Due.SEND if head.state is State.PENDING or _awaits_message(head) else Due.REARM


def _at_deadline(head: Head) -> Due:
    """An agent that was lost cannot be told, and what only it may run would never end."""
    if head.state is not State.ACTIVE:
        return Due.EXPIRE
    return Due.TELL if head.assigned is None else Due.JUDGE


def _awaits_message(head: Head) -> bool:
    """Whether a job was just moved here, or edited, so that its message may not be sent yet."""
    return head.state in CALLED_FOR and head.wake_at_ms == head.timeline[-1].at_ms


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """What the end of an attempt adds to its job, beside the transition."""

    outcome: Outcome
    exit_code: int | None = None
    signal: int | None = None
    usage_json: str | None = None
    next_at_ms: int | None = None
    """When a job in `retry` is tried again."""
    expires_at: int | None = None
    """Unix seconds; set when the job ended."""
    output_bytes: int = 0
    """Output that the attempt has stored."""
    result: str | None = None
    """The result of a job that is completed, as JSON."""
    result_object: ResultObject | None = None
    """The same, if it is in S3."""
    output_files: "OutputSummary | None" = None
    """Which files were collected after the attempt; None if none were to be."""


def attempt_ended(head: Head, step: Step, facts: AttemptFacts, condition: str | None) -> Head:
    """End an attempt in memory; `condition` is what a blocked job waits for."""
    return replace(
        with_step(head, step),
        outcome=facts.outcome,
        exit_code=facts.exit_code,
        signal=facts.signal,
        usage_json=facts.usage_json,
        next_at_ms=facts.next_at_ms,
        expires_at=facts.expires_at,
        condition=condition,
        wake_at_ms=None if step.state in ENDED else head.wake_at_ms,
        cancel_requested=None,
        output_bytes=head.output_bytes + facts.output_bytes,
        output_file_bytes=head.output_file_bytes
        + (0 if facts.output_files is None else facts.output_files.bytes),
        result=facts.result,
        result_object=facts.result_object,
        output_files=facts.output_files or head.output_files,
    )


def rearm(head: Head, now_ms: int) -> Head:
    """The job with its next `wake_at`: the first of what is to come, none if nothing is.

    That is its deadline, the time by which its only agent must have claimed it (at once, if its
    message was sent so late), and, while that agent has it, the time after which the agent's lease
    may be over. Members of a group are looked at with their group.

    A deadline that has passed is still to come for a job that waits: agents leave such a job to the
    requeue function, and delete its message.

        API                          jobs                       agent, requeue
                                     deadline 12:00:09
        12:00:20 edit  --------->    pending, due at once
        message; its wake_at? -->    none: nobody ends it       claim refused, message deleted
                                     12:00:09: due     <------  12:01:00 requeue: expired
    """
    waits = head.state not in {State.ACTIVE, State.PROCESSING} and not head.ended
    if waits and head.deadline_ms is not None and head.deadline_ms <= now_ms:
        return replace(head, wake_at_ms=head.deadline_ms)
    times = [head.deadline_ms]
    if head.assigned is not None and head.member_of is None and not head.ended:
        times.append(max(head.reply_by_ms or now_ms + LEASE_S * 1000, now_ms + 1))
    later = [at_ms for at_ms in times if at_ms is not None and at_ms > now_ms]
    return replace(head, wake_at_ms=min(later, default=None))
