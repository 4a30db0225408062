"""The desk of an agent that is cordoned or drains, and what comes while a claim is on its way."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import EndpointConnectionError

from ec2_agent.serving.desk import CLAIM_AGAIN_S
from joblane.job.judge import StopReason
from joblane.queue.settings import QueueSettings
from tests.support.desk_world import (
    HALF,
    LARGE,
    MEMORY_MB,
    NotedAttempt,
    World,
    job_of,
    soon,
)
from tests.support.jobs import JOB

# Cordons and drains.


def test_a_cordoned_agent_starts_nothing_and_goes_on_when_it_is_uncordoned(world: World):
    async def story() -> None:
        agent, lease = world.agent, world.agent.core.lease
        await lease.announce()
        running = world.send_by_lane()
        agent.lane(running)
        await soon()
        agent.command("cordon")
        by_lane, waiting = world.send_by_lane(), world.send()
        agent.lane(by_lane)
        agent.job(waiting)
        await soon()
        assert [job_of(running)] == agent.started  # which goes on
        await lease.announce()
        assert "cordoned" == world.aws.agents.get("agent-1").mode  # type: ignore[union-attr]
        agent.command("uncordon")
        agent.desk.serve()
        assert [job_of(running)] == agent.started  # not before a heartbeat
        agent.core.changed.clear()
        await lease.announce()
        assert agent.core.changed.is_set()  # the intake wakes up
        agent.desk.serve()
        await soon()
        assert [job_of(running), job_of(waiting)] == agent.started
        await agent.finish()

    world.run(story())
    assert 1 == world.in_lane[0]


def test_a_cordon_gives_back_what_waits_of_lanes_and_frees_what_is_reserved(world: World):
    async def story() -> None:
        agent = world.agent
        world.shares["other"] = 1
        agent.lane(world.send_by_lane("other", **HALF))
        held, large = world.send_by_lane("other"), world.send(**LARGE)
        assert not agent.lane(held)
        agent.job(large)
        assert world.memory.free_mb < 0
        agent.command("cordon")
        agent.desk.serve()
        await soon()
        assert MEMORY_MB // 2 == world.memory.free_mb
        assert (1, 1) == (len(agent.desk.room), world.in_lane[0])
        await agent.finish()

    world.run(story())


def test_a_process_of_a_cordoned_agent_is_cordoned_from_its_start(world: World):
    world.agent.command("cordon")
    again = world.start()
    assert again.standing.cordoned
    assert {"default": 0, "bulk": 0} == again.core.offers.free()
    again.command("uncordon")
    assert not world.start().standing.cordoned


def test_cordon_and_drain_in_any_order(world: World):
    async def story() -> None:
        agent = world.agent
        for command in ("cordon", "cordon", "drain", "uncordon", "drain", "cordon"):
            agent.command(command)
        assert "draining" == agent.standing.mode
        agent.command("uncordon")
        await agent.core.lease.announce()
        assert {"default": 0, "bulk": 0} == agent.core.offers.free()  # still drains

    world.run(story())
    assert not world.start().standing.cordoned


# What comes while something else is on its way.


def test_a_message_that_waits_for_memory_is_given_back_when_its_queue_is_paused(world: World):
    """It would start in the paused queue once there is memory, and keeps that from others."""

    async def story() -> None:
        agent, limits = world.agent, world.agent.core.limits
        agent.lane(world.send_by_lane(**HALF))
        agent.lane(world.send_by_lane(**LARGE))
        waiting = world.send(**LARGE)
        agent.job(waiting)
        limits.store.put("default", QueueSettings(run_jobs=False, version=1), over=0)
        await limits.begin()
        await agent.freed()
        assert (1, 1) == world.in_lane
        assert MEMORY_MB // 2 == world.memory.free_mb
        assert [waiting.receipt] == [
            held.delivery.received.receipt for held in agent.desk.room.in_order()
        ]
        await agent.finish()

    world.run(story())


def test_a_job_that_is_claimed_while_the_agent_drains_is_stopped_like_the_others(world: World):
    async def story() -> None:
        agent = world.agent
        agent.core.roster.stop_all(StopReason.DRAIN)
        attempt = NotedAttempt(world.head(world.send_by_lane()))
        with agent.core.roster.runs(attempt):
            assert StopReason.DRAIN is attempt.stopped

    world.run(story())


def test_a_cancel_that_comes_during_the_claim_stops_the_job(world: World):
    async def story() -> None:
        roster = world.agent.core.roster
        head = world.head(world.send_by_lane())
        attempt = NotedAttempt(head)
        with roster.claims(head.job_id):
            assert [] == roster.stop(head.job_id)
        with roster.runs(attempt):
            assert StopReason.COMMAND is attempt.stopped
        with roster.claims(head.job_id), roster.runs(again := NotedAttempt(head)):
            assert again.stopped is None  # it was for the claim before
        with roster.claims(head.job_id):
            roster.stop(head.job_id)
            with roster.claims(head.job_id):  # of a message that was delivered twice
                pass
        with roster.runs(first := NotedAttempt(head)):
            assert StopReason.COMMAND is first.stopped
        roster.found.append(SimpleNamespace(job_id=JOB))
        roster.stop(JOB)
        with roster.runs(adopted := NotedAttempt(replace(head, job_id=JOB))):
            assert StopReason.COMMAND is adopted.stopped
        with roster.runs(asked := NotedAttempt(replace(head, cancel_requested="now"))):
            assert StopReason.COMMAND is asked.stopped

    world.run(story())


@pytest.mark.parametrize("broken", [False, True])
def test_a_job_that_is_failed_is_listed_until_the_journal_has_it(world: World, *, broken: bool):
    received = world.send(resources={"memory_mb": 2 * MEMORY_MB})
    listed: list[list[str]] = []

    async def story() -> None:
        agent = world.agent
        recorder = agent.core.recorder

        async def look(*arguments: Any) -> None:
            listed.append(agent.core.roster.job_ids())
            if broken:
                raise RuntimeError("a bug")
            await recorder.record(*arguments)

        agent.desk.recorder = cast("Any", SimpleNamespace(record=look, now_ms=recorder.now_ms))
        agent.job(received)
        await agent.finish()
        await asyncio.sleep(CLAIM_AGAIN_S)
        assert [[job_of(received)]] == listed
        assert (int(broken), 0) == world.in_inbox

    world.run(story())


def test_a_claim_that_fails_frees_the_slot_and_gives_the_message_back(world: World):
    received = world.send_by_lane()
    errors = [EndpointConnectionError(endpoint_url="https://dynamodb"), RuntimeError("a bug")]

    async def story() -> None:
        agent = world.agent

        async def fail(_: object) -> None:
            raise errors.pop()

        agent.desk.claimer.claim = fail  # type: ignore[method-assign, assignment]
        again = received
        while errors:
            agent.lane(again)
            await soon()
            assert (0, MEMORY_MB) == (agent.core.slots.taken, world.memory.free_mb)
            assert (0, 1) == world.in_lane
            await asyncio.sleep(CLAIM_AGAIN_S)
            again = world.receive()

    world.run(story())
