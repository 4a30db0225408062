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


TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.SCHEDULED: frozenset({State.PENDING, State.CANCELLED, State.EXPIRED}),
    State.PENDING: frozenset(
        {State.ACTIVE, State.CANCELLED, State.EXPIRED, State.SKIPPED, State.BLOCKED}
    ),
    State.ACTIVE: frozenset(
        {
            State.ACTIVE,  # takeover from an agent whose lease ended
            State.COMPLETED,
            State.RETRY,
            State.FAILED,
            State.DEAD,
            State.BLOCKED,
            State.CANCELLED,
            State.STALE,
            State.PENDING,  # interrupted
        }
    ),
    State.RETRY: frozenset({State.ACTIVE, State.DEAD, State.CANCELLED, State.EXPIRED}),
    State.BLOCKED: frozenset({State.PENDING, State.FAILED, State.CANCELLED, State.EXPIRED}),
    State.COMPLETED: frozenset(),
    State.FAILED: frozenset({State.PENDING}),  # manual retry
    State.DEAD: frozenset({State.PENDING, State.DISMISSED}),  # replay, dismiss
    State.CANCELLED: frozenset(),
    State.EXPIRED: frozenset(),
    State.SKIPPED: frozenset(),
    State.STALE: frozenset(),
    State.DISMISSED: frozenset(),
}
"""Every transition that may ever be written, by the state it leaves."""

ENDED: frozenset[State] = frozenset(
    {
        State.COMPLETED,
        State.FAILED,
        State.DEAD,
        State.CANCELLED,
        State.EXPIRED,
        State.SKIPPED,
        State.STALE,
        State.DISMISSED,
    }
)
"""States in which nothing runs and nothing will by itself; only an operator moves a job on."""

CLAIMABLE: frozenset[State] = frozenset(
    state for state in (State.PENDING, State.RETRY) if State.ACTIVE in TRANSITIONS[state]
)
"""States from which an agent may take a job without asking who holds it."""

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


def backoff_s(policy: RetryPolicy, attempt: int, dice: random.Random) -> float:
    """Seconds to wait after `attempt` failed: full jitter, uniform between 0 and the bound.

    Full jitter spreads the retries of jobs that failed together best (Brooker, "Exponential
    Backoff And Jitter", AWS Architecture Blog, 2015).
    """
    bound = policy.backoff_s[min(attempt, len(policy.backoff_s)) - 1]
    return dice.uniform(0, bound)


def outcome_of(*, exit_code: int | None, timed_out: bool, oom_killed: bool) -> Outcome:
    """How an attempt ended, from what the sandbox reports of it."""
    if timed_out:
        return Outcome.TIMED_OUT
    if oom_killed:
        return Outcome.OOM_KILLED
    if exit_code == 0:
        return Outcome.SUCCEEDED
    if exit_code == EXIT_PERMANENT:
        return Outcome.PERMANENT
    return Outcome.FAILED


def settle(outcome: Outcome, why: str, attempt: Attempt, dice: random.Random) -> Settlement:
    """Move a job on after an attempt.

    `why` says what happened in the attempt ("exit 3"); the returned reason adds what follows.
    """
    match outcome:
        case Outcome.SUCCEEDED:
            return Settlement(State.COMPLETED, why)
        case Outcome.PERMANENT | Outcome.REFUSED:
            return Settlement(State.FAILED, f"{why}; not tried again")
        case Outcome.INTERRUPTED:
            if attempt.restartable:
                return Settlement(State.PENDING, f"{why}; waits for another agent", counted=False)
            return Settlement(State.FAILED, f"{why}; not restartable, so not started again")
        case Outcome.LOST if not attempt.restartable:
            return Settlement(State.FAILED, f"{why}; not restartable, so not started again")
        case _:
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
