"""Composes an agent: creates its parts in the order of their dependencies."""

import asyncio
import random
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ec2_agent.attempt.preparation import Preparation
from ec2_agent.attempt.run import AttemptFactory
from ec2_agent.aws import make_aws
from ec2_agent.host.capacity import Capacity
from ec2_agent.host.clock import Clock
from ec2_agent.host.group import Group
from ec2_agent.host.metadata import Metadata
from ec2_agent.host.processes import boottime
from ec2_agent.jobs.adoption import Adoption
from ec2_agent.jobs.start import JobStarter
from ec2_agent.lanes.claiming import Claimer, Stores
from ec2_agent.lanes.flight import Flight
from ec2_agent.lanes.intake import Intake
from ec2_agent.lanes.queue_limits import QueueLimits
from ec2_agent.outcomes.journal import Journal
from ec2_agent.outcomes.recorder import OutcomeRecorder
from ec2_agent.outcomes.report import Report
from ec2_agent.presence.inbox import Inbox
from ec2_agent.presence.lease import Lease
from ec2_agent.presence.trouble import describe_trouble
from ec2_agent.sandbox import Launcher
from ec2_agent.settings import Settings
from ec2_agent.shim.pool import Shims
from ec2_agent.slots import FreeSlots, Slots
from ec2_agent.state.supervisor import StateSupervisor
from joblane.aws.clients import Clients
from joblane.aws.lanes import LaneQueue
from joblane.aws.logs import LogStore
from joblane.deployment.names import inbox_name


@dataclass(frozen=True, slots=True)
class Host:
    """What an agent has on its host before its parts are made."""

    launcher: Launcher
    shims: Shims
    jobs: Path
    """The directory of job directories."""
    clock: Clock
    supervisor: StateSupervisor
    """Of a state service that has been started."""
    changed: asyncio.Event
    """Set whenever more jobs may be taken than before."""
    metadata: Metadata | None
    """None: notices of the instance's end are not looked for."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one agent."""

    settings: Settings
    host: Host
    flight: Flight
    claimer: Claimer
    journal: Journal
    adoption: Adoption
    slots: Slots
    capacity: Capacity
    lease: Lease
    limits: QueueLimits
    free_slots: FreeSlots
    attempts: AttemptFactory
    logs: LogStore
    intake: Intake
    inbox: Inbox
    group: Group


def compose(settings: Settings, clients: Clients, host: Host) -> Parts:
    """Make the parts of one agent."""
    descriptor, clock, changed = settings.descriptor, host.clock, host.changed
    aws = make_aws(descriptor, clients, clock)
    flight = Flight(clock, partial(LaneQueue, aws.sqs))
    dice = random.Random()  # noqa: S311 - jitter, not a secret
    stores = Stores(aws.jobs, aws.agents, aws.conditions)
    claimer = Claimer(settings, stores, flight, clock, dice)
    report = Report(aws.jobs, aws.conditions, flight)
    journal = Journal(host.supervisor.client, report, clock)
    host.supervisor.client.resync_from(journal.records)
    adoption = Adoption(host.jobs, aws.jobs)
    slots = Slots(claimer, journal, adoption, changed)
    capacity = Capacity(
        settings.directory,
        settings.threads,
        lambda: journal.room,
        slots.counts,
        time.monotonic,
        changed.set,
    )
    lease = Lease(
        settings,
        aws.agents,
        clock,
        boottime,
        slots.job_ids,
        partial(describe_trouble, host.supervisor, capacity, journal),
        slots.abandon_all,
        slots.renew_all,
    )
    limits = QueueLimits(settings, aws.settings, changed.set)
    free_slots = FreeSlots(descriptor.queues, slots, capacity, limits, lease, host.supervisor)
    recovery = aws.conditions is not None
    attempts = AttemptFactory(
        Preparation(aws.requirements, aws.payloads, aws.secrets, clock),
        JobStarter(host.launcher, host.shims, host.jobs, lambda: lease.until, recovery, capacity),
        OutcomeRecorder(journal, descriptor.retention, clock, dice),
        aws.logs,
        flight,
        recovery,
    )
    return Parts(
        settings=settings,
        host=host,
        flight=flight,
        claimer=claimer,
        journal=journal,
        adoption=adoption,
        slots=slots,
        capacity=capacity,
        lease=lease,
        limits=limits,
        free_slots=free_slots,
        attempts=attempts,
        logs=aws.logs,
        intake=Intake(
            aws.lane_pairs(descriptor), free_slots.by_queue, changed, clock, time.monotonic
        ),
        inbox=Inbox(aws.sqs, inbox_name(descriptor.name, settings.name)),
        group=Group(aws.autoscaling, settings),
    )
