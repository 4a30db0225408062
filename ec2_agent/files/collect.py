"""Finds the output files in a job's work directory, after all of the job's processes are dead.

What is in the directory is the job's, and may be hostile. Every path is opened as `beneath.py`
says, so a link is followed nowhere, not even one that replaced a directory while this looks.
Hard links lead nowhere else either: the work directory is a mount of its own, link(2) refuses to
link across mounts (EXDEV), even between two mounts of one file system, and input files are copies.
"""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field

from ec2_agent.files.beneath import open_directory
from ec2_agent.files.transfers import Proceed, Stopped
from ec2_agent.sandbox.model import SHORT
from joblane.files.fields import MAX_FILE_BYTES
from joblane.files.globs import Glob
from joblane.files.models import MAX_SKIPPED, SkippedFile
from joblane.files.paths import MAX_DEPTH, MAX_OUTPUT_PATH_BYTES, check_path

MAX_ENTRIES = 1_000_000
"""Entries of directories that are looked at; directories that no glob reaches are not. That takes
some seconds."""

MOST_STEPS = 200_000_000
"""Names in paths times names in globs: a million entries at a depth of five and twenty short globs.
That takes half a minute, whatever the globs are."""

MB = 1 << 20

_SHOWN_CHARS = 300
_LOOK_EVERY = 1024
"""Entries between two looks at whether the attempt is to go on."""

