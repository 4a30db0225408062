"""An agent's parts over an AWS in this process, with a real sandbox."""

import asyncio
import atexit
import functools
import random
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ec2_agent.attempt import Attempt
from ec2_agent.claiming import Claimer, Stores
from ec2_agent.finished import Finished
from ec2_agent.flight import Flight, Held
from ec2_agent.journal import Journal, Store
from ec2_agent.kept import Keep, boottime
from ec2_agent.report import Report, Tools
from ec2_agent.room import Jobs, Room
from ec2_agent.sandbox import Launcher
from ec2_agent.settings import Settings
from ec2_agent.shim.pool import Shims
from ec2_agent.state.backend import Backend
from ec2_agent.state.memory import MemoryBackend
from ec2_agent.state.records import BATCH, Record, Result, Verb, prepared
from ec2_agent.state.settings import StateSettings
from joblane.aws.agents import AgentRow, AgentStore
from joblane.aws.clients import Clients
from joblane.aws.conditions import ConditionStore
from joblane.aws.jobs import JobStore
from joblane.aws.lanes import LaneQueue
from joblane.aws.logs import LogStore
from joblane.aws.payloads import Payloads
from joblane.aws.requirements import Requirements
from joblane.aws.secret_store import SecretStore
from joblane.config import Lane
from joblane.head import Head
from tests.support.aws import DESCRIPTOR


def settings(name: str = "agent-1") -> Settings:
    """Settings of one agent of the test deployment."""
    return Settings(
        name=name,
        since_ms=0,
        descriptor=DESCRIPTOR,
        threads=4,
        isolation="namespaces",
        allow_host_network=False,
        drain_s=5,
        fleet=None,
        version="test",
        directory=Path("/nonexistent"),
        state=StateSettings(backend="memory"),
    )


class DirectStore:
    """The state service's records without its process."""

    def __init__(self, backend: Backend | None = None) -> None:
        self.backend = backend or MemoryBackend()

    async def create(self, records: Sequence[Record]) -> list[Result]:
        """See StateClient."""
        return self.write(Verb.CREATE, records)

    def later(self, record: Record) -> bool:
        """See StateClient; here it is at once."""
        self.write(Verb.SYNC, [record])
        return True

    async def list_all(self, kind: str) -> AsyncIterator[Record]:
        """See StateClient."""
        after: str | None = None
        while True:
            page, after = self.backend.list(kind, after, BATCH, time.time())
            for record in page:
                yield record
            if after is None:
                return

    def write(self, verb: Verb, records: Sequence[Record]) -> list[Result]:
        """Do writes."""
        now = time.time()
        return self.backend.write([prepared(verb, record, now) for record in records], now)


class Prompt(Journal):
    """A journal whose outcomes are delivered when `put` returns: these parts run by hand."""

    async def put(self, finished: Finished) -> None:
        """Store and deliver."""
        await super().put(finished)
        await self.flush()


def _nobody() -> None:
    """Tell nobody."""


@functools.cache
def shims() -> Shims:
    """The shims of this process's tests."""
    made = Shims()
    atexit.register(made.close)
    return made


@dataclass
class Parts:
    """Claimer and attempts of one agent, driven by hand."""

    clients: Clients
    launcher: Launcher | None = None
    name: str = "agent-1"
    clock: Callable[[], float] = time.time
    conditions: ConditionStore | None = None
    requirements: Requirements | None = None
    store: Store | None = None
    """Where outcomes are kept; a place of their own if there is none."""
    jobs_dir: Path | None = None

    def __post_init__(self) -> None:
        dynamodb = self.clients.make("dynamodb")
        self.sqs = self.clients.make("sqs")
        self.jobs = JobStore(dynamodb, DESCRIPTOR.jobs_table)
        self.agents = AgentStore(dynamodb, DESCRIPTOR.agents_table)
        self.flight = Flight(self.clock)
        report = Report(
            self.jobs, self.conditions, self.flight, lambda url: LaneQueue(self.sqs, url)
        )
        self.journal = Prompt(self.store or DirectStore(), report, self.clock)
        journal, jobs = self.journal, Jobs(taken=0, started=0)
        self.room = Room(Path("/"), 4, lambda: journal.room, lambda: jobs, time.monotonic, _nobody)
        self.claimer = Claimer(
            settings(self.name),
            Stores(self.jobs, self.agents, self.conditions),
            self.flight,
            self.clock,
        )

    def take_up(self) -> int:
        """Deliver what an earlier life of this agent has left; returns how much that was."""

        async def work() -> int:
            found = await self.journal.recover()
            now_ms = int(self.clock() * 1000)
            jobs = tuple(self.journal.job_ids)
            self.agents.beat(
                AgentRow(self.name, now_ms, now_ms, 1, 0, ("default",), "full", "1", jobs)
            )
            self.journal.resume()
            await self.journal.flush()
            return len(found)

        return asyncio.run(work())

    def receive(self, lane: Lane = "default") -> Held | None:
        """Take one message from a lane."""
        queue = LaneQueue(self.sqs, DESCRIPTOR.lane_url("default", lane))
        dead = LaneQueue(self.sqs, DESCRIPTOR.dead_letter_url("default", lane))
        found = queue.receive(1, 0)
        return Held(queue, dead, "default", found[0], self.clock()) if found else None

    def claim(self, held: Held) -> Head | None:
        """Claim what a message names."""
        self.flight.add(held)
        return asyncio.run(self.claimer.claim(held))

    def keep(self) -> Keep:
        """Shims, and a directory for their jobs."""
        if self.jobs_dir is None:
            self.jobs_dir = Path(tempfile.mkdtemp(prefix="joblane-jobs-"))
            atexit.register(shutil.rmtree, self.jobs_dir, ignore_errors=True)
        return Keep(shims(), self.jobs_dir, lambda: boottime() + 240, self.conditions is not None)

    def attempt(self, head: Head, held: Held) -> Attempt:
        """A claimed job, ready to run in a real sandbox."""
        if self.launcher is None:
            raise ValueError("these parts have no launcher")
        tools = Tools(
            jobs=self.jobs,
            payloads=Payloads(lambda: self.clients.make("s3"), DESCRIPTOR.bucket),
            logs=LogStore(self.clients.make("logs"), DESCRIPTOR.log_group),
            conditions=self.conditions,
            requirements=self.requirements,
            launcher=self.launcher,
            keep=self.keep(),
            secrets=SecretStore(
                self.clients.make("secretsmanager"), self.clients.make("ssm"), DESCRIPTOR.name
            ),
            flight=self.flight,
            journal=self.journal,
            room=self.room,
            retention=DESCRIPTOR.retention,
            clock=self.clock,
            dice=random.Random(1),
        )
        return Attempt(tools, head, held)
