"""Show schedules as the API answers them."""

from collections.abc import Iterable

from joblane.contract.audit import who_view
from joblane.contract.schedules import (
    LAST_SHOWN,
    NEXT_SHOWN,
    NextTime,
    ResultView,
    ScheduleSummary,
    ScheduleView,
)
from joblane.formats.text import span
from joblane.formats.times import rfc3339
from joblane.schedule.decide import ON_TIME_MS
from joblane.schedule.fields import Template, Timing
from joblane.schedule.record import Schedule
from joblane.schedule.results import Result
from joblane.schedule.times import local_time, next_times


def show_times(timing: Timing, times: Iterable[int], jitter_ms: int) -> tuple[NextTime, ...]:
    """Due times as they are answered."""
    return tuple(
        NextTime(
            due_at=rfc3339(due_ms),
            local=local_time(due_ms, timing.zone),
            starts_at=rfc3339(due_ms + jitter_ms),
        )
        for due_ms in times
    )


def show_result(schedule: Schedule, result: Result) -> ResultView:
    """A result as it is answered."""
    job_id = result.job_id
    if job_id is None and result.outcome == "started" and result.cause == "due":
        job_id = schedule.job_of(result.due_ms)
    return ResultView(
        due_at=rfc3339(result.due_ms),
        to_at=None if result.to_ms is None else rfc3339(result.to_ms),
        times=result.times,
        outcome=result.outcome,
        cause=result.cause,
        job_id=job_id or None,
        at=rfc3339(result.at_ms),
        text=result.text or _say_started(schedule, result),
    )


def _say_started(schedule: Schedule, result: Result) -> str:
    late_ms = result.at_ms - result.due_ms - schedule.jitter_ms
    if late_ms <= ON_TIME_MS:
        return "started on its second"
    return f"started {span(late_ms / 1000)} late"


def summary(schedule: Schedule, why: str | None, now_ms: int) -> ScheduleSummary:
    """A schedule without its template."""
    return ScheduleSummary(**_summary_fields(schedule, why, now_ms))


def _summary_fields(schedule: Schedule, why: str | None, now_ms: int) -> dict[str, object]:
    fields, results = schedule.fields, schedule.results
    due = [] if schedule.due_ms is None or schedule.paused is not None else [schedule.due_ms]
    shown = show_times(fields, due, schedule.jitter_ms)
    return {
        **fields.model_dump(),
        "name": schedule.name,
        "tenant": schedule.tenant,
        "what": schedule.what,
        "paused": schedule.paused is not None,
        "declared": schedule.declared,
        "version": schedule.version,
        "next": shown[0] if shown else None,
        "last": show_result(schedule, results[-1]) if results else None,
        "why": why or why_idle(schedule, now_ms),
    }


def why_idle(schedule: Schedule, now_ms: int) -> str | None:
    """Why nothing starts, as far as the row says it; None if it starts."""
    if (pause := schedule.paused) is not None:
        return f"paused since {rfc3339(pause.at_ms)}: {pause.why}"
    if schedule.queued_ms is not None:
        waits = rfc3339(schedule.queued_ms)
        return f"the due time {waits} waits for the end of {schedule.running}"
    if schedule.due_ms is None:
        end = schedule.fields.end
        return "it is not due any more" if end is None else f"it is over: its end {end} has come"
    late_ms = now_ms - schedule.due_ms - schedule.jitter_ms
    if late_ms > ON_TIME_MS:
        return f"it is {span(late_ms / 1000)} late: the function due has not come to it yet"
    return None


def show(
    schedule: Schedule,
    template: Template,
    older: Iterable[Result],
    why: str | None,
    warnings: Iterable[str],
    now_ms: int,
) -> ScheduleView:
    """A schedule; `older` are results before those of its row, the oldest first."""
    results = [*older, *schedule.results][-LAST_SHOWN:]
    spec = template.submission
    times = next_times(schedule.fields, now_ms, NEXT_SHOWN)
    return ScheduleView(
        **_summary_fields(schedule, why, now_ms),
        submission=None
        if spec is None
        else spec.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        requeue=template.requeue,
        running=schedule.running,
        next_times=show_times(schedule.fields, times, schedule.jitter_ms),
        results=tuple(show_result(schedule, each) for each in reversed(results)),
        warnings=tuple(warnings),
        created_at=rfc3339(schedule.created_ms),
        created_by=who_view(schedule.created_by),
        changed_at=rfc3339(schedule.changed_ms),
    )
