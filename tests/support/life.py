"""A world's life: what users and operators do, what happens to hosts, and what must hold."""

import json
import random
from typing import Any

from joblane.formats.times import rfc3339
from joblane.state.lifecycle import EXIT_BLOCKED, EXIT_PERMANENT
from tests.support.dynamodb import Tables
from tests.support.network import Killed
from tests.support.promises import Promises
from tests.support.requests import Api
from tests.support.world import CONDITIONS, UNLIMITED, World

STEPS = 150
JOBS = 16
CALM, BURST = 0.01, 0.25
"""Shares of the calls that fail."""

KEYED = 0.5
"""Share of the jobs that have a key."""

TARGETED = 0.2
"""Share of the jobs that have an agent as target."""

SLOTS = (1, 2)
"""`max_active` of each key, and its last segment."""

NAMES = ("agent-1", "agent-2", "agent-3", "agent-4")
CALM_TICKS = 2000
"""In which everything must come to its end once the trouble is over: the longest policy is
half an hour, the longest wait for a message that somebody hid two minutes."""


class Life:
    """What users and operators do, and what happens to hosts."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.rng = random.Random(seed + 1)
        self.promises = Promises(world)
        self.names = list(NAMES)
        self.burst = 0
        """Steps for which calls go on failing more often."""
        world.meddle = self._operate

    def step(self) -> None:
        """Let something happen, or nothing."""
        if self.burst == 0 and self.rng.random() < 0.05:
            self.burst = self.rng.randint(2, 8)
        self.burst = max(0, self.burst - 1)
        self.world.faults.share = BURST if self.burst else CALM
        if len(self.promises.accepted) < JOBS and self.rng.random() < 0.3:
            self._submit()
        if self.rng.random() < 0.25:
            self._operate()
        self._disturb()

    def _submit(self) -> None:
        if self.rng.random() < 0.8:
            status, answer = self._ask(self.world.api, "POST", "/v1/jobs", self._job())
            if status == 202:
                self.promises.accepted.add(answer["id"])
            return
        batch = {"jobs": [self._job() for _ in range(3)]}
        status, answer = self._ask(self.world.api, "POST", "/v1/jobs/batch", batch)
        for entry in answer.get("entries", []):
            if entry["status"] == 202:
                self.promises.accepted.add(entry["job"]["id"])

    def _ask(self, api: Api, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Ask a function; 0 if it died of it."""
        try:
            answer = api.raw(method, path, body)
        except Killed:
            return 0, {}
        return answer["statusCode"], json.loads(answer["body"]) if answer.get("body") else {}

    def _job(self) -> dict[str, Any]:
        rng, now_ms = self.rng, int(self.world.clock.now * 1000)
        job: dict[str, Any] = {
            "command": ["true"],
            "exit_codes": {"permanent": [EXIT_PERMANENT], "blocked": [EXIT_BLOCKED]},
            "priority": rng.choice(["high", "default", "low"]),
            "restartable": rng.random() < 0.7,
            "resources": {"memory_mb": rng.choice([64, 512, 1024])},
            "retry": {"max_attempts": rng.randint(1, 4), "backoff_s": [rng.choice([0, 30])]},
        }
        if rng.random() < 0.25:
            job["requires"] = rng.sample(CONDITIONS, rng.randint(1, 2))
        if rng.random() < TARGETED:
            job["target"] = f"host:{rng.choice(self.names)}"
            job["reply_timeout_s"] = rng.choice([60, 600])
        elif rng.random() < KEYED:
            job["concurrency"] = self._concurrency()
        if rng.random() < 0.15:
            job["deadline"] = rfc3339(now_ms + rng.randint(30, 900) * 1000)
        elif rng.random() < 0.2:
            job["run_at"] = rfc3339(now_ms + rng.randint(5, 1200) * 1000)
        return job

    def _concurrency(self) -> dict[str, Any]:
        """One of two keys; what is said of it differs from job to job."""
        rng = self.rng
        slots = rng.choice(list(SLOTS))
        return {
            "key": ["world", slots],
            "max_active": slots,
            "max_queued": rng.choice([0, 2, 8]),
            "when_full": rng.choice(["reject", "coalesce", "replace-oldest"]),
            "stale_policy": rng.choice(["block", "fail-stale"]),
        }

    def _operate(self) -> None:
        """Do something to a job or to all, as often as not what its state refuses."""
        known = sorted(self.promises.seen)
        if not known:
            return
        job_id, world = self.rng.choice(known), self.world
        ended = [job_id for job_id, head in self.promises.seen.items() if head.ended]
        what = self.rng.random()
        if what < 0.15:
            self._ask(world.api, "POST", f"/v1/jobs/{job_id}/cancel")
        elif what < 0.4:
            self._ask(world.api, "POST", f"/v1/jobs/{self.rng.choice(ended or known)}/retry")
        elif what < 0.65:
            self._ask(world.operator, "POST", f"/v1/dlq/{self.rng.choice(ended or known)}/replay")
        elif what < 0.68:
            self.promises.deleted.add(job_id)
            self._ask(world.api, "DELETE", f"/v1/jobs/{job_id}")
        elif what < 0.7:
            self._ask(world.operator, "POST", f"/v1/dlq/{job_id}/dismiss")
        elif what < 0.74:
            self._ask(world.operator, "POST", "/v1/queues/_all/requeue")
        elif what < 0.8:
            self._ask(world.operator, "POST", "/v1/queues/_all/restart-failed")
        elif what < 0.86:
            state = self.rng.choice(["up", "down"])
            self._ask(world.operator, "PUT", "/v1/conditions/app:ledger", {"state": state})
        else:
            well = self.rng.choice([*world.wells.values()])
            well.allow = self.rng.choice([0, 1, 10])

    def _disturb(self) -> None:
        """Let one agent die, leave, or lose or find its way to AWS; let a missing one come back."""
        world, rng = self.world, self.rng
        chance = rng.random()
        if world.agents:
            agent = rng.choice(world.agents)
            if chance < 0.05:
                agent.die()
                if rng.random() < 0.5:  # its instance is gone with it, and its name for ever
                    world.ended_instances.append(agent.name)
                    self.names.remove(agent.name)
                    self.names.append(f"agent-{len(world.ended_instances)}{rng.random():.6f}")
            elif chance < 0.07:
                world.let(agent, agent.leave)
            elif chance < 0.12:
                busy = [each for each in world.agents if each.running]
                rng.choice(busy or world.agents).cut_off = True
            elif chance < 0.15:
                agent.cut_off = False
            elif chance < 0.19:
                what = rng.choice(["cordon", "cordon", "uncordon"])
                self._ask(world.platform, "POST", f"/v1/agents/{agent.name}/{what}")
            elif chance < 0.26:
                world.shares.append((world.clock.now, rng.choice([0, 1, UNLIMITED, UNLIMITED])))
        missing = sorted(set(self.names) - {agent.name for agent in world.agents if agent.alive})
        if missing and rng.random() < 0.2:
            world.join(rng.choice(missing))

    def end_trouble(self) -> None:
        """Let nothing fail any more."""
        world = self.world
        world.faults.share = world.faults.interruptions = world.faults.kills = 0.0
        world.troubled = False
        for well in world.wells.values():
            well.allow = 10
        self._ask(world.operator, "PUT", "/v1/conditions/app:ledger", {"state": "up"})
        world.shares.append((world.clock.now, UNLIMITED))
        for agent in world.agents:
            agent.cut_off = False
        self.open_all()

    def open_all(self) -> None:
        """Uncordon all agents, and have one that is not small."""
        world = self.world
        for agent in world.agents:
            if agent.core.standing.cordoned:
                self._ask(world.platform, "POST", f"/v1/agents/{agent.name}/uncordon")
        if all(agent.name == world.small for agent in world.agents):
            world.join(next(name for name in self.names if name != world.small))

    def calm_down(self) -> None:
        """End the trouble, and let everything that was accepted come to its end."""
        world = self.world
        self.end_trouble()
        for _ in range(CALM_TICKS):
            self.open_all()
            world.tick()
            self.promises.look()
            if all(head.ended for head in self.promises.seen.values()) and self._idle():
                return
        left = [(h.job_id, h.state) for h in self.promises.seen.values() if not h.ended]
        raise AssertionError(
            f"never ended: {left}, or slots are leaked: {self.promises.keys_of_jobs()}"
        )

    def _idle(self) -> bool:
        return all(key.state.idle for key in self.promises.keys_of_jobs())


def live(
    seed: int,
    steps: int = STEPS,
    tables: Tables | None = None,
) -> Life:
    """One world, from its beginning to its end."""
    print(f"JOBLANE_SEED={seed}")
    life = Life(World(seed, tables), seed)
    world = life.world
    for name in NAMES:
        world.join(name)
    step = 0
    try:
        for step in range(steps):  # noqa: B007 - the note below tells it
            life.step()
            world.tick()
            life.promises.look()
        life.calm_down()
    except Exception as error:
        error.add_note(f"JOBLANE_SEED={seed}, step {step}")
        raise
    faults = world.faults
    print(
        f"{world.ticks} ticks, {faults.made} calls, {faults.failed} failed, "
        f"{faults.interrupted} interrupted, {faults.killed} killed"
    )
    return life
