"""A job that waits on agents for months: SQS neither moves its message away nor deletes it.

Desk and `Flight` are the agent's; the lane counts receives and days as SQS does.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from ec2_agent.core import Clocks
from ec2_agent.messages.delivery import Delivery
from ec2_agent.messages.hiding import INBOX_FULL, LACKING, TENANT_FULL, TOO_LARGE, Pauses
from ec2_agent.serving.gates import LONGEST_HOLD_S
from ec2_agent.serving.waiting_room import FOREVER
from joblane.aws.queue.lanes import MAX_VISIBILITY_S, Received
from joblane.job.head import make_head
from joblane.job.message import Message
from joblane.queue.tenant_shares import Allowance
from joblane.service.job.disposal import HELD_ELSEWHERE_S
from tests.support.agents import settings
from tests.support.aws import Cloud
from tests.support.depth import budget
from tests.support.jobs import JOB, submission
from tests.support.serving import ServingCore

if TYPE_CHECKING:
    from ec2_agent.aws_calls.queues import QueueCalls
    from ec2_agent.serving.desk import Runner

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
        body = Message(job_id=JOB, tenant="acme", memory_mb=768, lane="default/default").encode()
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


class Agent(ServingCore):
    """An agent that never runs the job."""

    def __init__(self, aws: Cloud, directory: Path) -> None:
        aws.jobs.put_new(make_head(JOB, "acme", submission(), 1000))
        self.lane = Lane()
        queue = cast("QueueCalls", self.lane)

        def now() -> float:
            return self.lane.now

        super().__init__(
            replace(settings(), directory=directory),
            aws.clients,
            cast("Runner", None),
            clocks=Clocks(now, now, lambda: 0.0),
            memory_mb=1280,
            queue_at=lambda _url: queue,
        )
        asyncio.run(self.limits.begin())

    def receive(self) -> Delivery:
        """Receive the message from its lane."""
        return Delivery("default", LANE, LETTERS, self.lane.receive(), self.lane.now)

    async def serve(self) -> None:
        """Receive the message, and wait until it is given back; in no time, as far as it waits."""
        self.desk.receive(self.receive())
        while len(self.desk.room):
            (waiting,) = self.desk.room.in_order()
            assert waiting.look_at < FOREVER, "it is held for ever"
            self.lane.now = max(self.lane.now, waiting.look_at)
            self.desk.look()
            await self.desk.tasks.done()
        await self.desk.tasks.done()


def is_too_large(agent: Agent) -> None:
    agent.slots.memory.most_mb = 256


def waits_for_memory(agent: Agent) -> None:
    agent.slots.take_more(768)


def lacks_a_limit(agent: Agent) -> None:
    agent.lacking.remember(JOB)


def has_no_share(agent: Agent) -> None:
    agent.limits.of_tenant = lambda _: Allowance(1, 0)  # type: ignore[method-assign, assignment]


def runs_elsewhere(agent: Agent) -> None:
    async def claim(delivery: Delivery) -> None:
        await agent.flight.give_back(delivery, HELD_ELSEWHERE_S)

    agent.desk.claimer.claim = claim  # type: ignore[method-assign]


DAYS = budget(20, 60)
"""More than SQS keeps a message."""
WAYS = dict.fromkeys((is_too_large, waits_for_memory, lacks_a_limit, has_no_share), DAYS)
WAYS |= {runs_elsewhere: budget(2, 12)}  # received every minute: replaced 5 times by then, or 34


@pytest.mark.parametrize(
    ("way", "days"), WAYS.items(), ids=lambda way: getattr(way, "__name__", "")
)
def test_a_message_outlives_weeks_of_waiting(
    aws: Cloud, tmp_path: Path, way: Callable[[Agent], None], days: int
):
    agent = Agent(aws, tmp_path)
    way(agent)
    end = agent.lane.now + days * DAY_S

    async def live() -> int:
        received = 0
        while agent.lane.now < end:
            await agent.serve()
            received += 1
        return received

    assert asyncio.run(live()) >= days * DAY_S / LONGEST_HOLD_S


def test_a_message_of_an_inbox_is_not_sent_anew(aws: Cloud, tmp_path: Path):
    """Agents may not send to inboxes."""
    agent = Agent(aws, tmp_path)
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
    aws: Cloud, tmp_path: Path, error: Exception
):
    agent = Agent(aws, tmp_path)
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
