"""The account of one file system: what attempts put on it, and what stays free for the host.

    before the claim, by the job's message                  while it is written, by its real size

    free now                                                free now
      - the host's reserve                                    - the host's reserve
      - what disks of running jobs may still grow by          - the same
      + what caches could give up                             - what is being written
      + what was written of what is being written             - the output that jobs may still write
      = available to jobs                                     = left

An agent claims a job only if what it asks for is available beside what jobs here may still write
(`ec2_agent.serving.disk`). Whatever an attempt writes is then reserved by its real size before its
first byte: input files, bundles as they come and as they are unpacked, disks. What does not fit
takes from the caches what nobody uses. If that is not enough, because a message said less than
there is or others write to the disk, the job is left to another agent, and other jobs go on here.
The output of a running job ends at what stays free.

Imports only the standard library and the sandbox, for `python -m ec2_agent.sandbox`.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ec2_agent.sandbox.model import DiskShort, HostLacks

MIB = 1 << 20

LOW_BYTES = 64 * MIB
"""With less free disk space an agent takes no jobs; the state service has the same limit."""

LOW_FILES = 1000
"""The same of inodes: a job has seven files."""

KEEP_BYTES, KEEP_FILES = 2 * LOW_BYTES, 2 * LOW_FILES
"""Left on the file system of the agent's state by all that its jobs write."""

Reclaim = Callable[[], bool]
"""Removes from a cache the least recently used thing that is not in use; False if there is none."""


def reserve_of(total: int) -> int:
    """Return how many bytes of a file system of `total` bytes stay free of jobs."""
    return min(1 << 30, total // 20)


class Reservation:
    """What one writer may still write."""

    def __init__(self, size: int, files: int) -> None:
        self.size = size
        self.files = files
        self.written = 0

    def note_written(self, size: int) -> None:
        """Note bytes that were written: they are missing from what is free by now."""
        self.size = max(0, self.size - size)
        self.written += size


class Available(NamedTuple):
    """What jobs may have of a file system, in bytes; below 0 if others have taken the reserve."""

    now: int
    """With what caches could give up, and without what is being written."""
    uncached: int
    """With what is there now: caches give up nothing."""
    total: int
    """What jobs could have if there were nothing else."""


class DiskSpace:
    """The account of the file system of one directory. Thread-safe."""

    def __init__(self, place: Path, *, keep_bytes: int = 0, keep_files: int = 0) -> None:
        """`keep_bytes` and `keep_files` stay free in any case; `reserve_of` may be more."""
        self.place = place
        self._keep_bytes = keep_bytes
        self._keep_files = keep_files
        self.promised: Callable[[], int] = lambda: 0
        """Bytes by which disks of running jobs may still grow."""
        self.reclaims: list[Reclaim] = []
        self.reclaimable: list[Callable[[], int]] = []
        """Bytes that caches could give up, as they know it."""
        self.found_reclaimable: list[Callable[[], int]] = []
        """Those that are found by a look at each entry, which takes 10 us."""
        self.outputs: Callable[[], int] = lambda: 0
        """Bytes of output that jobs may still write: nothing else may take them."""
        self._lock = threading.Lock()
        """Held while what is left is found and reserved."""
        self._open: set[Reservation] = set()

    def has(self, directory: Path) -> bool:
        """Whether a directory is there, and on this file system. Raises OSError."""
        return directory.is_dir() and directory.stat().st_dev == self.place.stat().st_dev

    def available(self, *, thorough: bool = True) -> Available:
        """Find what jobs may have; what `found_reclaimable` has only if `thorough`.

        Raises OSError.
        """
        cached = sum(each() for each in self.reclaimable)
        if thorough:
            cached += sum(each() for each in self.found_reclaimable)
        with self._lock:
            disk = os.statvfs(self.place)
            total, keep = self._bounds(disk)
            written = sum(each.written for each in self._open)
            coming = sum(each.size for each in self._open)
        left = disk.f_bavail * disk.f_frsize - keep - self.promised()
        return Available(left + written + cached, left - coming, total - keep)

    def make_room(self) -> None:
        """Have caches give up what nobody uses until jobs can write their output. Blocking.

        Raises OSError.
        """
        with suppress(DiskShort), self.reserve(0, "output", files=0):
            pass

    def _bounds(self, disk: os.statvfs_result) -> tuple[int, int]:
        """The bytes of the file system, and how many of them stay free of jobs."""
        total = disk.f_blocks * disk.f_frsize
        return total, max(reserve_of(total), self._keep_bytes)

    @contextmanager
    def reserve(self, size: int, what: str, files: int = 1) -> Iterator[Reservation]:
        """Reserve bytes and inodes while they are written; `what` asks for them, `its bundle`.

        Raises HostLacks if the file system is too small at any time, DiskShort if there is no room
        now, and OSError.
        """
        mine = Reservation(size, files)
        while (short := self._take(mine, what)) is not None:
            if not any(reclaim() for reclaim in self.reclaims):
                raise short
        try:
            yield mine
        finally:
            with self._lock:
                self._open.discard(mine)

    def _take(self, mine: Reservation, what: str) -> DiskShort | None:
        """Reserve; returns why it cannot be done now."""
        with self._lock:
            disk = os.statvfs(self.place)
            total, keep = self._bounds(disk)
            if mine.size > total - keep:
                raise HostLacks(
                    f"{what} of {_mib(mine.size)}: the file system of {self.place} has room for "
                    f"{(total - keep) // MIB} MiB; use less, or a fleet with a larger disk_gb"
                )
            left = disk.f_bavail * disk.f_frsize - keep - self.promised() - self.outputs()
            left -= sum(each.size for each in self._open)
            if mine.size > left:
                return DiskShort(
                    f"{what} of {_mib(mine.size)}: the file system of {self.place} has "
                    f"{max(0, left) // MIB} MiB left for jobs"
                )
            inodes = disk.f_favail - self._keep_files - sum(each.files for each in self._open)
            if disk.f_files and mine.files > inodes:  # some file systems do not count inodes
                return DiskShort(
                    f"{what} of {mine.files} files: the file system of {self.place} has room for "
                    f"{max(0, inodes)}"
                )
            self._open.add(mine)
            return None


def _mib(size: int) -> str:
    return f"{-(-size // MIB)} MiB"
