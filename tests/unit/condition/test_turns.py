"""Who is released from a condition, and when: tenants in turn, and those who come back last."""

import pytest

from joblane.job.message import Message
from joblane.state.lifecycle import State
from tests.support.aws import Cloud
from tests.support.recovery import World

URL = "http:https://api.example.com/health"
HOUR = 3600


@pytest.fixture(name="world")
def _world(aws: Cloud) -> World:
    return World(aws, aws.clients)


def release_until(world: World, wanted: str, tests: int) -> list[str]:
    """Test a condition so often at most; jobs block again as soon as they are released.

    Returns the jobs in the order of their release, up to the wanted one.
    """
    released: list[str] = []
    while wanted not in released and world.http.asked < tests:
        asked = world.http.asked
        while world.http.asked == asked:
            world.machine.run(1)
        for received in world.receive_all():
            released.append(Message.decode(received.body).job_id)
            world.clock.now += 0.001
            world.block(received, URL)
    return released


@pytest.mark.parametrize("allow", [1, 10])
def test_jobs_that_block_again_and_again_hold_up_no_job_of_another_tenant(world: World, allow: int):
    ten = world.submit_and_block(URL, 10)
    (other,) = world.submit_and_block(URL, first=10, tenant="other")
    world.http.allow = allow
    released = release_until(world, other, tests=2)
    assert other in released
    assert set(released) - {other} <= set(ten)


def test_a_job_that_comes_back_goes_behind_those_that_have_not_had_a_turn(world: World):
    jobs = world.submit_and_block(URL, 4)
    world.http.allow = 1
    assert jobs == release_until(world, jobs[-1], tests=4)


def test_tenants_go_in_turn_however_many_jobs_each_has(world: World):
    world.submit_and_block(URL, 5, tenant="one")
    world.submit_and_block(URL, 1, first=5, tenant="two")
    world.submit_and_block(URL, 3, first=6, tenant="two-b")
    turns = []
    turn = ""
    for _ in range(6):
        (entry,) = world.conditions.in_turn(URL, 1, turn)
        turns.append(turn := entry.tenant)
    assert ["one", "two", "two-b"] * 2 == turns
    tenants = [entry.tenant for entry in world.conditions.in_turn(URL, 9, "one")]
    assert ["two", "two-b", "one", "two-b", "one", "two-b", "one", "one", "one"] == tenants


def test_a_job_that_comes_back_gives_up_when_it_first_blocked_so_long_ago(world: World):
    """It is behind others in the list, which blocked later than it did first."""
    world.policies = {"http": {"policy": "constant", "every_s": 60, "most_s": 600}}
    (early,) = world.submit_and_block(URL)
    world.recover(1, seconds=60)
    (message,) = world.receive_all()
    world.http.allow = 0
    (late,) = world.submit_and_block(URL, first=1)
    world.clock.now += 30
    world.block(message, URL)
    world.machine.run(540)
    assert [State.FAILED, State.BLOCKED] == world.states([early, late])
    assert "gave up after 10 min" in world.reason(early)
