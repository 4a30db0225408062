"""The commands `agent` and `doctor`, which concern this machine.

Both replace this process with `python -m ec2_agent`, with its arguments, help and exit codes. The
client never imports the agent, which is a wheel of its own.
"""

import os
import sys
from importlib.util import cache_from_source, find_spec
from pathlib import Path

import typer

from joblane.client.cli import exit_codes
from joblane.client.cli.text import terminal

_PASS_ON = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    "allow_interspersed_args": False,
    "help_option_names": [],
}

commands = typer.Typer()


@commands.command(context_settings=_PASS_ON)
def agent(ctx: typer.Context) -> None:
    """Run an agent on this machine."""
    _replace_process("run", ctx.args)


@commands.command(context_settings=_PASS_ON)
def doctor(ctx: typer.Context) -> None:
    """Check what this machine can isolate, and what is missing."""
    _replace_process("doctor", ctx.args)


def _replace_process(command: str, args: list[str]) -> None:
    found = find_spec("ec2_agent")
    if found is None or found.origin is None:
        terminal.note(terminal.NO_AGENT)
        raise typer.Exit(exit_codes.NOT_CONFIGURED)
    # -P: the current directory is not searched for modules; -X no_debug_ranges: 0.4 MB of columns
    # in stack traces; -OO: 2 MB of docstrings, where bytecode without them was installed: otherwise
    # each start would compile everything (decision 1767).
    argv = [sys.executable, "-P", "-X", "no_debug_ranges"]
    argv += ["-OO"] if Path(cache_from_source(found.origin, optimization=2)).exists() else []
    argv += ["-m", "ec2_agent", command, *args]
    try:
        os.execv(sys.executable, argv)  # noqa: S606 - no shell is wanted
    except OSError as error:
        terminal.note(f"cannot start {sys.executable}: {error.strerror}")
        raise typer.Exit(exit_codes.INTERNAL) from error
