"""`python -m ec2_agent`: run an agent here, or say what this host can isolate."""

import argparse
import asyncio
import contextlib
import json
import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import ValidationError

from ec2_agent import configuration, memory
from ec2_agent.adoption import Home
from ec2_agent.agent import Agent
from ec2_agent.clock import Clock
from ec2_agent.found import ShimSilent
from ec2_agent.kept import StateTaken, boottime, lock_state
from ec2_agent.log_event import begin_log
from ec2_agent.notices import DEFAULT_ENDPOINT, Metadata
from ec2_agent.room import raise_descriptor_limit
from ec2_agent.sandbox import EgressPolicy, HostReport, Launcher, SandboxRefused, probe
from ec2_agent.settings import PACE, Pace, Settings
from ec2_agent.shim.pool import Shims
from ec2_agent.state.client import NotReached, StateRefused
from ec2_agent.state.files import Files
from ec2_agent.state.keeper import Keeper, Place, StateUnavailable
from joblane import __version__
from joblane.aws.clients import Clients, LazyClients
from joblane.descriptor import Descriptor
from joblane.names import AGENT_NAME_PATTERN, descriptor_name

EX_UNAVAILABLE = 69
"""sysexits.h: something that the agent needs is not there; stderr says what."""


class CannotStart(Exception):
    """The agent cannot take up work; the text says why and what to do."""


def main(argv: Sequence[str] | None = None, pace: Pace = PACE) -> int:
    """Run the command line. Returns the exit code: 0 done, 2 wrong usage, 69 cannot start."""
    options = _parser().parse_args(argv, argparse.Namespace(pace=pace))
    try:
        return int(options.call(options))
    except CannotStart as error:
        print(f"joblane: {error}", file=sys.stderr)  # noqa: T201 - a command line
        return EX_UNAVAILABLE


def _run(options: argparse.Namespace) -> int:
    begin_log()
    memory.save()
    raise_descriptor_limit()
    try:
        configured = configuration.read(options.config)
    except configuration.BadConfiguration as wrong:
        raise CannotStart(str(wrong)) from None
    clock = Clock(time.time, boottime)
    settings = Settings(
        name=options.name,
        since_ms=0,
        descriptor=_serving(_descriptor(options.deployment, clock), options.queue),
        threads=options.threads,
        isolation=options.isolation,
        allow_host_network=options.allow_host_network,
        drain_s=options.drain_s,
        fleet=options.fleet,
        version=__version__,
        directory=configuration.state_directory(options.deployment, options.name),
        state=configured.state,
        pace=options.pace,
    )
    if options.cgroup is not None and settings.isolation != "full":
        raise CannotStart("--cgroup needs --isolation full: without it jobs have no cgroups")
    try:
        lock_state(settings.directory)
        launcher = Launcher(
            isolation=settings.isolation,
            slots=min(settings.threads, 16),
            allow_host_network=settings.allow_host_network,
            egress=_egress(options),
            state_dir=settings.directory,
            cgroup_parent=options.cgroup,
        )
    except StateTaken as taken:
        raise CannotStart(str(taken)) from None
    except OSError as failed:
        raise CannotStart(f"{settings.directory}: {failed.strerror or failed}") from None
    except SandboxRefused as refusal:
        raise CannotStart(f"{refusal.reason}; `joblane doctor` shows this host's report") from None
    shims = Shims(launcher.shims_cgroup)
    home = Home(launcher, shims, settings.directory / "jobs", clock)
    with launcher, contextlib.closing(shims):
        launcher.remove_leftovers()
        try:
            return asyncio.run(_work(settings, home))
        except StateUnavailable as error:
            raise CannotStart(str(error)) from None
        except ShimSilent as silent:
            raise CannotStart(
                f"{silent}; its job ends when its lease does, within 4 minutes"
            ) from None
        except (NotReached, StateRefused) as error:
            raise CannotStart(f"cannot read this agent's journal: {error}") from None
        except (BotoCoreError, ClientError) as error:
            raise CannotStart(f"cannot announce this agent: {error}") from None


async def _work(settings: Settings, home: Home) -> int:
    """Be an agent while there is a state service."""
    table = settings.descriptor.agents_table
    keeper = Keeper(Place(Files(settings.directory), settings.name, table), settings.state)
    await keeper.start()
    try:
        # It counts from here, where its first heartbeat is next: see `joblane.shares`.
        settings = replace(settings, since_ms=int(home.clock() * 1000))
        return await Agent(settings, LazyClients(), home, keeper, _metadata()).run()
    finally:
        await keeper.stop()


