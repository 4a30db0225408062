"""What follows from the ends of members of a group: in any order, twice, and after crashes."""

import random
from functools import partial
from typing import Any

import pytest

from joblane.contract.problems import TryAgain
from joblane.errors import Changed
from joblane.group.record import retry_members
from joblane.job.moves import NotAllowed
from joblane.service.group.progress import advance
from joblane.state.lifecycle import State
from tests.support.aws import DESCRIPTOR
from tests.support.groups import FIRST, NOW_MS, GroupWorld
from tests.support.jobs import JOB


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joblane.service.decide_again.FIRST_PAUSE_S", 0.0)


@pytest.mark.parametrize(
    ("ends", "state", "reason"),
    [
        ([State.COMPLETED] * 3, State.COMPLETED, "3 of 3 completed"),
        ([State.FAILED] * 3, State.FAILED, "0 of 3 completed; 3 failed"),
        ([State.SKIPPED] * 3, State.SKIPPED, "0 of 3 completed; 3 skipped"),
        (
            [State.SKIPPED, State.COMPLETED, State.SKIPPED],
            State.COMPLETED,
            "1 of 3 completed; 2 skipped",
        ),
        (
            [State.DEAD, State.COMPLETED, State.CANCELLED],
            State.PARTIAL_FAILURE,
            "1 of 3 completed; 1 dead, 1 cancelled",
        ),
    ],
)
def test_the_last_member_settles_the_group(ends: list[State], state: State, reason: str):
    at = GroupWorld()
    at.begin_all(3)
    for index, end in enumerate(ends):
        assert State.PROCESSING is at.state()
        at.end(index, end)
        at.deliver()
    head = at.head
    assert (state, reason, None) == (head.state, head.reason, head.wake_at_ms)
    assert head.expires_at is not None
    assert [State.PROCESSING, state] == [step.state for step in head.timeline]


@pytest.mark.parametrize("spec", [{}, {"max_concurrency": 2}])
@pytest.mark.parametrize(
    ("results", "changed"),
    [
        (['{"changed":true}', None], True),
        (['{"changed":false}', '{"changed":"yes"}'], False),
        (["true", '["changed"]'], False),
    ],
)
def test_a_group_has_changed_something_if_a_member_says_so(
    spec: dict[str, Any], results: list[str | None], *, changed: bool
):
    at = GroupWorld()
    at.begin_all(3, **spec)
    for index, result in enumerate(results):
        at.end(index, result=result)
        at.deliver()
    at.end(2, State.FAILED)
    at.deliver()
    assert (State.PARTIAL_FAILURE, changed) == (at.state(), at.group.changed)
    at.retry(2)
    at.deliver()
    at.end(2)
    at.deliver()
    assert (State.COMPLETED, changed) == (at.state(), at.group.changed)


def test_ends_that_come_again_change_nothing():
    at = GroupWorld()
    at.begin_all(2)
    at.end(0)
    at.end(1, State.DEAD)
    records = at.stream.take()
    at.deliver(records)
    before = at.head
    for record in records:
        at.deliver([record])
    assert before == at.head


def test_members_that_are_begun_and_have_no_row_yet_keep_the_group_open():
    at = GroupWorld()
    head = at.submit(3)
    at.place(head, [0, 1])
    at.end(0)
    at.end(1)
    at.deliver()
    assert State.PROCESSING is at.state()
    at.place(head, [2])
    at.end(2)
    at.deliver()
    assert State.COMPLETED is at.state()


def test_a_group_that_takes_longer_than_its_members_are_kept_ends_all_the_same():
    at = GroupWorld()
    at.begin_all(3)
    at.end(0)
    at.deliver()
    at.rows.delete(at.group.id_of(0))
    at.end(1)
    at.end(2, State.FAILED)
    at.deliver()
    assert "2 of 3 completed; 1 failed" == at.head.reason


def test_a_retry_at_any_moment_opens_the_group_again():
    at = GroupWorld()
    at.begin_all(2)
    at.end(0)
    at.end(1, State.FAILED)
    assert State.PENDING is at.retry(1).state
    at.deliver()
    assert State.PROCESSING is at.state()
    at.end(1, State.DEAD)
    at.deliver()
    assert State.PARTIAL_FAILURE is at.state()
    at.take_sent()
    assert State.PENDING is at.retry(1).state
    head = at.head
    assert (State.PROCESSING, None, [1]) == (head.state, head.expires_at, at.take_sent())
    assert head.wake_at_ms is not None
    assert head.reason.startswith("retried; waits for its 2 members")
    at.end(1)
    at.deliver()
    assert State.COMPLETED is at.state()


def test_who_retries_a_member_that_runs_or_whose_group_is_gone_is_refused():
    at = GroupWorld()
    at.begin_all(1)
    with pytest.raises(NotAllowed, match="pending cannot be retried"):
        at.retry(0)
    at.end(0, State.FAILED)
    at.deliver()
    at.rows.delete_group(at.head)
    head = at.rows.heads([FIRST])[0]
    with pytest.raises(NotAllowed, match="was deleted"):
        at.restarts.one(head, "retried", NOW_MS, exact=False)


def test_a_group_that_changes_on_every_try_is_handled_again(monkeypatch: pytest.MonkeyPatch):
    at = GroupWorld()
    at.begin_all(1)
    at.end(0)

    def changed(*_: Any) -> None:
        raise Changed

    monkeypatch.setattr(at.store, "write_group", changed)
    with pytest.raises(TryAgain):
        at.deliver()


