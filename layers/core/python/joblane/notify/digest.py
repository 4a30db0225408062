"""The daily digest: which day it is of, what it says, and whether there is anything to say. Pure.

A digest is of the 24 hours that end a minute before the time at which it is due, so that the
counters of its last minute are complete (`joblane.queue.rollup.LATE_MS`) and each minute is in one
digest, whenever the function runs.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import StringConstraints

from joblane.formats.text import some, span
from joblane.formats.times import rfc3339
from joblane.notify.patterns import pattern_of
from joblane.state.lifecycle import State

TimeOfDay = Annotated[str, StringConstraints(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]
"""A time of day in UTC, `07:30`."""

DAY_MINUTES: Final = 1440

MARGIN_MINUTES: Final = 1
"""From the end of the 24 hours to the time at which the digest is due, and how much the clock of
the function may be behind that of EventBridge."""

EXAMINED: Final = 500
"""Jobs of a tenant in each state that are grouped by reason, the newest: at most 63 read units."""

OLD_S: Final = 86_400
"""Seconds: a queue of which a job waits for so long is worth a digest alone."""

MOST_LINES: Final = 40
"""Lines of each part of the text."""


@dataclass(frozen=True, slots=True)
class Place:
    """Whose jobs, in which queue."""

    tenant: str
    queue: str


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that is failed or dead."""

    job_id: str
    place: Place
    state: State
    reason: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A queue in which jobs wait."""

    jobs: int
    """Of all tenants."""
    oldest_s: int
    """How long the oldest of them waits at least that could have started, in seconds since its
    submission (`joblane.queue.oldest`)."""


@dataclass(frozen=True, slots=True)
class Day:
    """What a digest is of, as minutes: Unix seconds over 60."""

    due: int

    @property
    def first(self) -> int:
        """The first minute."""
        return self.due - MARGIN_MINUTES - DAY_MINUTES

    @property
    def end(self) -> int:
        """The minute after the last one."""
        return self.due - MARGIN_MINUTES


def latest_day(at: TimeOfDay, now_ms: int) -> Day:
    """Return the day whose digest was due last: each day at `at`, UTC.

    One that is due within a minute counts as due, since EventBridge's clock decides.
    """
    hours, minutes = map(int, at.split(":"))
    offset = hours * 60 + minutes
    minute = now_ms // 60_000 + MARGIN_MINUTES
    return Day((minute - offset) // DAY_MINUTES * DAY_MINUTES + offset)


@dataclass(frozen=True)
class Digest:
    """What happened in a day, and what waits now."""

    deployment: str
    day: Day
    failed: Mapping[Place, int]
    """Jobs that ended failed or dead, as the counters have them; no entry is 0."""
    jobs: Iterable[EndedJob]
    """Those of them that are still failed or dead and in lists, of the newest `EXAMINED` of each
    tenant and state."""
    waiting: Mapping[str, Waiting]
    """By queue."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to say: no job ended badly, and none waits for long."""
        return not self.failed and not any(self._is_old(each) for each in self.waiting.values())

    @property
    def subject(self) -> str:
        """Subject of the message: less than 100 characters, in ASCII."""
        return f"{self.deployment}: {_jobs(sum(self.failed.values()))} failed or dead in 24 hours"

    def text(self) -> str:
        """The message, as lines of text."""
        end = rfc3339(self.day.end * 60_000)
        total = sum(self.failed.values())
        parts = [f"{_jobs(total)} ended failed or dead in the 24 hours until {end}."]
        if self.failed:
            parts.append(_part("By tenant and queue:", self._places()))
        reasons, grouped = self._reasons()
        if reasons:
            parts.append(_part("By reason, the newest job of each:", reasons))
        if others := max(0, total - grouped):
            parts.append(
                f"{_jobs(others)} of these are in no reason above: retried, replayed or deleted"
                f" since, members of groups, or not among the newest {EXAMINED} of a tenant."
            )
        if self.waiting:
            parts.append(_part("Queues in which jobs wait:", self._waiting()))
        parts.append(
            "See more: joblane dlq ls, joblane ls --state failed, joblane why JOB, joblane queues."
        )
        return "\n\n".join(parts) + "\n"

    def _places(self) -> list[str]:
        ordered = sorted(
            self.failed.items(), key=lambda each: (-each[1], each[0].tenant, each[0].queue)
        )
        return [f"{count:>7}  {place.tenant}  {place.queue}" for place, count in ordered]

    def _reasons(self) -> tuple[list[str], int]:
        """The lines, the most frequent reason first, and how many jobs are in them."""
        counts = Counter[tuple[str, str, str, str]]()
        newest: dict[tuple[str, str, str, str], str] = {}
        for job in self.jobs:
            group = (job.place.tenant, job.place.queue, job.state.value, pattern_of(job.reason))
            counts[group] += 1
            newest[group] = max(newest.get(group, ""), job.job_id)
        ordered = sorted(counts, key=lambda group: (-counts[group], group))
        lines = [
            f"{counts[group]:>7}  {group[0]}  {group[1]}  {newest[group]}  {group[2]}: {group[3]}"
            for group in ordered
        ]
        return lines, counts.total()

    def _waiting(self) -> list[str]:
        ordered = sorted(self.waiting.items(), key=lambda each: (-each[1].oldest_s, each[0]))
        return [
            f"{each.jobs:>7}  {queue}  oldest at least {span(each.oldest_s)} old"
            for queue, each in ordered
        ]

    def _is_old(self, waiting: Waiting) -> bool:
        return waiting.oldest_s >= OLD_S


def _jobs(count: int) -> str:
    return some(count, "job")


def _part(title: str, lines: list[str]) -> str:
    more = [f"         and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    return "\n".join([title, *lines[:MOST_LINES], *more])
