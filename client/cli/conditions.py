"""The verbs of conditions: what blocks jobs, and applications that are declared up or down."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import typer

from client import render
from client.cli import out
from client.cli.read import screen
from client.cli.submit import Json

App = Annotated[str, typer.Argument(metavar="APP", help="Such as app:billing.", show_default=False)]
Reason = Annotated[
    str, typer.Option("--reason", help="A sentence for those whose jobs wait.", show_default=False)
]

conditions = typer.Typer(
    help="Conditions that jobs wait for; without a verb, list them.", rich_markup_mode=None
)


@conditions.callback(invoke_without_command=True)
def conditions_or_ls(ctx: typer.Context) -> None:
    """Conditions that jobs wait for; without a verb, list them."""
    if ctx.invoked_subcommand is None:
        ls(ctx)


@conditions.command("ls")
def ls(
    ctx: typer.Context,
    *,
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=1, max=100, help="Most conditions to list.")
    ] = 20,
    after: Annotated[
        str | None, typer.Option("--next", help="Go on after the page that named this cursor.")
    ] = None,
    json: Json = False,
) -> None:
    """List the conditions that block jobs: since when, how many wait, and the next test."""
    with ctx.obj.connect() as client:
        page = client.conditions(limit=limit, cursor=after)
    if json:
        out.document(page)
        return
    from client.wire import rows  # noqa: PLC0415

    shown = [_row(entry) for entry in rows(page)]
    out.text(render.things(shown, datetime.now(UTC), screen(), "no condition blocks a job"))
    if page.get("next"):
        out.note(f"there are more: --next {page['next']}")


@conditions.command("down")
def down(ctx: typer.Context, app: App, *, reason: Reason = "", json: Json = False) -> None:
    """Hold back the jobs that wait for an application, for 48 h at most.

    Jobs are not kept from starting by it unless they require the application; those that exit
    with 75 and name nothing wait for app:QUEUE.
    """
    _declare(ctx, app, "down", reason, as_json=json)


@conditions.command("up")
def up(ctx: typer.Context, app: App, *, reason: Reason = "", json: Json = False) -> None:
    """Let the jobs that wait for an application go with its next test."""
    _declare(ctx, app, "up", reason, as_json=json)


def _declare(
    ctx: typer.Context, app: str, state: Literal["up", "down"], reason: str, *, as_json: bool
) -> None:
    with ctx.obj.connect() as client:
        answer = client.declare(app, state, reason)
    if as_json:
        out.document(answer)
        return
    until = f" until {answer['until_at']}" if answer.get("until_at") else ""
    out.text(render.printable(f"{answer.get('name')} {answer.get('state')}{until}"))


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    """What a table has room for; --json has the rest."""
    waiting = f"{entry.get('waiting')}{'+' if entry.get('more') else ''}"
    names = ("since_at", "next_test_at", "tests", "gives_up_at", "reason")
    return {
        "name": entry.get("name"),
        "waiting": waiting,
        **{name: entry.get(name) for name in names},
    }


def add_to(app: typer.Typer) -> None:
    """Register the verbs."""
    app.add_typer(conditions, name="conditions")
