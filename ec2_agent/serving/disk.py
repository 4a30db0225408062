"""The host's disk as the desk reserves it: before the claim, by what a job's message says.

    held, or being prepared     all that its message says is still to come
    started                     its files and its work directory are there: only its output is
    ended                       nothing is

What is to come is not available to others. Where work directories have a file system of their own
(`work_dir`), each of the two has its own account.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from ec2_agent.messages.delivery import Delivery
from ec2_agent.sandbox.disk.space import MIB, Available, DiskSpace
from ec2_agent.sandbox.disk.work_disks import WorkDisks
from joblane.aws.queue.lanes import Received
from joblane.job.disk import OUTPUT_MB
from joblane.state.lease import HostDisk

LOOK_S = 0.25
"""How long a look at what is available counts. What jobs write meanwhile is reserved for them."""

GOES_S = 10.0
"""How long what an ended job has written may take to go: a thread removes work directories."""

AGAIN_S = 1.0
"""Seconds between two looks while disk is short."""

PLENTY_MB = 64 * OUTPUT_MB
"""What is free beside it, nobody counts: more jobs are not started at once."""

UNLIMITED_MB = 1 << 40
"""More than any jobs ask for."""


@dataclass(frozen=True, slots=True)
class DiskRoom:
    """What a file system has for one job, in MiB."""

    place: str
    """What it is, in words: `disk`."""
    asked_mb: int
    free_mb: int
    """What the job may have now; below 0 if that is reserved for others."""
    most_mb: int
    """What it could have if all jobs that run here ended."""
    total_mb: int
    """What it could have if there were nothing else on the file system."""


class _Use(NamedTuple):
    """What a job here may still write, and what its end frees at most, in MiB."""

    coming_mb: int
    there_mb: int


class _Started(NamedTuple):
    """What is known of a job that was started."""

    kept_mb: int
    """What of files and output stays reserved."""
    cached_mb: int
    """What of its files a cache could give up while it runs."""


@dataclass(eq=False)
class DiskAccount:
    """What the jobs of one agent take of one file system."""

    place: str
    look: Callable[[bool], Available]
    """Finds what is available, all of it only if told to be thorough. Raises OSError."""
    make_room: Callable[[], None]
    """Has caches give up what jobs may write their output to. Blocking; raises OSError."""
    monotonic: Callable[[], float]
    coming_mb: int = 0
    """What jobs here, and those that have their disk reserved, may still write."""
    there_mb: int = 0
    """What the end of those that run frees, at most."""
    _going: deque[tuple[float, int]] = field(default_factory=deque, init=False)
    """Until when work directories of ended jobs may go, and how much they take."""
    _seen: Available = field(default=Available(0, 0, 0), init=False)
    _seen_at: float = field(default=float("-inf"), init=False)
    _thorough: bool = field(default=False, init=False)

    def forget(self) -> None:
        """Look again next time: what was to come is there, or gone."""
        self._seen_at = float("-inf")

    def _available(self, beside_mb: float) -> Available:
        """What is available; all of it if that is less than `beside_mb` and what is to come."""
        now = self.monotonic()
        fresh = now - self._seen_at < LOOK_S
        if not fresh:
            self._look(thorough=False, now=now)
        if self._seen.now // MIB - self.coming_mb < beside_mb and not self._thorough:
            self._look(thorough=True, now=now)
        return self._seen

    def _look(self, *, thorough: bool, now: float) -> None:
        try:
            self._seen = self.look(thorough)
        except OSError:  # `HostCapacity` says which, and takes no jobs
            self._seen = Available(0, 0, self._seen.total)
        self._seen_at, self._thorough = now, thorough

    def let_go(self, there_mb: int, later_mb: int) -> None:
        """Note the end of a job that had so much there, of which some goes later."""
        self.there_mb -= there_mb
        if later_mb:
            self._going.append((self.monotonic() + GOES_S, later_mb))

    def _ends_free_mb(self) -> int:
        """What ends free at most: those to come, and those that have just been."""
        now = self.monotonic()
        while self._going and self._going[0][0] <= now:
            self._going.popleft()
        return self.there_mb + sum(mb for _, mb in self._going)

    @property
    def free_mb(self) -> int:
        """What is free for more jobs, in MiB; below 0 while one waits for what it has reserved.

        Where that is plenty there may be more.
        """
        return self._available(PLENTY_MB).now // MIB - self.coming_mb

    @property
    def uncached_mb(self) -> int:
        """What is free as long as caches give up nothing, without regard to what is to come."""
        return self._available(float("-inf")).uncached // MIB

    def room(self, asked_mb: int, own_mb: int) -> DiskRoom:
        """Describe the room for a job, of which `own_mb` are reserved already.

        For one that asks for more than there is, the figures are exact.
        """
        seen = self._available(asked_mb - own_mb)
        now_mb = seen.now // MIB
        return DiskRoom(
            self.place,
            asked_mb,
            now_mb - self.coming_mb + own_mb,
            min(now_mb + self._ends_free_mb(), seen.total // MIB),
            seen.total // MIB,
        )


class Disk:
    """What the jobs of one agent take of the host's disk."""

    def __init__(
        self,
        own: DiskAccount | None = None,
        work: DiskAccount | None = None,
        takes_mb: Callable[[int], int] = lambda size_mb: size_mb,
    ) -> None:
        """`own` is the file system of the agent's files; without it nothing is limited.

        `work` is that of work directories if it is another one, and `takes_mb` how much of it a
        work directory of so many MiB takes.
        """
        self.own = own
        self.work = work
        self._takes_mb = takes_mb
        self._started: dict[str, _Started] = {}
        """By receipt."""
        self._jobs = 0
        """Jobs that have their disk reserved, or run."""
        self._short = asyncio.Event()
        """Set when something was found too small."""

    @property
    def accounts(self) -> Sequence[DiskAccount]:
        """Those that there are."""
        return [account for account in (self.own, self.work) if account is not None]

    @property
    def jobs(self) -> int:
        """How many more jobs fit that put nothing on the disk but their output."""
        jobs = UNLIMITED_MB if self.own is None else self.own.free_mb // OUTPUT_MB
        if jobs <= 0:
            self._short.set()
        return jobs

    @property
    def outputs_mb(self) -> int:
        """What the jobs here may write of their output, in MiB."""
        return OUTPUT_MB * self._jobs

    @property
    def crowded(self) -> bool:
        """Whether caches are to give something up before jobs can write their output."""
        return self.own is not None and self.own.uncached_mb < self.outputs_mb

    def make_room(self) -> None:
        """Have caches give that up. Blocking."""
        with suppress(OSError):
            for account in self.accounts[:1]:
                account.make_room()

    def describe(self) -> tuple[HostDisk | None, HostDisk | None]:
        """What the disk of the agent's files has, and that of work directories, for heartbeats."""
        own, work = (
            None
            if account is None
            else HostDisk((room := account.room(UNLIMITED_MB, 0)).free_mb, room.most_mb)
            for account in (self.own, self.work)
        )
        return own, work

    async def keep(self, on_change: Callable[[], None]) -> None:
        """Have what waits served again every second while disk is short, until cancelled.

        What an ended job has written goes after its end, and others write to the disk, too.
        """
        while True:
            await self._short.wait()
            await asyncio.sleep(AGAIN_S)
            self._short.clear()
            on_change()

    def rooms(self, received: Received, *, reserved: bool) -> tuple[DiskRoom, ...]:
        """Describe the room for a message's job, whose disk may be reserved already."""
        found = tuple(
            account.room(asked_mb, asked_mb if reserved else 0)
            for account, asked_mb in self._ask(received).items()
            if asked_mb
        )
        if any(room.asked_mb > room.free_mb for room in found):
            self._short.set()
        return found

    def take(self, delivery: Delivery) -> None:
        """Reserve what a message's job puts on the disk."""
        self._jobs += 1
        for account, asked_mb in self._ask(delivery.received).items():
            account.coming_mb += asked_mb

    def note_started(
        self, delivery: Delivery, kept_mb: int = OUTPUT_MB, cached_mb: int = 0
    ) -> None:
        """Reserve only `kept_mb` for a job that was started; it may be noted again.

        `cached_mb` of its files a cache could give up by now: its end frees no more of them.
        """
        receipt = delivery.received.receipt
        asked = self._ask(delivery.received)
        before = [self._use(account, receipt, asked_mb) for account, asked_mb in asked.items()]
        self._started[receipt] = _Started(kept_mb, cached_mb)
        for (account, asked_mb), old in zip(asked.items(), before, strict=True):
            new = self._use(account, receipt, asked_mb)
            account.coming_mb += new.coming_mb - old.coming_mb
            account.there_mb += new.there_mb - old.there_mb
            account.forget()

    def release(self, delivery: Delivery) -> None:
        """Free what a job took."""
        self._jobs -= 1
        receipt = delivery.received.receipt
        for account, asked_mb in self._ask(delivery.received).items():
            use = self._use(account, receipt, asked_mb)
            account.coming_mb -= use.coming_mb
            if use.there_mb:
                account.let_go(use.there_mb, self._work_mb(account, delivery.received))
            account.forget()
        self._started.pop(receipt, None)

    def _work_mb(self, account: DiskAccount, received: Received) -> int:
        """What a job's work directory takes of a file system."""
        has = received.work_mb and account is (self.work or self.own)
        return self._takes_mb(received.work_mb) if has else 0

    def _use(self, account: DiskAccount, receipt: str, asked_mb: int) -> _Use:
        started = self._started.get(receipt)
        if started is None:
            return _Use(asked_mb, 0)
        if account is not self.own:
            return _Use(0, asked_mb)
        return _Use(min(started.kept_mb, asked_mb), max(0, asked_mb - started.cached_mb))

    def _ask(self, received: Received) -> Mapping[DiskAccount, int]:
        """What a message's job puts on each file system, in MiB."""
        own, work = self.own, self.work or self.own
        if own is None or work is None:
            return {}
        asked = {own: max(0, received.disk_mb - received.work_mb)}
        if work_mb := self._work_mb(work, received):
            asked[work] = asked.get(work, 0) + work_mb
        return asked


def _takes_none(_: int) -> int:
    """What a work directory takes of a host that can make none (`Heartbeat.lacks`)."""
    return 0


def disk_of(space: DiskSpace, disks: WorkDisks | None, monotonic: Callable[[], float]) -> Disk:
    """The disk of a host: `space` is the account of the agent's files, `disks` make work ones."""

    def account(place: str, of: DiskSpace) -> DiskAccount:
        def look(thorough: bool) -> Available:  # noqa: FBT001 - a port has no names
            return of.available(thorough=thorough)

        return DiskAccount(place, look, of.make_room, monotonic)

    own, work = account("disk", space), None
    if disks is not None and disks.able and disks.space is not space:
        work = account("disk for work directories", disks.space)
    disk = Disk(own, work, _takes_none if disks is None else disks.takes_mb)
    space.outputs = lambda: disk.outputs_mb * MIB
    return disk
