"""Open executions of a tenant: up to its limit, and each further one when another one ends."""

from functools import partial

import pytest

from joblane.deployment.limits import LimitOverrides, Limits, TenantLimits
from joblane.job.moves import plan
from joblane.state.lifecycle import Event, State
from tests.support.crash_points import gaps, kills
from tests.support.recovery import World, in_memory
from tests.unit.condition.test_recovery_crashes import (
    Killed,
    KilledForGood,
    Late,
    end_meanwhile,
    join_meanwhile,
    points,
    undisturbed,
)

SITES = [f"http:https://{name}.example.com/" for name in "abcdefgh"]
NOTE = "the limit recovery_executions: its own is tested after another one ends"


def limited(world: World, limit: int, **tenants: int) -> World:
    own = {name: LimitOverrides(recovery_executions=most) for name, most in tenants.items()}
    world.limits = Limits(default=TenantLimits(recovery_executions=limit), tenants=own)
    world.use(world.clients)
    return world


@pytest.fixture(name="world")
def _world() -> World:
    return limited(in_memory(), 3)


def under_test(world: World) -> set[str]:
    """The conditions with an execution that goes on."""
    return {e.data["condition"] for e in world.machine.running() if e.data.get("next") != "done"}


def block_each(world: World, conditions: list[str], first: int = 0, tenant: str = "acme"):
    return [
        world.submit_and_block(condition, first=first + n, tenant=tenant)[0]
        for n, condition in enumerate(conditions)
    ]


def test_jobs_that_block_on_ever_new_conditions_open_no_more_executions_than_the_limit(
    world: World,
):
    jobs = block_each(world, SITES)
    assert set(SITES[:3]) == under_test(world)
    for job_id in jobs[3:]:
        head = world.aws.job(job_id)
        assert State.BLOCKED is head.state
        assert f"3 conditions of acme were tested when it blocked, {NOTE}" == head.reason
    # They take nothing from another tenant, whose job may wait for one of them as well.
    others = block_each(world, [SITES[7], "tcp:db:5432"], 20, "other")
    assert {*SITES[:3], SITES[7], "tcp:db:5432"} == under_test(world)
    world.machine.run(600)
    assert 5 == len(under_test(world))
    world.http.allow = world.tcp.allow = 10
    most = 0
    while world.machine.running():
        world.machine.run(1)
        most = max(most, len(under_test(world) - {SITES[7], "tcp:db:5432"}))
    assert 3 == most
    assert [State.PENDING] * 10 == world.states(jobs + others)
    assert NOTE not in world.reason(jobs[5])
    head = world.aws.job(jobs[5])
    assert "released by its condition" in head.reason


def test_a_condition_whose_jobs_were_cancelled_before_its_turn_is_not_tested(world: World):
    jobs = block_each(world, SITES[:5])
    head = world.aws.job(jobs[3])
    world.aws.jobs.move(head, Event.CANCEL, plan(head, Event.CANCEL, world.now_ms, "cancelled"))
    world.recover()
    expected = [State.PENDING] * 3 + [State.CANCELLED, State.PENDING]
    assert expected == world.states(jobs)
    block_each(world, SITES[:3], 10)
    assert set(SITES[:3]) == under_test(world)  # all places have been given back


def test_a_tenants_own_limit_counts(world: World):
    limited(world, 3, acme=1)
    block_each(world, SITES[:3])
    block_each(world, SITES[3:7], 10, "other")
    assert {SITES[0], *SITES[3:6]} == under_test(world)


def over_the_limit(world: World) -> list[str]:
    """Two conditions and one place: the second is tested when the first has ended."""
    jobs = [world.submit(number) for number in range(3)]
    for received, condition in zip(world.receive_all(), SITES[:3], strict=True):
        try:
            world.block(received, condition)
        except (Killed, KilledForGood):
            world.block(received, condition)
    world.recover()
    return jobs


def all_went(world: World, jobs: list[str]) -> None:
    assert [State.PENDING] * len(jobs) == world.states(jobs)
    waiting = [message.body for message in world.receive_all()]
    assert all(any(job_id in body for body in waiting) for job_id in jobs)
    assert [] == world.machine.running()
    # Every place is free again.
    with undisturbed(world):
        block_each(world, SITES[5:6], 50)
        assert {SITES[5]} == under_test(world)


@pytest.mark.parametrize("how", [Killed, KilledForGood])
def test_killed_after_any_call_no_condition_waits_for_ever(how: type[Exception]):
    def kill() -> None:
        raise how

    for world, _ in points(kill, kills):
        all_went(world, over_the_limit(limited(world, 1)))


def test_a_condition_that_joins_between_any_two_calls_of_the_last_execution_is_tested():
    joining = Late()
    for world, wire in points(joining, gaps):
        limited(world, 1)
        join_meanwhile(joining, world, wire, SITES[1], partial(block_each, world, SITES[:1]))


def test_an_execution_that_ends_between_any_two_calls_of_a_join_leaves_no_condition_untested():
    running = Late()
    for world, wire in points(running, gaps, least=5):
        limited(world, 1)
        end_meanwhile(running, world, wire, SITES[1], partial(block_each, world, SITES[:1]))
