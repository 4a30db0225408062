"""The command `audit`: show the audit trail."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from joblane.client.cli import tables, terminal
from joblane.client.cli.options import Json
from joblane.client.cli.read import screen

JobId = Annotated[
    str | None,
    typer.Argument(metavar="[ID]", help="Job whose actions to show.", show_default=False),
]
Moment = "UTC, such as 2026-11-21T02:00:00Z."


def audit(  # noqa: PLR0913 - the filters of the API
    ctx: typer.Context,
    job_id: JobId = None,
    *,
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=1, max=100, help="Maximum number of entries.")
    ] = 20,
    after: Annotated[
        str | None,
        typer.Option("--next", help="Cursor of the next page, as printed by the previous one."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help=f"Only entries at or after this time; {Moment}"),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help=f"Only entries before this time; {Moment}")
    ] = None,
    action: Annotated[
        str | None, typer.Option(metavar="ACTION", help="Only this action, such as cancel.")
    ] = None,
    json: Json = False,
) -> None:
    """Show the audit trail: who did what and why, newest first.

    With the id of a job: its submission and the actions on that job. Without: the actions on the
    tenant's jobs and queues; `joblane ls` lists submissions.
    """
    with ctx.obj.connect() as client:
        page = client.audit(
            job_id, limit=limit, cursor=after, since=since, until=until, action=action
        )
    if json:
        terminal.document(page)
        return
    from joblane.client.answers import rows  # noqa: PLC0415

    shown = [_row(entry) for entry in rows(page)]
    terminal.text(tables.records_table(shown, datetime.now(UTC), screen(), "no entries"))
    if page.get("next"):
        terminal.note(f"more entries: --next {page['next']}")


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    """Columns of the table; --json prints all fields."""
    target = entry.get("target")
    by, refused = entry.get("by") or {}, entry.get("refused")
    return {
        "at": entry.get("at"),
        "action": entry.get("action"),
        "on": " ".join(map(str, target.values())) if isinstance(target, dict) else None,
        "by": by.get("name"),
        "reason": entry.get("reason"),
        "refused": refused and f"{refused.get('status')} {refused.get('detail')}",
    }


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("audit")(audit)
