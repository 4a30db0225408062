"""The command `conditions`: list conditions, declare applications up or down."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import typer

from joblane.client.cli import formats, tables, terminal
from joblane.client.cli.options import Json
from joblane.client.cli.read import screen

App = Annotated[
    str, typer.Argument(metavar="APP", help="Application, such as app:billing.", show_default=False)
]
Reason = Annotated[
    str, typer.Option("--reason", help="Reason, shown with the jobs that wait.", show_default=False)
]

conditions = typer.Typer(
    help="List the conditions that jobs wait for; declare applications up or down.",
    rich_markup_mode=None,
)


@conditions.callback(invoke_without_command=True)
def conditions_or_ls(ctx: typer.Context) -> None:
    """List the conditions that jobs wait for; declare applications up or down."""
    if ctx.invoked_subcommand is None:
        ls(ctx)


@conditions.command("ls")
def ls(
    ctx: typer.Context,
    *,
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=1, max=100, help="Maximum number of conditions.")
    ] = 20,
    after: Annotated[
        str | None,
        typer.Option("--next", help="Cursor of the next page, as printed by the previous one."),
    ] = None,
    json: Json = False,
) -> None:
    """List conditions that block jobs, with the number of waiting jobs and the next test."""
    with ctx.obj.connect() as client:
        page = client.conditions(limit=limit, cursor=after)
    if json:
        terminal.document(page)
        return
    from joblane.client.answers import rows  # noqa: PLC0415

    shown = [_row(entry) for entry in rows(page)]
    terminal.text(
        tables.records_table(shown, datetime.now(UTC), screen(), "no condition blocks a job")
    )
    if page.get("next"):
        terminal.note(f"more conditions: --next {page['next']}")


@conditions.command("down")
def down(ctx: typer.Context, app: App, *, reason: Reason = "", json: Json = False) -> None:
    """Declare an application down, for 48 h at most.

    Jobs that require the application do not start. Jobs that exit with 75 and name no condition
    wait for app:QUEUE.
    """
    _declare(ctx, app, "down", reason, as_json=json)


@conditions.command("up")
def up(ctx: typer.Context, app: App, *, reason: Reason = "", json: Json = False) -> None:
    """Declare an application up; its jobs continue with its next test."""
    _declare(ctx, app, "up", reason, as_json=json)


def _declare(
    ctx: typer.Context, app: str, state: Literal["up", "down"], reason: str, *, as_json: bool
) -> None:
    with ctx.obj.connect() as client:
        answer = client.declare(app, state, reason)
    if as_json:
        terminal.document(answer)
        return
    until = f" until {answer['until_at']}" if answer.get("until_at") else ""
    terminal.text(formats.printable(f"{answer.get('name')} {answer.get('state')}{until}"))


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    """Columns of the table; --json prints all fields."""
    waiting = f"{entry.get('waiting')}{'+' if entry.get('more') else ''}"
    names = ("since_at", "next_test_at", "tests", "gives_up_at", "reason")
    return {
        "name": entry.get("name"),
        "waiting": waiting,
        **{name: entry.get(name) for name in names},
    }


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.add_typer(conditions, name="conditions")
