"""Agents that run no programs: their heartbeats, inboxes, claims and outcomes are the real ones.

Many of them fit one process, for measurements of what does not depend on sandboxes.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.config import Config

from ec2_agent.messages.delivery import Delivery
from ec2_agent.presence.inbox import Inbox
from ec2_agent.sandbox.model import Ending, Usage
from ec2_agent.settings import AgentSettings
from ec2_agent.state.settings import StateSettings
from joblane.aws.clients import LONG_POLL, QUICK, Clients
from joblane.aws.job.jobs import JobStore
from joblane.aws.queue.lanes import Received
from joblane.deployment.descriptor import Descriptor
from joblane.deployment.names import descriptor_name, inbox_name
from joblane.job.head import Head
from joblane.job.judge import judge
from tests.support.serving import ServingCore

AT_ONCE = Config(max_pool_connections=200)
"""Each agent has a poll and a few calls open."""

_ENDING = Ending(
    exit_code=0,
    signal=None,
    timed_out=False,
    oom_killed=False,
    stopped=False,
    error=None,
    usage=Usage(cpu_s=0.0, wall_s=0.0),
    records=0,
)


class Shared(Clients):
    """Clients that all stand-ins of one process share."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[str, Any] = {}

    def make(self, service: Any, config: Config = QUICK) -> Any:
        """Make a client, or give the one that was made."""
        if service not in self._made:
            wait = LONG_POLL if service == "sqs" else config
            self._made[service] = super().make(service, wait.merge(AT_ONCE))
        return self._made[service]


@dataclass(frozen=True, slots=True)
class Stores:
    """What stand-ins of one deployment share."""

    descriptor: Descriptor
    clients: Clients

    @classmethod
    def of(cls, deployment: str) -> "Stores":
        """Connect to a deployment, where the environment says that it is."""
        clients = Shared()
        parameter = clients.make("ssm").get_parameter(Name=descriptor_name(deployment))
        return cls(Descriptor.model_validate_json(parameter["Parameter"]["Value"]), clients)

    @property
    def jobs(self) -> JobStore:
        """The table of jobs."""
        return JobStore(self.clients.make("dynamodb"), self.descriptor.jobs_table)


class StandIn:
    """One agent, which completes each job as soon as it has claimed it."""

    def __init__(self, stores: Stores, name: str, labels: Mapping[str, str]) -> None:
        settings = AgentSettings(
            name=name,
            since_ms=int(time.time() * 1000),
            descriptor=stores.descriptor,
            threads=200,
            isolation="namespaces",
            drain_s=0,
            fleet=None,
            directory=Path("/"),
            state=StateSettings(backend="memory"),
            labels=labels,
        )
        self._core = ServingCore(settings, stores.clients, self)
        sqs = stores.clients.make("sqs")
        self._inbox = Inbox(sqs, inbox_name(stores.descriptor.name, name), time.time)
        self._loops: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Open the inbox, send the first heartbeat, and go on until the loop ends."""
        core, inbox = self._core, await self._inbox.open()
        await core.lease.announce()
        await core.limits.begin()

        def take(received: Received) -> None:
            queue = received.job_queue or ""
            core.desk.receive(Delivery(queue, inbox.url, None, received, time.time()))

        kept = [core.lease.keep(), self._inbox.run(inbox, lambda _command: None, take)]
        self._loops = [asyncio.create_task(loop) for loop in kept]

    async def end(self) -> None:
        """Stop, and leave no row behind."""
        await self._core.journal.flush()
        for task in self._loops:
            task.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        await self._core.lease.end()

    async def run(self, head: Head, delivery: Delivery) -> None:
        """Complete a job: see Runner."""
        recorder = self._core.recorder
        await recorder.record(head, delivery, judge(head, _ENDING, None, recorder.now_ms()))


async def begin(stores: Stores, names: Sequence[str], labels: Mapping[str, str]) -> list[StandIn]:
    """Start agents with these names."""
    agents = [StandIn(stores, name, labels) for name in names]
    await asyncio.gather(*(agent.begin() for agent in agents))
    return agents
