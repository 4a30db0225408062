"""The command line of `python -m ec2_agent`: run an agent, or report what the host can isolate."""

import argparse
import json
import os
import re
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from ec2_agent.errors import CannotStart
from ec2_agent.sandbox.model import HostReport
from ec2_agent.sandbox.probe import probe
from ec2_agent.settings import PACE, LeaseTimes
from ec2_agent.start import AgentOptions, run_agent
from joblane.deployment.names import AGENT_NAME_PATTERN
from joblane.target.match import parse_labels

EX_UNAVAILABLE = 69
"""sysexits.h: something that the agent needs is missing; stderr says what."""


def main(argv: Sequence[str] | None = None, pace: LeaseTimes = PACE) -> int:
    """Run the command line. Returns the exit code: 0 done, 2 wrong usage, 69 cannot start."""
    parser = make_parser()
    given = vars(parser.parse_args(argv))
    if given.pop("verb") == "doctor":
        return _doctor(as_json=given["json"])
    try:
        given["labels"] = parse_labels(given["labels"])
    except ValueError as error:
        parser.error(f"argument --label: {error}")
    try:
        return run_agent(AgentOptions(**given), pace)
    except CannotStart as error:
        print(f"joblane: {error}", file=sys.stderr)
        return EX_UNAVAILABLE


def _doctor(*, as_json: bool) -> int:
    report = probe()
    if as_json:
        print(json.dumps({"isolation": report.isolation, "features": report.as_json()}))
    else:
        _print_report(report)
    return 0 if report.isolation is not None else EX_UNAVAILABLE


def _print_report(report: HostReport) -> None:
    for feature in report.features:
        mark = "ok     " if feature.available else "missing"
        print(f"{mark}  {feature.name}: {feature.detail}")
        if feature.fix:
            print(f"         to fix: {feature.fix}")
    print(f"best isolation on this host: {report.isolation or 'none'}")


def make_parser() -> argparse.ArgumentParser:
    """Make the parser; docs/reference/configuration.md is generated from it."""
    # Not __doc__: an agent runs without docstrings (decision 1767).
    does = "Run an agent, or report what the host can isolate."
    parser = argparse.ArgumentParser(prog="joblane", description=does)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="verb")
    run = commands.add_parser("run", prog="joblane agent", help="run an agent on this host")
    run.add_argument("--deployment", default="joblane", help="its name in joblane.toml")
    run.add_argument(
        "--config", type=Path, metavar="FILE", help="TOML (docs/reference/agent-protocol.md)"
    )
    run.add_argument(
        "--name",
        type=_agent_name,
        default=re.sub(r"[^a-zA-Z0-9_-]", "-", socket.gethostname())[:40] or "agent",
        help="unique in the deployment (default: the host's name)",
    )
    run.add_argument(
        "--queue",
        dest="queues",
        metavar="QUEUE",
        action="append",
        default=[],
        help="a queue to serve; may be repeated (default: every queue of the deployment)",
    )
    run.add_argument(
        "--label",
        dest="labels",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a label by which targets select this agent, such as group=web.dev; up to five",
    )
    run.add_argument(
        "--threads",
        type=_positive,
        default=os.cpu_count() or 1,
        help="maximum number of jobs that run at once (default: number of CPUs)",
    )
    run.add_argument(
        "--isolation",
        choices=("full", "namespaces"),
        default="full",
        help="full needs cgroup v2, and overlays as root; "
        "namespaces cannot limit memory, CPU and disk",
    )
    run.add_argument(
        "--cgroup",
        type=Path,
        metavar="PATH",
        help="delegated cgroup under which the cgroups of jobs are made (default: the agent's "
        "own); held by a unit of its own, it lets the agent's unit restart while jobs run",
    )
    run.add_argument(
        "--allow-host-network",
        action="store_true",
        help='allow jobs with network "host": they reach everything that the host reaches',
    )
    for name, what in (
        ("allow", "private IPv4 range that jobs with network egress may reach"),
        ("refuse", "public IPv4 range that jobs with network egress may not reach"),
    ):
        run.add_argument(
            f"--egress-{name}",
            action="append",
            default=[],
            metavar="RANGE",
            help=f"{what}; may be repeated",
        )
    run.add_argument(
        "--egress-mbps",
        type=_positive,
        help="megabits a second that a job with network egress may send, and as many that it may "
        "receive (default: no bound)",
    )
    run.add_argument(
        "--max-memory-mb",
        type=_positive,
        help="the most memory of one job, in MiB; a job that asks for more is left to other agents",
    )
    run.add_argument(
        "--work-dir",
        type=Path,
        metavar="DIRECTORY",
        help="directory on the disk for the work directories of jobs with disk_mb (default: "
        "work_dir of --config, or the agent's state directory)",
    )
    run.add_argument(
        "--drain-s",
        type=float,
        default=60.0,
        help="seconds that running jobs may go on after SIGTERM (default: 60)",
    )
    run.add_argument(
        "--fleet",
        help="fleet of joblane.toml that this instance belongs to; a drained agent completes the "
        "lifecycle action of its Auto Scaling group",
    )
    run.add_argument(
        "--idle-s",
        type=_positive,
        help="seconds without a job after which the agent ends its instance; with --fleet "
        "(default: never)",
    )
    run.add_argument(
        "--max-instance-lifetime-days",
        type=_positive,
        help="the agent ends its instance at an age between 90 and 100 percent of this; with "
        "--fleet (default: never)",
    )
    doctor = commands.add_parser(
        "doctor", prog="joblane doctor", help="report what this host can isolate"
    )
    doctor.add_argument("--json", action="store_true", help="print one JSON document")
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
