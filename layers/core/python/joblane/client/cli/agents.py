"""The command `agents`: list agents, show one, drain one."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from joblane.client.answers import rows
from joblane.client.cli import formats, tables, terminal
from joblane.client.cli.options import Json, Reason, ShowByDefault, connect

commands = typer.Typer(
    cls=ShowByDefault, help="List agents, show an agent (joblane agents AGENT), drain an agent."
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
    client = connect(ctx)
    answer = client.agents() if name is None else client.agent(name)
    terminal.show(answer, lambda: _agents(answer) if name is None else _agent(answer), as_json=json)


def _agents(answer: dict[str, Any]) -> str:
    nothing = "no agents; start one on this machine with: joblane agent"
    return tables.records_table(rows(answer), datetime.now(UTC), tables.screen(), nothing)


def _agent(answer: dict[str, Any]) -> str:
    own = {name: value for name, value in answer.items() if name != "jobs"}
    jobs = tables.records_table(
        answer.get("jobs", []), datetime.now(UTC), tables.screen(), "no jobs"
    )
    return f"{formats.record(own)}\n{jobs}"


@commands.command("drain")
def drain(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="AGENT", help="Agent.")],
    *,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Drain an agent: it takes no more jobs and stops.

    Jobs that do not end in time are handed back to the queue. The agent stays stopped until it
    is started again.
    """
    answer = connect(ctx).drain(name, reason=reason)
    said = answer.get("note") or f"{name} is draining"
    terminal.show(answer, lambda: formats.printable(said), as_json=json)
