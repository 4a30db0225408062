"""The command `agents`: list agents, show one, drain one."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from joblane.client.answers import rows
from joblane.client.cli import formats, job_text, tables, terminal
from joblane.client.cli.default_command import ShowByDefault
from joblane.client.cli.options import Json, Reason
from joblane.client.cli.read import screen

commands = typer.Typer(
    cls=ShowByDefault,
    help="List agents, show an agent (joblane agents AGENT), drain an agent.",
    rich_markup_mode=None,
)


@commands.command("show")
def show(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[AGENT]", help="Show this agent and its running jobs.")
    ] = None,
    *,
    json: Json = False,
) -> None:
    """List agents with a recent heartbeat, or show an agent and its running jobs."""
    with ctx.obj.connect() as client:
        answer = client.agents() if name is None else client.agent(name)
    if json:
        terminal.document(answer)
    elif name is None:
        nothing = "no agents; start one on this machine with: joblane agent"
        terminal.text(tables.records_table(rows(answer), datetime.now(UTC), screen(), nothing))
    else:
        running = answer.pop("jobs", [])
        for field, value in answer.items():
            terminal.text(f"{field:<12} {formats.printable(value)}")
        terminal.text(job_text.jobs_table(running, datetime.now(UTC), screen()))


@commands.command("drain")
def drain(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="AGENT", help="Agent.", show_default=False)],
    *,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Drain an agent: it takes no more jobs and stops.

    Jobs that do not end in time are handed back to the queue. The agent stays stopped until it
    is started again.
    """
    with ctx.obj.connect() as client:
        answer = client.drain(name, reason=reason)
    if json:
        terminal.document(answer)
    else:
        terminal.text(formats.printable(answer.get("note") or f"{name} is draining"))


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.add_typer(commands, name="agents")
