"""Target tracking on the backlog per instance, which AWS documents for SQS: what to compare with.

A function publishes the metric each minute, CloudWatch has it a minute later, an alarm needs three
data points above the target to scale out and fifteen below 90 % of it to scale in. Auto Scaling
chooses which instances it ends; a job on one of them has the drain of its agent. Scale-in
protection, which AWS recommends for long jobs, is not modelled: the group could not scale in while
a job runs anywhere, because the agent would have to set it, job by job.

https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-using-sqs-queue.html
https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-scaling-target-tracking.html
"""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from joblane.deployment.names import LANES
from joblane.state.lifecycle import State
from scripts.simulation.fleet import Group
from scripts.simulation.job import Job
from scripts.simulation.lane import Unavailable
from scripts.simulation.scaling import MINUTE_S

if TYPE_CHECKING:
    from scripts.simulation.world import World

LATE_S = 60.0
"""From the measurement to an alarm that has it. Assumed: metrics are a minute late."""

OUT_POINTS, IN_POINTS = 3, 15
"""Data points, a minute each, of the alarms that target tracking creates."""

IN_BELOW = 0.9
"""The alarm for scale-in is 10 % below the target."""

IN_STEP = 0.1
"""Scale-in ends at most this part of the group a minute, at least one. Assumed: AWS says that it
is more gradual than scale-out, and does not publish how."""

WARM_UP_S = 300.0
"""Instance warm-up, AWS's default: no scale-in while an instance is younger."""


@dataclass(eq=False)
class Policy:
    """The policy of one group."""

    group: Group
    points: deque[float | None] = field(default_factory=lambda: deque(maxlen=IN_POINTS))


@dataclass(eq=False)
class TargetTracking:
    """A policy of each fleet's group, all of the same metric.

    Fleets that serve the same queues share a backlog, so the metric is the messages over the
    instances of all groups: each group is then as far from its target as the others.
    """

    world: "World"
    target: float
    """Messages per instance: the accepted wait over the mean run time, times its slots."""
    protects: bool = False

    def begin(self) -> None:
        """Publish each minute. A group of target tracking cannot leave 0: it keeps an instance."""
        self._policies = [Policy(group) for group in self.world.groups.values()]
        for group in self.world.groups.values():
            if group.plan.min_size == 0 and group.desired == 0:
                group.set_desired(1)
        self.world.clock.after(self.world.clock.rng.uniform(0, MINUTE_S), self._publish)

    def changed(self, job: Job, before: State | None) -> None:
        """Nothing: only the metric is looked at."""

    def _publish(self) -> None:
        world = self.world
        world.clock.after(MINUTE_S, self._publish)
        world.usage.lambda_calls += 1
        world.usage.lambda_s += 1
        try:
            backlog = sum(
                world.lanes[name, lane].length() for name in world.settings for lane in LANES
            )
        except Unavailable:
            value = None
        else:
            serving = sum(len(group.in_service()) for group in world.groups.values())
            value = backlog / max(1, serving)
        world.clock.after(LATE_S, self._evaluate, value)

    def _evaluate(self, value: float | None) -> None:
        for policy in self._policies:
            policy.points.append(value)
            if value is not None:
                self._apply(policy, value)

    def _apply(self, policy: Policy, value: float) -> None:
        group, points = policy.group, policy.points
        recent = list(points)[-OUT_POINTS:]
        serving = max(1, len(group.in_service()))
        if len(recent) == OUT_POINTS and all(p is not None and p > self.target for p in recent):
            wanted = min(group.plan.max_size, math.ceil(serving * value / self.target))
            if wanted > group.desired:
                group.set_desired(wanted)
        elif len(points) == IN_POINTS and all(
            p is not None and p < IN_BELOW * self.target for p in points
        ):
            self._scale_in(group, value)

    def _scale_in(self, group: Group, value: float) -> None:
        now = self.world.clock.now
        if any(now - instance.launched < WARM_UP_S for instance in group.alive):
            return
        wanted = math.ceil(len(group.in_service()) * value / self.target)
        step = max(1, int(group.desired * IN_STEP))
        least = max(1, group.plan.min_size)
        desired = max(least, wanted, group.desired - step)
        if desired < group.desired:
            group.set_desired(desired)
