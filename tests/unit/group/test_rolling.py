"""Groups with `max_concurrency`: members begin in chunks, and what that costs."""

import heapq
import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from joblane.group.record import PAGE, Group, Stop, chunk_of, has_room, roll
from joblane.state.lifecycle import State
from joblane.testing.memory.stream import Record
from tests.support.depth import budget
from tests.support.groups import GroupWorld
from tests.support.jobs import JOB
from tests.support.meter import item_size


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joblane.service.decide_again.FIRST_PAUSE_S", 0.0)


@pytest.mark.parametrize(
    ("limit", "chunk"), [(1, 1), (16, 1), (31, 1), (32, 2), (100, 6), (1000, 62), (10_000, 625)]
)
def test_a_chunk_is_a_sixteenth_of_the_limit(limit: int, chunk: int):
    assert chunk == chunk_of(limit)


def test_members_begin_once_a_chunk_is_free_or_all_that_wait_have_room():
    group = roll(Group(36, JOB), {}, 32, None, 2).group
    assert [False, True] == [has_room(group, open_members, 32, 2) for open_members in (31, 30)]
    group = roll(group, {0: State.COMPLETED, 1: State.COMPLETED, 2: State.DEAD}, 32, None, 2).group
    assert (35, 1) == (group.begun, group.waiting)
    assert has_room(group, 31, 32, 2), "the last one waits for no second place"
    assert not has_room(group, 32, 32, 2)


def at_a_chunk_less_one() -> GroupWorld:
    """A group of which one end more frees a chunk of three."""
    at = GroupWorld()
    at.begin_all(200, max_concurrency=48)
    for index in (3, 40):
        at.end(index)
        at.deliver()
    return at


def test_the_groups_row_is_written_once_for_a_chunk():
    at = at_a_chunk_less_one()
    before = at.group
    assert (48, frozenset({3, 40})) == (before.begun, at.rows.noted(before))
    at.end(17, State.FAILED)
    at.deliver()
    assert (before.version + 1, 51) == (at.group.version, at.group.begun)
    assert [48, 49, 50] == [index for index in at.open() if index >= 48]
    at.end(5)
    at.deliver()
    assert frozenset({5}) == at.rows.noted(at.group), "what was taken out is dropped"


def test_an_end_that_comes_twice_is_noted_once():
    at = GroupWorld()
    at.begin_all(200, max_concurrency=48)
    at.end(3)
    records = at.stream.take()
    for _ in range(3):
        at.deliver(records)
    assert (48, frozenset({3})) == (at.group.begun, at.rows.noted(at.group))


def test_failures_that_are_noted_stop_a_group_before_another_member_begins():
    at = GroupWorld()
    at.begin_all(200, max_concurrency=48, max_failures=1)
    for index in (0, 1):
        at.end(index, State.DEAD)
        at.deliver()
    assert not at.group.stop
    at.end(2)
    at.deliver()
    why = "2 members have failed, and max_failures is 1"
    assert (Stop(State.SKIPPED, why), 48) == (at.group.stop, at.group.begun)


def test_a_note_of_a_member_that_runs_again_frees_no_place():
    at = at_a_chunk_less_one()
    at.end(5, State.FAILED)
    at.deliver()  # 3, 5 and 40 are taken out, and still noted
    at.retry(5)
    for index in (6, 7, 8):
        at.end(index)
    at.deliver()
    assert 5 in at.open()
    at.rows.note_ends(at.group, [5], 9_999_999_999)  # an event of its first end, which comes late
    at.end(9)
    at.end(10)
    at.deliver()
    assert (frozenset({9, 10}), 48) == (at.rows.noted(at.group), len(at.group.open))
    assert 5 in at.open()


def test_notes_that_others_make_meanwhile_are_read_again():
    """Whoever finds that some of them are wrong drops those, and no others."""
    for point in range(1, 9):
        at = GroupWorld()
        at.begin_all(200, max_concurrency=48)
        at.end(40)
        calls = itertools.count(1)

        def meddle(at: GroupWorld = at, calls: Iterator[int] = calls, point: int = point) -> None:
            if point <= (call := next(calls)) < point + 4:
                at.rows.note_ends(at.group, [2 * call, 2 * call + 1], 9_999_999_999)

        at.meddle = meddle
        at.deliver()
        at.meddle = lambda: None
        assert (48, True) == (at.group.begun, 40 in at.rows.noted(at.group)), f"from call {point}"


def test_a_retry_finds_the_room_that_ends_have_left_after_all_had_begun():
    at = GroupWorld()
    at.begin_all(40, max_concurrency=32)
    for index in range(35):
        at.end(index, State.FAILED if index == 3 else State.COMPLETED)
        at.deliver()
    assert (40, list(range(35, 40))) == (at.group.begun, at.open())
    assert State.PENDING is at.retry(3).state


