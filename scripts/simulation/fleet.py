"""A model of an Auto Scaling group: launches, boots, capacity that does not come, ends."""

import math
from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from ec2_agent.presence.notices import POLL_S, Kind, Notice
from joblane.aws.fleet.auto_scaling import ScalingActivity
from scripts.simulation.agent import Agent

if TYPE_CHECKING:
    from scripts.simulation.world import World

NOTICED_S = 3.0
"""From a change of the desired capacity to the launch. Assumed."""

RUNNING_S = 20.0
"""From the launch to the state InService. Assumed."""

AGAIN_S = 60.0
"""Before Auto Scaling tries to launch again after a failure. Assumed: it backs off."""

REPLACED_S = 60.0
"""Until an instance that died is found unhealthy. EC2's status checks run each minute."""

SPOT_NOTICE_S = 120.0
"""https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html"""

EVENT_S = 5.0
"""From the end of an instance to the event that frees its jobs. Assumed."""

DRAIN_S = 60.0
"""Default of the agent's --drain-s."""

LEAST_BILLED_S = 60.0
"""EC2 bills by the second, a minute at least."""

NO_CAPACITY = "We currently do not have sufficient capacity of the instance type you requested."
NO_QUOTA = "You have requested more vCPU capacity than your current vCPU limit allows."
NO_RATE = "Request limit exceeded."
"""Words of Auto Scaling for launches that fail."""

ACTIVITIES = 20
"""Newest activities of a group that are kept for its readers."""


@dataclass(frozen=True)
class Boot:
    """Seconds from a launch to the agent's first heartbeat: log-normal.

    Not measured on AWS yet. Public figures for an instance that installs its worker at boot are
    two to five minutes for a cold start (github-aws-runners/terraform-aws-github-runner), less with
    an image that has it; the default assumes an install from user data within a minute or two.
    """

    median_s: float = 90.0
    p95_s: float = 180.0

    def draw(self, gauss: float) -> float:
        """The time of one boot, for a number of the standard normal distribution."""
        sigma = math.log(self.p95_s / self.median_s) / 1.645
        return max(RUNNING_S, self.median_s * math.exp(sigma * gauss))


@dataclass(frozen=True)
class Supply:
    """What AWS has of instances, and how it loses them."""

    instances: int = 1_000_000
    """More are refused as InsufficientInstanceCapacity."""
    vcpus: int = 1_000_000
    """The account's quota."""
    launches: int = 1000
    launches_per_s: float = 2.0
    """RunInstances: a bucket of 1,000 instances, refilled by two a second:
    https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html"""
    interruptions_per_h: float = 0.0
    """Of a spot instance."""
    deaths_per_h: float = 0.0
    """Of any instance, without a notice."""
    cuts_per_h: float = 0.0
    """Of any instance: it reaches AWS again after `cut_s`."""
    cut_s: float = 480.0


@dataclass(frozen=True)
class FleetPlan:
    """A fleet of joblane.toml, as far as scaling reads it."""

    name: str = "main"
    queues: tuple[str, ...] = ("default",)
    threads: int = 8
    min_size: int = 0
    max_size: int = 100
    instance_type: str = "c7g.large"
    vcpus: int = 2
    idle_s: int | None = 300
    spot_percent: int = 0
    on_demand_base: int = 0


class Phase(Enum):
    """Where an instance is in its life."""

    BOOTING = auto()
    IN_SERVICE = auto()
    TERMINATING = auto()
    GONE = auto()


@dataclass(eq=False)
class Instance:
    """One instance."""

    name: str
    spot: bool
    launched: float
    phase: Phase = Phase.BOOTING
    agent: Agent | None = None
    noticed: bool = False


