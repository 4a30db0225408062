"""People change schedules at the moment at which these are due: no due time is lost."""

from dataclasses import replace
from typing import Any, cast

from joblane.schedule.decide import Seen, Write, decide, started
from joblane.schedule.fields import ScheduleFields
from joblane.schedule.record import edit, pause, resume
from joblane.schedule.results import Result
from joblane.service.schedule.messages import send_next
from joblane.service.schedule.starts import Started
from joblane.state.lifecycle import State
from tests.unit.schedule.world import START_MS, World, schedule

MINUTE_MS = 60_000


def test_a_due_time_that_has_come_starts_although_an_edit_leaves_it_out() -> None:
    """Its message comes again, after a crash or an outage, and the new timing has no such time."""
    world = World(schedule(cron="* * * * *"))
    row = world.row
    assert row is not None
    assert row.due_ms is not None
    world.messages.clear()
    world.now = row.due_ms + 30_000
    world.set(edit(row, ScheduleFields(cron="0 5 * * *"), "true", world.now))
    world.run(world.now + 2 * MINUTE_MS)
    assert [(row.due_ms, "started")] == [(each.due_ms, each.outcome) for each in world.all_results]
    assert [row.job_of(row.due_ms)] == [*world.jobs]


def test_a_due_time_that_waits_for_its_jitter_is_kept_by_an_edit() -> None:
    row = replace(schedule(cron="* * * * *", jitter_s=3600), name="later")
    assert row.jitter_ms > 5 * MINUTE_MS
    assert row.due_ms is not None
    changed = edit(row, ScheduleFields(cron="0 5 * * *"), "true", row.due_ms + MINUTE_MS)
    assert row.due_ms == changed.due_ms


def test_an_edit_that_takes_jitter_away_still_starts_on_its_second() -> None:
    world = World(schedule(every_s=600))
    row = world.row
    assert row is not None
    assert row.due_ms is not None
    shaken = replace(row, fields=ScheduleFields(every_s=600, jitter_s=3600), name="later")
    assert shaken.jitter_ms
    world.messages.clear()
    after = edit(shaken, row.fields, "true", START_MS)
    send_next(cast("Any", world), shaken, after, START_MS)
    assert [row.due_ms // 1000] == [at // 1000 for at, *_ in world.messages]


def test_a_start_has_its_result_although_an_edit_by_a_late_clock_went_by_it() -> None:
    world = World(schedule(cron="* * * * *"))
    row = world.row
    assert row is not None
    assert row.due_ms is not None
    start = world.start

    def start_and_edit(*given: Any) -> Started:
        done = start(*given)
        if world.row == row:
            late_ms = (row.due_ms or 0) - MINUTE_MS
            world.set(edit(row, ScheduleFields(cron="0 5 * * *"), "true", late_ms))
        return done

    world.start = cast("Any", start_and_edit)  # type: ignore[method-assign]
    world.run(row.due_ms + MINUTE_MS)
    assert [(row.due_ms, "started")] == [(each.due_ms, each.outcome) for each in world.all_results]
    assert row.job_of(row.due_ms) == (world.row and world.row.running)


def test_what_waits_does_not_start_after_a_failure_that_pauses() -> None:
    world = World(
        schedule(every_s=60, overlap="queue", pause_on_failure=True), runs_ms=lambda _rng: 90_000
    )
    failed = {True: State.DEAD, False: State.ACTIVE}
    world.states_of = lambda ids: {  # type: ignore[method-assign]
        each: failed[world.jobs[each][1] <= world.now] for each in ids if each in world.jobs
    }
    world.run(START_MS + 10 * MINUTE_MS)
    assert world.row is not None
    assert 1 == len(world.jobs)
    assert ["started", "paused"] == [each.outcome for each in world.all_results]
    assert world.row.paused is not None
    assert "is dead (pause_on_failure)" in world.row.paused.why
    assert world.row.queued_ms is None
    resumed = resume(world.row, world.now)
    assert resumed.due_ms is not None
    assert resumed.due_ms > world.now


def queued(ends_min: int) -> World:
    """A due time that waits for a job, which ends so many minutes and 20 s after it."""
    runs_ms = (60 + ends_min) * MINUTE_MS + 20_000
    world = World(schedule(every_s=3600, overlap="queue"), runs_ms=lambda _rng: runs_ms)
    row = world.row
    assert row is not None
    assert row.due_ms is not None
    world.run(row.due_ms + 61 * MINUTE_MS)
    assert world.row is not None
    assert row.due_ms + 60 * MINUTE_MS == world.row.queued_ms
    return world


def test_what_waits_starts_although_its_message_is_lost() -> None:
    world = queued(ends_min=3)
    world.messages.clear()
    world.run(world.now + 7 * MINUTE_MS)
    assert 2 == len(world.jobs)


def test_what_waits_when_somebody_pauses_has_its_result_and_does_not_start() -> None:
    world = queued(ends_min=3)
    before = world.row
    assert before is not None
    world.set(pause(before, "paused by ada", world.now))
    world.run(world.now + 30 * MINUTE_MS)
    assert 1 == len(world.jobs)
    last = world.all_results[-1]
    assert ("paused", before.queued_ms) == (last.outcome, last.due_ms)
    assert world.row is not None
    assert world.row.queued_ms is None


def test_what_waits_starts_within_moments_of_the_end_of_what_ran() -> None:
    world = queued(ends_min=3)
    ((_, ends_ms),) = world.jobs.values()
    world.run(ends_ms + 16_000)
    assert 2 == len(world.jobs)


def test_what_waits_and_is_refused_has_its_result_and_waits_no_more() -> None:
    world = queued(ends_min=3)
    assert world.row is not None
    queued_ms = world.row.queued_ms
    world.refuses = lambda _due_ms: True
    world.run(world.now + 10 * MINUTE_MS)
    assert world.row.queued_ms is None
    last = world.all_results[-1]
    assert ("refused", queued_ms) == (last.outcome, last.due_ms)


def test_a_start_that_is_found_late_does_not_stand_for_what_runs() -> None:
    row = schedule(every_s=60, overlap="allow")
    first = row.due_ms
    assert first is not None
    skipped = row.with_result(Result(first, "skipped", START_MS), due_ms=first + MINUTE_MS)
    after = started(started(skipped, first + MINUTE_MS, START_MS), first, START_MS)
    assert row.job_of(first + MINUTE_MS) == after.running
    assert ["started", "started"] == [each.outcome for each in after.results]


def test_a_group_that_failed_in_part_pauses_as_well() -> None:
    row = schedule(every_s=60, pause_on_failure=True)
    assert row.due_ms is not None
    row = started(row, row.due_ms, START_MS)
    assert row.starts_ms is not None
    decision = decide(row, Seen((), State.PARTIAL_FAILURE), row.starts_ms)
    assert isinstance(decision, Write)
    assert decision.schedule.paused is not None
