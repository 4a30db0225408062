"""The decisions of a key: admission, and what follows the end of a job. Pure.

Each takes the state of a key and returns the next one, which its caller writes only if the row has
not changed since (`joblane.aws.key.keys`); else it decides anew. tests/unit/key/test_model.py tries
every order of writes, crashes and repeated events over these functions.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from joblane.key.policy import KeyLimits
from joblane.key.state import Grant, KeyState
from joblane.state.lifecycle import ENDED, State

RejectReason = Literal["active-limit", "queue-depth"]


@dataclass(frozen=True, slots=True)
class Granted:
    """The job gets a slot: its message is sent, then job and key are written."""

    state: KeyState
    slot: int


@dataclass(frozen=True, slots=True)
class Queued:
    """The job waits for a slot; it has no message."""

    state: KeyState


@dataclass(frozen=True, slots=True)
class Replaced:
    """The job is accepted, and an older one is skipped in the same transaction.

    Only while that one has not started; else the whole write is refused.
    """

    state: KeyState
    victim: str
    slot: int | None
    """The slot that the new job gets; None if it waits for one."""


@dataclass(frozen=True, slots=True)
class Coalesced:
    """The job is not accepted: one that is there stands for it. Nothing is written."""

    job_id: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """The job is not accepted. Nothing is written."""

    reason: RejectReason
    """`active-limit` if a job with a slot has started, `queue-depth` if none has."""
    state: KeyState
    """The state that it found."""


Admission = Granted | Queued | Replaced | Coalesced | Rejected


class End(NamedTuple):
    """The end of a job, as the stream of the jobs table shows it."""

    job_id: str
    slot: int | None
    """The slot that it had; None if it ended before its row had one."""
    stale: bool = False
    at_ms: int | None = None
    """Unix time of the end in milliseconds; None where it is not known."""


class SeenJob(NamedTuple):
    """A job of a key, as its row was read."""

    state: State
    slot: int | None
    started: bool
    """Whether it has left the state in which a newer job may replace it."""


def find_blockers(state: KeyState, limits: KeyLimits) -> tuple[str, ...]:
    """Jobs whose rows a decision of `admit` depends on: those that keep a new job out.

    Not the one that it coalesces with, which its caller reads after the decision.
    """
    if not replace(state, limits=limits).full or limits.when_full == "coalesce":
        return ()
    if limits.when_full == "replace-oldest" and state.queued:
        return state.queued[:1]
    return state.holders


def ends_of(slots: Mapping[str, int | None], seen: Mapping[str, SeenJob]) -> list[End]:
    """Ends of those jobs that had ended, or were gone, when their rows were read.

    `slots` has the slots of the jobs asked about, None for one that waits; `seen` those that have a
    row.
    """
    ends = []
    for job_id, slot in slots.items():
        row = seen.get(job_id)
        if row is None:
            ends.append(End(job_id, slot))
        elif row.state in ENDED:
            ends.append(End(job_id, row.slot, stale=row.state is State.STALE))
    return ends


def admit(
    state: KeyState, job_id: str, limits: KeyLimits, started: Mapping[str, bool]
) -> Admission:
    """Decide on a new job.

    `started` says of each holder in `find_blockers` whether an agent has claimed it.
    """
    state = replace(state, limits=limits)
    if len(state.active) < limits.max_active and not state.queued:
        return _grant(state, job_id)
    if not state.full:
        return _queue(state, job_id)
    match limits.when_full:
        case "coalesce":
            return Coalesced((*state.queued, *state.holders)[0])
        case "replace-oldest":
            if state.queued:
                rest = replace(state, queued=state.queued[1:], replaced=state.replaced + 1)
                return Replaced(_queue(rest, job_id).state, state.queued[0], None)
            # With lowered limits a key may have more holders than slots: then one that ends frees
            # none, and the new job waits.
            for holder in state.holders if len(state.active) <= limits.max_active else ():
                if not started.get(holder, True):
                    left = {job: slot for job, slot in state.active.items() if job != holder}
                    rest = replace(state, active=left, replaced=state.replaced + 1)
                    granted = _grant(rest, job_id)
                    return Replaced(granted.state, holder, granted.slot)
    return Rejected(_reason(state, started), state)


def readmit(
    state: KeyState, job_id: str, limits: KeyLimits, started: Mapping[str, bool]
) -> Granted | Queued | Rejected:
    """Decide on an ended job that is retried or replayed.

    If its end was not handled yet, it still has its slot, and keeps it with a new grant:

        sequel                       table                      API
                                     failed, slot 7
                                     pending, slot 8    <-----  move: retry
        end of slot 7: 8 is not 7,
        so nothing is freed
    """
    state = replace(state, limits=limits)
    if job_id in state.active:
        return _grant(state, job_id)
    if len(state.active) < limits.max_active and not state.queued:
        return _grant(state, job_id)
    return Rejected(_reason(state, started), state) if state.full else _queue(state, job_id)


@dataclass(frozen=True, slots=True)
class Released:
    """What follows ends of jobs."""

    state: KeyState | None
    """The next state; None if nothing changes: the events came before."""
    granted: tuple[Grant, ...]
    """Jobs to let go: those that got a slot; all that have one if one of the ends came before. That
    makes good a crash between the write of the key and the moves of those that got a slot then."""


def release(state: KeyState, ends: Iterable[End], *, again: bool = False) -> Released:
    """Take ended jobs out of the key, and give their slots to those that wait.

    A job that was retried since is told apart by its slot (`readmit`). A job that ended without a
    slot in its row was waiting, or had just been granted one. With `again`, jobs are let go as if
    an end had come before.
    """
    active, queued, stale = dict(state.active), list(state.queued), state.stale
    repeated = again
    for end in ends:
        if end.job_id in active and end.slot in (None, active[end.job_id]):
            del active[end.job_id]
            stale += end.stale
        elif end.job_id in queued and end.slot is None:
            queued.remove(end.job_id)
        else:
            repeated = True
    grants, granted = state.grants, []
    while queued and len(active) < state.limits.max_active:
        grants += 1
        active[queued[0]] = grants
        granted.append(Grant(queued.pop(0), grants))
    after = replace(state, grants=grants, active=active, queued=tuple(queued), stale=stale)
    if repeated:
        granted = [Grant(job, after.active[job]) for job in after.holders]
    return Released(None if after == state else after, tuple(granted))


LOOKS = 16
"""Most reads of jobs of a key for one decision: each one but the last finds jobs that are over."""


class Looked(NamedTuple):
    """A key without those of its jobs that are over, as far as a decision depends on them."""

    state: KeyState
    started: dict[str, bool]
    """Which of its jobs have started, of those that were read."""
    granted: tuple[Grant, ...] = ()
    """Jobs that get the slots of those that are over."""


def look(
    state: KeyState,
    limits: KeyLimits,
    read: Callable[[Mapping[str, int | None]], Mapping[str, SeenJob]],
    doubted: Collection[str] = (),
) -> Looked | None:
    """Take those out of a key that keep a new job out although they are over.

    `read` reads the rows of jobs after that of the key; `doubted` are further jobs to read, if the
    key has them. Returns None if the key must be read again: one of them was retried meanwhile, or
    too many are over.
    """
    started: dict[str, bool] = {}
    granted: tuple[Grant, ...] = ()
    for _ in range(LOOKS):
        asked = [*find_blockers(state, limits), *doubted]
        listed = {**dict.fromkeys(state.queued), **state.active}
        slots = {job: listed[job] for job in asked if job in listed and job not in started}
        if not slots:
            return Looked(state, started, granted)
        rows = read(slots)
        ends = ends_of(slots, rows)
        over = {end.job_id for end in ends}
        started |= {job: row.started for job, row in rows.items() if job not in over}
        if ends:
            released = release(state, ends)
            if released.state is None:
                return None
            fresh = (grant for grant in released.granted if grant.job_id not in state.active)
            state, granted = released.state, (*granted, *fresh)
    return None


def _grant(state: KeyState, job_id: str) -> Granted:
    slot = state.grants + 1
    return Granted(replace(state, grants=slot, active={**state.active, job_id: slot}), slot)


def _queue(state: KeyState, job_id: str) -> Queued:
    queued = (*state.queued, job_id)
    return Queued(replace(state, queued=queued, queued_total=state.queued_total + 1))


def _reason(state: KeyState, started: Mapping[str, bool]) -> RejectReason:
    return "active-limit" if any(started.get(job, False) for job in state.active) else "queue-depth"