# --- with max_concurrency


def test_a_rolling_group_begins_a_member_for_each_that_has_ended():
    at = GroupWorld()
    at.begin_all(5, max_concurrency=2)
    assert [0, 1] == sorted(at.states())
    at.end(1)
    at.deliver()
    assert [0, 2] == sorted(at.open())
    assert [0, 1, 2] == at.take_sent()


def test_failures_stop_a_rolling_group():
    at = GroupWorld()
    at.begin_all(5, max_concurrency=2, max_failures=0)
    at.end(1, State.DEAD)
    at.deliver()
    assert [0] == at.open()
    at.end(0)
    at.deliver()
    assert (
        "1 of 5 completed; 1 dead, 3 skipped: 1 member has failed, and max_failures is 0"
        == at.head.reason
    )
    at.retry(1)
    assert (State.PROCESSING, [1, 2]) == (at.state(), sorted(at.open()))


def test_a_retry_waits_for_room():
    at = GroupWorld()
    at.begin_all(3, max_concurrency=1)
    at.end(0, State.FAILED)
    at.deliver()
    assert State.FAILED is at.retry(0).state
    assert ([1], (0,)) == (at.open(), at.again())
    at.retry(0)
    assert (0,) == at.again()
    at.end(1)
    at.deliver()
    assert ([0], ()) == (at.open(), at.again())


def test_more_members_are_retried_than_fit_into_a_transaction():
    at = GroupWorld()
    at.begin_all(60, max_concurrency=60)
    for index in range(60):
        at.end(index, State.FAILED)
    at.deliver()
    assert State.FAILED is at.state()
    at.take_sent()
    assert (60, {}) == at.restarts.members(JOB, range(60), "retried", NOW_MS)
    assert (60, 60) == (len(at.open()), len(at.take_sent()))


def test_members_that_wait_for_a_retry_are_let_go_however_many_transactions_it_takes():
    """More than `TRIES` of them: only a write that is refused counts as a try."""
    at = GroupWorld()
    at.begin_all(330, max_concurrency=330)
    for index in range(330):
        at.end(index, State.FAILED)
    at.deliver()
    head = at.head
    group = retry_members(at.group, range(330), rolling=True)
    at.rows.write_group(head, advance(head, group, NOW_MS, DESCRIPTOR.retention, "retried"))
    at.take_sent()
    at.settlement.settle(JOB)
    assert (330, (), list(range(330))) == (len(at.open()), at.again(), at.take_sent())


def test_a_page_of_members_is_retried_in_transactions():
    at = GroupWorld()
    at.begin_all(150)
    for index in range(0, 150, 2):
        at.end(index, State.DEAD)
    for index in range(1, 150, 2):
        at.end(index)
    at.deliver()
    assert State.PARTIAL_FAILURE is at.state()
    assert (50, {}) == at.restarts.members(JOB, range(100), "retried", NOW_MS)
    assert (State.PROCESSING, [0]) == (at.state(), at.group.open_pages)
    assert (0, {}) == at.restarts.members(JOB, range(100), "retried", NOW_MS)


# --- crashes, and what it costs


def rolling_at_an_end() -> GroupWorld:
    """A rolling group of which a member has ended and another one is to be retried."""
    at = GroupWorld()
    at.begin_all(6, max_concurrency=2)
    at.end(0, State.FAILED)
    at.deliver()
    at.retry(0)
    at.end(1)
    at.end(2)
    return at


@pytest.mark.parametrize("again", ["delivered again", "looked at"])
def test_whoever_is_killed_after_any_call_leaves_nothing_behind(again: str):
    expected = rolling_at_an_end()
    expected.deliver()
    for point in range(1, 99):
        at = rolling_at_an_end()
        records = at.stream.take()
        if not at.is_killed(partial(at.deliver, records), point):
            break
        if again == "delivered again":
            at.deliver(records)
        else:
            at.expand()
            at.look()
        assert expected.open() == at.open(), f"after call {point}"
        assert expected.group.open == at.group.open, f"after call {point}"
        due = {n for n in at.open() if at.member(n).wake_at_ms is not None}
        assert set(at.open()) <= due | set(at.take_sent()), f"no message after call {point}"
    assert point > 8


def test_what_it_costs_to_settle_a_thousand_members_that_end_one_by_one():
    """A twelfth of the reads of members that it takes to read a page at each end.

    While `k` of a page's 100 members are open, a member that is read is open with a chance of
    k/100, so that an end costs about 100/k reads, and the first look of 4.
    """
    at = GroupWorld(seed=14)
    at.begin_all(1000)
    order = list(range(1000))
    random.Random(14).shuffle(order)
    at.calls.clear()
    for index in order:
        at.end(index)
        at.deliver()
    assert State.COMPLETED is at.state()
    # Of the group one read an end, and one write a page.
    expected = {"get_item": 1000, "batch_get_item": 1328, "items": 8408, "update_item": 10}
    assert expected == at.calls


def test_ends_of_one_batch_are_settled_together():
    at = GroupWorld(seed=14)
    at.begin_all(1000)
    for index in range(1000):
        at.end(index)
    at.calls.clear()
    at.deliver()
    assert {"get_item": 1, "batch_get_item": 50, "items": 1000, "update_item": 1} == at.calls
