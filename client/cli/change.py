"""The verbs that change jobs: `cancel`, `retry`, `delete`, `dlq`, `requeue`, `restart-failed`."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from client import render
from client.cli import exits, out
from client.cli.read import JobId, screen
from client.cli.submit import Json

if TYPE_CHECKING:
    from client.api import Job

Queue = Annotated[
    str, typer.Argument(metavar="QUEUE", help="Queue, or _all for each.", show_default=False)
]
JobType = Annotated[
    str | None, typer.Option("--type", metavar="TYPE", help="Only jobs of this type.")
]
Why = Annotated[
    str | None,
    typer.Option("--reason", metavar="TEXT", help="Why, for the audit trail.", show_default=False),
]


def cancel(ctx: typer.Context, job_id: JobId, *, reason: Why = None, json: Json = False) -> None:
    """Cancel a job that waits; have the one that runs ended.

    A job that runs gets SIGTERM, and is killed when it has not ended 10 s later.
    """
    with ctx.obj.connect() as client:
        job = client.cancel(job_id, reason=reason)
    _tell(job, str(job.data.get("note") or ""), as_json=json)


def retry(ctx: typer.Context, job_id: JobId, *, reason: Why = None, json: Json = False) -> None:
    """Start a failed or dead job again: same id, counters reset."""
    with ctx.obj.connect() as client:
        job = client.retry(job_id, reason=reason)
    _tell(job, job.reason, as_json=json)


def resubmit(
    ctx: typer.Context,
    job_id: JobId,
    *,
    idempotency_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Submit once, however often it is sent within a day."),
    ] = None,
    reason: Why = None,
    json: Json = False,
) -> None:
    """Submit a job that has ended again, under a new id; prints that."""
    with ctx.obj.connect() as client:
        job = client.resubmit(job_id, idempotency_key=idempotency_key, reason=reason)
    if json:
        out.document(job.data)
    else:
        out.text(job.id)


def hide(ctx: typer.Context, job_id: JobId, *, reason: Why = None, json: Json = False) -> None:
    """Leave a job that has ended out of `ls`; `ls --hidden` shows it."""
    with ctx.obj.connect() as client:
        job = client.hide(job_id, reason=reason)
    _tell(job, "hidden", as_json=json)


def unhide(ctx: typer.Context, job_id: JobId, *, reason: Why = None, json: Json = False) -> None:
    """Show a hidden job in `ls` again."""
    with ctx.obj.connect() as client:
        job = client.unhide(job_id, reason=reason)
    _tell(job, "shown in lists again", as_json=json)


def delete(ctx: typer.Context, job_id: JobId, *, reason: Why = None) -> None:
    """Delete a job that is not running."""
    with ctx.obj.connect() as client:
        client.delete(job_id, reason=reason)


def requeue(
    ctx: typer.Context,
    queue: Queue,
    *,
    type_: JobType = None,
    reason: Why = None,
    json: Json = False,
) -> None:
    """Send a fresh message for every job that waits; safe at any time.

    Jobs do not change by it, and none runs twice: a message too many is discarded.
    """
    with ctx.obj.connect() as client:
        _work(client.requeue(queue, type_, reason=reason), "requeued", as_json=json)


def restart_failed(
    ctx: typer.Context,
    queue: Queue,
    *,
    type_: JobType = None,
    reason: Why = None,
    json: Json = False,
) -> None:
    """Start every failed or dead job again: same ids, counters reset."""
    with ctx.obj.connect() as client:
        _work(client.restart_failed(queue, type_, reason=reason), "restarted", as_json=json)


letters = typer.Typer(
    help="Dead jobs: those whose attempts are used up.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


@letters.command("ls")
def dlq_ls(
    ctx: typer.Context,
    *,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="Most jobs to list.")] = 20,
    after: Annotated[
        str | None, typer.Option("--next", help="Go on after the page that named this cursor.")
    ] = None,
    json: Json = False,
) -> None:
    """List dead jobs, newest first."""
    with ctx.obj.connect() as client:
        page = client.dead_letters(limit=limit, cursor=after)
    if json:
        out.document(page)
    else:
        out.text(render.jobs(page["entries"], datetime.now(UTC), screen()))


@letters.command("replay")
def dlq_replay(
    ctx: typer.Context, job_id: JobId, *, reason: Why = None, json: Json = False
) -> None:
    """Start a dead job again: same id, counters reset."""
    with ctx.obj.connect() as client:
        job = client.replay(job_id, reason=reason)
    _tell(job, job.reason, as_json=json)


@letters.command("dismiss")
def dlq_dismiss(
    ctx: typer.Context, job_id: JobId, *, reason: Why = None, json: Json = False
) -> None:
    """Take a dead job off the list for good."""
    with ctx.obj.connect() as client:
        job = client.dismiss(job_id, reason=reason)
    _tell(job, job.reason, as_json=json)


def _tell(job: "Job", what: str, *, as_json: bool) -> None:
    if as_json:
        out.document(job.data)
    else:
        out.text(render.printable(f"{job.id} {job.state}: {what}"))


def _work(pages: Iterator[dict[str, Any]], name: str, *, as_json: bool) -> None:
    """Do page after page, and say what came of all; exits with 64 if a job was refused."""
    examined, done = 0, 0
    refused: list[dict[str, Any]] = []
    for page in pages:
        examined += page.get("examined", 0)
        done += page.get(name, 0)
        refused += page.get("refused", [])
    if as_json:
        out.document({"examined": examined, name: done, "refused": refused})
    else:
        out.text(f"{name} {done} of {examined} jobs examined")
        for entry in refused:
            out.note(f"{entry.get('id')}: {entry.get('detail')}")
    if refused:
        raise typer.Exit(exits.REFUSED)


def add_to(app: typer.Typer) -> None:
    """Register the verbs."""
    for verb in (cancel, retry, resubmit, hide, unhide, delete, requeue, restart_failed):
        app.command(verb.__name__.replace("_", "-"))(verb)
    app.add_typer(letters, name="dlq")
