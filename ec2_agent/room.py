"""How many more jobs an agent may take, and why it takes none.

A job is taken only while the host has what it will need to its end: descriptors for its start and
its calls, space for its files, and a place in the journal for its outcome. What cannot be seen
ahead is learnt from a start that fails for want of something: the job goes back, and nothing
is taken for a while.
"""

import asyncio
import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ec2_agent.events import NoRoom, RoomAgain
from ec2_agent.log_event import tell

LOOK_S = 1.0
"""Between looks while there is no room: what is missing may come back without a word."""

A_START = 16
"""Descriptors that a start needs at most: the job's directory, three pipes, its shim, its slot and
the slot's successor, and calls to AWS."""

A_RUNNING_JOB = 2
"""More of them that a running job may come to need: calls for its output and its outcome."""

KEPT_BACK = 48
"""For the polls, heartbeats, the state service and its restart."""

LOW_BYTES = 64 * 1024 * 1024
"""Free space that the files of running jobs keep; the state service's bound, too."""

LOW_FILES = 1000
"""Free inodes: a job has seven files."""

PAUSES_S = (1.0, 5.0, 15.0, 60.0)
"""After starts that failed one after another: a host that stays short must not spin."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """What an agent has now."""

    taken: int
    """Slots, from a message's arrival to its job's end."""
    started: int
    """Of these, jobs that have what a start needs."""


@dataclass
class Room:
    """What is left for new jobs."""

    directory: Path
    """Where the files of jobs lie."""
    threads: int
    """Jobs at once."""
    journal: Callable[[], int]
    """Outcomes for which the journal has room."""
    jobs: Callable[[], Jobs]
    monotonic: Callable[[], float]
    on_change: Callable[[], None]
    """Called when there is room again."""

    def __post_init__(self) -> None:
        self._fails = 0
        self._shut_until = 0.0
        self._failed = ""
        self._told = False

    @property
    def left(self) -> int:
        """How many more jobs may be taken; 0 or less: none."""
        jobs = self.jobs()
        if (left := self.threads - jobs.taken) <= 0:
            return 0
        if (why := self._lack(jobs)) is not None:
            self._tell(why)
            return 0
        return min(left, _starts(jobs), self.journal() - jobs.taken)

    @property
    def why(self) -> str | None:
        """Why no job is taken although a slot is free; None when there is room."""
        jobs = self.jobs()
        return None if jobs.taken >= self.threads else self._lack(jobs)

    def start_failed(self, why: str) -> None:
        """Take nothing for a while: the host lacked something."""
        self._shut_until = self.monotonic() + PAUSES_S[min(self._fails, len(PAUSES_S) - 1)]
        self._fails += 1
        self._failed = why
        self._tell(why)

    def start_succeeded(self) -> None:
        """Forget what failed before."""
        self._fails = 0

    async def keep(self) -> None:
        """Notice when there is room again; until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            if self._told and self._lack(self.jobs()) is None:
                self._told = False
                tell(RoomAgain())
                self.on_change()

    def _lack(self, jobs: Jobs) -> str | None:
        if self.monotonic() < self._shut_until:
            return self._failed
        if self.journal() <= jobs.taken:
            return "the journal is full"
        if _starts(jobs) <= 0:
            most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            return f"{max(0, descriptors_left())} descriptors are left of {most}"
        return self._lack_of_disk()

    def _lack_of_disk(self) -> str | None:
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
        if disk.f_files and disk.f_favail < LOW_FILES:  # some file systems count none
            return f"the disk of {self.directory} has room for {disk.f_favail} files"
        return None

    def _tell(self, why: str) -> None:
        if not self._told:
            tell(NoRoom(why))
        self._told = True


def _starts(jobs: Jobs) -> int:
    """How many more starts there are descriptors for."""
    left = descriptors_left() - KEPT_BACK - A_RUNNING_JOB * jobs.started
    return left // A_START - (jobs.taken - jobs.started)


def descriptors_left() -> int:
    """How many more this process may open."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        with os.scandir("/proc/self/fd") as found:
            return most - sum(1 for _ in found) + 1
    except OSError:  # not even one for that
        return 0


def raise_descriptor_limit() -> None:
    """Let this process open as many as the host allows it: 200 jobs need more than the usual 1024.

    The low soft limit is for programs that use select(2). What jobs may open is the sandbox's
    decision.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
