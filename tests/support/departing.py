"""A fleet of one instance, in virtual time: its agent leaves, is killed, and starts again.

The agent's decisions, gates, polls, heartbeats and drain are the real ones; the jobs only sleep.
"""

import asyncio
import random
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from ec2_agent.agent import Agent
from ec2_agent.attempt.adoption import Adoption
from ec2_agent.host.capacity import Capacity
from ec2_agent.lanes.ahead import Ahead
from ec2_agent.lanes.intake import Intake
from ec2_agent.lanes.lacking import LackingHost
from ec2_agent.lanes.memory import Memory, MemoryGate
from ec2_agent.lanes.queue_limits import QueueLimits
from ec2_agent.lanes.targeted import TargetedJobs
from ec2_agent.lanes.tenants import TenantGate
from ec2_agent.messages.delivery import Delivery
from ec2_agent.messages.flight import Flight
from ec2_agent.presence.gates import Gates
from ec2_agent.presence.inbox import Inbox
from ec2_agent.presence.lease import Lease
from ec2_agent.presence.notices import Kind, Notice
from ec2_agent.presence.standing import Standing
from ec2_agent.retry import AWS_RETRY, Backoff
from ec2_agent.scale_in.departure import Departure
from ec2_agent.scale_in.group import Group
from ec2_agent.slots import FreeSlots, Slots, jobs_left
from joblane.aws.agents import AgentStore
from joblane.aws.settings import SettingsStore
from joblane.deployment.names import table_name
from joblane.fleet.idle import LeavingPolicy
from tests.support.agents import Parts, settings
from tests.support.aws import DESCRIPTOR, NAME
from tests.support.leaving_instance import Instance, Lane

if TYPE_CHECKING:
    from ec2_agent.compose import Parts as AgentParts
    from joblane.job.lease import Heartbeat

POLICY = LeavingPolicy(idle_s=105)
"""It ends within a poll: an idle agent polls all its lanes for 20 s, at the same time."""


class Agents(AgentStore):
    """Counts the calls to the table of agents."""

    instance: Instance

    def beat(self, row: "Heartbeat") -> int | None:
        """Count, and write."""
        self.instance.call()
        found = super().beat(row)
        self.instance.answered()
        return found

    def delete(self, name: str) -> None:
        """Count, and delete."""
        self.instance.call()
        super().delete(name)
        self.instance.answered()


class Process(Agent):
    """A process of the agent. Its jobs sleep, and it holds no sandbox."""

    def __init__(self, instance: Instance, policy: LeavingPolicy, fleet: str | None) -> None:
        self.instance = instance
        self.parts = parts = _parts(instance, policy, fleet)
        super().__init__(cast("AgentParts", parts), lambda: None)

    async def _serve(self, delivery: Delivery) -> None:
        job_id, held = delivery.received.receipt.partition("/")[0], self.parts
        self.instance.started[job_id] += 1
        directory = self.instance.directory / "jobs" / job_id
        directory.mkdir()
        self.instance.running.add(job_id)
        try:
            await asyncio.sleep(self.instance.run_s)
            await held.flight.delete(delivery)
            self.instance.ended[job_id] += 1
        finally:
            directory.rmdir()
            self.instance.running.remove(job_id)
            held.tenants.release(delivery)
            held.slots.release(delivery.queue, delivery.received.memory_mb)

    def notice(self, kind: Kind) -> None:
        """Read a notice."""
        self._on_notice(Notice(kind))

    def command(self, command: Any) -> None:
        """Act on a command of an operator."""
        self._on_command(SimpleNamespace(command=command, job_id=None))  # type: ignore[arg-type]

    async def live(self) -> bool:
        """Serve and leave, as `run`; returns False if it is killed."""
        loop, killed = asyncio.get_running_loop(), self.instance.killed
        strangers = asyncio.all_tasks()
        mine = asyncio.create_task(self._live())
        loop.set_exception_handler(lambda *_: None)  # of tasks that die with the process
        end = asyncio.create_task(killed.wait())
        await asyncio.wait({mine, end}, return_when=asyncio.FIRST_COMPLETED)
        left = not killed.is_set()
        others = asyncio.all_tasks() - strangers
        if not left:
            self.parts.standing.draining = True  # it does nothing any more
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        else:
            end.cancel()
            mine.result()
        return left

    async def _live(self) -> None:
        parts = self.parts
        await parts.lease.begin()
        loops = [
            asyncio.create_task(parts.intake.run(self._admit, self._resume)),
            asyncio.create_task(parts.lease.keep()),
            asyncio.create_task(parts.flight.keep()),
            asyncio.create_task(self._notices()),
        ]
        if parts.departure is not None:
            leaving = parts.departure.keep(lambda: bool(self._work), self._on_departure)
            loops.append(asyncio.create_task(leaving))
        await self._draining.wait()
        await self._drain()
        await self._leave()
        for task in loops:
            task.cancel()
        for task in loops:
            with suppress(asyncio.CancelledError):
                await task

    async def _notices(self) -> None:
        """Read the notice of the instance's end, as the metadata service gives it."""
        while True:
            if self.instance.terminating_at is not None and not self._draining.is_set():
                self.notice(Kind.SCALE_IN)
            await asyncio.sleep(5)


