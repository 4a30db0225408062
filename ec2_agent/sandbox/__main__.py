"""`python -m ec2_agent.sandbox run [limits] -- CMD`: run a command in a sandbox, without AWS.

Exits with the command's exit code, 128 + n for signal n, 124 after a timeout, 125 if the sandbox
was refused. With --json the ending and the usage are printed to standard output as one line, and
all output of the command to standard error.
"""

import argparse
import dataclasses
import json
import os
import signal
import sys
import threading
from pathlib import Path

from ec2_agent.sandbox.disk.work_disks import WorkDisks
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import EgressPolicy, Ending, SandboxLimits, SandboxRefused, Spec
from ec2_agent.sandbox.output_pipe import make_output_pipe
from ec2_agent.sandbox.probe import probe

_TIMED_OUT, _REFUSED, _SIGNALLED = 124, 125, 128


def main() -> int:
    """Parse the command line and run the subcommand."""
    arguments = _parser().parse_args()
    if arguments.action == "probe":
        print(json.dumps(probe().as_json(), indent=2))
        return 0
    try:
        ending = run(arguments)
    except SandboxRefused as refused:
        print(f"refused: {refused.reason}", file=sys.stderr)
        return _REFUSED
    if arguments.json:
        print(json.dumps(ending.encode()))
    elif ending.error:
        print(ending.error, file=sys.stderr)
    if ending.timed_out:
        return _TIMED_OUT
    if ending.exit_code is not None:
        return ending.exit_code
    return _SIGNALLED + (ending.signal or 0)


def run(arguments: argparse.Namespace) -> Ending:
    """Run the command to its end, and forward its output."""
    spec = Spec(
        argv=tuple(arguments.command),
        env=dict(arguments.env),
        limits=SandboxLimits(
            **{f.name: getattr(arguments, f.name) for f in dataclasses.fields(SandboxLimits)}
        ),
        network=arguments.network,
        timeout_s=arguments.timeout_s,
        grace_s=arguments.grace_s,
        bundle=arguments.bundle.name if arguments.bundle else None,
    )
    disks = None if arguments.disk_mb is None else WorkDisks(arguments.work_dir)
    with Launcher(
        isolation=arguments.isolation,
        slots=0,
        allow_host_network=True,
        egress=EgressPolicy() if arguments.network == "egress" else None,
        programs=tuple(arguments.programs),
        bundles=arguments.bundle.parent if arguments.bundle else None,
        disks=disks,
    ) as launcher:
        read_out, write_out = make_output_pipe()
        read_err, write_err = make_output_pipe()
        sandbox = launcher.start(spec, stdout=write_out, stderr=write_err)
        os.close(write_out)
        os.close(write_err)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: sandbox.stop(arguments.grace_s))
        readers = [
            threading.Thread(target=_forward, args=ends)
            for ends in ((read_out, 2 if arguments.json else 1), (read_err, 2))
        ]
        for reader in readers:
            reader.start()
        ending = sandbox.wait()
        for reader in readers:
            reader.join()
        return ending


def _forward(source: int, target: int) -> None:
    """Copy the output, until no process of the job is left."""
    with open(source, "rb", 0) as pipe, open(target, "wb", closefd=False) as sink:
        while chunk := pipe.read(65536):
            sink.write(chunk)
            sink.flush()


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ec2_agent.sandbox", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("probe", help="print as JSON which isolation this host supports")
    run_ = actions.add_parser("run", help="run a command in a sandbox")
    run_.add_argument("--isolation", choices=("full", "namespaces"), default="full")
    run_.add_argument("--network", choices=("none", "egress", "host"), default="none")
    for whole in ("--memory-mb", "--pids", "--io-bps", "--tmp-mb", "--disk-mb"):
        run_.add_argument(whole, type=int)
    run_.add_argument("--cpus", type=float)
    run_.add_argument("--cores")
    run_.add_argument("--timeout-s", type=float)
    run_.add_argument("--grace-s", type=float, default=10.0)
    run_.add_argument("--env", type=_variable, action="append", default=[], metavar="NAME=VALUE")
    run_.add_argument("--programs", type=Path, action="append", default=[], metavar="DIRECTORY")
    run_.add_argument("--bundle", type=Path, metavar="DIRECTORY", help="at /opt/joblane/type")
    run_.add_argument("--work-dir", type=Path, default="/var/tmp", help="where disks are made")  # noqa: S108 - the host's
    run_.add_argument("--json", action="store_true", help="print the ending and usage as JSON")
    run_.add_argument("command", nargs="+")
    return parser


if __name__ == "__main__":
    sys.exit(main())
