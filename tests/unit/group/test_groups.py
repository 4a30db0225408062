"""The progress of a group, as a value: pages, members at once, failures, retries."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joblane.aws.job.group_items import group_value, read_group
from joblane.group.record import (
    PAGE,
    Group,
    MemberOf,
    Stop,
    begin_page,
    cancel_group,
    note_placed,
    page_done,
    retry_members,
    roll,
)
from joblane.group.states import GROUP_STATES, SETTLES, STATES, SeenMemberStates, sentence, state_of
from joblane.state.lifecycle import ENDED, State
from tests.support.depth import budget
from tests.support.jobs import JOB

ENDS = sorted(ENDED - GROUP_STATES | {State.COMPLETED, State.FAILED})


def tally(group: Group, page: int, states: dict[int, State]) -> dict[State, int]:
    return Counter(states[index] for index in group.page(page) if index < group.begun)


def test_every_combination_has_its_state():
    yes_or_no = (False, True)
    assert {
        SeenMemberStates(a, b, c) for a in yes_or_no for b in yes_or_no for c in yes_or_no
    } == set(STATES)
    assert set(SETTLES) == GROUP_STATES - {State.PROCESSING}


@given(ends=st.lists(st.sampled_from(ENDS), max_size=30), left=st.integers(0, 3), data=st.data())
def test_the_order_of_arrival_changes_nothing(ends: list[State], left: int, data: st.DataObject):
    shuffled = data.draw(st.permutations(ends))
    members = len(ends) + left
    assert state_of(Counter(ends), members) is state_of(Counter(shuffled), members)
    if left:
        assert State.PROCESSING is state_of(Counter(ends), members)
    elif not ends:
        assert State.SKIPPED is state_of({}, 0)
    else:
        counted = [end for end in ends if end is not State.SKIPPED]
        completed = counted.count(State.COMPLETED)
        named = {len(counted): State.COMPLETED, 0: State.FAILED}
        expected = named.get(completed, State.PARTIAL_FAILURE) if counted else State.SKIPPED
        assert expected is state_of(Counter(ends), members)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ({State.SKIPPED: 2}, State.SKIPPED),
        ({State.SKIPPED: 2, State.COMPLETED: 1}, State.COMPLETED),
        ({State.SKIPPED: 2, State.FAILED: 1}, State.FAILED),
        ({State.SKIPPED: 1, State.COMPLETED: 1, State.DEAD: 1}, State.PARTIAL_FAILURE),
    ],
)
def test_skipped_members_are_counted_apart(ends: dict[State, int], expected: State):
    assert expected is state_of(ends, sum(ends.values()))
    assert f"{ends[State.SKIPPED]} skipped" in sentence(ends, 3)


@given(members=st.integers(1, 350), seed=st.integers())
@settings(max_examples=budget(20, 50), deadline=None)
def test_a_group_without_bounds_begins_by_pages_and_settles_once_all_have_ended(
    members: int, seed: int
):
    rng = random.Random(seed)
    group, states = Group(members, JOB), {n: rng.choice(ENDS) for n in range(members)}
    while (after := begin_page(group)) != group:
        assert after.begun - group.begun <= PAGE
        assert not after.settled
        group = note_placed(after, after.begun)
    assert members == group.begun == group.placed
    pages = group.open_pages
    rng.shuffle(pages)
    for page in pages:
        assert State.PROCESSING is group.state
        group = page_done(group, page, tally(group, page, states))
        assert group == page_done(group, page, {State.FAILED: 1})
        assert group == read_group(group_value(group))
    assert state_of(Counter(states.values()), members) is group.state
    assert group.reason.startswith(f"{Counter(states.values())[State.COMPLETED]} of {members} ")


@given(
    members=st.integers(1, 230),
    at_once=st.integers(1, 20),
    most=st.none() | st.integers(0, 10),
    seed=st.integers(),
)
@settings(max_examples=budget(30, 100), deadline=None)
def test_a_rolling_group_never_has_more_open_members_than_it_may(
    members: int, at_once: int, most: int | None, seed: int
):
    rng = random.Random(seed)
    group, states = Group(members, JOB), {n: rng.choice(ENDS) for n in range(members)}
    group, begin, _ = roll(group, {}, at_once, most)
    seen = list(begin)
    while group.open:
        assert len(group.open) <= at_once
        ended = rng.sample(sorted(group.open), rng.randint(1, len(group.open)))
        before = group
        group, begin, restart = roll(group, {n: states[n] for n in ended}, at_once, most)
        assert not restart
        seen += begin
        assert group.version == before.version + 1
        again = roll(group, {n: states[n] for n in ended}, at_once, most)
        assert (group, (), ()) == again, "an end that comes twice changes nothing"
        assert group == read_group(group_value(group))
    assert list(range(group.begun)) == seen, "each is begun once, in order"
    failures = [n for n in range(group.begun) if states[n] in FAILURES]
    if most is None or len(failures) <= most:
        assert members == group.begun
    else:
        assert group.stop is not None
    for page in group.open_pages:
        group = page_done(group, page, tally(group, page, states))
    assert group.settled
    assert members == sum(group.ended.values())


FAILURES = {State.FAILED, State.DEAD, State.EXPIRED, State.STALE}


def roll_on(*ends: State, at_once: int = 1, most: int = 0) -> Group:
    group = roll(Group(4, JOB), {}, at_once, most).group
    for index, state in enumerate(ends):
        group = roll(group, {index: state}, at_once, most).group
    return group


def test_failures_stop_what_has_not_begun_and_say_so():
    group = roll_on(State.COMPLETED, State.DEAD)
    assert Stop(State.SKIPPED, "1 member has failed, and max_failures is 0") == group.stop
    assert 2 == group.begun
    group = page_done(group, 0, {State.COMPLETED: 1, State.DEAD: 1})
    assert State.PARTIAL_FAILURE is group.state
    assert (
        "1 of 4 completed; 1 dead, 2 skipped: 1 member has failed, and max_failures is 0"
        == group.reason
    )


def test_a_retry_of_a_rolling_group_goes_on_with_what_was_not_begun():
    group = page_done(roll_on(State.COMPLETED, State.DEAD), 0, {State.COMPLETED: 1, State.DEAD: 1})
    group = retry_members(group, [1], rolling=True)
    assert not group.settled
    group, begin, restart = roll(group, {}, 1, 0)
    assert ((), (1,)) == (begin, restart)
    group, begin, restart = roll(group, {1: State.COMPLETED}, 1, 0)
    assert ((2,), ()) == (begin, restart)


def test_a_retry_reopens_the_page_of_its_members():
    group = Group(150, JOB, begun=150, placed=150)
    group = page_done(group, 0, {State.DEAD: 100})
    group = page_done(group, 1, {State.COMPLETED: 50})
    assert State.PARTIAL_FAILURE is group.state
    group = retry_members(group, [3, 99], rolling=False)
    assert [0] == group.open_pages
    assert State.PROCESSING is group.state


def test_who_cancels_a_group_stops_what_has_not_begun():
    group = cancel_group(Group(250, JOB, begun=100, placed=100), "cancelled by ann")
    assert Stop(State.CANCELLED, "cancelled by ann") == group.stop
    assert group == begin_page(group) == cancel_group(group, "cancelled by bob")
    group = page_done(group, 0, {State.COMPLETED: 100})
    assert State.PARTIAL_FAILURE is group.state
    assert {State.COMPLETED: 100, State.CANCELLED: 150} == group.ended


def test_a_cancel_takes_the_place_of_a_stop_after_failures():
    group = cancel_group(roll_on(State.DEAD, at_once=2), "cancelled by ann")
    assert group.cancels
    assert 2 == group.begun
    group = page_done(group, 0, {State.DEAD: 1, State.CANCELLED: 1})
    assert {State.DEAD: 1, State.CANCELLED: 3} == group.ended
    assert group == cancel_group(group, "cancelled by bob"), "it has ended"


def test_a_page_of_which_a_part_has_begun_is_not_done():
    group = roll(Group(300, JOB), {}, 10, None).group
    assert group == page_done(group, 0, {State.COMPLETED: 10})


@pytest.mark.parametrize("index", [0, 99, 100, 9_999])
def test_a_member_says_which_it_is(index: int):
    member = MemberOf(JOB, index)
    assert member == MemberOf.decode(member.encode())
    assert index // 100 == member.page
