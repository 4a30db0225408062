"""How many messages are received before a slot is free: as many as start soon."""

import pytest

from ec2_agent.serving.prefetch import WINDOW_S, Prefetch


class Clock:
    """Seconds that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        """See the class."""
        return self.now


@pytest.fixture(name="clock")
def _clock() -> Clock:
    return Clock()


def freed(clock: Clock, times: int) -> Prefetch:
    """So many slots have become free, within a millisecond each."""
    prefetch = Prefetch(clock)
    for _ in range(times):
        clock.now += 0.001
        prefetch.count_freed("default")
    return prefetch


@pytest.mark.parametrize(
    ("times", "most"), [(0, 0), (9, 0), (10, 1), (39, 3), (100, 10), (500, 10)]
)
def test_as_many_wait_as_started_lately_within_a_tenth_of_a_second(
    clock: Clock, times: int, most: int
):
    prefetch = freed(clock, times)
    assert (most, 0) == (prefetch.most("default"), prefetch.most("bulk"))


def test_what_was_long_ago_does_not_count(clock: Clock):
    prefetch = freed(clock, 50)
    clock.now += WINDOW_S
    assert 0 == prefetch.most("default")


def test_after_a_message_has_waited_for_too_long_nothing_is_received_ahead_for_a_while(
    clock: Clock,
):
    prefetch = freed(clock, 50)
    prefetch.forget("default")
    prefetch.forget("bulk")
    assert 0 == prefetch.most("default")


def test_more_are_asked_for_when_half_have_started(clock: Clock):
    prefetch = freed(clock, 100)
    wanted = [prefetch.wanted("default", held) for held in range(10, -1, -1)]
    assert [0, 0, 0, 0, 0, 5, 6, 7, 8, 9, 10] == wanted
