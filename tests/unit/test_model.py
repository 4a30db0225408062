"""Thousands of steps of a small world with faults: nothing is lost, nothing runs twice at once.

The functions, the agents' claims and reports, and the tables are real; time, SQS at its worst,
the pace of Step Functions and EventBridge, and agents that die, drift, leave and are cut off are
simulated (`tests/support/world.py`). A failure names its seed and step. For a long run:

    JOBLANE_MODEL_S=600 pytest -s tests/unit/test_model.py -k long
"""

import os
import random
import time
from collections import Counter
from typing import Any

import pytest

from joblane.lifecycle import State
from joblane.times import rfc3339
from tests.support.aws import Cloud, cloud
from tests.support.promises import Promises
from tests.support.world import CONDITIONS, TICK_S, Inline, World

STEPS = 120
JOBS = 40
LOOK_EVERY = 5
NAMES = ("agent-1", "agent-2", "agent-3", "agent-4")
UNREACHED = {State.SKIPPED, State.STALE, State.DISMISSED, State.EXPIRED}
"""States that no job is brought to here, or that not every seed brings one to."""

SEEDS = [int(os.environ["JOBLANE_SEED"])] if "JOBLANE_SEED" in os.environ else [7, 11, 2026]

CALM_TICKS = 2000
"""In which everything must come to its end once the trouble is over: the longest policy is
half an hour, the longest wait for a message that somebody hid two minutes."""


async def no_time(_seconds: float) -> None:
    """Pass no real time."""


class Ids:
    """ULIDs that a seed repeats."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._time: Any = None

    def from_timestamp(self, seconds: float) -> str:
        """Make an id of a time."""
        alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
        number = (int(seconds * 1000) << 80) | self._dice.getrandbits(80)
        return "".join(alphabet[(number >> shift) & 31] for shift in range(125, -1, -5))


class Life:
    """What users and operators do, and what happens to hosts."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.dice = random.Random(seed + 1)
        self.promises = Promises(world)
        self.names = list(NAMES)

    def step(self) -> None:
        """Let something happen, or nothing."""
        if len(self.promises.accepted) < JOBS and self.dice.random() < 0.3:
            self._submit()
        if self.dice.random() < 0.25:
            self._operate()
        self._disturb()

    def _submit(self) -> None:
        if self.dice.random() < 0.8:
            status, answer = self.world.api("POST", "/v1/jobs", self._job())
            if status == 202:
                self.promises.accepted.add(answer["id"])
            return
        batch = {"jobs": [self._job() for _ in range(3)]}
        status, answer = self.world.api("POST", "/v1/jobs/batch", batch)
        for entry in answer.get("entries", []):
            if entry["status"] == 202:
                self.promises.accepted.add(entry["job"]["id"])

    def _job(self) -> dict[str, Any]:
        dice, now_ms = self.dice, int(self.world.clock.now * 1000)
        job: dict[str, Any] = {
            "command": ["true"],
            "priority": dice.choice(["high", "default", "low"]),
            "restartable": dice.random() < 0.7,
            "retry": {"max_attempts": dice.randint(1, 4), "backoff_s": [dice.choice([0, 30])]},
        }
        if dice.random() < 0.25:
            job["requires"] = dice.sample(CONDITIONS, dice.randint(1, 2))
        if dice.random() < 0.15:
            job["deadline"] = rfc3339(now_ms + dice.randint(30, 1500) * 1000)
        elif dice.random() < 0.2:
            job["run_at"] = rfc3339(now_ms + dice.randint(5, 1800) * 1000)
        return job

    def _operate(self) -> None:
        """Do something to a job or to all, as often as not what its state refuses."""
        known = sorted(self.promises.seen)
        if not known:
            return
        job_id, world = self.dice.choice(known), self.world
        what = self.dice.random()
        if what < 0.3:
            world.api("POST", f"/v1/jobs/{job_id}/cancel")
        elif what < 0.5:
            world.api("POST", f"/v1/jobs/{job_id}/retry")
        elif what < 0.55:
            self.promises.deleted.add(job_id)
            world.api.raw("DELETE", f"/v1/jobs/{job_id}")
        elif what < 0.7:
            world.operator("POST", f"/v1/dlq/{job_id}/replay")
        elif what < 0.75:
            world.operator("POST", f"/v1/dlq/{job_id}/dismiss")
        elif what < 0.8:
            world.operator("POST", "/v1/queues/_all/requeue")
        elif what < 0.85:
            world.operator("POST", "/v1/queues/_all/restart-failed")
        elif what < 0.9:
            state = self.dice.choice(["up", "down"])
            world.operator("PUT", "/v1/conditions/app:ledger", {"state": state})
        else:
            well = self.dice.choice([*world.wells.values()])
            well.allow = self.dice.choice([0, 1, 10])

    def _disturb(self) -> None:
        """Let one agent die, leave, or lose or find its way to AWS; let a missing one come back."""
        world, dice = self.world, self.dice
        chance = dice.random()
        if world.agents:
            agent = dice.choice(world.agents)
            if chance < 0.02:
                agent.die()
                if dice.random() < 0.5:  # its instance is gone with it, and its name for ever
                    world.ended_instances.append(agent.name)
                    self.names.remove(agent.name)
                    self.names.append(f"agent-{len(world.ended_instances)}{dice.random():.6f}")
            elif chance < 0.04:
                agent.leave()
            elif chance < 0.08:
                agent.cut_off = not agent.cut_off
        missing = sorted(set(self.names) - {agent.name for agent in world.agents if agent.alive})
        if missing and dice.random() < 0.2:
            world.join(dice.choice(missing))

    def calm_down(self) -> None:
        """End the trouble, and let everything that was accepted come to its end."""
        world = self.world
        world.faults.share = 0.0
        world.troubled = False
        for well in world.wells.values():
            well.allow = 10
        world.operator("PUT", "/v1/conditions/app:ledger", {"state": "up"})
        for agent in world.agents:
            agent.cut_off = False
        for tick in range(CALM_TICKS):
            if not world.agents:
                world.join(self.names[0])
            world.tick(TICK_S)
            if tick % LOOK_EVERY == 0 and self.promises.all_ended():
                return
        left = [(h.job_id, h.state) for h in self.promises.heads().values() if not h.ended]
        raise AssertionError(f"never ended: {left}")


