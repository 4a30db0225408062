"""Following a job: when to ask again, when to report that the API does not answer, when to stop.

`FollowPace` is a value: each answer or failure gives the next value and a `FollowStep`.
`RepeatedCall` applies the steps to a call. Both are without I/O; the clock and random numbers are
handed in.

The interval is 0.1 s while output comes; without news it is a tenth of the time since the last
news, at most 1 s. So the delay of a line is at most a tenth of the silence before it, and a job
without output costs one request a second.
"""

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Generic, TypeVar

from joblane.client.answers import LogPage
from joblane.client.calls import Call, Item, Sleep, Stream
from joblane.client.errors import FollowError, JoblaneError, NotFoundError, ThrottledError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FollowPolicy:
    """Intervals and limits of following a job, in seconds."""

    busy_s: float = 0.1
    """Between two requests while there is news, and shortly after."""
    idle_share: float = 0.1
    """Without news: this share of the time since the last one."""
    idle_max_s: float = 1.0
    first_retry_s: float = 0.2
    """After the first failure; doubles with each one, and half of it is jitter."""
    retry_max_s: float = 5.0
    give_up_s: float = 300.0
    """Following ends when requests have failed for this long and none was answered."""
    newborn_s: float = 0.0
    """A job may be unknown for this long after its submission: DynamoDB's reads are eventual."""


class Note(Enum):
    """What to report to a person."""

    AWAY = "the API does not answer"
    BACK = "the API answers again"


@dataclass(frozen=True, slots=True)
class FollowStep:
    """What to do next."""

    delay_s: float = 0.0
    note: Note | None = None
    gave_up: bool = False


@dataclass(frozen=True, slots=True)
class News:
    """What an answer means for the pace."""

    changed: bool
    """Something differs from the previous answer."""
    more: bool = False
    """There is more to fetch immediately."""
    done: bool = False
    """This is the last answer."""


@dataclass(frozen=True, slots=True)
class FollowPace:
    """State of following; times are of one monotonic clock, in seconds."""

    policy: FollowPolicy
    began: float
    changed: float
    """Time of the last news."""
    failures: int = 0
    """Consecutive failures."""
    failing_since: float = 0.0
    """Time of the first of them. Not of the last answer: a reader that was stopped for an hour has
    not waited for the API."""
    heard: bool = False
    """The API has answered at least once."""

    @classmethod
    def start(cls, policy: FollowPolicy, now: float) -> "FollowPace":
        """Start following."""
        return cls(policy, began=now, changed=now)

    def after(self, news: News, now: float) -> tuple["FollowPace", FollowStep]:
        """Decide what to do after an answer."""
        changed = now if news.changed else self.changed
        pace = replace(self, changed=changed, failures=0, heard=True)
        note = Note.BACK if self.failures >= 2 else None
        if news.done or news.more:
            return pace, FollowStep(note=note)
        idle_s = (now - changed) * self.policy.idle_share
        delay_s = min(max(idle_s, self.policy.busy_s), self.policy.idle_max_s)
        return pace, FollowStep(delay_s, note)

    def after_failure(
        self, error: JoblaneError, now: float, roll: float
    ) -> tuple["FollowPace", FollowStep] | None:
        """Decide what to do after a failure; None when it is final and must be raised.

        `roll` is uniform in [0, 1). A single failure is not reported, because servers close idle
        connections between two requests.
        """
        if not error.retryable:
            newborn = not self.heard and now - self.began < self.policy.newborn_s
            if not (newborn and isinstance(error, NotFoundError)):
                return None
            return self, FollowStep(self.policy.busy_s)
        since = self.failing_since if self.failures else now
        pace = replace(self, failures=self.failures + 1, failing_since=since)
        if now - since >= self.policy.give_up_s:
            return pace, FollowStep(gave_up=True)
        doubled = self.policy.first_retry_s * 2 ** min(
            self.failures, 32
        )  # a larger power overflows a float
        bound_s = min(doubled, self.policy.retry_max_s)
        delay_s = bound_s * (1 + roll) / 2
        if isinstance(error, ThrottledError) and error.retry_after_s:
            delay_s = max(delay_s, min(error.retry_after_s, self.policy.give_up_s))
        return pace, FollowStep(delay_s, Note.AWAY if pace.failures == 2 else None)


@dataclass(slots=True)
class Runtime:
    """What following takes from outside; a test hands in its own."""

    clock: Callable[[], float] = time.monotonic
    random: Callable[[], float] = random.random
    on_note: Callable[[Note, JoblaneError | None], None] = lambda _note, _error: None
    """Called when the API stopped answering or answers again."""


class RepeatedCall(Generic[T]):
    """Repeats a call until its answer is the last one; outages of the API are waited out."""

    def __init__(
        self,
        fetch: Callable[[], Call[T]],
        judge: Callable[[T], News],
        policy: FollowPolicy,
        runtime: Runtime,
        until: float | None = None,
    ) -> None:
        """`until` is the time, of the runtime's clock, over which no pause lasts."""
        self._fetch = fetch
        self._judge = judge
        self._policy = policy
        self._runtime = runtime
        self._until = until
        self._pace = FollowPace.start(policy, runtime.clock())
        self._delay_s: float | None = None
        self.done = False
        """Whether the last answer was the last one."""

    def answer(self) -> Call[T]:
        """Return the next answer.

        Raises what the call raises when that is final, and `FollowError` when the API does not
        answer for `policy.give_up_s`.
        """
        while True:
            if self._delay_s is not None:
                yield Sleep(self._pause(self._delay_s))
            try:
                answer = yield from self._fetch()
            except JoblaneError as error:
                self._note_failure(error)
            else:
                news = self._judge(answer)
                self._pace, step = self._pace.after(news, self._runtime.clock())
                if step.note:
                    self._runtime.on_note(step.note, None)
                self._delay_s, self.done = step.delay_s, news.done
                return answer

    def _pause(self, delay_s: float) -> float:
        if self._until is None:
            return delay_s
        return min(delay_s, max(self._until - self._runtime.clock(), 0.0))

    def _note_failure(self, error: JoblaneError) -> None:
        decided = self._pace.after_failure(error, self._runtime.clock(), self._runtime.random())
        if decided is None:
            raise error
        self._pace, step = decided
        if step.gave_up:
            raise FollowError(
                f"gave up: the API has not answered for {self._policy.give_up_s:.0f} s ({error})"
            ) from error
        if step.note:
            self._runtime.on_note(step.note, error)
        self._delay_s = step.delay_s


def follow_log(
    fetch: Callable[[str | None], Call[LogPage]],
    parts: Callable[[LogPage], Iterable[T]],
    *,
    cursor: str | None = None,
    policy: FollowPolicy | None = None,
    runtime: Runtime | None = None,
) -> Stream[T]:
    """Yield the parts of each page of a log from `cursor` until it is complete.

    The cursor moves only with a page that arrived whole, so each record comes exactly once.
    `FollowError.cursor` says where to resume.
    """
    state: str | None = None

    def ask() -> Call[LogPage]:
        return fetch(cursor)

    def judge(page: LogPage) -> News:
        nonlocal cursor, state
        cursor = page.get("next") or cursor
        entries = page.get("entries", [])
        moved = page.get("state") != state
        state = page.get("state")
        more = bool(page.get("more"))
        return News(bool(entries) or moved, more=more, done=bool(page.get("complete")))

    poll = RepeatedCall(ask, judge, policy or FollowPolicy(), runtime or Runtime())
    try:
        while not poll.done:
            page = yield from poll.answer()
            for part in parts(page):
                yield Item(part)
    except FollowError as error:
        error.cursor = cursor
        raise
