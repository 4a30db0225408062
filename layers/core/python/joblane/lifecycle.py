"""The life of a job: states, the transitions between them, and what an attempt's end means.

Pure: every function takes the values it decides from (the clock and the dice among them) and
returns a value. The API, the agent, the tests and the docs all read the one table below.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where a job is (DESIGN.md section 3)."""

    SCHEDULED = "scheduled"
    PENDING = "pending"
    ACTIVE = "active"
    RETRY = "retry"
    BLOCKED = "blocked"
    COMPLETED = "completed"
    FAILED = "failed"
    DEAD = "dead"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SKIPPED = "skipped"
    STALE = "stale"
    DISMISSED = "dismissed"


class Event(StrEnum):
    """What moves a job from one state to the next; the value is what the docs call it."""

    WAKE = "wake"
    """`run_at` has come."""
    START = "start"
    """An agent claims the job."""
    TAKE_OVER = "take over"
    """Another agent claims it, because its own agent's lease has ended."""
    SUCCEED = "succeed"
    TRY_LATER = "try later"
    """An attempt failed, and one is left."""
    HAND_BACK = "hand back"
    """The agent leaves before the job has ended; the attempt is not counted."""
    FAIL = "fail"
    """Trying again would not help."""
    EXHAUST = "exhaust"
    """The last attempt failed, or SQS handed the message out too often without one."""
    BLOCK = "block"
    """Something that the job needs is not there now."""
    UNBLOCK = "unblock"
    """It is there again."""
    GIVE_UP = "give up"
    """It did not come back in time."""
    CANCEL = "cancel"
    EXPIRE = "expire"
    """The deadline has passed."""
    SKIP = "skip"
    """No agent that it is meant for is there."""
    OVERTAKE = "overtake"
    """A newer job of its key makes it pointless."""
    RETRY = "retry"
    """An operator starts the job again, counters reset."""
    REPLAY = "replay"
    """The same, from the list of dead letters."""
    DISMISS = "dismiss"
    """An operator takes a dead letter off the list."""


TABLE: Mapping[tuple[State, Event], State] = {
    (State.SCHEDULED, Event.WAKE): State.PENDING,
    (State.SCHEDULED, Event.CANCEL): State.CANCELLED,
    (State.SCHEDULED, Event.EXPIRE): State.EXPIRED,
    (State.PENDING, Event.START): State.ACTIVE,
    (State.PENDING, Event.BLOCK): State.BLOCKED,
    (State.PENDING, Event.EXHAUST): State.DEAD,
    (State.PENDING, Event.CANCEL): State.CANCELLED,
    (State.PENDING, Event.EXPIRE): State.EXPIRED,
    (State.PENDING, Event.SKIP): State.SKIPPED,
    (State.ACTIVE, Event.TAKE_OVER): State.ACTIVE,
    (State.ACTIVE, Event.SUCCEED): State.COMPLETED,
    (State.ACTIVE, Event.TRY_LATER): State.RETRY,
    (State.ACTIVE, Event.HAND_BACK): State.PENDING,
    (State.ACTIVE, Event.FAIL): State.FAILED,
    (State.ACTIVE, Event.EXHAUST): State.DEAD,
    (State.ACTIVE, Event.BLOCK): State.BLOCKED,
    (State.ACTIVE, Event.CANCEL): State.CANCELLED,
    (State.ACTIVE, Event.EXPIRE): State.EXPIRED,
    (State.ACTIVE, Event.OVERTAKE): State.STALE,
    (State.RETRY, Event.START): State.ACTIVE,
    (State.RETRY, Event.EXHAUST): State.DEAD,
    (State.RETRY, Event.CANCEL): State.CANCELLED,
    (State.RETRY, Event.EXPIRE): State.EXPIRED,
    (State.BLOCKED, Event.UNBLOCK): State.PENDING,
    (State.BLOCKED, Event.GIVE_UP): State.FAILED,
    (State.BLOCKED, Event.CANCEL): State.CANCELLED,
    (State.BLOCKED, Event.EXPIRE): State.EXPIRED,
    (State.FAILED, Event.RETRY): State.PENDING,
    (State.DEAD, Event.RETRY): State.PENDING,
    (State.DEAD, Event.REPLAY): State.PENDING,
    (State.DEAD, Event.DISMISS): State.DISMISSED,
}
"""Every transition that may ever be written; what is not here is refused.

The API, the functions, the agent, the tests and docs/STATES.md all read this one table.
"""

TRANSITIONS: Mapping[State, frozenset[State]] = {
    state: frozenset(to for (source, _), to in TABLE.items() if source is state) for state in State
}
"""Where each state leads, by whatever event."""

OPERATORS = frozenset({Event.RETRY, Event.REPLAY, Event.DISMISS})
"""Events that only an operator causes; nothing else moves a job that has ended."""

ENDED: frozenset[State] = frozenset(
    state
    for state in State
    if all(event in OPERATORS for source, event in TABLE if source is state)
)
"""States in which nothing runs and nothing will by itself; only an operator moves a job on."""

