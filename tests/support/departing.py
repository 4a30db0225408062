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
from ec2_agent.core import Clocks
from ec2_agent.messages.delivery import Delivery
from ec2_agent.presence.inbox import Inbox
from ec2_agent.presence.notices import Kind, Notice
from ec2_agent.retry import AWS_RETRY, Backoff
from ec2_agent.scale_in.group import AutoScalingInstance
from ec2_agent.scale_in.scale_in import ScaleIn
from joblane.aws.fleet.agents import AgentStore
from joblane.fleet.idle import LeavingPolicy
from joblane.job.head import Head
from tests.support.agents import settings
from tests.support.aws import DESCRIPTOR
from tests.support.leaving_instance import Instance, Lane
from tests.support.serving import ServingCore

if TYPE_CHECKING:
    from ec2_agent.compose import Parts as AgentParts
    from ec2_agent.messages.flight import Flight
    from joblane.state.lease import Heartbeat

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


class SleepingJobs:
    """Runs jobs that only sleep, each in a directory."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.flight: Flight | None = None

    async def run(self, head: Head, delivery: Delivery) -> None:
        """See Runner."""
        instance, job_id = self.instance, head.job_id
        instance.started[job_id] += 1
        directory = instance.directory / "jobs" / job_id
        directory.mkdir()
        instance.running.add(job_id)
        try:
            await asyncio.sleep(instance.run_s)
            assert self.flight is not None
            await self.flight.delete(delivery)
            instance.ended[job_id] += 1
        finally:
            directory.rmdir()
            instance.running.remove(job_id)


class Process(Agent):
    """A process of the agent. Its jobs sleep, and it holds no sandbox."""

    def __init__(self, instance: Instance, policy: LeavingPolicy, fleet: str | None) -> None:
        self.instance = instance
        self.parts = parts = _parts(instance, policy, fleet)
        super().__init__(cast("AgentParts", parts), lambda: None)

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
        await parts.lease.announce()
        kept = [
            parts.intake.run(parts.desk),
            parts.desk.keep(),
            parts.lease.keep(),
            parts.flight.keep(),
            self._notices(),
        ]
        if parts.scale_in is not None:
            kept.append(parts.scale_in.keep(self._on_scale_in))
        loops = [asyncio.create_task(loop) for loop in kept]
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
    own = replace(
        settings(instance.name), directory=directory, fleet=fleet, leaving=policy, drain_s=60.0
    )
    lanes: dict[str, Any] = {}
    agents = Agents(clients.make("dynamodb"), DESCRIPTOR.agents_table)
    agents.instance = instance
    jobs = SleepingJobs(instance)
    core = ServingCore(
        own,
        clients,
        jobs,
        clocks=Clocks(now, instance.monotonic, now),
        queue_at=lambda url: lanes.setdefault(url, Lane(instance, url)),
        agents=agents,
        backoff=partial(Backoff, AWS_RETRY, rng=random.Random(1).random),
    )
    jobs.flight = core.flight
    parts: Any = core
    parts.inbox = Inbox(clients.make("sqs"), instance.name, now)
    parts.group = AutoScalingInstance(cast("Any", instance), cast("Any", instance), own)
    parts.scale_in = None
    if fleet is not None:
        parts.scale_in = ScaleIn(
            policy,
            parts.group,
            core.standing,
            core.lease,
            core.intake,
            core.desk,
            core.journal,
            directory / "jobs",
            lambda: core.state.trouble,
            now,
        )
    parts.published_facts = SimpleNamespace(end=_nothing)
    return parts


async def _nothing() -> None:
    """Do nothing."""
