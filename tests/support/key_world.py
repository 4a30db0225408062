"""The values of the model of a key (`tests.support.key_model`), and their changes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from joblane.key import decide
from joblane.key.decide import (
    Admission,
    End,
    Granted,
    Looked,
    Queued,
    Rejected,
    Released,
    SeenJob,
)
from joblane.key.policy import KeyLimits
from joblane.key.state import Grant, KeyState
from joblane.state.lifecycle import ENDED, TRANSITIONS, State

IDS = "abcdef"

RETRIED = frozenset({State.FAILED, State.DEAD})
"""States in which an operator may start a job again."""

HELD = frozenset({State.PENDING, State.ACTIVE})
"""States in which a job must have a slot."""

MESSAGES = 2
"""More messages of a job than this count as this many: each is one more try to claim it."""

T = TypeVar("T")

Limits = tuple[KeyLimits, ...]


class Row(NamedTuple):
    """A job's row in the table."""

    state: State
    slot: int | None = None
    claimed: bool = False
    """Whether its epoch is above 0."""
    queued_after: int | None = None
    """`Head.queued_after`."""
    due: bool = False
    """Whether the index `wake` has it, because its message may not have been sent."""
    of: int = 0
    """The key that it names."""


class Key(NamedTuple):
    """A key's row: `KeyState` without its counters, and quick to hash."""

    grants: int
    active: tuple[Grant, ...]
    queued: tuple[str, ...]
    limits: int
    """Index in the limits of the case."""


class Plan(NamedTuple):
    """What an admission decided to write."""

    key: Key | None
    """None if it does not change."""
    row: Row
    seen: Row | None
    """The job as it was read."""
    victim: str | None = None
    granted: tuple[Grant, ...] = ()
    """Jobs that get the slots of those that were found to be over."""
    left: Key | None = None
    """The key that the job leaves, without it; None if it leaves none that lists it."""
    passed_on: tuple[Grant, ...] = ()
    """Jobs that get its slot there."""


class Request(NamedTuple):
    """A process that admits a job."""

    kind: Literal["submit", "retry", "wake"]
    phase: Literal[
        "read", "send", "orphan", "write", "grant", "finish grant", "leave", "send after", "over"
    ]
    """`orphan`: sends the message of a decision that will be refused. `leave`: writes the key that
    the job has left, which the product does in the transaction of `write`."""
    plan: Plan | None = None
    of: int = 0
    """The key that admits it."""


class Handler(NamedTuple):
    """An execution of the function `sequel`, or the requeue function that looks at the key."""

    ends: tuple[End, ...]
    phase: Literal["read", "write", "grant", "finish grant"]
    key: Key | None = None
    granted: tuple[Grant, ...] = ()
    looks: bool = False
    """Whether it is the requeue function, and no event of the stream."""
    of: int = 0
    """Its key."""


class Event(NamedTuple):
    """The end of a job under a key, as the stream has it."""

    of: int
    end: End


class World(NamedTuple):
    """One state of everything."""

    keys: tuple[Key, ...]
    rows: tuple[Row | None, ...]
    messages: tuple[int, ...]
    requests: tuple[Request | None, ...]
    """One for each job; None before its submission."""
    handlers: tuple[Handler | None, ...]
    ends: frozenset[Event]
    """Events that the stream has not finished with."""
    latest: tuple[Grant, ...]
    """The slot of the latest claim under each key."""
    watched: tuple[bool, ...]
    """Whether the index `waits` has each key."""
    problem: str
    """What a step did that must not be."""
    crashes: int
    """Left, as the next ones."""
    cancels: int
    retries: int
    repeats: int
    deletions: int
    returns: int
    losses: int


@dataclass(frozen=True)
class Case:
    """What there is, and how often each trouble may strike."""

    limits: tuple[KeyLimits, ...]
    """Of each job."""
    there: int = 0
    """How many of the jobs, the first ones, were submitted before the search begins."""
    scheduled: int = 0
    """How many of the jobs, the last ones, are stored and wait for their `run_at`."""
    batch: int = 1
    """Most events that one execution of `sequel` handles at once."""
    handlers: int = 2
    crashes: int = 0
    cancels: int = 0
    """Of jobs that do not run; a deadline that passes is the same."""
    retries: int = 0
    """By operators, of jobs that failed; with 0 no job fails."""
    repeats: int = 0
    """Events that come again, also to two executions at once."""
    deletions: int = 0
    returns: int = 0
    """Jobs that their agents hand back."""
    losses: int = 0
    """Events that are lost. With more than 0 the requeue function looks at the key."""
    keys: int = 1
    """With 2 a retry may come under the other key, as by another version of the job's type."""