@dataclass(eq=False)
class Group:
    """An Auto Scaling group."""

    world: "World"
    plan: FleetPlan
    desired: int = 0
    instances: dict[str, Instance] = field(default_factory=dict)
    """Those that are not gone."""
    busy_ended: int = 0
    """Instances with running jobs that scale-in or their agent ended."""
    most: int = 0
    """Most instances at once."""
    most_desired: int = 0
    on_demand_s: float = 0.0
    spot_s: float = 0.0
    launched: int = 0
    raises: list[tuple[float, int]] = field(default_factory=list)
    """When the desired capacity was raised, and to what."""
    left_idle: list[float] = field(default_factory=list)
    """When agents left because they were idle."""

    def __post_init__(self) -> None:
        self._clock = self.world.clock
        self._retry_planned = False
        self._ending = 0
        self._activities: deque[ScalingActivity] = deque(maxlen=ACTIVITIES)
        self.set_desired(self.plan.min_size)

    @property
    def alive(self) -> list[Instance]:
        """Instances that count against the desired capacity."""
        return [i for i in self.instances.values() if i.phase is not Phase.TERMINATING]

    @property
    def size(self) -> int:
        """How many instances are alive."""
        return len(self.instances) - self._ending

    def in_service(self) -> list[Instance]:
        """Instances that Auto Scaling calls InService."""
        return [i for i in self.instances.values() if i.phase is Phase.IN_SERVICE]

    def set_desired(self, desired: int) -> None:
        """SetDesiredCapacity. Raises ValueError outside of the group's bounds, as AWS does."""
        if not self.plan.min_size <= desired <= self.plan.max_size:
            raise ValueError(f"{desired} is not from {self.plan.min_size} to {self.plan.max_size}")
        if desired > self.desired:
            self.raises.append((self._clock.now, desired))
        self.desired = desired
        self.most_desired = max(self.most_desired, desired)
        self._clock.after(NOTICED_S, self.reconcile)

    def terminate(self, name: str, *, decrement: bool) -> bool:
        """TerminateInstanceInAutoScalingGroup; False if the group may not become smaller."""
        if name not in self.instances or (decrement and self.desired - 1 < self.plan.min_size):
            return False
        self.desired -= decrement
        agent = self.instances[name].agent
        self.busy_ended += agent is not None and bool(agent.attempts)
        self.left_idle.append(self._clock.now)
        self._terminate(self.instances[name])
        return True

    def activities(self, most: int) -> list[ScalingActivity]:
        """The newest launches that have ended, newest first."""
        return list(self._activities)[: -most - 1 : -1]

    def _tried(self, since: float, failure: str | None) -> None:
        """Note a launch that has ended."""
        at_ms = self._clock.now_ms - int((self._clock.now - since) * 1000)
        status = "Successful" if failure is None else "Failed"
        what = "Launching a new EC2 instance"
        self._activities.append(ScalingActivity(at_ms, status, what, failure))

    def flaps(self) -> int:
        """Raises that were followed by an agent that left within its `idle_s`.

        An agent that was launched cannot have been idle for so long: another one of the fleet had
        been idle while capacity was added.
        """
        idle_s = self.plan.idle_s
        if idle_s is None:
            return 0
        return sum(
            any(when < left < when + idle_s for left in self.left_idle) for when, _ in self.raises
        )

    def reconcile(self) -> None:
        """Launch what is missing, or end what is too much; AWS chooses which."""
        missing = self.desired - self.size
        if missing > 0:
            self._launch(missing)
        elif missing < 0:
            for instance in self._clock.rng.sample(self.alive, -missing):
                self._scale_in(instance)

    def _launch(self, missing: int) -> None:
        world, plan = self.world, self.plan
        room = world.supply.instances - world.instances_alive()
        quota = world.supply.vcpus // plan.vcpus - world.instances_alive()
        possible = max(0, min(missing, room, quota))
        got = world.launches.take(self._clock.now, possible)
        if got < missing:
            world.usage.hold_up("EC2 launches")
            failure = NO_RATE if got < possible else NO_CAPACITY if room <= quota else NO_QUOTA
            self._tried(self._clock.now, failure)
            if not self._retry_planned:
                self._retry_planned = True
                self._clock.after(AGAIN_S, self._retry)
        spots = sum(each.spot for each in self.alive) if self.plan.spot_percent else 0
        for _ in range(got):
            spots += self._begin(spots)

    def _retry(self) -> None:
        self._retry_planned = False
        self.reconcile()

    def _begin(self, spots: int) -> bool:
        """Launch one, beside so many spot instances. Returns whether it is one."""
        world, plan, clock = self.world, self.plan, self._clock
        above = self.size - plan.on_demand_base
        spot = above >= 0 and spots < math.ceil((above + 1) * plan.spot_percent / 100)
        self.launched += 1
        world.launched.wait(clock.now)
        instance = Instance(f"i-{plan.name}-{self.launched:06d}", spot, clock.now)
        self.instances[instance.name] = instance
        self.most = max(self.most, len(self.instances))
        clock.after(RUNNING_S, self._enter, instance)
        clock.after(world.boot.draw(clock.rng.gauss(0, 1)), self._serve, instance)
        supply = world.supply
        if spot and supply.interruptions_per_h:
            clock.after(_next(self, supply.interruptions_per_h), self._interrupt, instance)
        if supply.deaths_per_h:
            clock.after(_next(self, supply.deaths_per_h), self._die, instance)
        if supply.cuts_per_h:
            clock.after(_next(self, supply.cuts_per_h), self._cut, instance)
        return spot

    def _enter(self, instance: Instance) -> None:
        if instance.phase is Phase.BOOTING:
            instance.phase = Phase.IN_SERVICE
            self._tried(instance.launched, None)

    def _serve(self, instance: Instance) -> None:
        """Read the descriptor from SSM, and start the agent."""
        wait_s = self.world.parameters.wait(self._clock.now)
        if wait_s > 0:
            self.world.usage.hold_up("SSM GetParameter")
        self._clock.after(wait_s, self._start, instance)

    def _start(self, instance: Instance) -> None:
        if instance.phase is Phase.IN_SERVICE:
            plan = self.plan
            instance.agent = Agent(self.world, instance.name, plan.name, plan.queues, plan.threads)
            self.world.agents[instance.name] = instance.agent

    # How instances end.

    def _scale_in(self, instance: Instance) -> None:
        """Auto Scaling ends an instance: the agent has a notice, and the hook waits for it."""
        agent = instance.agent
        self.busy_ended += agent is not None and bool(agent.attempts)
        self._mark(instance)
        if agent is None:
            self._end(instance)
        else:
            self._clock.after(self._clock.rng.uniform(0, POLL_S), self._drain, instance, DRAIN_S)

    def _drain(self, instance: Instance, limit_s: float) -> None:
        if instance.agent is not None:
            instance.agent.presence.drain(limit_s, lambda: self._leave(instance))

    def _leave(self, instance: Instance) -> None:
        if instance.agent is not None:
            self.world.goodbye(instance.agent)
        self._terminate(instance)

    def _terminate(self, instance: Instance) -> None:
        if instance.phase is not Phase.GONE:
            self._mark(instance)
            self._clock.after(EVENT_S, self._end, instance)

    def _mark(self, instance: Instance) -> None:
        """Count it as terminating."""
        self._ending += instance.phase is not Phase.TERMINATING
        instance.phase = Phase.TERMINATING

    def _end(self, instance: Instance) -> None:
        if instance.phase is Phase.GONE:
            return
        self._ending -= instance.phase is Phase.TERMINATING
        instance.phase = Phase.GONE
        del self.instances[instance.name]
        self._bill(instance)
        agent = self.world.agents.pop(instance.name, None)
        if agent is None:
            self.world.heartbeats.pop(instance.name, None)  # that it has no agent
        else:
            agent.lose()
            if instance.name in self.world.heartbeats:
                self._clock.after(EVENT_S, self.world.instance_ended, agent)
        self._clock.after(NOTICED_S, self.reconcile)

    def _bill(self, instance: Instance) -> None:
        seconds = max(LEAST_BILLED_S, self._clock.now - instance.launched)
        if instance.spot:
            self.spot_s += seconds
        else:
            self.on_demand_s += seconds

    def close(self) -> None:
        """Bill what still runs."""
        for instance in self.instances.values():
            self._bill(instance)

    def _interrupt(self, instance: Instance) -> None:
        """EC2 reclaims a spot instance: a notice, and its end two minutes later."""
        if instance.phase in {Phase.BOOTING, Phase.IN_SERVICE}:
            self.world.interruptions += 1
            limit_s = Notice(Kind.SPOT).drain_s(DRAIN_S)
            self._clock.after(self._clock.rng.uniform(0, POLL_S), self._drain, instance, limit_s)
            self._clock.after(SPOT_NOTICE_S, self._end, instance)

    def _die(self, instance: Instance) -> None:
        if instance.phase in {Phase.BOOTING, Phase.IN_SERVICE}:
            self.world.deaths += 1
            agent = instance.agent
            if agent is not None:
                agent.lose()
                self._clock.after(EVENT_S, self.world.instance_ended, agent)
                self.world.agents.pop(instance.name, None)
            self._clock.after(REPLACED_S, self._end, instance)

    def _cut(self, instance: Instance) -> None:
        if instance.phase is Phase.IN_SERVICE and instance.agent is not None:
            self.world.cut(instance.agent)


def _next(group: Group, per_h: float) -> float:
    return group.world.clock.rng.expovariate(per_h / 3600)
