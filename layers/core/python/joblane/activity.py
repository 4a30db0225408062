"""What happens in queues: changes of jobs, counted by minute and added up for people. Pure.

A change belongs to the minute in which DynamoDB wrote it: one clock for all, and one that a late
delivery does not move.
"""

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, fields
from typing import Literal

from pydantic import BaseModel, ConfigDict

from joblane.times import rfc3339

Kind = Literal["submitted", "started", "completed", "failed", "retried"]

WINDOWS = (1, 5, 60)
"""Minutes over which activity is shown."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a job's state that counts."""

    tenant: str
    queue: str
    kind: Kind
    items: int
    minute: int
    """Of DynamoDB's clock: Unix seconds over 60."""
    sequence: int
    """Its place in the stream; grows within a shard."""
    waited_ms: int = 0
    """Of a start: how long the job could have started already."""


@dataclass(slots=True)
class Tally:
    """Counts of jobs, and of the items that they carry."""

    submitted: int = 0
    submitted_items: int = 0
    started: int = 0
    started_items: int = 0
    completed: int = 0
    completed_items: int = 0
    failed: int = 0
    failed_items: int = 0
    retried: int = 0
    retried_items: int = 0
    waited_ms: int = 0

    def add(self, other: "Tally") -> None:
        """Add another tally to this one."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    def encode(self) -> str:
        """As it stands in the table: the figures in their order."""
        return " ".join(map(str, astuple(self)))

    @classmethod
    def decode(cls, text: str) -> "Tally":
        """Inverse of `encode`."""
        return cls(*map(int, text.split()))


@dataclass(frozen=True, slots=True)
class Series:
    """What one counter counts: a minute of a tenant's jobs in a queue."""

    tenant: str
    queue: str
    minute: int


def fold(changes: Iterable[Change]) -> dict[Series, tuple[int, Tally]]:
    """Count a batch: for each series the sequence of its first change, and its tally."""
    found: dict[Series, tuple[int, Tally]] = {}
    for change in changes:
        series = Series(change.tenant, change.queue, change.minute)
        _, tally = found.setdefault(series, (change.sequence, Tally()))
        one = {change.kind: 1, f"{change.kind}_items": change.items, "waited_ms": change.waited_ms}
        tally.add(Tally(**one))
    return found


class Count(BaseModel):
    """Jobs, and the items that they carry."""

    model_config = ConfigDict(defer_build=True)  # a cold start need not pay for it

    jobs: int
    items: int


class Activity(BaseModel):
    """What happened in a queue to the jobs of the caller's tenant, over the last minutes."""

    model_config = ConfigDict(defer_build=True)

    minutes: int
    since: str
    """Begins with a whole minute, so it covers up to one more than `minutes`."""
    span_s: float
    """Seconds from `since` to now: a rate is a count over this."""
    submitted: Count
    started: Count
    """Attempts that began; one that another agent took over is not counted again."""
    completed: Count
    failed: Count
    """Jobs that ended failed or dead."""
    retried: Count
    """Attempts that failed and are followed by another."""
    mean_wait_s: float | None
    """Mean time from when a job could have started to its start; null when none started."""


def activity(minutes: Mapping[int, Tally], now_ms: int) -> list[Activity]:
    """Add up the counters of the last hour for each of `WINDOWS`."""
    return [_window(minutes, length, now_ms) for length in WINDOWS]


def oldest_minute(now_ms: int) -> int:
    """The first minute that any window needs."""
    return now_ms // 60_000 - WINDOWS[-1]


def _window(minutes: Mapping[int, Tally], length: int, now_ms: int) -> Activity:
    first = now_ms // 60_000 - length
    total = Tally()
    for minute, tally in minutes.items():
        if minute >= first:
            total.add(tally)
    return Activity(
        minutes=length,
        since=rfc3339(first * 60_000),
        span_s=(now_ms - first * 60_000) / 1000,
        submitted=Count(jobs=total.submitted, items=total.submitted_items),
        started=Count(jobs=total.started, items=total.started_items),
        completed=Count(jobs=total.completed, items=total.completed_items),
        failed=Count(jobs=total.failed, items=total.failed_items),
        retried=Count(jobs=total.retried, items=total.retried_items),
        mean_wait_s=round(total.waited_ms / total.started / 1000, 3) if total.started else None,
    )
