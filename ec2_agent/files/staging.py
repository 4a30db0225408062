"""The input files of one attempt, ready to be copied into its work directory.

    <job id>.<epoch>/
        0, 1, 2, ...     the files: hard links into the cache, one for each digest
        plan             JSON: [path in the work directory, mode, name of the file here], for each

The slot's init copies the files while it has privileges, in the job's cgroup, so that the copies
count as the job's (`ec2_agent/sandbox/staging.py`). The directory is removed once it has done so.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from ec2_agent.sandbox.staging import PLAN


class Stage:
    """The directory of one attempt. A context manager, which removes it."""

    def __init__(self, path: Path) -> None:
        """Make the directory; raises OSError."""
        self.path = path
        path.mkdir(mode=0o700)
        try:
            self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:  # no descriptors left
            path.rmdir()
            raise

    def write_plan(self, plan: Iterable[tuple[str, str, str]]) -> None:
        """Write the plan: path in the work directory, mode, and name of the file here."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open(PLAN, flags, 0o600, dir_fd=self.fd)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump(list(plan), file, ensure_ascii=False, separators=(",", ":"))

    def remove(self) -> None:
        """Remove the directory; what cannot be removed goes at the agent's next start."""
        os.close(self.fd)
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class Stages:
    """Makes the directories of attempts, on the file system of the cache."""

    def __init__(self, directory: Path) -> None:
        """Remove what an earlier process has left: no start of it is under way any more."""
        self._directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for entry in os.scandir(directory):
            with contextlib.suppress(OSError):
                shutil.rmtree(entry.path)

    def make(self, job_id: str, epoch: int) -> Stage:
        """Make the directory of one attempt; raises OSError."""
        return Stage(self._directory / f"{job_id}.{epoch}")
