"""The commands that change jobs: `cancel`, `retry`, `delete`, `requeue`, and the like."""

from typing import TYPE_CHECKING, Annotated

import typer

from joblane.client.answers import json_of
from joblane.client.cli import completion
from joblane.client.cli.group import groups
from joblane.client.cli.job.filter_options import (
    BulkOptions,
    ResubmitOptions,
    change_selected,
)
from joblane.client.cli.job.several import do_each
from joblane.client.cli.job.warning import note_warning
from joblane.client.cli.options import (
    IdempotencyKey,
    JobIds,
    Json,
    Reason,
    connect,
    with_fields,
)
from joblane.client.cli.short_ids import full_ids
from joblane.client.cli.text import terminal
from joblane.client.cli.text.formats import printable
from joblane.client.errors import InputError

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
    """Cancel jobs, or all jobs that filters select; running jobs are stopped.

    Of a group, all its jobs. A running job gets SIGTERM, and SIGKILL after 10 s. Each job has a
    line, with --json too; those that are refused are named on stderr, the others are cancelled, and
    the exit code is that of the first refusal. With filters, of
    which all must match, jobs that have ended are left out unless --state names their state. The
    command counts the jobs and asks; jobs that are submitted after that are not cancelled.
    """
    named, client = options.ids, connect(ctx)
    if not named:
        change_selected(client, "cancel", options, reason, as_json=json)
        return
    several = len(named) > 1

    def cancel_one(job_id: str) -> None:
        if (job := client.get(job_id)).is_group:
            pages = client.groups.cancel(job_id, reason=reason)
            one = job_id if several else None
            limited = json_of(job).get("max_concurrency") is not None
            also = "; those that had not begun never do" if limited else ""
            groups.run_pages(pages, "cancelled", as_json=json, one_of_several=one, also=also)
            return
        job = client.cancel(job_id, reason=reason)
        print_job(job, job.note or "", as_json=json, several=several)

    do_each(full_ids(client, named), cancel_one)


@commands.command()
@with_fields(BulkOptions)
def retry(
    ctx: typer.Context,
    options: BulkOptions,
    *,
    index: Annotated[
        str | None,
        typer.Option(
            metavar="INDICES",
            help="Of an array: only the jobs with these indices, such as 3,5-9; those of them that"
            " are neither failed nor dead are refused.",
        ),
    ] = None,
    same_version: SameVersion = False,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Restart failed or dead jobs, or all that filters select: same ids, attempts reset.

    Of a group, the jobs that failed, with the same indices. Jobs of a type run with its present
    version; those that it does not take are listed, and stay as they are. Each job has a line, with
    --json too; those that are refused are named on stderr, and the exit code is that of the first
    refusal. With filters, of which all must match, the command counts the jobs and asks.
    """
    named = options.ids
    if index is not None and len(named) != 1:
        raise typer.BadParameter("--index is for one group")
    client = connect(ctx)
    if not named:
        change_selected(client, "retry", options, reason, as_json=json, same_version=same_version)
        return
    several = len(named) > 1

    def retry_one(job_id: str) -> None:
        if client.get(job_id).is_group:
            pages = client.groups.retry(
                job_id, indices=index, same_version=same_version, reason=reason
            )
            one = job_id if several else None
            groups.run_pages(pages, "retried", as_json=json, one_of_several=one)
            return
        if index is not None:
            raise InputError(f"job {job_id} is no group; --index is for one")
        job = client.retry(job_id, same_version=same_version, reason=reason)
        print_job(job, as_json=json, several=several)

    do_each(full_ids(client, named), retry_one)


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
    """Submit jobs that have ended again and print the new ids, or all jobs that filters select.

    --set changes fields of the submission, which is checked as a new one. With filters, of which
    all must match, completed, dismissed and skipped jobs are left out unless --state names their
    state, and jobs that have been resubmitted before always: the command can be repeated after an
    interruption. It counts the jobs and asks.
    """
    named, changes = options.ids, options.changes
    if len(named) != 1 and idempotency_key is not None:
        raise typer.BadParameter("--idempotency-key is for one job; with filters none is needed")
    client = connect(ctx)
    if not named:
        change_selected(client, "resubmit", options, reason, as_json=json, changes=changes)
        return

    def resubmit_one(job_id: str) -> None:
        job = client.resubmit(
            job_id, changes=changes, idempotency_key=idempotency_key, reason=reason
        )
        note_warning(job)
        terminal.show(json_of(job), lambda: job.id, as_json=json, several=len(named) > 1)

    do_each(full_ids(client, named), resubmit_one)


@commands.command()
def hide(ctx: typer.Context, job_ids: JobIds, *, reason: Reason = None, json: Json = False) -> None:
    """Hide ended jobs from `ls`; see `ls --hidden`."""
    client, several = connect(ctx), len(job_ids) > 1

    def hide_one(job_id: str) -> None:
        print_job(client.hide(job_id, reason=reason), "hidden", as_json=json, several=several)

    do_each(full_ids(client, job_ids), hide_one)


@commands.command()
def unhide(
    ctx: typer.Context, job_ids: JobIds, *, reason: Reason = None, json: Json = False
) -> None:
    """List hidden jobs in `ls` again."""
    client, several = connect(ctx), len(job_ids) > 1

    def unhide_one(job_id: str) -> None:
        print_job(
            client.unhide(job_id, reason=reason), "listed again", as_json=json, several=several
        )

    do_each(full_ids(client, job_ids), unhide_one)


@commands.command()
@with_fields(BulkOptions)
def delete(
    ctx: typer.Context, options: BulkOptions, *, reason: Reason = None, json: Json = False
) -> None:
    """Delete jobs that are not running, or all jobs that filters select, and their output.

    Of a group, all its jobs. Those that are refused are named on stderr, the others are deleted,
    and the exit code is that of the first refusal. With filters, of which all must match, jobs that
    have not ended are left out unless --state names their state. The command counts the jobs and
    asks; jobs that are submitted after that are not deleted. --json is for filters: named jobs are
    deleted silently.
    """
    named, client = options.ids, connect(ctx)
    if named:
        do_each(full_ids(client, named), lambda job_id: groups.delete(client, job_id, reason))
    else:
        change_selected(client, "delete", options, reason, as_json=json)


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


def print_job(job: "JobRef", message: str | None = None, *, as_json: bool, several: bool) -> None:
    """Print a job that was changed, with a message, or its reason."""
    said = job.reason if message is None else message
    shown = printable(f"{job.id} {job.state}: {said}")
    terminal.show(json_of(job), lambda: shown, as_json=as_json, several=several)
