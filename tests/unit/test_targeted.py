"""Targeted jobs take the next free slot of their agent, before the jobs of lanes."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ec2_agent.lanes import targeted
from ec2_agent.lanes.targeted import MOST_HELD
from ec2_agent.messages.delivery import Delivery, decode_delivery, encode_delivery
from ec2_agent.messages.flight import HELD_S
from joblane.aws.inboxes import KEPT_S
from joblane.aws.lanes import Received
from joblane.job.lifecycle import State
from joblane.job.message import Message
from joblane.job.spec import DEFAULT_MEMORY_MB
from tests.support.aws import Cloud
from tests.support.jobs import JOB
from tests.support.targeted_world import THREADS, World, job_of


@pytest.fixture(name="world")
def _world(aws: Cloud, tmp_path: Path) -> World:
    (tmp_path / "jobs").mkdir()
    return World(aws, tmp_path)


async def soon() -> None:
    """Let tasks begin."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_targeted_job_starts_at_once_while_a_slot_is_free(world: World):
    async def work() -> None:
        agent, received = world.agent, world.send()
        agent.job(received)
        await soon()
        assert [job_of(received)] == agent.started
        await agent.finish()

    asyncio.run(work())
    assert (0, 0) == (world.inbox.lengths().visible, world.inbox.lengths().in_flight)


def test_the_next_free_slot_is_its_own_though_a_poll_brings_another_message_first(world: World):
    async def work() -> None:
        agent = world.agent
        running = [world.send_by_lane() for _ in range(THREADS)]
        assert [True, True] == list(map(agent.lane, running))
        await soon()
        waiting = world.send()
        agent.job(waiting)
        later = world.send_by_lane()
        agent.parts.host.changed.clear()
        agent.end(job_of(running[0]))
        await asyncio.wait_for(agent.parts.host.changed.wait(), 5)
        # Nobody has looked at the waiting message yet, and an open poll brings another one.
        agent.lane(later)
        await soon()
        assert job_of(waiting) == agent.started[-1]
        assert THREADS + 1 == len(agent.started)
        await agent.finish()

    asyncio.run(work())
    assert 1 == world.lane.lengths().visible  # given back at once


def test_what_came_ahead_starts_behind_targeted_jobs_when_a_slot_is_free(world: World):
    async def work() -> None:
        agent = world.agent
        for _ in range(10):  # as an agent whose jobs are short
            agent.parts.ahead.freed("default")
        running = [world.send_by_lane() for _ in range(THREADS)]
        assert [True, True] == list(map(agent.lane, running))
        ahead = world.send_by_lane()
        agent.lane(ahead)
        await soon()
        assert list(map(job_of, running)) == agent.started
        assert 1 == len(agent.parts.ahead)
        waiting = world.send()
        agent.job(waiting)
        for each in running:
            agent.end(job_of(each))
        await agent.ended(THREADS)
        agent.resume()
        await soon()
        assert [job_of(waiting), job_of(ahead)] == agent.started[THREADS:]
        await agent.finish()

    asyncio.run(work())
    assert (0, 0) == (world.lane.lengths().visible, world.lane.lengths().in_flight)


def test_what_came_ahead_goes_back_to_its_lane_when_the_agent_drains(world: World):
    async def work() -> None:
        agent = world.agent
        for _ in range(10):
            agent.parts.ahead.freed("default")
        running = [world.send_by_lane() for _ in range(THREADS)]
        assert [True, True] == list(map(agent.lane, running))
        agent.lane(world.send_by_lane())
        await soon()
        agent.command("drain")
        for each in running:
            agent.end(job_of(each))
        await agent.ended(THREADS)
        agent.resume()
        await agent.parts.ahead.give_back()
        assert THREADS == len(agent.started)

    asyncio.run(work())
    assert (1, 0) == (world.lane.lengths().visible, world.lane.lengths().in_flight)


def test_what_waits_is_kept_invisible(world: World):
    async def work() -> None:
        agent = world.agent
        agent.parts.standing.cordoned = True
        received = world.send()
        agent.job(received)
        assert [received.receipt] == list(agent.parts.flight._held)
        await agent.parts.flight.extend()

    asyncio.run(work())
    assert (0, 1) == (world.inbox.lengths().visible, world.inbox.lengths().in_flight)


