"""The disks of one agent: the best kind that its host has, and their removal."""

import contextlib
import os
import threading
from pathlib import Path

from ec2_agent.sandbox.disk.loop import LoopDisks
from ec2_agent.sandbox.disk.model import Disk, Disks
from ec2_agent.sandbox.disk.quota import QuotaDisks
from ec2_agent.sandbox.disk.space import DiskSpace
from ec2_agent.sandbox.model import HostLacks, SandboxRefused

SWEEP_S = 2.0
"""Seconds between two looks for disks that are no longer used, while there are any."""

DIRECTORY = "disks"
"""Name of the directory for disks, below the agent's `work_dir`."""


def find(work_dir: Path, space: DiskSpace | None = None) -> Disks:
    """Return how this host makes disks below a directory; raises SandboxRefused with the reason."""
    if os.geteuid() != 0:
        raise SandboxRefused("disk_mb needs an agent that runs as root")
    place = work_dir / DIRECTORY
    try:
        place.mkdir(mode=0o700, exist_ok=True)
        space = space or DiskSpace(place)
        with contextlib.suppress(SandboxRefused):
            return QuotaDisks(place, space)
        return LoopDisks(place, space)
    except OSError as failed:
        raise SandboxRefused(f"{place} cannot be used for disks: {failed}") from failed


class WorkDisks:
    """Makes disks, and removes them in a thread of its own; methods may be called from any thread.

    A host that can make none refuses each.
    """

    def __init__(self, work_dir: Path, space: DiskSpace | None = None) -> None:
        """Look for the best kind; `space` is the account of the file system, or a new one."""
        self.space = space or DiskSpace(work_dir)
        """The account of the file system."""
        self._disks: Disks | None = None
        self._why = ""
        try:
            self._disks = find(work_dir, self.space)
        except SandboxRefused as lacking:
            self._why = lacking.reason
        self._wake = threading.Event()
        self._closed = False
        self._sweeper: threading.Thread | None = None
        self.sweep_soon()

    @property
    def able(self) -> bool:
        """Whether this host can make disks."""
        return self._disks is not None

    def takes_mb(self, size_mb: int) -> int:
        """What a disk of so many MiB takes of the file system; 0 on a host that can make none."""
        return 0 if self._disks is None else self._disks.takes_mb(size_mb)

    def make(self, size_mb: int) -> Disk:
        """Make a disk; raises DiskShort if the space is used by others now, and SandboxRefused."""
        if self._disks is None:
            raise HostLacks(
                f"disk_mb cannot be applied on this host: {self._why}; submit the job without it, "
                "or to a queue whose agents have disks (`joblane doctor` shows what is missing)"
            )
        return self._disks.make(size_mb)

    def sweep_soon(self) -> None:
        """Remove disks that are no longer used, now and until none is left."""
        if not isinstance(self._disks, QuotaDisks) or self._closed:
            return
        self._wake.set()
        if self._sweeper is None:
            self._sweeper = threading.Thread(target=self._sweep, name="disks", daemon=True)
            self._sweeper.start()

    def close(self) -> None:
        """End the thread; disks that are used then are removed by the next agent."""
        self._closed = True
        self._wake.set()
        if self._sweeper is not None:
            self._sweeper.join()

    def _sweep(self) -> None:
        used = 0
        while True:
            self._wake.wait(SWEEP_S if used else None)
            self._wake.clear()
            used = 1  # a failed attempt is repeated
            with contextlib.suppress(OSError):
                used = self._disks.sweep() if self._disks is not None else 0
            if self._closed:
                return
