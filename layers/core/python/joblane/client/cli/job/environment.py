"""Environment variables of a job: `--env K=V`, `--env NAME` and `--env-file FILE`.

Files are those of `docker run --env-file`: a variable a line, `K=V`, or a name whose value is the
caller's; empty lines and lines that begin with `#` are skipped; quotes belong to the value.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

MAX_FILE_BYTES = 1_000_000
"""A larger file is none of variables."""

_NAME = re.compile(r"[^\s=]+")


def variables(texts: Sequence[str] | None, files: Sequence[Path] | None) -> dict[str, str] | None:
    """Read the variables; None without any.

    Later files count before earlier ones, and options before files, as in docker. Raises
    `typer.BadParameter`, also for a name that is not set here: a job without a variable that it
    was to have would fail later, or worse.
    """
    found: dict[str, str] = {}
    for file in files or ():
        found |= dict(_read_file(file))
    for text in texts or ():
        name, value = _pair("--env", text)
        found[name] = value
    return found or None


def _read_file(file: Path) -> Iterator[tuple[str, str]]:
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise typer.BadParameter(f"--env-file {file}: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise typer.BadParameter(f"--env-file {file} is larger than {MAX_FILE_BYTES:,} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"--env-file {file} is not UTF-8") from error
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.removesuffix("\r").lstrip()
        if stripped and not stripped.startswith("#"):
            yield _pair(f"--env-file {file} line {number}", stripped)


def _pair(where: str, text: str) -> tuple[str, str]:
    """Read `K=V`, or `K` with the caller's value."""
    name, equals, value = text.partition("=")
    if not _NAME.fullmatch(name):
        raise typer.BadParameter(f"{where} must be KEY=VALUE, or the name of a variable set here")
    if equals:
        return name, value
    if name not in os.environ:
        raise typer.BadParameter(f"{where}: {name} is not set here; write {name}=VALUE")
    return name, os.environ[name]
