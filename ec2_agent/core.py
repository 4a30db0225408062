"""The core of an agent: from polls and the inbox to claimed jobs, and from outcomes to AWS.

It decides who is served, holds the lease, and reports, whatever runs the jobs: the agent gives it
`AttemptRunner`, a test a stand-in.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

from ec2_agent.aws_calls.jobs import ClaimCalls
from ec2_agent.aws_calls.queues import QueueAt
from ec2_agent.host.capacity import HostCapacity, JobCounts
from ec2_agent.host.lacking import LackingHost
from ec2_agent.lanes.claiming import Claimer
from ec2_agent.lanes.intake import Intake
from ec2_agent.lanes.queue_limits import QueueLimits
from ec2_agent.messages.flight import Flight
from ec2_agent.messages.inbox_receipts import InboxReceipts
from ec2_agent.outcomes.journal import Journal, JournalStore, OutcomeRecorder
from ec2_agent.outcomes.report import Report
from ec2_agent.presence.lease import Lease, Load
from ec2_agent.presence.roster import Roster
from ec2_agent.presence.standing import Standing
from ec2_agent.presence.trouble import StateService, describe_trouble
from ec2_agent.retry import Backoff, aws_backoff
from ec2_agent.serving.desk import Desk, Runner
from ec2_agent.serving.disk import Disk
from ec2_agent.serving.offers import Offers
from ec2_agent.serving.prefetch import Prefetch
from ec2_agent.serving.reasons import Reasons
from ec2_agent.serving.slots import UNLIMITED_MB, Memory, Slots
from ec2_agent.serving.waiting_room import WaitingRoom
from ec2_agent.settings import AgentSettings
from joblane.aws.fleet.agents import AgentStore
from joblane.aws.key.keys import KeyStore
from joblane.aws.queue.settings import SettingsStore
from joblane.service.condition.supervisor import ConditionSupervisor
from joblane.state.lease import HostLoad


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of one host, in seconds."""

    unix: Callable[[], float]
    monotonic: Callable[[], float]
    boottime: Callable[[], float]
    """A clock that is never set, and counts while the machine sleeps."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the core of an agent reaches."""

    job_calls: ClaimCalls
    agents: AgentStore
    keys: KeyStore
    conditions: ConditionSupervisor
    settings: SettingsStore
    queue_at: QueueAt
    records: JournalStore
    """Where the journal keeps its outcomes."""
    state: StateService
    clocks: Clocks
    rng: random.Random
    """For the jitter of retries."""
    changed: asyncio.Event
    """Set whenever more jobs may be taken than before."""
    memory_mb: int | None
    """Memory for all jobs, in MiB; None: jobs have no limits."""
    egress_lacks: str | None = None
    """What the host lacks for jobs with network egress."""
    lacks: tuple[str, ...] = ()
    """What no job can have here (`Heartbeat.lacks`)."""
    cores: int | None = None
    """Cores that jobs may name (`Heartbeat.cores`)."""
    backoff: Callable[[], Backoff] = aws_backoff
    disk: Disk | None = None
    """The host's disk; None: it is not limited."""
    host_load: Callable[[], HostLoad | None] = lambda: None
    """Finds how busy the host is; None: it is not known."""
    receipts: InboxReceipts | None = None
    """None: nothing that is held of the inbox survives this process."""


class Core:
    """The parts of one agent that serve and report, without what runs its jobs."""

    def __init__(self, settings: AgentSettings, around: Surroundings) -> None:
        self.settings = settings
        self._around = around
        clock, monotonic = around.clocks.unix, around.clocks.monotonic
        changed = around.changed
        self.flight = flight = Flight(clock, around.queue_at, around.backoff, around.receipts)
        report = Report(around.job_calls, around.conditions, flight)
        self.journal = journal = Journal(around.records, report, clock, around.backoff)
        self.recorder = OutcomeRecorder(journal, settings.descriptor.retention, clock, around.rng)
        self.roster = roster = Roster(journal)
        memory = Memory(around.memory_mb, settings.max_memory_mb)
        self.slots = slots = Slots(memory, changed, around.disk)
        self.capacity = HostCapacity(
            settings.directory,
            settings.threads,
            lambda: journal.room,
            lambda: JobCounts(slots.taken, roster.started),
            monotonic,
            changed.set,
        )
        self.standing = standing = Standing(settings.directory, changed.set)
        self.lease = Lease(
            settings, around.agents, clock, around.clocks.boottime, roster, standing, self._load
        )
        self.limits = QueueLimits(settings, around.settings, changed.set, standing.since_ms)
        self.lacking = LackingHost(monotonic)
        self.offers = Offers(
            settings,
            slots,
            self.capacity,
            self.limits,
            self.lease,
            around.state,
            standing,
            self.lacking,
            WaitingRoom(),
            Prefetch(monotonic),
        )
        self.intake = Intake(
            settings.descriptor, around.queue_at, self.offers.wanted, changed, clock, monotonic
        )

    def serve_with(self, runner: Runner) -> Desk:
        """Make the desk that hands claimed jobs to a runner."""
        around = self._around
        claimer = Claimer(
            self.settings,
            around.job_calls,
            around.agents,
            around.keys,
            around.conditions,
            self.flight,
            around.clocks.unix,
            around.rng,
            self.roster,
        )
        reasons = Reasons(around.job_calls.store)
        return Desk(
            self.offers,
            claimer,
            runner,
            self.recorder,
            reasons,
            self.flight,
            around.clocks.monotonic,
        )

    @property
    def trouble(self) -> str | None:
        """Why the agent takes no jobs, or which outcomes wait; None if nothing is wrong."""
        return describe_trouble(self._around.state, self.capacity, self.journal)

    def _load(self) -> Load:
        """What is in use, for the heartbeat."""
        around = self._around
        lacks = around.egress_lacks
        trouble = describe_trouble(around.state, self.capacity, self.journal, lacks)
        most_mb = self.slots.memory.most_mb
        return Load(
            self.slots.taken_by_queue(),
            self.offers.left,
            trouble,
            around.lacks,
            None if most_mb >= UNLIMITED_MB else most_mb,
            around.cores,
            *self.slots.disk.describe(),
            around.host_load(),
            around.state.pool,
        )
