"""A fleet in virtual time: its Auto Scaling group, the scaler, and the agents of its instances.

The group is a stand-in, read and written by the adapters of the scaler: all of its instances are
protected from scale-in, boot for a while, and wait for their lifecycle action before they end; it
refuses to become smaller than its smallest size. Scaler and agents decide as they do on AWS.
"""

import asyncio
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from botocore.config import Config

from functions.scaler.handler import Settings, build
from joblane.aws.clients import QUICK, Clients
from joblane.deployment.names import fleet_name
from joblane.fleet.idle import LeavingPolicy
from joblane.service.fleet.scaler import Scaler
from joblane.testing.inline import Inline
from tests.support.aws import FUNCTION_ENVIRONMENT, NAME
from tests.support.departing import POLICY, Process
from tests.support.leaving_instance import Instance, SharedFleet, refusal
from tests.support.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Callable

GROUP = fleet_name(NAME, "main")
SLOTS = 4
"""Jobs that an agent of `tests.support.departing` runs at once."""
BOOT_S = 60.0
"""From the launch of an instance to the first heartbeat of its agent."""
LOOK_S = 5.0
"""How often new instances are looked for, and it is checked that those with jobs are there."""
LUCK = 0.1
"""How often an agent's look at a lane, each half a second, finds a message."""


class Group:
    """As much of a client of Auto Scaling as is used of it, with one group."""

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most, self._desired = least, most, 0
        self._launched = 0
        self._instances: list[str] = []
        self.set_desired_capacity(DesiredCapacity=least)

    def set_desired_capacity(self, *, DesiredCapacity: int, **_: Any) -> None:  # noqa: N803
        """Launch what is missing; of what is too much, all is protected."""
        self._desired = DesiredCapacity
        for _number in range(self._desired - len(self._instances)):
            self._launched += 1
            self._instances.append(f"i-{self._launched:017x}")

    def terminate_instance_in_auto_scaling_group(
        self,
        *,
        InstanceId: str,  # noqa: N803
        ShouldDecrementDesiredCapacity: bool,  # noqa: N803
    ) -> None:
        """End an instance, in whose place another one is launched or not."""
        self._instances.remove(InstanceId)
        self.set_desired_capacity(DesiredCapacity=self._desired - ShouldDecrementDesiredCapacity)

    def describe_auto_scaling_groups(self, **_: Any) -> dict[str, Any]:
        """Read the group."""
        instances = [
            {"InstanceId": each, "LifecycleState": "InService"} for each in self._instances
        ]
        group = {
            "AutoScalingGroupName": GROUP,
            "MinSize": self._least,
            "MaxSize": self._most,
            "DesiredCapacity": self._desired,
            "Instances": instances,
        }
        return {"AutoScalingGroups": [group]}


class Member(Instance):
    """An instance of the group."""

    def __init__(self, fleet: "LivingFleet", name: str) -> None:
        super().__init__(fleet.directory / name, name, fleet.shared)
        self._group = fleet
        self.run_s = fleet.run_s

    def gets(self) -> bool:
        """Messages spread over all agents that poll, whoever asks first."""
        return self._group.random.random() < LUCK

    def terminate_instance_in_auto_scaling_group(self, **request: Any) -> None:
        """End the instance, unless the group would be too small."""
        group = self._group.group()
        decrement = request["ShouldDecrementDesiredCapacity"]
        self.requests.append(decrement)
        if decrement and group["DesiredCapacity"] <= group["MinSize"]:
            raise refusal("Currently, desiredSize equals minSize.")
        assert not self.running, "an instance with jobs ends"

        def end() -> None:
            self._group.autoscaling.terminate_instance_in_auto_scaling_group(**request)

        self._group.while_one_leaves(end)
        self.terminating_at = self.now()


