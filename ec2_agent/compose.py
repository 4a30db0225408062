"""Composes an agent: creates its parts in the order of their dependencies."""

import asyncio
import os
import random
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ec2_agent.attempt.adoption import Adoption
from ec2_agent.attempt.outputs import OutputFiles
from ec2_agent.attempt.preparation import Preparation
from ec2_agent.attempt.run import AttemptParts
from ec2_agent.attempt.typed import JobTypes
from ec2_agent.aws import Aws
from ec2_agent.bundles.cache import BundleCache
from ec2_agent.facts.collecting import FactCollector
from ec2_agent.facts.command import run, sandbox_of
from ec2_agent.facts.host import HostFacts
from ec2_agent.facts.known import KnownFacts
from ec2_agent.facts.publishing import FactPublisher
from ec2_agent.files.cache import FileCache
from ec2_agent.files.inputs import InputFiles
from ec2_agent.files.staging import Stages
from ec2_agent.files.transfers import Transfers
from ec2_agent.host.capacity import Capacity
from ec2_agent.host.clock import Clock
from ec2_agent.host.metadata import Metadata
from ec2_agent.host.processes import boottime
from ec2_agent.jobs.start import JobStarter
from ec2_agent.lanes.ahead import Ahead
from ec2_agent.lanes.claiming import Claimer
from ec2_agent.lanes.intake import Intake
from ec2_agent.lanes.lacking import LackingHost
from ec2_agent.lanes.memory import Memory, MemoryGate
from ec2_agent.lanes.queue_limits import QueueLimits
from ec2_agent.lanes.targeted import TargetedJobs
from ec2_agent.lanes.tenants import TenantGate
from ec2_agent.messages.flight import Flight
from ec2_agent.messages.inbox_receipts import InboxReceipts
from ec2_agent.outcomes.journal import Journal, OutcomeRecorder
from ec2_agent.outcomes.report import Report
from ec2_agent.presence.gates import Gates
from ec2_agent.presence.inbox import Inbox
from ec2_agent.presence.lease import Lease
from ec2_agent.presence.standing import Standing
from ec2_agent.presence.trouble import describe_trouble
from ec2_agent.sandbox.disk.space import DiskSpace
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.scale_in.departure import Departure
from ec2_agent.scale_in.group import Group
from ec2_agent.settings import Settings
from ec2_agent.shim.pool import Shims
from ec2_agent.slots import FreeSlots, Slots, jobs_left
from ec2_agent.state.supervisor import StateSupervisor
from joblane.aws.clients import Clients
from joblane.deployment.names import inbox_name
from joblane.target.fact_command import FactCommand


@dataclass(frozen=True, slots=True)
class Host:
    """What an agent has on its host before its parts are made."""

    launcher: Launcher
    bundles: Path
    """The directory whose bundles the launcher shows to jobs."""
    space: DiskSpace
    """The account of the file system of the agent's directory."""
    shims: Shims
    clock: Clock
    supervisor: StateSupervisor
    """Of a state service that has been started."""
    changed: asyncio.Event
    """Set whenever more jobs may be taken than before."""


