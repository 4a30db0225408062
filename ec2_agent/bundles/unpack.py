"""Unpacks a bundle, a zip file whose content is not trusted, into an empty directory."""

import errno
import os
import shutil
import stat
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO

MAX_UNPACKED_BYTES = 1 << 30
"""Bytes of all files of a bundle. The zip file has 250 MB at most."""

MAX_FILES = 100_000
"""Files and directories of a bundle: those that are only part of a path count as well."""

_CHUNK = 1 << 20
_ENCRYPTED = 0x1
_UNIX = 3
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""Others may ask for gigabytes of memory; `joblane types push` compresses with the second."""
_OF_CONTENT = frozenset({errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.ELOOP})
"""Errors of the operating system that come from a path or an offset in the zip file."""


class BadBundle(Exception):
    """A bundle that cannot be unpacked; the text says why."""


def unpack(file: IO[bytes], target: Path) -> int:
    """Unpack a zip file; `target` is an empty directory that no other user can write to.

    Directories become 0755, files 0644, or 0755 if they are executable. Returns the bytes of all
    files. Raises BadBundle for a link, a path that leaves the directory, a name that comes twice,
    more than the bounds allow, and whatever else is wrong with the file; and OSError if this host
    cannot write it. The sizes in the zip file's own directory bind: `zipfile` reads no byte more of
    an entry.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            return _extract_all(archive, target)
    except BadBundle:
        raise
    except OSError as error:
        if error.errno not in _OF_CONTENT:
            raise
        raise BadBundle(f"it is not a valid zip file: {error.strerror}") from None
    except Exception as error:  # noqa: BLE001 - what a zip file holds makes zipfile raise anything
        raise BadBundle(f"it is not a valid zip file: {error}") from None


def _extract_all(archive: zipfile.ZipFile, target: Path) -> int:
    entries = archive.infolist()
    if len(entries) > MAX_FILES:
        raise BadBundle(f"it has {len(entries)} files; at most {MAX_FILES} are allowed")
    if (size := sum(entry.file_size for entry in entries)) > MAX_UNPACKED_BYTES:
        raise BadBundle(f"its files have {size} bytes; allowed are {MAX_UNPACKED_BYTES}")
    made = 0
    for entry in entries:
        made += _extract(archive, entry, target)
        if made > MAX_FILES:
            raise BadBundle(f"it has more than {MAX_FILES} files and directories")
    return size


def _extract(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> int:
    """Extract one entry; returns how many files and directories that took."""
    path = target / _relative(entry.filename)
    mode = entry.external_attr >> 16 if entry.create_system == _UNIX else 0
    if stat.S_IFMT(mode) not in {0, stat.S_IFREG, stat.S_IFDIR}:
        raise BadBundle(f"{entry.filename!r} is neither a file nor a directory")
    if entry.flag_bits & _ENCRYPTED:
        raise BadBundle(f"{entry.filename!r} is encrypted")
    if entry.compress_type not in _METHODS:
        raise BadBundle(f"{entry.filename!r} is not compressed by deflate")
    if entry.is_dir():
        return _make_directory(path, target)
    made = _make_directory(path.parent, target)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, 0o600)
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        raise BadBundle(f"{entry.filename!r} comes twice") from None
    with os.fdopen(fd, "wb") as out, archive.open(entry) as source:
        shutil.copyfileobj(source, out, _CHUNK)
        os.fchmod(fd, 0o755 if mode & 0o111 else 0o644)
    return made + 1


def _relative(name: str) -> PurePosixPath:
    """The path of an entry, which stays below the directory."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\\" in name or "\0" in name:
        raise BadBundle(f"{name!r} is not a path in the bundle")
    return path


def _make_directory(path: Path, target: Path) -> int:
    """Make a directory and its parents below `target`; returns how many of them."""
    if path == target or path.is_dir():
        return 0
    made = _make_directory(path.parent, target)
    try:
        path.mkdir()
    except (FileExistsError, NotADirectoryError):
        raise BadBundle(f"{path.relative_to(target)} is a file and a directory") from None
    path.chmod(0o755)
    return made + 1
