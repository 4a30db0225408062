"""Agents that run no programs: their heartbeats, inboxes, claims and outcomes are the real ones.

Many of them fit one process, for measurements of what does not depend on sandboxes.
"""

import asyncio
import random
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.config import Config

from ec2_agent.aws_calls.jobs import JobCalls
from ec2_agent.aws_calls.queues import Queues
from ec2_agent.calls import AWS_ERRORS, in_thread
from ec2_agent.lanes.claiming import Claimer
from ec2_agent.messages.delivery import Delivery
from ec2_agent.messages.flight import Flight
from ec2_agent.outcomes.journal import Journal, OutcomeRecorder
from ec2_agent.outcomes.judge import judge
from ec2_agent.outcomes.report import Report
from ec2_agent.presence.inbox import Inbox
from ec2_agent.sandbox.model import Ending, Usage
from ec2_agent.settings import Settings
from ec2_agent.state.settings import StateSettings
from joblane import __version__
from joblane.aws.agents import AgentStore
from joblane.aws.clients import LONG_POLL, QUICK, Clients
from joblane.aws.condition_places import ConditionPlaces
from joblane.aws.conditions import ConditionStore
from joblane.aws.executions import Executions
from joblane.aws.jobs import JobStore
from joblane.aws.keys import KeyStore
from joblane.aws.lanes import Received
from joblane.deployment.descriptor import Descriptor
from joblane.deployment.names import descriptor_name, inbox_name, table_name
from joblane.job.lease import HEARTBEAT_S, Heartbeat
from joblane.service.condition_supervisor import ConditionSupervisor
from tests.support.agents import DirectStore

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

AT_ONCE = Config(max_pool_connections=200)
"""Each agent has a poll and a few calls open."""

CLAIM_AGAIN_S = 5
"""After a claim that failed."""

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


@dataclass(frozen=True, slots=True)
class Stores:
    """What stand-ins of one deployment share."""

    descriptor: Descriptor
    sqs: "SQSClient"
    agents: AgentStore
    jobs: JobStore
    keys: KeyStore
    conditions: ConditionSupervisor

    @classmethod
    def of(cls, deployment: str) -> "Stores":
        """Connect to a deployment, where the environment says that it is."""
        clients = Clients()
        parameter = clients.make("ssm").get_parameter(Name=descriptor_name(deployment))
        descriptor = Descriptor.model_validate_json(parameter["Parameter"]["Value"])
        dynamodb = clients.make("dynamodb", QUICK.merge(AT_ONCE))
        conditions = table_name(descriptor.name, "conditions")
        return cls(
            descriptor,
            clients.make("sqs", LONG_POLL.merge(AT_ONCE)),
            AgentStore(dynamodb, descriptor.agents_table),
            JobStore(dynamodb, descriptor.jobs_table),
            KeyStore(dynamodb, table_name(descriptor.name, "keys")),
            ConditionSupervisor(
                ConditionStore(dynamodb, conditions),
                Executions(clients.make("stepfunctions"), descriptor.recovery_arn),
                ConditionPlaces(dynamodb, conditions),
                descriptor.limits,
            ),
        )


class StandIn:
    """One agent, which completes each job as soon as it has claimed it."""

    def __init__(self, stores: Stores, name: str, labels: Mapping[str, str]) -> None:
        self._stores = stores
        self._dice = random.Random()
        self._settings = Settings(
            name=name,
            since_ms=int(time.time() * 1000),
            descriptor=stores.descriptor,
            threads=1,
            isolation="namespaces",
            drain_s=0,
            fleet=None,
            directory=Path("/nonexistent"),
            state=StateSettings(backend="memory"),
            labels=labels,
        )
        self._flight = Flight(time.time, Queues(stores.sqs).at)
        self._claimer = Claimer(
            self._settings,
            JobCalls(stores.jobs),
            stores.agents,
            stores.keys,
            stores.conditions,
            self._flight,
            time.time,
            self._dice,
        )
        report = Report(JobCalls(stores.jobs), stores.conditions, self._flight)
        self._journal = Journal(DirectStore(), report, time.time)
        retention = stores.descriptor.retention
        self._recorder = OutcomeRecorder(self._journal, retention, time.time, self._dice)
        self._inbox = Inbox(stores.sqs, inbox_name(stores.descriptor.name, name), time.time)
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(self) -> None:
        """Open the inbox, send the first heartbeat, and go on until the loop ends."""
        inbox = await self._inbox.open()
        await self._beat()
        self._go(self._keep())
        self._go(self._inbox.run(inbox, lambda _command: None, partial(self._on_job, inbox.url)))

    async def end(self) -> None:
        """Stop, and leave no row behind."""
        await self._journal.flush()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        name = self._settings.name
        await in_thread(lambda: self._stores.agents.delete(name), "delete row")

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            with suppress(*AWS_ERRORS):
                await self._beat()

    async def _beat(self) -> None:
        settings = self._settings
        row = Heartbeat(
            name=settings.name,
            since_ms=settings.since_ms,
            beat_ms=int(time.time() * 1000),
            threads=settings.threads,
            running=0,
            queues=tuple(settings.descriptor.queues),
            isolation=settings.isolation,
            version=__version__,
            labels=settings.labels,
        )
        await in_thread(lambda: self._stores.agents.beat(row), "beat")

    def _on_job(self, url: str, received: Received) -> None:
        delivery = Delivery(received.job_queue or "", url, None, received, time.time())
        self._flight.add(delivery)
        self._go(self._serve(delivery))

    async def _serve(self, delivery: Delivery) -> None:
        try:
            head = await self._claimer.claim(delivery)
        except AWS_ERRORS:
            await self._flight.give_back(delivery, CLAIM_AGAIN_S)
            return
        if head is not None:
            result = judge(head, _ENDING, None, self._recorder.now_ms())
            await self._recorder.record(head, delivery, result)

    def _go(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def begin(stores: Stores, names: Sequence[str], labels: Mapping[str, str]) -> list[StandIn]:
    """Start agents with these names."""
    agents = [StandIn(stores, name, labels) for name in names]
    await asyncio.gather(*(agent.begin() for agent in agents))
    return agents
