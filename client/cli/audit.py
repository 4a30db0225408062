"""The verb `audit`: who did what, and why."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from client import render
from client.cli import out
from client.cli.read import screen
from client.cli.submit import Json

JobId = Annotated[
    str | None,
    typer.Argument(metavar="[ID]", help="Id of a job: what was done to it.", show_default=False),
]
Moment = "UTC, such as 2026-11-21T02:00:00Z."


def audit(  # noqa: PLR0913 - the filters of the API
    ctx: typer.Context,
    job_id: JobId = None,
    *,
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=1, max=100, help="Most entries to list.")
    ] = 20,
    after: Annotated[
        str | None, typer.Option("--next", help="Go on after the page that named this cursor.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help=f"At or after this moment; {Moment}")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help=f"Before this moment; {Moment}")
    ] = None,
    action: Annotated[
        str | None, typer.Option(metavar="ACTION", help="Only this action, such as cancel.")
    ] = None,
    json: Json = False,
) -> None:
    """Show who did what and why, newest first.

    With a job's id: its submission and what was done to that job. Without: what was done to the
    tenant's jobs and queues; submissions are in `joblane ls`.
    """
    with ctx.obj.connect() as client:
        page = client.audit(
            job_id, limit=limit, cursor=after, since=since, until=until, action=action
        )
    if json:
        out.document(page)
        return
    from client.wire import rows  # noqa: PLC0415

    shown = [_row(entry) for entry in rows(page)]
    out.text(render.things(shown, datetime.now(UTC), screen(), "nothing was done"))
    if page.get("next"):
        out.note(f"there is more: --next {page['next']}")


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    """What a table has room for; --json has the rest."""
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
    """Register the verb."""
    app.command("audit")(audit)