def test_a_tenant_at_its_share_waits_and_holds_up_nobody(world: World):
    async def work() -> None:
        agent = world.agent
        world.shares["acme"] = 1
        first, second, other = world.send(), world.send(), world.send("other")
        for received in (first, second, other):
            agent.job(received)
        await soon()
        assert [job_of(first), job_of(other)] == agent.started
        agent.end(job_of(first))
        await asyncio.wait_for(agent.parts.host.changed.wait(), 5)
        agent._resume()  # what the intake does then
        await soon()
        assert job_of(second) == agent.started[-1]
        await agent.finish()

    asyncio.run(work())


def test_tenants_take_turns(world: World):
    async def work() -> None:
        agent = world.agent
        agent.parts.standing.cordoned = True
        for tenant in ("acme",) * 3 + ("other", "third"):
            agent.job(world.send(tenant))
        agent.parts.standing.cordoned = False
        free = {"default": 9, "bulk": 9}
        order = [agent.parts.targeted.next(free) for _ in range(5)]
        tenants = [Message.decode(found.received.body).tenant for found in order if found]
        assert ["acme", "other", "third", "acme", "acme"] == tenants
        assert agent.parts.targeted.next(free) is None

    asyncio.run(work())


def test_a_tenant_that_sends_many_keeps_a_place_for_others(world: World):
    async def work() -> None:
        agent = world.agent
        agent.parts.standing.cordoned = True
        received = world.send()
        for n in range(MOST_HELD):
            job_id = f"{JOB[:20]}{n:06d}"
            body = Message(job_id=job_id, tenant="acme", queue="default").encode()
            agent.job(replace(received, body=body, receipt=f"r{n}"))
        agent.job(received)
        assert MOST_HELD == len(agent.parts.targeted)
        agent.job(world.send("other"))
        assert MOST_HELD + 1 == len(agent.parts.targeted)
        await asyncio.wait_for(agent._work_done(), 5)  # it was given back
        assert received.receipt not in agent.parts.flight._held

    asyncio.run(work())


def test_a_message_that_is_delivered_again_replaces_the_earlier_receipt(world: World):
    async def work() -> None:
        agent = world.agent
        agent.parts.standing.cordoned = True
        received = world.send()
        for receipt in ("one", "two"):
            agent.job(replace(received, receipt=receipt))
        assert 1 == len(agent.parts.targeted)
        assert ["two"] == list(agent.parts.flight._held)

    asyncio.run(work())


def test_a_job_of_a_queue_that_is_not_served_here_is_dropped(world: World):
    async def work() -> None:
        agent = world.agent
        received = world.send()
        body = Message(job_id=JOB, tenant="acme", queue="elsewhere").encode()
        agent.job(replace(received, body=body))
        await agent.finish()
        assert [] == agent.started

    asyncio.run(work())
    assert (0, 0) == (world.inbox.lengths().visible, world.inbox.lengths().in_flight)


def test_a_job_that_is_too_large_for_its_agent_fails_at_once(world: World):
    async def work() -> Received:
        agent = world.agent
        received = world.send(resources={"memory_mb": 16 * DEFAULT_MEMORY_MB})
        agent.job(received)
        await agent.finish()
        assert [] == agent.started
        return received

    received = asyncio.run(work())
    assert State.FAILED is world.head(received).state
    assert "asks for 8192 MB of memory; agent agent-1 gives at most 4096" in world.reason(received)
    assert (0, 0) == (world.inbox.lengths().visible, world.inbox.lengths().in_flight)


