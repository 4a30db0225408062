"""The commands that only read: `ls`, `get`, `logs`, `health` and `audit`."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import typer

from joblane.client.answers import is_group, json_of, rows
from joblane.client.cli import exit_codes, times
from joblane.client.cli.group import groups
from joblane.client.cli.job import text as job_text
from joblane.client.cli.job.filter_options import FilterOptions
from joblane.client.cli.job.several import do_each
from joblane.client.cli.options import (
    GiveUp,
    JobId,
    JobIds,
    Json,
    Next,
    Raw,
    connect,
    limit_of,
    with_fields,
)
from joblane.client.cli.short_ids import full_id, full_ids
from joblane.client.cli.text import formats, tables, terminal
from joblane.client.errors import InputError, RequestError
from joblane.formats.levels import Level

commands = typer.Typer()

_TIME = "such as 1h, 'yesterday 18:00' or 2026-11-21T02:00:00Z."


@commands.command()
@with_fields(FilterOptions)
def ls(
    ctx: typer.Context,
    options: FilterOptions,
    *,
    limit: Annotated[int, limit_of("jobs")] = 20,
    after: Next = None,
    json: Json = False,
) -> None:
    """List jobs, newest first; all filters must match.

    Times are such as 1h (an hour ago), 'yesterday 18:00' or 2026-11-21T02:00:00Z. A filter that
    matches few jobs reads many, 500 per request; Ctrl-C stops it. The states active, blocked, dead,
    failed, partial_failure, processing, scheduled, stale and waiting are found directly.
    """
    entries: list[Any] = []
    filters = options.filters()
    client = connect(ctx)
    while len(entries) < limit:
        page = client.list_page(limit=limit - len(entries), cursor=after, **filters)
        entries += page.model_dump()["entries"]
        after = page.next
        if not after:
            break
    terminal.show(
        {"entries": entries, "limit": limit, "next": after},
        lambda: job_text.jobs_table(entries, datetime.now(UTC), tables.screen()),
        as_json=json,
    )
    if after and not json:
        terminal.note(f"{len(entries):,} shown; more: --next {after}, or -n for a longer list")


@commands.command()
def get(
    ctx: typer.Context,
    job_ids: JobIds,
    *,
    failed: Annotated[
        bool,
        typer.Option("--failed", help="Of a group: only jobs that are not completed or skipped."),
    ] = False,
    raw: Raw = False,
    json: Json = False,
) -> None:
    """Show jobs and their timelines; of a group also what its jobs do, and why some failed.

    Of a group it shows how many jobs are in each state, and the last line of stderr of those that
    failed, lines that are alike together. The jobs of a target are listed with their results, and
    those of an array if it has at most 20.
    --json prints the job, or {"group": job, "kind", "counts", "failed_indices", "failures",
    "changed", "members": [...]}; of several ids, each on a line. Jobs that are not found are named
    on stderr, and the exit code is 66.
    """
    client, several = connect(ctx), len(job_ids) > 1
    shown = formats.plain if raw else formats.printable
    gap = ""

    def show_one(job_id: str) -> None:
        nonlocal gap
        data = json_of(client.get(job_id))
        text = gap + job_text.job_details(data, datetime.now(UTC), shown)
        if is_group(data):
            groups.show(client, data, text, failed=failed, as_json=json, several=several)
        else:
            terminal.show(data, lambda: text, as_json=json, several=several)
        gap = "\n"

    do_each(full_ids(client, job_ids), show_one)


@commands.command()
def logs(
    ctx: typer.Context,
    job_id: JobId,
    *,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Follow the output until it is complete.")
    ] = False,
    tail: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=1000,
            help="Start with the last N lines of all attempts, 768 KB at most.",
        ),
    ] = None,
    level: Annotated[
        Level | None,
        typer.Option(
            help="Only log records of typed jobs that have this level or above. Lines without a "
            "level are left out: those of print, and all output of commands.",
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="Of a group: only the output of this agent's job."),
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(
            metavar="INDICES", help="Of an array: only the output of these indices, such as 3,5-9."
        ),
    ] = None,
    timestamps: Annotated[
        bool,
        typer.Option("--timestamps", help="Begin each line with its time: RFC 3339, UTC."),
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help=f"Only output of this time or later; {_TIME}"),
    ] = None,
    attempt: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only the output of this attempt.")
    ] = None,
    stream: Annotated[
        Literal["stdout", "stderr", "joblane"] | None,
        typer.Option(help="Only this stream; joblane: messages of the agent."),
    ] = None,
    give_up_s: GiveUp = 300,
    raw: Raw = False,
    json: Json = False,
) -> None:
    """Print the output of a job, or of all jobs of a group.

    Its stdout goes to stdout, its stderr to stderr, byte for byte; a terminal shows control
    characters other than colours and carriage returns escaped unless --raw is given. With -f,
    requests are retried while the API does not answer, and each record is printed once. --json
    prints one record per line: {epoch, attempt, seq, stream, time, level, text | base64}; what is
    not the log of a typed job has no level.

    Each line of a group's output begins with the name of the agent, of an array with the index; the
    jobs follow one another in the order of these. With -f each job's output follows when the job
    has ended, at most 64 KB of each.

    A line on stderr stands between two attempts. --since, --attempt and --stream leave out output
    after it was read; they, --timestamps and, of an array, -f with --index are for one job, of a
    group with --host or --index.
    """
    from joblane.client.cli.group.follower import GroupFollower
    from joblane.client.cli.job.log_follower import LogFollower, LogWriter, as_json
    from joblane.client.cli.job.log_selection import LogSelection

    selection = LogSelection(
        formats.parse_time(times.utc_time("--since", since, "back")), attempt, stream
    )
    client = connect(ctx)
    job_id = full_id(client, job_id)
    if host is not None and index is not None:
        raise typer.BadParameter("--host and --index exclude each other")
    one = None if host is None else groups.job_of(client, job_id, host)
    if index is not None:
        one = groups.job_at(client, job_id, index)
    group_id, job_id = job_id, one or job_id
    writer = LogWriter(raw=raw, timestamps=timestamps)
    show = selection.of(as_json if json else writer)
    try:
        if follow:
            LogFollower(client, give_up_s, show, writer.end_lines, level=level).follow(job_id, tail)
        else:
            for record in client.logs(job_id, tail=tail, level=level):
                show([record])
        if (why := selection.missing(tail, level)) is not None:
            terminal.note(why)
    except RequestError:
        if one is not None or not (group := client.get(group_id)).is_group:
            raise
        if selection.is_limited or timestamps or (follow and index is not None):
            raise InputError(
                "--timestamps, --since, --attempt, --stream and -f with --index are for one job; "
                "choose one of the group with --host or --index"
            ) from None
        members = group.data.members
        follower = GroupFollower(
            client, give_up_s, members, raw=raw, as_json=json, tail=tail, level=level
        )
        follower.array = group.data.array is not None
        follower.follow(group_id) if follow else follower.show_all(group_id, index)
    finally:
        writer.end()


@commands.command()
def health(ctx: typer.Context, *, json: Json = False) -> None:
    """Check the health of the API; needs no token.

    Exits with 69 unless the status is ok.
    """
    client = connect(ctx)
    answer = client.health().model_dump()
    url = client.url
    if json:
        terminal.document(answer)
    else:
        rest = {name: value for name, value in answer.items() if name != "status"}
        terminal.text(formats.printable(f"{answer.get('status', 'unknown')} {url}"))
        if rest:
            terminal.text(formats.record(rest))
    if answer.get("status") != "ok":
        raise typer.Exit(exit_codes.UNAVAILABLE)


@commands.command()
def audit(
    ctx: typer.Context,
    job_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Job whose actions to show.")
    ] = None,
    *,
    limit: Annotated[int, limit_of("entries", most=100)] = 20,
    after: Next = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help=f"Only entries at or after this time; {_TIME}"),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help=f"Only entries before this time; {_TIME}")
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
    client = connect(ctx)
    page = client.audit(
        None if job_id is None else full_id(client, job_id),
        limit=limit,
        cursor=after,
        since=times.utc_time("--since", since, "back"),
        until=times.utc_time("--until", until, "back"),
        action=action,
    )
    show_page(page.model_dump(), _audit_row, "entries", "no entries", as_json=json)


def _audit_row(entry: dict[str, Any]) -> dict[str, Any]:
    """Columns of the table; --json prints all fields."""
    target = entry.get("target")
    by, refused = entry.get("by") or {}, entry.get("refused")
    platform = entry.get("by_platform")
    return {
        "at": entry.get("at"),
        "action": entry.get("action"),
        "on": " ".join(map(str, target.values())) if isinstance(target, dict) else None,
        "by": by.get("name") if not platform else f"{by.get('name')} (platform)",
        "reason": entry.get("reason"),
        "refused": refused and f"{refused.get('status')} {refused.get('detail')}",
    }


def show_page(
    page: dict[str, Any],
    row: Callable[[dict[str, Any]], dict[str, Any]],
    what: str,
    nothing: str,
    *,
    as_json: bool,
) -> None:
    """Print a page of records, `row` of each in the table, and how to get the next page."""
    shown = [row(entry) for entry in rows(page)]
    terminal.show(
        page,
        lambda: tables.records_table(shown, datetime.now(UTC), tables.screen(), nothing),
        as_json=as_json,
    )
    if page.get("next") and not as_json:
        terminal.note(f"more {what}: --next {page['next']}")
