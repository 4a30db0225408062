"""The agent's capacity: how many more jobs it may take, and why it takes none.

A job is taken only if the host has what it will need until its end: file descriptors for its start
and its calls, disk space for its files, and a place in the journal for its outcome. Other shortages
show when a start fails: the job is given back, and no job is taken for a while.
"""

import asyncio
import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ec2_agent.logging import events
from ec2_agent.sandbox.disk.space import LOW_BYTES, LOW_FILES

CHECK_S = 1.0
"""Seconds between two checks while the agent takes no jobs for lack of capacity."""

A_START = 20
"""Most descriptors that a start needs: the job's directory, three pipes, its shim, its sandbox slot
and the slot's successor, its standard input, its staged files, its work directory, and calls to
AWS."""

A_RUNNING_JOB = 2
"""Descriptors that a running job may need in addition: calls for its output and its outcome."""

RESERVED = 64
"""Descriptors for polls, heartbeats, the state service and its restart, and for transfers of files:
a file and a connection for each (`ec2_agent.files.transfers.AT_ONCE`)."""

LOOK_S = 0.25
"""Seconds for which a look counts that found plenty: of descriptors, or of disk space."""

PLENTY = 16
"""Times the lower limit of disk space and inodes. No disk loses a gigabyte in `LOOK_S`."""

PAUSES_S = (1.0, 5.0, 15.0, 60.0)
"""Pauses after starts that failed one after another."""


@dataclass(frozen=True, slots=True)
class JobCounts:
    """The jobs of an agent."""

    taken: int
    """Slots taken, each from a message's arrival to its job's end."""
    started: int
    """Of these, jobs that have been started."""


@dataclass
class HostCapacity:
    """Decides how many more jobs the host can take."""

    directory: Path
    """On the disk of the jobs' files."""
    threads: int
    """Most jobs at once."""
    journal: Callable[[], int]
    """How many more outcomes the journal can store."""
    jobs: Callable[[], JobCounts]
    monotonic: Callable[[], float]
    on_change: Callable[[], None]
    """Called when jobs can be taken again."""

    def __post_init__(self) -> None:
        self._fails = 0
        self._shut_until = 0.0
        self._failed = ""
        self._logged = False
        self._looked_at = -LOOK_S
        self._descriptors = 0
        self._roomy_until = 0.0

    @property
    def left(self) -> int:
        """How many more jobs may be taken; 0 or less: none."""
        jobs = self.jobs()
        if (left := self.threads - jobs.taken) <= 0:
            return 0
        if (why := self._lack(jobs)) is not None:
            self._log(why)
            return 0
        return min(left, self._starts(jobs), self.journal() - jobs.taken)

    @property
    def why(self) -> str | None:
        """Why no job is taken although a slot is free; None if jobs are taken."""
        jobs = self.jobs()
        return None if jobs.taken >= self.threads else self._lack(jobs)

    def start_failed(self, why: str) -> None:
        """Take no jobs for a while: the host lacked something.

        Starts that were under way at the same time fail for the same reason: they count once.
        """
        if (now := self.monotonic()) >= self._shut_until:
            self._shut_until = now + PAUSES_S[min(self._fails, len(PAUSES_S) - 1)]
            self._fails += 1
        self._failed = why
        self._log(why)

    def start_succeeded(self) -> None:
        """Reset the pauses after failed starts."""
        self._fails = 0

    async def keep(self) -> None:
        """Notice when jobs can be taken again, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_S)
            if self._logged and self._lack(self.jobs()) is None:
                self._logged = False
                events.capacity_available()
                self.on_change()

    def _lack(self, jobs: JobCounts) -> str | None:
        if self.monotonic() < self._shut_until:
            return self._failed
        if self.journal() <= jobs.taken:
            return "the journal is full"
        if self._starts(jobs) <= 0:
            most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            return f"{max(0, descriptors_left())} descriptors are left of {most}"
        return self._lack_of_disk()

    def _starts(self, jobs: JobCounts) -> int:
        """How many more jobs can be started with the descriptors left."""
        left = self._descriptors_left() - RESERVED - A_RUNNING_JOB * jobs.started
        return left // A_START - (jobs.taken - jobs.started)

    def _descriptors_left(self) -> int:
        """How many more descriptors may be opened; a look may be `LOOK_S` old if it found plenty.

        Plenty is enough for a start in every slot beside all that runs: whatever jobs have been
        started or taken since the look, none of them can lack one. Below it, each call looks.
        """
        now = self.monotonic()
        plenty = RESERVED + self.threads * (A_START + A_RUNNING_JOB)
        if self._descriptors < plenty or now - self._looked_at >= LOOK_S:
            self._descriptors, self._looked_at = descriptors_left(), now
        return self._descriptors

    def _lack_of_disk(self) -> str | None:
        """Why the disk has no room for another job; a look that found plenty counts for a while."""
        if (now := self.monotonic()) < self._roomy_until:
            return None
        try:
            disk = os.statvfs(self.directory)
        except OSError as error:
            return f"{self.directory}: {error.strerror or error}"
        free = disk.f_bavail * disk.f_frsize
        if free < LOW_BYTES:
            mega = 1024 * 1024
            return (
                f"the disk of {self.directory} has {free // mega} MB left; "
                f"jobs are taken from {LOW_BYTES // mega} MB on"
            )
        if disk.f_files and disk.f_favail < LOW_FILES:  # some file systems do not count inodes
            return f"the disk of {self.directory} has room for {disk.f_favail} files"
        many_files = not disk.f_files or disk.f_favail >= PLENTY * LOW_FILES
        if many_files and free >= PLENTY * LOW_BYTES:
            self._roomy_until = now + LOOK_S
        return None

    def _log(self, why: str) -> None:
        if not self._logged:
            events.no_capacity(why)
        self._logged = True


def descriptors_left() -> int:
    """How many more file descriptors this process may open."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        with os.scandir("/proc/self/fd") as found:
            return most - sum(1 for _ in found) + 1
    except OSError:  # no descriptor left for the directory itself
        return 0


def raise_descriptor_limit() -> None:
    """Raise the soft limit of file descriptors to the hard limit: 200 jobs need more than 1024.

    The low soft limit is for programs that use select(2). The sandbox sets the limit of jobs.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
