"""Files and directories here, as input files of a job."""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from joblane.client.errors import FileError
from joblane.client.files.models import MAX_FILE_BYTES, MAX_INPUTS
from joblane.client.files.reading import LocalFile, identity
from joblane.files.paths import MAX_DEPTH, check_path

Named = str | os.PathLike[str] | tuple[str | os.PathLike[str], str]
"""A local path, or (local path, path in the job)."""


@dataclass(frozen=True, slots=True)
class Scan:
    """What the paths name."""

    files: list[LocalFile]
    empty: list[str]
    """Directories without files, which jobs do not get."""


def scan(named: Iterable[Named]) -> Scan:
    """Find the regular files that paths name, with their places in the work directory of the job.

    A directory stands for all files below it. Without a path of the job, a relative path keeps its
    directories; an absolute one, and one with `..`, becomes its last component. A link below a
    directory stands for the regular file in that directory that it leads to. Raises `FileError`,
    which names the file, for any other link, for devices, pipes and sockets, for names that a job
    cannot have, and for too many or too large files.
    """
    found: dict[str, LocalFile] = {}
    empty: list[str] = []
    for each in named:
        local, remote = each if isinstance(each, tuple) else (each, None)
        for file in _below(os.fspath(local), remote, empty):
            other = found.setdefault(file.remote, file)
            if other is not file and other.path != file.path:
                raise FileError(
                    f"{show(other.name)} and {show(file.name)} would both be {file.remote}"
                    " of the job"
                )
            if len(found) > MAX_INPUTS:
                raise FileError(
                    f"more than {MAX_INPUTS:,} files; put them into one archive, which the job"
                    " unpacks"
                )
    _check_tree(found)
    return Scan(list(found.values()), empty)


def show(name: str) -> str:
    """Show a name in a message; one with control characters, or that is no text, quoted."""
    return name if name.isprintable() else repr(name)


def _below(local: str, remote: str | None, empty: list[str]) -> Iterator[LocalFile]:
    if not local or "\0" in local:
        raise FileError("the path of an input file is empty" if not local else "no path has a NUL")
    try:
        root = os.path.realpath(local, strict=True)
        found = os.stat(local)  # noqa: PTH116 - of a path as it is, with its slash
    except OSError as error:
        raise FileError(f"cannot read {show(local)}: {error.strerror}") from error
    place = _default_place(local) if remote is None else _place(remote)
    if not stat.S_ISDIR(found.st_mode):
        if remote is not None and (place == "" or remote.endswith("/")):
            place = f"{place}/{_last(local)}".removeprefix("/")
        yield _file(root, local, place, found)
        return
    if local.endswith("/"):
        local = local.rstrip("/") or "/"
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise FileError(f"cannot read {show(local)}: {error.strerror}") from error
    yield from _Directory(root, empty).files(descriptor, root, local, place)


@dataclass(frozen=True, slots=True)
class _Directory:
    """A directory that was named; links may lead to files in it."""

    root: str
    empty: list[str]

    def files(self, descriptor: int, path: str, name: str, place: str) -> Iterator[LocalFile]:
        """Yield the files below a directory in it, in the order of names; closes the descriptor.

        Directories are opened below one another, without links: one that is replaced by a link
        meanwhile is an error.
        """
        try:
            entries = sorted(os.listdir(descriptor))
            if not entries:
                self.empty.append(name)
            for entry in entries:
                here = f"{path}/{entry}".replace("//", "/", 1)
                named = f"{name}/{entry}".removeprefix("./").replace("//", "/", 1)
                there = f"{place}/{entry}".removeprefix("/")
                found = os.stat(entry, dir_fd=descriptor, follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    if there.count("/") >= MAX_DEPTH:
                        raise FileError(f"{show(named)[:200]}: more than {MAX_DEPTH} directories")
                    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                    below = os.open(entry, flags, dir_fd=descriptor)
                    yield from self.files(below, here, named, there)
                elif stat.S_ISLNK(found.st_mode):
                    yield self._follow_link(here, named, there)
                else:
                    yield _file(here, named, there, found)
        except OSError as error:
            raise FileError(f"cannot read {show(name)}: {error.strerror}") from error
        finally:
            os.close(descriptor)

    def _follow_link(self, here: str, name: str, place: str) -> LocalFile:
        try:
            target = os.path.realpath(here, strict=True)
            found = os.stat(target, follow_symlinks=False)  # noqa: PTH116
        except OSError as error:
            raise FileError(f"the link {show(name)} leads nowhere: {error.strerror}") from error
        if not PurePosixPath(target).is_relative_to(self.root):
            raise FileError(
                f"the link {show(name)} leads out of the directory, to {show(target)}; name that"
                " file itself, as LOCAL:REMOTE"
            )
        if not stat.S_ISREG(found.st_mode):
            raise FileError(f"the link {show(name)} leads to what is not a regular file")
        return _file(target, name, place, found)


def _file(path: str, name: str, place: str, found: os.stat_result) -> LocalFile:
    if not stat.S_ISREG(found.st_mode):
        raise FileError(f"{show(name)} is not a regular file or a directory")
    try:
        check_path(place)
    except ValueError as error:
        raise FileError(f"{show(name)} cannot be a file of a job: {error}") from error
    if found.st_size > MAX_FILE_BYTES:
        raise FileError(
            f"{show(name)} has {found.st_size:,} bytes; a file has {MAX_FILE_BYTES:,} at most"
        )
    mode = f"{stat.S_IMODE(found.st_mode) & 0o777:04o}"
    return LocalFile(path, show(name), place, mode, found.st_size, identity(found))


def _default_place(local: str) -> str:
    """Place of a path for which none was given; empty for the work directory itself."""
    if local.startswith("/") or ".." in local.split("/"):
        return _last(local)
    place = os.path.normpath(local)
    return "" if place == "." else place


def _last(local: str) -> str:
    last = local.rstrip("/").rpartition("/")[2]
    if last in {"", ".", ".."}:
        raise FileError(f"{show(local)} needs a path in the job: {show(local)}:REMOTE")
    return last


def _place(remote: str) -> str:
    """Path in the job that was given: `./` and a slash at its end may be there."""
    place = remote.removesuffix("/") if remote != "/" else remote
    while place.startswith("./"):
        place = place.removeprefix("./").lstrip("/")
    if place in {"", "."}:
        return ""
    try:
        check_path(place)
    except ValueError as error:
        raise FileError(f"{show(remote)} cannot be a path of a job: {error}") from error
    return place


def _check_tree(found: dict[str, LocalFile]) -> None:
    """Refuse a file where another one needs a directory."""
    for place, file in found.items():
        for parent in PurePosixPath(place).parents:
            if other := found.get(str(parent)):
                raise FileError(
                    f"{file.name} would be {place} of the job, where {parent} is the file"
                    f" {other.name}"
                )
