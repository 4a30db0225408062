"""Disks that are directories with a project quota: xfs and ext4 mounted with `prjquota`.

    <place>/<number>     the directory of one disk, in the project FIRST_PROJECT + number
    <place>/lock         held while a directory is made, and while one is found to be unused

A directory is used while a process has a lock on it: first the agent, then the init of the sandbox,
and whoever keeps the work directory. The locks end with their processes. Directories without a lock
are removed, by any agent of the host; the limits themselves say what the used ones may still take.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from ec2_agent.sandbox import kernel
from ec2_agent.sandbox.cgroup import disks_of
from ec2_agent.sandbox.disk import calls
from ec2_agent.sandbox.disk.model import Disk, inodes_of
from ec2_agent.sandbox.disk.removal import empty
from ec2_agent.sandbox.disk.space import MIB, DiskSpace
from ec2_agent.sandbox.model import SandboxRefused, refusal

FIRST_PROJECT = 0x4A4C0000
"""Projects with lower numbers are the host's own."""
MOST_DISKS = 0xFFFF
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class QuotaDisks:
    """Makes directories below one directory."""

    def __init__(self, place: Path, space: DiskSpace) -> None:
        """Open the directory; raises SandboxRefused unless project quotas are enforced there."""
        self._place = place
        self._space = space
        self._fd = os.open(place, _DIRECTORY)
        if not calls.enforces_project_quota(self._fd):
            os.close(self._fd)
            raise SandboxRefused(f"the file system of {place} enforces no project quotas")
        self._devices = disks_of((place,))
        space.promised = self.count_promised
        space.reclaims.insert(0, self._remove_unused)  # before what caches have

    def describe(self) -> str:
        """Say for operators how the size is enforced."""
        return "a project quota"

    def takes_mb(self, size_mb: int) -> int:
        """Return its size: the directory has all of it."""
        return size_mb

    def make(self, size_mb: int) -> Disk:
        """Make a directory with this many MiB; raises SandboxRefused."""
        try:
            with (
                self._space.reserve(size_mb * MIB, "its work directory"),
                self._locked(),
                contextlib.ExitStack() as undo,
            ):
                used = self._list_used()
                number = next(n for n in range(MOST_DISKS) if n not in used)
                name = str(number)
                os.mkdir(name, 0o700, dir_fd=self._fd)
                directory = os.open(name, _DIRECTORY, dir_fd=self._fd)
                undo.callback(os.close, directory)
                fcntl.flock(directory, fcntl.LOCK_SH)
                project = FIRST_PROJECT + number
                calls.set_project(directory, project)
                calls.limit_project(self._fd, project, size_mb * MIB, inodes_of(size_mb))
                mount = kernel.open_tree(f"{self._place}/{name}", submounts=False)
                undo.pop_all()
                return Disk(mount, (directory,), self._devices)
        except OSError as failed:
            why = f"disk_mb {size_mb}: the disk could not be made: {failed}"
            raise refusal(failed.errno, why) from failed

    def sweep(self) -> int:
        """Remove disks that are no longer used; returns how many are used."""
        left = 0
        for number in self._list_used():
            with contextlib.ExitStack() as ends, contextlib.suppress(FileNotFoundError):
                with self._locked():
                    directory = os.open(str(number), _DIRECTORY, dir_fd=self._fd)
                    ends.callback(os.close, directory)
                    try:
                        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        left += 1
                        continue
                empty(directory)
                os.rmdir(str(number), dir_fd=self._fd)
                calls.limit_project(self._fd, FIRST_PROJECT + number, 0, 0)
        return left

    def _remove_unused(self) -> bool:
        before = len(self._list_used())
        return self.sweep() < before

    def _list_used(self) -> set[int]:
        # Opened anew: a descriptor has one position, and two threads may list at once.
        listed = os.open(".", _DIRECTORY, dir_fd=self._fd)
        try:
            names = os.listdir(listed)  # noqa: PTH208 - a descriptor
            return {int(name) for name in names if name.isdecimal()}
        finally:
            os.close(listed)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        lock = os.open("lock", flags, 0o600, dir_fd=self._fd)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def count_promised(self) -> int:
        """Return the bytes by which the disks that are used may still grow."""
        uses = [calls.project_use(self._fd, FIRST_PROJECT + number) for number in self._list_used()]
        return sum(max(0, use.limit - use.used) for use in uses)
