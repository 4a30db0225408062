"""The command `keys`: list the keys of jobs, show one with its jobs, cancel those that wait."""

import shlex
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from joblane.client.cli.job.read import show_page
from joblane.client.cli.options import Json, Next, Reason, Verbs, connect, limit_of
from joblane.client.cli.text import formats, tables, terminal

Type = Annotated[
    str,
    typer.Argument(
        metavar="TYPE",
        help="Job type; command for keys that submissions write out, policy.NAME for those of a "
        "policy of joblane.toml.",
    ),
]
Segments = Annotated[
    list[str],
    typer.Argument(
        metavar="SEGMENT...",
        help="Segments of the key. 7 is a number; write the string as '\"7\"'.",
    ),
]

commands = typer.Typer(
    cls=Verbs,
    help="List the keys that limit how many jobs run at once, show one, cancel its waiting jobs.",
    no_args_is_help=True,
)


@commands.command("ls")
def ls(
    ctx: typer.Context,
    scope: Type,
    *,
    limit: Annotated[int, limit_of("keys", most=100)] = 20,
    after: Next = None,
    json: Json = False,
) -> None:
    """List the keys of a job type that jobs have or wait for."""
    page = connect(ctx).keys(scope, limit=limit, cursor=after).model_dump()
    show_page(page, _row, "keys", f"no job of {scope} has a key", as_json=json)


@commands.command("get")
def get(ctx: typer.Context, scope: Type, segments: Segments, *, json: Json = False) -> None:
    """Show a key: the jobs that have its slots, and the waiting jobs.

    A segment that is a number, true or false in JSON is that, a JSON string in double quotes is
    that string, and anything else is a string as it stands. Write -- before a segment that begins
    with a dash.
    """
    answer = connect(ctx).key(scope, *_parse(segments)).model_dump()
    terminal.show(answer, lambda: _key(answer), as_json=json)


@commands.command("clear")
def clear(
    ctx: typer.Context,
    scope: Type,
    segments: Segments,
    *,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Cancel all jobs that wait for a key; jobs with a slot continue.

    Segments are written as for joblane keys get. Slots whose jobs have ended are freed as well.
    """
    cancelled: list[str] = []
    for cleared in connect(ctx).clear_key(scope, *_parse(segments), reason=reason):
        cancelled += cleared.cancelled
    jobs = "1 job was" if len(cancelled) == 1 else f"{len(cancelled)} jobs were"
    answer = {"cancelled": cancelled}
    terminal.show(answer, lambda: f"{jobs} cancelled", as_json=json)


def _parse(segments: list[str]) -> list[str | float]:
    # Imported here: pydantic takes 0.2 s, and help and usage errors need none.
    from joblane.key.segments import from_argument

    try:
        return [from_argument(text) for text in segments]
    except ValueError as error:
        raise typer.BadParameter(f"a segment {error}") from error


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    """Columns of the table; --json prints all fields."""
    return {
        "segments": _text(entry),
        "active": f"{entry.get('active')} of {entry.get('max_active')}",
        "queued": f"{entry.get('queued')} of {entry.get('max_queued')}",
        "when_full": entry.get("when_full"),
    }


def _key(answer: dict[str, Any]) -> str:
    now, screen = datetime.now(UTC), tables.screen()
    own = {name: value for name, value in answer.items() if name not in {"holders", "queue"}}
    holders = tables.records_table(answer.get("holders", []), now, screen, "no job has a slot")
    queue = tables.records_table(answer.get("queue", []), now, screen, "no job waits")
    shown = formats.record(own | {"segments": _text(answer)})
    return f"{shown}\n\n{holders}\n\n{queue}"


def _text(entry: dict[str, Any]) -> str:
    """The segments, as arguments of joblane keys get."""
    from joblane.key.segments import to_argument

    return shlex.join(to_argument(each) for each in entry.get("segments", []))
