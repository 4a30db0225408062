"""Targeted jobs take the next free slot of their agent, before the jobs of lanes."""

import asyncio
from dataclasses import replace

import pytest

from ec2_agent.messages.delivery import Delivery, decode_delivery, encode_delivery
from ec2_agent.messages.flight import HELD_S
from ec2_agent.serving.desk import RETURN_S
from ec2_agent.serving.gates import (
    FIRST_HOLD_S,
    MOST_TARGETED,
)
from joblane.aws.fleet.inboxes import KEPT_S
from joblane.aws.queue.lanes import read_body
from joblane.formats.ids import nth_id
from joblane.job.message import Message
from joblane.state.lifecycle import State
from tests.support.desk_world import (
    HALF,
    LARGE,
    MEMORY_MB,
    THREADS,
    World,
    fill,
    job_of,
    shorten_jobs,
    soon,
)
from tests.support.jobs import JOB


def test_a_targeted_job_starts_at_once_while_a_slot_is_free(world: World):
    async def story() -> None:
        received = world.send()
        world.agent.job(received)
        await soon()
        assert [job_of(received)] == world.agent.started
        await world.agent.finish()

    world.run(story())
    assert (0, 0) == world.in_inbox


def test_the_next_free_slot_is_its_own_though_a_poll_brings_another_message_first(world: World):
    async def story() -> None:
        agent, running = world.agent, await fill(world)
        waiting, later = world.send(), world.send_by_lane()
        agent.job(waiting)
        agent.end(running[0])
        await soon()
        # Nobody has looked at the waiting message yet, and an open poll brings another one.
        agent.lane(later)
        await soon()
        assert [job_of(waiting)] == agent.started[THREADS:]
        await agent.finish()

    world.run(story())
    assert 1 == world.in_lane[0]  # given back at once


def test_what_came_ahead_starts_behind_targeted_jobs_when_a_slot_is_free(world: World):
    async def story() -> None:
        agent = world.agent
        shorten_jobs(world)
        running, ahead, waiting = await fill(world), world.send_by_lane(), world.send()
        agent.lane(ahead)
        agent.job(waiting)
        agent.end(*running)
        await agent.freed()
        assert [job_of(waiting), job_of(ahead)] == agent.started[THREADS:]
        await agent.finish()

    world.run(story())
    assert (0, 0) == world.in_lane


def test_tenants_take_turns(world: World):
    async def story() -> None:
        agent = world.agent
        agent.command("cordon")
        waiting = [world.send(tenant) for tenant in ("acme",) * 3 + ("other", "third")]
        for each in waiting:
            agent.job(each)
        agent.command("uncordon")
        await agent.core.lease.announce()
        while len(agent.started) < len(waiting):
            await agent.freed()
            agent.end(*(each for each in waiting if job_of(each) in agent.started))
        tenants = {job_of(each): Message.decode(each.body).tenant for each in waiting}
        order = [tenants[job_id] for job_id in agent.started]
        assert ["acme", "other", "third", "acme", "acme"] == order
        await agent.finish()

    world.run(story())


def test_a_tenant_at_its_share_waits_and_holds_up_nobody(world: World):
    async def story() -> None:
        agent = world.agent
        world.shares["acme"] = 1
        first, second, other = world.send(), world.send(), world.send("other")
        for received in (first, second, other):
            agent.job(received)
        await soon()
        assert [job_of(first), job_of(other)] == agent.started
        agent.end(first)
        await agent.freed()
        assert job_of(second) == agent.started[-1]
        await agent.finish()

    world.run(story())


def test_a_tenant_that_sends_many_keeps_a_place_for_others(world: World):
    async def story() -> None:
        agent = world.agent
        agent.command("cordon")
        received = world.send()
        for n in range(1, MOST_TARGETED + 1):
            body = Message(
                job_id=nth_id(JOB, 100 + n), tenant="acme", lane="default/default"
            ).encode()
            agent.job(replace(received, body=body, receipt=f"r{n}"))
        agent.job(received)
        assert MOST_TARGETED == len(agent.desk.room)
        agent.job(world.send("other"))
        assert MOST_TARGETED + 1 == len(agent.desk.room)
        await agent.desk.tasks.done()  # it was given back
        assert received.receipt not in agent.flight._held

    world.run(story())


def test_a_message_that_is_delivered_again_replaces_the_earlier_receipt(world: World):
    async def story() -> None:
        agent = world.agent
        agent.command("cordon")
        received = world.send()
        for receipt in ("one", "two"):
            agent.job(replace(received, receipt=receipt))
        assert 1 == len(agent.desk.room)
        assert ["two"] == list(agent.flight._held)

    world.run(story())


