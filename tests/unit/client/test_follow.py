"""The decisions of following, without time or network: pace, reconnecting, giving up."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblane import (
    AccessError,
    FollowError,
    JoblaneError,
    NotFoundError,
    ThrottledError,
    UnreachableError,
)
from joblane.client.answers import LogEntry, LogPage
from joblane.client.calls import Call, Item, Sleep
from joblane.client.follow import (
    FollowPace,
    FollowPolicy,
    FollowStep,
    News,
    Note,
    Runtime,
    follow_log,
)

POLICY = FollowPolicy()
DOWN = UnreachableError("refused")
QUIET = News(changed=False)


def decided(found: tuple[FollowPace, FollowStep] | None) -> tuple[FollowPace, FollowStep]:
    assert found is not None
    return found


def test_output_is_polled_quickly_and_silence_ever_slower() -> None:
    """A tenth of the silence, between 0.1 s and 1 s."""
    pace = FollowPace.start(POLICY, now=0)
    delays = [pace.after(QUIET, now)[1].delay_s for now in (0.0, 1.0, 5.0, 10.0, 3600.0)]
    assert delays == [0.1, 0.1, 0.5, 1.0, 1.0]
    pace, step = pace.after(News(changed=True), now=3600)
    assert step == FollowStep(0.1)
    assert pace.after(QUIET, now=3600.5)[1].delay_s == 0.1


def test_a_full_page_is_followed_by_the_next_at_once() -> None:
    assert FollowPace.start(POLICY, 0).after(News(changed=True, more=True), 0)[1] == FollowStep(0.0)


def test_the_second_failure_is_told_once_and_so_is_the_return() -> None:
    pace = FollowPace.start(POLICY, 0)
    notes = []
    for now in range(1, 6):
        pace, step = decided(pace.after_failure(DOWN, now, 0.5))
        notes.append(step.note)
    assert notes == [None, Note.AWAY, None, None, None]
    pace, step = pace.after(QUIET, 6)
    assert step.note is Note.BACK
    assert pace.after(QUIET, 7)[1].note is None


def test_a_single_failure_is_nobodys_business() -> None:
    pace, step = decided(FollowPace.start(POLICY, 0).after_failure(DOWN, 1, 0.5))
    assert step.note is None
    assert pace.after(QUIET, 2)[1].note is None


@given(st.integers(0, 2000), st.floats(0, 1, exclude_max=True))
def test_backoff_is_bounded_and_never_a_busy_loop(failures: int, roll: float) -> None:
    pace = FollowPace(POLICY, began=0, changed=0, failures=failures)
    _, step = decided(pace.after_failure(DOWN, 1, roll))
    assert POLICY.first_retry_s / 2 <= step.delay_s <= POLICY.retry_max_s


def test_it_gives_up_when_requests_have_failed_for_the_stated_time() -> None:
    """Counted from the first failure: a reader that was stopped did not wait for the API."""
    pace = FollowPace.start(POLICY, 0)
    pace, _ = pace.after(QUIET, 100)
    pace, step = decided(pace.after_failure(DOWN, 5000, 0))
    assert not step.gave_up
    assert not decided(pace.after_failure(DOWN, 5299.9, 0))[1].gave_up
    assert decided(pace.after_failure(DOWN, 5300, 0))[1].gave_up
    pace, _ = pace.after(QUIET, 5299)
    assert not decided(pace.after_failure(DOWN, 5300, 0))[1].gave_up


def test_the_api_says_how_long_to_wait_when_it_throttles() -> None:
    error = ThrottledError("429", status=429)
    error.retry_after_s = 30
    assert decided(FollowPace.start(POLICY, 0).after_failure(error, 1, 0))[1].delay_s == 30


def test_a_final_error_is_not_tried_again() -> None:
    assert FollowPace.start(POLICY, 0).after_failure(AccessError("403", status=403), 0, 0) is None


def test_only_a_newborn_job_may_be_unknown() -> None:
    unknown = NotFoundError("404", status=404)
    newborn = FollowPace.start(FollowPolicy(newborn_s=3), 0)
    assert newborn.after_failure(unknown, 2.9, 0) is not None
    assert newborn.after_failure(unknown, 3.0, 0) is None
    known, _ = newborn.after(QUIET, 1)
    assert known.after_failure(unknown, 1.5, 0) is None
    assert FollowPace.start(POLICY, 0).after_failure(unknown, 0, 0) is None


class World:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.told: list[Note] = []

    def follow(
        self, fetch: Callable[[str | None], LogPage], policy: FollowPolicy | None = None
    ) -> Iterator[LogPage]:
        """Follow the log that `fetch` reads, with this clock."""

        def call(cursor: str | None) -> Call[LogPage]:
            yield from ()
            return fetch(cursor)

        runtime = Runtime(lambda: self.now, lambda: 0.5, lambda note, _: self.told.append(note))
        for step in follow_log(call, lambda page: [page], policy=policy, runtime=runtime):
            match step:
                case Sleep():
                    self.now += step.seconds
                case Item():
                    yield step.value


@given(st.integers(0, 30), st.lists(st.none() | st.integers(0, 7)))
def test_every_record_comes_once_in_order_whatever_fails(total: int, script: list[int | None]):
    """Pages of any size, failures anywhere: the records are those that were written."""
    world = World()
    sizes = iter(script)

    def fetch(cursor: str | None) -> LogPage:
        size = next(sizes, 30)
        if size is None:
            raise DOWN
        start = int(cursor or 0)
        end = min(total, start + size)
        return {
            "entries": [{"seq": seq} for seq in range(start, end)],
            "limit": 5,
            "more": size > 0 and end < total,
            "next": str(end),
            "state": "active",
            "complete": end == total,
        }

    pages = world.follow(fetch, FollowPolicy(give_up_s=1e9))
    assert list(range(total)) == [entry["seq"] for page in pages for entry in page["entries"]]


def test_pages_after_which_there_is_more_are_fetched_without_a_pause() -> None:
    world = World()
    entries: list[LogEntry] = [{"seq": 0}, {"seq": 1}]
    pages: list[LogPage] = [{"entries": entries, "more": True, "next": "x"}] * 3
    pages.append({"entries": [], "more": True, "next": "x"})  # claims without output
    pages.append({"entries": [], "next": "x", "complete": True})
    script = iter(pages)
    assert len(list(world.follow(lambda _: next(script)))) == 5
    assert world.now == 0


def test_a_change_of_state_is_news_too() -> None:
    """A job that has just started will soon say something."""
    world = World()
    states = ["pending"] * 40 + ["active"] * 2

    def pages() -> Iterator[LogPage]:
        for state in states:
            yield {"entries": [], "state": state, "next": "a"}
        yield {"entries": [], "state": "active", "complete": True}

    script = pages()
    before: list[float] = []
    for page in world.follow(lambda _: next(script)):
        before.append(world.now)
        if page.get("complete"):
            break
    waits = [later - earlier for earlier, later in pairwise(before)]
    assert waits[39] > 0.3  # the last wait of the pending job
    assert waits[40] == pytest.approx(0.1)


def test_a_page_without_a_cursor_leaves_the_reader_where_it_was() -> None:
    asked: list[str | None] = []
    pages: list[LogPage] = [{"entries": [], "next": "a"}, {"entries": []}, {"complete": True}]

    def fetch(cursor: str | None) -> LogPage:
        asked.append(cursor)
        return pages[len(asked) - 1]

    list(World().follow(fetch))
    assert asked == [None, "a", "a"]


def failing(times: int, error: JoblaneError) -> Callable[[str | None], LogPage]:
    """Answer one page, fail so often, then end; the pages hold their cursors."""
    script: Iterator[LogPage | None] = iter(
        [{"entries": [], "next": "a"}, *[None] * times, {"entries": [], "complete": True}]
    )

    def fetch(_cursor: str | None) -> LogPage:
        page = next(script)
        if page is None:
            raise error
        return page

    return fetch


def test_an_outage_is_told_once_and_survived() -> None:
    world = World()
    pages = list(world.follow(failing(20, DOWN)))
    assert len(pages) == 2
    assert world.told == [Note.AWAY, Note.BACK]


def test_giving_up_says_how_long_and_where_to_go_on() -> None:
    world = World()
    with pytest.raises(FollowError, match=r"not answered for 60 s \(refused\)") as caught:
        list(world.follow(failing(1000, DOWN), FollowPolicy(give_up_s=60)))
    assert caught.value.cursor == "a"
    assert 60 <= world.now < 70
