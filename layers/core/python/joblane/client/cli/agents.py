"""The command `agents`: list agents, show one with its facts, drain or cordon one."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import typer

from joblane.client.cli import times
from joblane.client.cli.job.read import show_page
from joblane.client.cli.options import Json, Next, Reason, ShowByDefault, connect, limit_of
from joblane.client.cli.text import formats, tables, terminal

NOBODY = "no agents; start one on this machine with: joblane agent"

commands = typer.Typer(
    cls=ShowByDefault,
    help="List agents, show an agent (joblane agents AGENT) with its facts, drain, cordon or "
    "uncordon an agent, set its log level.",
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
    answer = (client.agents() if name is None else client.agent(name)).model_dump()
    if name is None:
        show_page(answer, _row, "agents", NOBODY, as_json=json)
    else:
        terminal.show(answer, lambda: _agent(answer), as_json=json)


@commands.command("ls")
def ls(
    ctx: typer.Context,
    *,
    fact: Annotated[
        list[str] | None,
        typer.Option("--fact", metavar="FACT", help="Show this fact of each; may be repeated."),
    ] = None,
    limit: Annotated[int, limit_of("agents", most=100)] = 100,
    after: Next = None,
    json: Json = False,
) -> None:
    """List agents with a recent heartbeat, with a column for each --fact."""
    wanted = tuple(fact or ())
    page = connect(ctx).agents(facts=wanted, limit=limit, cursor=after).model_dump()
    show_page(page, lambda entry: _row(entry, wanted), "agents", NOBODY, as_json=json)


@commands.command("get")
def get(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="AGENT", help="Agent.")],
    *,
    json: Json = False,
) -> None:
    """Show an agent: its state, facts, connections to its state service, and running jobs."""
    answer = connect(ctx).agent(name).model_dump()
    terminal.show(answer, lambda: _agent(answer), as_json=json)


def _row(entry: dict[str, Any], wanted: Sequence[str] = ()) -> dict[str, Any]:
    """Columns of the table; a fact whose name is that of a field has its column beside it."""
    facts = entry.get("facts")
    known = facts if isinstance(facts, dict) else {}
    row = {name: value for name, value in entry.items() if name != "facts"}
    return row | {f"fact {name}" if name in row else name: known.get(name) for name in wanted}


def _agent(answer: dict[str, Any]) -> str:
    apart = {"facts", "jobs", "state_pool"}
    own = {name: value for name, value in answer.items() if name not in apart}
    facts = answer.get("facts")
    known = facts if isinstance(facts, dict) else {}
    shown = {f"  {name}": known[name] for name in sorted(known)}
    jobs = tables.records_table(
        answer.get("jobs", []), datetime.now(UTC), tables.screen(), "no jobs"
    )
    facts_text = f"facts\n{formats.record(shown)}" if shown else "no facts"
    pool = {f"  {name}": value for name, value in (answer.get("state_pool") or {}).items()}
    pool_text = f"connections to the state service\n{formats.record(pool)}\n\n" if pool else ""
    return f"{formats.record(own)}\n\n{facts_text}\n\n{pool_text}{jobs}"


Agent = Annotated[str, typer.Argument(metavar="AGENT", help="Agent.")]


@commands.command("drain")
def drain(ctx: typer.Context, name: Agent, *, reason: Reason = None, json: Json = False) -> None:
    """Drain an agent: it takes no more jobs and stops.

    Jobs that do not end in time are handed back to the queue. The agent stays stopped until it
    is started again.
    """
    _show(connect(ctx).drain(name, reason=reason).model_dump(), as_json=json)


@commands.command("cordon")
def cordon(ctx: typer.Context, name: Agent, *, reason: Reason = None, json: Json = False) -> None:
    """Cordon an agent: it takes no more jobs and keeps running.

    Running jobs continue. The agent stays cordoned when it is started again.
    """
    _show(connect(ctx).cordon(name, reason=reason).model_dump(), as_json=json)


@commands.command("uncordon")
def uncordon(ctx: typer.Context, name: Agent, *, reason: Reason = None, json: Json = False) -> None:
    """Undo a cordon: the agent takes jobs again."""
    _show(connect(ctx).uncordon(name, reason=reason).model_dump(), as_json=json)


@commands.command("log-level")
def set_log_level(
    ctx: typer.Context,
    name: Agent,
    level: Annotated[
        Literal["debug", "info", "warning"], typer.Argument(metavar="LEVEL", help="Least level.")
    ],
    *,
    duration: Annotated[
        str,
        typer.Option("--for", metavar="DURATION", help="How long, such as 30m; at most a day."),
    ] = "30m",
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Set the level of an agent's log for a while: debug, info or warning.

    Then it is info again, by itself, as after a restart of the agent.
    """
    for_s = times.seconds("--for", duration) or 0
    answer = connect(ctx).set_log_level(name, level, for_s=for_s, reason=reason)
    _show(answer.model_dump(), as_json=json)


def _show(answer: dict[str, Any], *, as_json: bool) -> None:
    terminal.show(answer, lambda: formats.printable(answer.get("note")), as_json=as_json)