def test_a_job_that_waits_long_says_for_what(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(targeted, "NOTE_AFTER_S", 0.0)

    async def work() -> tuple[Received, Received]:
        agent = world.agent
        agent.parts.standing.cordoned = True
        world.shares["other"] = 0
        slot, share = world.send(), world.send("other")
        for received in (slot, share):
            agent.job(received)
        await agent.parts.targeted.note()
        await agent.parts.targeted.note()  # once for each job
        return slot, share

    slot, share = asyncio.run(asyncio.wait_for(work(), 10))
    assert "waits for a slot: agent-1 is busy" in world.reason(slot)
    assert "waits for jobs of tenant other to end, of which 5 may run" in world.reason(share)


def test_an_ending_process_gives_back_what_waits(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(targeted, "RETURN_S", 0)

    async def work() -> None:
        agent = world.agent
        agent.command("drain")
        agent.job(world.send())
        await soon()
        assert [] == agent.started
        await agent.parts.targeted.give_back()
        assert 0 == len(agent.parts.targeted)

    asyncio.run(work())
    assert (1, 0) == (world.inbox.lengths().visible, world.inbox.lengths().in_flight)


def test_a_cordoned_agent_starts_nothing_and_goes_on_when_it_is_uncordoned(world: World):
    async def work() -> None:
        agent, lease = world.agent, world.agent.parts.lease
        await lease.begin()
        running = world.send_by_lane()
        agent.lane(running)
        await soon()
        agent.command("cordon")
        by_lane, waiting = world.send_by_lane(), world.send()
        agent.lane(by_lane)
        agent.job(waiting)
        await soon()
        assert [job_of(running)] == agent.started  # which goes on
        await lease.begin()
        assert "cordoned" == world.aws.agents.get("agent-1").mode  # type: ignore[union-attr]
        agent.command("uncordon")
        agent._resume()
        assert [job_of(running)] == agent.started  # not before a heartbeat
        agent.parts.host.changed.clear()
        await lease.begin()
        assert agent.parts.host.changed.is_set()  # the intake wakes up
        agent._resume()
        await soon()
        assert [job_of(running), job_of(waiting)] == agent.started
        await agent.finish()

    asyncio.run(work())
    assert 1 == world.lane.lengths().visible


def test_a_process_of_a_cordoned_agent_is_cordoned_from_its_start(world: World):
    world.agent.command("cordon")
    again = world.start()
    assert again.parts.standing.cordoned
    assert {"default": 0, "bulk": 0} == again.parts.free_slots.by_queue()
    again.command("uncordon")
    assert not world.start().parts.standing.cordoned


def test_cordon_and_drain_in_any_order(world: World):
    async def work() -> None:
        agent = world.agent
        for command in ("cordon", "cordon", "drain", "uncordon", "drain", "cordon"):
            agent.command(command)
        assert "draining" == agent.parts.standing.mode
        agent.command("uncordon")
        await agent.parts.lease.begin()
        assert {"default": 0, "bulk": 0} == agent.parts.free_slots.by_queue()  # still drains

    asyncio.run(work())
    assert not world.start().parts.standing.cordoned


def test_a_message_of_the_inbox_is_stored_and_read_again(world: World):
    received = world.send(queue="bulk")
    delivery = Delivery("bulk", world.inbox.url, None, received, 1.0)
    stored = encode_delivery(delivery)
    assert ("bulk", None) == (stored["queue"], stored["dead_letters"])
    assert delivery == decode_delivery(stored)


def test_after_eleven_hours_a_message_of_the_inbox_is_received_again_and_not_sent(world: World):
    """The agent may not send to inboxes; nobody else receives from its own."""

    async def work() -> None:
        flight = world.agent.parts.flight
        delivery = Delivery("default", world.inbox.url, None, world.send(), time.time() - HELD_S)
        flight.add(delivery)
        await flight.extend()
        assert [] == list(flight._held)  # visible when its two minutes are over
        lengths = world.inbox.lengths()
        assert (0, 1, 0) == (lengths.visible, lengths.in_flight, lengths.delayed)
        await flight.delete(delivery)

    asyncio.run(work())
    assert (0, 0) == (world.inbox.lengths().visible, world.inbox.lengths().in_flight)


def test_an_unreadable_message_of_the_inbox_is_deleted(world: World):
    """It has no dead-letter queue."""

    async def work() -> None:
        flight = world.agent.parts.flight
        delivery = Delivery("default", world.inbox.url, None, world.send(), 1.0)
        await flight.move_to_dead_letters(delivery, "nonsense")

    asyncio.run(work())
    assert (0, 0) == (world.inbox.lengths().visible, world.inbox.lengths().in_flight)


def test_messages_in_an_inbox_last_as_long_as_those_of_a_lane():
    assert KEPT_S == 14 * 86_400 - 60
