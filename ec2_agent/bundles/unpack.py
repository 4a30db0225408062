"""Unpacks a bundle, a zip file whose content is not trusted, into an empty directory."""

import errno
import os
import shutil
import stat
import zipfile
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from ec2_agent.sandbox.model import SandboxRefused

MAX_UNPACKED_BYTES = 1 << 30
"""Bytes of all files of a bundle. The zip file has 250 MB at most."""

MAX_FILES = 100_000
"""Files and directories of a bundle: those that are only part of a path count as well."""

EACH_BYTES = 16 << 10
"""Counted for each file beside its bytes: ext4 has an inode for so many bytes of a disk, and the
last block of a file is half empty."""

MAX_HEADERS = 2 * MAX_FILES
"""Entries that `zipfile` may find: it takes 0.6 KB of memory for each before it tells how many
there are, and 250 MB could have five million. Those of a zip file in the bundle count, too, if it
is not compressed again."""

_HEADER, _HEADER_BYTES = b"PK\1\2", 46
"""How an entry of the directory of a zip file begins, and the least that it takes."""

_BLOCK_BYTES = 4096
_CHUNK = 1 << 20
_ENCRYPTED = 0x1
_UNIX = 3
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""Others may ask for gigabytes of memory; `joblane types push` compresses with the second."""
_OF_CONTENT = frozenset({errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.ELOOP})
"""Errors of the operating system that come from a path or an offset in the zip file."""


class BadBundle(Exception):
    """A bundle that cannot be unpacked; the text says why."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a bundle unpacks to, as its own directory says. `unpack` writes so much, or fails."""

    size: int
    """Bytes of all files."""
    files: int
    """Files, and the directories that their paths make."""

    @property
    def charged(self) -> int:
        """Bytes that count for it in the cache."""
        return self.size + self.files * EACH_BYTES

    @property
    def on_disk(self) -> int:
        """Bytes that it takes at most: the last block of a file is not full."""
        return self.size + self.files * _BLOCK_BYTES


Admit = Callable[[Contents], AbstractContextManager[object]]
"""Entered before the first byte is written, and left after the last one."""


def unpack(file: IO[bytes], target: Path, admit: Admit = nullcontext) -> Contents:
    """Unpack a zip file; `target` is an empty directory that no other user can write to.

    Directories become 0755, files 0644, or 0755 if they are executable. Raises BadBundle for a
    link, a path that leaves the directory, a name that comes twice, more than the bounds allow, and
    whatever else is wrong with the file; OSError if this host cannot write it; and what `admit`
    raises. The sizes in the zip file's own directory bind: `zipfile` reads no byte more of an
    entry, and one that has fewer is refused.
    """
    _check_headers(file)
    try:
        with zipfile.ZipFile(file) as archive:
            contents = _contents(archive)
            with admit(contents):
                _extract_all(archive, target)
            return contents
    except (BadBundle, SandboxRefused):
        raise
    except OSError as error:
        if error.errno not in _OF_CONTENT:
            raise
        raise BadBundle(f"it is not a valid zip file: {error.strerror}") from None
    except Exception as error:  # noqa: BLE001 - what a zip file holds makes zipfile raise anything
        raise BadBundle(f"it is not a valid zip file: {error}") from None


def _check_headers(file: IO[bytes]) -> None:
    if file.seek(0, os.SEEK_END) > MAX_HEADERS * _HEADER_BYTES:
        file.seek(0)
        found, before = 0, b""
        while chunk := file.read(_CHUNK):
            found += (before + chunk).count(_HEADER)
            before = chunk[1 - len(_HEADER) :]
        if found > MAX_HEADERS:
            raise BadBundle(f"it has more than {MAX_FILES} files")
    file.seek(0)


def _contents(archive: zipfile.ZipFile) -> Contents:
    entries = archive.infolist()
    if len(entries) > MAX_FILES:
        raise BadBundle(f"it has {len(entries)} files; at most {MAX_FILES} are allowed")
    if (size := sum(entry.file_size for entry in entries)) > MAX_UNPACKED_BYTES:
        raise BadBundle(f"its files have {size} bytes; allowed are {MAX_UNPACKED_BYTES}")
    return Contents(size, _count(entry.filename for entry in entries))


def _count(names: Iterable[str]) -> int:
    """Count files and the directories that their paths make; a name that comes twice counts once.

    By their hashes, and from the end of a path only up to a directory that is known: a zip file may
    have 60,000 paths of 2,000 directories each.
    """
    above = {hash("."), hash("/")}
    seen = set(above)
    for name in names:
        path = PurePosixPath(name)
        while (known := hash(str(path))) not in seen:
            seen.add(known)
            path = path.parent
        if len(seen) - len(above) > MAX_FILES:
            raise BadBundle(f"it has more than {MAX_FILES} files and directories")
    return len(seen) - len(above)


def _extract_all(archive: zipfile.ZipFile, target: Path) -> None:
    for entry in archive.infolist():
        _extract(archive, entry, target)


def _extract(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> None:
    path = target / _relative(entry.filename)
    mode = entry.external_attr >> 16 if entry.create_system == _UNIX else 0
    if stat.S_IFMT(mode) not in {0, stat.S_IFREG, stat.S_IFDIR}:
        raise BadBundle(f"{entry.filename!r} is neither a file nor a directory")
    if entry.flag_bits & _ENCRYPTED:
        raise BadBundle(f"{entry.filename!r} is encrypted")
    if entry.compress_type not in _METHODS:
        raise BadBundle(f"{entry.filename!r} is not compressed by deflate")
    if entry.is_dir():
        _make_directory(path, target)
        return
    _make_directory(path.parent, target)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, 0o600)
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        raise BadBundle(f"{entry.filename!r} comes twice") from None
    with os.fdopen(fd, "wb") as out, archive.open(entry) as source:
        shutil.copyfileobj(source, out, _CHUNK)
        if out.tell() != entry.file_size:
            raise BadBundle(f"{entry.filename!r} has fewer than {entry.file_size} bytes")
        os.fchmod(fd, 0o755 if mode & 0o111 else 0o644)


def _relative(name: str) -> PurePosixPath:
    """The path of an entry, which stays below the directory."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\\" in name or "\0" in name:
        raise BadBundle(f"{name!r} is not a path in the bundle")
    return path


def _make_directory(path: Path, target: Path) -> None:
    """Make a directory and its parents below `target`."""
    if path == target or path.is_dir():
        return
    _make_directory(path.parent, target)
    try:
        path.mkdir()
    except (FileExistsError, NotADirectoryError):
        raise BadBundle(f"{path.relative_to(target)} is a file and a directory") from None
    path.chmod(0o755)
