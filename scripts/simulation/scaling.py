"""What sets the size of fleets: the product's scaler, called as its function is called."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from joblane.deployment.names import LANES
from joblane.fleet.idle import LeavingPolicy, Reason, Situation, why_leave
from joblane.fleet.wanted import FleetState, QueueLoad, wanted
from joblane.job.lease import Heartbeat
from scripts.costs.usage import STREAM_SHARDS
from scripts.simulation.fleet import Group, Phase
from scripts.simulation.job import Job
from scripts.simulation.lane import Unavailable

if TYPE_CHECKING:
    from scripts.simulation.agent import Agent
    from scripts.simulation.world import World

MINUTE_S = 60.0

WINDOW_S = 5.0
"""How long the projector waits for more changes (infra/projection.py)."""

KICK_S = 10.0
"""A process of the projector calls the scaler at most once in this time."""

CALL_S = 1.0
"""Seconds of a call of the scaler. Assumed."""

SHORT_S = 900.0
"""Launches that fail at once say why; a group that is below its desired capacity for this long is
short as well."""

EXPECTED_S = 600.0
"""An instance in service without an agent is expected to have one for this long."""


class Scaling(Protocol):
    """What sets the size of fleets."""

    protects: bool
    """Whether agents leave by themselves, and Auto Scaling ends no instance."""

    def begin(self) -> None:
        """Start."""

    def submitted(self, job: Job) -> None:
        """A job became pending."""


@dataclass(eq=False)
class Scaler:
    """The function `scaler`: each minute, and kicked by the projector; one call at a time."""

    world: "World"
    protects: bool = True
    calls: int = 0
    blind_calls: int = 0

    def __post_init__(self) -> None:
        self._clock = self.world.clock
        self._running = False
        self._again = False
        self._windows: dict[int, float] = {}
        self._kicked: dict[int, float] = {}

    def begin(self) -> None:
        """Call it each minute."""
        self._clock.after(self._clock.dice.uniform(0, MINUTE_S), self._minute)

    def submitted(self, job: Job) -> None:
        """Count a job's change in the stream: its shard's window may begin with it."""
        shard = job.number % STREAM_SHARDS
        if shard not in self._windows:
            self._windows[shard] = self._clock.now
            self._clock.after(WINDOW_S, self._project, shard)

    def _project(self, shard: int) -> None:
        del self._windows[shard]
        if self._clock.now - self._kicked.get(shard, -KICK_S) >= KICK_S:
            self._kicked[shard] = self._clock.now
            self._call()

    def _minute(self) -> None:
        self._clock.after(MINUTE_S, self._minute)
        self._call()

    def _call(self) -> None:
        if self._running:  # reserved concurrency 1: Lambda tries an asynchronous call again
            self._again = True
            return
        self._running = True
        self._clock.after(CALL_S, self._return)
        self.calls += 1
        self.world.usage.lambda_calls += 1
        self.world.usage.lambda_s += CALL_S
        self._scale()

    def _return(self) -> None:
        self._running = False
        if self._again:
            self._again = False
            self._call()

    def _scale(self) -> None:
        world = self.world
        rows = list(world.heartbeats.values())
        world.usage.read_units += max(16, len(rows) / 8)
        try:
            lengths = {
                name: sum(world.lanes[name, lane].length() for lane in LANES)
                for name in world.settings
            }
        except Unavailable:
            self.blind_calls += 1
            return
        loads = {name: self._load(name, length, rows) for name, length in lengths.items()}
        groups = list(world.groups.values())
        states = [self._state(group) for group in groups]
        decided = wanted(states, loads)
        for group in groups:
            desired = decided.fleets[group.plan.name].desired
            if desired > group.desired:
                group.set_desired(desired)

    def _load(self, name: str, visible: int, rows: list[Heartbeat]) -> QueueLoad:
        settings = self.world.settings[name]
        several = len(self.world.settings) > 1
        return QueueLoad(
            visible=visible,
            threads=max(group.plan.threads for group in self.world.groups.values()),
            paused=not settings.run_jobs,
            cluster_threads=settings.cluster_threads,
            running=self.world.running[name] if several else sum(row.running for row in rows),
        )

    def _state(self, group: Group) -> FleetState:
        world, plan, now = self.world, group.plan, self._clock.now
        now_ms = self._clock.now_ms
        alive = busy = booting = broken = running = free = members = 0
        for instance in group.alive:
            row = world.heartbeats.get(instance.name)
            if row is not None and row.mode == "draining":
                busy += row.running > 0
                continue
            members += 1
            if row is None:
                expected = instance.phase is Phase.BOOTING or now - instance.launched < EXPECTED_S
                booting += expected
                broken += not expected
            elif not row.alive(now_ms):
                broken += 1
            else:
                alive += 1
                busy += row.running > 0
                running += row.running
                free += max(0, row.threads - row.running)
        short = group.failure is not None or (
            group.short_since is not None and now - group.short_since >= SHORT_S
        )
        return FleetState(
            name=plan.name,
            queues=plan.queues,
            slots=plan.threads,
            least=plan.min_size,
            most=plan.max_size,
            desired=group.desired,
            members=members,
            in_service=len(group.in_service()),
            alive=alive,
            busy=busy,
            booting=booting,
            broken=broken,
            running=running,
            free=free,
            free_of=dict.fromkeys(plan.queues, free),
            short=short,
        )


def leaves(agent: "Agent", idle_s: Mapping[str, int | None]) -> bool:
    """Whether an agent leaves because it is idle."""
    now = agent.world.clock.now
    idle_for_s = 0.0 if agent.attempts else now - agent.idle_since
    situation = Situation(age_s=now - agent.began, idle_for_s=idle_for_s)
    return why_leave(LeavingPolicy(idle_s[agent.fleet]), situation) is Reason.IDLE
