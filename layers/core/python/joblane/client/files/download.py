"""Output files of a job: their list, and writing them into a directory."""

import errno
import os
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import quote

from joblane.client.answers import as_object, rows
from joblane.client.calls import LIST_MAX, Call, Request, Send, get
from joblane.client.errors import AnswerError, FileError
from joblane.client.files.destination import Destination, InTheWay
from joblane.client.files.models import IS_HERE, OutputFile, Outputs, TransferProgress
from joblane.client.files.storage import SignatureExpired, Storage
from joblane.client.files.threads import Stopped, for_each
from joblane.client.log_calls import job_path
from joblane.files.globs import Glob
from joblane.files.paths import Tree, check_path

SIGNED = 3
"""How often a download is signed again that S3 has refused."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors that all further files would have as well, each after its download."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_MODE = re.compile(r"0?[0-7]{3}")


def list_outputs(job_id: str) -> Call[Outputs]:
    """Read all of the list of a job's outputs. Raises `NotFoundError`, `AnswerError`."""
    files: list[OutputFile] = []
    cursor: str | None = None
    while True:
        params = {"limit": LIST_MAX, "next": cursor}
        page = as_object((yield from get(f"{job_path(job_id)}/outputs", params)), "output files")
        files += [_output_file(row) for row in rows(page)]
        cursor = page.get("next")
        if not cursor:
            return _outputs(page, files)


class Links:
    """Gives URLs for downloads, a hundred by one request; called by several threads."""

    def __init__(self, job_id: str, send: Send, *, all_files: bool) -> None:
        """Sign for a job; `all_files`: each of its files will be asked for, in the list's order."""
        self._path = f"{job_path(job_id)}/outputs"
        self._send = send
        self._lock = threading.Lock()
        self._listed: dict[str, str] = {}
        """URLs that nobody has asked for yet."""
        self._more = all_files
        self._cursor: str | None = None

    def get_first(self, file: OutputFile) -> str:
        """Give a URL that was not given before: from the list, which is read as far as needed.

        Every URL ends some minutes after its page was read, so pages are not read ahead.
        """
        with self._lock:
            while self._more and file.path not in self._listed:
                self._read_page()
            found = self._listed.pop(file.path, None)
        return found or self.another(file)

    def another(self, file: OutputFile) -> str:
        """Get one signed URL."""
        path = f"{self._path}/{_quote(file.path)}"
        return str(self._send(Request("GET", path, redirect=True)))

    def _read_page(self) -> None:
        params: dict[str, str | int] = {"limit": LIST_MAX, "links": "true"}
        if self._cursor is not None:
            params["next"] = self._cursor
        page = as_object(self._send(Request("GET", self._path, params)), "output files")
        for row in rows(page):
            if isinstance(url := row.get("url"), str):
                self._listed[str(row.get("path"))] = url
        self._cursor = page.get("next")
        self._more = bool(self._cursor)


@dataclass(frozen=True, slots=True)
class Care:
    """What of a machine a job's files may replace, and which names they may have."""

    spelled: Sequence[str]
    """Paths and globs that the caller gave: only these name what begins with a dot."""
    got: Mapping[str, str]
    """SHA-256 by path of what the job got from the caller: a file that is still so is no loss."""
    replace: bool
    """Whether to replace whatever is there."""

    @classmethod
    def of(cls, paths: Sequence[str], submitted: Mapping[str, Any], *, replace: bool) -> Self:
        """The care for the caller of a download; `submitted` as there."""
        inputs = submitted.get("inputs") or ()
        got = {entry["path"]: entry["sha256"] for entry in inputs if isinstance(entry, Mapping)}
        return cls([*paths, *(submitted.get("outputs") or ())], got, replace)

    def hides(self, file: OutputFile) -> str | None:
        """Why a file is not written whatever is there; None if it may be."""
        names = [name for name in file.path.split("/") if name.startswith(".")]
        if any(name.lower() == ".git" for name in names):
            return "nothing is written below .git"
        if names and not any(_spells(text, file.path) for text in self.spelled):
            return "it begins with a dot, and no path that was given has that name"
        return None

    def keeps(self, file: OutputFile, there: str | None) -> bool:
        """Whether the file with the digest `there` stays; None stands for no file."""
        mine = there in {None, file.sha256, self.got.get(file.path)}
        return not (self.replace or mine)


@dataclass(frozen=True, slots=True)
class NotWritten:
    """Files that a download has not written: the reason of each, by its path."""

    kept: dict[str, str]
    """Those that were not to be written."""
    failed: dict[str, str]
    """Those that cannot be written."""


