"""What counts as late, and what does not."""

from dataclasses import replace

import pytest

from joblane.schedule.decide import GRACE_MS, Seen, Start, Write, decide
from joblane.schedule.fields import ScheduleFields
from joblane.schedule.record import Pause, edit
from tests.unit.schedule.world import START_MS, schedule

NOTHING = Seen((), None)
DAY_MS = 86_400_000


@pytest.mark.parametrize("timing", [{"every_s": 60}, {"cron": "0 0 * * *"}])
def test_a_jitter_of_minutes_is_not_late_and_misses_nothing(timing: dict[str, object]) -> None:
    row = replace(schedule(**timing, jitter_s=3600, catch_up_s=0), name="later")
    assert row.jitter_ms > GRACE_MS
    assert row.due_ms is not None
    assert row.starts_ms is not None
    assert Start(row.due_ms) == decide(row, NOTHING, row.starts_ms)
    late = decide(row, NOTHING, row.starts_ms + GRACE_MS + 1000)
    assert isinstance(late, Write)
    assert "missed" == late.schedule.results[0].outcome


def test_two_minutes_are_on_time_without_catching_up() -> None:
    row = schedule(cron="0 0 * * *", catch_up_s=0)
    assert row.due_ms is not None
    assert Start(row.due_ms) == decide(row, NOTHING, row.due_ms + GRACE_MS)


def test_times_of_a_pause_have_their_result_by_the_timing_that_they_had() -> None:
    row = replace(schedule(cron="0 0 * * *"), paused=Pause(START_MS, "paused by ada"))
    assert row.due_ms is not None
    after = edit(row, ScheduleFields(every_s=60), "true", row.due_ms + 2 * DAY_MS + 1000)
    (paused,) = after.results
    assert (row.due_ms, row.due_ms + 2 * DAY_MS, 3) == (paused.due_ms, paused.to_ms, paused.times)
    assert row.due_ms + 2 * DAY_MS + 60_000 == after.due_ms
