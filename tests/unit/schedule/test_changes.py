"""People change schedules at the moment at which these are due: no due time is lost."""

from dataclasses import replace

from joblane.schedule.fields import ScheduleFields
from joblane.schedule.record import edit
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
    world.row, world.messages = shaken, []
    world.firing._write(shaken, edit(shaken, row.fields, "true", START_MS), START_MS)
    assert [row.due_ms // 1000] == [at // 1000 for at, *_ in world.messages]
