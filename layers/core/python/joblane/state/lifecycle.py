"""The job state machine: states, events, transitions, and how an attempt's outcome moves a job.

Pure functions: time and randomness are parameters. `TABLE` is the only list of transitions.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class State(StrEnum):
    """State of a job (docs/reference/states.md)."""

    SCHEDULED = "scheduled"
    WAITING = "waiting"
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
    PROCESSING = "processing"
    """Of groups only: some of its members have not ended."""
    PARTIAL_FAILURE = "partial_failure"
    """Of groups only: some of its members are completed, and others failed, died, were cancelled,
    or ended otherwise without being skipped."""


class Event(StrEnum):
    """What moves a job from one state to another; the value is its name in the docs."""

    WAKE = "wake"
    """`run_at` is reached."""
    QUEUE = "queue"
    """`run_at` is reached, and its key has no free slot."""
    GRANT = "grant"
    """It gets a slot of its key."""
    START = "start"
    """An agent claims the job."""
    TAKE_OVER = "take over"
    """Another agent claims it because the lease of the first one has expired."""
    SUCCEED = "succeed"
    TRY_LATER = "try later"
    """An attempt failed and another one is left."""
    HAND_BACK = "hand back"
    """The agent drains before the job has ended; the attempt is not counted."""
    FAIL = "fail"
    """A permanent error: another attempt would fail too."""
    EXHAUST = "exhaust"
    """The last attempt failed, or SQS moved the message to the dead-letter queue."""
    BLOCK = "block"
    """A condition of the job does not hold."""
    UNBLOCK = "unblock"
    """The condition holds again."""
    GIVE_UP = "give up"
    """The condition did not hold again in time."""
    CANCEL = "cancel"
    EXPIRE = "expire"
    """The deadline has passed."""
    SKIP = "skip"
    """A newer job of its key replaces it, or its key was full when it was due."""
    DECLINE = "decline"
    """The job says that it does not apply where it runs, such as a member of a broadcast."""
    OVERTAKE = "overtake"
    """Its agent was lost, and another job waits for its slot (`fail-stale`)."""
    RETRY = "retry"
    """An operator restarts the job; counters are reset."""
    REPLAY = "replay"
    """The same for a dead job, from the dead-letter list."""
    RETRY_QUEUED = "retry, queued"
    """As `RETRY`, for a job whose key has no free slot."""
    REPLAY_QUEUED = "replay, queued"
    """As `REPLAY`, for a job whose key has no free slot."""
    DISMISS = "dismiss"
    """An operator removes a dead job from the dead-letter list."""
    NO_REPLY = "no reply"
    """The only agent that may run it has not started it in time, or has left."""
    CHOOSE = "choose members"
    """`run_at` of a broadcast is reached: its members are the agents that match now."""
    CHOOSE_NONE = "too many members"
    """More agents match than a group may have members."""
    ALL_COMPLETED = "all completed"
    """All members have ended: completed, or some of them skipped; or no more failed than the
    group tolerates."""
    SOME_COMPLETED = "some completed"
    """All members have ended, some completed, and some neither completed nor skipped."""
    NONE_COMPLETED = "none completed"
    """All members have ended, none is completed, and not all are skipped."""
    ALL_SKIPPED = "all skipped"
    """Every member of the group is skipped."""
    REOPEN = "reopen"
    """An operator retries members of the group."""


TABLE: Mapping[tuple[State, Event], State] = {
    (State.SCHEDULED, Event.WAKE): State.PENDING,
    (State.SCHEDULED, Event.QUEUE): State.WAITING,
    (State.SCHEDULED, Event.SKIP): State.SKIPPED,
    (State.SCHEDULED, Event.CANCEL): State.CANCELLED,
    (State.SCHEDULED, Event.EXPIRE): State.EXPIRED,
    (State.WAITING, Event.GRANT): State.PENDING,
    (State.WAITING, Event.SKIP): State.SKIPPED,
    (State.WAITING, Event.CANCEL): State.CANCELLED,
    (State.WAITING, Event.EXPIRE): State.EXPIRED,
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
    (State.ACTIVE, Event.DECLINE): State.SKIPPED,
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
    (State.FAILED, Event.RETRY_QUEUED): State.WAITING,
    (State.DEAD, Event.RETRY): State.PENDING,
    (State.DEAD, Event.RETRY_QUEUED): State.WAITING,
    (State.DEAD, Event.REPLAY): State.PENDING,
    (State.DEAD, Event.REPLAY_QUEUED): State.WAITING,
    (State.DEAD, Event.DISMISS): State.DISMISSED,
    (State.PENDING, Event.NO_REPLY): State.FAILED,
    (State.RETRY, Event.NO_REPLY): State.FAILED,
    (State.BLOCKED, Event.NO_REPLY): State.FAILED,
    (State.SCHEDULED, Event.CHOOSE): State.PROCESSING,
    (State.SCHEDULED, Event.CHOOSE_NONE): State.FAILED,
    (State.PROCESSING, Event.ALL_COMPLETED): State.COMPLETED,
    (State.PROCESSING, Event.SOME_COMPLETED): State.PARTIAL_FAILURE,
    (State.PROCESSING, Event.NONE_COMPLETED): State.FAILED,
    (State.PROCESSING, Event.ALL_SKIPPED): State.SKIPPED,
    (State.COMPLETED, Event.REOPEN): State.PROCESSING,
    (State.FAILED, Event.REOPEN): State.PROCESSING,
    (State.PARTIAL_FAILURE, Event.REOPEN): State.PROCESSING,
}
"""Every allowed transition; all others are refused.