def download(
    files: Sequence[OutputFile],
    to: str | os.PathLike[str],
    links: Links,
    stop: threading.Event,
    progress: TransferProgress,
    care: Care,
) -> NotWritten:
    """Write files of a job below `to`. Raises `FileError`, `AnswerError`, `UnreachableError`.

    Nothing is written if one of the paths is not allowed. A file that cannot be written keeps no
    other one from it, unless the disk is full.
    """
    check(files)
    kept = {file.path: why for file in files if (why := care.hides(file)) is not None}
    files = [file for file in files if file.path not in kept]
    progress.start("downloading", len(files), sum(file.size for file in files))
    fetcher = _Fetcher(Destination(to), Storage(stop, progress), links, progress, care, kept)
    try:
        for_each(fetcher.fetch, files, stop)
    finally:
        fetcher.storage.close()
        fetcher.destination.close()
    return NotWritten(fetcher.kept, fetcher.failed)


@dataclass(frozen=True, slots=True)
class _Fetcher:
    """Writes files one by one; called by several threads."""

    destination: Destination
    storage: Storage
    links: Links
    progress: TransferProgress
    care: Care
    kept: dict[str, str]
    failed: dict[str, str] = field(default_factory=dict)

    def fetch(self, file: OutputFile) -> None:
        """Write a file, or note why not. Raises what ends the download of all."""
        try:
            self._write(file)
        except Stopped:
            raise
        except FileError as error:
            if isinstance(cause := error.__cause__, OSError) and cause.errno in _FULL:
                raise
            self.failed[file.path] = str(error)

    def _write(self, file: OutputFile) -> None:
        there = self.destination.digest(file.path)
        if self.care.keeps(file, there):
            self.kept[file.path] = IS_HERE
            self.progress.add(file.size, 1)
            return
        replaces = there is not None
        begin = self.destination.begin(file.path, int(file.mode, 8), replace=replaces)
        url = self.links.get_first(file)
        for left in reversed(range(SIGNED)):
            try:
                self.storage.fetch(url, file, begin)
            except SignatureExpired as error:
                if not left:
                    raise AnswerError(f"cannot download {file.path}: {error}") from error
                url = self.links.another(file)
            except InTheWay:  # it came while this was written
                self.kept[file.path] = IS_HERE
                return
            else:
                self.progress.add(0, 1)
                return


def _spells(text: str, path: str) -> bool:
    with suppress(ValueError):
        return Glob.parse(text.removeprefix("./").rstrip("/")).spells(path)
    return False


def _quote(path: str) -> str:
    """Quote a path for a URL; one with a question mark twice, as API Gateway unquotes it once."""
    quoted = quote(path)
    return quote(quoted) if "?" in path else quoted


def select(files: Sequence[OutputFile], paths: Sequence[str]) -> list[OutputFile]:
    """Return the files that paths or globs select; all without any.

    Raises `FileError` for one that is not allowed, or selects none.
    """
    if not paths:
        return list(files)
    chosen: dict[str, OutputFile] = {}
    for text in paths:
        try:
            glob = Glob.parse(text.removeprefix("./").rstrip("/"))
        except ValueError as error:
            raise FileError(f"{text!r} selects no output file: it {error}") from error
        found = {file.path: file for file in files if glob.matches(file.path)}
        if not found:
            raise FileError(f"the job has left no file {text}; see what it has: joblane outputs ID")
        chosen |= found
    return [file for file in files if file.path in chosen]


def check(files: Sequence[OutputFile]) -> None:
    """Refuse paths that lead elsewhere, or that cannot be beside each other."""
    tree = Tree([file.path for file in files])
    for file in files:
        try:
            tree.take(check_path(file.path))
        except ValueError as error:
            raise AnswerError(f"nothing was downloaded: the path {file.path!r} {error}") from error


def _output_file(row: Mapping[str, Any]) -> OutputFile:
    path, size, sha256, mode = (row.get(name) for name in ("path", "size", "sha256", "mode"))
    if (
        not isinstance(path, str)
        or not isinstance(size, int)
        or size < 0
        or not _SHA256.fullmatch(str(sha256))
        or not _MODE.fullmatch(str(mode))
    ):
        raise AnswerError("an output file cannot be read: no path, size, sha256 or mode")
    return OutputFile(path, size, str(sha256), str(mode))


def _outputs(page: Mapping[str, Any], files: list[OutputFile]) -> Outputs:
    skipped = [
        (str(entry.get("path")), str(entry.get("why")))
        for entry in page.get("skipped") or ()
        if isinstance(entry, dict)
    ]
    return Outputs(
        files,
        unmatched=[str(glob) for glob in page.get("unmatched") or ()],
        skipped=skipped,
        skipped_count=max(int(page.get("skipped_count") or 0), len(skipped)),
    )