def _parts(instance: Instance, policy: LeavingPolicy, fleet: str | None) -> Any:
    """The parts of a process that leaving needs."""
    clients, directory, now = instance.cloud.clients, instance.directory, Instance.now
    base = Parts(clients, name=instance.name)
    own = replace(
        settings(instance.name), directory=directory, fleet=fleet, leaving=policy, drain_s=60.0
    )
    lanes: dict[str, Any] = {}
    backoff = partial(Backoff, AWS_RETRY, dice=random.Random(1).random)
    flight = Flight(now, lambda url: lanes.setdefault(url, Lane(instance, url)), backoff)
    changed, memory = asyncio.Event(), Memory(None)
    slots = Slots(
        base.claimer, base.journal, Adoption(directory / "jobs", base.jobs), changed, memory
    )
    capacity = Capacity(directory, 4, lambda: 1000, slots.counts, now, changed.set)
    dynamodb = clients.make("dynamodb")
    standing = Standing(directory, changed.set)
    store = SettingsStore(dynamodb, table_name(NAME, "settings"))
    limits = QueueLimits(own, store, changed.set, standing.since_ms)
    agents = Agents(dynamodb, DESCRIPTOR.agents_table)
    agents.instance = instance
    lease = Lease(
        own,
        agents,
        now,
        now,
        lambda: instance.running,
        slots.progress,
        lambda: None,
        slots.abandon_all,
        slots.renew_all,
        standing,
        left=partial(jobs_left, capacity, memory),
        taken=slots.taken_by_queue,
    )
    tenants = TenantGate(instance.name, limits.of_tenant, base.jobs, flight)
    state = SimpleNamespace(trouble=None)
    free = FreeSlots(
        DESCRIPTOR.queues, slots, capacity, limits, lease, cast("Any", state), standing
    )
    intake = Intake(DESCRIPTOR, flight._queue_at, free.by_queue, changed, now, instance.monotonic)
    targeted = TargetedJobs(tenants, base.jobs, flight, lambda _: "", now)
    gates = Gates(standing, memory, tenants, lease)
    group = Group(cast("Any", instance), cast("Any", instance), own)
    departure = Departure(
        policy,
        group,
        gates,
        intake,
        free,
        base.journal,
        targeted,
        directory / "jobs",
        lambda: state.trouble,
        now,
    )
    return SimpleNamespace(
        settings=own,
        host=SimpleNamespace(clock=now, changed=changed),
        flight=flight,
        gate=MemoryGate(instance.name, memory, base.jobs, flight),
        lacking=LackingHost(flight, instance.monotonic),
        slots=slots,
        lease=lease,
        inbox=Inbox(clients.make("sqs"), instance.name, now),
        limits=limits,
        tenants=tenants,
        standing=standing,
        gates=gates,
        state=state,
        group=group,
        departure=departure if fleet is not None else None,
        free_slots=free,
        intake=intake,
        journal=base.journal,
        targeted=targeted,
        ahead=Ahead(flight, instance.monotonic),
        published_facts=SimpleNamespace(end=_nothing),
    )


async def _nothing() -> None:
    """Do nothing."""
