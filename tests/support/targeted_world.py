"""An agent's intake of targeted jobs, and what sends to its inbox: jobs only wait for their end."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from ec2_agent.agent import Agent
from ec2_agent.attempt.adoption import Adoption
from ec2_agent.host.capacity import Capacity
from ec2_agent.lanes.ahead import Ahead
from ec2_agent.lanes.lacking import LackingHost
from ec2_agent.lanes.memory import Memory, MemoryGate
from ec2_agent.lanes.queue_limits import QueueLimits
from ec2_agent.lanes.targeted import TargetedJobs
from ec2_agent.lanes.tenants import TenantGate
from ec2_agent.messages.delivery import Delivery
from ec2_agent.outcomes.journal import OutcomeRecorder
from ec2_agent.presence.gates import Gates
from ec2_agent.presence.inbox import Inbox
from ec2_agent.presence.lease import Lease
from ec2_agent.presence.standing import Standing
from ec2_agent.slots import FreeSlots, Slots
from joblane.aws.lanes import LaneQueue, Received
from joblane.aws.settings import SettingsStore
from joblane.contract.job import job_view
from joblane.deployment.names import inbox_name, table_name
from joblane.job.head import submitted
from joblane.job.message import Command, Message
from joblane.job.spec import DEFAULT_MEMORY_MB
from joblane.queue.tenant_shares import Allowance
from tests.support.agents import Parts, settings
from tests.support.aws import DESCRIPTOR, NAME, Cloud
from tests.support.jobs import JOB, submission

if TYPE_CHECKING:
    from ec2_agent.compose import Parts as AgentParts
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
THREADS = 2


class Recording(Agent):
    """An agent whose jobs run until they are ended, without a sandbox."""

    def __init__(self, parts: Any) -> None:
        super().__init__(cast("AgentParts", parts), lambda: None)
        self.parts = parts
        self.started: list[str] = []
        self._ended: dict[str, asyncio.Event] = {}

    async def _serve(self, delivery: Delivery) -> None:
        job_id = job_of(delivery.received)
        if not await self.parts.gate.enter(delivery):
            self._free(delivery)
            return
        self.started.append(job_id)
        self._ended[job_id] = asyncio.Event()
        await self._ended[job_id].wait()
        await self.parts.flight.delete(delivery)
        self._free(delivery)

    def _free(self, delivery: Delivery) -> None:
        self.parts.tenants.release(delivery)
        self.parts.ahead.freed(delivery.queue)
        self.parts.slots.release(delivery.queue, delivery.received.memory_mb)

    def end(self, job_id: str) -> None:
        """End a job."""
        self._ended[job_id].set()

    async def finish(self) -> None:
        """End what runs."""
        for event in self._ended.values():
            event.set()
        await asyncio.wait_for(self._work_done(), 5)

    async def ended(self, count: int) -> None:
        """Wait until so many jobs have freed their slots."""
        slots = self.parts.slots
        async with asyncio.timeout(5):
            while slots.begun - slots.counts().taken < count:
                self.parts.host.changed.clear()
                await self.parts.host.changed.wait()

    def resume(self) -> None:
        """Start what waits, as before each poll."""
        self._resume()

    def job(self, received: Received) -> None:
        """Take a message from the inbox."""
        self._on_job(self.parts.inbox_queue.url, received)

    def lane(self, received: Received) -> bool:
        """Take a message of the lane `default`."""
        lane = self.parts.lane
        return self._admit(Delivery("default", lane.url, lane.url, received, time.time()))

    def command(self, command: Any) -> None:
        """Act on a command."""
        self._on_command(Command(command=command))


def job_of(received: Received) -> str:
    return Message.decode(received.body).job_id


class World:
    """An agent with two slots, its inbox and a lane, over moto."""

    def __init__(self, aws: Cloud, directory: Path) -> None:
        self.aws = aws
        self.sent = 0
        sqs = aws.clients.make("sqs")
        url = sqs.create_queue(QueueName=inbox_name(NAME, "agent-1"))["QueueUrl"]
        self.inbox = LaneQueue(sqs, url)
        self.lane = LaneQueue(sqs, DESCRIPTOR.lane_url("default", "default"))
        self.shares = {"acme": 1000}
        self.directory = directory
        self.agent = self.start()

    def start(self) -> Recording:
        """Make the parts of a process of the agent."""
        base = Parts(self.aws.clients)
        own = replace(settings(), threads=THREADS, directory=self.directory)
        changed = asyncio.Event()
        memory = Memory(8 * DEFAULT_MEMORY_MB)
        adoption = Adoption(self.directory / "jobs", base.jobs)
        slots = Slots(base.claimer, base.journal, adoption, changed, memory)
        capacity = Capacity(
            self.directory, THREADS, lambda: 1000, slots.counts, time.monotonic, changed.set
        )
        store = SettingsStore(self.aws.clients.make("dynamodb"), table_name(NAME, "settings"))
        standing = Standing(self.directory, changed.set)
        limits = QueueLimits(own, store, changed.set, standing.since_ms)
        asyncio.run(limits.begin())
        lease = Lease(
            own,
            base.agents,
            time.time,
            time.monotonic,
            slots.job_ids,
            slots.progress,
            lambda: None,
            slots.abandon_all,
            slots.renew_all,
            standing,
        )
        supervisor = cast("Any", SimpleNamespace(trouble=None))
        flight = base.flight
        tenants = TenantGate(
            "agent-1", lambda t: Allowance(5, self.shares.get(t, 1000)), base.jobs, flight
        )
        parts = SimpleNamespace(
            settings=own,
            host=SimpleNamespace(clock=time.time, changed=changed),
            flight=flight,
            claimer=base.claimer,
            gate=MemoryGate("agent-1", memory, base.jobs, flight),
            lacking=LackingHost(flight, time.monotonic),
            slots=slots,
            lease=lease,
            tenants=tenants,
            ahead=Ahead(flight, time.monotonic),
            standing=standing,
            gates=Gates(standing, memory, tenants, lease),
            departure=None,
            free_slots=FreeSlots(
                DESCRIPTOR.queues, slots, capacity, limits, lease, supervisor, standing
            ),
            inbox=Inbox(self.aws.clients.make("sqs"), inbox_name(NAME, "agent-1"), time.time),
            inbox_queue=self.inbox,
            lane=self.lane,
            journal=base.journal,
            attempts=SimpleNamespace(
                recorder=OutcomeRecorder(
                    base.journal, DESCRIPTOR.retention, time.time, base.claimer.dice
                )
            ),
        )
        parts.targeted = TargetedJobs(
            tenants, base.jobs, flight, lambda _: "agent-1 is busy", time.monotonic
        )
        return Recording(parts)

    def send(self, tenant: str = "acme", queue: str = "default", **fields: Any) -> Received:
        """Submit a job for this agent alone, and receive its message from the inbox."""
        head = submitted(self._id(), tenant, submission(queue=queue, **fields), 1000)
        self.aws.jobs.put_new(replace(head, assigned="agent-1"))
        memory_mb = head.spec.resources.memory
        self.inbox.send(
            Message(job_id=head.job_id, tenant=tenant, queue=queue, memory_mb=memory_mb)
        )
        (received,) = self.inbox.receive(1, 0)
        return received

    def send_by_lane(self, tenant: str = "acme") -> Received:
        """Submit a job to the lane, and receive its message."""
        head = submitted(self._id(), tenant, submission(), 1000)
        self.aws.jobs.put_new(head)
        self.lane.send(Message(job_id=head.job_id, tenant=tenant))
        (received,) = self.lane.receive(1, 0)
        return received

    def _id(self) -> str:
        self.sent += 1
        return JOB[:24] + ALPHABET[self.sent // 32] + ALPHABET[self.sent % 32]

    def reason(self, received: Received) -> str:
        """What `joblane get` shows."""
        return job_view(self.head(received)).reason

    def head(self, received: Received) -> Any:
        """The job of a message."""
        return self.aws.job(job_of(received))
