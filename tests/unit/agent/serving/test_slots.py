"""What an agent's jobs take, which of them its heartbeat lists, and when it takes no more."""

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from ec2_agent.core import Clocks
from ec2_agent.messages.delivery import Delivery
from ec2_agent.presence.lease import Load
from ec2_agent.serving.slots import Memory, Slots
from ec2_agent.settings import PACE
from joblane.aws.queue.lanes import Received
from joblane.group.record import MemberOf
from joblane.job.head import Head, make_head
from joblane.job.message import Message
from joblane.job.spec import DEFAULT_MEMORY_MB
from joblane.queue.settings import QueueSettings
from tests.support.agents import settings
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.desk_world import NotedAttempt
from tests.support.jobs import JOB, submission
from tests.support.serving import POOL, ServingCore


def delivery(queue: str = "default", tenant: str = "acme") -> Delivery:
    """A message of a job of the default size."""
    body = Message(job_id=JOB, tenant=tenant, lane="default/default").encode()
    return Delivery(queue, "lane", "dlq", Received(body, "r", 1, 0), 0.0)


class Nobody:
    """Runs no job."""

    async def run(self, head: Head, delivery: Delivery) -> None:
        """Not asked for here."""
        raise AssertionError(head, delivery)


class Host(ServingCore):
    """The core of an agent of four threads, one of them for the queue `bulk`."""

    def __init__(self, aws: Cloud, directory: Path) -> None:
        self.now = 1000.0
        own = replace(settings(), directory=directory)
        clocks = Clocks(lambda: self.now, lambda: self.now, lambda: self.now)
        super().__init__(own, aws.clients, Nobody(), clocks=clocks, memory_mb=4 * DEFAULT_MEMORY_MB)
        self.store = self.limits.store
        self.store.put("bulk", QueueSettings(threads=1, version=1), over=0)
        asyncio.run(self.limits.begin())


@pytest.fixture(name="host")
def _host(aws: Cloud, tmp_path: Path) -> Host:
    return Host(aws, tmp_path)


def test_free_slots_follow_threads_and_the_limit_of_each_queue(host: Host):
    assert {"default": 4, "bulk": 1} == host.offers.free()
    host.slots.take(delivery("bulk"))
    assert {"default": 3, "bulk": 0} == host.offers.free()
    for _ in range(3):
        host.slots.take(delivery())
    assert {"default": 0, "bulk": 0} == host.offers.free()
    assert {"bulk": 1, "default": 3} == host.slots.taken_by_queue()
    assert not host.changed.is_set()
    host.slots.release(delivery("bulk"))
    assert host.changed.is_set()
    assert {"default": 1, "bulk": 1} == host.offers.free()
    assert Load({"default": 3}, 1, None, memory_mb=2048, state_pool=POOL) == host.lease.load()


def test_no_jobs_are_taken_without_lease_or_state_service_or_while_draining(host: Host):
    none = {"default": 0, "bulk": 0}
    host.state.trouble = "the state service died"
    assert none == host.offers.free()
    host.state.trouble = None
    host.now += PACE.holds_s
    assert none == host.offers.free()
    host.now -= PACE.holds_s
    assert none != host.offers.free()
    host.offers.shut = True
    assert none == host.offers.free()


def ahead(host: Host) -> dict[str, int]:
    """How many messages are wanted by an agent with short jobs whose slots are full."""
    for _ in range(4 - host.slots.taken):
        host.slots.take(delivery())
    for queue in ("default", "bulk"):
        for _ in range(10):
            host.offers.prefetch.count_freed(queue)
    return dict(host.offers.wanted())


def test_messages_may_come_before_a_slot_is_free_only_if_one_will_be(host: Host):
    assert {"default": 1, "bulk": 1} == ahead(host)
    host.state.trouble = "the state service died"
    assert {"default": 0, "bulk": 0} == ahead(host)
    host.state.trouble = None
    host.standing.cordon(0)
    assert {"default": 0, "bulk": 0} == ahead(host)


def test_no_messages_come_ahead_for_a_queue_that_is_paused(host: Host):
    host.store.put("default", QueueSettings(run_jobs=False, version=1), over=0)
    asyncio.run(host.limits.begin())
    assert {"default": 0, "bulk": 1} == ahead(host)


def test_jobs_of_a_tenant_are_counted_while_they_run():
    slots = Slots(Memory(None), asyncio.Event())
    for tenant in ("acme", "acme", "other"):
        slots.take(delivery(tenant=tenant))
    slots.release(delivery(tenant="acme"))
    slots.release(delivery(tenant="other"))
    assert (1, 0) == (slots.taken_of_tenant("acme"), slots.taken_of_tenant("other"))
    assert (3, 1) == (slots.begun, slots.taken)


def test_an_agent_fetches_no_more_messages_than_have_memory():
    memory = Memory(3 * DEFAULT_MEMORY_MB)
    slots = Slots(memory, asyncio.Event())
    assert 3 == memory.jobs
    slots.take(delivery())
    slots.take_more(1)
    assert 1 == memory.jobs
    slots.take(delivery())
    assert 0 == memory.jobs
    slots.release(delivery(), more_mb=1)
    slots.release(delivery())
    assert 3 * DEFAULT_MEMORY_MB == memory.free_mb
    assert 1 == Memory(DEFAULT_MEMORY_MB // 2).jobs  # a small host serves small jobs
    assert Memory(None).jobs > 1e6  # isolation namespaces limits no memory


def test_an_attempt_is_listed_counted_renewed_and_killed_while_it_runs(host: Host):
    attempt = NotedAttempt(make_head(JOB, "acme", submission(), 0))
    with host.roster.runs(attempt):
        assert ([JOB], 0) == (host.roster.job_ids(), host.roster.started)
        attempt.started = True
        assert 1 == host.roster.started
        host.roster.renew_all(1240.0)
        host.roster.abandon_all()
        assert (1240.0, True) == (attempt.until, attempt.abandoned)
    assert ([], 0) == (host.roster.job_ids(), host.roster.started)


def test_a_heartbeat_says_in_whose_list_each_job_is(aws: Cloud, host: Host):
    def attempt(number: int, tenant: str, group: str | None = None) -> NotedAttempt:
        head = make_head(f"{JOB[:-1]}{number}", tenant, submission(), 0)
        return NotedAttempt(replace(head, member_of=MemberOf(group, 0) if group else None))

    running = [attempt(1, "beta"), attempt(2, "acme"), attempt(3, "acme", JOB), attempt(4, "acme")]
    host.roster.claiming.append(JOB)
    with ExitStack() as stack:
        for each in running:
            stack.enter_context(host.roster.runs(each))
        asyncio.run(host.lease.announce())
    row = aws.agents.get(settings().name)
    assert row is not None
    assert ("", "acme", "acme", "beta") == row.tenants
    assert [f"{JOB[:-1]}{number}" for number in (3, 2, 4, 1)] + [JOB] == list(row.jobs)
    item = aws.clients.make("dynamodb").scan(TableName=DESCRIPTOR.agents_table)["Items"][0]
    assert {"S": ":1 acme:2 beta:1"} == item["tenants"]
