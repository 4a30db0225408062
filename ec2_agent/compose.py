"""Composes an agent: creates its parts in the order of their dependencies."""

import asyncio
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path

from ec2_agent.attempt.adoption import Adoption
from ec2_agent.attempt.outputs import OutputCollector
from ec2_agent.attempt.preparation import Preparation
from ec2_agent.attempt.run import AttemptParts
from ec2_agent.attempt.runner import AttemptRunner
from ec2_agent.attempt.typed import JobTypes
from ec2_agent.aws import Aws
from ec2_agent.bundles.cache import BundleCache
from ec2_agent.core import Clocks, Core, Surroundings
from ec2_agent.facts.collecting import FactCollector
from ec2_agent.facts.command import run, sandbox_of
from ec2_agent.facts.host import HostFacts
from ec2_agent.facts.host_command import run_on_host
from ec2_agent.facts.known import KnownFacts
from ec2_agent.facts.publishing import FactPublisher
from ec2_agent.files.cache import FileCache
from ec2_agent.files.inputs import InputFiles
from ec2_agent.files.staging import Stages
from ec2_agent.files.transfers import Transfers
from ec2_agent.host.clock import Clock
from ec2_agent.host.load import read_load
from ec2_agent.host.metadata import Metadata
from ec2_agent.jobs.start import JobStarter
from ec2_agent.messages.inbox_receipts import InboxReceipts
from ec2_agent.presence.inbox import Inbox
from ec2_agent.processes import boottime
from ec2_agent.sandbox.disk.space import DiskSpace
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.scale_in.group import AutoScalingInstance
from ec2_agent.scale_in.scale_in import ScaleIn
from ec2_agent.serving.disk import disk_of
from ec2_agent.settings import AgentSettings
from ec2_agent.shim.pool import Shims
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


class Parts(Core):
    """The parts of one agent."""

    def __init__(self, settings: AgentSettings, clients: Clients, host: Host) -> None:
        descriptor, clock = settings.descriptor, host.clock
        self.aws = aws = Aws(descriptor, clients, clock)
        around = Surroundings(
            aws.job_calls,
            aws.agents,
            aws.keys,
            aws.conditions,
            aws.settings,
            aws.queues.at,
            host.supervisor.client,
            host.supervisor,
            Clocks(clock, time.monotonic, boottime),
            random.Random(),
            host.changed,
            host.launcher.memory_mb,
            host.launcher.egress_lacks,
            host.launcher.lacks,
            host.launcher.cores,
            disk=disk_of(host.space, host.launcher.disks, time.monotonic),
            host_load=read_load,
            receipts=InboxReceipts(settings.directory / "inbox"),
        )
        super().__init__(settings, around)
        host.supervisor.client.resync_from(self.journal.records)
        jobs = settings.directory / "jobs"
        self.host = host
        self.output = aws.output
        self.adoption = Adoption(jobs, aws.jobs, self.roster)
        self.metadata = Metadata.from_environment()
        known = KnownFacts(settings.facts)

        def run_fact(command: FactCommand) -> bytes:
            if command.host:
                return run_on_host(command.command, command.timeout_s)
            spec = sandbox_of(command.command, command.timeout_s, settings.isolation)
            return run(host.launcher, spec)

        self.facts = FactCollector(known, HostFacts(self.metadata), settings.facts, run_fact)
        self.published_facts = FactPublisher(settings.name, aws.facts, known, clock)
        files, transfers = settings.directory / "files", Transfers()
        attempts = AttemptParts(
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
                lambda: self.lease.until,
                self.capacity,
                descriptor.limits,
                reuse_shims=settings.state.durable,
            ),
            self.recorder,
            aws.output,
            aws.results,
            OutputCollector(aws.output_files, aws.payloads, transfers, descriptor.limits),
            self.flight,
            self.lacking,
            self.slots.note_started,
        )
        self.runner = AttemptRunner(attempts, self.roster, self.lease)
        self.desk = desk = self.serve_with(self.runner)
        self.inbox = Inbox(aws.sqs, inbox_name(descriptor.name, settings.name), clock)
        self.group = group = AutoScalingInstance(aws.autoscaling, aws.autoscaling_once, settings)
        self.scale_in: ScaleIn | None = None
        """None outside of fleets."""
        if settings.fleet is not None:
            self.scale_in = ScaleIn(
                settings.leaving,
                group,
                self.standing,
                self.lease,
                self.intake,
                desk,
                self.journal,
                jobs,
                lambda: self.trouble,
                boottime,
            )
