"""An agent's parts over an AWS in this process, with a real sandbox."""

import asyncio
import functools
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from multiprocessing.util import Finalize
from pathlib import Path

from ec2_agent.attempt.outputs import OutputCollector
from ec2_agent.attempt.preparation import Preparation
from ec2_agent.attempt.run import Attempt, AttemptParts
from ec2_agent.attempt.typed import JobTypes
from ec2_agent.aws_calls.jobs import ClaimCalls
from ec2_agent.aws_calls.queues import Queues
from ec2_agent.bundles.cache import BundleCache
from ec2_agent.facts.known import KnownFacts
from ec2_agent.files.cache import FileCache
from ec2_agent.files.inputs import InputFiles
from ec2_agent.files.staging import Stages
from ec2_agent.files.transfers import Transfers
from ec2_agent.host.capacity import HostCapacity, JobCounts
from ec2_agent.host.lacking import LackingHost
from ec2_agent.jobs.start import JobStarter
from ec2_agent.lanes.claiming import Claimer
from ec2_agent.messages.delivery import Delivery
from ec2_agent.messages.flight import Flight
from ec2_agent.outcomes.journal import Journal, JournalStore, OutcomeRecorder
from ec2_agent.outcomes.record import OutcomeRecord
from ec2_agent.outcomes.report import Report
from ec2_agent.presence.roster import Roster
from ec2_agent.processes import boottime
from ec2_agent.sandbox.disk.space import DiskSpace
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.settings import AgentSettings
from ec2_agent.shim.pool import Shims
from ec2_agent.state.backend import Backend
from ec2_agent.state.memory import MemoryBackend
from ec2_agent.state.records import BATCH, StateRecord, Verb, WriteResult, prepare
from ec2_agent.state.settings import StateSettings
from joblane.aws.clients import Clients
from joblane.aws.condition.requirements import Requirements
from joblane.aws.files.output_store import OutputFileStore
from joblane.aws.files.store import FileStore
from joblane.aws.fleet.agents import AgentStore
from joblane.aws.job.array_values import ArrayValues
from joblane.aws.job.jobs import JobStore
from joblane.aws.job.payload_store import PayloadStore
from joblane.aws.job.result_store import ResultStore
from joblane.aws.job.secret_store import SecretStore
from joblane.aws.key.keys import KeyStore
from joblane.aws.queue.lanes import LaneQueue
from joblane.aws.typed.bundle_downloads import BundleDownloads
from joblane.aws.typed.types import TypeStore
from joblane.deployment.limits import Limits
from joblane.deployment.names import Lane, table_name
from joblane.job.fields import GRACE_S
from joblane.job.head import Head
from joblane.state.lease import Heartbeat
from tests.support.aws import DESCRIPTOR, output_store
from tests.support.recovery import supervisor
from tests.support.temporary import temporary_folder


def settings(name: str = "agent-1") -> AgentSettings:
    """Settings of one agent of the test deployment."""
    return AgentSettings(
        name=name,
        since_ms=0,
        descriptor=DESCRIPTOR,
        threads=4,
        isolation="namespaces",
        drain_s=5,
        fleet=None,
        directory=Path("/nonexistent"),
        state=StateSettings(backend="memory"),
    )