@pytest.fixture(autouse=True)
def _one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncio.sleep", no_time)  # the world's clock is the only one
    for function in ("requeue", "submission"):
        monkeypatch.setattr(f"functions.{function}.handler.ThreadPoolExecutor", Inline)


def live(aws: Cloud, seed: int, monkeypatch: pytest.MonkeyPatch) -> Life:
    """One world, from its beginning to its end."""
    print(f"JOBLANE_SEED={seed}")
    life = Life(World(aws, seed, share=0.03), seed)
    monkeypatch.setattr("functions.submission.handler.ULID", Ids(random.Random(seed + 2)))
    world = life.world
    for name in NAMES:
        world.join(name)
    step = 0
    try:
        for step in range(STEPS):
            life.step()
            world.tick(TICK_S)
            if step % LOOK_EVERY == 0:
                life.promises.look()
        life.calm_down()
        life.promises.look()
    except Exception as error:
        error.add_note(f"JOBLANE_SEED={seed}, step {step}")
        raise
    return life


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_every_job_ends_and_none_runs_twice_at_once(
    aws: Cloud, seed: int, monkeypatch: pytest.MonkeyPatch
):
    life = live(aws, seed, monkeypatch)
    passed = Counter(s.state for h in life.promises.seen.values() for s in h.timeline)
    print(f"{life.world.ticks} ticks, {life.promises.looked} looks: {dict(passed)}")
    assert set(State) - UNREACHED <= set(passed)


@pytest.mark.timeout(0)
@pytest.mark.skipif("JOBLANE_MODEL_S" not in os.environ, reason="a long run, for a person")
def test_a_long_run(monkeypatch: pytest.MonkeyPatch):
    end = time.monotonic() + float(os.environ["JOBLANE_MODEL_S"])
    seed = int(os.environ.get("JOBLANE_SEED", random.SystemRandom().getrandbits(32)))
    worlds = ticks = 0
    while time.monotonic() < end:
        with cloud() as aws:
            ticks += live(aws, seed, monkeypatch).world.ticks
        worlds, seed = worlds + 1, seed + 1
    print(f"{worlds} worlds, {ticks} ticks")
