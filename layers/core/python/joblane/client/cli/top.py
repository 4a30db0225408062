"""The command `top`: jobs, agents and queues on one screen."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from joblane.client.answers import rows
from joblane.client.cli import queue_text, terminal
from joblane.client.cli.formats import printable
from joblane.client.cli.live import watch
from joblane.client.cli.options import Json, connect
from joblane.client.cli.tables import screen

commands = typer.Typer()

EVERY_S = 5.0
"""The summary is counted every 5 s, and heartbeats are written every 10 s."""

Fields = Mapping[str, Any]


@commands.command()
def top(
    ctx: typer.Context,
    *,
    once: Annotated[bool, typer.Option("--once", help="Show it once and exit.")] = False,
    json: Json = False,
) -> None:
    """Show jobs by state, agents and queues, refreshed every 5 s until Ctrl-C.

    Jobs by state are counted, and some seconds old. --json prints a document per line.
    """
    client = connect(ctx)

    def fetch() -> dict[str, Any]:
        return {"summary": client.summary(), "queues": client.queues()}

    if once:
        answer = fetch()
        terminal.show(answer, lambda: _text(answer), as_json=json)
    else:
        watch(fetch, _text, EVERY_S, as_json=json)


def _text(answer: Fields) -> str:
    queues = queue_text.queues_table(rows(answer["queues"]), screen())
    return "\n".join([*_summary(answer["summary"]), "", queues])


def _summary(summary: Fields) -> Iterator[str]:
    """Who asks, the jobs by state, the agents, and limits that are used."""
    caller, agents = summary.get("caller") or {}, summary.get("agents") or {}
    whose = caller.get("tenant") or "all tenants"
    yield printable(f"{summary.get('deployment')} {summary.get('version')}: {whose}")
    jobs = summary.get("jobs")
    if jobs is not None:
        states = [f"{count} {state}" for state, count in (jobs.get("by_state") or {}).items()]
        yield printable(f"jobs    {', '.join(states) or 'none'}")
    more = " or more" if agents.get("more") else ""
    parts = [
        f"{agents.get('alive')}{more} alive",
        f"{agents.get('running')} of {agents.get('slots')} slots in use",
        f"{agents.get('free')} free",
        *(f"{agents[name]} {name}" for name in ("troubled", "cordoned") if agents.get(name)),
    ]
    yield printable(f"agents  {', '.join(parts)}")
    used = [
        f"{limit.get('limit')} {limit['current']} of {limit.get('allowed')}"
        for limit in summary.get("limits") or ()
        if limit.get("current")
    ]
    if used:
        yield printable(f"limits  {', '.join(used)}")
