r"""Completion of states, queues, types, labels and ids, and the command that prints its script.

What only the API knows is asked for with a short limit of time; without an answer there is nothing
to complete, and nothing is printed.

A shell evaluates what it is offered, the help beside a value too: zsh ran `\$(id)` of a job's name
when somebody pressed TAB. So no free text is offered, and no value with a character that any
shell reads as more than itself.
"""

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from joblane.client.cli.text import terminal
from joblane.client.cli.text.formats import age
from joblane.state.lifecycle import State

if TYPE_CHECKING:
    from joblane.client.clients import Client

Found: TypeAlias = list[tuple[str, str]]
"""Values with what a shell shows beside them."""

TIMEOUT_S = 1.5
"""Seconds that a person waits for a completion at most, without JOBLANE_COMPLETION_S."""

MOST_S = 60.0
"""The longest time of JOBLANE_COMPLETION_S."""

HARMLESS = re.compile(r"[A-Za-z0-9_.=:@/+-]+")
"""What no shell reads as more than it is: names, labels, ids and states are of it."""

NEWEST = 50
"""Jobs that are offered, and looked at for labels."""

commands = typer.Typer()


def states(incomplete: str) -> list[str]:
    """States of jobs."""
    return [state for state in State if state.startswith(incomplete.lower())]


def queues(ctx: typer.Context, incomplete: str) -> Found:
    """Queues that the caller may use."""
    return _ask(ctx, incomplete, lambda api: ((q.name, "") for q in api.queues().entries))


def types(ctx: typer.Context, incomplete: str) -> Found:
    """Job types."""
    return _ask(ctx, incomplete, lambda api: ((t.type, "") for t in api.types().entries))


def schedules(ctx: typer.Context, incomplete: str) -> Found:
    """Schedules."""
    return _ask(ctx, incomplete, lambda api: ((s.name, "") for s in api.schedules.page().entries))


def labels(ctx: typer.Context, incomplete: str) -> Found:
    """Labels of the newest jobs."""

    def ask(api: "Client") -> Iterable[tuple[str, str]]:
        for job in api.list_page(limit=NEWEST).entries:
            for key, value in (job.labels or {}).items():
                yield f"{key}={value}", ""

    return _ask(ctx, incomplete, ask)


def job_ids(ctx: typer.Context, incomplete: str) -> Found:
    """The newest jobs, with their states and ages."""

    def ask(api: "Client") -> Iterable[tuple[str, str]]:
        now = datetime.now(UTC)
        for job in api.list_page(limit=NEWEST).entries:
            if HARMLESS.fullmatch(job.state):
                yield job.id, f"{job.state} {age(job.created_at, now)}"

    return _ask(ctx, incomplete.upper(), ask)


def _ask(
    ctx: typer.Context, incomplete: str, ask: Callable[["Client"], Iterable[tuple[str, str]]]
) -> Found:
    """Ask the API in a thread, which is left behind when time is up."""
    found: Found = []

    def run() -> None:
        with suppress(Exception):  # whatever it is, a shell has no place to show it
            from joblane.client.clients import Client
            from joblane.client.profiles import find_endpoint

            given = ctx.find_root().params
            endpoint = find_endpoint(given.get("url"), given.get("token"), given.get("profile"))
            with Client.from_endpoint(endpoint) as client:
                found.extend(ask(client))

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_s(os.environ.get("JOBLANE_COMPLETION_S", "")))
    return list(
        dict.fromkeys(
            (value, shown)
            for value, shown in found[:]
            if value.startswith(incomplete) and HARMLESS.fullmatch(value)
        )
    )


def limit_s(told: str) -> float:
    """The seconds of JOBLANE_COMPLETION_S; a value that is none has no place to be reported."""
    try:
        told_s = float(told)
    except ValueError:
        return TIMEOUT_S
    return told_s if 0 <= told_s <= MOST_S else TIMEOUT_S


@commands.command("completion")
def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")
    ],
) -> None:
    """Print the script that completes commands, options, states, queues, labels and ids in a shell.

    For bash, put `eval "$(joblane completion bash)"` into ~/.bashrc; for zsh, the same with zsh
    into ~/.zshrc after compinit; for fish, save it as ~/.config/fish/completions/joblane.fish.
    """
    from typer._completion_shared import get_completion_script  # few print it

    terminal.text(
        get_completion_script(prog_name="joblane", complete_var="_JOBLANE_COMPLETE", shell=shell)
    )
