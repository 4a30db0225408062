"""Polls of one agent, in virtual time."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any, TypeVar, cast

import pytest

from ec2_agent.aws_calls import direct
from ec2_agent.aws_calls.queues import Queues
from ec2_agent.lanes import intake
from ec2_agent.lanes.intake import FULL_PAUSE_S, LONG_POLL_S, Intake
from ec2_agent.lanes.polling import EMPTY_AFTER_S, LOW_EVERY
from ec2_agent.messages.delivery import Delivery
from joblane.aws.queue.lanes import LaneQueue, Received
from joblane.deployment.names import Lane
from joblane.job.message import Message
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.jobs import JOB, named
from tests.support.virtual_time import run

ANSWER_S = 0.1
"""How long SQS takes for a poll that finds a message."""


@dataclass
class Sqs:
    """Lanes by URL, of which some have messages without an end; notes when each is polled."""

    full: set[str]
    polled: list[tuple[str, float]] = field(default_factory=list)

    def at(self, url: str) -> Any:
        """The queue of a URL."""
        return Queue(self, url)


@dataclass
class Queue:
    """See `QueueCalls`."""

    sqs: Sqs
    url: str

    async def receive(self, most: int, wait_s: int) -> list[Received]:
        """Answer at once, or after the whole poll."""
        self.sqs.polled.append((self.url, asyncio.get_running_loop().time()))
        found = self.url in self.sqs.full
        await asyncio.sleep(ANSWER_S if found else wait_s)
        return [Received("{}", str(len(self.sqs.polled)), 1, 0)] * (most if found else 0)


class Desk:
    """Serves everything at once."""

    def receive(self, _: Delivery) -> bool:
        """See `intake.Desk`."""
        return True

    def serve(self) -> None:
        """See `intake.Desk`."""


def _polls_of(sqs: Sqs, lane: Lane, seconds: float) -> list[float]:
    """Poll for a while with one free slot in one queue; when a lane of it was polled."""

    async def work() -> None:
        loop, reading = asyncio.get_running_loop(), count()
        wanted = {"default": 1, "bulk": 0}

        def now() -> float:
            """As a clock does, it goes on from one reading to the next."""
            return loop.time() + next(reading) / 1e6

        polls = Intake(DESCRIPTOR, cast("Any", sqs.at), lambda: wanted, asyncio.Event(), now, now)

        running = asyncio.create_task(polls.run(Desk()))
        await asyncio.sleep(seconds)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run(work())
    return [at for url, at in sqs.polled if url == DESCRIPTOR.lane_url("default", lane)]


def test_a_lane_waits_once_for_a_higher_one_that_is_empty():
    """Until then it may have messages; after an empty answer, the next poll says nothing new."""
    sqs = Sqs({DESCRIPTOR.lane_url("default", "default")})
    polls = _polls_of(sqs, "default", 2.5 * LONG_POLL_S)
    pauses = {before: after - before for before, after in pairwise(polls)}
    assert polls[0] == pytest.approx(EMPTY_AFTER_S, abs=0.001)
    # In the first second each other lane is polled for the first time.
    assert max(pause for at, pause in pauses.items() if at > 1) < 1.5 * ANSWER_S
    assert 3 == len([url for url, _ in sqs.polled if url.endswith("high")])


def test_a_lane_that_has_brought_messages_is_waited_for_again():
    high = DESCRIPTOR.lane_url("default", "high")
    sqs = Sqs({DESCRIPTOR.lane_url("default", "default")})
    _polls_of(sqs, "default", LONG_POLL_S + 1)
    assert 2 == len([url for url, _ in sqs.polled if url == high])
    # The same lanes, and messages in the high one: no lower lane is polled but in its turn.
    sqs.full.add(high)
    sqs.polled.clear()
    polls = _polls_of(sqs, "default", 10.0)
    highs = [at for url, at in sqs.polled if url == high]
    assert len(highs) > 50
    assert len(polls) <= (len(highs) + len(polls)) / LOW_EVERY


T = TypeVar("T")

CALL_S = 0.01
"""How long a call takes in virtual time."""


async def in_a_moment(call: Callable[[], T], _name: str) -> T:
    """Make a call in place of a thread, for which virtual time would not wait."""
    await asyncio.sleep(CALL_S)
    return call()


class Crowd(Desk):
    """A desk of an agent where one tenant is at its limit."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def receive(self, delivery: Delivery) -> bool:
        """See `intake.Desk`."""
        self.seen.append(Message.decode(delivery.received.body).tenant)
        return self.seen[-1] == "other"


def test_jobs_of_a_tenant_at_its_limit_are_polled_for_seldom_and_lower_lanes_go_on(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
):
    """A hundred messages at the front of the high lane, and one of another tenant behind them."""
    monkeypatch.setattr(direct, "in_thread", in_a_moment)
    monkeypatch.setattr(intake, "LONG_POLL_S", 0)
    sqs = aws.clients.make("sqs")
    high = LaneQueue(sqs, DESCRIPTOR.lane_url("default", "high"))
    high.send_batch([(named(JOB), 0) for _ in range(100)])
    lane = LaneQueue(sqs, DESCRIPTOR.lane_url("default", "default"))
    lane.send(Message(job_id=JOB, tenant="other", lane="default/default"))
    desk = Crowd()

    async def work() -> None:
        loop, reading = asyncio.get_running_loop(), count()

        def now() -> float:
            """As a clock does, it goes on from one reading to the next."""
            return loop.time() + next(reading) / 1e6

        free = {"default": 1, "bulk": 0}
        polls = Intake(DESCRIPTOR, Queues(sqs).at, lambda: free, asyncio.Event(), now, now)
        running = asyncio.create_task(polls.run(desk))
        await asyncio.sleep(4 * FULL_PAUSE_S)
        await polls.stop()
        await running

    run(work())
    # One, and ten at a time once its lane is known to be crowded: a poll after each pause.
    assert ["acme", "other", *["acme"] * 30] == desk.seen
