"""The command `conditions`: list conditions, declare applications up or down."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import typer

from joblane.client.cli.job.read import show_page
from joblane.client.cli.options import Json, ListByDefault, Next, connect, limit_of
from joblane.client.cli.text import tables, terminal
from joblane.client.cli.text.formats import printable

App = Annotated[str, typer.Argument(metavar="APP", help="Application, such as app:billing.")]
Reason = Annotated[
    str, typer.Option("--reason", help="Reason, shown with the jobs that wait.", show_default=False)
]

commands = typer.Typer(
    cls=ListByDefault,
    help="List the conditions that jobs wait for; declare applications up or down.",
)


@commands.command("ls")
def ls(
    ctx: typer.Context,
    *,
    limit: Annotated[int, limit_of("conditions", most=100)] = 20,
    after: Next = None,
    json: Json = False,
) -> None:
    """List conditions that block jobs, with the number of waiting jobs and the next test.

    Applications that are declared down follow, whether a job waits for them or not.
    """
    page = connect(ctx).conditions(limit=limit, cursor=after).model_dump()
    show_page(page, _row, "conditions", "no condition blocks a job", as_json=json)
    down = [_outage(entry) for entry in page.get("down") or ()]
    if down and not json:
        table = tables.records_table(down, datetime.now(UTC), tables.screen(), "")
        terminal.text(f"\ndeclared down\n{table}")


@commands.command("down")
def down(ctx: typer.Context, app: App, *, reason: Reason = "", json: Json = False) -> None:
    """Declare an application down, for 48 h at most.

    Jobs that require the application do not start. Jobs that are blocked by their exit code and
    name no condition wait for app:QUEUE.
    """
    _declare(ctx, app, "down", reason, as_json=json)


@commands.command("up")
def up(ctx: typer.Context, app: App, *, reason: Reason = "", json: Json = False) -> None:
    """Declare an application up; its jobs continue with its next test."""
    _declare(ctx, app, "up", reason, as_json=json)


def _declare(
    ctx: typer.Context, app: str, state: Literal["up", "down"], reason: str, *, as_json: bool
) -> None:
    answer = connect(ctx).declare(app, state, reason)
    until = f" until {answer.until_at}" if answer.until_at else ""
    said = f"{answer.name} {answer.state}{until}"
    terminal.show(answer.model_dump(), lambda: printable(said), as_json=as_json)


def _outage(entry: dict[str, Any]) -> dict[str, Any]:
    of = "all tenants" if entry.get("all_tenants") else "the tenant"
    kept = {name: entry.get(name) for name in ("name", "until_at", "reason")}
    return {"name": kept.pop("name"), "for": of, **kept}


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    """Columns of the table; --json prints all fields."""
    waiting = f"{entry.get('waiting')}{'+' if entry.get('more') else ''}"
    names = ("since_at", "next_test_at", "tests", "gives_up_at", "reason")
    return {
        "name": entry.get("name"),
        "waiting": waiting,
        **{name: entry.get(name) for name in names},
    }
