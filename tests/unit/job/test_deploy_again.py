"""Jobs of a deployment that was destroyed and deployed again: the tables stayed, queues did not."""

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from joblane.aws.queue.lanes import MAX_DELAY_S
from joblane.condition.state import OVERDUE_S
from joblane.job.head import make_head
from joblane.service.job.wake_up import renewal_delay_s
from joblane.state.lifecycle import State
from tests.support.depth import DEEP
from tests.support.jobs import JOB, submission
from tests.support.life import CALM_TICKS, NAMES, Life
from tests.support.world import World

NOW_MS = 1_800_000_000_000
SEEDS = range(3, 11)
STEPS = 60
LOST_SEEDS = range(30, 50)
"""The first is one in which an end is lost: a run by default needs no other."""
LONGEST_S = 300
"""The longest delay between two tests of a condition; that of the default policy."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """No logs: a world writes thousands of lines."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def destroy_and_deploy(world: World) -> None:
    """Lose every agent, message and execution, as `cdk destroy` does, and wait until overdue.

    A test was due within `LONGEST_S` of it.
    """
    for agent in world.agents:
        agent.die()
    world.agents.clear()
    for messages in world.queues.entries.values():
        messages.clear()
    world.pace.executions.clear()
    world.pace.events.clear()
    world.clock.now += LONGEST_S + OVERDUE_S + 60


def requeue(world: World) -> None:
    """`joblane requeue _all`: every page."""
    query = {"limit": "10"}
    while True:
        status, page = world.operator("POST", "/v1/queues/_all/requeue", query=query)
        assert 200 == status
        if page["next"] is None:
            return
        query["next"] = page["next"]


def test_every_job_ends_after_one_requeue_by_hand():
    expected = {State.PENDING, State.ACTIVE, State.BLOCKED, State.SCHEDULED, State.WAITING}
    before: Counter[State] = Counter()
    for seed in SEEDS:
        if expected <= set(before) and not DEEP:
            break  # by default, until each state was met
        life = Life(World(seed), seed)
        world = life.world
        for name in NAMES:
            world.join(name)
        for _ in range(STEPS):
            life.step()
            world.tick()
            life.promises.look()
        world.faults.share = world.faults.interruptions = world.faults.kills = 0.0
        destroy_and_deploy(world)
        left = [head.state for head in life.promises.seen.values() if not head.ended]
        before.update(left)

        requeue(world)

        life.calm_down()
    print({state.value: count for state, count in before.items()})
    assert expected <= set(before)


def test_jobs_that_wait_for_a_key_go_although_the_ends_before_them_were_lost():
    """A slot that nobody waits for stays with a job that is over, until somebody wants it."""
    lost = 0
    for seed in LOST_SEEDS:
        if lost and not DEEP:
            break  # by default, until an end was lost
        life = Life(World(seed), seed)
        world, promises = life.world, life.promises
        for name in NAMES:
            world.join(name)
        for step in range(STEPS):
            life.step()
            world.stream_is_lost = step >= STEPS // 2
            world.tick()
        life.end_trouble()
        heads = promises.seen = promises.heads()
        keys = [key.state for key in promises.keys_of_jobs() if key.state.queued]
        world.stream_is_lost = False
        lost += sum(heads[job].ended for state in keys for job in state.active if job in heads)
        for _ in range(CALM_TICKS):
            life.open_all()  # a cordon may have been on its way
            world.tick()
            promises.seen = promises.heads()
            left = [head.job_id for head in promises.seen.values() if not head.ended]
            if not left:
                break
        assert not left, f"seed {seed}: never ended: {left}"
    assert lost


@pytest.mark.parametrize(
    ("state", "next_at_s", "delay_s"),
    [
        (State.PENDING, None, 0),
        (State.ACTIVE, None, 0),
        (State.BLOCKED, None, 0),
        (State.RETRY, 30, 30),
        (State.RETRY, -1, 0),
        (State.RETRY, 3600, MAX_DELAY_S),  # its agent hides it for the rest
        (State.SCHEDULED, 30, None),
        (State.DEAD, None, None),
    ],
)
def test_a_new_message_comes_when_its_job_can_start(
    state: State, next_at_s: int | None, delay_s: int | None
):
    next_at_ms = None if next_at_s is None else NOW_MS + next_at_s * 1000
    head = replace(make_head(JOB, "acme", submission(), NOW_MS), state=state, next_at_ms=next_at_ms)
    assert delay_s == renewal_delay_s(head, NOW_MS)
