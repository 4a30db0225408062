"""Usage by tenant: the jobs that wait, and the output of the day, counted from changes of jobs.

Changes are added up by minute, like the activity of queues. A minute that no batch of changes can
belong to any more is closed: it is added to a sum, so that a count reads the open minutes only,
however many jobs there were.
"""

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Final

from joblane.deployment.limits import Limit, TenantLimits
from joblane.queue.activity import Change

OPEN_MINUTES: Final = 75
"""Minutes after which a minute is closed. The projector gives up changes after an hour."""

USE_TTL_S: Final = (2 * OPEN_MINUTES + 30) * 60
"""How long the counts of a minute are stored. They may be read until a count that comes up to
OPEN_MINUTES after another one, which itself came OPEN_MINUTES after that minute."""

SOON_MS: Final = 10_000
"""When a figure of waiting jobs may have changed: counts are some 5 s late."""

MEBIBYTE: Final = 1024 * 1024
_DAY_MINUTES = 24 * 60
_DAY_MS = 86_400_000


@dataclass(slots=True)
class Use:
    """What some changes of jobs add to the figures of a tenant."""

    waiting: int = 0
    """Jobs that began to wait, minus those that stopped."""
    output_bytes: int = 0
    """Output of the attempts that ended."""

    def add(self, other: "Use") -> None:
        """Add another one to this one."""
        self.waiting += other.waiting
        self.output_bytes += other.output_bytes

    def encode(self) -> str:
        """Encode for the table: the figures in the order of the fields."""
        return " ".join(map(str, astuple(self)))

    @classmethod
    def decode(cls, text: str) -> "Use":
        """Inverse of `encode`."""
        return cls(*map(int, text.split()))


def fold_use(changes: Iterable[Change]) -> dict[tuple[str, int], tuple[int, Use]]:
    """Count a batch by tenant and minute: the sequence number of the first change, and its use."""
    found: dict[tuple[str, int], tuple[int, Use]] = {}
    for change in changes:
        if change.waiting or change.output_bytes:
            place = (change.tenant, change.minute)
            _, use = found.setdefault(place, (change.sequence, Use()))
            use.add(Use(change.waiting, change.output_bytes))
    return found


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a tenant that limits bound."""

    waiting: int = 0
    """Jobs that wait: scheduled, pending, between two attempts, or blocked."""
    day: int = 0
    """A day in UTC: Unix seconds over 86,400."""
    output_bytes: int = 0
    """Output of that day."""

    def plus(self, minute: int, use: Use) -> "Figures":
        """Add the use of a later minute."""
        day = minute // _DAY_MINUTES
        waiting = self.waiting + use.waiting
        if day < self.day:
            return Figures(waiting, self.day, self.output_bytes)
        earlier = self.output_bytes if day == self.day else 0
        return Figures(waiting, day, earlier + use.output_bytes)

    def none_below_zero(self) -> "Figures":
        """Correct a number of waiting jobs that cannot be.

        It is too low by jobs that were submitted before anything was counted, or whose change was
        lost.
        """
        return self if self.waiting >= 0 else Figures(0, self.day, self.output_bytes)

    def output_mb(self, now_ms: int) -> int:
        """Output of today, in whole MiB."""
        return self.output_bytes // MEBIBYTE if self.day == now_ms // _DAY_MS else 0


@dataclass(frozen=True, slots=True)
class Account:
    """The counts of a tenant."""

    closed_minute: int
    """Unix seconds over 60; the minutes up to this one are in `closed`."""
    closed: Figures
    present: Figures
    """Those of all minutes together."""
    at_minute: int
    """When they were counted."""

    @classmethod
    def new(cls, now_minute: int) -> "Account":
        """The counts of a tenant that has none."""
        closed = now_minute - OPEN_MINUTES - 1
        return cls(closed, Figures(), Figures(), closed)

    def at(self, now_minute: int) -> "Account":
        """Close all of its minutes if it is old enough; those to add begin after them.

        Their counts may have expired in the table.
        """
        if now_minute - self.at_minute <= OPEN_MINUTES:
            return self
        return Account(self.at_minute, self.present, self.present, self.at_minute)

    def counted(self, minutes: Mapping[int, Use], now_minute: int) -> "Account":
        """Count the minutes after `closed_minute`, and close those that are old enough."""
        closed, present = self.closed, self.closed
        closed_minute = max(self.closed_minute, now_minute - OPEN_MINUTES - 1)
        for minute, use in sorted(minutes.items()):
            present = present.plus(minute, use)
            if minute <= closed_minute:
                closed = present.none_below_zero()
                present = closed
        return Account(closed_minute, closed, present.none_below_zero(), now_minute)


@dataclass(frozen=True, slots=True)
class Excess:
    """A limit that a tenant has reached."""

    limit: Limit
    allowed: int
    current: int
    until_ms: int
    """Unix milliseconds; not before then may another job be accepted."""
    jobs: int = 1
    """Jobs that were to be accepted together."""

    def sentence(self) -> str:
        """What it is, for the tenant."""
        if self.limit == "output_mb_per_day":
            what = f"{self.current} MiB of output since midnight UTC"
        else:
            what = f"{self.current} jobs waiting"
            if self.jobs > 1:
                what += f", and this one would become {self.jobs}"
        return f"the tenant has {what}; the limit {self.limit} is {self.allowed}"


def excess(limits: TenantLimits, figures: Figures, now_ms: int, jobs: int = 1) -> Excess | None:
    """Return the limit that forbids so many more jobs; None if they are allowed."""
    output_mb = figures.output_mb(now_ms)
    if output_mb >= limits.output_mb_per_day:
        midnight_ms = (now_ms // _DAY_MS + 1) * _DAY_MS
        return Excess("output_mb_per_day", limits.output_mb_per_day, output_mb, midnight_ms)
    if figures.waiting + jobs > limits.jobs_waiting:
        until_ms = now_ms + SOON_MS
        return Excess("jobs_waiting", limits.jobs_waiting, figures.waiting, until_ms, jobs)
    return None


def room(limits: TenantLimits, figures: Figures, now_ms: int) -> int:
    """Return how many more jobs are allowed."""
    if excess(limits, figures, now_ms) is not None:
        return 0
    return limits.jobs_waiting - figures.waiting
