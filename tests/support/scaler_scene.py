"""A deployment with fleets and its scaler, with a stand-in for Auto Scaling."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from functions.scaler.handler import Settings, build
from joblane.aws.errors import AwsRefused
from joblane.aws.metrics import Metrics
from joblane.deployment.names import fleet_name, lane_name
from joblane.fleet.capacity import GroupState
from tests.support.aws import FUNCTION_ENVIRONMENT, NAME, PREFIX, Cloud
from tests.support.fleet import heartbeat

if TYPE_CHECKING:
    from joblane.aws.fleet.auto_scaling import ScalingActivity
    from joblane.fleet.record import FleetRecord
    from joblane.service.fleet.scaler import Scaler

MINUTE = 60.0
GROUP = fleet_name(NAME, "main")


@dataclass
class FakeGroups:
    """Auto Scaling."""

    groups: dict[str, GroupState]
    tried: "list[ScalingActivity]" = field(default_factory=list)
    fails: str | None = None
    sets: list[int] = field(default_factory=list)
    reads: int = 0
    between: Callable[[], None] = lambda: None
    """Called before the second read of a call."""

    def states(self, names: Sequence[str]) -> dict[str, GroupState]:
        """DescribeAutoScalingGroups."""
        self._fail("states")
        self.reads += 1
        if self.reads == 2:
            self.between()
        return {name: self.groups[name] for name in names if name in self.groups}

    def activities(self, name: str, _most: int) -> "list[ScalingActivity]":
        """DescribeScalingActivities."""
        self._fail("activities")
        self._fail(f"activities of {name}")
        return self.tried

    def set_desired(self, name: str, desired: int) -> None:
        """SetDesiredCapacity."""
        self._fail("set_desired")
        self.sets.append(desired)
        self.groups[name] = replace(self.groups[name], desired=desired)

    def _fail(self, operation: str) -> None:
        if operation == self.fails:
            raise AwsRefused(
                {"Error": {"Code": "AccessDenied", "Message": "not allowed"}}, operation
            )


class Scene:
    """A deployment, and its scaler."""

    def __init__(self, aws: Cloud, plans: Sequence[dict[str, Any]] = ()) -> None:
        """`plans`: its fleets in place of the fleet main, each with a group without instances."""
        self.aws, self.now = aws, 1_800_000_000.0
        self.lines: list[dict[str, Any]] = []
        names = [fleet_name(NAME, plan["name"]) for plan in plans] or [GROUP]
        self.groups = FakeGroups({name: GroupState(0, 10, 0) for name in names})
        environment = dict(FUNCTION_ENVIRONMENT)
        if plans:
            environment["JOBLANE_FLEET_PLANS"] = json.dumps(plans)
        made = build(Settings.model_validate(environment), aws.clients, lambda: self.now)
        metrics = Metrics(True, lambda line: self.lines.append(json.loads(line)))
        sources = replace(made.sources, groups=self.groups)  # type: ignore[arg-type]
        self.scaler: Scaler = replace(made, sources=sources, metrics=metrics)

    @property
    def now_ms(self) -> int:
        """Unix milliseconds."""
        return int(self.now * 1000)

    def submit(self, count: int, queue: str = "default") -> None:
        """Put messages into a lane."""
        url = PREFIX + lane_name(NAME, queue, "default")
        for _ in range(count):
            self.aws.clients.make("sqs").send_message(QueueUrl=url, MessageBody="{}")

    def serve(self, *running: int, threads: int = 8, fleet: str = "main") -> None:
        """Have a group's instances in service, each with an agent with so many jobs."""
        group = fleet_name(NAME, fleet)
        names = [f"i-{n}" for n in range(len(running))]
        before = self.groups.groups[group]
        self.groups.groups[group] = replace(
            before, desired=len(names), instances=dict.fromkeys(names, "InService")
        )
        for name, count in zip(names, running, strict=True):
            old = self.aws.agents.get(name)
            self.aws.agents.beat(
                heartbeat(
                    name,
                    self.now_ms,
                    threads=threads,
                    running=count,
                    left=threads - count,
                    taken={"default": count},
                    surplus_ms=None if old is None else old.surplus_ms,
                )
            )

    def run(self, *, kicked: bool = False) -> Counter[str]:
        """Call it once."""
        self.groups.reads = 0
        return self.scaler.run(kicked=kicked)

    def record(self, fleet: str = "main") -> "FleetRecord":
        """What it stored."""
        found = self.scaler.sources.records.read(fleet)
        assert found is not None
        return found

    def surplus(self) -> list[str]:
        """Agents that are named."""
        return [row.name for row in self.aws.agents.read_all() if row.surplus_ms is not None]
