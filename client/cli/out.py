"""The two streams: bytes and documents to stdout, notes for a person to stderr.

Everything is written as bytes: a job's output must come out as it went in, and a table must
not fail on a terminal whose locale lacks a letter.
"""

import json
import os
import sys
from contextlib import suppress
from typing import BinaryIO, TextIO

from client.errors import ApiError, JoblaneError
from client.render import printable


def write(data: bytes, *, stderr: bool = False) -> None:
    """Write bytes as they are. Raises `OSError`, such as `BrokenPipeError`."""
    stream = _raw(sys.stderr if stderr else sys.stdout)
    left = memoryview(data if stream is not None else b"")
    while stream is not None and left:
        left = left[stream.write(left) :]  # under PYTHONUNBUFFERED a write may take a part only
        stream.flush()


def text(lines: str) -> None:
    """Write text and a line end to stdout."""
    write((lines + "\n").encode("utf-8", "backslashreplace"))


def document(value: object) -> None:
    """Write one JSON document, indented."""
    text(json.dumps(value, ensure_ascii=False, indent=2))


def json_line(value: object) -> None:
    """Write one line of JSON lines."""
    text(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def note(message: str) -> None:
    """Say one line to the person, on stderr; control characters are shown, not sent."""
    with suppress(OSError):  # nobody listens there; the exit code still says it
        write(f"joblane: {printable(message)}\n".encode("utf-8", "backslashreplace"), stderr=True)


def explain(error: JoblaneError) -> None:
    """Say an error: one line, and one for each field that the API refused."""
    if not isinstance(error, ApiError):
        note(str(error))
        return
    tail = f" (request {error.request_id})" if error.request_id and error.retryable else ""
    note(f"{error.title if error.fields else error}{tail}")
    for field in error.fields:
        note(f"  {field.field}: {field.problem}")


def discard() -> None:
    """Point stdout at nothing, so that the interpreter's last flush does not complain."""
    with suppress(OSError, ValueError, AttributeError):  # there may be no stdout
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at it; a stream that was closed before the start is None."""
    return stream is not None and stream.isatty()


def _raw(stream: TextIO | None) -> BinaryIO | None:
    if stream is None:
        return None
    stream.flush()
    return stream.buffer
