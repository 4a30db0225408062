"""Messages in flight: kept hidden one by one, replaced before SQS would show them to others."""

import asyncio
from collections.abc import Sequence
from itertools import count

import pytest
from botocore.exceptions import EndpointConnectionError

from ec2_agent.aws_calls.queues import QueueCalls
from ec2_agent.messages.delivery import Delivery
from ec2_agent.messages.flight import HELD_S, Flight
from ec2_agent.retry import AWS_RETRY, Backoff
from joblane.aws.queue.lanes import VISIBILITY_S, LaneQueue, Received
from joblane.job.message import Message
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.jobs import JOB, named


class Sky:
    """A lane with messages in flight, a clock, and trouble on demand."""

    def __init__(self, aws: Cloud) -> None:
        self.sqs = aws.clients.make("sqs")
        self.now = 1000.0
        self.lanes: type[LaneQueue] = LaneQueue
        self.pauses = 0
        self.flight = Flight(
            lambda: self.now,
            lambda url: QueueCalls(self.lanes(self.sqs, url)),
            lambda: Backoff(AWS_RETRY, self.sleep),
        )
        self.lane = LaneQueue(self.sqs, DESCRIPTOR.lane_url("default", "default"))
        self.dead = LaneQueue(self.sqs, DESCRIPTOR.dead_letter_url)

    def hold(self, number: int = 1) -> list[Delivery]:
        """Receive so many messages."""
        for _ in range(number):
            self.lane.send(named(JOB))
        held: list[Delivery] = []
        while len(held) < number:
            for received in self.lane.receive(10, 0):
                held.append(Delivery("default", self.lane.url, self.dead.url, received, self.now))
                self.flight.add(held[-1])
        return held

    async def sleep(self, _: float) -> None:
        """Pause between two tries: a second goes by."""
        self.pauses += 1
        self.now += 1

    def counts(self) -> tuple[int, int, int]:
        """Messages that are visible, in flight and delayed."""
        lengths = self.lane.lengths()
        return lengths.visible, lengths.in_flight, lengths.delayed


@pytest.fixture(name="sky")
def _sky(aws: Cloud) -> Sky:
    return Sky(aws)


def test_one_request_that_fails_lets_no_other_message_lapse(sky: Sky):
    sky.hold(25)
    extended: list[int] = []
    requests = count()

    class Lane(LaneQueue):
        def extend(self, receipts: Sequence[str]) -> list[str]:
            extended.append(len(receipts))
            if next(requests) == 0:
                # What SQS answers under pressure; the other requests are answered.
                return LaneQueue(sky.sqs, self.url + "-none").extend(receipts)
            return super().extend(receipts)

    sky.lanes = Lane
    asyncio.run(sky.flight.extend())
    assert [5, 10, 10] == sorted(extended)


def test_a_message_is_replaced_before_its_twelve_hours_are_over(sky: Sky):
    (held,) = sky.hold()
    sky.now += HELD_S - 1
    asyncio.run(sky.flight.extend())
    assert (0, 1, 0) == sky.counts()
    sky.now += 2
    asyncio.run(sky.flight.extend())
    assert (0, 0, 1) == sky.counts()  # the old one is gone, the new one comes in time
    asyncio.run(sky.flight.extend())
    assert (0, 0, 1) == sky.counts()  # once
    asyncio.run(sky.flight.delete(held))
    assert (0, 0, 1) == sky.counts()  # whoever receives it finds that its job has ended


def test_a_job_whose_message_was_replaced_is_handed_back_by_another_one(sky: Sky):
    (held,) = sky.hold()
    sky.now += HELD_S
    asyncio.run(sky.flight.extend())
    asyncio.run(sky.flight.give_back(held, 0))
    assert (1, 0, 1) == sky.counts()
    assert JOB == Message.decode(sky.lane.receive(1, 0)[0].body).job_id


def test_a_message_that_cannot_be_replaced_is_held_and_tried_again(sky: Sky):
    (held,) = sky.hold()
    sky.now += HELD_S

    class Troubled(LaneQueue):
        def send_again(self, received: Received, delay_s: int) -> None:
            LaneQueue(sky.sqs, self.url + "-none").send_again(received, delay_s)

    sky.lanes = Troubled
    asyncio.run(sky.flight.extend())
    sky.lanes = LaneQueue
    assert (0, 1, 0) == sky.counts()
    asyncio.run(sky.flight.extend())
    assert (0, 0, 1) == sky.counts()
    asyncio.run(sky.flight.delete(held))


def test_a_message_let_go_while_it_is_replaced_is_never_lost(sky: Sky):
    (held,) = sky.hold()
    sky.now += HELD_S

    class Interrupting(LaneQueue):
        def send_again(self, received: Received, delay_s: int) -> None:
            super().send_again(received, delay_s)
            sky.flight.abandon(held)  # as if the job were interrupted at this moment

    sky.lanes = Interrupting
    asyncio.run(sky.flight.extend())
    assert (0, 1, 1) == sky.counts()


async def _give_back(sky: Sky, held: Delivery, seconds: int) -> None:
    await sky.flight.give_back(held, seconds)
    await sky.flight.give_back_owed()


def test_a_message_that_sqs_was_not_told_of_is_given_back_later(sky: Sky):
    """By the moment it was to be seen from: 5 s, of which 3 have gone by."""
    (held,) = sky.hold()
    hidden: list[int] = []

    class Unreachable(LaneQueue):
        def hide(self, receipt: str, seconds: int) -> None:
            hidden.append(seconds)
            if len(hidden) <= 3:
                raise EndpointConnectionError(endpoint_url=self.url)
            super().hide(receipt, seconds)

    sky.lanes = Unreachable
    asyncio.run(_give_back(sky, held, 5))
    assert [5, 4, 3, 2] == hidden
    assert 3 == sky.pauses  # and it is not asked again


def test_a_message_that_is_visible_by_now_is_not_given_back(sky: Sky):
    """Another agent may have it: its job would be looked at once more for nothing."""
    (held,) = sky.hold()
    asked: list[tuple[str, int]] = []

    class Unreachable(LaneQueue):
        def hide(self, receipt: str, seconds: int) -> None:
            asked.append((receipt, seconds))
            raise EndpointConnectionError(endpoint_url=self.url)

    sky.lanes = Unreachable
    asyncio.run(_give_back(sky, held, 0))
    assert VISIBILITY_S == sky.pauses
    assert [(held.received.receipt, 0)] * VISIBILITY_S == asked
