"""The verb `queues`: how queues do, live on request, and their settings."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from client import queue_tables, render
from client.cli import out
from client.cli.change import Why
from client.cli.groups import ShowByDefault
from client.cli.read import screen
from client.cli.submit import Json
from client.errors import JoblaneError
from client.wire import rows

if TYPE_CHECKING:
    from client.api import Client

WATCH_EVERY_S = 2.0


verbs = typer.Typer(
    cls=ShowByDefault,
    help="How queues do: joblane queues [QUEUE] [--watch]. Pause them, resume them, set limits.",
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="QUEUE", help="Queue.", show_default=False)]


@verbs.command("show")
def show(
    ctx: typer.Context,
    queue: Annotated[
        str | None,
        typer.Argument(metavar="[QUEUE]", help="One queue in full.", show_default=False),
    ] = None,
    *,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it anew every 2 s until Ctrl-C.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what waits and runs, how old it is, and what happened to your jobs.

    OLDEST is the age of the oldest message of a job that waits or runs, as SQS last reported it
    to CloudWatch; - where that is unknown. With --watch --json each line is a document.
    """
    with ctx.obj.connect() as client:

        def fetch() -> dict[str, Any]:
            found: dict[str, Any] = client.queues() if queue is None else client.queue(queue)
            return found

        if watch:
            _watch(fetch, as_json=json)
        elif json:
            out.document(fetch())
        else:
            out.text(_shown(fetch(), screen()))


def _shown(answer: dict[str, Any], where: render.Screen) -> str:
    if "lanes" in answer:
        return queue_tables.queue(answer, datetime.now(UTC), where)
    return queue_tables.queues(rows(answer), where)


def _watch(fetch: Callable[[], dict[str, Any]], *, as_json: bool) -> None:
    """Show what is fetched until interrupted; an API that is away for a while is waited for."""
    live = not as_json and screen().width is not None
    view, show_text = _full_screen() if live else (nullcontext(), out.text)
    last = ""
    with view:
        while True:
            try:
                answer = fetch()
            except JoblaneError as error:
                if not error.retryable:
                    raise
                if live:
                    show_text(f"{last}\n\n{render.printable(str(error))}")
                else:
                    out.note(str(error))
            else:
                if as_json:
                    out.json_line(answer)
                else:
                    last = f"{datetime.now(UTC):%H:%M:%S} UTC\n\n{_shown(answer, screen())}"
                    show_text(last)
            time.sleep(WATCH_EVERY_S)


def _full_screen() -> tuple[AbstractContextManager[object], Callable[[str], None]]:
    """Make a view of the whole terminal that is cut to its size, and what draws it anew."""
    from rich.console import Console  # noqa: PLC0415 - rich takes 60 ms; only the live view pays
    from rich.text import Text  # noqa: PLC0415

    view = Console(highlight=False).screen()

    def draw(text: str) -> None:
        view.update(Text.from_ansi(text, no_wrap=True, overflow="ellipsis"))

    return view, draw


@verbs.command("pause")
def pause(ctx: typer.Context, queue: Name, *, reason: Why = None, json: Json = False) -> None:
    """Let no agent start a job of a queue; those that run go on."""
    with ctx.obj.connect() as client:
        _set(client, queue, {"run_jobs": False}, reason, as_json=json)


@verbs.command("resume")
def resume(ctx: typer.Context, queue: Name, *, reason: Why = None, json: Json = False) -> None:
    """Let agents start jobs of a queue again."""
    with ctx.obj.connect() as client:
        _set(client, queue, {"run_jobs": True}, reason, as_json=json)


@verbs.command("set")
def set_(  # noqa: PLR0913 - the settings
    ctx: typer.Context,
    queue: Name,
    *,
    threads: Annotated[
        str | None,
        typer.Option(metavar="N", help="Most jobs of it on one agent; none: as joblane.toml says."),
    ] = None,
    cluster_threads: Annotated[
        str | None,
        typer.Option(metavar="N", help="Most jobs of it on all agents together; none: no limit."),
    ] = None,
    reason: Why = None,
    json: Json = False,
) -> None:
    """Set limits of a queue; agents see them within 30 s, and end no job for them."""
    given = {"threads": threads, "cluster_threads": cluster_threads}
    changes = {
        name: _limit(f"--{name.replace('_', '-')}", text)
        for name, text in given.items()
        if text is not None
    }
    if not changes:
        raise typer.BadParameter("nothing to set; give --threads or --cluster-threads")
    with ctx.obj.connect() as client:
        _set(client, queue, changes, reason, as_json=json)


def _limit(option: str, text: str) -> int | None:
    if text == "none":
        return None
    if not text.isdecimal() or not text.isascii():
        raise typer.BadParameter(f"{option} wants a whole number, or none")
    return int(text)


def _set(
    client: "Client",
    queue: str,
    changes: dict[str, bool | int | None],
    reason: str | None,
    *,
    as_json: bool,
) -> None:
    settings = client.set_queue(queue, changes, reason=reason)
    if as_json:
        out.document(settings)
        return
    state = "running" if settings.get("run_jobs") else "paused"
    own, cluster = settings.get("threads"), settings.get("cluster_threads")
    threads = settings.get("threads_declared") if own is None else own
    limit = "no limit for the cluster" if cluster is None else f"{cluster} in the cluster"
    out.text(render.printable(f"{queue} {state}: {threads} threads an agent, {limit}"))


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.add_typer(verbs, name="queues")
