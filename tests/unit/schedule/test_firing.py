"""Every due time has exactly one result, whatever dies and whoever does the same at once."""

from dataclasses import replace
from itertools import pairwise

import pytest

from joblane.aws.schedule.items import from_row, to_row
from joblane.schedule.decide import Seen, Start, Write, decide
from joblane.schedule.record import pause, resume
from joblane.schedule.times import next_due
from joblane.state.lifecycle import State
from tests.support.depth import budget
from tests.unit.schedule.world import START_MS, World, schedule

MINUTES = budget(400, 525_600)


def check(world: World, until_ms: int) -> None:
    """Each due time up to `until_ms` has one result; what is started has a job, and only that."""
    row = world.row
    assert row is not None
    results = [each for each in world.all_results if each.cause == "due"]
    due_ms = next_due(row.fields, START_MS)
    spans = sorted((each.due_ms, each.to_ms or each.due_ms, each) for each in results)
    for first, last, result in spans:
        if due_ms == row.queued_ms and due_ms != first:
            due_ms = next_due(row.fields, due_ms or 0)
        assert due_ms == first, (due_ms, result)
        times = 0
        while due_ms is not None and due_ms <= last:
            times += 1
            due_ms = next_due(row.fields, due_ms)
        assert result.times in (times, None)
        assert (row.job_of(first) in world.jobs) == (result.outcome == "started"), result
    assert due_ms in {None, row.queued_ms, row.due_ms}
    assert due_ms is None or due_ms > until_ms - 300_000
    assert len(world.jobs) == world.puts


@pytest.mark.parametrize("overlap", ["skip", "queue", "replace", "allow"])
@pytest.mark.parametrize("seed", range(budget(2, 20)))
def test_each_minute_has_one_result_although_functions_die_and_race(
    overlap: str, seed: int
) -> None:
    world = World(
        schedule(every_s=60, overlap=overlap),
        seed,
        kills=0.03,
        races=0.1,
        lost=0.02,
        runs_ms=lambda rng: rng.choice((500, 30_000, 59_000, 61_000, 130_000)),
    )
    until_ms = START_MS + MINUTES // budget(4, 40) * 60_000
    world.run(until_ms)
    world.kills = world.races = world.lost = 0
    world.run(until_ms + 600_000)
    check(world, until_ms + 600_000)
    if overlap in ("skip", "queue", "replace"):
        began = sorted(world.jobs.values())
        assert all(one[1] <= other[0] for one, other in pairwise(began))


