"""The commands `ls`, `get`, `logs` and `health`."""

import shutil
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from joblane.client.cli import exit_codes, formats, job_text, tables, terminal
from joblane.client.cli.options import GiveUp, JobId, Json, Next

if TYPE_CHECKING:
    from joblane.client.job_calls import Filters


def ls(  # noqa: PLR0913 - the filters of the API
    ctx: typer.Context,
    *,
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=1, help="Maximum number of jobs.")
    ] = 20,
    after: Next = None,
    name: Annotated[str | None, typer.Option(help="Only jobs with exactly this name.")] = None,
    state: Annotated[str | None, typer.Option(help="Only jobs in this state.")] = None,
    type_: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Only jobs of this type.")
    ] = None,
    queue: Annotated[str | None, typer.Option(help="Only jobs of this queue.")] = None,
    label: Annotated[
        str | None, typer.Option(metavar="K=V", help="Only jobs with this label.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only jobs submitted at or after this time.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only jobs submitted before this time.")
    ] = None,
    hidden: Annotated[bool, typer.Option("--hidden", help="Include hidden jobs.")] = False,
    json: Json = False,
) -> None:
    """List jobs, newest first; all filters must match.

    Times are RFC 3339 in UTC, such as 2026-11-21T02:00:00Z. A filter that matches few jobs reads
    many, 500 per request; Ctrl-C stops it.
    """
    entries: list[Any] = []
    filters: Filters = {
        "name": name,
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
        terminal.document({"entries": entries, "limit": limit, "next": after})
    else:
        terminal.text(job_text.jobs_table(entries, datetime.now(UTC), screen()))


def get(ctx: typer.Context, job_id: JobId, *, json: Json = False) -> None:
    """Show a job and its timeline."""
    with ctx.obj.connect() as client:
        data = client.get(job_id).data
    if json:
        terminal.document(data)
    else:
        terminal.text(job_text.job_details(data, datetime.now(UTC)))


def logs(
    ctx: typer.Context,
    job_id: JobId,
    *,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Follow the output until it is complete.")
    ] = False,
    give_up_s: GiveUp = 300,
    json: Json = False,
) -> None:
    """Print the output of a job, byte for byte.

    Its stdout goes to stdout, its stderr to stderr. With -f, requests are retried while the API
    does not answer, and each record is printed once. --json prints one record per line:
    {attempt, seq, stream, time, text | base64}.
    """
    from joblane.client.cli.log_follower import LogFollower, as_json, write_records  # noqa: PLC0415

    show = as_json if json else write_records
    with ctx.obj.connect() as client:
        if follow:
            LogFollower(client, give_up_s, show).follow(job_id)
        else:
            for record in client.logs(job_id):
                show([record])


def health(ctx: typer.Context, *, json: Json = False) -> None:
    """Check the health of the API; needs no token.

    Exits with 69 unless the status is ok.
    """
    with ctx.obj.connect() as client:
        answer = client.health()
        url = client.url
    if json:
        terminal.document(answer)
    else:
        rest = {name: value for name, value in answer.items() if name != "status"}
        terminal.text(formats.printable(f"{answer.get('status', 'unknown')} {url}"))
        for name, value in rest.items():
            terminal.text(f"{name:<12} {formats.printable(value)}")
    if answer.get("status") != "ok":
        raise typer.Exit(exit_codes.UNAVAILABLE)


def screen() -> tables.Screen:
    """Width and colour of the terminal; neither when stdout is not a terminal."""
    import os  # noqa: PLC0415

    if not terminal.is_terminal(sys.stdout):
        return tables.Screen()
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return tables.Screen(shutil.get_terminal_size().columns, colour=colour)


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (ls, get, logs, health):
        app.command(command.__name__)(command)
