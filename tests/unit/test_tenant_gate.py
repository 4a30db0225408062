"""A tenant that runs its share on an agent waits, and holds up nobody else."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import TypeVar

import pytest

from ec2_agent.aws_calls import direct
from ec2_agent.aws_calls.queues import Queues
from ec2_agent.lanes import intake, tenants
from ec2_agent.lanes.intake import FULL_PAUSE_S, Intake
from ec2_agent.lanes.tenants import MOST_HELD, NOTE_AT, TenantGate
from ec2_agent.messages.delivery import Delivery
from ec2_agent.messages.flight import Flight
from ec2_agent.messages.hiding import REPLACE_AT, TENANT_FULL
from joblane.aws.jobs import JobStore
from joblane.aws.lanes import LaneQueue
from joblane.contract.job import job_view
from joblane.job.head import submitted
from joblane.job.message import Message
from joblane.queue.tenant_shares import Allowance
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.jobs import JOB, submission
from tests.support.meter import Meter
from tests.support.virtual_time import run

T = TypeVar("T")

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
FREE = {"default": 8}

CALL_S = 0.01
"""How long a call takes in virtual time."""


class Agent:
    """What of an agent decides which tenants' messages start, over moto."""

    def __init__(self, aws: Cloud) -> None:
        self.aws = aws
        self.meter = Meter()
        sqs = aws.clients.make("sqs")
        self.flight = Flight(lambda: 1000.0, Queues(sqs).at)
        self.lane = LaneQueue(sqs, DESCRIPTOR.lane_url("default", "default"))
        self.shares = {"acme": 2}
        jobs = JobStore(self.meter.clients_of(aws).make("dynamodb"), DESCRIPTOR.jobs_table)
        self.gate = TenantGate("agent-1", self.allowance, jobs, self.flight)
        self.sent = 0

    def allowance(self, tenant: str) -> Allowance:
        """Its shares; other tenants have enough."""
        return Allowance(3, self.shares.get(tenant, 1000))

    def deliver(self, tenant: str = "acme", receives: int = 1) -> Delivery:
        """Submit a job, and receive its message as if for the `receives`th time."""
        job_id = JOB[:24] + ALPHABET[self.sent // 32] + ALPHABET[self.sent % 32]
        self.sent += 1
        self.aws.jobs.put_new(submitted(job_id, tenant, submission(), 1000))
        self.lane.send(Message(job_id=job_id, tenant=tenant))
        return self.receive(receives)

    def receive(self, receives: int | None = None) -> Delivery:
        """Receive the message that is there."""
        (received,) = self.lane.receive(1, 0)
        if receives is not None:
            received = replace(received, receives=receives)
        return Delivery("default", self.lane.url, self.lane.url, received, 0.0)

    def fill(self, tenant: str = "acme") -> list[Delivery]:
        """Run as many jobs of a tenant as may run here."""
        running = []
        while self.gate.admits(delivery := self.deliver(tenant)):
            self.gate.take(delivery)
            running.append(delivery)
        asyncio.run(self.flight.delete(delivery))
        return running

    def reason(self, delivery: Delivery) -> str:
        """What `joblane get` shows."""
        head = self.aws.job(Message.decode(delivery.received.body).job_id)
        return job_view(head).reason


@pytest.fixture(name="agent")
def _agent(aws: Cloud) -> Agent:
    return Agent(aws)


def test_a_tenant_at_its_share_starts_no_job_and_others_do(agent: Agent):
    assert 2 == len(agent.fill())
    assert not agent.gate.admits(agent.deliver())
    assert agent.gate.admits(agent.deliver("other"))


def test_a_message_that_joblane_did_not_write_goes_on_to_the_dead_letters(agent: Agent):
    agent.shares[""] = 0
    delivery = agent.deliver()
    odd = replace(delivery, received=replace(delivery.received, body="not ours"))
    assert agent.gate.admits(odd)
    agent.gate.take(odd)
    agent.gate.release(odd)


def test_a_held_message_starts_as_soon_as_a_job_of_its_tenant_ends(agent: Agent):
    async def work() -> None:
        held = agent.deliver()
        waiting = asyncio.create_task(agent.gate.wait(held))
        await asyncio.sleep(0)
        assert agent.gate.next(FREE) is None
        agent.gate.release(running[0])
        assert agent.gate.next({"default": 0}) is None
        assert held is agent.gate.next(FREE)
        await waiting
        agent.gate.take(held)
        assert agent.gate.next(FREE) is None

    running = agent.fill()
    asyncio.run(work())
    assert [] == agent.lane.receive(1, 0)  # it was not given back
    assert 0 == agent.meter.write_units


def test_a_larger_share_starts_what_is_held(agent: Agent):
    async def work() -> None:
        held = agent.deliver()
        waiting = asyncio.create_task(agent.gate.wait(held))
        await asyncio.sleep(0)
        agent.shares["acme"] = 3
        assert held is agent.gate.next(FREE)
        await waiting

    agent.fill()
    asyncio.run(work())


@pytest.mark.parametrize(("share", "held"), [(0, 0), (2, 2), (1000, MOST_HELD)])
def test_a_tenant_has_few_messages_held_and_the_rest_goes_back_to_the_lane(
    agent: Agent, share: int, held: int
):
    """So its backlog fills no agent, and reaches an agent that has a share."""

    async def work() -> None:
        agent.shares["acme"] = share
        often = REPLACE_AT - 1  # given back for minutes: none is visible again during the test
        waiting = [
            asyncio.create_task(agent.gate.wait(agent.deliver(receives=often))) for _ in range(13)
        ]
        await asyncio.wait(waiting[held:])
        lengths = agent.lane.lengths()
        assert (0, 13) == (lengths.visible, lengths.in_flight)
        agent.gate.close()
        await asyncio.gather(*waiting)
        assert held == agent.lane.lengths().visible

    asyncio.run(work())


def test_a_message_is_given_back_for_longer_the_more_often_it_comes():
    assert [1] * TENANT_FULL.quick == [
        TENANT_FULL.after(n) for n in range(1, TENANT_FULL.quick + 1)
    ]
    assert [1, 4, 9] == [TENANT_FULL.after(TENANT_FULL.quick + n) for n in (1, 2, 3)]
    assert 300 == TENANT_FULL.after(TENANT_FULL.quick + 18) == TENANT_FULL.after(10_000)
    # A minute after it was sent the last of a hundred agents may have seen it.
    assert sum(TENANT_FULL.after(n) for n in range(1, TENANT_FULL.quick + 5)) == 60


def test_a_message_that_is_held_for_long_is_given_to_others(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tenants, "NOTE_AFTER_S", 0.0)
    monkeypatch.setattr(tenants, "HOLD_S", 0.0)
    agent.fill()
    held = agent.deliver()
    asyncio.run(agent.gate.wait(held))
    assert held.received.body == agent.receive().received.body


def test_a_job_that_waits_says_so_for_one_write_however_often_it_comes(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tenants, "NOTE_AFTER_S", 0.0)
    monkeypatch.setattr(tenants, "HOLD_S", 0.0)
    agent.fill()
    delivery = agent.deliver()
    for _ in range(3):
        asyncio.run(agent.gate.wait(delivery))
        delivery = agent.receive()
    assert (
        "waits for jobs of tenant acme to end, of which 3 may run at once (jobs_running); "
        "agent agent-1 runs 2 of its share of 2" == agent.reason(delivery)
    )
    assert 1 == agent.meter.write_units
    job_id = Message.decode(delivery.received.body).job_id
    assert agent.aws.jobs.claim(job_id, "agent-2", 2000).waits_for is None


def test_a_message_that_comes_before_its_jobs_row_has_its_wait_noted_later(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tenants, "NOTE_AFTER_S", 0.0)
    monkeypatch.setattr(tenants, "HOLD_S", 0.0)
    agent.fill()
    early = JOB[:-1] + "Z"
    agent.lane.send(Message(job_id=early, tenant="acme"))
    asyncio.run(agent.gate.wait(agent.receive()))
    agent.aws.jobs.put_new(submitted(early, "acme", submission(), 1000))
    delivery = agent.receive()
    asyncio.run(agent.gate.wait(delivery))
    assert "jobs_running" in agent.reason(delivery)


def test_one_agent_of_all_without_a_share_notes_the_wait(agent: Agent):
    agent.shares["acme"] = 0
    # All are received before the first is given back, for a second: it would be received again.
    deliveries = [agent.deliver(receives=receives) for receives in range(1, NOTE_AT + 3)]
    for delivery in deliveries:
        asyncio.run(agent.gate.wait(delivery))
        noted = "runs 0 of its share of 0" in agent.reason(delivery)
        assert noted == (delivery.received.receives == NOTE_AT)
    assert 1 == agent.meter.write_units


def test_a_job_that_waits_for_days_does_not_become_a_dead_letter(agent: Agent):
    """SQS moves a message that it has delivered 1,000 times: this one is replaced before."""
    agent.shares["acme"] = 0
    delivery = agent.deliver(receives=REPLACE_AT)
    asyncio.run(agent.gate.wait(delivery))
    lengths = agent.lane.lengths()
    assert (0, 0, 1) == (lengths.visible, lengths.in_flight, lengths.delayed)


async def in_a_moment(call: Callable[[], T], _name: str) -> T:
    """Make a call in place of a thread, for which virtual time would not wait."""
    await asyncio.sleep(CALL_S)
    return call()


def test_jobs_of_a_tenant_at_its_limit_are_polled_for_seldom_and_lower_lanes_go_on(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
):
    """A hundred messages at the front of the high lane, and one of another tenant behind them."""
    monkeypatch.setattr(direct, "in_thread", in_a_moment)
    monkeypatch.setattr(intake, "LONG_POLL_S", 0)
    sqs = agent.aws.clients.make("sqs")
    high = LaneQueue(sqs, DESCRIPTOR.lane_url("default", "high"))
    high.send_batch([(Message(job_id=JOB, tenant="acme"), 0) for _ in range(100)])
    agent.lane.send(Message(job_id=JOB, tenant="other"))
    seen: list[str] = []

    def admit(delivery: Delivery) -> bool:
        seen.append(Message.decode(delivery.received.body).tenant)
        return seen[-1] == "other"

    async def work() -> None:
        loop, reading = asyncio.get_running_loop(), count()

        def now() -> float:
            """As a clock does, it goes on from one reading to the next."""
            return loop.time() + next(reading) / 1e6

        free = {"default": 1, "bulk": 0}
        polls = Intake(DESCRIPTOR, Queues(sqs).at, lambda: free, asyncio.Event(), now, now)
        running = asyncio.create_task(polls.run(admit))
        await asyncio.sleep(4 * FULL_PAUSE_S)
        await polls.stop()
        await running

    run(work())
    # One, and ten at a time once its lane is known to be crowded: a poll after each pause.
    assert ["acme", "other", *["acme"] * 30] == seen
