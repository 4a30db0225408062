"""Files and directories here, as input files of a job."""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from joblane.client.errors import FileError
from joblane.client.files.models import MAX_FILE_BYTES, MAX_INPUTS
from joblane.client.files.reading import LocalFile, copy_of, identity
from joblane.files.globs import Glob
from joblane.files.paths import MAX_DEPTH, check_path

Named = str | os.PathLike[str] | tuple[str | os.PathLike[str], str]
"""A local path, or (local path, path in the job)."""


@dataclass(frozen=True, slots=True)
class Scan:
    """What the paths name."""

    files: list[LocalFile]
    empty: list[str]
    """Directories without files, which jobs do not get."""
    left_out: list[tuple[str, str]]
    """What else there is below directories and no job can get, each with the reason."""


def scan(named: Iterable[Named], exclude: Sequence[str] = ()) -> Scan:
    """Find the regular files that paths name, with their places in the work directory of the job.

    A directory stands for all files below it. Without a path of the job, a relative path keeps its
    directories; an absolute one, and one with `..`, becomes its last component. A link below a
    directory stands for the regular file in that directory that it leads to; any other link is left
    out, as are devices, pipes and sockets. Left out below directories is also what a glob of
    `exclude` matches: its path in the job or, without a slash, its name. Raises `FileError`, which
    names the file, for what was named and is no file, for names that a job cannot have, for what
    cannot be read, and for too many or too large files.
    """
    found: dict[str, LocalFile] = {}
    below = _Below(tuple(map(_parse_exclusion, exclude)))
    for each in named:
        local, remote = each if isinstance(each, tuple) else (each, None)
        for file in below.find(os.fspath(local), remote):
            other = found.setdefault(file.remote, file)
            if other is not file and other.path != file.path:
                raise FileError(
                    f"{show(other.name)} and {show(file.name)} would both be {file.remote}"
                    " of the job"
                )
            if len(found) > MAX_INPUTS:
                raise FileError(
                    f"more than {MAX_INPUTS:,} files; exclude some, or put them into one archive,"
                    " which the job unpacks"
                )
    _check_tree(found)
    return Scan(list(found.values()), below.empty, below.left_out)


def _parse_exclusion(text: str) -> Glob:
    """Raises `FileError` for what is no glob."""
    glob = text.removeprefix("./").rstrip("/")
    try:
        return Glob.parse(glob if "/" in glob else f"**/{glob}")
    except ValueError as error:
        raise FileError(f"{show(text)} excludes nothing: it {error}") from error


def show(name: str) -> str:
    """Show a name in a message; one with control characters, or that is no text, quoted."""
    return name if name.isprintable() else repr(name)


@dataclass(frozen=True, slots=True)
class _Below:
    """Finds files, and collects what is left out."""

    exclude: tuple[Glob, ...]
    empty: list[str] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def find(self, local: str, remote: str | None) -> Iterator[LocalFile]:
        """Yield the file or the files of a directory that was named."""
        if not local or "\0" in local:
            raise FileError(
                "the path of an input file is empty" if not local else "no path has a NUL"
            )
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
        yield from self._files(_Place(root, local, place), descriptor, root)

    def _files(self, there: "_Place", descriptor: int, root: str) -> Iterator[LocalFile]:
        """Yield the files below a directory, in the order of names; closes the descriptor.

        Links may lead to files in `root`. Directories are opened below one another, without links:
        one that is replaced by a link meanwhile is an error.
        """
        try:
            entries = sorted(os.listdir(descriptor))
            if not entries:
                self.empty.append(there.name)
            for entry in entries:
                here = there.below(entry)
                if any(glob.matches(here.remote) for glob in self.exclude):
                    continue
                found = os.stat(entry, dir_fd=descriptor, follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    if here.remote.count("/") >= MAX_DEPTH:
                        raise FileError(
                            f"{show(here.name)[:200]}: more than {MAX_DEPTH} directories"
                        )
                    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                    yield from self._files(here, os.open(entry, flags, dir_fd=descriptor), root)
                else:
                    file = _find_file(here, found, root)
                    if isinstance(file, str):
                        self.left_out.append((show(here.name), file))
                    else:
                        yield file
        except OSError as error:
            raise FileError(f"cannot read {show(there.name)}: {error.strerror}") from error
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class _Place:
    """A file or directory: where it is, as the caller names it, and its path in the job."""

    path: str
    name: str
    remote: str

    def below(self, entry: str) -> "_Place":
        """Return the place of an entry of this directory."""
        return _Place(
            f"{self.path}/{entry}".replace("//", "/", 1),
            f"{self.name}/{entry}".removeprefix("./").replace("//", "/", 1),
            f"{self.remote}/{entry}".removeprefix("/"),
        )


def _find_file(here: _Place, found: os.stat_result, root: str) -> LocalFile | str:
    """Return the file that is there, or that a link leads to; or why no job can have it."""
    if not stat.S_ISLNK(found.st_mode):
        if not stat.S_ISREG(found.st_mode):
            return "it is not a regular file or a directory"
        return _file(here.path, here.name, here.remote, found)
    try:
        target = os.path.realpath(here.path, strict=True)
        found = os.stat(target, follow_symlinks=False)  # noqa: PTH116
    except OSError as error:
        return f"it is a link that leads nowhere: {error.strerror}"
    if not PurePosixPath(target).is_relative_to(root):
        return f"it is a link that leads out of the directory, to {show(target)}"
    if not stat.S_ISREG(found.st_mode):
        return "it is a link to what is not a regular file"
    return _file(target, here.name, here.remote, found)


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
    copy = copy_of(path, show(name), found)
    size = found.st_size if copy is None else len(copy)
    return LocalFile(path, show(name), place, mode, size, identity(found), copy)


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
