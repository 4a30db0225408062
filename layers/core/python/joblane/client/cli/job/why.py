"""The command `why`: why a job waits, runs on or has ended."""

import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import typer

from joblane.client.cli.options import JobId, Json, Raw, connect
from joblane.client.cli.short_ids import full_id
from joblane.client.cli.text import formats, tables, terminal

commands = typer.Typer()

_LEAST_WIDTH = 40

Show = Callable[[object], str]
"""Makes text of a value."""


@commands.command()
def why(
    ctx: typer.Context,
    job_id: JobId,
    *,
    index: Annotated[
        int | None,
        typer.Option(
            metavar="INDEX",
            min=0,
            help="Of an array: explain the job with this index, which need not have begun.",
        ),
    ] = None,
    raw: Raw = False,
    json: Json = False,
) -> None:
    """Explain why a job waits, runs on or has ended: the reason that decides comes first.

    Of a group, why its jobs wait. Below each reason are commands that show more or change it; some
    need another role.
    """
    client = connect(ctx)
    answer = client.why(full_id(client, job_id), index=index).model_dump()
    show = formats.plain if raw else formats.printable
    width = tables.screen().width
    terminal.show(answer, lambda: "\n".join(_lines(answer, show, width)), as_json=json)


def _lines(answer: Mapping[str, Any], show: Show, width: int | None) -> Iterator[str]:
    """The summary, which has the first reason, and then the others."""
    first, *others = _reasons(answer)
    yield from _wrap(show(answer.get("summary")), "", width)
    yield from _commands(first, "  ", show)
    if others:
        yield "also:"
    for reason in others:
        yield from _wrap(show(reason.get("text")), "* ", width)
        yield from _commands(reason, "    ", show)


def _reasons(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = answer.get("reasons")
    listed = found if isinstance(found, list) else []
    return [reason for reason in listed if isinstance(reason, Mapping)] or [{}]


def _commands(reason: Mapping[str, Any], indent: str, show: Show) -> Iterator[str]:
    """Commands are not wrapped, so that they can be copied."""
    for command in reason.get("commands") or ():
        yield f"{indent}{show(command)}"


def _wrap(text: str, mark: str, width: int | None) -> list[str]:
    """Wrap a sentence to the screen; into a pipe it goes as one line."""
    if width is None:
        return [f"{mark}{text}"]
    return textwrap.wrap(
        text,
        max(width, _LEAST_WIDTH),
        initial_indent=mark,
        subsequent_indent="  " if mark else "",
        break_on_hyphens=False,
        break_long_words=False,
    )
