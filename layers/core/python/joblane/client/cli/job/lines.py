"""Files of which each line is checked before anything is submitted: `--each`, `--array-values`."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import typer

from joblane.client.cli.text import terminal
from joblane.client.errors import InputError

SHOWN = 20
"""Wrong lines that are shown; the others are counted."""


def read_lines(option: str, file: Path, most_bytes: int) -> Iterator[tuple[int, str]]:
    """The lines of a file that are not blank, with their numbers from 1; `-` is standard input.

    What is not UTF-8 becomes a surrogate, which the check of the line refuses. Raises
    `typer.BadParameter` for a file that cannot be read, or is larger than `most_bytes`.
    """
    try:
        if str(file) == "-":
            data = sys.stdin.buffer.read(most_bytes + 1)
        else:
            with file.open("rb") as opened:
                data = opened.read(most_bytes + 1)
    except OSError as error:
        raise typer.BadParameter(f"{option} {file}: {error.strerror}") from error
    if len(data) > most_bytes:
        raise typer.BadParameter(f"{option} {file} is larger than {most_bytes:,} bytes")
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if text := raw.decode("utf-8", "surrogateescape").strip():
            yield number, text


def refuse_lines(wrong: Sequence[str], count: int) -> NoReturn:
    """Show the wrong ones of so many lines, up to twenty. Raises `InputError`."""
    if len(wrong) == 1:
        raise InputError(f"{wrong[0]}; nothing was submitted")
    for text in wrong[:SHOWN]:
        terminal.note(text)
    more = f", {len(wrong) - SHOWN:,} more than are shown" if len(wrong) > SHOWN else ""
    raise InputError(f"{len(wrong):,} of {count:,} lines are wrong{more}; nothing was submitted")
