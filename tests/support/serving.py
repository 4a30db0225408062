"""The core of an agent over clients of AWS, for tests that bring their own clocks and runner."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from ec2_agent.aws_calls.jobs import ClaimCalls
from ec2_agent.aws_calls.queues import QueueAt, Queues
from ec2_agent.core import Clocks, Core, Surroundings
from ec2_agent.outcomes.journal import JournalStore
from ec2_agent.retry import Backoff, aws_backoff
from ec2_agent.serving.desk import Runner
from ec2_agent.serving.disk import Disk
from ec2_agent.settings import AgentSettings
from joblane.aws.clients import Clients
from joblane.aws.fleet.agents import AgentStore
from joblane.aws.job.jobs import JobStore
from joblane.aws.key.keys import KeyStore
from joblane.aws.queue.settings import SettingsStore
from joblane.deployment.names import table_name
from joblane.state.lease import StatePool
from tests.support.agents import DirectStore
from tests.support.recovery import supervisor

POOL = StatePool(20, 0, 1, 9, 1, 0, 0, 0)
"""Connections of an agent that is well."""

REAL = Clocks(time.time, time.monotonic, time.monotonic)


@dataclass
class State:
    """A state service, which is well until a test says otherwise."""

    trouble: str | None = None
    pool: StatePool = POOL


class ServingCore(Core):
    """The core of an agent, and the desk that hands its jobs to a runner."""

    def __init__(
        self,
        settings: AgentSettings,
        clients: Clients,
        runner: Runner,
        *,
        clocks: Clocks = REAL,
        rng: random.Random | None = None,
        memory_mb: int | None = None,
        queue_at: QueueAt | None = None,
        agents: AgentStore | None = None,
        records: JournalStore | None = None,
        backoff: Callable[[], Backoff] = aws_backoff,
        disk: Disk | None = None,
    ) -> None:
        dynamodb, sqs = clients.make("dynamodb"), clients.make("sqs")
        self.jobs = JobStore(dynamodb, settings.descriptor.jobs_table)
        self.state = State()
        self.changed = asyncio.Event()
        around = Surroundings(
            ClaimCalls(self.jobs),
            agents or AgentStore(dynamodb, settings.descriptor.agents_table),
            KeyStore(dynamodb, table_name(settings.descriptor.name, "keys")),
            supervisor(clients),
            SettingsStore(dynamodb, table_name(settings.descriptor.name, "settings")),
            queue_at or Queues(sqs).at,
            records or DirectStore(clock=clocks.unix),
            self.state,
            clocks,
            rng or random.Random(1),
            self.changed,
            memory_mb,
            backoff=backoff,
            disk=disk,
        )
        super().__init__(settings, around)
        self.desk = self.serve_with(runner)