def test_a_year_of_minutes_has_a_result_for_each_and_starts_on_its_second() -> None:
    world = World(schedule(every_s=60), runs_ms=lambda _rng: 30_000)
    world.run(until_ms := START_MS + MINUTES * 60_000)
    check(world, until_ms)
    assert {"started"} == {each.outcome for each in world.all_results}
    late = [began // 60_000 * 60_000 - began for began, _ in world.jobs.values()]
    assert {0} == set(late)


@pytest.mark.parametrize("seed", range(budget(2, 50)))
def test_clocks_that_are_a_minute_off_change_nothing(seed: int) -> None:
    world = World(schedule(every_s=60), seed, kills=0.02, races=0.1, skew_ms=60_000)
    world.run(START_MS + 100 * 60_000)
    world.kills = world.races = world.skew_ms = 0
    world.run(until_ms := START_MS + 110 * 60_000)
    check(world, until_ms)


def test_a_job_of_half_a_minute_is_never_skipped() -> None:
    world = World(schedule(every_s=60, overlap="skip"), runs_ms=lambda _rng: 30_000)
    world.run(START_MS + 60 * 60_000)
    assert {"started"} == {each.outcome for each in world.all_results}


def test_after_an_outage_the_latest_missed_time_starts_and_the_others_are_one_result() -> None:
    world = World(schedule(every_s=60, catch_up_s=3600))
    row = world.row
    assert row is not None
    world.now = START_MS + 3 * 86_400_000 + 5_000
    world.requeue()
    world.run(world.now + 1)
    missed, started = world.all_results[:2]
    assert ("missed", "started") == (missed.outcome, started.outcome)
    assert missed.due_ms == row.due_ms
    assert (missed.times, missed.to_ms) == (3 * 1440 - 1, started.due_ms - 60_000)
    assert 1 == len(world.jobs)


def test_what_is_too_late_is_missed_and_the_schedule_goes_on() -> None:
    world = World(schedule(cron="0 0 * * *", catch_up_s=0))
    row = world.row
    assert row is not None
    assert row.due_ms is not None
    world.now = row.due_ms + 130_000
    world.requeue()
    world.run(world.now + 1)
    assert ["missed"] == [each.outcome for each in world.all_results]
    assert "2 min late; catch_up_s is 0" == world.all_results[0].text
    assert world.row is not None
    assert world.row.due_ms == row.due_ms + 86_400_000


def test_a_refused_submission_is_a_result_and_the_next_one_is_tried() -> None:
    world = World(schedule(every_s=60), refuses=lambda due_ms: due_ms // 60_000 % 2 == 0)
    world.run(until_ms := START_MS + 20 * 60_000)
    check(world, until_ms)
    outcomes = [each.outcome for each in world.all_results]
    assert {"started", "refused"} == set(outcomes)
    assert outcomes[0] != outcomes[1]


def test_pause_on_failure_pauses_and_says_why() -> None:
    world = World(schedule(every_s=60, pause_on_failure=True))
    world.run(START_MS + 3 * 60_000)
    row = world.row
    assert row is not None
    assert row.running is not None
    world.states_of = lambda ids: {  # type: ignore[method-assign]
        each: State.DEAD for each in ids if each in world.jobs
    }
    world.run(START_MS + 6 * 60_000)
    assert world.row is not None
    assert world.row.paused is not None
    assert f"{row.running}, which it started before, is dead (pause_on_failure)" == (
        world.row.paused.why
    )
    assert "paused" == world.row.results[-1].outcome
    failed = world.row.running
    # The failure that it was resumed after pauses it no more; one of the next job does.
    world.set(from_row(to_row(resume(from_row(to_row(world.row, 0)), world.now), world.now)))
    world.run(START_MS + 9 * 60_000)
    assert world.row.paused is not None
    assert failed != world.row.paused.failed


@pytest.mark.parametrize(("overlap", "pauses"), [("queue", True), ("replace", False)])
def test_a_due_time_that_waited_does_not_start_after_a_failure(
    overlap: str, *, pauses: bool
) -> None:
    row = schedule(every_s=60, pause_on_failure=True, overlap=overlap)
    row = replace(row, queued_ms=row.due_ms, due_ms=START_MS + 600_000, running="J")
    decision = decide(row, Seen((), State.FAILED), START_MS + 90_000)
    if not pauses:  # the schedule itself has ended it
        assert Start(row.queued_ms or 0) == decision
        return
    assert isinstance(decision, Write)
    after = decision.schedule
    assert (None, "paused", "J") == (
        after.queued_ms,
        after.results[-1].outcome,
        after.paused and after.paused.failed,
    )


def test_pausing_and_resuming_gives_one_result_to_all_times_in_between() -> None:
    world = World(schedule(every_s=60))
    world.run(START_MS + 3 * 60_000)
    assert world.row is not None
    world.set(pause(world.row, "paused by ada", world.now))
    world.run(START_MS + 60 * 60_000)
    before = world.row
    assert before is not None
    world.set(resume(before, world.now))
    world.run(until_ms := START_MS + 70 * 60_000)
    check(world, until_ms)
    (paused,) = [each for each in world.all_results if each.outcome == "paused"]
    assert ("paused by ada", before.due_ms) == (paused.text, paused.due_ms)
    assert paused.times is not None
    assert 55 <= paused.times <= 58


def test_a_schedule_that_is_deleted_while_it_fires_starts_nothing_more() -> None:
    world = World(schedule(every_s=60))
    world.run(START_MS + 2 * 60_000)
    started = len(world.jobs)
    world.row = None
    world.run(START_MS + 20 * 60_000)
    assert started == len(world.jobs)


def test_a_schedule_without_a_next_time_is_over() -> None:
    world = World(schedule(every_s=60, end="2023-11-14T22:16:00Z"))
    world.run(START_MS + 20 * 60_000)
    assert world.row is not None
    assert world.row.due_ms is None
    assert 3 == len(world.all_results)
    assert replace(world.row).wake_at_ms(world.now) is None
