"""Which lanes an agent polls: priority without extra requests, and no starvation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2_agent.lanes.polling import (
    EMPTY_AFTER_S,
    Fetch,
    LaneKey,
    Poll,
    next_fetch,
    serving_order,
)
from joblane.deployment.names import LANES

HIGH: LaneKey = ("q", "high")
DEFAULT: LaneKey = ("q", "default")
LOW: LaneKey = ("q", "low")
ORDER = serving_order(("q",), 0)


def test_lanes_are_served_in_order_over_all_queues():
    assert serving_order(("a", "b"), 0) == [(q, lane) for lane in LANES for q in ("a", "b")]


def test_one_fetch_in_eight_starts_from_the_lowest_lane():
    first = [serving_order(("q",), n)[0] for n in range(16)]
    assert [7, 15] == [n for n, lane in enumerate(first) if lane == LOW]
    assert first.count(HIGH) == 14


def test_an_idle_agent_asks_lane_by_lane():
    assert Fetch(HIGH, 2) == next_fetch(ORDER, {"q": 2}, {}, ORDER, 0.0)


def test_a_lower_lane_waits_until_the_higher_one_has_had_time_to_answer():
    wait = next_fetch(ORDER, {"q": 2}, {HIGH: Poll(10.0, 2)}, ORDER, 10.05)
    assert wait == pytest.approx(EMPTY_AFTER_S - 0.05)


def test_a_long_poll_that_stays_open_says_that_its_lane_is_empty():
    assert Fetch(DEFAULT, 2) == next_fetch(ORDER, {"q": 2}, {HIGH: Poll(10.0, 2)}, ORDER, 10.5)


def test_nothing_is_asked_without_a_free_slot():
    assert next_fetch(ORDER, {"q": 0}, {}, ORDER, 0.0) is None


def test_nothing_is_asked_twice():
    assert next_fetch(ORDER, {"q": 1}, dict.fromkeys(ORDER, Poll(0.0, 1)), ORDER, 5.0) is None


def test_a_full_queue_does_not_hold_up_another():
    order = serving_order(("a", "b"), 0)
    assert Fetch(("b", "high"), 3) == next_fetch(order, {"a": 0, "b": 3}, {}, order, 0.0)


def test_a_fetch_asks_for_no_more_than_sqs_gives():
    assert Fetch(HIGH, 10) == next_fetch(ORDER, {"q": 64}, {}, ORDER, 0.0)


def test_an_agent_that_begins_asks_as_many_lanes_as_it_has_slots_for_a_message_each():
    polls: dict[LaneKey, Poll] = {}
    for lane in (HIGH, DEFAULT):
        decision = next_fetch(ORDER, {"q": 2}, polls, (), 0.0)
        assert Fetch(lane, 1) == decision
        polls[lane] = Poll(0.0, 1)
    assert next_fetch(ORDER, {"q": 2}, polls, (), 0.05) == pytest.approx(EMPTY_AFTER_S - 0.05)
    # The lane with jobs has answered; one slot is taken, and the high lane may still bring one.
    wait = next_fetch(ORDER, {"q": 1}, {HIGH: Poll(0.0, 1)}, [DEFAULT], 0.05)
    assert wait == pytest.approx(EMPTY_AFTER_S - 0.05)
    assert Fetch(DEFAULT, 1) == next_fetch(ORDER, {"q": 1}, {HIGH: Poll(0.0, 1)}, [DEFAULT], 0.3)


def test_what_a_poll_may_bring_is_wanted_of_no_other_lane():
    assert Fetch(DEFAULT, 3) == next_fetch(ORDER, {"q": 4}, {HIGH: Poll(0.0, 1)}, ORDER, 0.1)
    assert isinstance(next_fetch(ORDER, {"q": 4}, {HIGH: Poll(0.0, 4)}, ORDER, 0.1), float)


def test_a_lane_is_held_up_by_those_before_it_only():
    polls = {DEFAULT: Poll(0.0, 4)}
    assert Fetch(HIGH, 4) == next_fetch(ORDER, {"q": 4}, polls, ORDER, 0.1)
    polls[HIGH] = Poll(-20.0, 4)
    assert isinstance(next_fetch(ORDER, {"q": 4}, polls, ORDER, 0.1), float)


def test_the_first_turn_of_an_unknown_low_lane_holds_up_no_other():
    low_first = serving_order(("q",), 7)
    known = [HIGH, DEFAULT]
    assert Fetch(LOW, 1) == next_fetch(low_first, {"q": 4}, {}, known, 0.0)
    assert Fetch(DEFAULT, 3) == next_fetch(low_first, {"q": 4}, {LOW: Poll(0.0, 1)}, known, 0.0)


@given(
    wanted=st.integers(0, 20),
    opened=st.dictionaries(
        st.sampled_from(ORDER), st.builds(Poll, st.floats(0, 100), st.integers(1, 10)), max_size=3
    ),
    known=st.sets(st.sampled_from(ORDER)),
    fetches=st.integers(0, 100),
)
def test_a_decision_is_always_one_of_three(
    wanted: int, opened: dict[LaneKey, Poll], known: set[LaneKey], fetches: int
):
    order = serving_order(("q",), fetches)
    decision = next_fetch(order, {"q": wanted}, opened, known, 100.0)
    young = {lane: p.most for lane, p in opened.items() if 100.0 - p.since < EMPTY_AFTER_S}
    if isinstance(decision, Fetch):
        assert decision.lane not in opened
        before = order[: order.index(decision.lane)]
        assert 0 < decision.most <= wanted - sum(young.get(lane, 0) for lane in before)
    elif decision is not None:
        assert 0 < decision <= EMPTY_AFTER_S
        assert sum(young.values()) >= wanted
    else:
        assert wanted == 0 or set(opened) == set(order)
