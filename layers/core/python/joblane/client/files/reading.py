"""Reading a file here, which must not change between its scan and its upload."""

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from joblane.client.errors import FileError
from joblane.client.files.threads import raise_if

CHUNK = 1024 * 1024
"""Bytes that a thread holds in memory."""


class ContentSource(Protocol):
    """Content of a known size that can be read several times."""

    @property
    def name(self) -> str:
        """What a message calls it."""

    @property
    def size(self) -> int:
        """Bytes."""

    def chunks(self, stop: threading.Event) -> Iterator[bytes]:
        """Yield all of it, in pieces. Raises `FileError`."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A regular file as it was when it was found."""

    path: str
    """Where to open it; no part of it was a link then."""
    name: str
    """As the caller named it, for messages."""
    remote: str
    """Relative to the work directory of the job."""
    mode: str
    """Permission bits, octal, such as `0644`."""
    size: int
    identity: tuple[int, int, int]
    """Device, inode and time of the last change of its content, in ns."""

    def chunks(self, stop: threading.Event) -> Iterator[bytes]:
        """Yield the content; the last piece only if the file is what it was when it was found.

        So a request with the content of a file that changes is never complete. Raises `FileError`.
        """
        with self._open() as descriptor:
            left = self.size
            while left:
                raise_if(stop)
                piece = os.read(descriptor, min(CHUNK, left))
                left -= len(piece)
                if not piece:
                    raise self.changed()
                if not left:
                    self._check(descriptor)
                yield piece

    def changed(self) -> FileError:
        """Return the error for a file that is no longer what was found."""
        return FileError(f"{self.name} changed while it was read; try again when nothing writes it")

    @contextmanager
    def _open(self) -> Iterator[int]:
        # Another file may have taken its place, such as a link or a pipe: neither is followed or
        # waited for.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags)
        except OSError as error:
            raise FileError(f"cannot read {self.name}: {error.strerror}") from error
        try:
            self._check(descriptor)
            yield descriptor
        except OSError as error:
            raise FileError(f"cannot read {self.name}: {error.strerror}") from error
        finally:
            os.close(descriptor)

    def _check(self, descriptor: int) -> None:
        now = os.fstat(descriptor)
        if not stat.S_ISREG(now.st_mode) or (now.st_size, identity(now)) != (
            self.size,
            self.identity,
        ):
            raise self.changed()


def identity(found: os.stat_result) -> tuple[int, int, int]:
    """Return what tells a file and its version from others."""
    return found.st_dev, found.st_ino, found.st_mtime_ns
