"""A schedule in a world where functions die at any call and run side by side, in simulated time."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

from joblane.aws.metrics import Metrics
from joblane.aws.schedule.due_queue import DueMessage
from joblane.aws.schedule.items import KEPT
from joblane.aws.schedule.schedules import ScheduleChanged
from joblane.contract.problems import Invalid, TryAgain
from joblane.schedule.fields import ScheduleFields, Template
from joblane.schedule.record import Schedule, new_schedule
from joblane.schedule.results import Result
from joblane.service.schedule.due_sweep import message_of
from joblane.service.schedule.firing import Firing
from joblane.service.schedule.messages import send_next
from joblane.service.schedule.starts import Started
from joblane.state.lifecycle import State
from tests.support.noted_log import NotedLog

START_MS = 1_700_000_000_000
REDELIVERED_MS = 180_000


class Killed(BaseException):
    """The function was killed."""


def schedule(**fields: Any) -> Schedule:
    made = Schedule(
        tenant="main",
        name="poll",
        fields=ScheduleFields(**fields),
        what="true",
        created_ms=START_MS,
        created_by=None,
        changed_ms=START_MS,
    )
    return new_schedule(made, START_MS)


@dataclass
class World:
    """One schedule, its jobs and its messages; every port of `Firing` in one object."""

    row: Schedule | None
    seed: int = 1
    kills: float = 0.0
    """Probability that a call is the last of its function."""
    races: float = 0.0
    """Probability that another function handles the same message within a call."""
    skew_ms: int = 0
    """By how much the clock of a function may be wrong."""
    lost: float = 0.0
    """Probability that a message is lost, and that requeue does not run."""
    runs_ms: Callable[[random.Random], int] = lambda rng: rng.randrange(1000, 50_000)
    refuses: Callable[[int], bool] = lambda _due_ms: False
    now: int = START_MS
    jobs: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Start and end of each job by its id."""
    results: list[Result] = field(default_factory=list)
    """Results that have left the row."""
    messages: list[tuple[int, int, DueMessage, bool]] = field(default_factory=list)
    cancelled: set[str] = field(default_factory=set)
    puts: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self._depth = self._number = self._skew = 0
        self._message: DueMessage | None = None
        self.wake_at_ms = None if self.row is None else self.row.wake_at_ms(self.now)
        port = cast("Any", self)
        self.firing = Firing(
            port,
            port,
            port,
            port,
            lambda: port,
            Metrics(on=False),
            "d",
            self._clock,
            self._sleep,
            NotedLog(),
        )

        kills, self.kills = self.kills, 0
        if self.row is not None:
            send_next(port, None, self.row, self.now)
        self.kills = kills

    # What functions call.

    def _clock(self) -> int:
        return self.now + self._skew

    def _sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1000)

    def _chaos(self) -> None:
        if self.rng.random() < self.kills:
            raise Killed
        if self._message is not None and not self._depth and self.rng.random() < self.races:
            self._depth += 1
            skew = self._skew
            try:
                self.handle(self._message)
            finally:
                self._depth, self._skew = self._depth - 1, skew

    def get(self, tenant: str, name: str) -> Schedule | None:
        """Read the row."""
        self._chaos()
        return self.row

    def template(self, tenant: str, name: str) -> Template | None:
        """Read what it starts."""
        return None if self.row is None else Template.model_construct()

    def write(self, seen: Schedule, after: Schedule, now_ms: int) -> Schedule:
        """Write the row over the one that was read."""
        self._chaos()
        if self.row is None or self.row.step != seen.step:
            raise ScheduleChanged
        if len(after.results) > 7:
            self.results += after.results[:-KEPT]
            after = replace(after, results=after.results[-KEPT:])
        self.set(after)
        self._chaos()
        return after

    def set(self, row: Schedule) -> None:
        """Write the row."""
        self.row, self.wake_at_ms = row, row.wake_at_ms(self.now)

    def states_of(self, ids: list[str]) -> dict[str, State]:
        """Read the states of jobs."""
        self._chaos()
        ended = {True: State.COMPLETED, False: State.ACTIVE}
        return {each: ended[self.jobs[each][1] <= self.now] for each in ids if each in self.jobs}

    def start(
        self, seen: Schedule, _template: Template, job_id: str, due_ms: int, _left: object
    ) -> Started:
        """Put a job if it is absent."""
        self._chaos()
        if self.refuses(due_ms):
            raise Invalid("the type is gone")
        if job_id not in self.jobs:
            self.puts += 1
            self.jobs[job_id] = self.now, self.now + self.runs_ms(self.rng)
        self._chaos()
        return Started(job_id)

    def cancel(self, job_id: str, _why: str, _now_ms: int) -> None:
        """End a job two seconds from now."""
        self._chaos()
        self.cancelled.add(job_id)
        began, ends = self.jobs[job_id]
        self.jobs[job_id] = began, min(ends, self.now + 2_000)

    def send(self, messages: list[tuple[DueMessage, int]]) -> int:
        """Send messages with their delays."""
        for message, delay_s in messages:
            self._put(message, delay_s * 1000)
        self._chaos()
        return 0

    # What happens in the world.

    def _put(self, message: DueMessage, delay_ms: int) -> None:
        if self.rng.random() >= self.lost:
            self._number += 1
            heapq.heappush(self.messages, (self.now + delay_ms, self._number, message, False))

    def handle(self, message: DueMessage, *, again: bool = False) -> None:
        """Let a function handle a message; one that dies has it delivered again."""
        self._message = message
        self._skew = self.rng.choice((-1, 0, 0, 1)) * self.skew_ms
        try:
            wait_ms = self.firing.handle(message, lambda: 10.0, again=again)
        except (Killed, TryAgain):
            self._number += 1
            at_ms = self.now + REDELIVERED_MS
            heapq.heappush(self.messages, (at_ms, self._number, message, True))
            return
        if wait_ms is not None:
            self._put(message, max(1000, round(wait_ms / 1000) * 1000))

    def requeue(self) -> None:
        """What requeue does each minute."""
        if self.row is not None and self.wake_at_ms is not None and self.wake_at_ms <= self.now:
            message, delay_s = message_of(self.row, self.now)
            self._put(message, delay_s * 1000)

    def run(self, until_ms: int) -> None:
        """Let time pass."""
        minute = self.now // 60_000
        while self.now < until_ms:
            next_minute = (minute + 1) * 60_000
            nearest = self.messages[0][0] if self.messages else next_minute + 1
            if min(nearest, next_minute) > until_ms:
                self.now = until_ms
                return
            if nearest <= next_minute:
                _, _, message, again = heapq.heappop(self.messages)
                self.now = max(self.now, nearest)
                self.handle(message, again=again)
                continue
            self.now, minute = max(self.now, next_minute), minute + 1
            for _ in range(self.rng.choice((1, 1, 2))):
                if self.rng.random() >= self.lost:
                    self.requeue()

    @property
    def all_results(self) -> list[Result]:
        """Every result, the oldest first."""
        return [*self.results, *(() if self.row is None else self.row.results)]
