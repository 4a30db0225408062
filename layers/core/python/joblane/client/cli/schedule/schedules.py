"""The command `schedules`: what starts by itself, when, and what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import typer

from joblane.client.cli import exit_codes, times
from joblane.client.cli.job.options import JobOptions
from joblane.client.cli.job.read import show_page
from joblane.client.cli.options import (
    Json,
    ListByDefault,
    Next,
    Reason,
    connect,
    limit_of,
    with_fields,
)
from joblane.client.cli.schedule import text
from joblane.client.cli.schedule.options import (
    NOT_SCHEDULED,
    Name,
    ScheduleOptions,
    TimingOptions,
    given_options,
    name_option,
    submission,
)
from joblane.client.cli.text import terminal
from joblane.client.cli.text.formats import printable

T = TypeVar("T")

commands = typer.Typer(
    cls=ListByDefault,
    help="Start jobs at set times: add, edit, pause and run schedules, show their results.",
)

MOST_TIMES = 100
"""Due times that the API shows at most."""


@commands.command("add")
@with_fields(ScheduleOptions, JobOptions, without=NOT_SCHEDULED)
def add(
    ctx: typer.Context,
    options: ScheduleOptions,
    job: JobOptions,
    *,
    count: Annotated[
        int | None,
        typer.Option(
            "--next",
            metavar="N",
            min=1,
            max=MOST_TIMES,
            help="Only show the next N due times; nothing is saved.",
        ),
    ] = None,
    paused: Annotated[
        bool,
        typer.Option("--paused", help="Save it as paused: nothing starts until it is resumed."),
    ] = False,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Add a schedule, which submits a command or a job of a type at set times.

    Such as: joblane schedules add nightly --cron '0 2 * * *' --zone Europe/Berlin -- make test

    Takes the options of `submit`. Files are uploaded now, and are there for the days that the
    deployment keeps them (30): a warning says when they expire. Standard input is given to the
    jobs with --stdin only. The job has the time that it is due at in JOBLANE_SCHEDULED_AT. The next
    time is printed with its offset from UTC; what is surprising about it, such as a change of
    clocks, is said on stderr.
    """
    if count is not None:
        _preview(ctx, options, count, as_json=json)
        return
    timing = _timing(options, options.fields())
    client = connect(ctx)
    requeue = options.requeued(job)
    given: dict[str, Any] = {} if requeue is not None else submission(client, job)
    what = given.pop("command", None) or given.pop("type", None)
    added = client.schedules.add(
        options.schedule,
        what,
        given.pop("params", None),
        requeue=requeue,
        paused=paused,
        reason=reason,
        **timing,
        **given,
    ).model_dump()
    _show_changed(added, "added", as_json=json)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewOptions(TimingOptions):
    """Options of `preview`."""

    schedule: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Name that it is to have: --jitter depends on it."),
    ] = None


@commands.command("preview")
@with_fields(PreviewOptions)
def preview(
    ctx: typer.Context,
    options: PreviewOptions,
    *,
    count: Annotated[
        int,
        typer.Option("--next", metavar="N", min=1, max=MOST_TIMES, help="Number of due times."),
    ] = 5,
    json: Json = False,
) -> None:
    """Show when a schedule would be due, each time with its offset; nothing is saved."""
    _preview(ctx, options, count, as_json=json)


@commands.command("ls")
def ls(
    ctx: typer.Context,
    *,
    limit: Annotated[int, limit_of("schedules", most=100)] = 20,
    after: Next = None,
    json: Json = False,
) -> None:
    """List schedules: when each is due next, its last result, and why it is not due."""
    page = connect(ctx).schedules.page(limit=limit, cursor=after).model_dump()
    show_page(page, text.row, "schedules", "no schedules", as_json=json)


@commands.command("get")
def get(ctx: typer.Context, name: Name, *, json: Json = False) -> None:
    """Show a schedule, its next five due times and its latest results."""
    found = connect(ctx).schedules.get(name).model_dump()
    terminal.show(found, lambda: text.details(found), as_json=json)
    text.note_warnings(found)


@commands.command("results")
def results(
    ctx: typer.Context,
    name: Name,
    *,
    limit: Annotated[int, limit_of("results", most=100)] = 20,
    after: Next = None,
    json: Json = False,
) -> None:
    """List what became of each due time, the newest first: started, skipped, missed, refused."""
    page = connect(ctx).schedules.results_page(name, limit=limit, cursor=after).model_dump()
    show_page(page, text.result_row, "results", "no results yet", as_json=json)


