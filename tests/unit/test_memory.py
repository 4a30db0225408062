"""Messages say how much memory their jobs ask for, and agents claim only what fits."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from ec2_agent.attempt.adoption import Adoption
from ec2_agent.lanes import memory
from ec2_agent.lanes.memory import HOLD_S, LONGEST_HOLD_S, Memory, MemoryGate, hold_s
from ec2_agent.messages.delivery import Delivery
from ec2_agent.slots import Slots
from joblane.aws.condition_items import to_waiting, waiting_row
from joblane.aws.jobs import JobStore
from joblane.aws.lanes import LaneQueue
from joblane.condition.waiting import waiting_job
from joblane.contract.job import job_view
from joblane.job.head import submitted
from joblane.job.spec import DEFAULT_MEMORY_MB
from joblane.service.wake_up import wake_up_message
from tests.support.agents import Parts
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.jobs import JOB, submission
from tests.support.meter import Meter

LARGE_MB = 2048
LARGE = submission(resources={"memory_mb": LARGE_MB})
OTHER = JOB[:-1] + "W"


class Agent:
    """What of an agent decides which messages it claims, over moto."""

    def __init__(self, aws: Cloud, directory: Path, total_mb: int) -> None:
        self.aws = aws
        self.meter = Meter()
        metered = self.meter.clients_of(aws)
        parts = Parts(metered)
        self.flight = parts.flight
        self.memory = Memory(total_mb)
        self.changed = asyncio.Event()
        adoption = Adoption(directory, parts.jobs)
        self.slots = Slots(parts.claimer, parts.journal, adoption, self.changed, self.memory)
        jobs = JobStore(metered.make("dynamodb"), DESCRIPTOR.jobs_table)
        self.gate = MemoryGate("agent-1", self.memory, jobs, self.flight)
        self.lane = LaneQueue(aws.clients.make("sqs"), DESCRIPTOR.lane_url("default", "default"))

    def deliver(self) -> Delivery:
        """Submit the large job, and take its message."""
        head = submitted(JOB, "acme", LARGE, 1000)
        self.aws.jobs.put_new(head)
        self.lane.send(wake_up_message(head))
        return self.take()

    def take(self) -> Delivery:
        """Receive a message and take its slot, as Agent does."""
        (received,) = self.lane.receive(1, 0)
        delivery = Delivery("default", self.lane.url, self.lane.url, received, 0.0)
        self.slots.take("default", received.memory_mb)
        self.flight.add(delivery)
        return delivery

    def reason(self) -> str:
        """What `joblane get` shows."""
        head = self.aws.job(JOB)
        return job_view(head).reason


@pytest.fixture(name="agent")
def _agent(aws: Cloud, tmp_path: Path) -> Agent:
    return Agent(aws, tmp_path, 3000)


def test_a_message_says_what_its_job_asks_for(aws: Cloud):
    lane = LaneQueue(aws.clients.make("sqs"), DESCRIPTOR.lane_url("default", "default"))
    head = submitted(JOB, "acme", LARGE, 1000)
    lane.send(wake_up_message(head))
    (received,) = lane.receive(1, 0)
    assert LARGE_MB == received.memory_mb
    lane.send_again(received, 0)
    lane.send_batch([(wake_up_message(head), 0)])
    assert [LARGE_MB] * 2 == [again.memory_mb for _ in "ab" for again in lane.receive(1, 0)]


def test_a_job_that_a_condition_lets_go_on_asks_for_the_same_memory():
    entry = waiting_job(submitted(JOB, "acme", LARGE, 1000))
    row = waiting_row("app:x", entry)
    assert LARGE_MB == wake_up_message(to_waiting(row)).memory_mb


def test_small_jobs_do_not_keep_a_large_one_waiting(agent: Agent):
    """Its memory is reserved: what becomes free is not given to jobs that come later."""

    async def work() -> None:
        agent.slots.take("default", 1500)
        large = asyncio.create_task(agent.gate.enter(agent.deliver()))
        await asyncio.sleep(0)
        assert agent.memory.jobs < 1
        agent.slots.take("default", 64)  # adopted, or from a poll that was open
        agent.slots.release("default", 64)
        await asyncio.sleep(0)
        assert not large.done()
        assert agent.memory.jobs < 1
        agent.slots.release("default", 1500)
        assert await large
        assert 3000 - LARGE_MB == agent.memory.free_mb

    asyncio.run(work())
    assert "pending" == agent.aws.jobs.get(JOB).state  # type: ignore[union-attr]
    assert 0 == agent.meter.write_units  # it did not wait for long


def test_a_job_that_waits_for_memory_says_so_for_one_write_however_often_it_is_tried(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(memory, "NOTE_AFTER_S", 0.0)
    monkeypatch.setattr(memory, "hold_s", lambda _: 0.0)
    agent.slots.take("default", 1500)
    delivery = agent.deliver()
    for _ in range(3):
        assert not asyncio.run(agent.gate.enter(delivery))
        agent.slots.release("default", LARGE_MB)
        delivery = agent.take()  # it was given back to the lane
    expected = f"waits for {LARGE_MB} MB of memory; agent agent-1 has 1500 of 3000 MB free"
    assert expected == agent.reason()
    assert 1 == agent.meter.write_units
    assert agent.aws.jobs.claim(JOB, "agent-2", 2000).waits_for is None
    assert "claimed" == agent.reason()


def test_a_job_that_is_too_large_for_an_agent_is_left_to_others_and_never_claimed(agent: Agent):
    agent.memory.most_mb = 1024
    delivery = agent.deliver()
    assert agent.gate.too_large(delivery)
    asyncio.run(agent.gate.pass_on(delivery))
    expected = f"waits for {LARGE_MB} MB of memory; agent agent-1 gives a job at most 1024 MB"
    assert expected == agent.reason()
    assert 0 == agent.aws.jobs.get(JOB).epoch  # type: ignore[union-attr]
    assert [] == agent.lane.receive(1, 0)  # hidden for a while, not received again and again


def test_a_message_that_comes_before_its_jobs_row_comes_again_soon_and_once(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
):
    """Without it, the reason would be written a minute later."""
    agent.memory.most_mb = 1024
    hidden: list[float] = []

    async def give_back(_: Delivery, seconds: float) -> None:
        hidden.append(seconds)

    monkeypatch.setattr(agent.flight, "give_back", give_back)
    head = submitted(JOB, "acme", LARGE, 1000)
    agent.lane.send(wake_up_message(head))
    first = agent.take()
    asyncio.run(agent.gate.pass_on(first))
    again = replace(first, received=replace(first.received, receives=2))
    asyncio.run(agent.gate.pass_on(again))  # submission died: no row will come
    assert [1, 120] == hidden
    agent.aws.jobs.put_new(head)
    asyncio.run(agent.gate.pass_on(first))
    assert [1, 120, 60] == hidden
    assert "of memory" in agent.reason()


def test_a_draining_agent_returns_a_message_that_waits_for_memory_at_once(agent: Agent):
    async def work() -> None:
        agent.slots.take("default", 1500)
        large = asyncio.create_task(agent.gate.enter(agent.deliver()))
        await asyncio.sleep(0)
        agent.memory.close()
        assert not await large

    asyncio.run(work())
    assert 1 == len(agent.lane.receive(1, 0))


def test_an_agent_fetches_no_more_messages_than_have_memory():
    half = Memory(3 * DEFAULT_MEMORY_MB)
    assert 3 == half.jobs
    half.take(DEFAULT_MEMORY_MB + 1)
    assert 1 == half.jobs
    half.take(DEFAULT_MEMORY_MB)
    assert 0 == half.jobs
    assert 1 == Memory(DEFAULT_MEMORY_MB // 2).jobs  # a small host serves small jobs
    assert Memory(None).jobs > 1e6  # isolation namespaces limits no memory


def test_a_message_is_held_for_longer_each_time():
    assert HOLD_S == hold_s(1)
    assert 2 * HOLD_S == hold_s(2)
    assert LONGEST_HOLD_S == hold_s(1000)
