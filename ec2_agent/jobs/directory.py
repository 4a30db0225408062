"""The directory of a job on the agent's disk; `ec2_agent/shim/files.py` lists its files."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from ec2_agent.messages.delivery import Delivery, encode_delivery
from ec2_agent.shim import files
from ec2_agent.shim.log import Reader
from joblane.job.head import Head


class JobDirectory:
    """The directory of one claim of one job."""

    def __init__(self, path: Path) -> None:
        """Open a directory that exists."""
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._log: int | None = None

    @classmethod
    def make(cls, jobs: Path, head: Head, delivery: Delivery) -> Self:
        """Make the directory of a claim and write the file `spec`; raises OSError."""
        path = jobs / f"{head.job_id}.{head.epoch}"
        path.mkdir(mode=0o700)
        try:
            directory = cls(path)
        except OSError:  # no descriptors left
            path.rmdir()
            raise
        try:
            spec = {"job_id": head.job_id, "epoch": head.epoch, **encode_delivery(delivery)}
            # Locked before another agent can find it. The shim gets this descriptor, and with it
            # the lock.
            fcntl.flock(directory.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            directory._log = directory._open_log()
            files.write(directory.fd, files.SPEC, spec)
        except BaseException:
            directory.remove()
            raise
        return directory

    @classmethod
    def all(cls, jobs: Path) -> Iterator[Self]:
        """Open every directory in `jobs`."""
        for path in sorted(jobs.iterdir()):
            yield cls(path)

    @property
    def locked(self) -> bool:
        """Whether a shim has the directory, even one that has not written its identity yet.

        The lock belongs to the descriptor with which the directory was made. The agent passed
        that descriptor to the shim, so the lock is free only when both processes have ended.
        """
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False

    def read(self, name: str) -> dict[str, Any] | None:
        """Read one of its files; None if it does not exist or is not complete."""
        return files.read(self.fd, name)

    def read_bytes(self, name: str) -> bytes | None:
        """Read one of its files as it is; None if it does not exist."""
        return files.read_bytes(self.fd, name)

    def reader(self) -> Reader:
        """Open its log, after the last record that is known to be stored."""
        if (log := self._log) is not None:
            self._log = None
            return Reader(log)
        return Reader(self._open_log(), (self.read(files.STORED) or {"seq": 0})["seq"])

    @property
    def log_bytes(self) -> int:
        """Size of its log: its output and a header of 21 bytes a record."""
        try:
            return os.stat(files.LOG, dir_fd=self.fd).st_size
        except OSError:
            return 0

    def note_stored(self, seq: int) -> None:
        """Write the number of the last record of a stored chunk.

        Without it a later process finds out by chunks that are refused.
        """
        with contextlib.suppress(OSError):  # the disk is full
            files.write(self.fd, files.STORED, {"seq": seq})

    def remove(self) -> None:
        """Remove the directory."""
        for name in files.ALL:  # rmtree needs descriptors
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self.fd)
        try:
            self.path.rmdir()
        except OSError:
            shutil.rmtree(self.path, ignore_errors=True)
        self.close()

    def close(self) -> None:
        """Close its descriptors, and leave it to the next agent."""
        for fd in (self.fd, self._log):
            if fd is not None:
                with contextlib.suppress(OSError):
                    os.close(fd)
        self._log = None

    def _open_log(self) -> int:
        flags = os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC
        return os.open(files.LOG, flags, 0o600, dir_fd=self.fd)
