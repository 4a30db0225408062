"""The command `queues`: show queue statistics, explain a choice, pause, resume, set limits."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from joblane.client.answers import rows
from joblane.client.cli import completion, exit_codes
from joblane.client.cli.job.options import JobOptions
from joblane.client.cli.options import Json, Reason, ShowByDefault, connect, with_fields
from joblane.client.cli.queue import text as queue_text
from joblane.client.cli.text import formats, live, terminal
from joblane.client.cli.text.tables import screen

if TYPE_CHECKING:
    from joblane.client.clients import Client
    from joblane.client.fields import Submission

WATCH_EVERY_S = 2.0

ALL_QUEUES = "_all"
"""In the place of a queue's name, which begins with a letter: all that the caller may change."""

commands = typer.Typer(
    cls=ShowByDefault, help="Show queue statistics; pause and resume queues, set their limits."
)

Name = Annotated[
    str, typer.Argument(metavar="QUEUE", help="Queue.", autocompletion=completion.queues)
]

OneOrAll = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE",
        help=f"Queue, or {ALL_QUEUES} for all that you may change.",
        autocompletion=completion.queues,
    ),
]


@commands.command("show")
def show(
    ctx: typer.Context,
    queue: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUEUE]",
            help="Show only this queue, in detail.",
            autocompletion=completion.queues,
        ),
    ] = None,
    *,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Refresh every 2 s until Ctrl-C.")
    ] = False,
    json: Json = False,
) -> None:
    """Show queue statistics: waiting and running jobs, and the activity of your jobs.

    OLDEST is the time since the submission of your oldest job that waits and could have started;
    with QUEUE its id is shown. OLDEST MESSAGE is SQS's figure of a lane, for a waiting or running
    job of any tenant; - if unknown. --watch --json prints a document per line.
    """
    client = connect(ctx)

    def fetch() -> dict[str, Any]:
        return (client.queues() if queue is None else client.queue(queue)).model_dump()

    if watch:
        live.watch(fetch, _text, WATCH_EVERY_S, as_json=json)
    else:
        answer = fetch()
        terminal.show(answer, lambda: _text(answer), as_json=json)


def _text(answer: dict[str, Any]) -> str:
    if "lanes" in answer:
        return queue_text.queue_details(answer, datetime.now(UTC), screen())
    return queue_text.queues_table(rows(answer), screen())


@commands.command(
    "explain",
    options_metavar="[OPTIONS] --",
    context_settings={"allow_interspersed_args": False},
)
@with_fields(JobOptions)
def explain(ctx: typer.Context, options: JobOptions, *, json: Json = False) -> None:
    """Show which queue would take a job, and why the others would not; nothing is submitted.

    Takes the options of `submit`. The queues are in the order in which they are considered: the
    queue that the job names, filters from the highest order to the lowest, queues without a filter.
    The exit code is 64 if no queue takes the job.
    """
    answer = connect(ctx).explain_queue(cast("Submission", options.submission())).model_dump()
    terminal.show(answer, lambda: queue_text.choice(answer, screen()), as_json=json)
    if answer.get("queue") is None:
        raise typer.Exit(exit_codes.REFUSED)


@commands.command("pause")
def pause(
    ctx: typer.Context, queue: OneOrAll, *, reason: Reason = None, json: Json = False
) -> None:
    """Pause a queue: none of its jobs start; running jobs continue.

    _all pauses each queue that you may change: all of the deployment for the role platform, those
    that no other tenant uses for an operator. The others are named, and stay as they are.
    """
    _switch(connect(ctx), queue, reason, run_jobs=False, as_json=json)


@commands.command("resume")
def resume(
    ctx: typer.Context, queue: OneOrAll, *, reason: Reason = None, json: Json = False
) -> None:
    """Resume a paused queue.

    _all resumes each queue that you may change, also those that were paused one by one.
    """
    _switch(connect(ctx), queue, reason, run_jobs=True, as_json=json)


@commands.command("set")
def set_(
    ctx: typer.Context,
    queue: Name,
    *,
    threads: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Maximum number of jobs on one agent; none: as in joblane.toml."
        ),
    ] = None,
    cluster_threads: Annotated[
        str | None,
        typer.Option(metavar="N", help="Maximum number of jobs on all agents; none: no limit."),
    ] = None,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Set limits of a queue; agents apply them within 30 s, running jobs continue."""
    given = {"threads": threads, "cluster_threads": cluster_threads}
    changes = {
        name: _limit(f"--{name.replace('_', '-')}", text)
        for name, text in given.items()
        if text is not None
    }
    if not changes:
        raise typer.BadParameter("nothing to set; give --threads or --cluster-threads")
    _set(connect(ctx), queue, changes, reason, as_json=json)


def _limit(option: str, text: str) -> int | None:
    if text == "none":
        return None
    if not text.isdecimal() or not text.isascii():
        raise typer.BadParameter(f"{option} must be a whole number or none")
    return int(text)


def _switch(
    client: "Client", queue: str, reason: str | None, *, run_jobs: bool, as_json: bool
) -> None:
    if queue != ALL_QUEUES:
        _set(client, queue, {"run_jobs": run_jobs}, reason, as_json=as_json)
        return
    changed, shared = [], []
    for queue_ in client.queues().entries:
        name, settings = queue_.name, queue_.settings
        if not settings.may_change:
            shared.append(name)
        elif settings.run_jobs != run_jobs:
            client.set_queue(name, {"run_jobs": run_jobs}, reason=reason)
            changed.append(name)
    state = "running" if run_jobs else "paused"
    lines = [f"{name} {state}" for name in changed] or ["no queue changed"]
    lines += [f"{name} not changed: other tenants use it, too" for name in shared]
    said = "\n".join(map(formats.printable, lines))
    terminal.show({"changed": changed, "not_changed": shared}, lambda: said, as_json=as_json)
    if shared:
        raise typer.Exit(exit_codes.REFUSED)


def _set(
    client: "Client",
    queue: str,
    changes: dict[str, bool | int | None],
    reason: str | None,
    *,
    as_json: bool,
) -> None:
    settings = client.set_queue(queue, changes, reason=reason).model_dump()
    state = "running" if settings.get("run_jobs") else "paused"
    own, cluster = settings.get("threads"), settings.get("cluster_threads")
    threads = settings.get("threads_declared") if own is None else own
    limit = "no limit in all" if cluster is None else f"{cluster} in all"
    said = f"{queue} {state}: {threads} threads per agent, {limit}"
    terminal.show(settings, lambda: formats.printable(said), as_json=as_json)