_KINDS = {
    stat.S_IFLNK: "a link, which is not followed",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class CannotCollect(Exception):
    """The output files are more than is allowed; the text gives the figure and the limit."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What an attempt may leave."""

    files: int
    """Number of its output files."""
    megabytes: int
    """Their size together, in MiB; what is sparse counts in full."""
    stored: int = 0
    """Bytes that earlier attempts have left, which count as well."""
    entries: int = MAX_ENTRIES
    steps: int = MOST_STEPS


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file that a glob matches."""

    path: str
    size: int
    mode: str
    """Permissions in octal; setuid, setgid and sticky bits are dropped."""


@dataclass(slots=True)
class CollectedFiles:
    """What was found."""

    files: list[FoundFile] = field(default_factory=list)
    """Ordered by path."""
    unmatched: tuple[str, ...] = ()
    """Globs that matched no file."""
    skipped: list[SkippedFile] = field(default_factory=list)
    """The first that were matched and are no files to collect."""
    skipped_count: int = 0

    def skip(self, path: str, why: str) -> None:
        """Count a path that is not collected, and name it if it is one of the first."""
        self.skipped_count += 1
        if len(self.skipped) < MAX_SKIPPED:
            self.skipped.append(SkippedFile(path=_show(path), why=why))


def collect(work: int, globs: Sequence[str], bounds: Bounds, proceed: Proceed) -> CollectedFiles:
    """Find what the globs match below a directory, given as a descriptor (O_PATH will do).

    Raises CannotCollect, Stopped, and OSError if this process lacks descriptors or memory.
    """
    walk = _Walk(work, tuple(map(Glob.parse, globs)), bounds, proceed)
    walk.run()
    walk.check()
    found = walk.found
    found.files.sort(key=lambda file: file.path)
    found.unmatched = tuple(
        glob for glob, matched in zip(globs, walk.matched, strict=True) if not matched
    )
    return found


class _Directory:
    """A directory that is being looked at."""

    __slots__ = ("_entries", "_fd", "path")

    def __init__(self, work: int, path: str) -> None:
        """Open it; raises OSError."""
        self.path = path
        # Held open: its entries use it for their `stat`, while the scan has a copy of it.
        self._fd = open_directory(work, path or ".")
        try:
            self._entries = os.scandir(self._fd)
        except OSError:
            os.close(self._fd)
            raise

    def next(self) -> "os.DirEntry[str] | None":
        """Return the next entry; None at the end."""
        return next(self._entries, None)

    def close(self) -> None:
        """Close it."""
        self._entries.close()
        os.close(self._fd)


class _Walk:
    def __init__(
        self, work: int, globs: tuple[Glob, ...], bounds: Bounds, proceed: Proceed
    ) -> None:
        self._work = work
        self._globs = globs
        self._bounds = bounds
        self._proceed = proceed
        self._device = os.fstat(work).st_dev
        self._entries = 0
        self._steps = 0
        self._names = sum(len(glob.components) for glob in globs)
        self._count = 0
        self._bytes = 0
        self.matched = [False] * len(globs)
        self.found = CollectedFiles()

    def run(self) -> None:
        """Look at every directory that a glob reaches, the deepest first.

        Open are the directory that is looked at and those above it: MAX_DEPTH at most, and no list
        of a directory's entries is held in memory.
        """
        above: list[_Directory] = []
        try:
            above.append(_Directory(self._work, ""))
            while above:
                directory = above[-1]
                entry = directory.next()
                if entry is None:
                    above.pop().close()
                    continue
                path = f"{directory.path}/{entry.name}" if directory.path else entry.name
                self._count_entry(len(above))
                if self._look(entry, path):
                    try:
                        above.append(_Directory(self._work, path))
                    except OSError as error:
                        self._unreadable(path, error)
        finally:
            for directory in above:
                directory.close()

    def _count_entry(self, depth: int) -> None:
        self._entries += 1
        self._steps += depth * self._names
        if self._steps > self._bounds.steps:
            raise CannotCollect(
                f"{self._entries:,} directory entries to compare with {len(self._globs)} globs; "
                "name fewer or shorter globs, or fewer directories, in outputs"
            )
        if self._entries > self._bounds.entries:
            raise CannotCollect(
                f"more than {self._bounds.entries:,} directory entries to look at; name fewer "
                "directories in outputs"
            )
        if self._entries % _LOOK_EVERY == 0 and not self._proceed():
            raise Stopped

    def _look(self, entry: "os.DirEntry[str]", path: str) -> bool:
        """Take a file that is matched; whether this is a directory to look into."""
        matching = [at for at, glob in enumerate(self._globs) if glob.matches(path)]
        reached = any(glob.may_match_below(path) for glob in self._globs)
        if not matching and not reached:
            return False
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError as error:
            self._unreadable(path, error)
            return False
        kind = stat.S_IFMT(status.st_mode)
        why = _KINDS.get(kind) or self._why_not(path, status)
        if why is not None:
            self.found.skip(path, why)
        elif kind == stat.S_IFDIR:
            return reached
        elif matching:
            self._take(path, status, matching)
        return False

    def _why_not(self, path: str, status: os.stat_result) -> str | None:
        if status.st_dev != self._device:
            return "on another file system"
        try:
            check_path(path, MAX_OUTPUT_PATH_BYTES)
        except ValueError as problem:
            return f"its path {problem}"
        if stat.S_ISDIR(status.st_mode) and path.count("/") + 1 >= MAX_DEPTH:
            return f"its files are below more than {MAX_DEPTH - 1} directories"
        return None

    def _take(self, path: str, status: os.stat_result, matching: list[int]) -> None:
        if status.st_size > MAX_FILE_BYTES:
            raise CannotCollect(
                f"an output file has {status.st_size // MB:,} MB; one file may have "
                f"{MAX_FILE_BYTES // MB:,}: {_show(path)}"
            )
        for at in matching:
            self.matched[at] = True
        self._count += 1
        self._bytes += status.st_size
        if self._count <= self._bounds.files:  # what is above is only counted
            mode = f"{stat.S_IMODE(status.st_mode) & 0o777:04o}"
            self.found.files.append(FoundFile(path, status.st_size, mode))

    def _unreadable(self, path: str, error: OSError) -> None:
        if error.errno in SHORT:
            raise error
        self.found.skip(path, f"it could not be read: {error.strerror}")

    def check(self) -> None:
        """Raise CannotCollect for more than is allowed."""
        bounds = self._bounds
        if self._count > bounds.files:
            raise CannotCollect(
                f"{self._count:,} output files; output_files_per_job allows {bounds.files:,}"
            )
        if self._bytes + bounds.stored > bounds.megabytes * MB:
            earlier = f", {_mb(bounds.stored)} of earlier attempts" if bounds.stored else ""
            raise CannotCollect(
                f"{_mb(self._bytes)} of output files{earlier}; output_files_mb_per_job allows "
                f"{bounds.megabytes:,}"
            )


def _mb(size: int) -> str:
    return f"{-(-size // MB):,} MB"


def _show(path: str) -> str:
    """A path for people: without control characters, and cut."""
    shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in path)
    return shown if len(shown) <= _SHOWN_CHARS else shown[: _SHOWN_CHARS - 1] + "\u2026"