@commands.command("edit")
@with_fields(ScheduleOptions, JobOptions, without=NOT_SCHEDULED)
def edit(
    ctx: typer.Context,
    options: ScheduleOptions,
    job: JobOptions,
    *,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Edit a schedule; what no option names stays as it is, and what was started goes on.

    --start none and --end none remove these. A command, or --type, takes the place of the whole
    submission, with the other options of `submit`.
    """
    changes: dict[str, Any] = {**options.fields()}
    client = connect(ctx)
    if (requeue := options.requeued(job)) is not None:
        changes["requeue"] = requeue
    elif given := given_options(job):
        if not job.command and job.job_type is None:
            raise typer.BadParameter(
                f"{name_option(given[0])} needs the command, or --type: a submission is replaced as"
                " a whole"
            )
        changes["submission"] = submission(client, job)
    if not changes:
        raise typer.BadParameter("nothing to change; give at least one option, such as --cron")
    edited = client.schedules.edit(options.schedule, reason=reason, **changes).model_dump()
    _show_changed(edited, "edited", as_json=json)


@commands.command("pause")
def pause(ctx: typer.Context, name: Name, *, reason: Reason = None, json: Json = False) -> None:
    """Pause a schedule: nothing starts; what was started goes on."""
    found = connect(ctx).schedules.pause(name, reason=reason).model_dump()
    terminal.show(found, lambda: printable(f"{name} paused"), as_json=json)


@commands.command("resume")
def resume(ctx: typer.Context, name: Name, *, reason: Reason = None, json: Json = False) -> None:
    """Resume a paused schedule; what was due meanwhile does not start."""
    found = connect(ctx).schedules.resume(name, reason=reason).model_dump()
    _show_changed(found, "resumed", as_json=json)


@commands.command("run")
def run(ctx: typer.Context, name: Name, *, reason: Reason = None, json: Json = False) -> None:
    """Start now what a schedule starts, also if it is paused, and print the id of the job.

    The next due time stays as it is.
    """
    result = connect(ctx).schedules.run(name, reason=reason).model_dump()
    shown = result.get("job_id") or result.get("text")
    terminal.show(result, lambda: printable(shown), as_json=json)


@commands.command("backfill")
def backfill(
    ctx: typer.Context,
    name: Name,
    *,
    first: Annotated[
        str, typer.Option("--from", metavar="TIME", help="The first time, such as 'monday 0:00'.")
    ],
    last: Annotated[str, typer.Option("--to", metavar="TIME", help="The last time, in the past.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count the due times; nothing starts.")
    ] = False,
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Skip the confirmation; required without a terminal."),
    ] = False,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Start what a schedule starts for past due times, 500 at most; says how many, and asks.

    A due time that has a job of the schedule keeps it, so the command may be repeated. The jobs run
    one after the other, unless --overlap is allow or the submission has a key. Exits with 1 if a
    submission was refused.
    """
    if not (yes or dry_run or terminal.can_ask()):
        raise typer.BadParameter("add --yes to backfill without a terminal, or --dry-run to count")
    from_, to = (
        times.utc_time(option, given, "back") or ""
        for option, given in (("--from", first), ("--to", last))
    )
    schedules = connect(ctx).schedules
    if not yes:
        found = next(iter(schedules.backfill(name, from_, to, check=True))).model_dump()
        if dry_run:
            terminal.show(found, lambda: f"would start {_times(found)}", as_json=json)
            return
        if not terminal.confirms(f"start {_times(found)} of {name} now"):
            terminal.note("nothing was started")
            return
    answers = [each.model_dump() for each in schedules.backfill(name, from_, to, reason=reason)]
    answer = _sum(answers)
    terminal.show(answer, lambda: printable(answer["text"]), as_json=json)
    if answer["refused"] or answer["left"]:
        raise typer.Exit(exit_codes.NOT_ALL)


@commands.command("rm")
def rm(ctx: typer.Context, name: Name, *, reason: Reason = None) -> None:
    """Delete a schedule; what it started goes on."""
    connect(ctx).schedules.delete(name, reason=reason)


def _timing(options: TimingOptions, found: T) -> T:
    """Return the fields. Raises `typer.BadParameter` if none says when it is due."""
    if options.cron is None and options.every is None:
        raise typer.BadParameter("give --cron, such as '0 2 * * *', or --every, such as 5m")
    return found


def _preview(
    ctx: typer.Context, options: ScheduleOptions | PreviewOptions, count: int, *, as_json: bool
) -> None:
    timing = _timing(options, options.timing())
    schedules = connect(ctx).schedules
    found = schedules.preview(name=options.schedule, count=count, **timing).model_dump()
    shown = found.get("next_times") or ()
    terminal.show(found, lambda: text.next_times(shown, found.get("zone")), as_json=as_json)
    text.note_warnings(found)


def _show_changed(schedule: dict[str, Any], done: str, *, as_json: bool) -> None:
    terminal.show(schedule, lambda: text.said(schedule, done), as_json=as_json)
    text.note_warnings(schedule)
    if schedule.get("why") and not schedule.get("paused"):
        terminal.note(str(schedule["why"]))


def _times(checked: dict[str, Any]) -> str:
    count = checked.get("left") or 0
    return "1 due time" if count == 1 else f"{count} due times"


def _sum(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One answer of those to several requests.

    Each looks at all due times, so that what was started before has become `already` in the last.
    """
    before, last = answers[:-1], answers[-1]
    started = sum(each.get("started") or 0 for each in before)
    return last | {
        "started": started + (last.get("started") or 0),
        "already": max((last.get("already") or 0) - started, 0),
        "jobs": [job for each in answers for job in each.get("jobs") or ()],
        "text": "; ".join(str(each.get("text")) for each in answers),
    }
