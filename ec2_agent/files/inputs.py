"""Fetches what an attempt reads: its input files and its standard input."""

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from ec2_agent.files import stdin
from ec2_agent.files.cache import FileCache, FileUnusable
from ec2_agent.files.staging import Stage, Stages
from ec2_agent.files.transfers import Proceed, Transfers
from ec2_agent.sandbox.disk.space import DiskSpace
from joblane.formats.text import shorten
from joblane.job.head import Head

Note = Callable[[str, int, int], None]
"""Called with what the attempt does, how many files of it are done, and how many there are."""

_SHOWN_CHARS = 60
"""Characters of a path in a reason, which is cut at 160."""

_STDIN = "stdin"
"""Name of the file for the standard input in a stage."""


@dataclass(frozen=True, slots=True)
class InputFiles:
    """Fetches files for the attempts of one agent."""

    cache: FileCache
    stages: Stages
    transfers: Transfers
    space: DiskSpace
    """The account of the file system of the cache."""
    own_users: bool
    """Whether jobs run as other users than the agent."""


class InputFetch:
    """The fetch for one attempt. A context manager, which closes and removes what it has."""

    def __init__(self, files: InputFiles, head: Head, proceed: Proceed, note: Note) -> None:
        """`head` has the whole submission; `proceed` is called in several threads."""
        self._files = files
        self._head = head
        self._proceed = proceed
        self._note = note
        self._open = ExitStack()
        self._stage: Stage | None = None
        self._lock = threading.Lock()
        self._placed: set[str] = set()
        self.stage: int | None = None
        """Descriptor of the directory for `Spec.stage`; None without input files."""
        self.stdin: int | None = None
        """Descriptor for `Spec.stdin`; None: /dev/null."""

    @property
    def wanted(self) -> bool:
        """Whether there is anything to fetch."""
        spec = self._head.spec
        return bool(spec.inputs) or spec.stdin is not None or spec.stdin_file is not None

    def run(self) -> None:
        """Fetch all files; may be repeated after an error, and goes on where it was.

        Blocking. Raises FileUnusable, Stopped, DiskShort, HostLacks, OSError and AWS's errors.
        """
        spec = self._head.spec
        if spec.stdin is not None and self.stdin is None:
            self.stdin = self._keep(stdin.open_text(spec.stdin))
        names = self._names()
        if not names:
            return
        if self._stage is None:
            stages = self._files.stages
            self._stage = self._open.enter_context(stages.make(self._head.job_id, self._head.epoch))
        stage = self._stage

        def place(sha256: str) -> None:
            try:
                self._files.cache.place(
                    self._head.tenant, sha256, stage.fd, names[sha256], self._proceed
                )
            except FileUnusable as unusable:
                raise FileUnusable(f"{self._path(sha256)}: {unusable}") from None
            with self._lock:
                self._placed.add(sha256)
                done = len(self._placed)
            self._note("fetching input files", done, len(names))

        missing = [sha256 for sha256 in names if sha256 not in self._placed]
        self._note("fetching input files", len(self._placed), len(names))
        self._files.transfers.run_each(missing, place, self._proceed)
        if spec.stdin_file is not None and self.stdin is None:
            self.stdin = self._stdin_of(names[spec.stdin_file], stage)
        if spec.inputs and self.stage is None:
            stage.write_plan((file.path, file.mode, names[file.sha256]) for file in spec.inputs)
            self.stage = stage.fd

    def _stdin_of(self, name: str, stage: Stage) -> int:
        """Return a descriptor of a file in the stage that the job may read."""
        source = self._keep(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=stage.fd))
        if self._files.own_users:
            stdin.let_jobs_open(source)
            return source
        size = os.fstat(source).st_size
        with self._files.space.reserve(size, "a copy of its standard input"):
            return self._keep(stdin.open_file(source, stage.path, self._proceed))

    def _names(self) -> dict[str, str]:
        """The names in the stage, by digest; files with the same content are one file there."""
        spec = self._head.spec
        digests = dict.fromkeys(file.sha256 for file in spec.inputs)
        names = {sha256: str(at) for at, sha256 in enumerate(digests)}
        if spec.stdin_file is not None:
            names.setdefault(spec.stdin_file, _STDIN)
        return names

    def _path(self, sha256: str) -> str:
        paths = (file.path for file in self._head.spec.inputs if file.sha256 == sha256)
        first = next(paths, None)
        return "stdin_file" if first is None else f"input file {shorten(first, _SHOWN_CHARS)}"

    def _keep(self, fd: int) -> int:
        self._open.callback(os.close, fd)
        return fd

    def close(self) -> None:
        """Close the descriptors, and remove the stage: the slot has copied the files."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
