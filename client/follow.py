"""Following a job: when to ask again, when to say that the API is away, when to stop.

The decisions are pure: `Pace` is a value, and each answer or failure turns it into the next
value and a `Step`. `drive` is the edge that asks, sleeps and tells; clock, sleep and dice are
handed in, so that a test needs neither time nor network.

How often: 0.1 s while output comes; without news, a tenth of the time since the last news, at
most 1 s. So a line is seen at most a tenth later than it could have been, and a job that says
nothing for hours costs one request a second.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar

from client.errors import FollowError, JoblaneError, NotFoundError, ThrottledError
from client.wire import LogPage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Policy:
    """Durations in seconds."""

    busy_s: float = 0.1
    """Between two requests while there is news, and shortly after."""
    idle_share: float = 0.1
    """Without news: this share of the time since the last one."""
    idle_max_s: float = 1.0
    first_retry_s: float = 0.2
    """After the first failure; doubles with each one, and half of it is jitter."""
    retry_max_s: float = 5.0
    give_up_s: float = 300.0
    """When requests have failed for this long, and none was answered, following ends."""
    newborn_s: float = 0.0
    """A job may be unknown for this long: it was just submitted, and reads may lag behind."""


class Note(Enum):
    """What a person should be told."""

    AWAY = "the API does not answer"
    BACK = "the API answers again"


@dataclass(frozen=True, slots=True)
class Step:
    """What to do next."""

    delay_s: float = 0.0
    note: Note | None = None
    done: bool = False
    gave_up: bool = False


@dataclass(frozen=True, slots=True)
class News:
    """What an answer means for the pace."""

    changed: bool
    """Something is different from the answer before."""
    more: bool = False
    """There is more to fetch at once."""
    done: bool = False
    """Nothing will come any more."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How following goes; all times are of one monotonic clock, in seconds."""

    policy: Policy
    began: float
    changed: float
    """When there was news last."""
    failures: int = 0
    """In a row."""
    failing_since: float = 0.0
    """When the first of them came. Not the last answer: a reader that was stopped for an hour
    has not waited for the API."""
    heard: bool = False
    """The API knew the job at least once."""

    @classmethod
    def start(cls, policy: Policy, now: float) -> "Pace":
        """Begin to follow."""
        return cls(policy, began=now, changed=now)

    def after(self, news: News, now: float) -> tuple["Pace", Step]:
        """Decide what follows an answer."""
        changed = now if news.changed else self.changed
        pace = replace(self, changed=changed, failures=0, heard=True)
        note = Note.BACK if self.failures >= 2 else None  # noqa: PLR2004 - the second was told
        if news.done:
            return pace, Step(note=note, done=True)
        if news.more:
            return pace, Step(note=note)
        idle_s = (now - changed) * self.policy.idle_share
        delay_s = min(max(idle_s, self.policy.busy_s), self.policy.idle_max_s)
        return pace, Step(delay_s, note)

    def after_failure(
        self, error: JoblaneError, now: float, roll: float
    ) -> tuple["Pace", Step] | None:
        """Decide what follows a failure; None: it is final, raise it.

        `roll` is uniform in [0, 1). A single failure is not told: a connection that the server
        closed between two requests is nothing to worry a person with.
        """
        if not error.retryable:
            newborn = not self.heard and now - self.began < self.policy.newborn_s
            if not (newborn and isinstance(error, NotFoundError)):
                return None
            return self, Step(self.policy.busy_s)
        since = self.failing_since if self.failures else now
        pace = replace(self, failures=self.failures + 1, failing_since=since)
        if now - since >= self.policy.give_up_s:
            return pace, Step(gave_up=True)
        doubled = self.policy.first_retry_s * 2 ** min(self.failures, 32)  # more is no float
        bound_s = min(doubled, self.policy.retry_max_s)
        delay_s = bound_s * (1 + roll) / 2
        if isinstance(error, ThrottledError) and error.retry_after_s:
            delay_s = max(delay_s, min(error.retry_after_s, self.policy.give_up_s))
        return pace, Step(delay_s, Note.AWAY if pace.failures == 2 else None)  # noqa: PLR2004


@dataclass(slots=True)
class Edge:
    """The world outside the decisions."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    dice: Callable[[], float] = random.random
    tell: Callable[[Note, JoblaneError | None], None] = lambda _note, _error: None
    """Called when the API went away or came back."""


def drive(
    fetch: Callable[[], T], judge: Callable[[T], News], policy: Policy, edge: Edge
) -> Iterator[T]:
    """Yield each answer of `fetch` until `judge` finds one that ends it.

    Raises what `fetch` raises when that is final, and `FollowError` when the API stays away.
    """
    pace = Pace.start(policy, edge.clock())
    while True:
        try:
            answer = fetch()
        except JoblaneError as error:
            decided = pace.after_failure(error, edge.clock(), edge.dice())
            if decided is None:
                raise
            pace, step = decided
            if step.gave_up:
                raise FollowError(
                    f"gave up: the API has not answered for {policy.give_up_s:.0f} s ({error})"
                ) from error
            if step.note:
                edge.tell(step.note, error)
        else:
            pace, step = pace.after(judge(answer), edge.clock())
            if step.note:
                edge.tell(step.note, None)
            yield answer
            if step.done:
                return
        edge.sleep(step.delay_s)


def follow_log(
    fetch: Callable[[str | None], LogPage],
    *,
    cursor: str | None = None,
    policy: Policy | None = None,
    edge: Edge | None = None,
) -> Iterator[LogPage]:
    """Yield the pages of a log from `cursor` on until it is complete, empty pages among them.

    The cursor moves only with a page that arrived whole, so every record comes once, whatever
    happens to the connection. `FollowError.cursor` says where to go on.
    """
    state: str | None = None

    def ask() -> LogPage:
        return fetch(cursor)

    def judge(page: LogPage) -> News:
        nonlocal cursor, state
        cursor = page.get("next") or cursor
        entries = page.get("entries", [])
        moved = page.get("state") != state
        state = page.get("state")
        full = 0 < page.get("limit", 0) <= len(entries)
        return News(bool(entries) or moved, more=full, done=bool(page.get("complete")))

    try:
        yield from drive(ask, judge, policy or Policy(), edge or Edge())
    except FollowError as error:
        error.cursor = cursor
        raise
