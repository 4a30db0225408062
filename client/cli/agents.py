"""The verb `agents`: who works, on what, and asking one to leave."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from client import render
from client.cli import out
from client.cli.change import Why
from client.cli.groups import ShowByDefault
from client.cli.read import screen
from client.cli.submit import Json
from client.wire import rows

verbs = typer.Typer(
    cls=ShowByDefault,
    help="Who works: joblane agents [AGENT]. Have one leave.",
    rich_markup_mode=None,
)


@verbs.command("show")
def show(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[AGENT]", help="Show this agent and what it runs.")
    ] = None,
    *,
    json: Json = False,
) -> None:
    """List the agents that reported lately, or show one and the jobs that it runs."""
    with ctx.obj.connect() as client:
        answer = client.agents() if name is None else client.agent(name)
    if json:
        out.document(answer)
    elif name is None:
        nothing = "no agents; start one here with: joblane agent"
        out.text(render.things(rows(answer), datetime.now(UTC), screen(), nothing))
    else:
        running = answer.pop("jobs", [])
        for field, value in answer.items():
            out.text(f"{field:<12} {render.printable(value)}")
        out.text(render.jobs(running, datetime.now(UTC), screen()))


@verbs.command("drain")
def drain(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="AGENT", help="Agent.", show_default=False)],
    *,
    reason: Why = None,
    json: Json = False,
) -> None:
    """Have an agent leave: it takes no more jobs, and hands back what does not end in time.

    It stays away until it is started again.
    """
    with ctx.obj.connect() as client:
        answer = client.drain(name, reason=reason)
    if json:
        out.document(answer)
    else:
        out.text(render.printable(answer.get("note") or f"{name} leaves"))


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.add_typer(verbs, name="agents")