The API, the functions, the agent, the tests and docs/reference/states.md use this table.
"""

TRANSITIONS: Mapping[State, frozenset[State]] = {
    state: frozenset(to for (source, _), to in TABLE.items() if source is state) for state in State
}
"""The states that follow each state, by any event."""

OPERATORS = frozenset(
    {
        Event.RETRY,
        Event.REPLAY,
        Event.RETRY_QUEUED,
        Event.REPLAY_QUEUED,
        Event.DISMISS,
        Event.REOPEN,
    }
)
"""Events that only an operator causes; only these move a job that has ended."""

_DONE: Mapping[Event, str] = {
    Event.CANCEL: "cancelled",
    Event.EXPIRE: "expired",
    Event.RETRY: "retried",
    Event.REPLAY: "replayed",
    Event.RETRY_QUEUED: "retried",
    Event.REPLAY_QUEUED: "replayed",
    Event.DISMISS: "dismissed",
}


def name_done(event: Event) -> str:
    """What a job is after an event, for texts; the event's name for those that nobody asks for."""
    return _DONE.get(event, event.value)


ENDED: frozenset[State] = frozenset(
    state
    for state in State
    if all(event in OPERATORS for source, event in TABLE if source is state)
)
"""Terminal states: only an operator moves a job on."""

OPEN: frozenset[State] = frozenset(State) - ENDED
"""States in which a job, or a group, can be cancelled."""

RETRIABLE: frozenset[State] = frozenset(
    source for source, event in TABLE if event in {Event.RETRY, Event.REOPEN}
) - {State.COMPLETED}
"""States in which a job can be retried, or members of a group; but for a group that is completed
though some of its members failed, as it tolerates them."""

UNSUCCESSFUL: frozenset[State] = ENDED - {State.COMPLETED, State.DISMISSED, State.SKIPPED}
"""Ends of jobs that may still be wanted: neither done, nor given up by an operator or for another
job. A bulk resubmission takes these unless states are named."""

NOT_RUNNING: frozenset[State] = OPEN - {State.ACTIVE, State.PROCESSING}
"""States of jobs that neither run nor have ended; groups do not count."""

OF_GROUPS: frozenset[Event] = frozenset(
    {
        Event.CHOOSE,
        Event.CHOOSE_NONE,
        Event.ALL_COMPLETED,
        Event.SOME_COMPLETED,
        Event.NONE_COMPLETED,
        Event.ALL_SKIPPED,
        Event.REOPEN,
    }
)
"""Events that move groups and no other jobs; once it has members, no others move a group."""

CLAIMABLE: frozenset[State] = frozenset(s for s, event in TABLE if event is Event.START)
"""States from which an agent may claim a job without looking at its lease."""

NEEDS_ATTENTION: frozenset[State] = frozenset(
    {State.FAILED, State.DEAD, State.BLOCKED, State.STALE, State.PARTIAL_FAILURE}
)
"""States of jobs that an operator should look at."""

INDEXED: frozenset[State] = NEEDS_ATTENTION | {State.SCHEDULED, State.WAITING, State.PROCESSING}
"""States whose jobs are in the index `attention`, so that a list of them reads no others. Jobs that
run as soon as an agent has room are in none of them and pay nothing for it (decision 0523)."""

EXIT_BLOCKED = 75
"""EX_TEMPFAIL of sysexits.h. Of jobs that have said what they wait for, and of handlers of job
types: a condition does not hold (`read_exit_codes`)."""

EXIT_PERMANENT = 65
"""EX_DATAERR of sysexits.h. Of handlers of job types: a permanent error, the job is not retried."""


