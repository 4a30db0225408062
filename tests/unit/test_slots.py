"""What the agent's slots count, what its heartbeat lists, and when it takes no more jobs."""

import asyncio
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ec2_agent.attempt.adoption import Adoption
from ec2_agent.host.capacity import Capacity, JobCounts
from ec2_agent.lanes.memory import Memory
from ec2_agent.lanes.queue_limits import QueueLimits
from ec2_agent.outcomes.judge import StopReason
from ec2_agent.presence.lease import Lease
from ec2_agent.presence.standing import Standing
from ec2_agent.settings import PACE
from ec2_agent.slots import FreeSlots, Slots
from ec2_agent.state.files import Files
from ec2_agent.state.settings import StateSettings
from ec2_agent.state.supervisor import StateLocation, StateSupervisor
from joblane.aws.settings import SettingsStore
from joblane.deployment.names import table_name
from joblane.job.head import Head, submitted
from joblane.job.lease import Progress
from joblane.job.spec import DEFAULT_MEMORY_MB
from joblane.queue.settings import QueueSettings
from joblane.target.group import MemberOf
from tests.support.agents import Parts, settings
from tests.support.aws import DESCRIPTOR, NAME, Cloud
from tests.support.jobs import JOB, submission


@dataclass(eq=False)
class Attempt:
    """An attempt that notes what it is asked to do."""

    head: Head
    started: bool = False
    abandoned: bool = False
    until: float = 0.0
    progress: Progress | None = None

    def request_stop(self, reason: StopReason) -> None:
        """Not asked for here."""
        raise AssertionError(reason)

    def follow(self) -> None:
        """Not asked for here."""
        raise AssertionError

    def abandon(self) -> None:
        """Note it."""
        self.abandoned = True

    def renew(self, until: float) -> None:
        """Note it."""
        self.until = until


class Host:
    """The real parts around an agent's slots."""

    def __init__(self, aws: Cloud, directory: Path) -> None:
        self.parts = parts = Parts(aws.clients)
        self.now = 1000.0
        self.changed = asyncio.Event()
        own = settings()
        adoption = Adoption(directory, parts.jobs)
        self.memory = Memory(4 * DEFAULT_MEMORY_MB)
        self.slots = slots = Slots(
            parts.claimer, parts.journal, adoption, self.changed, self.memory
        )
        capacity = Capacity(
            directory, own.threads, lambda: 1000, slots.counts, time.monotonic, self.changed.set
        )
        self.store = store = SettingsStore(
            aws.clients.make("dynamodb"), table_name(NAME, "settings")
        )
        store.put("bulk", QueueSettings(threads=1, version=1), over=0)
        self.limits = limits = QueueLimits(own, store, self.changed.set)
        asyncio.run(limits.begin())
        self.standing = Standing(directory, self.changed.set)
        self.lease = Lease(
            own,
            parts.agents,
            time.time,
            lambda: self.now,
            slots.job_ids,
            slots.progress,
            lambda: None,
            slots.abandon_all,
            slots.renew_all,
            self.standing,
            slots.tenants,
        )
        location = StateLocation(Files(directory), own.name, "agents")
        self.state = StateSupervisor(location, StateSettings())
        self.state.trouble = None
        self.free_slots = FreeSlots(
            own.descriptor.queues, slots, capacity, limits, self.lease, self.state, self.standing
        )


@pytest.fixture(name="host")
def _host(aws: Cloud, tmp_path: Path) -> Host:
    return Host(aws, tmp_path)


def test_free_slots_follow_threads_and_the_limit_of_each_queue(host: Host):
    assert {"default": 4, "bulk": 1} == host.free_slots.by_queue()
    host.slots.take("bulk", DEFAULT_MEMORY_MB)
    assert {"default": 3, "bulk": 0} == host.free_slots.by_queue()
    for _ in range(3):
        host.slots.take("default", DEFAULT_MEMORY_MB)
    assert {"default": 0, "bulk": 0} == host.free_slots.by_queue()
    assert {"bulk": 1, "default": 3} == host.slots.taken_by_queue()
    assert not host.changed.is_set()
    host.slots.release("bulk", DEFAULT_MEMORY_MB)
    assert host.changed.is_set()
    assert {"default": 1, "bulk": 1} == host.free_slots.by_queue()
    assert {"default": 3} == host.slots.taken_by_queue()


def test_no_jobs_are_taken_without_lease_or_state_service_or_while_draining(host: Host):
    none = {"default": 0, "bulk": 0}
    host.state.trouble = "the state service died"
    assert none == host.free_slots.by_queue()
    host.state.trouble = None
    host.now += PACE.holds_s
    assert none == host.free_slots.by_queue()
    host.now -= PACE.holds_s
    assert none != host.free_slots.by_queue()
    host.free_slots.closed = True
    assert none == host.free_slots.by_queue()


def test_messages_may_come_before_a_slot_is_free_only_if_one_will_be(host: Host):
    for _ in range(4):
        host.slots.take("default", DEFAULT_MEMORY_MB)
    assert host.free_slots.may_receive_ahead("default")
    host.state.trouble = "the state service died"
    assert not host.free_slots.may_receive_ahead("default")
    host.state.trouble = None
    assert host.free_slots.may_receive_ahead("default")
    host.standing.cordon()
    assert not host.free_slots.may_receive_ahead("default")


def test_no_messages_come_ahead_for_a_queue_that_is_paused(host: Host):
    host.store.put("default", QueueSettings(run_jobs=False, version=1), over=0)
    asyncio.run(host.limits.begin())
    assert not host.free_slots.may_receive_ahead("default")
    assert host.free_slots.may_receive_ahead("bulk")


def test_an_attempt_is_listed_counted_renewed_and_killed_while_it_runs(host: Host):
    attempt = Attempt(submitted(JOB, "acme", submission(), 0))
    host.slots.take("default", DEFAULT_MEMORY_MB)
    with host.slots.running(attempt):
        assert ([JOB], JobCounts(1, 0)) == (host.slots.job_ids(), host.slots.counts())
        attempt.started = True
        assert JobCounts(1, 1) == host.slots.counts()
        host.slots.renew_all(1240.0)
        host.slots.abandon_all()
        assert (1240.0, True) == (attempt.until, attempt.abandoned)
    host.slots.release("default", DEFAULT_MEMORY_MB)
    assert ([], JobCounts(0, 0)) == (host.slots.job_ids(), host.slots.counts())


def test_a_heartbeat_says_in_whose_list_each_job_is(aws: Cloud, host: Host):
    def attempt(number: int, tenant: str, group: str | None = None) -> Attempt:
        head = submitted(f"{JOB[:-1]}{number}", tenant, submission(), 0)
        return Attempt(replace(head, member_of=MemberOf(group, 0) if group else None))

    running = [attempt(1, "beta"), attempt(2, "acme"), attempt(3, "acme", JOB), attempt(4, "acme")]
    host.parts.claimer.claiming.append(JOB)
    with ExitStack() as stack:
        for each in running:
            stack.enter_context(host.slots.running(each))
        asyncio.run(host.lease.begin())
    row = aws.agents.get(settings().name)
    assert row is not None
    assert ("", "acme", "acme", "beta") == row.tenants
    assert [f"{JOB[:-1]}{number}" for number in (3, 2, 4, 1)] + [JOB] == list(row.jobs)
    item = aws.clients.make("dynamodb").scan(TableName=DESCRIPTOR.agents_table)["Items"][0]
    assert {"S": ":1 acme:2 beta:1"} == item["tenants"]
