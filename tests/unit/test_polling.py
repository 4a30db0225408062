"""Which lanes an agent polls: priority without extra requests, and no starvation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2_agent.lanes.polling import EMPTY_AFTER_S, Fetch, LaneKey, next_fetch, serving_order
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
    assert Fetch(HIGH, 2) == next_fetch(ORDER, {"q": 2}, {}, 0.0)


def test_a_lower_lane_waits_until_the_higher_one_has_had_time_to_answer():
    wait = next_fetch(ORDER, {"q": 2}, {HIGH: 10.0}, 10.05)
    assert wait == pytest.approx(EMPTY_AFTER_S - 0.05)


def test_a_long_poll_that_stays_open_says_that_its_lane_is_empty():
    assert Fetch(DEFAULT, 2) == next_fetch(ORDER, {"q": 2}, {HIGH: 10.0}, 10.5)


def test_nothing_is_asked_without_a_free_slot():
    assert next_fetch(ORDER, {"q": 0}, {}, 0.0) is None


def test_nothing_is_asked_twice():
    assert next_fetch(ORDER, {"q": 1}, dict.fromkeys(ORDER, 0.0), 5.0) is None


def test_a_full_queue_does_not_hold_up_another():
    order = serving_order(("a", "b"), 0)
    assert Fetch(("b", "high"), 3) == next_fetch(order, {"a": 0, "b": 3}, {}, 0.0)


def test_a_fetch_asks_for_no_more_than_sqs_gives():
    assert Fetch(HIGH, 10) == next_fetch(ORDER, {"q": 64}, {}, 0.0)


@given(
    free=st.integers(0, 20),
    opened=st.dictionaries(st.sampled_from(ORDER), st.floats(0, 100), max_size=3),
    fetches=st.integers(0, 100),
)
def test_a_decision_is_always_one_of_three(free: int, opened: dict[LaneKey, float], fetches: int):
    order = serving_order(("q",), fetches)
    decision = next_fetch(order, {"q": free}, opened, 100.0)
    if isinstance(decision, Fetch):
        assert decision.lane not in opened
        assert 0 < decision.most <= free
    elif decision is not None:
        assert 0 < decision <= EMPTY_AFTER_S
    else:
        assert free == 0 or set(opened) == set(order)
