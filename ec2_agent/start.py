"""Starts an agent: reads its deployment, starts the launcher and the state service, and runs it."""

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import ValidationError

from ec2_agent import configuration
from ec2_agent.agent import Agent
from ec2_agent.calls import AWS_ERRORS
from ec2_agent.compose import Host, Parts
from ec2_agent.errors import CannotStart
from ec2_agent.host import memory
from ec2_agent.host.capacity import raise_descriptor_limit
from ec2_agent.host.clock import Clock
from ec2_agent.host.service_manager import notify_ready
from ec2_agent.jobs.reconnect import ShimUnreachable
from ec2_agent.logging import events
from ec2_agent.logging.standard import begin_log
from ec2_agent.processes import boottime
from ec2_agent.sandbox.disk.space import KEEP_BYTES, KEEP_FILES, DiskSpace
from ec2_agent.sandbox.disk.work_disks import WorkDisks
from ec2_agent.sandbox.launcher import NO_LIMITS, Launcher
from ec2_agent.sandbox.model import EgressPolicy, Isolation, SandboxLimits, SandboxRefused
from ec2_agent.settings import AgentSettings, LeaseTimes
from ec2_agent.shim.pool import Shims
from ec2_agent.state.client import NotReached, StateRefused
from ec2_agent.state.files import StateFiles
from ec2_agent.state.supervisor import StateLocation, StateSupervisor
from joblane.aws.clients import Clients, LazyClients
from joblane.deployment.descriptor import Descriptor
from joblane.deployment.names import descriptor_name
from joblane.fleet.idle import LeavingPolicy, old_at_s
from joblane.job.spec import DEFAULT_MEMORY_MB
from joblane.target.match import check_labels

MOST_READY_SLOTS = 16
"""Sandboxes that are kept ready for the next jobs, however many threads the agent has."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The options of `joblane agent`, by the names of command_line.py, which describes them."""

    deployment: str
    config: Path | None
    name: str
    queues: Sequence[str]
    """Empty: every queue of the deployment."""
    threads: int
    isolation: Isolation
    cgroup: Path | None
    allow_host_network: bool
    egress_allow: Sequence[str]
    egress_refuse: Sequence[str]
    egress_mbps: int | None
    drain_s: float
    fleet: str | None
    max_memory_mb: int | None
    work_dir: Path | None
    labels: Mapping[str, str]
    idle_s: float | None
    max_instance_lifetime_days: int | None


OF_OTHERS = 0o077
"""Permissions that no file of agent, launcher and shims has, as in the agent's unit of systemd."""


def run_agent(options: AgentOptions, pace: LeaseTimes) -> int:
    """Run an agent until it has drained. Returns its exit code. Raises CannotStart."""
    os.umask(OF_OTHERS)
    begin_log()
    memory.share_arena()
    raise_descriptor_limit()
    clock = Clock(time.time, boottime)
    clients = LazyClients()
    settings = _settings(options, clients, clock, pace)
    if options.cgroup is not None and settings.isolation != "full":
        raise CannotStart("--cgroup needs --isolation full: without it jobs have no cgroups")
    space = DiskSpace(settings.directory, keep_bytes=KEEP_BYTES, keep_files=KEEP_FILES)
    launcher = _launcher(options, settings, space)
    for left_out in launcher.etc_left_out:
        events.etc_left_out(left_out)
    with launcher, contextlib.closing(Shims(launcher.shims_cgroup)) as shims:
        launcher.remove_leftovers()
        try:
            host = partial(Host, launcher, bundles_directory(settings), space, shims, clock)
            return asyncio.run(_run(settings, clients, clock, host))
        except ShimUnreachable as silent:
            raise CannotStart(
                f"{silent}; its job ends when its lease does, within 4 minutes"
            ) from None
        except (NotReached, StateRefused) as error:
            raise CannotStart(f"cannot read this agent's journal: {error}") from None
        except AWS_ERRORS as error:
            raise CannotStart(f"cannot announce this agent: {error}") from None


async def _run(
    settings: AgentSettings,
    clients: Clients,
    clock: Clock,
    host: Callable[[StateSupervisor, asyncio.Event], Host],
) -> int:
    """Run an agent and its state service."""
    table = settings.descriptor.agents_table
    place = StateLocation(StateFiles(settings.directory), settings.name, table)
    changed = asyncio.Event()
    supervisor = StateSupervisor(place, settings.state, changed.set)
    await supervisor.start()
    try:
        # It counts from here, where its first heartbeat is next: see `joblane.queue.shares`.
        settings = replace(settings, since_ms=int(clock() * 1000))
        on_ready = partial(notify_ready, os.environ.get("NOTIFY_SOCKET"))
        return await Agent(Parts(settings, clients, host(supervisor, changed)), on_ready).run()
    finally:
        await supervisor.stop()


