"""Who is served next: messages of lanes and of the inbox at the desk of an agent with two slots."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import EndpointConnectionError

from ec2_agent.messages.delivery import Delivery, decode_delivery, encode_delivery
from ec2_agent.messages.flight import HELD_S
from ec2_agent.messages.hiding import REPLACE_AT
from ec2_agent.outcomes.judge import StopReason
from ec2_agent.serving.desk import CLAIM_AGAIN_S, RETURN_S, ROW_COMES_S
from ec2_agent.serving.gates import (
    MEMORY_HOLD_S,
    MOST_TARGETED,
    NOTE_AT,
    PREFETCH_HOLD_S,
    TENANT_HOLD_S,
)
from ec2_agent.serving.reasons import NOTE_AFTER_S
from joblane.aws.condition.items import to_waiting, waiting_row
from joblane.aws.fleet.inboxes import KEPT_S
from joblane.aws.queue.lanes import Received
from joblane.contract.job import job_view
from joblane.formats.ids import nth_id
from joblane.job.blocked import waiting_job
from joblane.job.head import Head, make_head
from joblane.job.message import Message
from joblane.job.spec import DEFAULT_MEMORY_MB
from joblane.queue.settings import QueueSettings
from joblane.service.job.wake_up import wake_up_message
from joblane.state.lifecycle import State
from tests.support.aws import DESCRIPTOR
from tests.support.desk_world import MEMORY_MB, THREADS, World, job_of, soon
from tests.support.jobs import JOB, submission

LARGE_MB = MEMORY_MB - DEFAULT_MEMORY_MB
LARGE: dict[str, Any] = {"resources": {"memory_mb": LARGE_MB}}
"""Runs beside one small job, and not beside two that are not so small."""

HALF: dict[str, Any] = {"resources": {"memory_mb": MEMORY_MB // 2}}


@dataclass(eq=False)
class Attempt:
    """An attempt that notes what stops it."""

    head: Head
    stopped: StopReason | None = None
    started: bool = False
    progress: None = None

    def request_stop(self, reason: StopReason) -> None:
        """Note it."""
        self.stopped = reason

    def follow(self) -> None:
        """Not asked for here."""

    def abandon(self) -> None:
        """Not asked for here."""

    def renew(self, until: float) -> None:
        """Not asked for here."""


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> World:
    return World(tmp_path)


async def fill(world: World, **fields: Any) -> list[Received]:
    """Run a job in each slot."""
    running = [world.send_by_lane(**fields) for _ in range(THREADS)]
    assert [True] * THREADS == [world.agent.lane(each) for each in running]
    await soon()
    assert list(map(job_of, running)) == world.agent.started
    return running


def as_one_with_short_jobs(world: World) -> None:
    """Let the agent receive one message ahead of a slot."""
    for _ in range(10):
        world.agent.core.offers.prefetch.count_freed("default")


# Targeted jobs.


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
        as_one_with_short_jobs(world)
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
        await agent.core.lease.begin()
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
            body = Message(job_id=nth_id(JOB, 100 + n), tenant="acme", queue="default").encode()
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
        body = Message(job_id=JOB, tenant="acme", queue="elsewhere").encode()
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
        await asyncio.sleep(100 * MEMORY_HOLD_S)
        assert [job_of(running)] == agent.started
        agent.end(running)
        await agent.freed()
        assert job_of(waiting) == agent.started[-1]
        await agent.finish()

    world.run(story())


# Cordons and drains.


def test_a_cordoned_agent_starts_nothing_and_goes_on_when_it_is_uncordoned(world: World):
    async def story() -> None:
        agent, lease = world.agent, world.agent.core.lease
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
        agent.desk.serve()
        assert [job_of(running)] == agent.started  # not before a heartbeat
        agent.core.changed.clear()
        await lease.begin()
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
        await agent.core.lease.begin()
        assert {"default": 0, "bulk": 0} == agent.core.offers.free()  # still drains

    world.run(story())
    assert not world.start().standing.cordoned


# Received ahead of a slot.


def test_what_came_ahead_goes_back_to_its_lane_when_the_agent_drains(world: World):
    async def story() -> None:
        agent = world.agent
        as_one_with_short_jobs(world)
        running = await fill(world)
        agent.lane(world.send_by_lane())
        assert 1 == len(agent.desk.room)
        agent.command("drain")
        agent.desk.serve()
        agent.end(*running)
        await agent.finish()
        assert THREADS == len(agent.started)

    world.run(story())
    assert (1, 0) == world.in_lane


def test_what_came_ahead_is_given_back_soon_and_nothing_is_received_ahead_for_a_while(
    world: World,
):
    async def story() -> None:
        agent = world.agent
        as_one_with_short_jobs(world)
        await fill(world)
        assert {"default": 1, "bulk": 0} == agent.core.offers.wanted()
        agent.lane(world.send_by_lane())
        agent.lane(world.send_by_lane())  # for this one there is no place
        await soon()
        assert (1, 3) == world.in_lane
        await asyncio.sleep(PREFETCH_HOLD_S - 0.01)
        assert 1 == len(agent.desk.room)
        await asyncio.sleep(0.02)
        assert (0, (2, 2)) == (len(agent.desk.room), world.in_lane)
        assert {"default": 0, "bulk": 0} == agent.core.offers.wanted()
        await agent.finish()

    world.run(story())


# Tenants.


def test_a_held_message_starts_as_soon_as_a_job_of_its_tenant_ends(world: World):
    async def story() -> None:
        agent = world.agent
        world.shares["acme"] = 1
        running, held = world.send_by_lane(), world.send_by_lane()
        assert agent.lane(running)
        assert not agent.lane(held)
        await agent.freed()
        assert [job_of(running)] == agent.started
        agent.end(running)
        await agent.freed()
        assert [job_of(running), job_of(held)] == agent.started
        await agent.finish()

    world.run(story())
    assert (0, 0) == world.in_lane  # it was not given back


def test_a_larger_share_starts_what_is_held(world: World):
    async def story() -> None:
        agent = world.agent
        world.shares["acme"] = 1
        for _ in range(THREADS):
            agent.lane(world.send_by_lane())
        world.shares["acme"] = 2
        await agent.freed()
        assert THREADS == len(agent.started)
        await agent.finish()

    world.run(story())


def test_a_backlog_of_one_tenant_is_held_in_part_and_others_start(world: World):
    async def story() -> None:
        agent = world.agent
        world.shares["acme"] = 1
        agent.lane(world.send_by_lane())
        backlog = [world.send_by_lane(receives=REPLACE_AT - 1) for _ in range(5)]
        assert [False] * 5 == [agent.lane(each) for each in backlog]
        assert agent.lane(world.send_by_lane("other"))
        await soon()
        assert (1, THREADS) == (len(agent.desk.room), len(agent.started))
        await agent.finish()

    world.run(story())


def test_a_message_that_is_held_for_long_is_given_to_others_and_says_why(world: World):
    async def story() -> None:
        agent = world.agent
        world.shares["acme"] = 1
        agent.lane(world.send_by_lane())
        held = world.send_by_lane()
        for _ in range(3):  # it comes back, and says so for one write
            agent.lane(held)
            await asyncio.sleep(NOTE_AFTER_S + 0.01)
            assert (
                "waits for jobs of tenant acme to end, of which 5 may run at once (jobs_running); "
                "agent agent-1 runs 1 of its share of 1" == world.reason(held)
            )
            await asyncio.sleep(TENANT_HOLD_S - NOTE_AFTER_S)
            assert 0 == len(agent.desk.room)
            held = world.receive()
        assert 2 == world.meter.write_units  # with the claim of the first one
        assert world.aws.jobs.claim(job_of(held), "agent-2", 2000).waits_for is None
        await agent.finish()

    world.run(story())


def test_one_agent_of_all_without_a_share_notes_the_wait(world: World):
    async def story() -> None:
        world.shares["acme"] = 0
        # All are received before the first is given back, for a second.
        everything = [world.send_by_lane(receives=receives) for receives in range(1, NOTE_AT + 3)]
        for received in everything:
            world.agent.lane(received)
            await soon()
            noted = "runs 0 of its share of 0" in world.reason(received)
            assert noted == (received.receives == NOTE_AT)
        assert 1 == world.meter.write_units

    world.run(story())


def test_a_message_that_joblane_did_not_write_goes_on_to_the_dead_letters(world: World):
    async def story() -> None:
        world.shares[""] = 0
        odd = replace(world.send_by_lane(), body="not ours")
        assert world.agent.lane(odd)
        await world.agent.desk.tasks.done()

    world.run(story())
    assert (0, 0) == world.in_lane
    assert 0 == world.agent.core.slots.taken


# Memory.


def test_a_message_says_what_its_job_asks_for(world: World):
    received = world.send_by_lane(**LARGE)
    world.lane.send_again(received, 0)
    world.lane.send_batch([(wake_up_message(world.head(received)), 0)])
    assert [LARGE_MB] * 3 == [
        received.memory_mb,
        *(again.memory_mb for _ in "ab" for again in world.lane.receive(1, 0)),
    ]


def test_small_jobs_do_not_keep_a_large_one_waiting(world: World):
    """Its memory is reserved: what becomes free is not given to jobs that come later."""

    async def story() -> None:
        agent = world.agent
        first, large = world.send_by_lane(**HALF), world.send_by_lane(**LARGE)
        agent.lane(first)
        assert agent.lane(large)
        assert {"default": 0, "bulk": 0} == agent.core.offers.wanted()
        small = world.send_by_lane()  # from a poll that was open
        agent.lane(small)
        await agent.freed()
        assert [job_of(first)] == agent.started
        assert 1 == world.in_lane[0]
        agent.end(first)
        await agent.freed()
        assert [job_of(first), job_of(large)] == agent.started
        assert MEMORY_MB - LARGE_MB == world.memory.free_mb
        await agent.finish()
        assert MEMORY_MB == world.memory.free_mb

    world.run(story())
    assert 2 == world.meter.calls["dynamodb.UpdateItem"]  # claims, and no note


def test_a_job_that_waits_for_memory_says_so_for_one_write_however_often_it_is_tried(
    world: World,
):
    async def story() -> None:
        agent = world.agent
        agent.lane(world.send_by_lane(**HALF))
        await soon()
        world.meter.reset()
        large = world.send_by_lane(**LARGE)
        for receives in (1, 2, 3):
            agent.lane(replace(large, receives=receives))
            await asyncio.sleep(MEMORY_HOLD_S * 2 ** (receives - 1) + 0.01)
            assert 0 == len(agent.desk.room)
            large = world.receive()
        expected = f"waits for {LARGE_MB} MB of memory; agent agent-1 has 2048 of 4096 MB free"
        assert expected == world.reason(large)
        assert 1 == world.meter.write_units
        await agent.finish()

    world.run(story())


def test_a_draining_agent_returns_a_message_that_waits_for_memory_at_once(world: World):
    async def story() -> None:
        agent = world.agent
        agent.lane(world.send_by_lane(**HALF))
        agent.lane(world.send_by_lane(**LARGE))
        agent.command("drain")
        agent.desk.serve()
        await soon()
        assert 1 == world.in_lane[0]
        await agent.finish()

    world.run(story())


def test_a_job_that_is_too_large_for_an_agent_is_left_to_others_and_never_claimed(world: World):
    world.agent = world.start(most_mb=1024)
    large = world.send_by_lane(**LARGE)

    async def story() -> None:
        world.agent.lane(large)
        await soon()

    world.run(story())
    expected = f"waits for {LARGE_MB} MB of memory; agent agent-1 gives a job at most 1024 MB"
    assert expected == world.reason(large)
    assert 0 == world.head(large).epoch
    assert (0, 1) == world.in_lane  # hidden for a while, not received again and again


def test_a_message_that_comes_before_its_jobs_row_comes_again_soon_and_once(world: World):
    """Without it, the reason would be written a minute later."""
    world.agent = world.start(most_mb=1024)
    hidden: list[int] = []

    async def give_back(_: object, seconds: int) -> None:
        hidden.append(seconds)

    world.agent.flight.give_back = give_back  # type: ignore[method-assign, assignment]
    large = world.send_by_lane(**LARGE)
    head = world.head(large)
    key = {"job_id": {"S": head.job_id}, "sk": {"S": "JOB"}}
    rows, table = world.aws.clients.make("dynamodb"), DESCRIPTOR.jobs_table
    item = rows.get_item(TableName=table, Key=key)["Item"]
    rows.delete_item(TableName=table, Key=key)

    async def story() -> None:
        for receives in (1, 2):  # submission died: no row will come
            world.agent.lane(replace(large, receives=receives))
            await soon()
        rows.put_item(TableName=table, Item=item)
        world.agent.lane(large)
        await soon()

    world.run(story())
    assert [ROW_COMES_S, 120, 60] == hidden
    assert "of memory" in world.reason(large)


# What waits says for what.


def test_a_job_that_waits_long_says_for_what_and_says_it_again_if_it_could_not(world: World):
    async def story() -> None:
        agent = world.agent
        world.shares["other"] = 0
        await fill(world)
        slot, share = world.send(), world.send("other")
        note_wait = agent.core.jobs.note_wait
        agent.core.jobs.note_wait = unreachable  # type: ignore[method-assign, assignment]
        for received in (slot, share):
            agent.job(received)
        await asyncio.sleep(NOTE_AFTER_S + 0.01)
        agent.core.jobs.note_wait = note_wait  # type: ignore[method-assign]
        world.meter.reset()
        await asyncio.sleep(10 * NOTE_AFTER_S)
        assert "waits for a slot: agent agent-1 runs 2 of 2 jobs" in world.reason(slot)
        assert "waits for jobs of tenant other to end, of which 5 may run" in world.reason(share)
        assert 2 == world.meter.write_units
        await agent.finish()

    def unreachable(*_: object) -> None:
        raise EndpointConnectionError(endpoint_url="https://dynamodb")

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


def test_a_message_that_comes_before_its_jobs_row_has_its_wait_noted_later(world: World):
    early = make_head(nth_id(JOB, 99), "acme", submission(), 1000)

    async def story() -> None:
        agent = world.agent
        world.shares["acme"] = 1
        agent.lane(world.send_by_lane())
        world.lane.send(wake_up_message(early))
        agent.lane(world.receive())
        await asyncio.sleep(NOTE_AFTER_S + 0.01)
        world.aws.jobs.put_new(early)
        await asyncio.sleep(NOTE_AFTER_S)
        assert "jobs_running" in job_view(world.aws.job(early.job_id)).reason
        await agent.finish()

    world.run(story())


def test_a_job_that_a_condition_lets_go_on_asks_for_the_same_memory():
    entry = waiting_job(make_head(JOB, "acme", submission(**LARGE), 1000))
    row = waiting_row("app:x", entry)
    assert LARGE_MB == wake_up_message(to_waiting(row)).memory_mb


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
        attempt = Attempt(world.head(world.send_by_lane()))
        with agent.core.roster.runs(attempt):
            assert StopReason.DRAIN is attempt.stopped

    world.run(story())


def test_a_cancel_that_comes_during_the_claim_stops_the_job(world: World):
    async def story() -> None:
        roster = world.agent.core.roster
        head = world.head(world.send_by_lane())
        attempt = Attempt(head)
        with roster.claims(head.job_id):
            assert [] == roster.stop(head.job_id)
        with roster.runs(attempt):
            assert StopReason.COMMAND is attempt.stopped
        with roster.claims(head.job_id), roster.runs(again := Attempt(head)):
            assert again.stopped is None  # it was for the claim before
        with roster.runs(asked := Attempt(replace(head, cancel_requested="now"))):
            assert StopReason.COMMAND is asked.stopped

    world.run(story())


def test_a_retried_jobs_wait_is_written_again(world: World):
    async def story() -> None:
        agent, running = world.agent, await fill(world)
        waiting = world.send()
        for _ in range(2):
            agent.job(waiting)
            await asyncio.sleep(NOTE_AFTER_S + 0.01)
            assert "waits for a slot" in world.reason(waiting)
            agent.end(running.pop())
            await agent.freed()
            assert "claimed" == world.reason(waiting)
            put_back(world, waiting)
            running.append(waiting)
        await agent.finish()

    def put_back(world: World, received: Received) -> None:
        """Bring a job into the state of one that is retried."""
        head = make_head(job_of(received), "acme", submission(), 1000)
        rows = world.aws.clients.make("dynamodb")
        key = {"job_id": {"S": head.job_id}, "sk": {"S": "JOB"}}
        rows.delete_item(TableName=DESCRIPTOR.jobs_table, Key=key)
        world.aws.jobs.put_new(replace(head, assigned="agent-1"))

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
