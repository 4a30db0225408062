"""Output of the command line: bytes and documents to stdout, notes to stderr.

Everything is written as bytes: a job's output must not change, and a table must not fail when the
terminal's encoding lacks a character.
"""

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import BinaryIO, Final, TextIO

from joblane.client.cli.text.escapes import UNSAFE
from joblane.client.cli.text.formats import printable
from joblane.client.errors import ApiError, JoblaneError

NO_AGENT: Final = (
    "the agent is not installed beside this command; its wheel is built in a checkout by: "
    "scripts/wheel agent (docs/how-to/install.md)"
)


def write(data: bytes, *, stderr: bool = False) -> None:
    """Write bytes unchanged. Raises `OSError`, such as `BrokenPipeError`."""
    stream = _raw(sys.stderr if stderr else sys.stdout)
    left = memoryview(data if stream is not None else b"")
    while stream is not None and left:
        left = left[stream.write(left) :]  # under PYTHONUNBUFFERED a write may be partial
        stream.flush()


def text(lines: str) -> None:
    """Write text and a line end to stdout."""
    write((lines + "\n").encode("utf-8", "backslashreplace"))


def document(value: object) -> None:
    """Write one JSON document, indented."""
    text(_harmless(json.dumps(value, ensure_ascii=False, indent=2)))


def show(answer: object, shown: Callable[[], str], *, as_json: bool, several: bool = False) -> None:
    """Write an answer of the API: as JSON, or as the text that `shown` makes of it.

    One of `several` documents is a line.
    """
    if as_json:
        (json_line if several else document)(answer)
    else:
        text(shown())


def json_line(value: object) -> None:
    """Write one line of JSON lines."""
    text(_harmless(json.dumps(value, ensure_ascii=False, separators=(",", ":"))))


def _harmless(document: str) -> str:
    """Escape in JSON what a terminal obeys and `json` leaves: DEL, C1 and the direction of text."""
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def note(message: str) -> None:
    """Write one line to stderr; control characters are escaped."""
    with suppress(OSError):  # stderr is closed; the exit code remains
        write(f"joblane: {printable(message)}\n".encode("utf-8", "backslashreplace"), stderr=True)


def explain(error: JoblaneError, what: str = "") -> None:
    """Write an error to stderr: one line, which begins with `what`, and one for each refused field.

    The detail of an invalid request only repeats the fields; that of a conflict says what to do.
    """
    what = f"{what}: " if what else ""
    if not isinstance(error, ApiError):
        note(f"{what}{error}")
        return
    tail = f" (request {error.request_id})" if error.request_id and error.retryable else ""
    repeats_fields = error.fields and error.status != HTTPStatus.CONFLICT
    note(f"{what}{error.title if repeats_fields else error}{tail}")
    for field in error.fields:
        note(f"  {field.field}: {field.problem}")


def discard() -> None:
    """Redirect stdout to /dev/null, so that the interpreter's last flush cannot fail."""
    with suppress(OSError, ValueError, AttributeError):  # there may be no stdout
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; None is a stream that was closed before the start."""
    return stream is not None and stream.isatty()


def can_ask() -> bool:
    """Whether somebody sees a question and can answer it."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def confirms(question: str) -> bool:
    """Ask on stderr; anything but yes means no."""
    write(
        f"joblane: {printable(question)}? [y/N] ".encode("utf-8", "backslashreplace"), stderr=True
    )
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _raw(stream: TextIO | None) -> BinaryIO | None:
    if stream is None:
        return None
    stream.flush()
    return stream.buffer


def has_screen() -> bool:
    """Whether a browser can open a window; a text browser would take over the terminal."""
    if sys.platform != "linux":
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
