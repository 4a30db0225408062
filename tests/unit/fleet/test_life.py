"""Scaler, agents and their Auto Scaling group together: a fleet grows, works, and leaves.

In virtual time; `tests/support/living_fleet.py` says what is real. Every
five seconds it is checked that an instance with jobs is in the group.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import inline_calls
from tests.support.depth import spread
from tests.support.leaving_instance import Instance
from tests.support.living_fleet import BOOT_S, GROUP, LivingFleet

IDLE_S = 100.0
GONE_S = 60.0
"""In which an agent that has been idle for `IDLE_S` has left."""

MANY = 40
"""Jobs for ten instances."""


def live(fleet: LivingFleet, during: Callable[[], Awaitable[None]]) -> None:
    """Let a fleet live until `during` has ended."""

    async def work() -> None:
        life = asyncio.create_task(fleet.live())
        await during()
        if not life.done():
            life.cancel()
        with suppress(asyncio.CancelledError):
            await life

    inline_calls.run(work())


async def at(seconds: float) -> None:
    """Wait until a moment of virtual time."""
    await asyncio.sleep(seconds - Instance.now())


def test_a_burst_grows_the_fleet_once_and_all_of_it_leaves(tmp_path: Path):
    fleet = LivingFleet(tmp_path)

    async def during() -> None:
        await at(10)
        fleet.submit(MANY)
        assert (10, 10) == fleet.size
        await at(10 + BOOT_S + fleet.run_s + 15)
        assert 0 == fleet.jobs_left
        assert (10, 10) == fleet.size
        await at(10 + BOOT_S + fleet.run_s + 15 + IDLE_S + GONE_S)
        assert (0, 0) == fleet.size
        await at(700)  # nothing is launched again
        assert (0, 0) == fleet.size

    live(fleet, during)
    assert [10] == fleet.raised
    assert [[True]] * 10 == [member.requests for member in fleet.members.values()]
    assert all(member.terminated for member in fleet.members.values())
    fleet.check_each_job_ran_once()


def test_under_a_steady_load_a_fleet_shrinks_to_what_is_needed_and_stays(tmp_path: Path):
    """Two jobs run at a time: what the scaler names surplus leaves, and it does not want it back.

    Jobs spread, so hardly an agent is idle for `idle_s`.
    """
    fleet = LivingFleet(tmp_path)

    async def during() -> None:
        fleet.submit(MANY)
        await at(BOOT_S + fleet.run_s + 20)
        while Instance.now() < 1500:
            fleet.submit(1)
            await asyncio.sleep(15)
        desired, there = fleet.size
        assert desired == there <= 2, "one agent has slots for four"
        await at(1500 + 300 + fleet.run_s)
        assert (0, 0) == fleet.size

    live(fleet, during)
    assert [10] == fleet.raised
    assert 2 <= fleet.done["Surplus"] <= 9
    fleet.check_each_job_ran_once()


def test_what_an_agent_gives_back_while_the_scaler_decides_stays_given_back(tmp_path: Path):
    """The scaler has read the group when the instance of an agent ends, and then writes."""
    fleet = LivingFleet(tmp_path)

    def decide_meanwhile(end: Callable[[], None]) -> None:
        fleet.while_one_leaves = lambda end: end()
        fleet.between = end
        fleet.submit(12)  # for three new instances: the other agent leaves as well

    async def during() -> None:
        fleet.submit(8)
        await at(BOOT_S + fleet.run_s + 20)
        assert (2, 2) == fleet.size
        fleet.while_one_leaves = decide_meanwhile
        while len(fleet.shared.sent) == 8:
            await asyncio.sleep(1)
        assert 3 <= fleet.size[0] <= 4
        await asyncio.sleep(BOOT_S + fleet.run_s + 15 + IDLE_S + GONE_S)
        assert (0, 0) == fleet.size

    live(fleet, during)
    assert [2, 1 + 3] == fleet.raised
    assert 5 == len(fleet.members)
    fleet.check_each_job_ran_once()


def test_at_its_smallest_size_a_group_keeps_its_instances_and_they_serve(tmp_path: Path):
    fleet = LivingFleet(tmp_path, least=2)

    async def during() -> None:
        fleet.submit(MANY)
        await at(1000)
        assert (2, 2) == fleet.size
        fleet.submit(8)
        await at(1000 + fleet.run_s + 30)  # an agent that has just asked to leave may be closed
        assert 0 == fleet.jobs_left

    live(fleet, during)
    assert [10] == fleet.raised
    fleet.check_each_job_ran_once()


@pytest.mark.parametrize("after_s", spread(range(0, 60, 4), 3))
def test_a_job_that_comes_while_the_last_agent_leaves_is_run(tmp_path: Path, after_s: int):
    """By that agent, which stays, or by the next instance; the scaler asks for one at most.

    While the agent is about to leave, and its instance still counts, the one comes on top of it.
    """
    fleet = LivingFleet(tmp_path, run_s=1)

    async def during() -> None:
        fleet.submit(1)
        await at(BOOT_S + 1 + IDLE_S + after_s)
        fleet.submit(1)
        await asyncio.sleep(60 + BOOT_S + fleet.run_s + 20)
        assert 0 == fleet.jobs_left
        await asyncio.sleep(IDLE_S + GONE_S)
        assert (0, 0) == fleet.size

    live(fleet, during)
    assert fleet.raised in ([1], [1, 1], [1, 2])
    assert len(fleet.members) <= 2
    fleet.check_each_job_ran_once()


def test_an_operator_who_lowers_the_size_ends_no_instance_with_jobs(tmp_path: Path):
    fleet = LivingFleet(tmp_path, run_s=300)

    async def during() -> None:
        fleet.submit(MANY)
        await at(BOOT_S + 50)
        fleet.autoscaling.set_desired_capacity(AutoScalingGroupName=GROUP, DesiredCapacity=3)
        assert (3, 10) == fleet.size
        await at(BOOT_S + 80)
        assert (10, 10) == fleet.size, "so that agents can end their instances"
        await at(BOOT_S + fleet.run_s + 15 + IDLE_S + GONE_S)
        assert (0, 0) == fleet.size

    live(fleet, during)
    assert [10, 10] == fleet.raised
    fleet.check_each_job_ran_once()


def test_idle_instances_above_a_size_that_was_set_by_hand_leave_in_the_end(tmp_path: Path):
    """The group refuses their agents until the scaler has raised it to the instances it has."""
    fleet = LivingFleet(tmp_path)

    async def during() -> None:
        fleet.submit(MANY)
        await at(BOOT_S + fleet.run_s + 20)
        fleet.autoscaling.set_desired_capacity(AutoScalingGroupName=GROUP, DesiredCapacity=0)
        await at(600)
        assert (0, 10) == fleet.size
        await at(120 + 600 + 60 + 2 * IDLE_S + GONE_S)
        assert (0, 0) == fleet.size

    live(fleet, during)
    assert [10, 10] == fleet.raised
    assert all(requests[0] for requests in (each.requests for each in fleet.members.values()))
    fleet.check_each_job_ran_once()
