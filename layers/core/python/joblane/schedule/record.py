"""A schedule as it is stored, and the changes that people make to it. Pure.

`due_ms` is the next due time that has no result yet; each write moves it forward, together with the
result of what it passes. `step` counts the writes: each is made on the row as it was read.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

from joblane.audit.who import Who
from joblane.schedule.fields import ScheduleFields
from joblane.schedule.results import TEXT_CHARS, Result
from joblane.schedule.times import jitter_ms, job_id, next_due, passed

SEND_AHEAD_MS: Final = 900_000
"""A schedule that is due within 15 minutes, SQS's longest delay, has its message sent at once."""

LOOK_AHEAD_MS: Final = 75_000
"""For others `requeue` sends it so long before: it looks each minute, and 15 s are left for its
start and its work."""

OVERDUE_MS: Final = 60_000
"""After which time without a result a message counts as lost, and `requeue` sends another one."""

QUEUED_LOOK_MS: Final = 300_000
"""The same for a due time that waits for what was started before: its message goes on and on."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Why a schedule is paused."""

    at_ms: int
    why: str
    """A sentence."""
    failed: str | None = None
    """Id of what has failed, if `pause_on_failure` has paused it for that."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule. Times are Unix milliseconds."""

    tenant: str
    name: str
    fields: ScheduleFields
    what: str
    """What it starts, in a few words."""
    created_ms: int
    created_by: Who | None
    """None for one that joblane.toml declares."""
    changed_ms: int
    declared: bool = False
    version: int = 1
    """Counts changes of its definition."""
    step: int = 1
    """Counts all writes of the row."""
    due_ms: int | None = None
    """The next due time without a result; None if it is over."""
    running: str | None = None
    """Id of what it started last, which may have ended."""
    excused: str | None = None
    """Id of what has failed, if somebody has resumed the schedule since: it is no reason any more
    to pause."""
    queued_ms: int | None = None
    """A due time that has come and waits until that has ended."""
    paused: Pause | None = None
    results: tuple[Result, ...] = ()
    """The latest, the oldest first."""
    pages: int = 0
    """How many items with older results there are."""

    @property
    def jitter_ms(self) -> int:
        """How much later than its due times it starts."""
        return jitter_ms(self.tenant, self.name, self.fields.jitter_s)

    @property
    def starts_ms(self) -> int | None:
        """When the next due time starts."""
        return None if self.due_ms is None else self.due_ms + self.jitter_ms

    def job_of(self, due_ms: int) -> str:
        """Id of what is started for a due time."""
        return job_id(self.tenant, self.name, self.created_ms, due_ms)

    def wake_at_ms(self, now_ms: int) -> int | None:
        """When `requeue` looks at it next; None for one that nothing is due for."""
        if self.paused is not None:
            return None
        times: list[int] = []
        if self.queued_ms is not None:
            times.append(now_ms + QUEUED_LOOK_MS)
        if (starts_ms := self.starts_ms) is not None:
            soon = starts_ms - now_ms <= SEND_AHEAD_MS
            times.append(starts_ms + OVERDUE_MS if soon else starts_ms - LOOK_AHEAD_MS)
        return min(times, default=None)

    def message_delay_ms(self, now_ms: int) -> int | None:
        """After which delay its message is to come that is sent with a write; None for none."""
        starts_ms = self.starts_ms
        if self.paused is not None or starts_ms is None or starts_ms - now_ms > SEND_AHEAD_MS:
            return None
        return max(0, starts_ms - now_ms)

    def next(self, **changes: Any) -> "Schedule":
        """The schedule after a write with these changes."""
        return replace(self, step=self.step + 1, **changes)

    def with_result(self, *results: Result, **changes: Any) -> "Schedule":
        """The schedule after a write that adds results."""
        short = [replace(each, text=each.text[:TEXT_CHARS]) for each in results]
        return self.next(results=(*self.results, *short), **changes)

    def result_of(self, due_ms: int) -> Result | None:
        """The result of a due time, if it is among the latest."""
        return next((each for each in self.results if each.covers(due_ms)), None)


def new_schedule(schedule: Schedule, now_ms: int) -> Schedule:
    """A new schedule with its first due time, which is later than now."""
    return replace(schedule, due_ms=next_due(schedule.fields, now_ms))


def edit(schedule: Schedule, fields: ScheduleFields, what: str, now_ms: int) -> Schedule:
    """Change what a schedule is.

    A due time that has come keeps being due, whatever the new timing says, also while it waits for
    its jitter: the function `due` decides it, perhaps at this moment. While the schedule is paused,
    it gets its result now, by the timing that it had.
    """
    if schedule.paused is not None:
        schedule = settle_pause(schedule, now_ms)
    due_ms = schedule.due_ms
    has_come = due_ms is not None and due_ms <= now_ms
    if not has_come and fields.timing != schedule.fields.timing:
        due_ms = next_due(fields, now_ms)
    return schedule.next(
        fields=fields,
        what=what,
        due_ms=due_ms,
        version=schedule.version + 1,
        changed_ms=now_ms,
    )


def pause(schedule: Schedule, why: str, now_ms: int) -> Schedule:
    """Start nothing more. What waits for the end of what runs does not start either."""
    if schedule.paused is not None:
        return schedule
    paused = {"paused": Pause(now_ms, why), "queued_ms": None, "changed_ms": now_ms}
    if schedule.queued_ms is None:
        return schedule.next(**paused)
    waits = Result(schedule.queued_ms, "paused", now_ms, f"{why}, while it waited")
    return schedule.with_result(waits, **paused)


def resume(schedule: Schedule, now_ms: int) -> Schedule:
    """Be due again from now on; what it was paused for by `pause_on_failure` counts no more."""
    if schedule.paused is None:
        return schedule
    excused = schedule.paused.failed or schedule.excused
    settled = settle_pause(schedule, now_ms)
    return settled.next(paused=None, excused=excused, changed_ms=now_ms)


def settle_pause(schedule: Schedule, now_ms: int) -> Schedule:
    """Give the due times that came during a pause their result."""
    due_ms, pause_ = schedule.due_ms, schedule.paused
    if due_ms is None or pause_ is None or due_ms + schedule.jitter_ms > now_ms:
        return schedule
    came = passed(schedule.fields, due_ms, now_ms - schedule.jitter_ms)
    result = Result(
        due_ms,
        "paused",
        now_ms,
        pause_.why,
        to_ms=None if came.earlier == 0 else came.latest_ms,
        times=None if came.earlier is None else came.earlier + 1,
    )
    return schedule.with_result(result, due_ms=next_due(schedule.fields, came.latest_ms))
