"""The command `dlq`: list, restart or dismiss dead jobs."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from joblane.client.cli.job import text as job_text
from joblane.client.cli.job.change import SameVersion, print_job
from joblane.client.cli.job.filter_options import DeadOptions, change_selected
from joblane.client.cli.job.several import do_each
from joblane.client.cli.options import Json, Next, Reason, Verbs, connect, limit_of, with_fields
from joblane.client.cli.short_ids import full_ids
from joblane.client.cli.text import tables, terminal

commands = typer.Typer(
    cls=Verbs,
    help="List, restart or dismiss dead jobs, whose attempts are exhausted.",
    no_args_is_help=True,
)


@commands.command("ls")
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
    if page.get("next") and not json:
        count = len(page["entries"])
        terminal.note(f"{count:,} shown; more: --next {page['next']}, or -n for a longer list")


@commands.command("replay")
@with_fields(DeadOptions)
def dlq_replay(
    ctx: typer.Context,
    options: DeadOptions,
    *,
    same_version: SameVersion = False,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Restart dead jobs, or all that filters select: same ids, attempts reset.

    Jobs of a type run with its present version; those that it does not take are listed, and stay as
    they are. With filters, of which all must match, the command counts the jobs and asks.
    """
    named, client = options.ids, connect(ctx)
    if not named:
        change_selected(client, "replay", options, reason, as_json=json, same_version=same_version)
        return

    def replay_one(job_id: str) -> None:
        job = client.replay(job_id, same_version=same_version, reason=reason)
        print_job(job, as_json=json, several=len(named) > 1)

    do_each(full_ids(client, named, "dead"), replay_one)


@commands.command("dismiss")
@with_fields(DeadOptions)
def dlq_dismiss(
    ctx: typer.Context, options: DeadOptions, *, reason: Reason = None, json: Json = False
) -> None:
    """Remove dead jobs, or all that filters select, from the list of dead jobs.

    With filters, of which all must match, the command counts the jobs and asks.
    """
    named, client = options.ids, connect(ctx)
    if not named:
        change_selected(client, "dismiss", options, reason, as_json=json)
        return

    def dismiss_one(job_id: str) -> None:
        job = client.dismiss(job_id, reason=reason)
        print_job(job, as_json=json, several=len(named) > 1)

    do_each(full_ids(client, named, "dead"), dismiss_one)
