"""The verbs about this machine: `agent` and `doctor`.

They are another program's: `python -m ec2_agent` takes this process over, with its arguments,
its help and its exit codes. The client never imports the agent.
"""

import os
import sys

import typer

from client.cli import exits, out

_PASS_ON = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    "allow_interspersed_args": False,
    "help_option_names": [],
}


def agent(ctx: typer.Context) -> None:
    """Run an agent here: take jobs and run them."""
    _become("run", ctx.args)


def doctor(ctx: typer.Context) -> None:
    """Say what this machine can isolate, and what is missing."""
    _become("doctor", ctx.args)


def _become(verb: str, args: list[str]) -> None:
    # -P: a file of the current directory must not be taken for a module of the agent.
    argv = [sys.executable, "-P", "-m", "ec2_agent", verb, *args]
    try:
        os.execv(sys.executable, argv)  # noqa: S606 - no shell is wanted
    except OSError as error:
        out.note(f"cannot start {sys.executable}: {error.strerror}")
        raise typer.Exit(exits.INTERNAL) from error


def add_to(app: typer.Typer) -> None:
    """Register the verbs."""
    for verb in (agent, doctor):
        app.command(verb.__name__, context_settings=_PASS_ON)(verb)
