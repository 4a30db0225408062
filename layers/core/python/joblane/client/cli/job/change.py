"""The commands that change jobs: `cancel`, `retry`, `delete`, `dlq`, `requeue`, and the like."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from joblane.client.answers import json_of
from joblane.client.cli import completion
from joblane.client.cli.group import groups
from joblane.client.cli.job import text as job_text
from joblane.client.cli.job.filter_options import (
    BulkOptions,
    DeadOptions,
    ResubmitOptions,
    change_selected,
)
from joblane.client.cli.job.warning import note_warning
from joblane.client.cli.options import (
    IdempotencyKey,
    JobId,
    Json,
    Next,
    Reason,
    Verbs,
    connect,
    limit_of,
    with_fields,
)
from joblane.client.cli.short_ids import full_id
from joblane.client.cli.text import tables, terminal
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
dead_letters = typer.Typer(
    cls=Verbs,
    help="List, restart or dismiss dead jobs, whose attempts are exhausted.",
    no_args_is_help=True,
)


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
    if client.get(job_id).is_group:
        pages = client.groups.cancel(job_id, reason=reason)
        groups.run_pages(pages, "cancelled", as_json=json)
        return
    job = client.cancel(job_id, reason=reason)
    _print_job(job, job.note or "", as_json=json)


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
    if client.get(job_id).is_group:
        pages = client.groups.retry(job_id, same_version=same_version, reason=reason)
        groups.run_pages(pages, "retried", as_json=json)
        return
    job = client.retry(job_id, same_version=same_version, reason=reason)
    _print_job(job, as_json=json)


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
    terminal.show(json_of(job), lambda: job.id, as_json=json)


@commands.command()
def hide(ctx: typer.Context, job_id: JobId, *, reason: Reason = None, json: Json = False) -> None:
    """Hide an ended job from `ls`; see `ls --hidden`."""
    client = connect(ctx)
    _print_job(client.hide(full_id(client, job_id), reason=reason), "hidden", as_json=json)


@commands.command()
def unhide(ctx: typer.Context, job_id: JobId, *, reason: Reason = None, json: Json = False) -> None:
    """List a hidden job in `ls` again."""
    client = connect(ctx)
    _print_job(client.unhide(full_id(client, job_id), reason=reason), "listed again", as_json=json)


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


@dead_letters.command("ls")
def dlq_ls(
    ctx: typer.Context,
    *,
    limit: Annotated[int, limit_of("jobs")] = 20,
    after: Next = None,
    json: Json = False,
) -> None:
    """List dead jobs, newest first."""
    page = connect(ctx).dead_letters(limit=limit, cursor=after).model_dump()
    terminal.show(
        page,
        lambda: job_text.jobs_table(page["entries"], datetime.now(UTC), tables.screen()),
        as_json=json,
    )


@dead_letters.command("replay")
@with_fields(DeadOptions)
def dlq_replay(
    ctx: typer.Context,
    options: DeadOptions,
    *,
    same_version: SameVersion = False,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Restart a dead job, or all that filters select: same ids, attempts reset.

    Jobs of a type run with its present version; those that it does not take are listed, and stay as
    they are. With filters, of which all must match, the command counts the jobs and asks.
    """
    job_id, client = options.one, connect(ctx)
    if job_id is None:
        change_selected(client, "replay", options, reason, as_json=json, same_version=same_version)
        return
    job_id = full_id(client, job_id, "dead")
    job = client.replay(job_id, same_version=same_version, reason=reason)
    _print_job(job, as_json=json)


@dead_letters.command("dismiss")
@with_fields(DeadOptions)
def dlq_dismiss(
    ctx: typer.Context, options: DeadOptions, *, reason: Reason = None, json: Json = False
) -> None:
    """Remove a dead job, or all that filters select, from the list of dead jobs.

    With filters, of which all must match, the command counts the jobs and asks.
    """
    job_id, client = options.one, connect(ctx)
    if job_id is None:
        change_selected(client, "dismiss", options, reason, as_json=json)
        return
    _print_job(client.dismiss(full_id(client, job_id, "dead"), reason=reason), as_json=json)


def _print_job(job: "JobRef", message: str | None = None, *, as_json: bool) -> None:
    said = job.reason if message is None else message
    terminal.show(json_of(job), lambda: printable(f"{job.id} {job.state}: {said}"), as_json=as_json)
