"""AWS and an instance of a fleet of one, in virtual time: what outlives the processes of its agent.

The lane and the Auto Scaling group are stand-ins. Each call of the agent to one of them is counted,
and the agent can be killed after any of them.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, ConnectTimeoutError

from joblane.aws.queue.lanes import VISIBILITY_S, Received
from joblane.job.head import make_head
from tests.support.aws import DESCRIPTOR, NAME, Cloud
from tests.support.jobs import named, submission
from tests.support.memory import Memory as CloudInMemory

if TYPE_CHECKING:
    from joblane.state.lease import Heartbeat

INSTANCE = "i-0123456789abcdef0"
RUN_S = 3.0
"""Seconds of a job."""
EARLY_S = 5.0
"""From the request to end an instance until its lifecycle action is active."""


class Killed(BaseException):
    """SIGKILL, as far as the agent's code can tell."""


@dataclass
class _Message:
    body: str
    visible_at: float = 0.0
    receives: int = 0
    receipt: str = ""


@dataclass
class SharedFleet:
    """What all instances of a fleet share."""

    cloud: Cloud
    messages: dict[str, _Message] = field(default_factory=dict)
    """Messages of the lane, by their jobs."""
    started: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    sent: list[str] = field(default_factory=list)

    def submit(self) -> str:
        """Send the message of a new job. Returns the job's id."""
        job_id = f"01JABCDEFGHJKMNPQRSTVW{len(self.sent) + 1:04d}"
        self.sent.append(job_id)
        now_ms = int(Instance.now() * 1000)
        self.cloud.jobs.put_new(make_head(job_id, "acme", submission(), now_ms))
        message = named(job_id)
        self.messages[job_id] = _Message(message.encode())
        return job_id


class Instance:
    """What outlives the processes of the agent: AWS, and the instance's directory.

    `fleet`: what instances of one fleet share; a fleet of one by default.
    """

    def __init__(
        self, directory: Path, name: str = INSTANCE, fleet: "SharedFleet | None" = None
    ) -> None:
        (directory / "jobs").mkdir(parents=True)
        self.name = name
        self.directory = directory
        shared = SharedFleet(CloudInMemory(self.now).cloud()) if fleet is None else fleet
        self.cloud, self.agents = shared.cloud, shared.cloud.agents
        self.messages, self.started, self.ended = shared.messages, shared.started, shared.ended
        self._fleet = shared
        self.run_s = RUN_S
        self.running: set[str] = set()
        """Jobs that its agent's process runs."""
        self.calls = 0
        self.kill_after = 10**9
        """The agent is killed after so many calls."""
        self.killed = asyncio.Event()
        self.lanes_down = False
        self._readings = 0
        # The group.
        self.smallest = 0
        self.desired = 1
        self.requests: list[bool] = []
        """`ShouldDecrementDesiredCapacity` of each request to end the instance."""
        self.fails: list[Exception] = []
        """What the next requests raise; of a timeout, after they have had their effect."""
        self.terminating_at: float | None = None
        self.terminated = False
        self.completions = 0

    @staticmethod
    def now() -> float:
        """Seconds of virtual time."""
        return asyncio.get_running_loop().time()

    def monotonic(self) -> float:
        """The same, but each reading takes a moment: what rounding has left of a wait passes."""
        self._readings += 1
        return self.now() + self._readings * 1e-7

    def call(self) -> None:
        """Count a call, and kill the agent after the last one that it may make."""
        if self.killed.is_set():
            raise Killed
        self.calls += 1

    def answered(self) -> None:
        """Kill the agent once the last call that it may make has had its effect."""
        if self.calls >= self.kill_after:
            self.killed.set()
            raise Killed

    def submit(self) -> str:
        """Send the message of a new job. Returns the job's id."""
        return self._fleet.submit()

    @property
    def row(self) -> "Heartbeat | None":
        """The agent's row."""
        return self.agents.get(self.name)

    def gets(self) -> bool:
        """Whether a look at the lane finds a message that is visible."""
        return True

    # As a client of Auto Scaling.

    def terminate_instance_in_auto_scaling_group(self, **request: Any) -> None:
        """End the instance, unless the group would be too small."""
        assert self.name == request["InstanceId"]
        self.call()
        decrement = request["ShouldDecrementDesiredCapacity"]
        self.requests.append(decrement)
        error = self.fails.pop(0) if self.fails else None
        if error is None or isinstance(error, ConnectTimeoutError):
            if decrement and self.desired <= self.smallest:
                error = refusal("Currently, desiredSize equals minSize (1).")
            elif self.terminating_at is None:
                self.terminating_at = self.now()
                self.desired -= decrement
        self.answered()
        if error is not None:
            raise error

    def complete_lifecycle_action(self, **request: Any) -> None:
        """End the wait for the agent, once the action is active."""
        assert (self.name, "joblane-leaving", "CONTINUE", f"{NAME}-main") == (
            request["InstanceId"],
            request["LifecycleHookName"],
            request["LifecycleActionResult"],
            request["AutoScalingGroupName"],
        )
        self.call()
        self.completions += 1
        early = self.terminating_at is None or self.now() < self.terminating_at + EARLY_S
        self.terminated |= not early
        self.answered()
        if early:
            raise refusal("No active Lifecycle Action found with instance ID")


def refusal(message: str, code: str = "ValidationError", status: int = 400) -> ClientError:
    """An error of Auto Scaling."""
    return ClientError(
        {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {
                "HTTPStatusCode": status,
                "RequestId": "",
                "HTTPHeaders": {},
                "RetryAttempts": 0,
                "HostId": "",
            },
        },
        "TerminateInstanceInAutoScalingGroup",
    )


class Lane:
    """The lane `default` of the queue `default`: as much of `QueueCalls` as is used here."""

    def __init__(self, instance: Instance, url: str) -> None:
        self.url = url
        self._instance = instance
        self._serves = url == DESCRIPTOR.lane_url("default", "default")

    async def receive(self, most: int, wait_s: int) -> list[Received]:
        """Poll for `wait_s`."""
        until = Instance.now() + wait_s
        while True:
            if self._instance.killed.is_set():
                raise Killed
            if self._instance.lanes_down:
                await asyncio.sleep(1)
                raise ConnectTimeoutError(endpoint_url=self.url)
            if self._serves and (found := self._visible(most)):
                return found
            if Instance.now() >= until:
                return []
            await asyncio.sleep(0.5 if self._serves else 5)  # nothing comes to other lanes

    def _visible(self, most: int) -> list[Received]:
        now, messages = Instance.now(), self._instance.messages
        found: list[Received] = []
        for job_id, message in messages.items():
            visible = message.visible_at <= now and len(found) < most
            if visible and self._instance.gets():
                self._instance.call()
                message.visible_at = now + VISIBILITY_S
                message.receives += 1
                message.receipt = f"{job_id}/{message.receives}"
                found.append(Received(message.body, message.receipt, message.receives, 0))
                self._instance.answered()
        return found

    async def hide(self, receipt: str, seconds: int) -> None:
        """Make a message visible again."""
        self._instance.call()
        for message in self._instance.messages.values():
            if message.receipt == receipt:
                message.visible_at = Instance.now() + seconds
        self._instance.answered()

    async def delete(self, receipt: str) -> None:
        """Delete a message."""
        self._instance.call()
        self._instance.messages.pop(receipt.partition("/")[0], None)
        self._instance.answered()

    async def extend(self, receipts: Sequence[str]) -> list[str]:
        """Keep messages invisible."""
        for message in self._instance.messages.values():
            if message.receipt in receipts:
                message.visible_at = Instance.now() + VISIBILITY_S
        return []