def _settings(
    options: AgentOptions, clients: Clients, clock: Clock, pace: LeaseTimes
) -> AgentSettings:
    configured = configuration.read(options.config)  # before any call to AWS
    return AgentSettings(
        name=options.name,
        since_ms=0,
        descriptor=_serving(_descriptor(clients, options.deployment, clock), options.queues),
        threads=options.threads,
        isolation=options.isolation,
        drain_s=options.drain_s,
        fleet=options.fleet,
        directory=configuration.state_directory(options.deployment, options.name, os.geteuid()),
        state=configured.state,
        pace=pace,
        max_memory_mb=options.max_memory_mb,
        facts=configured.facts,
        etc=configured.etc,
        work_dir=options.work_dir or configured.work_dir,
        labels=_labels(configured.labels, options.labels),
        leaving=_leaving(options),
    )


def _leaving(options: AgentOptions) -> LeavingPolicy:
    """When the agent ends its instance. Raises CannotStart for options that need a fleet."""
    days = options.max_instance_lifetime_days
    if options.fleet is None:
        if options.idle_s is not None or days is not None:
            raise CannotStart("--idle-s and --max-instance-lifetime-days need --fleet")
        return LeavingPolicy()
    age_s = None if days is None else old_at_s(options.name, days * 86_400.0)
    return LeavingPolicy(options.idle_s, age_s)


def _labels(configured: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The labels of the file and of the command line, which prevails."""
    try:
        return check_labels({**configured, **given})
    except ValueError as error:
        raise CannotStart(f"--label and the file's [labels] together: {error}") from None


def _descriptor(clients: Clients, deployment: str, clock: Clock) -> Descriptor:
    """Read what the deployment's stacks have written for agents; the answer adjusts the clock.

    The client is not kept: an agent seldom needs it again.
    """
    name = descriptor_name(deployment)
    try:
        answer = clients.make("ssm").get_parameter(Name=name)
        clock.adjust(answer)
        return Descriptor.decode(answer["Parameter"]["Value"])
    except ClientError as error:
        if error.response["Error"]["Code"] == "ParameterNotFound":
            raise CannotStart(
                f"SSM has no parameter {name}: is {deployment!r} deployed in this account and "
                "region (`cdk deploy --all`)?"
            ) from None
        raise CannotStart(f"cannot read SSM parameter {name}: {error}") from None
    except BotoCoreError as error:
        raise CannotStart(f"cannot read SSM parameter {name}: {error}") from None
    except ValidationError:
        raise CannotStart(
            f"SSM parameter {name} is of another version of Joblane; "
            "upgrade this agent, or deploy the stacks again"
        ) from None


def _serving(descriptor: Descriptor, queues: Sequence[str]) -> Descriptor:
    """Reduce the descriptor to the queues that this agent serves; none named: all."""
    unknown = [name for name in queues if name not in descriptor.queues]
    if unknown:
        raise CannotStart(
            f"--queue {unknown[0]}: this deployment has {', '.join(descriptor.queues)}"
        )
    served = {name: descriptor.queues[name] for name in queues or descriptor.queues}
    return descriptor.model_copy(update={"queues": served})


def _launcher(options: AgentOptions, settings: AgentSettings, space: DiskSpace) -> Launcher:
    """Lock the state directory, and start the launcher."""
    full = settings.isolation == "full"
    bundles = bundles_directory(settings)
    try:
        configuration.lock_state_directory(settings.directory)
        bundles.mkdir(mode=0o755, exist_ok=True)
        work_dir = settings.work_dir or settings.directory
        return Launcher(
            isolation=settings.isolation,
            slots=min(settings.threads, MOST_READY_SLOTS),
            allow_host_network=options.allow_host_network,
            egress=_egress(options),
            state_dir=settings.directory,
            etc=settings.etc,
            cgroup_parent=options.cgroup,
            bundles=bundles,
            disks=WorkDisks(work_dir, space if space.has(work_dir) else None),
            defaults=SandboxLimits(memory_mb=DEFAULT_MEMORY_MB) if full else NO_LIMITS,
        )
    except OSError as failed:
        raise CannotStart(f"{settings.directory}: {failed.strerror or failed}") from None
    except SandboxRefused as refusal:
        raise CannotStart(f"{refusal.reason}; `joblane doctor` shows this host's report") from None


def bundles_directory(settings: AgentSettings) -> Path:
    """Where the bundles of job types are on this host."""
    return settings.directory / "bundles"


def _egress(options: AgentOptions) -> EgressPolicy | None:
    """The policy, or None on a host that cannot enforce it: jobs with network egress are refused.

    A policy that was asked for is kept, so that the launcher says what the host lacks.
    """
    policy = EgressPolicy(
        allow=tuple(options.egress_allow),
        refuse=tuple(options.egress_refuse),
        jobs=options.threads,
        mbps=options.egress_mbps,
    )
    enforceable = os.geteuid() == 0 and shutil.which("nft") is not None
    return policy if enforceable or policy != EgressPolicy(jobs=options.threads) else None