class DirectStore:
    """The state service's records without its process."""

    def __init__(
        self, backend: Backend | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.backend = backend or MemoryBackend()
        self._clock = clock

    async def create(self, records: Sequence[StateRecord]) -> list[WriteResult]:
        """See StateClient."""
        return self.write(Verb.CREATE, records)

    def store_later(self, record: StateRecord) -> bool:
        """See StateClient; stored at once here."""
        self.write(Verb.SYNC, [record])
        return True

    async def list_all(self, kind: str) -> AsyncIterator[StateRecord]:
        """See StateClient."""
        after: str | None = None
        while True:
            page, after = self.backend.list(kind, after, BATCH, self._clock())
            for record in page:
                yield record
            if after is None:
                return

    def write(self, verb: Verb, records: Sequence[StateRecord]) -> list[WriteResult]:
        """Write records."""
        now = self._clock()
        return self.backend.write([prepare(verb, record, now) for record in records], now)


class Prompt(Journal):
    """A journal that has delivered an outcome when `put` returns."""

    async def put(self, outcome: OutcomeRecord) -> None:
        """Store and deliver."""
        await super().put(outcome)
        await self.flush()


def _nobody() -> None:
    """Do nothing."""


@functools.cache
def shims() -> Shims:
    """Shims that the tests of this process share."""
    made = Shims()
    Finalize(None, made.close, exitpriority=0)
    return made


class Fulfilled(Requirements):
    """Every condition that a job requires holds."""

    def __init__(self) -> None:
        """Ask nobody."""

    def find_blocking(self, _conditions: Sequence[str]) -> None:
        """Name none."""


@dataclass
class Parts:
    """The parts of one agent that claim and run jobs, without its loops."""

    clients: Clients
    launcher: Launcher | None = None
    name: str = "agent-1"
    clock: Callable[[], float] = time.time
    store: JournalStore | None = None
    """Of the journal; a new one by default."""
    jobs_dir: Path | None = None
    grace_s: float = GRACE_S
    limits: Limits = Limits()  # noqa: RUF009 - frozen
    bundles: BundleCache | None = None
    """Of the directory whose bundles the launcher shows."""

    def __post_init__(self) -> None:
        dynamodb = self.clients.make("dynamodb")
        self.sqs = self.clients.make("sqs")
        self.facts = KnownFacts()
        self.jobs = JobStore(dynamodb, DESCRIPTOR.jobs_table)
        self.agents = AgentStore(dynamodb, DESCRIPTOR.agents_table)
        self.files = FileStore(lambda: self.clients.make("s3"), DESCRIPTOR.bucket)
        # By the clock of SQS in memory, which stamps the messages.
        self.flight = Flight(time.time, Queues(self.sqs).at)
        self.lacking = LackingHost(time.monotonic)
        calls = ClaimCalls(self.jobs)
        conditions = supervisor(self.clients)
        self.report = Report(calls, conditions, self.flight)
        self.journal = Prompt(self.store or DirectStore(), self.report, self.clock)
        journal, jobs = self.journal, JobCounts(taken=0, started=0)
        self.roster = Roster(journal)
        # Its clock stands still: a pause after a failed start lasts.
        self.capacity = HostCapacity(
            Path("/"), 4, lambda: journal.room, lambda: jobs, lambda: 0.0, _nobody
        )
        self.claimer = Claimer(
            settings(self.name),
            calls,
            self.agents,
            KeyStore(dynamodb, table_name(DESCRIPTOR.name, "keys")),
            conditions,
            self.flight,
            self.clock,
            random.Random(1),
            self.roster,
        )

    def take_up(self) -> int:
        """Deliver the outcomes of an earlier process of this agent; returns how many there were."""

        async def work() -> int:
            found = await self.journal.recover()
            now_ms = int(self.clock() * 1000)
            jobs = tuple(self.journal.job_ids)
            self.agents.beat(
                Heartbeat(self.name, now_ms, now_ms, 1, 0, ("default",), "full", "1", jobs)
            )
            self.journal.resume()
            await self.journal.flush()
            return len(found)

        return asyncio.run(work())

    def _types(self, directory: Path) -> JobTypes:
        downloads = BundleDownloads(lambda: self.clients.make("s3"), DESCRIPTOR.bucket)
        beside = directory.with_name("bundles")
        bundles = self.bundles or BundleCache(beside, downloads.download, DiskSpace(beside))
        types = TypeStore(self.clients.make("dynamodb"), DESCRIPTOR.types_table)
        return JobTypes(types, bundles)

    def _inputs(self, directory: Path) -> InputFiles:
        self.files_dir = directory.with_name("files")
        space = DiskSpace(self.files_dir)
        cache = FileCache(self.files_dir / "cache", self.files.download, space)
        own_users = os.geteuid() == 0
        return InputFiles(
            cache, Stages(self.files_dir / "stage"), Transfers(), space, own_users=own_users
        )

    def receive(self, lane: Lane = "default") -> Delivery | None:
        """Take one message from a lane."""
        url, dead = DESCRIPTOR.lane_url("default", lane), DESCRIPTOR.dead_letter_url
        found = LaneQueue(self.sqs, url).receive(1, 0)
        return Delivery("default", url, dead, found[0], self.clock()) if found else None

    def take(self, lane: Lane = "default") -> Delivery:
        """As `receive`, where there is a message."""
        held = self.receive(lane)
        assert held is not None
        return held

    def claim(self, held: Delivery) -> Head | None:
        """Claim the job that a message names."""
        self.flight.add(held)
        return asyncio.run(self.claimer.claim(held))

    def begin(self) -> Attempt:
        """Take a message, and claim its job; returns the attempt, ready to run."""
        held = self.take()
        head = self.claim(held)
        assert head is not None
        return self.attempt(head, held)

    def attempt(self, head: Head, held: Delivery) -> Attempt:
        """A claimed job, ready to run in a real sandbox."""
        if self.launcher is None:
            raise ValueError("these parts have no launcher")
        if self.jobs_dir is None:
            self.jobs_dir = temporary_folder("jobs") / "jobs"
            self.jobs_dir.mkdir(0o700)
        make = self.clients.make
        values = ArrayValues(make("dynamodb"), DESCRIPTOR.jobs_table)
        parts = AttemptParts(
            Preparation(
                Fulfilled(),
                PayloadStore(lambda: make("s3"), DESCRIPTOR.bucket, values),
                SecretStore(make("secretsmanager"), make("ssm"), DESCRIPTOR.name),
                self._types(self.jobs_dir),
                self._inputs(self.jobs_dir),
                self.facts,
                self.clock,
                self.grace_s,
            ),
            JobStarter(
                self.launcher,
                shims(),
                self.jobs_dir,
                lambda: boottime() + 240,
                self.capacity,
                self.limits,
                reuse_shims=True,
            ),
            OutcomeRecorder(self.journal, DESCRIPTOR.retention, self.clock, random.Random(1)),
            output_store(self.clients, self.clock),
            ResultStore(lambda: make("s3"), DESCRIPTOR.bucket),
            OutputCollector(
                OutputFileStore(lambda: make("s3"), DESCRIPTOR.bucket),
                PayloadStore(lambda: make("s3"), DESCRIPTOR.bucket, values),
                Transfers(),
                self.limits,
            ),
            self.flight,
            self.lacking,
            lambda _head, _held: None,
        )
        return Attempt(parts, head, held)
