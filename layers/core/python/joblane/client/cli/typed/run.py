"""The command `types run`: one job of a handler in a sandbox here, without a deployment."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

import typer

from joblane.client.cli import exit_codes
from joblane.client.cli.signals import Terminated
from joblane.client.cli.text import terminal

_ARCHITECTURES = {"aarch64": "arm64", "x86_64": "x86_64"}


def run(
    entry: Annotated[
        str,
        typer.Argument(metavar="PACKAGE:FUNCTION", help="The handler, such as shop.jobs:sync."),
    ],
    *,
    params: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="JSON file with the params; - reads standard input.",
            allow_dash=True,
        ),
    ],
    network: Annotated[
        Literal["none", "egress", "host"] | None,
        typer.Option(help="Network of the job, in place of the type's."),
    ] = None,
) -> None:
    """Run a handler once in a sandbox on this machine, without a deployment.

    Builds its bundle as `types push` does, checks the params as the API does, and runs it as an
    agent does. Its output and progress go to standard error, its result to standard output; the
    exit code is the job's.
    """
    # Imported here: pydantic's models take long, and most commands need none.
    from joblane.client.bundles import push as pushing
    from joblane.client.bundles.build import build_bundles
    from joblane.client.bundles.errors import BundleError

    if find_spec("ec2_agent") is None:
        terminal.note(terminal.NO_AGENT)
        raise typer.Exit(exit_codes.NOT_CONFIGURED)
    module, _, function = entry.partition(":")
    if not module or not function:
        raise BundleError(f"{entry} is not a handler: write PACKAGE:FUNCTION")
    text = sys.stdin.read() if str(params) == "-" else _read(params)
    types = {found.entry: found for found in pushing.collect_types(module)}
    if entry not in types:
        raise BundleError(f"{entry} is not a job type; there are: {', '.join(sorted(types))}")
    machine = os.uname().machine
    architecture = _ARCHITECTURES.get(machine)
    if architecture is None:
        raise BundleError(f"there are no bundles for {machine}")
    with TemporaryDirectory(prefix="joblane-run-") as folder:
        (bundle,) = build_bundles(module, [architecture], Path(folder))
        order = {
            "name": types[entry].job_type.name,
            "definition": pushing.definition(types[entry], [bundle]),
            "bundle": str(bundle.path),
            "params": text,
            "network": network,
        }
        file = Path(folder) / "order.json"
        file.write_text(json.dumps(order), encoding="utf-8")
        # -P: the current directory is not searched for modules.
        argv = [sys.executable, "-P", "-m", "ec2_agent.type_run", str(file)]
        child = subprocess.Popen(argv)
        while True:
            try:
                code = child.wait()
                break
            except Terminated:
                child.terminate()
            except KeyboardInterrupt:  # the child has got it as well, and stops the job
                continue
    raise typer.Exit(code if code >= 0 else 128 - code)


def _read(params: Path) -> str:
    from joblane.client.bundles.errors import BundleError

    try:
        return params.read_text(encoding="utf-8")
    except OSError as error:
        raise BundleError(f"{params}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BundleError(f"{params} is not UTF-8") from error
