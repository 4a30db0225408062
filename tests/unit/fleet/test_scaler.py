"""The function scaler, with a stand-in for Auto Scaling: what it decides, writes and says."""

from dataclasses import replace

import pytest

from joblane.aws.fleet.auto_scaling import ScalingActivity
from joblane.deployment.metrics import OF_FLEETS
from joblane.fleet.absence import NO_AGENT, BootFailure, absent
from joblane.fleet.capacity import GroupState
from joblane.fleet.record import SHORT_AFTER_MS
from joblane.service.fleet.scaler import NOTHING_CAME, shortage
from tests.support.aws import NAME, Cloud
from tests.support.scaler_scene import GROUP, MINUTE, Scene


@pytest.fixture(name="scene")
def _scene(aws: Cloud) -> Scene:
    return Scene(aws)


def test_an_empty_fleet_gets_its_first_instance(scene: Scene):
    scene.submit(1)
    assert {"Raised": 1} == scene.run()
    assert [1] == scene.groups.sets
    record = scene.record()
    assert (1, 1, 1, scene.now_ms) == (
        record.desired,
        record.backlog,
        record.wanted,
        record.raised_ms,
    )
    assert {"default": scene.now_ms} == record.waiting


def test_a_boot_that_failed_is_told_until_a_later_one_goes_well(scene: Scene):
    """The next instance fails as well, ten minutes later; the row of this one is gone by then."""
    said = "failed its setup: exit code 3: no GPU here"
    row = replace(absent("i-0", scene.now_ms), trouble=said)
    scene.groups.groups[GROUP] = GroupState(0, 10, 1, {"i-0": "InService"})
    scene.aws.agents.note_absence(row)
    scene.submit(1)
    scene.run()
    failure = BootFailure("i-0", scene.now_ms, said)
    assert failure == scene.record().boot_failure

    scene.groups.groups[GROUP] = GroupState(0, 10, 1, {"i-1": "Pending"})
    scene.aws.agents.delete("i-0")
    scene.now += 11 * MINUTE
    scene.run()
    assert failure == scene.record().boot_failure

    scene.now += 2 * MINUTE
    scene.serve(0)  # since a minute
    scene.run()
    assert scene.record().boot_failure is None


def test_an_agent_from_before_a_failed_boot_does_not_hide_it(scene: Scene):
    scene.serve(0)
    row = replace(absent("i-9", scene.now_ms), trouble="failed to install its packages: x")
    group = scene.groups.groups[GROUP]
    both = replace(group, desired=2, instances={**group.instances, "i-9": "InService"})
    scene.groups.groups[GROUP] = both
    scene.aws.agents.note_absence(row)
    scene.run()
    scene.aws.agents.delete("i-9")
    scene.groups.groups[GROUP] = group
    scene.run()
    assert "i-9" == scene.record().boot_failed_instance


def test_a_second_call_launches_nothing_for_the_same_jobs(scene: Scene):
    scene.submit(1)
    scene.run()
    scene.now += 5
    assert {} == scene.run(kicked=True)
    assert [1] == scene.groups.sets


def test_jobs_that_fit_free_slots_launch_nothing(scene: Scene):
    scene.serve(2)
    scene.submit(6)
    assert {} == scene.run()


def test_a_paused_queue_launches_nothing(scene: Scene):
    from joblane.queue.settings import UNSET

    scene.scaler.sources.settings.put("default", replace(UNSET, run_jobs=False, version=1), over=0)
    scene.submit(20)
    assert {} == scene.run()


def test_a_group_that_grew_meanwhile_is_not_made_smaller(scene: Scene):
    scene.submit(1)

    def operator() -> None:
        scene.groups.groups[GROUP] = replace(scene.groups.groups[GROUP], desired=4)

    scene.groups.between = operator
    assert {} == scene.run()
    assert [] == scene.groups.sets


def test_a_largest_size_that_was_lowered_meanwhile_is_kept(scene: Scene):
    scene.submit(80)

    def operator() -> None:
        scene.groups.groups[GROUP] = replace(scene.groups.groups[GROUP], most=3)

    scene.groups.between = operator
    scene.run()
    assert [3] == scene.groups.sets


def test_what_an_agent_gave_back_meanwhile_is_not_asked_for_again(scene: Scene):
    scene.groups.groups[GROUP] = GroupState(0, 10, 2)
    scene.submit(24)  # one instance more than the two that come

    def agent() -> None:
        scene.groups.groups[GROUP] = replace(scene.groups.groups[GROUP], desired=1)

    scene.groups.between = agent
    scene.run()
    assert [2] == scene.groups.sets


def test_a_fleet_without_a_group_is_left_alone(scene: Scene):
    scene.groups.groups.clear()
    scene.submit(5)
    assert {"NoGroup": 1} == scene.run()
    assert [] == scene.groups.sets
    assert scene.scaler.sources.records.read("main") is None


