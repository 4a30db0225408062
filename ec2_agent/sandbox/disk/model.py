"""A disk, and the figures that every kind of disk shares."""

import contextlib
import os
from dataclasses import dataclass
from typing import Protocol, Self

INODES_PER_MIB = 256
"""As of the directories in memory (`ec2_agent/sandbox/slot.py`)."""
LEAST_INODES, MOST_INODES = 1024, 10_000_000


@dataclass(frozen=True, slots=True)
class Disk:
    """One disk. A context manager: closes its descriptors, which a sandbox has copies of."""

    mount: int
    """Descriptor of the detached mount."""
    locks: tuple[int, ...]
    """Descriptors whose locks say that it is used, until the sandbox has its own."""
    devices: tuple[str, ...]
    """`major:minor` of the devices that its bytes go through."""

    def close(self) -> None:
        """Close the descriptors; the disk ends with them unless a sandbox has it."""
        for fd in (self.mount, *self.locks):
            with contextlib.suppress(OSError):
                os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Disks(Protocol):
    """One way to make disks, which reserves their space in an account."""

    def make(self, size_mb: int) -> Disk:
        """Make an empty disk of this many MiB.

        Raises DiskShort if the space is used by others now, HostLacks, and SandboxRefused.
        """

    def takes_mb(self, size_mb: int) -> int:
        """Return what a disk of this many MiB takes of the file system."""

    def sweep(self) -> int:
        """Remove disks that are no longer used; returns how many are used."""

    def describe(self) -> str:
        """Say for operators how the size is enforced."""


def inodes_of(size_mb: int) -> int:
    """Return how many files and directories a disk may hold."""
    return max(LEAST_INODES, min(MOST_INODES, size_mb * INODES_PER_MIB))