class Parts:
    """The parts of one agent."""

    def __init__(self, settings: Settings, clients: Clients, host: Host) -> None:
        descriptor, clock, changed = settings.descriptor, host.clock, host.changed
        self.aws = aws = Aws(descriptor, clients, clock)
        dice = random.Random()
        jobs = settings.directory / "jobs"
        self.settings = settings
        self.host = host
        self.output = aws.output
        receipts = InboxReceipts(settings.directory / "inbox")
        self.flight = flight = Flight(clock, aws.queues.at, receipts=receipts)
        self.claimer = Claimer(
            settings, aws.job_calls, aws.agents, aws.keys, aws.conditions, flight, clock, dice
        )
        report = Report(aws.job_calls, aws.conditions, flight)
        self.journal = journal = Journal(host.supervisor.client, report, clock)
        host.supervisor.client.resync_from(journal.records)
        self.adoption = Adoption(jobs, aws.jobs)
        memory = Memory(host.launcher.memory_mb, settings.max_memory_mb)
        self.gate = MemoryGate(settings.name, memory, aws.jobs, flight)
        self.slots = slots = Slots(self.claimer, journal, self.adoption, changed, memory)
        self.claimer.own_jobs = slots.job_ids
        self.capacity = capacity = Capacity(
            settings.directory,
            settings.threads,
            lambda: journal.room,
            slots.counts,
            time.monotonic,
            changed.set,
        )
        self.standing = standing = Standing(settings.directory, changed.set)
        trouble = partial(describe_trouble, host.supervisor, capacity, journal)
        known_trouble = partial(trouble, host.launcher.egress_lacks)
        self.lease = lease = Lease(
            settings,
            aws.agents,
            clock,
            boottime,
            slots.job_ids,
            slots.progress,
            known_trouble,
            slots.abandon_all,
            slots.renew_all,
            standing,
            slots.tenants,
            partial(jobs_left, capacity, memory),
            slots.taken_by_queue,
        )
        self.limits = QueueLimits(settings, aws.settings, changed.set, standing.since_ms)
        self.tenants = TenantGate(settings.name, self.limits.of_tenant, aws.jobs, flight)
        self.gates = gates = Gates(standing, memory, self.tenants, lease)
        self.free_slots = FreeSlots(
            descriptor.queues, slots, capacity, self.limits, lease, host.supervisor, standing
        )
        self.metadata = Metadata.from_environment()
        known = KnownFacts(settings.facts)

        def run_fact(command: FactCommand) -> bytes:
            spec = sandbox_of(command.command, command.timeout_s, settings.isolation)
            return run(host.launcher, spec)

        self.facts = FactCollector(known, HostFacts(self.metadata), settings.facts, run_fact)
        self.published_facts = FactPublisher(settings.name, aws.facts, known, clock)
        self.targeted = TargetedJobs(self.tenants, aws.jobs, flight, self._obstacle, time.monotonic)
        self.lacking = lacking = LackingHost(flight, time.monotonic)
        files, transfers = settings.directory / "files", Transfers()
        self.attempts = AttemptParts(
            Preparation(
                aws.requirements,
                aws.payloads,
                aws.secrets,
                JobTypes(aws.types, BundleCache(host.bundles, aws.bundles.download, host.space)),
                InputFiles(
                    FileCache(files / "cache", aws.files.download, host.space),
                    Stages(files / "stage"),
                    transfers,
                    host.space,
                    own_users=os.geteuid() == 0,
                ),
                known,
                clock,
            ),
            JobStarter(
                host.launcher,
                host.shims,
                jobs,
                lambda: lease.until,
                capacity,
                descriptor.limits,
                reuse_shims=settings.state.durable,
            ),
            OutcomeRecorder(journal, descriptor.retention, clock, dice),
            aws.output,
            aws.results,
            OutputFiles(aws.output_files, aws.payloads, transfers, descriptor.limits),
            flight,
            lacking,
        )
        self.ahead = Ahead(flight, time.monotonic)
        self.intake = Intake(
            descriptor, aws.queues.at, self._wanted, changed, clock, time.monotonic
        )
        self.inbox = Inbox(aws.sqs, inbox_name(descriptor.name, settings.name), clock)
        self.group = group = Group(aws.autoscaling, aws.autoscaling_once, settings)
        self.departure: Departure | None = None
        """None outside of fleets."""
        if settings.fleet is not None:
            self.departure = Departure(
                settings.leaving,
                group,
                gates,
                self.intake,
                self.free_slots,
                journal,
                self.targeted,
                jobs,
                trouble,
                boottime,
            )

    def _wanted(self) -> dict[str, int]:
        """How many messages are to be received now, by queue."""
        free, ahead = self.free_slots, self.ahead
        return {
            queue: max(0, slots) + (ahead.room(queue) if free.may_receive_ahead(queue) else 0)
            for queue, slots in free.by_queue().items()
        }

    def _obstacle(self, queue: str) -> str:
        """Why no job of a queue starts here now."""
        name, mode = self.settings.name, self.standing.mode
        if mode is not None:
            return f"agent {name} is {mode}"
        taken, most = self.slots.taken(queue), self.limits.of(queue)
        if most <= 0:
            return f"agent {name} has no share of queue {queue} now, or it is paused"
        if taken >= most:
            return f"agent {name} runs {taken} of {most} jobs of queue {queue}"
        return f"agent {name} runs {self.slots.counts().taken} of {self.settings.threads} jobs"