def test_an_instance_that_never_gets_an_agent_is_capacity_for_ten_minutes(scene: Scene):
    """Also if the function instance_watch, which replaces it, fails."""
    scene.groups.groups[GROUP] = GroupState(0, 10, 1, {"i-dead": "InService"})
    scene.submit(8)
    for _ in range(10):
        assert {} == scene.run()
        assert (1, 0) == (scene.record().booting, scene.lines[-1]["AgentsInTrouble"])
        scene.now += MINUTE
    assert {"Raised": 1} == scene.run()
    assert [2] == scene.groups.sets
    assert (0, 1) == (scene.record().booting, scene.lines[-1]["AgentsInTrouble"])
    row = scene.aws.agents.get("i-dead")
    assert row is not None
    assert NO_AGENT == row.trouble
    # No further one while this one comes, as most instances have no working agent.
    scene.groups.groups[GROUP] = GroupState(0, 10, 2, {"i-dead": "InService", "i-1": "Pending"})
    scene.submit(80)
    assert {} == scene.run()
    assert "broken" == scene.record().limit


def test_since_when_an_instance_has_no_agent_is_written_once_and_never_over_a_heartbeat(
    scene: Scene,
):
    scene.groups.groups[GROUP] = GroupState(0, 10, 1, {"i-0": "InService"})
    scene.run(kicked=True)
    assert scene.aws.agents.get("i-0") is None, "a kick only asks for more"
    scene.run()
    first_ms = scene.now_ms
    scene.now += MINUTE
    scene.run()
    row = scene.aws.agents.get("i-0")
    assert row is not None
    assert first_ms == row.beat_ms
    scene.serve(3)
    scene.scaler.sources.agents.note_absence(absent("i-0", scene.now_ms))
    row = scene.aws.agents.get("i-0")
    assert row is not None
    assert 3 == row.running


def test_a_refused_change_is_counted_and_tried_again(scene: Scene):
    scene.submit(1)
    scene.groups.fails = "set_desired"
    assert {"Failed": 1} == scene.run()
    scene.groups.fails = None
    scene.now += MINUTE
    assert {"Raised": 1} == scene.run()


def activity(status: str, at_ms: int, description: str = "Launching") -> ScalingActivity:
    return ScalingActivity(at_ms, status, description, "InsufficientInstanceCapacity")


NO = "InsufficientInstanceCapacity"
SINCE = 10_000_000


@pytest.mark.parametrize(
    ("name", "activities", "after_ms", "expected"),
    [
        ("nothing yet", [], 1, None),
        ("in progress", [activity("InProgress", SINCE)], 1, None),
        ("the newest failed", [activity("Failed", SINCE)], 1, NO),
        (
            "it failed, and the next try has not ended",
            [activity("InProgress", SINCE + 9), activity("Failed", SINCE)],
            1,
            NO,
        ),
        (
            "it failed, and the next try succeeded",
            [activity("Successful", SINCE + 9), activity("Failed", SINCE)],
            1,
            None,
        ),
        ("it failed long ago", [activity("Failed", SINCE - 100_000)], 1, None),
        (
            "an end of an instance is no launch",
            [activity("Successful", SINCE + 9, "Terminating"), activity("Failed", SINCE)],
            1,
            NO,
        ),
        ("nothing came for 15 minutes", [], SHORT_AFTER_MS, NOTHING_CAME),
        (
            "some came, and more are to come",
            [activity("Successful", SINCE + SHORT_AFTER_MS - 5)],
            SHORT_AFTER_MS,
            None,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_capacity_is_short(
    name: str, activities: list[ScalingActivity], after_ms: int, expected: str | None
):
    assert expected == shortage(activities, SINCE, SINCE + after_ms), name


def test_why_capacity_does_not_come_is_recorded(scene: Scene):
    scene.submit(1)
    scene.run()
    scene.now += MINUTE
    scene.groups.tried = [activity("Failed", scene.now_ms)]
    scene.submit(20)
    scene.run()
    record = scene.record()
    assert (NO, scene.now_ms, "short") == (
        record.short_reason,
        record.short_since_ms,
        record.limit,
    )
    assert [1] == scene.groups.sets


def test_agents_that_a_roomy_fleet_can_spare_are_named(scene: Scene):
    for _ in range(6):
        scene.serve(1, 2, 1)
        done = scene.run()
        scene.now += MINUTE
    assert {"Surplus": 1} == done
    assert ["i-0"] == scene.surplus()
    assert [] == scene.groups.sets


def test_a_kick_names_nobody(scene: Scene):
    for _ in range(6):
        scene.serve(1, 2, 1)
        scene.run(kicked=True)
        scene.now += MINUTE
    assert [] == scene.surplus()


def test_a_busy_minute_begins_the_time_again(scene: Scene):
    for minute in range(8):
        scene.serve(*((8, 8, 8) if minute == 4 else (1, 2, 1)))
        scene.run()
        scene.now += MINUTE
    assert [] == scene.surplus()


def test_every_metric_of_fleets_is_written(scene: Scene):
    scene.serve(2, 0)
    scene.submit(3)
    scene.run()
    (line,) = scene.lines
    assert {name: line[name] for name in OF_FLEETS} == {
        "SlotsWanted": 5,
        "Backlog": 3,
        "SlotsBusy": 2,
        "SlotsTotal": 16,
        "AgentsAlive": 2,
        "AgentsInTrouble": 0,
        "CapacityShort": 0,
        "ScalerBlind": 0,
    }
    assert (NAME, "main") == (line["Deployment"], line["Fleet"])


def test_a_call_of_a_quiet_fleet_writes_nothing(scene: Scene):
    scene.serve(5)
    scene.run()
    first = scene.record()
    scene.now += MINUTE
    scene.serve(5)
    scene.run()
    assert first == scene.record()