class LivingFleet:
    """A fleet whose scaler is called every minute; see the module."""

    def __init__(
        self,
        directory: Path,
        *,
        least: int = 0,
        most: int = 12,
        run_s: float = 30.0,
        policy: LeavingPolicy = POLICY,
    ) -> None:
        self.directory, self.run_s, self._policy = directory, run_s, policy
        self.autoscaling = Group(least, most)
        self.shared = SharedFleet(Memory(Instance.now).cloud())
        self.members: dict[str, Member] = {}
        """All instances that there ever were."""
        self.random = random.Random(17)
        self.raised: list[int] = []
        """Desired capacities that the scaler has set."""
        self.done: Counter[str] = Counter()
        """What the scaler's calls have returned."""
        self.while_one_leaves: Callable[[Callable[[], None]], None] = lambda end: end()
        """What happens while a group answers an agent's request; it must call `end` once."""
        self.between: Callable[[], None] | None = None
        """What happens next between two reads of a call of the scaler."""
        self.scaler = self._scaler(policy)

    # What is seen.

    def group(self) -> Any:
        """The group, as Auto Scaling describes it."""
        answer = self.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[GROUP])
        return answer["AutoScalingGroups"][0]

    @property
    def size(self) -> tuple[int, int]:
        """The desired capacity, and how many instances there are."""
        group = self.group()
        return group["DesiredCapacity"], len(group["Instances"])

    @property
    def jobs_left(self) -> int:
        """Jobs that have not ended."""
        return len(self.shared.messages)

    def check_each_job_ran_once(self) -> None:
        """No job was lost, and none was started twice."""
        once = dict.fromkeys(self.shared.sent, 1)
        assert (once, once) == (self.shared.started, self.shared.ended)

    # What happens.

    def submit(self, count: int) -> None:
        """Submit jobs, and kick the scaler, as projector does."""
        for _ in range(count):
            self.shared.submit()
        self.size_fleets(kicked=True)

    def size_fleets(self, *, kicked: bool = False) -> None:
        """Call the scaler."""
        self.done += self.scaler.run(kicked=kicked)

    async def live(self) -> None:
        """Boot instances, and call the scaler every minute, until cancelled."""
        watched: list[asyncio.Task[Any]] = []
        try:
            async with asyncio.TaskGroup() as tasks:
                watched.append(tasks.create_task(self._minutes()))
                while True:
                    self._look(tasks)
                    await asyncio.sleep(LOOK_S)
        finally:
            for member in self.members.values():
                member.killed.set()

    async def _minutes(self) -> None:
        while True:
            await asyncio.sleep(60)
            self.size_fleets()

    def _look(self, tasks: asyncio.TaskGroup) -> None:
        """Boot what is new, and check that what has jobs is there."""
        there = [each["InstanceId"] for each in self.group()["Instances"]]
        for name in there:
            if name not in self.members:
                self.members[name] = Member(self, name)
                tasks.create_task(self._serve(self.members[name]))
        for name, member in self.members.items():
            assert name in there or not member.running, "an instance with jobs is gone"

    async def _serve(self, member: Member) -> None:
        await asyncio.sleep(BOOT_S)
        process = Process(member, self._policy, "main")
        await process.parts.limits.begin()
        await process.live()

    # The scaler.

    def _scaler(self, policy: LeavingPolicy) -> Scaler:
        plan = f'[{{"name": "main", "queues": ["default"], "slots": {SLOTS}, "idle_s": '
        plan += f"{'null' if policy.idle_s is None else int(policy.idle_s)}}}]"
        environment = FUNCTION_ENVIRONMENT | {"JOBLANE_FLEET_PLANS": plan}
        made = build(Settings.model_validate(environment), _Two(self), Instance.now, pool=Inline)
        sources = replace(made.sources, lanes=_Lanes(self))  # type: ignore[arg-type]
        return replace(made, sources=sources)

    def describe_auto_scaling_groups(self, **request: Any) -> Any:
        """Read groups, as the scaler's client; then `between` happens."""
        answer = self.autoscaling.describe_auto_scaling_groups(**request)
        if self.between is not None:
            self.between()
            self.between = None
        return answer

    def describe_scaling_activities(self, **_: Any) -> Any:
        """Read the activities: nothing fails here."""
        return {"Activities": []}

    def set_desired_capacity(self, **request: Any) -> None:
        """Set the desired capacity, as the scaler's client."""
        self.raised.append(request["DesiredCapacity"])
        self.autoscaling.set_desired_capacity(**request)


class _Two(Clients):
    """Clients of the AWS in memory, but for Auto Scaling."""

    def __init__(self, fleet: LivingFleet) -> None:
        self._fleet = fleet

    def make(self, service: Any, config: Config = QUICK) -> Any:
        """Make a client."""
        made = self._fleet.shared.cloud.clients
        return self._fleet if service == "autoscaling" else made.make(service, config)


class _Lanes:
    """The lengths of lanes: only the lane `default` of the queue `default` has messages."""

    def __init__(self, fleet: LivingFleet) -> None:
        self._fleet = fleet

    def lane(self, _queue: str, lane: str) -> Any:
        """A lane whose length is read."""
        now, messages = Instance.now(), self._fleet.shared.messages.values()
        visible = sum(message.visible_at <= now for message in messages)
        return SimpleNamespace(
            lengths=lambda: SimpleNamespace(visible=visible if lane == "default" else 0)
        )
