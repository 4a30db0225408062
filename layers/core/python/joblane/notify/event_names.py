"""Names of the events that jobs tell of, and which transition each of them is.

`EVENTS` is the only list: submissions are validated with it, the function `sequel` names records of
the stream by it, and docs/reference/events.md has it as a table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from joblane.state.lifecycle import State

EventName = Literal[
    "submitted",
    "waiting",
    "released",
    "started",
    "retry",
    "blocked",
    "completed",
    "failed",
    "dead",
    "cancelled",
    "expired",
    "skipped",
    "stale",
    "partial_failure",
    "dismissed",
]
"""Name of an event: those of progress, and then every state in which a job has ended."""

EVENT_NAMES: Final[tuple[EventName, ...]] = get_args(EventName)


@dataclass(frozen=True, slots=True)
class EventKind:
    """The transitions that have one name."""

    to: frozenset[State]
    """The states that the job comes to."""
    meaning: str
    """What has happened, for the docs."""
    new: bool | None = None
    """True for jobs that are submitted so, False for those that come from another state, None for
    both."""


_ENDS: Final[Mapping[EventName, str]] = {
    "completed": "It ended well; of a group, all members that were not skipped did, or no more "
    "failed than it tolerates.",
    "failed": "It failed for good; of a group, no member completed, and not all were skipped.",
    "dead": "Its last attempt failed.",
    "cancelled": "It was cancelled.",
    "expired": "Its deadline passed.",
    "skipped": "A newer job of its key replaced it, no agent was there that it is for, or it said "
    "that it does not apply; of a group, all members were skipped.",
    "stale": "Its agent was lost, and another job took its slot.",
    "partial_failure": "Some members of the group completed, and others failed or were cancelled.",
    "dismissed": "An operator removed the dead job from the dead-letter list.",
}

EVENTS: Final[Mapping[EventName, EventKind]] = {
    "submitted": EventKind(
        frozenset({State.SCHEDULED, State.PENDING, State.PROCESSING}),
        "It was accepted, and waits for nothing but its time or an agent.",
        new=True,
    ),
    "waiting": EventKind(
        frozenset({State.WAITING}), "It waits for a slot of its key, or for other jobs."
    ),
    "released": EventKind(
        frozenset({State.PENDING}),
        "It is free to start, and waits in its lane for an agent: its time has come, its key has a "
        "slot, its condition holds, its agent gave it back, or somebody retried it.",
        new=False,
    ),
    "started": EventKind(
        frozenset({State.ACTIVE, State.PROCESSING}),
        "An agent has begun an attempt, also one that takes the job over from a lost agent; of a "
        "group, its members begin, or some of them begin again.",
        new=False,
    ),
    "retry": EventKind(
        frozenset({State.RETRY}), "An attempt failed, and another one follows after a backoff."
    ),
    "blocked": EventKind(frozenset({State.BLOCKED}), "A condition of the job does not hold."),
    **{name: EventKind(frozenset({State(name)}), text) for name, text in _ENDS.items()},
}
"""Every event. Each transition of `joblane.state.lifecycle.TABLE`, and each submission, is one."""

ENDS: Final[frozenset[EventName]] = frozenset(_ENDS)
"""Events of jobs that have ended."""

DEFAULT: Final[tuple[EventName, ...]] = tuple(
    name for name in EVENT_NAMES if name == "blocked" or name in ENDS - {"dismissed"}
)
"""What a notification is about unless it says so: not `dismissed`, which follows `dead` and is done
by an operator."""


PASSED: Final[Mapping[tuple[State, State], State]] = {
    (State.SCHEDULED, State.ACTIVE): State.PENDING,
}
"""The state that a job passes where one write makes two transitions: an agent claims a scheduled
job whose delayed message has come (`joblane.aws.job.claims`)."""


def name_event(before: State | None, after: State, *, claimed: bool) -> EventName | None:
    """Name what happened to a job between two images of its row; None if it is no transition.

    `before` is None for a new job. `claimed` says whether its epoch has risen: an agent that takes
    a job over leaves it in the state `active`.
    """
    if before is after and not (claimed and after is State.ACTIVE):
        return None
    new = before is None
    named = (n for n, e in EVENTS.items() if after in e.to and e.new in {None, new})
    return next(named, None)