def _metadata() -> Metadata | None:
    """The instance metadata service, by the environment variables that AWS's own tools read."""
    if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return None
    return Metadata(os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or DEFAULT_ENDPOINT)


def _descriptor(deployment: str, clock: Clock) -> Descriptor:
    """Read what the deployment's stacks wrote for its agents, and what time it is there.

    The client goes with its session: an agent seldom needs it again.
    """
    name = descriptor_name(deployment)
    try:
        answer = Clients().make("ssm").get_parameter(Name=name)
        clock.hear(answer)
        return Descriptor.model_validate_json(answer["Parameter"]["Value"])
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
    """Leave of the descriptor what this agent serves; none named means every queue."""
    unknown = [name for name in queues if name not in descriptor.queues]
    if unknown:
        raise CannotStart(
            f"--queue {unknown[0]}: this deployment has {', '.join(descriptor.queues)}"
        )
    served = {name: descriptor.queues[name] for name in queues or descriptor.queues}
    return descriptor.model_copy(update={"queues": served})


def _egress(options: argparse.Namespace) -> EgressPolicy | None:
    """The policy for jobs with network egress; None where this host has nothing to hold it.

    Such jobs are refused there; whoever names ranges wants them, and is told what is missing.
    """
    policy = EgressPolicy(tuple(options.egress_allow), tuple(options.egress_refuse))
    can = os.geteuid() == 0 and shutil.which("nft") is not None
    return policy if can or policy != EgressPolicy() else None


def _doctor(options: argparse.Namespace) -> int:
    report = probe()
    if options.json:
        print(json.dumps({"isolation": report.isolation, "features": report.as_json()}))  # noqa: T201
    else:
        _show(report)
    return 0 if report.isolation is not None else EX_UNAVAILABLE


def _show(report: HostReport) -> None:
    for feature in report.features:
        mark = "ok     " if feature.available else "missing"
        print(f"{mark}  {feature.name}: {feature.detail}")  # noqa: T201
        if feature.fix:
            print(f"         to get it: {feature.fix}")  # noqa: T201
    print(f"isolation that an agent can have here: {report.isolation or 'none'}")  # noqa: T201


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="joblane", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", prog="joblane agent", help="run an agent on this host")
    run.add_argument("--deployment", default="joblane", help="its name in joblane.toml")
    run.add_argument("--config", type=Path, metavar="FILE", help="TOML (docs/PROTOCOL.md)")
    run.add_argument(
        "--name",
        type=_agent_name,
        default=re.sub(r"[^a-zA-Z0-9_-]", "-", socket.gethostname())[:40] or "agent",
        help="unique in the deployment (default: the host's name)",
    )
    run.add_argument(
        "--queue",
        action="append",
        default=[],
        help="a queue to serve, once each (default: all of the deployment)",
    )
    run.add_argument(
        "--threads",
        type=_positive,
        default=os.cpu_count() or 1,
        help="jobs at once (default: cores)",
    )
    run.add_argument(
        "--isolation",
        choices=("full", "namespaces"),
        default="full",
        help="full needs cgroup v2; namespaces cannot limit memory, CPU and disk",
    )
    run.add_argument(
        "--cgroup",
        type=Path,
        metavar="PATH",
        help="the delegated cgroup below which jobs get theirs (default: the agent's own). A unit "
        "of its own holds it, so that the agent's can restart while jobs run",
    )
    run.add_argument(
        "--allow-host-network",
        action="store_true",
        help="let jobs ask for the host's network: they reach all that the host reaches",
    )
    for name, what in (
        ("allow", "a private one that they may reach"),
        ("refuse", "a public one that they may not"),
    ):
        run.add_argument(
            f"--egress-{name}",
            action="append",
            default=[],
            metavar="RANGE",
            help=f"IPv4 range for jobs with network egress: {what}",
        )
    run.add_argument(
        "--drain-s",
        type=float,
        default=60.0,
        help="seconds that running jobs may go on after SIGTERM (default: 60)",
    )
    run.add_argument(
        "--fleet",
        help="the fleet that this instance belongs to: its Auto Scaling group is told when the "
        "agent has left",
    )
    run.set_defaults(call=_run)
    doctor = commands.add_parser(
        "doctor", prog="joblane doctor", help="what this host can isolate, and what is missing"
    )
    doctor.add_argument("--json", action="store_true", help="one JSON document")
    doctor.set_defaults(call=_doctor)
    return parser


def _agent_name(text: str) -> str:
    if not re.match(AGENT_NAME_PATTERN, text):
        raise argparse.ArgumentTypeError(f"must match {AGENT_NAME_PATTERN}")
    return text


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError("must be a whole number of at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