@dataclass(frozen=True)
class Rules:
    """The rules of the protocol; tests break one each to see that the search finds it."""

    admit: Callable[[KeyState, str, KeyLimits, Mapping[str, bool]], Admission] = decide.admit
    readmit: Callable[
        [KeyState, str, KeyLimits, Mapping[str, bool]], Granted | Queued | Rejected
    ] = decide.readmit
    release: Callable[[KeyState, Iterable[End]], Released] = decide.release
    look: Callable[..., Looked | None] = decide.look
    looks_at_keys: bool = True
    """The requeue function looks at keys that jobs wait for."""
    compares_versions: bool = True
    """A key is written only if it has not changed since it was read."""
    one_transaction: bool = True
    """An admission writes key and job at once."""
    moves_first: bool = True
    """`sequel` moves a job to pending before it sends its message."""
    sends_again: bool = True
    """`sequel` sends another message for a job that is pending already."""
    in_wake: bool = True
    """A job that becomes pending before its message is sent is in the index `wake`."""
    empties_slot: bool = True
    """A job that is queued again has no slot in its row."""
    leaves: Callable[[KeyState, str], Released] | None = lambda state, job: decide.release(
        state, [End(job, state.active.get(job))]
    )
    """What becomes of the key that a job leaves; None: it stays as it is."""
    leaves_at_once: bool = True
    """The key that a job leaves is written in the transaction of the move."""
    compares_left: bool = True
    """So it is only if it has not changed since it was read."""
    end_names_key: bool = True
    """An end frees a slot of the key that the job had then, and not of the one that it has now."""
    grant_names_key: bool = True
    """A job is let go only by the key that it names."""
    may_claim: Callable[[Row], bool] = lambda row: row.state is State.PENDING
    may_replace: Callable[[Row], bool] = lambda row: (
        row.state is State.WAITING or (row.state is State.PENDING and not row.claimed)
    )
    may_grant: Callable[[Row, int], bool] = lambda row, slot: (
        row.state is State.WAITING and (row.queued_after is None or row.queued_after < slot)
    )


def key_state(key: Key, of_case: Limits) -> KeyState:
    return KeyState(key.grants, dict(key.active), key.queued, of_case[key.limits])


def key_of(state: KeyState, limits: int) -> Key:
    active = tuple(Grant(job, state.active[job]) for job in state.holders)
    return Key(state.grants, active, state.queued, limits)


def has_started(row: Row | None) -> bool:
    """What the product counts as started: what the transaction would not replace."""
    return row is None or not Rules().may_replace(row)


def seen(row: Row) -> SeenJob:
    """A row as the product reads it."""
    return SeenJob(row.state, row.slot, has_started(row))


def outdated(request: Request | None) -> Request | None:
    """A request after a write of the key that its plan was made on."""
    if request is None or request.plan is None or request.plan.key is None:
        return request
    return Request(request.kind, "orphan" if request.phase == "send" else "read", of=request.of)


def put(values: tuple[T, ...], n: int, value: T) -> tuple[T, ...]:
    return (*values[:n], value, *values[n + 1 :])


def with_request(world: World, n: int, request: Request | None) -> World:
    return world._replace(requests=put(world.requests, n, request))


def with_handler(world: World, n: int, handler: Handler | None) -> World:
    return world._replace(handlers=put(world.handlers, n, handler))


def with_row(world: World, n: int, row: Row | None) -> World:
    before = world.rows[n]
    if before is None or row is None or row.state is before.state:
        return world._replace(rows=put(world.rows, n, row))
    started = before.state is State.ACTIVE
    # A job may say itself that it does not apply, which no job of a model does.
    if row.state not in TRANSITIONS[before.state] or (started and row.state is State.SKIPPED):
        world = world._replace(problem=f"{before.state} becomes {row.state}")
    return world._replace(rows=put(world.rows, n, row))


def with_end(world: World, n: int, state: State) -> World:
    """Write the end of a job. The stream has an event of it, if its slot is to be freed."""
    row = world.rows[n]
    if row is None:
        return world
    after = with_row(world, n, row._replace(state=state, due=False))
    if state not in RETRIED:  # agents delete what is left of its messages
        after = after._replace(messages=put(after.messages, n, 0))
    return after if state is State.SKIPPED else with_event(after, n)


def with_event(world: World, n: int) -> World:
    """Let the stream have an event of the end of a job.

    It has none of a skipped job: the same write gave its place in the key to another one.
    """
    row = world.rows[n]
    return (
        world
        if row is None
        else world._replace(ends=world.ends | {Event(row.of, End(IDS[n], row.slot))})
    )


def without_wake(world: World, n: int) -> World:
    """Take a job out of the index `wake`."""
    row = world.rows[n]
    return world if row is None else with_row(world, n, row._replace(due=False))


def with_message(world: World, n: int) -> World:
    row = world.rows[n]
    if row is not None and row.state in ENDED - RETRIED:
        return world
    messages = min(world.messages[n] + 1, MESSAGES)
    return world._replace(messages=put(world.messages, n, messages))


def without_message(world: World, n: int) -> World:
    return world._replace(messages=put(world.messages, n, world.messages[n] - 1))
