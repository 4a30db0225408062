"""How long a message of a lane waits at the desk, what for, and what its job says of it."""

import asyncio
from dataclasses import replace

import pytest
from botocore.exceptions import EndpointConnectionError

from ec2_agent.messages.hiding import REPLACE_AT
from ec2_agent.serving.desk import LOOK_EVERY, ROW_COMES_S
from ec2_agent.serving.gates import (
    FIRST_HOLD_S,
    NOTE_AT,
    PREFETCH_HOLD_S,
    TENANT_HOLD_S,
)
from ec2_agent.serving.reasons import NOTE_AFTER_S
from joblane.aws.queue.lanes import Received
from joblane.contract.job import job_view
from joblane.formats.ids import nth_id
from joblane.job.edit import plan_edit
from joblane.job.head import make_head
from joblane.service.job.wake_up import wake_up_message
from joblane.state.lifecycle import State
from joblane.state.timeline import Step
from tests.support.aws import DESCRIPTOR
from tests.support.desk_world import (
    HALF,
    LARGE,
    LARGE_MB,
    MEMORY_MB,
    THREADS,
    World,
    fill,
    job_of,
    shorten_jobs,
    soon,
)
from tests.support.jobs import JOB, named, submission

# Received ahead of a slot.


def test_what_came_ahead_goes_back_to_its_lane_when_the_agent_drains(world: World):
    async def story() -> None:
        agent = world.agent
        shorten_jobs(world)
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
        shorten_jobs(world)
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
        assert world.aws.jobs.claim(named(job_of(held)), "agent-2", 2000).waits_for is None
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
        shorten_jobs(world)
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
            await asyncio.sleep(FIRST_HOLD_S * 2 ** (receives - 1) + 0.01)
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


@pytest.mark.parametrize(
    ("over", "receives", "left"),
    [
        ("edited", LOOK_EVERY - 1, 1),
        ("edited", LOOK_EVERY, 0),
        ("ended", LOOK_EVERY - 1, 1),
        ("ended", LOOK_EVERY, 0),
        ("blocked", LOOK_EVERY, 1),
    ],
)
def test_the_message_of_a_job_that_can_run_nowhere_goes_with_its_job(
    world: World, receives: int, left: int, over: str
):
    """No claim ever deletes it. That of a blocked job may be needed, as in `dispose_outdated`."""
    world.agent = world.start(most_mb=1024)
    large = world.send_by_lane(receives=receives, **LARGE)
    head = world.head(large)
    world.aws.jobs.delete(head.job_id)
    ended = replace(head, timeline=(Step(State.CANCELLED, 2000, 0, "by hand"),))
    found = {
        "edited": replace(head, edit=1),
        "ended": replace(ended, state=State.CANCELLED),
        "blocked": replace(head, edit=1, state=State.BLOCKED),
    }
    world.aws.jobs.put_new(found[over])

    async def story() -> None:
        world.agent.lane(large)
        await world.agent.desk.tasks.done()

    world.run(story())
    assert (0, left) == world.in_lane


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


def test_an_edited_jobs_wait_is_written_again(world: World):
    """The edit has removed what was written, and its message may come to the same agent."""
    world.agent = world.start(most_mb=1024)
    large = world.send_by_lane(**LARGE)

    async def story() -> None:
        world.agent.lane(large)
        await world.agent.desk.tasks.done()
        assert "of memory" in world.reason(large)
        seen = world.head(large)
        spec = seen.spec.model_copy(update={"labels": {"a": "b"}})
        edited = plan_edit(seen, spec, 2000, "edited")
        world.aws.jobs.edit(seen, edited, 2000)
        assert "of memory" not in world.reason(large)
        world.lane.send(wake_up_message(edited))
        world.agent.lane(world.receive())
        await world.agent.desk.tasks.done()
        assert "of memory" in world.reason(large)

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
