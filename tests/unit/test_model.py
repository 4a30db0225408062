"""Thousands of steps of a small world with faults: nothing is lost, nothing runs twice at once.

Real: the store, the claim, the takeover, the settlement. Simulated: time, SQS at its worst,
agents that die, drift, leave and are cut off. A failure prints its seed.
"""

import os
import random
from itertools import pairwise

import pytest
from ulid import ULID

from joblane.head import submitted
from joblane.lifecycle import TRANSITIONS, State
from joblane.message import Message
from tests.support.aws import Cloud
from tests.support.jobs import submission
from tests.support.world import TICK_S, World

STEPS = 400
JOBS = 40
NAMES = ("agent-1", "agent-2", "agent-3", "agent-4")
SEEDS = [int(os.environ["JOBLANE_SEED"])] if "JOBLANE_SEED" in os.environ else [7, 11, 2026]


async def no_time(_seconds: float) -> None:
    """Pass no real time."""


def submit(world: World, dice: random.Random) -> str:
    """Accept a job as the submission function does."""
    job_id = str(ULID.from_timestamp(world.now))
    spec = submission(
        restartable=dice.random() < 0.7,
        retry={"max_attempts": dice.randint(1, 4), "backoff_s": [dice.choice([0, 30])]},
    )
    world.lane.send(Message(job_id=job_id, tenant="acme"))
    world.jobs.put_new(submitted(job_id, "acme", spec, int(world.now * 1000)))
    return job_id


def disturb(world: World, dice: random.Random) -> None:
    """Let one agent die, leave, or lose or find its way to AWS; let a missing one come back."""
    chance = dice.random()
    if world.agents:
        agent = dice.choice(world.agents)
        if chance < 0.02:
            agent.die()
        elif chance < 0.04:
            agent.leave()
        elif chance < 0.08:
            agent.cut_off = not agent.cut_off
    missing = sorted(set(NAMES) - {agent.name for agent in world.agents if agent.alive})
    if missing and dice.random() < 0.2:
        world.join(dice.choice(missing))


def calm_down(world: World) -> None:
    """End the trouble, and let everything that was started come to its end."""
    world.faults.share = 0.0
    for agent in world.agents:
        agent.cut_off = False
    for _ in range(3000):
        if not world.agents:
            world.join(NAMES[0])
        world.tick(TICK_S)
        if not world.lane.entries and not any(agent.running for agent in world.agents):
            return


def check(world: World, job_id: str) -> None:
    """Every promise about one job."""
    head = world.jobs.get(job_id)
    assert head is not None
    assert head.ended, f"{job_id} is {head.state}: {head.timeline[-1].reason}"
    assert head.attempt <= head.spec.retry.max_attempts
    states = [step.state for step in head.timeline]
    assert states.count(State.ACTIVE) == head.epoch
    assert all(b in TRANSITIONS[a] for a, b in pairwise(states))
    if not head.spec.restartable:
        assert world.starts.get(job_id, 0) <= 1, f"{job_id} started twice"


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_every_job_ends_and_none_runs_twice_at_once(
    aws: Cloud, seed: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("asyncio.sleep", no_time)  # the world's clock is the only one
    print(f"JOBLANE_SEED={seed}")
    dice = random.Random(seed)
    world = World(aws, seed, share=0.04)
    jobs: list[str] = []
    for name in NAMES:
        world.join(name)
    for _ in range(STEPS):
        if len(jobs) < JOBS and dice.random() < 0.2:
            jobs.append(submit(world, dice))
        disturb(world, dice)
        world.tick(TICK_S)
    calm_down(world)
    for job_id in jobs:
        check(world, job_id)
