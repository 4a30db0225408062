"""Keys hold in every order of writes, crashes and repeated events, over the product's decisions.

`tests/support/key_model.py` has the steps, `key_search.py` what must hold: never more than
max_active jobs run, none runs without a slot, none is stuck, no slot is leaked, a key accepts no
more than its limits, slots rise, and no key lists a job that names another. A deep run searches the
cases of LARGE as well (minutes, and some GB of memory), and breaks each rule once: the search finds
it.

It found, in the product: an execution of `sequel` that is overtaken by another one with the same
event, while the job that it is about to move runs, fails, is retried, and waits again. It moved
that job to pending with its earlier slot (`JobMoves.grant`, `Head.queued_after`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

import pytest

from joblane.key import decide
from joblane.key.decide import End, Granted, Looked, Queued, Released, SeenJob
from joblane.key.policy import KeyLimits, WhenFull
from joblane.key.state import KeyState
from joblane.state.lifecycle import State
from tests.support.depth import spread
from tests.support.key_search import Violation, search
from tests.support.key_world import Case, Rules


def jobs(
    number: int, active: int = 1, queued: int = 0, when_full: WhenFull = "reject"
) -> tuple[KeyLimits, ...]:
    return (KeyLimits(max_active=active, max_queued=queued, when_full=when_full),) * number


SMALL = {
    "a crash": Case(jobs(3, queued=1), crashes=1),
    "a retry and a cancelled job": Case(jobs(2, queued=1), retries=1, cancels=1),
    "two that wait, batches of events, and a crash": Case(
        jobs(4, active=2, queued=2), there=3, batch=2, crashes=1, handlers=1
    ),
    "a holder is replaced, and one cancelled": Case(jobs(3, when_full="replace-oldest"), cancels=1),
    "one that waits is replaced, and a crash": Case(
        jobs(3, queued=1, when_full="replace-oldest"), crashes=1
    ),
    "one that was handed back is not replaced": Case(
        jobs(3, when_full="replace-oldest"), returns=1
    ),
    "a job is due, and a crash": Case(jobs(2, queued=1), scheduled=1, crashes=1),
    "two are due, one is cancelled, and a crash": Case(
        jobs(2, queued=1), scheduled=2, cancels=1, crashes=1
    ),
    "limits are lowered": Case(
        jobs(1, active=2, queued=1) + jobs(1, queued=1) + jobs(1, when_full="replace-oldest"),
        cancels=1,
    ),
    "a holder too many is not replaced": Case(
        jobs(2, active=2) + jobs(1, when_full="replace-oldest")
    ),
    "limits are raised": Case(jobs(2, queued=1) + jobs(1, active=2, queued=1), handlers=1),
    "a job is deleted": Case(jobs(2, queued=1), deletions=1),
    "an end is lost, and one cancelled": Case(jobs(2, queued=1), losses=1, cancels=1),
    "an end is lost, and the next one replaces": Case(
        jobs(3, queued=1, when_full="replace-oldest"), there=2, losses=1
    ),
    "an end is lost, and the next one coalesces": Case(
        jobs(2, when_full="coalesce"), losses=1, crashes=1
    ),
    "a full key coalesces": Case(jobs(3, queued=1, when_full="coalesce"), crashes=1),
    "a retry comes under another key": Case(jobs(2, queued=1), keys=2, retries=1),
}

LARGE = {
    "one of three is due, and a crash": Case(jobs(3, queued=1), scheduled=1, crashes=1),
    "a holder too many is not replaced, and one is cancelled": Case(
        jobs(2, active=2) + jobs(1, when_full="replace-oldest"), cancels=1
    ),
    "limits are raised, and a crash": Case(
        jobs(2, queued=1) + jobs(1, active=2, queued=1), crashes=1
    ),
    "one of three is deleted": Case(jobs(3, queued=1), deletions=1),
    "a retry and a repeated event": Case(jobs(2, queued=1), retries=1, repeats=1),
    "a crash and a cancelled job": Case(jobs(3, queued=1), crashes=1, cancels=1),
    "a retry and a crash": Case(jobs(2, queued=1), retries=1, crashes=1),
    "two slots, batches of events, and a crash": Case(
        jobs(3, active=2, queued=1), batch=2, crashes=1
    ),
    "one of two holders is replaced, and a crash": Case(
        jobs(3, active=2, when_full="replace-oldest"), crashes=1
    ),
    "a retry of a job that had waited, and a repeated event": Case(
        jobs(3, queued=1), there=2, retries=1, repeats=1
    ),
    "two crashes and a cancelled job": Case(jobs(3, queued=1), crashes=2, cancels=1),
    "a retry, a crash and a repeated event": Case(
        jobs(3, queued=1), there=2, retries=1, crashes=1, repeats=1
    ),
    "two retries and a crash": Case(jobs(2, queued=1), retries=2, crashes=1),
    "two slots, batches, and two troubles": Case(
        jobs(4, active=2, queued=1), there=2, batch=2, crashes=1, cancels=1
    ),
    "one that waits is replaced, with two crashes and a cancelled job": Case(
        jobs(3, queued=1, when_full="replace-oldest"), crashes=2, cancels=1
    ),
    "one is due, with a retry and a crash": Case(
        jobs(3, queued=1), there=1, scheduled=1, retries=1, crashes=1
    ),
    "an end is lost": Case(jobs(3, queued=1), losses=1),
    "an end is lost, with a retry and a crash": Case(
        jobs(3, queued=1), there=2, losses=1, retries=1, crashes=1
    ),
    "two ends are lost, and one repeated": Case(jobs(3, queued=1), losses=2, repeats=1),
    "a job is deleted, with a retry and a repeated event": Case(
        jobs(2, queued=1), deletions=1, retries=1, repeats=1
    ),
    "a retry under another key, and a crash": Case(jobs(2, queued=1), keys=2, retries=1, crashes=1),
    "a retry under another key, and a repeated event": Case(
        jobs(2, queued=1), keys=2, retries=1, repeats=1
    ),
    "a retry under another key whose end is lost": Case(
        jobs(2, queued=1), keys=2, retries=1, losses=1
    ),
    "retries to and fro between keys": Case(jobs(2, queued=1), keys=2, retries=2, handlers=1),
    "one leaves a key that others wait for, and an end is lost": Case(
        jobs(3, queued=1), there=2, keys=2, retries=1, losses=1, handlers=1
    ),
}


@pytest.mark.parametrize("case", SMALL.values(), ids=SMALL)
def test_in_every_order_of_writes_and_troubles_a_key_holds(case: Case):
    print(search(case))


@pytest.mark.deep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", LARGE.values(), ids=LARGE)
def test_in_every_order_of_more_troubles_a_key_holds(case: Case):
    print(search(case))


def release_any_slot(state: KeyState, ends: Iterable[End]) -> Released:
    """Does not ask which slot of a job has ended."""
    return decide.release(state, [end._replace(slot=state.active.get(end.job_id)) for end in ends])


def release_fresh(state: KeyState, ends: Iterable[End]) -> Released:
    """Lets only those go that get a slot now, as if no execution had crashed before."""
    released = decide.release(state, ends)
    fresh = tuple(grant for grant in released.granted if grant.job_id not in state.active)
    return Released(released.state, fresh)


def release_fresh_of_batch(state: KeyState, ends: Iterable[End]) -> Released:
    """The same only if an end of the batch is new."""
    released = decide.release(state, ends)
    return released if released.state is None else release_fresh(state, ends)


def release_listed_slots(state: KeyState, ends: Iterable[End]) -> Released:
    """Expects an ended job to have its slot in its row."""
    known = [end for end in ends if end.job_id in state.queued or end.slot is not None]
    return decide.release(state, known)


def release_alone(state: KeyState, ends: Iterable[End]) -> Released:
    """Frees slots and gives them to nobody."""
    released = decide.release(replace(state, queued=()), ends)
    if released.state is None:
        return released
    return Released(replace(released.state, queued=state.queued), ())


def release_holders_only(state: KeyState, ends: Iterable[End]) -> Released:
    """Forgets jobs that end while they wait."""
    return decide.release(state, [end for end in ends if end.job_id not in state.queued])


def readmit_same_slot(
    state: KeyState, job_id: str, limits: KeyLimits, started: Mapping[str, bool]
) -> Granted | Queued | decide.Rejected:
    """Lets a job whose end was not handled keep the number of its slot."""
    if job_id in state.active:
        return Granted(state, state.active[job_id])
    return decide.readmit(state, job_id, limits, started)


def admit_from_zero(
    state: KeyState, job_id: str, limits: KeyLimits, started: Mapping[str, bool]
) -> decide.Admission:
    """Begins to count grants anew with each job that finds the key idle."""
    return decide.admit(replace(state, grants=0) if state.idle else state, job_id, limits, started)


def admit_one_more(
    state: KeyState, job_id: str, limits: KeyLimits, started: Mapping[str, bool]
) -> decide.Admission:
    """Counts the new job only after it is accepted."""
    roomy = limits.model_copy(update={"max_queued": limits.max_queued + 1})
    return decide.admit(state, job_id, roomy, started)


def leave_alone(state: KeyState, job_id: str) -> Released:
    """Takes a job out of the key that it leaves, and gives its slot to nobody."""
    released = release_alone(state, [End(job_id, state.active.get(job_id))])
    return Released(released.state, ())


def look_at_started(
    state: KeyState,
    limits: KeyLimits,
    read: Callable[[Mapping[str, int | None]], Mapping[str, SeenJob]],
    doubted: Collection[str] = (),
) -> Looked | None:
    """Misses rows of jobs that have not started."""

    def started(slots: Mapping[str, int | None]) -> Mapping[str, SeenJob]:
        return {job: row for job, row in read(slots).items() if row.started}

    return decide.look(state, limits, started, doubted)


FAULTS: dict[str, tuple[str, Rules, Case]] = {
    "a late end frees the slot of a retry": (
        "runs without a slot",
        Rules(release=release_any_slot),
        Case(jobs(2), retries=1),
    ),
    "a retry keeps the number of its slot": (
        "runs without a slot",
        Rules(readmit=readmit_same_slot),
        Case(jobs(2), retries=1),
    ),
    "a repeated event lets nobody go": (
        "stuck",
        Rules(release=release_fresh),
        Case(jobs(2, queued=1), crashes=1),
    ),
    "a repeated event in a batch lets nobody go": (
        "stuck",
        Rules(release=release_fresh_of_batch),
        Case(jobs(3, active=1, queued=2), batch=2, crashes=1, cancels=1, handlers=1),
    ),
    "a repeated event sends no message": (
        "stuck",
        Rules(sends_again=False),
        Case(jobs(2, queued=1), crashes=1),
    ),
    "sequel sends before it moves": (
        "stuck",
        Rules(moves_first=False),
        Case(jobs(2, queued=1)),
    ),
    "an end without a slot frees none": (
        "leaked",
        Rules(release=release_listed_slots),
        Case(jobs(2, queued=1), cancels=1),
    ),
    "an end passes no slot on": (
        "stuck",
        Rules(release=release_alone),
        Case(jobs(2, queued=1)),
    ),
    "a job that ends while it waits stays listed": (
        "leaked",
        Rules(release=release_holders_only),
        Case(jobs(2, queued=1), cancels=1),
    ),
    "a key is written over what has changed": (
        "runs without a slot",
        Rules(compares_versions=False),
        Case(jobs(2)),
    ),
    "key and job are written apart": (
        "leaked",
        Rules(one_transaction=False),
        Case(jobs(1), crashes=1),
    ),
    "a retry is not in the index wake": (
        "stuck",
        Rules(in_wake=False),
        Case(jobs(1), retries=1, crashes=1),
    ),
    "a scheduled job is not in the index wake": (
        "stuck",
        Rules(in_wake=False),
        Case(jobs(1), scheduled=1, crashes=1),
    ),
    "a job that waits again keeps its old slot": (
        "leaked",
        Rules(empties_slot=False),
        Case(jobs(2, queued=1), retries=1, cancels=1),
    ),
    "a waiting job is claimed": (
        "waiting becomes active",
        Rules(may_claim=lambda row: row.state in {State.PENDING, State.WAITING}),
        Case(jobs(2, queued=1)),
    ),
    "a job that has started is replaced": (
        "active becomes skipped",
        Rules(may_replace=lambda row: row.state in {State.PENDING, State.ACTIVE}),
        Case(jobs(2, when_full="replace-oldest")),
    ),
    "an ended job is moved": (
        "cancelled becomes pending",
        Rules(may_grant=lambda row, _: row.state is not State.PENDING),
        Case(jobs(2, queued=1), cancels=1),
    ),
    "a slow sequel moves a job with an earlier slot": (
        "runs without a slot",
        Rules(may_grant=lambda row, _: row.state is State.WAITING),
        Case(jobs(3, queued=1), there=2, retries=1, repeats=1),
    ),
    "nobody looks at a key whose end was lost": (
        "stuck",
        Rules(looks_at_keys=False),
        Case(jobs(2, queued=1), losses=1),
    ),
    "an admission takes a job that has not started for one that is over": (
        "runs without a slot",
        Rules(look=look_at_started),
        Case(jobs(2)),
    ),
    "a job stays in the key that it leaves": (
        "listed by a key that it does not name",
        Rules(leaves=None),
        Case(jobs(1), keys=2, retries=1),
    ),
    "the key that a job leaves is written apart": (
        "listed by a key that it does not name",
        Rules(leaves_at_once=False),
        Case(jobs(1), keys=2, retries=1),
    ),
    "the key that a job leaves is written over what has changed": (
        "runs without a slot",
        Rules(compares_left=False),
        Case(jobs(2), keys=2, retries=1),
    ),
    "nobody gets the slot of a job that leaves": (
        "stuck",
        Rules(leaves=leave_alone),
        Case(jobs(2, queued=1), keys=2, retries=1, losses=1),
    ),
    "a late end frees a slot of the key that the job has now": (
        "runs without a slot",
        Rules(end_names_key=False),
        Case(jobs(1), keys=2, retries=1),
    ),
    "a slow sequel moves a job that waits for another key": (
        "runs without a slot",
        Rules(grant_names_key=False),
        Case(jobs(3, queued=1), there=2, keys=2, retries=2, repeats=1),
    ),
    "slots begin anew": ("slots do not rise", Rules(admit=admit_from_zero), Case(jobs(3))),
    "one too many is accepted": (
        "too many accepted",
        Rules(admit=admit_one_more),
        Case(jobs(2)),
    ),
}


@pytest.mark.parametrize("fault", spread([*FAULTS], 4))
def test_the_search_finds_a_broken_rule(fault: str):
    wrong, rules, case = FAULTS[fault]
    with pytest.raises(Violation) as found:
        print(search(case, rules))
    print(found.value)
    assert wrong == found.value.what
