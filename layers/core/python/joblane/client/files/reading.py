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

MAX_COPY_BYTES = 16 * 1024 * 1024
"""Longest content that is read when a file is found, because its size does not tell it."""

_PAGE_BYTES = 4096
"""Size that sysfs gives its files, whatever they hold."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Another file may have taken a file's place, such as a link or a pipe: neither is followed, nor
waited for."""


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
    copy: bytes | None = None
    """The content, of a file whose size does not tell it; see `copy_of`."""

    def chunks(self, stop: threading.Event) -> Iterator[bytes]:
        """Yield the content; the last piece only if the file is what it was when it was found.

        So a request with the content of a file that changes is never complete. Raises `FileError`.
        """
        if self.copy is not None:
            yield from (self.copy[at : at + CHUNK] for at in range(0, self.size, CHUNK))
            return
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
        try:
            descriptor = os.open(self.path, _READ)
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


def copy_of(path: str, name: str, found: os.stat_result) -> bytes | None:
    """Read a file whose size does not tell its content; None for any other one, and an empty one.

    Files of /proc and /sys have no block on any disk, and the size 0 or 4096. `name` is for
    messages. Raises `FileError`.
    """
    if found.st_blocks or found.st_size not in {0, _PAGE_BYTES}:
        return None
    content = bytearray()
    try:
        descriptor = os.open(path, _READ)
        try:
            now = os.fstat(descriptor)
            if not stat.S_ISREG(now.st_mode) or (now.st_dev, now.st_ino) != identity(found)[:2]:
                raise FileError(f"{name} changed while it was read; try again")
            while piece := os.read(descriptor, CHUNK):
                content += piece
                if len(content) > MAX_COPY_BYTES:
                    raise FileError(
                        f"{name} has no size and more than {MAX_COPY_BYTES:,} bytes; give the job"
                        " its content by standard input"
                    )
        finally:
            os.close(descriptor)
    except OSError as error:
        raise FileError(f"cannot read {name}: {error.strerror}") from error
    return bytes(content) or None


def identity(found: os.stat_result) -> tuple[int, int, int]:
    """Return what tells a file and its version from others."""
    return found.st_dev, found.st_ino, found.st_mtime_ns
