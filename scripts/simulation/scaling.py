"""What sets the size of fleets: the product's scaler, called as its function is called."""

from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Protocol

from joblane.aws.metrics import Metrics
from joblane.deployment.names import fleet_name
from joblane.fleet.capacity import FleetPlan
from joblane.queue.activity import Change
from joblane.service.fleet.kick import Kick
from joblane.service.fleet.scaler import Scaler
from joblane.service.fleet.snapshot import Sources
from joblane.state.lifecycle import State
from joblane.testing.inline import Inline
from scripts.costs.usage import STREAM_SHARDS
from scripts.simulation.adapters import (
    Silent,
    SimulatedAgents,
    SimulatedGroups,
    SimulatedLanes,
    SimulatedRecords,
    SimulatedSettings,
)
from scripts.simulation.clock import Clock
from scripts.simulation.job import Job

if TYPE_CHECKING:
    from scripts.simulation.world import World

DEPLOYMENT = "simulated"

MINUTE_S = 60.0

WINDOW_S, BATCH = 5.0, 1000
"""How long the projector waits for more changes, and how many it takes (infra/projection.py)."""

CALL_S = 1.0
"""Seconds of a call of the scaler without agents. Assumed."""

CALL_AGENT_S = 0.0007
"""Seconds of it for each agent. Reading a row of 836 bytes and an instance of a group takes 0.2 ms
of CPU, measured on a host of ours with botocore's parsers; 512 MB of Lambda are 0.29 of a vCPU."""

KEPT_S = 60.0
"""How long Lambda keeps a call that its reserved concurrency refuses (infra/upkeep.py); it tries
again after 1 s, 2 s, 4 s and so on:
https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html"""


class Scaling(Protocol):
    """What sets the size of fleets."""

    protects: bool
    """Whether agents leave by themselves, and Auto Scaling ends no instance."""

    def begin(self) -> None:
        """Start."""

    def changed(self, job: Job, before: State | None) -> None:
        """A job's state was changed."""


@cache
def _change(queue: str, before: State | None, after: State) -> Change:
    """A change as the stream has it, as far as the kick looks at it."""
    return Change("main", queue, None, 0, 0, 0, before=before, after=after)


@dataclass(eq=False)
class Shard:
    """A shard of the stream, and the projector's process that reads it."""

    clock: Clock
    kick: Kick
    _batch: list[Change] = field(default_factory=list)
    _window: int = 0

    def add(self, change: Change) -> None:
        """Add a change; the first one of a batch opens its window."""
        self._batch.append(change)
        if len(self._batch) == 1:
            self.clock.after(WINDOW_S, self._close, self._window)
        elif len(self._batch) == BATCH:
            self._close(self._window)

    def _close(self, window: int) -> None:
        if window == self._window:
            batch, self._batch = self._batch, []
            self._window += 1
            self.kick.after(batch)


class ScalerFunction:
    """The function `scaler`: each minute, and kicked by the projector; one call at a time.

    A call reads, decides and writes at its beginning: nothing happens in between.
    """

    protects = True

    def __init__(self, world: "World") -> None:
        self.calls = self.blind_calls = self.dropped = 0
        self.longest_s = 0.0
        self._world, self._clock = world, world.clock
        self._running = False
        log = Silent()
        fleets = {fleet_name(DEPLOYMENT, name): name for name in world.groups}
        self._scaler = Scaler(
            DEPLOYMENT,
            [
                FleetPlan(plan.name, plan.queues, plan.threads, plan.idle_s)
                for plan in world.plan.fleets
            ],
            dict.fromkeys(world.settings, max(plan.threads for plan in world.plan.fleets)),
            Sources(
                SimulatedGroups(world.groups, fleets.__getitem__),
                SimulatedAgents(world),
                SimulatedLanes(world.lanes),
                SimulatedSettings(world),
                SimulatedRecords(world),
            ),
            Metrics(False),
            self._unix,
            log,
            pool=_inline,
        )
        self._shards = [
            Shard(world.clock, Kick(self._kick, self._unix, log)) for _ in range(STREAM_SHARDS)
        ]

    def begin(self) -> None:
        """Call it each minute."""
        self._clock.after(self._clock.rng.uniform(0, MINUTE_S), self._minute)

    def changed(self, job: Job, before: State | None) -> None:
        """Write a change to the stream."""
        self._shards[job.number % STREAM_SHARDS].add(_change(job.queue, before, job.state))

    def _unix(self) -> float:
        return self._clock.unix

    def _minute(self) -> None:
        self._clock.after(MINUTE_S, self._minute)
        self._invoke(False, self._clock.now, 0)

    def _kick(self) -> None:
        self._invoke(True, self._clock.now, 0)

    def _invoke(self, kicked: bool, since: float, refused: int) -> None:  # noqa: FBT001 - an event
        """Call it, or have Lambda try again after 1 s, 2 s, 4 s and so on."""
        now = self._clock.now
        if self._running:
            again_s = 2.0**refused
            if now + again_s - since > KEPT_S:
                self.dropped += 1
            else:
                self._clock.after(again_s, self._invoke, kicked, since, refused + 1)
            return
        self._running = True
        took_s = CALL_S + CALL_AGENT_S * len(self._world.heartbeats)
        self._clock.after(took_s, self._return)
        self.calls += 1
        self.longest_s = max(self.longest_s, took_s)
        self._world.usage.lambda_calls += 1
        self._world.usage.lambda_s += took_s
        self.blind_calls += self._scaler.run(kicked=kicked)["Blind"] > 0

    def _return(self) -> None:
        self._running = False


def _inline(workers: int) -> Executor:
    return Inline(workers)