class Outcome(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    SKIPPED = "skipped"
    """The job says that it does not apply where it ran."""
    FAILED = "failed"
    PERMANENT = "permanent"
    TIMED_OUT = "timed_out"
    OOM_KILLED = "oom_killed"
    REFUSED = "refused"
    """Not run: the host cannot provide a limit or an isolation that the job requires."""
    BLOCKED = "blocked"
    """The job, or a test before its start, found that a condition does not hold."""
    CANCELLED = "cancelled"
    """The job was cancelled while it ran."""
    EXPIRED = "expired"
    """The deadline passed while it ran."""
    INTERRUPTED = "interrupted"
    LOST = "lost"


class RetryPolicy(Protocol):
    """Number of attempts, and the waits between them (`joblane.job.spec`)."""

    @property
    def max_attempts(self) -> int:
        """Maximum number of attempts."""

    @property
    def backoff_s(self) -> Sequence[float]:
        """Upper bound of the wait after each attempt; the last one repeats."""


class ExitCodes(Protocol):
    """Exit codes that a job gives a meaning (`joblane.job.spec`)."""

    @property
    def permanent(self) -> Sequence[int]:
        """Codes after which another attempt would fail as well."""

    @property
    def blocked(self) -> Sequence[int]:
        """Codes that say that a condition does not hold."""

    @property
    def skipped(self) -> Sequence[int]:
        """Codes that say that the job does not apply where it ran."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What `settle` needs to know about an attempt."""

    number: int
    """1 for the first; interrupted attempts are not counted."""
    retry: RetryPolicy
    restartable: bool
    started: bool = True
    """False if the job was claimed and its program was never started."""
    assigned: str | None = None
    """The only agent that may run the job; None if others may."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """State and reason of a job after an attempt."""

    state: State
    reason: str
    """A sentence an operator can act on."""
    delay_s: float = 0.0
    """Seconds until the job's message may be seen again; 0 when the job has ended."""
    counted: bool = True
    """False gives the attempt back to the job."""


_FINAL: Mapping[Outcome, State] = {
    Outcome.SUCCEEDED: State.COMPLETED,
    Outcome.SKIPPED: State.SKIPPED,
    Outcome.CANCELLED: State.CANCELLED,
    Outcome.EXPIRED: State.EXPIRED,
}


def backoff_s(retry: RetryPolicy, attempt: int, rng: random.Random) -> float:
    """Seconds to wait after a failed attempt: full jitter, uniform between 0 and the bound.

    Full jitter spreads the retries of jobs that failed together best (Brooker, "Exponential
    Backoff And Jitter", AWS Architecture Blog, 2015).
    """
    bound = retry.backoff_s[min(attempt, len(retry.backoff_s)) - 1]
    return rng.uniform(0, bound)


def read_exit_codes(named: ExitCodes, *, typed: bool, waits: bool) -> Mapping[int, Outcome]:
    """Return the exit codes of a job that are neither success nor an ordinary failure.

    Programs use any code for their own purposes: Perl's Test::More exits with the number of failed
    tests. So 65 and 75 mean nothing by themselves. `typed` says that the job has a type, whose
    handlers end with these codes. `waits` says that the job has `requires`, or has named what it
    waits for on its line: then 75 is clear as well, unless `named` says otherwise.
    """
    own = dict.fromkeys(named.blocked, Outcome.BLOCKED)
    own |= dict.fromkeys(named.permanent, Outcome.PERMANENT)
    own |= dict.fromkeys(named.skipped, Outcome.SKIPPED)
    if typed:
        return own | {EXIT_PERMANENT: Outcome.PERMANENT, EXIT_BLOCKED: Outcome.BLOCKED}
    return {EXIT_BLOCKED: Outcome.BLOCKED} | own if waits else own


def outcome_of(
    *, exit_code: int | None, timed_out: bool, oom_killed: bool, codes: Mapping[int, Outcome]
) -> Outcome:
    """The outcome of an attempt, from what the sandbox reports and what its exit codes mean."""
    if timed_out:
        return Outcome.TIMED_OUT
    if oom_killed:
        return Outcome.OOM_KILLED
    if exit_code == 0:
        return Outcome.SUCCEEDED
    return Outcome.FAILED if exit_code is None else codes.get(exit_code, Outcome.FAILED)


def settle(outcome: Outcome, why: str, attempt: Attempt, rng: random.Random) -> Settlement:
    """Decide the next state of a job after an attempt.

    `why` says what happened ("exit code 3 after 0.2 s"); the returned reason adds what follows.
    An attempt that is handed back or blocked is not counted: otherwise a job could use up its
    attempts by waiting.
    """
    if outcome in _FINAL:
        return Settlement(_FINAL[outcome], why)
    if outcome in (Outcome.PERMANENT, Outcome.REFUSED):
        return Settlement(State.FAILED, f"{why}; not tried again")
    if attempt.restartable or not attempt.started:
        if outcome is Outcome.INTERRUPTED:
            return Settlement(State.PENDING, f"{why}; {_next_agent(attempt)}", counted=False)
        if outcome is Outcome.BLOCKED:
            return Settlement(State.BLOCKED, why, counted=False)
    elif outcome in (Outcome.INTERRUPTED, Outcome.BLOCKED, Outcome.LOST):
        return Settlement(State.FAILED, f"{why}; not restartable, so not started again")
    return _retry_or_end(outcome, why, attempt, rng)


def _next_agent(attempt: Attempt) -> str:
    if attempt.assigned is None:
        return "waits for another agent"
    return f"waits for agent {attempt.assigned}, the only one that may run it"


def _retry_or_end(outcome: Outcome, why: str, attempt: Attempt, rng: random.Random) -> Settlement:
    most = attempt.retry.max_attempts
    if not attempt.restartable:
        return Settlement(State.DEAD, f"{why}; not restartable, so not started again")
    reason = f"{why} (attempt {attempt.number} of {most})"
    if attempt.number >= most:
        return Settlement(State.DEAD, reason)
    delay = 0.0 if outcome is Outcome.LOST else backoff_s(attempt.retry, attempt.number, rng)
    return Settlement(State.RETRY, f"{reason}; next attempt in {delay:.0f} s", delay_s=delay)