@pytest.mark.parametrize("younger_comes", ["first", "second"])
def test_of_two_messages_of_a_job_the_younger_one_waits_and_the_other_is_deleted(
    world: World, younger_comes: str
):
    """Requeue renews messages of inboxes, which agents may not send to."""

    async def story() -> None:
        agent = world.agent
        agent.command("cordon")
        older = world.send()
        younger = replace(older, receipt="younger", sent_ms=older.sent_ms + 1)
        two = (younger, older) if younger_comes == "first" else (older, younger)
        for received in two:
            agent.job(received)
        await agent.desk.tasks.done()
        assert 1 == len(agent.desk.room)
        assert ["younger"] == list(agent.flight._held)

    world.run(story())
    assert (0, 0) == world.in_inbox


def test_both_messages_of_a_job_that_was_edited_wait_for_their_turn(world: World):
    """The outdated one is deleted by its claim, whichever comes first."""

    async def story() -> None:
        agent = world.agent
        agent.command("cordon")
        received = world.send()
        edited = read_body(received.body).model_copy(update={"edit": 1}).encode()
        agent.job(received)
        agent.job(replace(received, body=edited, receipt="edited"))
        assert 2 == len(agent.desk.room)

    world.run(story())


def test_what_waits_is_kept_invisible(world: World):
    async def story() -> None:
        agent = world.agent
        agent.command("cordon")
        received = world.send()
        agent.job(received)
        assert [received.receipt] == list(agent.flight._held)
        await agent.flight.extend()

    world.run(story())
    assert (0, 1) == world.in_inbox


def test_a_job_of_a_queue_that_is_not_served_here_is_dropped(world: World):
    async def story() -> None:
        received = world.send()
        body = Message(job_id=JOB, tenant="acme", lane="elsewhere/default").encode()
        world.agent.job(replace(received, body=body))
        await world.agent.finish()
        assert [] == world.agent.started

    world.run(story())
    assert (0, 0) == world.in_inbox


def test_a_job_that_is_too_large_for_its_agent_fails_at_once(world: World):
    received = world.send(resources={"memory_mb": 2 * MEMORY_MB})

    async def story() -> None:
        world.agent.job(received)
        await world.agent.finish()
        assert [] == world.agent.started

    world.run(story())
    assert State.FAILED is world.head(received).state
    assert "asks for 8192 MB of memory; agent agent-1 gives at most 4096" in world.reason(received)
    assert (0, 0) == world.in_inbox


def test_an_ending_process_gives_back_targeted_jobs_for_the_next(world: World):
    async def story() -> None:
        agent = world.agent
        agent.command("drain")
        agent.job(world.send())
        await soon()
        assert ([], 1) == (agent.started, len(agent.desk.room))
        await agent.desk.give_back_all(targeted=True)
        assert 0 == len(agent.desk.room)
        assert (0, 1) == world.in_inbox
        await asyncio.sleep(RETURN_S)
        assert (1, 0) == world.in_inbox

    world.run(story())


def test_a_targeted_job_waits_for_memory_as_long_as_it_takes(world: World):
    """No other agent may run it, so nothing is won by giving it back."""

    async def story() -> None:
        agent, running = world.agent, world.send_by_lane(**HALF)
        agent.lane(running)
        waiting = world.send(**LARGE)
        agent.job(waiting)
        await asyncio.sleep(100 * FIRST_HOLD_S)
        assert [job_of(running)] == agent.started
        agent.end(running)
        await agent.freed()
        assert job_of(waiting) == agent.started[-1]
        await agent.finish()

    world.run(story())


# Messages of the inbox.


def test_a_message_of_the_inbox_is_stored_and_read_again(world: World):
    received = world.send(queue="bulk")
    delivery = Delivery("bulk", world.inbox.url, None, received, 1.0)
    stored = encode_delivery(delivery)
    assert ("bulk", None) == (stored["queue"], stored["dead_letters"])
    assert delivery == decode_delivery(stored)


def test_after_eleven_hours_a_message_of_the_inbox_is_received_again_and_not_sent(world: World):
    """The agent may not send to inboxes; nobody else receives from its own."""

    async def story() -> None:
        flight = world.agent.flight
        since = world.clocks.unix() - HELD_S
        delivery = Delivery("default", world.inbox.url, None, world.send(), since)
        flight.add(delivery)
        await flight.extend()
        assert [] == list(flight._held)  # visible when its two minutes are over
        assert (0, 1) == world.in_inbox
        assert 0 == world.inbox.lengths().delayed
        await flight.delete(delivery)

    world.run(story())
    assert (0, 0) == world.in_inbox


def test_an_unreadable_message_of_the_inbox_is_deleted(world: World):
    """It has no dead-letter queue."""

    async def story() -> None:
        delivery = Delivery("default", world.inbox.url, None, world.send(), 1.0)
        await world.agent.flight.move_to_dead_letters(delivery, "nonsense")

    world.run(story())
    assert (0, 0) == world.in_inbox


def test_messages_in_an_inbox_last_as_long_as_those_of_a_lane():
    assert KEPT_S == 14 * 86_400 - 60
