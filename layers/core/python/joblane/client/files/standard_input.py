"""The standard input of a job: short text is a field of the submission, all else is a file."""

import io
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from joblane.client.errors import FileError, InputError
from joblane.client.files.models import MAX_FILE_BYTES, MAX_STDIN_BYTES, StandardInput
from joblane.client.files.reading import CHUNK
from joblane.client.files.threads import raise_if


class Spool:
    """Content in an unnamed file on disk, so that it is in no process's memory."""

    name = "standard input"

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self.size = file, size

    def chunks(self, stop: threading.Event) -> Iterator[bytes]:
        """Yield the content."""
        at = 0
        while at < self.size:
            raise_if(stop)
            piece = os.pread(self._file.fileno(), CHUNK, at)
            if not piece:
                raise FileError("the temporary file of the standard input was cut")
            at += len(piece)
            yield piece

    def close(self) -> None:
        """Remove it."""
        self._file.close()


def standard_input(given: StandardInput, stop: threading.Event) -> str | Spool | None:
    """Read all of it: text of at most 256 KiB, a file with anything else, None if it is empty.

    Raises `FileError`, `InputError`.
    """
    if isinstance(given, str):
        try:
            given = given.encode()
        except UnicodeEncodeError as error:
            raise InputError("stdin holds characters that are not UTF-8 text") from error
    if isinstance(given, bytes | bytearray | memoryview):
        return _read(io.BytesIO(given), stop)
    if isinstance(given, os.PathLike):
        path = Path(given)
        try:
            with path.open("rb") as file:
                return _read(file, stop)
        except OSError as error:
            raise FileError(f"cannot read {path}: {error.strerror}") from error
    if not hasattr(given, "read"):
        raise InputError("stdin must be text, bytes, the path of a file or an open file")
    return _read(given, stop)


def _read(file: IO[Any], stop: threading.Event) -> str | Spool | None:
    start = _pieces(file)
    head = b""
    while len(head) <= MAX_STDIN_BYTES and (piece := next(start, b"")):
        head += piece
    if not head:
        return None
    if len(head) <= MAX_STDIN_BYTES and (text := _text(head)) is not None:
        return text
    spool = cast("IO[bytes]", tempfile.TemporaryFile(prefix="joblane-stdin-"))  # noqa: SIM115 - see close
    try:
        return Spool(spool, _copy(head, start, spool, stop))
    except BaseException:
        spool.close()
        raise


def _copy(head: bytes, rest: Iterator[bytes], spool: IO[bytes], stop: threading.Event) -> int:
    size = 0
    try:
        while head:
            raise_if(stop)
            size += spool.write(head)
            if size > MAX_FILE_BYTES:
                raise FileError(f"standard input has more than {MAX_FILE_BYTES:,} bytes")
            head = next(rest, b"")
        spool.flush()
    except OSError as error:
        raise FileError(f"cannot store the standard input: {error.strerror}") from error
    return size


def _pieces(file: IO[Any]) -> Iterator[bytes]:
    while True:
        try:
            piece = file.read(CHUNK)
        except OSError as error:
            raise FileError(f"cannot read the standard input: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise InputError("stdin is not text; open it in binary mode") from error
        if not piece:
            return
        try:
            yield piece.encode() if isinstance(piece, str) else piece
        except UnicodeEncodeError as error:
            raise InputError("stdin holds characters that are not UTF-8 text") from error


def _text(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None
