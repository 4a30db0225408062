"""Arrays whose ends, retries and cancels are handled by functions that die after an AWS call.

What is left undone is done by the same event or request, which comes again, or by requeue.
Submissions are in `test_crash_points_targets.py`.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import pytest

from functions.sequel import handler as sequel
from joblane.aws.clients import Clients
from joblane.aws.job import array_values
from joblane.aws.job import groups as job_groups
from joblane.group import record
from joblane.job.head import Head
from joblane.service.group import expansion, groups, restart, rolling, settlement, view
from joblane.service.group import members as group_members
from joblane.service.job import renewal
from joblane.state.lifecycle import ENDED, State
from tests.support.aws import configure
from tests.support.broadcast import Broadcast
from tests.support.crash_points import NEVER, Call, Killed, Process, kills
from tests.support.depth import spread
from tests.unit.group.test_arrays import look, sent, show

MEMBERS = 5
FAILED = (1, 3)

PAGED = (
    record,
    job_groups,
    array_values,
    expansion,
    groups,
    group_members,
    settlement,
    view,
    renewal,
)
"""Modules that know the size of a page; all are imported before one is changed."""


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pages, and one member in each transaction of a retry."""
    for module in PAGED:
        monkeypatch.setattr(module, "PAGE", 3)
    for module in (record, restart, rolling):
        monkeypatch.setattr(module, "MOST_RESTARTS", 1)
    monkeypatch.setattr("joblane.service.decide_again.FIRST_PAUSE_S", 0.0)


Do = Callable[[Broadcast, Clients], object]


@dataclass(frozen=True)
class Case:
    """What has happened to an array, and what is killed."""

    before: Callable[[Broadcast], object]
    do: Do
    twice: frozenset[int] = frozenset()
    """Members that run a second time, by a retry; if that is not asked for again, maybe not."""
    cancels: bool = False
    at_once: int | None = None


def run(at: Broadcast, *failed: int) -> None:
    """Agents run what is sent; a message of a job that runs or has ended changes nothing."""
    for job_id in sent(at):
        head = at.aws.job(job_id)
        if head.member_of is not None and head.state is State.PENDING:
            index = head.member_of.index
            at.end(index, State.DEAD if index in failed else State.COMPLETED)


def run_all(at: Broadcast) -> None:
    """All members have run to their ends, and some of them have failed."""
    while not at.head.ended:
        run(at, *FAILED)
        at.deliver()


def run_first(at: Broadcast) -> None:
    """What has a message has run to its end, which nobody has handled."""
    run(at, *FAILED)


def handle_ends(at: Broadcast, clients: Clients) -> None:
    """The function `sequel` handles what the stream has; what it dies with comes again."""
    records = at.stream.take()
    try:
        sequel.build(configure(sequel.Settings), clients, lambda: at.now).handle(records)
    except Killed:
        at.stream.records[:0] = records
        raise


def ask(verb: str, **body: object) -> Do:
    """A request for the group, until it has no further page."""

    def do(at: Broadcast, clients: Clients) -> None:
        query: dict[str, str] | None = None
        while True:
            status, answer = at.api_by(clients)("POST", f"{at.path}/{verb}", body or None, query)
            if status == HTTPStatus.CONFLICT:  # it was done before
                return
            assert status == HTTPStatus.OK, answer
            if answer["next"] is None:
                return
            query = {"next": answer["next"]}

    return do


BOTH = frozenset(FAILED)
CASES = {
    "all end": Case(run_first, handle_ends),
    "ends make room": Case(run_first, handle_ends, at_once=2),
    "a retry": Case(run_all, ask("retry"), BOTH),
    "a retry, one at a time": Case(run_all, ask("retry"), BOTH, at_once=1),
    "a retry by index": Case(run_all, ask("retry", indices="3"), frozenset({3})),
    "a cancel": Case(sent, ask("cancel"), cancels=True),
    "a cancel of what waits and runs": Case(
        lambda at: at.claim(1), ask("cancel"), cancels=True, at_once=2
    ),
}


def finish(at: Broadcast) -> None:
    """Everything goes on, and requeue looks now and then, until the group has ended."""
    for minute in range(6, 90, 6):
        at.deliver()
        look(at, minute * 60)
        stop = at.group().stop
        waiting = [head for head in members(at) if head.state is State.PENDING]
        assert stop is None or not waiting, "a cancel that died is finished by requeue"
        run(at)
        for head in members(at):
            if head.state is State.ACTIVE and head.member_of is not None:
                at.end(head.member_of.index)
        at.deliver()
        if at.head.ended and not sent(at):
            return
    raise AssertionError(f"it has not ended: {at.head.reason}")


def members(at: Broadcast) -> list[Head]:
    """The members that have rows."""
    group = at.group()
    return at.aws.jobs.heads([group.id_of(index) for index in range(group.members)])


def check(at: Broadcast, case: Case, *, whole: bool) -> None:
    """Each member has run as often as it may, and the group says what its members are."""
    found = members(at)
    numbers = [head.member_of.index for head in found if head.member_of is not None]
    assert sorted(set(numbers)) == sorted(numbers)
    for number, head in zip(numbers, found, strict=True):
        assert head.state in ENDED
        if case.cancels:
            assert head.epoch <= 1
        elif number in case.twice:
            assert head.epoch in ({2} if whole else {1, 2})
        else:
            assert 1 == head.epoch
    counts = Counter(head.state.value for head in found)
    if left := MEMBERS - len(found):
        assert case.cancels
        counts["cancelled"] += left
    assert (counts, True) == (show(at)["counts"], at.head.ended)


def kill_at(point: int, case: Case, *, again: bool) -> list[Call]:
    """One case with a death after call `point`; returns the calls until then."""
    limit: dict[str, Any] = {}
    if case.at_once is not None:
        limit["max_concurrency"] = case.at_once
    at = Broadcast(1, array={"size": MEMBERS}, **limit)
    case.before(at)
    process = Process(at.memory)
    process.starts(point)
    whole = point == NEVER or again
    try:
        case.do(at, process.clients)
        assert point == NEVER, f"it makes no call {point} now"
    except Killed:
        if again:
            case.do(at, at.aws.clients)
    if case.cancels and whole:
        before = [head.epoch for head in members(at)]
        run(at)
        assert before == [head.epoch for head in members(at)], "claimed after the cancel"
    records = at.stream.records[:]
    finish(at)
    check(at, case, whole=whole)
    at.stream.records = records
    at.deliver()  # the events come again, late
    assert [] == sent(at)
    check(at, case, whole=whole)
    return process.calls


WAYS = [(name, again) for name in CASES for again in (True, False)]
"""Each case, asked again after the death or left to the stream and requeue."""


@pytest.mark.parametrize(("name", "again"), spread(WAYS, 5))
def test_killed_after_any_call_each_member_runs_as_often_as_it_may(name: str, *, again: bool):
    calls = kill_at(NEVER, CASES[name], again=again)
    points = kills(calls)
    print(f"{len(calls)} calls, killed after {points}")
    for point in points:
        kill_at(point, CASES[name], again=again)
