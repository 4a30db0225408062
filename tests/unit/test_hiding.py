"""A job that waits on agents for months: SQS neither moves its message away nor deletes it.

The gates and `Flight` are the agent's; the lane counts receives and days as SQS does.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from ec2_agent.lanes.disposal import HELD_ELSEWHERE_S
from ec2_agent.lanes.lacking import LackingHost
from ec2_agent.lanes.memory import Memory, MemoryGate, hold_s
from ec2_agent.lanes.tenants import TenantGate
from ec2_agent.messages.delivery import Delivery
from ec2_agent.messages.flight import Flight
from ec2_agent.messages.hiding import INBOX_FULL, LACKING, TENANT_FULL, TOO_LARGE, Pauses
from joblane.aws.lanes import MAX_VISIBILITY_S, Received
from joblane.job.head import submitted
from joblane.job.message import Message
from joblane.queue.tenant_shares import Allowance
from tests.support.aws import Cloud
from tests.support.jobs import JOB, submission

if TYPE_CHECKING:
    from ec2_agent.aws_calls.queues import QueueCalls

DAY_S = 86_400
MAX_RECEIVES = 1000
"""Of a lane (tests/infra/test_lanes.py)."""

KEPT_S = 14 * DAY_S
"""How long SQS keeps a message at most."""

LANE, LETTERS = "https://sqs/lane", "https://sqs/dlq"


@dataclass
class Lane:
    """One message of a lane, and what SQS would do with it."""

    now: float = 1_800_000_000.0
    sent: float = 0.0
    visible: float = 0.0
    receives: int = 0
    copies: list[float] = field(default_factory=list)
    """When a message that was sent anew is visible."""
    is_there: bool = True

    def __post_init__(self) -> None:
        self.sent = self.visible = self.now

    def receive(self) -> Received:
        """Receive the message as soon as it is visible."""
        if not self.is_there:
            (self.visible,) = self.copies
            self.sent, self.receives, self.is_there = self.now, 0, True
            self.copies.clear()
        self.now = max(self.now, self.visible)
        self.receives += 1
        assert self.receives <= MAX_RECEIVES, "SQS moves it to the dead letters"
        assert self.now - self.sent < KEPT_S, "SQS has deleted it"
        body = Message(job_id=JOB, tenant="acme").encode()
        return Received(body, f"r{self.receives}", self.receives, int(self.sent * 1000))

    async def hide(self, _receipt: str, seconds: int) -> None:
        """Make it visible later."""
        assert 0 <= seconds <= MAX_VISIBILITY_S
        self.visible = self.now + seconds

    async def send_again(self, _received: Received, delay_s: int) -> None:
        """Take a copy in."""
        self.copies.append(self.now + delay_s)

    async def delete(self, _receipt: str) -> None:
        """Delete it."""
        self.is_there = False


class Agent:
    """The gates of an agent that never runs the job."""

    def __init__(self, aws: Cloud) -> None:
        aws.jobs.put_new(submitted(JOB, "acme", submission(), 1000))
        self.lane = Lane()
        queue = cast("QueueCalls", self.lane)
        self.flight = flight = Flight(lambda: self.lane.now, lambda _url: queue)
        self.memory = Memory(256, 256)
        self.memory_gate = MemoryGate("a", self.memory, aws.jobs, flight)
        self.lacking = LackingHost(flight, lambda: self.lane.now)
        self.tenants = TenantGate("a", lambda _: Allowance(1, 0), aws.jobs, flight)

    async def wait_for_memory(self, delivery: Delivery) -> None:
        """Hold the message for as long as the gate does, in no time."""

        async def passes(seconds: float) -> bool:
            self.lane.now += seconds
            return False

        cast("Any", self.memory).wait = passes
        self.memory.free_mb = -1
        assert not await self.memory_gate.enter(delivery)

    async def runs_elsewhere(self, delivery: Delivery) -> None:
        """Another agent runs the job."""
        await self.flight.give_back(delivery, HELD_ELSEWHERE_S)


WAYS: dict[str, Callable[[Agent], Callable[[Delivery], Awaitable[None]]]] = {
    "too large for this agent": lambda agent: agent.memory_gate.pass_on,
    "waits for memory": lambda agent: agent.wait_for_memory,
    "the host lacks a limit": lambda agent: agent.lacking.pass_on,
    "the tenant has no share": lambda agent: agent.tenants.wait,
    "another agent runs it": lambda agent: agent.runs_elsewhere,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_message_outlives_sixty_days_of_waiting(
    aws: Cloud, way: Callable[[Agent], Callable[[Delivery], Awaitable[None]]]
):
    agent = Agent(aws)
    lane, wait = agent.lane, way(agent)
    end = lane.now + 60 * DAY_S

    async def live() -> int:
        received = 0
        while lane.now < end:
            await wait(Delivery("default", LANE, LETTERS, lane.receive(), lane.now))
            received += 1
        return received

    assert asyncio.run(live()) >= 60 * DAY_S / hold_s(1000)


def test_a_message_of_an_inbox_is_not_sent_anew(aws: Cloud):
    """Agents may not send to inboxes."""
    agent = Agent(aws)
    worn = replace(agent.lane.receive(), receives=MAX_RECEIVES)
    asyncio.run(agent.flight.give_back(Delivery("default", LANE, None, worn, 0.0), 5))
    assert (True, []) == (agent.lane.is_there, agent.lane.copies)


@pytest.mark.parametrize(
    "error",
    [
        EndpointConnectionError(endpoint_url=LANE),
        ClientError({"Error": {"Code": "InvalidParameterValue"}}, "SendMessage"),
    ],
    ids=["no answer", "refused for good"],
)
def test_a_worn_message_that_cannot_be_sent_anew_is_hidden_and_tried_again(
    aws: Cloud, error: Exception
):
    agent = Agent(aws)
    worn = replace(agent.lane.receive(), receives=MAX_RECEIVES - 1)

    async def refuse(_received: Received, _delay_s: int) -> None:
        raise error

    async def live() -> None:
        await agent.flight.give_back(Delivery("default", LANE, LETTERS, worn, 0.0), 5)
        await agent.flight.give_back_owed()

    cast("Any", agent.lane).send_again = refuse
    asyncio.run(live())
    assert (True, 5.0) == (agent.lane.is_there, agent.lane.visible - agent.lane.now)


@pytest.mark.parametrize("pauses", [TOO_LARGE, LACKING, TENANT_FULL, INBOX_FULL])
def test_pauses_grow_to_their_bound(pauses: Pauses):
    found = [pauses.after(receives) for receives in range(1, 1000)]
    assert sorted(found) == found
    assert (pauses.first_s, pauses.longest_s) == (found[0], found[-1])
