"""A desired capacity that somebody has lowered below the instances, which stay as protected.

Agents end instances by lowering the desired capacity, which the group refuses at its smallest size.
"""

from typing import Any

import pytest

from joblane.fleet.capacity import GroupState
from joblane.fleet.record import STUCK_AFTER_MS
from joblane.fleet.wanted import FleetState, QueueLoad, decide_wanted
from tests.support.aws import Cloud
from tests.support.scaler_scene import GROUP, MINUTE, Scene


def idle(members: int, desired: int, **values: Any) -> FleetState:
    """A fleet whose agents have no jobs."""
    free = {"free": members * 8, "free_of": {"default": members * 8}}
    given = {"least": 0, "most": 20, "in_service": members, "alive": members, **free, **values}
    return FleetState("main", ("default",), 8, members=members, desired=desired, **given)


@pytest.mark.parametrize(
    ("name", "state", "crowded", "when_stuck"),
    [
        ("nothing is there", idle(0, 0), False, 0),
        ("as many as desired", idle(4, 4), False, 4),
        ("fewer than desired", idle(3, 4), False, 4),
        ("more than desired, which may fall: agents end them", idle(10, 3), False, 10),
        ("more than desired, at the smallest size", idle(10, 0), True, 10),
        ("the same with a smallest size", idle(10, 2, least=2), True, 10),
        ("never above the largest size", idle(10, 0, most=6), True, 6),
        ("those that leave, and will be refused, count", idle(10, 2, least=2, leaving=8), True, 10),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_stuck_fleet_gets_the_size_that_it_has(
    name: str,
    state: FleetState,
    crowded: bool,
    when_stuck: int,
):
    assert crowded is state.crowded, name
    for stuck, expected in ((False, state.desired), (True, when_stuck)):
        values = {field: getattr(state, field) for field in FleetState.__slots__}
        now = FleetState(**{**values, "stuck": stuck})
        decided = decide_wanted([now], {"default": QueueLoad(0, threads=8)}).fleets["main"]
        assert (expected, None) == (decided.desired, decided.limit), name


def lower(scene: Scene, desired: int) -> None:
    """As an operator does."""
    instances = scene.groups.groups[GROUP].instances
    scene.groups.groups[GROUP] = GroupState(0, 10, desired, instances)


def test_a_crowded_group_is_raised_after_ten_minutes_so_that_agents_can_leave(aws: Cloud):
    scene = Scene(aws)
    for minute in range(STUCK_AFTER_MS // 60_000 + 1):
        scene.serve(0, 0, 0)
        lower(scene, 0)
        assert [] == scene.groups.sets, f"after {minute} minutes"
        scene.run()
        scene.now += MINUTE
    assert [3] == scene.groups.sets
    scene.serve(0, 0, 0)
    scene.run()
    assert scene.record().crowded_since_ms is None
    assert [3] == scene.groups.sets


def test_a_time_in_which_it_is_not_crowded_begins_the_time_again(aws: Cloud):
    scene = Scene(aws)
    for minute in range(14):
        scene.serve(0, 0, 0)
        if minute != 6:
            lower(scene, 0)
        scene.run()
        scene.now += MINUTE
    assert [] == scene.groups.sets


def test_a_size_below_the_instances_with_jobs_is_raised_to_them_at_once(aws: Cloud):
    """So the size falls by one with each that ends, and not below what the fleet needs."""
    scene = Scene(aws)
    scene.serve(8, 8, 0, 0)
    lower(scene, 1)
    scene.run()
    assert [2] == scene.groups.sets
