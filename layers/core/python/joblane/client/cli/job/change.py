"""The commands that change jobs: `cancel`, `retry`, `delete`, `requeue`, and the like."""

from typing import TYPE_CHECKING, Annotated

import typer

from joblane.client.answers import is_group
from joblane.client.cli import completion
from joblane.client.cli.group import groups
from joblane.client.cli.job.filter_options import (
    BulkOptions,
    ResubmitOptions,
    change_selected,
)
from joblane.client.cli.job.warning import note_warning
from joblane.client.cli.options import (
    IdempotencyKey,
    JobId,
    Json,
    Reason,
    connect,
    with_fields,
)
from joblane.client.cli.short_ids import full_id
from joblane.client.cli.text import terminal
from joblane.client.cli.text.formats import printable

if TYPE_CHECKING:
    from joblane.client.refs import JobRef

Queue = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE",
        help="Queue, or _all for all queues.",
        autocompletion=completion.queues,
    ),
]
SameVersion = Annotated[
    bool,
    typer.Option(
        "--same-version",
        help="Leave jobs of a type as they are: no present version, no new defaults.",
    ),
]
JobType = Annotated[
    str | None, typer.Option("--type", metavar="TYPE", help="Only jobs of this type.")
]

commands = typer.Typer()


@commands.command()
@with_fields(BulkOptions)
def cancel(
    ctx: typer.Context, options: BulkOptions, *, reason: Reason = None, json: Json = False
) -> None:
    """Cancel a job, or all jobs that filters select; running jobs are stopped.

    Of a group, all its jobs. A running job gets SIGTERM, and SIGKILL after 10 s. With filters, of
    which all must match, jobs that have ended are left out unless --state names their state. The
    command counts the jobs and asks; jobs that are submitted after that are not cancelled.
    """
    job_id = options.one
    client = connect(ctx)
    if job_id is None:
        change_selected(client, "cancel", options, reason, as_json=json)
        return
    job_id = full_id(client, job_id)
    if is_group(client.get(job_id).data):
        pages = client.groups.cancel(job_id, reason=reason)
        groups.run_pages(pages, "cancelled", as_json=json)
        return
    job = client.cancel(job_id, reason=reason)
    print_job(job, str(job.data.get("note") or ""), as_json=json)


@commands.command()
@with_fields(BulkOptions)
def retry(
    ctx: typer.Context,
    options: BulkOptions,
    *,
    same_version: SameVersion = False,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Restart a failed or dead job, or all that filters select: same ids, attempts reset.

    Of a group, the jobs that failed. Jobs of a type run with its present version; those that it
    does not take are listed, and stay as they are. With filters, of which all must match, the
    command counts the jobs and asks.
    """
    job_id = options.one
    client = connect(ctx)
    if job_id is None:
        change_selected(client, "retry", options, reason, as_json=json, same_version=same_version)
        return
    job_id = full_id(client, job_id)
    if is_group(client.get(job_id).data):
        pages = client.groups.retry(job_id, same_version=same_version, reason=reason)
        groups.run_pages(pages, "retried", as_json=json)
        return
    job = client.retry(job_id, same_version=same_version, reason=reason)
    print_job(job, as_json=json)


@commands.command()
@with_fields(ResubmitOptions)
def resubmit(
    ctx: typer.Context,
    options: ResubmitOptions,
    *,
    idempotency_key: IdempotencyKey = None,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Submit a job that has ended again and print the new id, or all jobs that filters select.

    --set changes fields of the submission, which is checked as a new one. With filters, of which
    all must match, completed, dismissed and skipped jobs are left out unless --state names their
    state, and jobs that have been resubmitted before always: the command can be repeated after an
    interruption. It counts the jobs and asks.
    """
    job_id, changes = options.one, options.changes
    if job_id is None and idempotency_key is not None:
        raise typer.BadParameter("--idempotency-key is for one job; with filters none is needed")
    client = connect(ctx)
    if job_id is None:
        change_selected(client, "resubmit", options, reason, as_json=json, changes=changes)
        return
    job_id = full_id(client, job_id)
    job = client.resubmit(job_id, changes=changes, idempotency_key=idempotency_key, reason=reason)
    note_warning(job)
    terminal.show(job.data, lambda: job.id, as_json=json)


@commands.command()
def hide(ctx: typer.Context, job_id: JobId, *, reason: Reason = None, json: Json = False) -> None:
    """Hide an ended job from `ls`; see `ls --hidden`."""
    client = connect(ctx)
    print_job(client.hide(full_id(client, job_id), reason=reason), "hidden", as_json=json)


@commands.command()
def unhide(ctx: typer.Context, job_id: JobId, *, reason: Reason = None, json: Json = False) -> None:
    """List a hidden job in `ls` again."""
    client = connect(ctx)
    print_job(client.unhide(full_id(client, job_id), reason=reason), "listed again", as_json=json)


@commands.command()
@with_fields(BulkOptions)
def delete(
    ctx: typer.Context, options: BulkOptions, *, reason: Reason = None, json: Json = False
) -> None:
    """Delete a job that is not running, or all jobs that filters select, and their output.

    Of a group, all its jobs. With filters, of which all must match, jobs that have not ended are
    left out unless --state names their state. The command counts the jobs and asks; jobs that are
    submitted after that are not deleted. --json is for filters: one job is deleted silently.
    """
    job_id = options.one
    client = connect(ctx)
    if job_id is None:
        change_selected(client, "delete", options, reason, as_json=json)
    else:
        groups.delete(client, full_id(client, job_id), reason)


@commands.command()
def requeue(
    ctx: typer.Context,
    queue: Queue,
    *,
    type_: JobType = None,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Send a new message for each job that has not ended; safe at any time.

    For jobs whose messages were lost. Jobs do not change, and none runs twice: agents discard
    surplus messages.
    """
    groups.run_pages(connect(ctx).requeue(queue, type_, reason=reason), "requeued", as_json=json)


@commands.command()
def restart_failed(
    ctx: typer.Context,
    queue: Queue,
    *,
    type_: JobType = None,
    same_version: SameVersion = False,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Restart all failed and dead jobs: same ids, attempts reset.

    Jobs of a type run with its present version; those that it does not take are listed, and stay as
    they are.
    """
    pages = connect(ctx).restart_failed(queue, type_, same_version=same_version, reason=reason)
    groups.run_pages(pages, "restarted", as_json=json)


def print_job(job: "JobRef", message: str | None = None, *, as_json: bool) -> None:
    """Print a job that was changed, with a message, or its reason."""
    said = job.reason if message is None else message
    terminal.show(job.data, lambda: printable(f"{job.id} {job.state}: {said}"), as_json=as_json)