@pytest.mark.parametrize("dies", range(4))
def test_whoever_is_killed_after_any_call_leaves_no_chunk_behind(dies: int):
    """With its events delivered again, and nobody who looks at the group.

    The handler of an end dies that is noted beside others, that begins a chunk, or that is noted in
    place of those that were taken out.
    """
    for point in range(1, 99):
        at, died = GroupWorld(), False
        at.begin_all(60, max_concurrency=48)
        for number, index in enumerate((3, 40, 17, 5)):
            at.end(index)
            records = at.stream.take()
            if number == dies:
                died = at.is_killed(partial(at.deliver, records), point)
            at.deliver(records)
        assert [48, 49, 50] == [index for index in at.open() if index >= 48], f"after call {point}"
        assert frozenset({5}) == at.rows.noted(at.group), f"after call {point}"
        if not died:
            break
    assert point > 4


def test_a_member_whose_row_has_expired_never_runs_again():
    at = GroupWorld()
    at.begin_all(40, max_concurrency=32)
    at.end(0)
    at.end(1)
    records = at.stream.take()
    at.deliver(records)
    for index in range(2, 38):
        at.end(index)
        at.deliver()
    at.expand()
    assert (40, 40, [38, 39]) == (at.group.begun, at.group.placed, at.open())
    at.rows.delete(at.group.id_of(20))
    at.take_sent()
    at.deliver(records)
    assert ([38, 39], False) == (at.take_sent(), 20 in at.states())
    for index in (38, 39):
        at.end(index)
        at.deliver()
    assert "40 of 40 completed" == at.head.reason


def deliver_within(at: GroupWorld, first: list[Record], second: list[Record], point: int) -> bool:
    """Deliver to one handler, and before its call `point` to another; whether it came to that."""
    calls = itertools.count(1)

    def meddle() -> None:
        if next(calls) == point:
            at.deliver(second)

    at.meddle = meddle
    at.deliver(first)
    at.meddle = lambda: None
    return next(calls) > point


@pytest.mark.parametrize("swapped", [False, True])
def test_of_two_that_note_at_the_same_time_one_begins_the_chunk(*, swapped: bool):
    for point in range(1, 99):
        at = GroupWorld()
        at.begin_all(200, max_concurrency=48)
        at.end(3)
        at.deliver()
        at.end(17)
        first = at.stream.take()
        at.end(40)
        second = at.stream.take()
        both = (second, first) if swapped else (first, second)
        if not deliver_within(at, *both, point):
            break
        assert [48, 49, 50] == [index for index in at.open() if index >= 48], f"before {point}"
    assert point > 4


@pytest.mark.parametrize("swapped", [False, True])
def test_an_end_that_is_noted_while_the_last_members_begin_is_seen(*, swapped: bool):
    """The last one of its page: after that, nobody would look at the page."""
    for point in range(1, 99):
        at = GroupWorld()
        at.begin_all(102, max_concurrency=32)
        for start in range(0, 68, 4):
            for index in range(start, start + 4):
                at.end(index)
            at.deliver()
        assert (100, 32) == (at.group.begun, len(at.open()))
        at.end(80)
        first = at.stream.take()
        for index in at.open():
            at.end(index)
        second = at.stream.take()
        both = (second, first) if swapped else (first, second)
        if not deliver_within(at, *both, point):
            break
        assert ([100, 101], [0]) == (at.open(), list(at.group.done)), f"before {point}"
    assert point > 4


def run_all(members: int, limit: int, seed: int) -> tuple[GroupWorld, Counter[str]]:
    """Run a group whose members end one by one, and count write units by what is written.

    Members take times that are distributed exponentially, so that some take eight times the mean.
    """
    at, rng, units = GroupWorld(seed), random.Random(seed), Counter[str]()
    at.begin_all(members, max_concurrency=limit)
    at.stream.take()
    at.calls.clear()
    running = [(rng.expovariate(1), index) for index in range(min(members, limit))]
    heapq.heapify(running)
    begun = len(running)
    while running:
        now, index = heapq.heappop(running)
        at.end(index, State.FAILED if rng.random() < 0.02 else State.COMPLETED)
        at.stream.records, ends = [], at.stream.records
        at.deliver(ends)
        for record in at.stream.take():
            image = record["dynamodb"]
            images = [image[name] for name in ("OldImage", "NewImage") if name in image]
            job_id, sort_key = image["Keys"]["job_id"]["S"], image["Keys"]["sk"]["S"]
            size = max(map(item_size, images))
            kind = sort_key if sort_key == "ENDS" else "group" if job_id == JOB else "member"
            units[kind] += math.ceil(size / 1024)
        for other in range(begun, at.group.begun):
            heapq.heappush(running, (now + rng.expovariate(1), other))
        begun = at.group.begun
        assert len(running) <= limit
    assert (members, True) == (begun, at.head.ended)
    return at, units


@pytest.mark.parametrize(
    ("members", "limit"),
    [
        (budget(120, 1_000), 1),
        (budget(250, 1_000), 16),
        (budget(350, 2_000), 100),
        (budget(1_200, 10_000), 1_000),
    ],
)
def test_a_limit_costs_a_write_unit_a_member_at_most(members: int, limit: int):
    """Besides the put of each member, for which it waits: three units whatever the limit is."""
    at, units = run_all(members, limit, seed=7)
    assert units["group"] + units["ENDS"] <= members
    chunks = (members - limit) / chunk_of(limit) + 1
    assert units["group"] <= chunks + -(-members // PAGE) + 1
    reads = at.calls["get_item"] + at.calls["items"]
    assert reads <= 12 * members
