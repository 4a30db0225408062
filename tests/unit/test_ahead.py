"""Messages that are received before a slot is free: as many as start soon, and not for long."""

import asyncio
from collections.abc import Callable

import pytest

from ec2_agent.aws_calls.queues import Queues
from ec2_agent.lanes.ahead import HOLD_S, WINDOW_S, Ahead
from ec2_agent.messages.delivery import Delivery
from ec2_agent.messages.flight import Flight
from joblane.aws.lanes import LaneQueue
from joblane.job.message import Message
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.jobs import JOB
from tests.support.virtual_time import run

FREE, NONE = {"default": 1, "bulk": 1}, {"default": 0, "bulk": 0}


class Agent:
    """What of an agent receives ahead, over moto."""

    def __init__(self, aws: Cloud) -> None:
        sqs = aws.clients.make("sqs")
        self.now = 1000.0
        self.ahead = Ahead(Flight(lambda: self.now, Queues(sqs).at), lambda: self.now)
        self.lane = LaneQueue(sqs, DESCRIPTOR.lane_url("default", "default"))

    def free_slots(self, times: int, queue: str = "default") -> None:
        """Let so many slots become free, within a millisecond each."""
        for _ in range(times):
            self.now += 0.001
            self.ahead.freed(queue)

    def receive(self, queue: str = "default") -> Delivery:
        """Receive a message."""
        self.lane.send(Message(job_id=JOB, tenant="acme"))
        (received,) = self.lane.receive(1, 0)
        return Delivery(queue, self.lane.url, None, received, self.now)

    def hold(self, times: int, queue: str = "default") -> list[Delivery]:
        """Receive so many messages, and let them wait."""
        deliveries = [self.receive(queue) for _ in range(times)]
        assert all(self.ahead.hold(delivery) for delivery in deliveries)
        return deliveries

    def counts(self) -> tuple[int, int]:
        """Messages that are visible, and in flight."""
        lengths = self.lane.lengths()
        return lengths.visible, lengths.in_flight


@pytest.fixture(name="agent")
def _agent(aws: Cloud) -> Agent:
    return Agent(aws)


def test_an_agent_with_long_jobs_receives_nothing_ahead(agent: Agent):
    assert 0 == agent.ahead.room("default")
    agent.free_slots(9)
    assert 0 == agent.ahead.room("default")
    assert not agent.ahead.hold(agent.receive())


@pytest.mark.parametrize(("freed", "room"), [(10, 1), (39, 3), (100, 10), (500, 10)])
def test_as_many_wait_as_started_lately_within_a_tenth_of_a_second(
    agent: Agent, freed: int, room: int
):
    agent.free_slots(freed)
    assert room == agent.ahead.room("default")
    assert 0 == agent.ahead.room("bulk")
    agent.hold(room)
    assert not agent.ahead.hold(agent.receive())
    assert room == len(agent.ahead)


def test_what_was_long_ago_does_not_count(agent: Agent):
    agent.free_slots(50)
    agent.now += WINDOW_S
    assert 0 == agent.ahead.room("default")


def test_more_are_asked_for_when_half_have_started(agent: Agent):
    agent.free_slots(100)
    agent.hold(10)
    room = []
    while agent.ahead.next(FREE) is not None:
        room.append(agent.ahead.room("default"))
    assert [0, 0, 0, 0, 5, 6, 7, 8, 9, 10] == room


def test_the_oldest_of_a_queue_with_a_free_slot_starts(agent: Agent):
    agent.free_slots(30)
    agent.free_slots(30, "bulk")
    first, second = agent.hold(2)
    (third,) = agent.hold(1, "bulk")
    assert agent.ahead.next(NONE) is None
    assert third is agent.ahead.next({"default": 0, "bulk": 1})
    assert first is agent.ahead.next(FREE)
    assert second is agent.ahead.next(FREE)
    assert agent.ahead.next(FREE) is None


def test_what_waits_for_too_long_is_given_back_and_nothing_is_received_ahead_for_a_while(
    agent: Agent,
):
    agent.free_slots(100)
    agent.hold(2)
    agent.now += HOLD_S / 2
    (late,) = agent.hold(1)
    agent.now += HOLD_S / 2
    asyncio.run(agent.ahead.give_back_late())
    assert (2, 1) == agent.counts()
    assert 0 == agent.ahead.room("default")
    assert late is agent.ahead.next(FREE)


def test_an_agent_that_ends_gives_back_all(agent: Agent):
    agent.free_slots(100)
    agent.hold(3)
    asyncio.run(agent.ahead.give_back())
    assert ((3, 0), 0) == (agent.counts(), len(agent.ahead))


async def at_once(call: Callable[[], None], _name: str) -> None:
    """Make a call in place of a thread, for which virtual time would not wait."""
    call()


def test_a_loop_gives_back_what_is_late_and_goes_on(agent: Agent, monkeypatch: pytest.MonkeyPatch):
    """Also when all has started by the time it looks."""
    monkeypatch.setattr("ec2_agent.aws_calls.queues.in_thread", at_once)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        agent.ahead.monotonic = lambda: agent.now + loop.time()
        keeping = asyncio.create_task(agent.ahead.keep())
        agent.free_slots(100)
        agent.hold(1)
        assert agent.ahead.next(FREE) is not None
        await asyncio.sleep(0.1)  # the loop finds nothing
        agent.hold(2)
        await asyncio.sleep(HOLD_S + 0.01)
        assert 0 == len(agent.ahead)
        assert (2, 1) == agent.counts()
        assert not keeping.done()
        keeping.cancel()

    run(work())
