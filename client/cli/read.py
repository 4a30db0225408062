"""The verbs that read: `ls`, `get`, `logs`, `health`."""

import shutil
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from client import render
from client.cli import exits, out
from client.cli.submit import GiveUp, Json

if TYPE_CHECKING:
    from client.moves import Filters

JobId = Annotated[str, typer.Argument(metavar="ID", help="Id of the job.", show_default=False)]


def ls(  # noqa: PLR0913 - the filters of the API
    ctx: typer.Context,
    *,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="Most jobs to list.")] = 20,
    after: Annotated[
        str | None, typer.Option("--next", help="Go on after the page that named this cursor.")
    ] = None,
    state: Annotated[str | None, typer.Option(help="Only jobs in this state.")] = None,
    type_: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Only jobs of this type.")
    ] = None,
    queue: Annotated[str | None, typer.Option(help="Only jobs of this queue.")] = None,
    label: Annotated[
        str | None, typer.Option(metavar="K=V", help="Only jobs with this label.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only jobs submitted then or later; UTC.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only jobs submitted before; UTC.")
    ] = None,
    hidden: Annotated[bool, typer.Option("--hidden", help="Hidden jobs too.")] = False,
    json: Json = False,
) -> None:
    """List the newest jobs; all filters must hold.

    A filter that few jobs match looks through many, 500 a request; Ctrl-C ends it. Times are
    written as 2026-11-21T02:00:00Z.
    """
    entries: list[Any] = []
    filters: Filters = {
        "state": state,
        "type": type_,
        "queue": queue,
        "label": label,
        "since": since,
        "until": until,
        "hidden": hidden,
    }
    with ctx.obj.connect() as client:
        while len(entries) < limit:
            page = client.list_page(limit=limit - len(entries), cursor=after, **filters)
            entries += page["entries"]
            after = page.get("next")
            if not after:
                break
    if json:
        out.document({"entries": entries, "limit": limit, "next": after})
    else:
        out.text(render.jobs(entries, datetime.now(UTC), screen()))


def get(ctx: typer.Context, job_id: JobId, *, json: Json = False) -> None:
    """Show one job and its timeline."""
    with ctx.obj.connect() as client:
        data = client.get(job_id).data
    if json:
        out.document(data)
    else:
        out.text(render.job(data, datetime.now(UTC)))


def logs(
    ctx: typer.Context,
    job_id: JobId,
    *,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on until the job's output is complete.")
    ] = False,
    give_up_s: GiveUp = 300,
    json: Json = False,
) -> None:
    """Write a job's output, byte for byte.

    Its stdout goes to stdout, its stderr to stderr. With -f an API that goes away is tried
    again, and every record comes once. --json writes one record a line: {attempt, seq,
    stream, time, text | base64}.
    """
    from client.cli.watch import Watcher, as_json, write_records  # noqa: PLC0415

    show = as_json if json else write_records
    with ctx.obj.connect() as client:
        if follow:
            Watcher(client, give_up_s, show).watch(job_id)
        else:
            for record in client.logs(job_id):
                show([record])


def health(ctx: typer.Context, *, json: Json = False) -> None:
    """Ask whether the API is up; needs no token.

    Exits with 69 when it says anything but ok.
    """
    with ctx.obj.connect() as client:
        answer = client.health()
        url = client.url
    if json:
        out.document(answer)
    else:
        rest = {name: value for name, value in answer.items() if name != "status"}
        out.text(render.printable(f"{answer.get('status', 'unknown')} {url}"))
        for name, value in rest.items():
            out.text(f"{name:<12} {render.printable(value)}")
    if answer.get("status") != "ok":
        raise typer.Exit(exits.UNAVAILABLE)


def screen() -> render.Screen:
    """The terminal that tables are cut to; none when stdout is not one."""
    import os  # noqa: PLC0415

    if not out.is_terminal(sys.stdout):
        return render.Screen()
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return render.Screen(shutil.get_terminal_size().columns, colour=colour)


def add_to(app: typer.Typer) -> None:
    """Register the verbs."""
    for verb in (ls, get, logs, health):
        app.command(verb.__name__)(verb)