CLAIMABLE: frozenset[State] = frozenset(s for s, event in TABLE if event is Event.START)
"""States from which an agent may take a job without asking who holds it."""

NEEDS_ATTENTION: frozenset[State] = frozenset(
    {State.FAILED, State.DEAD, State.BLOCKED, State.STALE}
)
"""States that an operator wants listed; the index `attention` holds these jobs and no other."""

EXIT_BLOCKED = 75
"""EX_TEMPFAIL of sysexits.h: the job cannot run now, for a reason that is not its own."""

EXIT_PERMANENT = 65
"""EX_DATAERR of sysexits.h: the job says that trying again is pointless."""


class Outcome(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PERMANENT = "permanent"
    TIMED_OUT = "timed_out"
    OOM_KILLED = "oom_killed"
    REFUSED = "refused"
    """The agent could not give the job what it asked for (a limit, an isolation): not run."""
    BLOCKED = "blocked"
    """The job, or a test before its start, found a condition that does not hold now."""
    CANCELLED = "cancelled"
    """Somebody asked for the job's end while it ran."""
    EXPIRED = "expired"
    """The deadline passed while it ran."""
    INTERRUPTED = "interrupted"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how late a job is tried again."""

    max_attempts: int = 3
    backoff_s: tuple[float, ...] = (5, 30, 120, 600, 1800)
    """Upper bound of the wait after the first, second, ... attempt; the last one repeats."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is known of a job when one of its attempts ends."""

    number: int
    """1 for the first; interrupted attempts are not counted."""
    policy: RetryPolicy
    restartable: bool
    started: bool = True
    """False when the claim was all there was: not a line of the job's own code has run."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """What an attempt's end does to its job."""

    state: State
    reason: str
    """A sentence an operator can act on."""
    delay_s: float = 0.0
    """Seconds until the job's message may be seen again; 0 when the job has ended."""
    counted: bool = True
    """False gives the attempt back to the job."""


_FINAL: Mapping[Outcome, State] = {
    Outcome.SUCCEEDED: State.COMPLETED,
    Outcome.CANCELLED: State.CANCELLED,
    Outcome.EXPIRED: State.EXPIRED,
}


def backoff_s(policy: RetryPolicy, attempt: int, dice: random.Random) -> float:
    """Seconds to wait after `attempt` failed: full jitter, uniform between 0 and the bound.

    Full jitter spreads the retries of jobs that failed together best (Brooker, "Exponential
    Backoff And Jitter", AWS Architecture Blog, 2015).
    """
    bound = policy.backoff_s[min(attempt, len(policy.backoff_s)) - 1]
    return dice.uniform(0, bound)


def outcome_of(
    *, exit_code: int | None, timed_out: bool, oom_killed: bool, condition: str | None = None
) -> Outcome:
    """How an attempt ended, from what the sandbox reports of it.

    Exit 75 without a `condition` to wait for is a failure like any other: nobody could tell
    when to try again.
    """
    if timed_out:
        return Outcome.TIMED_OUT
    if oom_killed:
        return Outcome.OOM_KILLED
    if exit_code == 0:
        return Outcome.SUCCEEDED
    if exit_code == EXIT_PERMANENT:
        return Outcome.PERMANENT
    if exit_code == EXIT_BLOCKED and condition is not None:
        return Outcome.BLOCKED
    return Outcome.FAILED


def settle(outcome: Outcome, why: str, attempt: Attempt, dice: random.Random) -> Settlement:
    """Move a job on after an attempt.

    `why` says what happened in the attempt ("exit 3"); the returned reason adds what follows.
    A job that is handed back or blocked gets its attempt back: it waits for something that is
    no fault of its own, and would otherwise exceed its maximum by waiting.
    """
    if outcome in _FINAL:
        return Settlement(_FINAL[outcome], why)
    if outcome in (Outcome.PERMANENT, Outcome.REFUSED):
        return Settlement(State.FAILED, f"{why}; not tried again")
    if attempt.restartable or not attempt.started:
        if outcome is Outcome.INTERRUPTED:
            return Settlement(State.PENDING, f"{why}; waits for another agent", counted=False)
        if outcome is Outcome.BLOCKED:
            return Settlement(State.BLOCKED, why, counted=False)
    elif outcome in (Outcome.INTERRUPTED, Outcome.BLOCKED, Outcome.LOST):
        return Settlement(State.FAILED, f"{why}; not restartable, so not started again")
    return _again(outcome, why, attempt, dice)


def _again(outcome: Outcome, why: str, attempt: Attempt, dice: random.Random) -> Settlement:
    most = attempt.policy.max_attempts
    if not attempt.restartable:
        return Settlement(State.DEAD, f"{why}; not restartable, so not started again")
    if attempt.number >= most:
        tries = "the only attempt" if most == 1 else f"attempt {attempt.number} of {most}"
        return Settlement(State.DEAD, f"{why} in {tries}")
    delay = 0.0 if outcome is Outcome.LOST else backoff_s(attempt.policy, attempt.number, dice)
    return Settlement(
        State.RETRY,
        f"{why} in attempt {attempt.number} of {most}; tried again in {delay:.0f} s",
        delay_s=delay,
    )
