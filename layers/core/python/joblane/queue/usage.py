"""Usage by tenant: waiting jobs, output of the day, jobs by state, from changes of jobs.

Changes are added up by minute, like the activity of queues. A minute that no batch of changes can
belong to any more is closed: it is added to a sum, so that a count reads the open minutes only,
however many jobs there were.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Generic, Protocol, Self, TypeVar

from joblane.deployment.limits import Limit, TenantLimits
from joblane.queue.activity import Change
from joblane.queue.backlog import Backlog
from joblane.queue.state_counts import StateCounts

OPEN_MINUTES: Final = 75
"""Minutes after which a minute is closed. The projector gives up changes after an hour."""

UNSETTLED: Final = 3
"""Minutes after which hardly any batch has changes of a minute: it is settled."""

RESETTLE: Final = UNSETTLED + 10
"""Age in minutes of the last settled one above which all open minutes are read again."""

USE_TTL_S: Final = (2 * OPEN_MINUTES + RESETTLE + 30) * 60
"""How long the counts of a minute are stored. They may be read until a count that comes up to
OPEN_MINUTES after another one, which itself came OPEN_MINUTES and RESETTLE after that minute."""

SOON_MS: Final = 10_000
"""When a figure of waiting jobs may have changed: counts are some 5 s late."""

MEBIBYTE: Final = 1024 * 1024
_DAY_MINUTES = 24 * 60
DAY_MS: Final = 86_400_000


@dataclass(slots=True)
class Use:
    """What some changes of jobs add to the figures of a tenant."""

    waiting: int = 0
    """Jobs that began to wait, minus those that stopped."""
    output_bytes: int = 0
    """Output of the attempts that ended."""
    file_bytes: int = 0
    """Their output files."""
    states: StateCounts = field(default_factory=StateCounts)
    """How the numbers of jobs by state change. Stored beside the others, not with them."""
    backlog: Backlog = field(default_factory=Backlog)
    """How those by queue and type change; stored as `states` is."""

    def add(self, other: "Use") -> None:
        """Add another one to this one."""
        self.waiting += other.waiting
        self.output_bytes += other.output_bytes
        self.file_bytes += other.file_bytes
        self.states = self.states.plus(other.states)
        self.backlog = self.backlog.plus(other.backlog)

    def encode(self) -> str:
        """Encode the figures for the table, without the states."""
        return f"{self.waiting} {self.output_bytes} {self.file_bytes}"

    @classmethod
    def decode(cls, text: str) -> "Use":
        """Inverse of `encode`."""
        waiting, output_bytes, file_bytes = map(int, text.split())
        return cls(waiting, output_bytes, file_bytes)


def fold_use(changes: Iterable[Change]) -> dict[tuple[str, int], tuple[int, Use]]:
    """Count a batch by tenant and minute: the sequence number of the first change, and its use."""
    found: dict[tuple[str, int], tuple[int, Use]] = {}
    for change in changes:
        added = Use(change.waiting + change.unbegun, change.output_bytes, change.file_bytes)
        if added != Use():
            place = (change.tenant, change.minute)
            _, use = found.setdefault(place, (change.sequence, Use()))
            use.add(added)
    return found


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a tenant that limits bound."""

    waiting: int = 0
    """Jobs that wait: scheduled, pending, between two attempts, or blocked; and members of groups
    that have not begun."""
    day: int = 0
    """A day in UTC: Unix seconds over 86,400."""
    output_bytes: int = 0
    """Output of that day."""
    file_bytes: int = 0
    """Output files of that day."""

    def plus(self, minute: int, use: Use) -> "Figures":
        """Add the use of a later minute."""
        day = minute // _DAY_MINUTES
        waiting = self.waiting + use.waiting
        if day < self.day:
            return replace(self, waiting=waiting)
        earlier = self if day == self.day else Figures()
        return Figures(
            waiting,
            day,
            earlier.output_bytes + use.output_bytes,
            earlier.file_bytes + use.file_bytes,
        )

    def none_below_zero(self) -> "Figures":
        """Correct a number of waiting jobs that cannot be.

        It is too low by jobs that were submitted before anything was counted, or whose change was
        lost.
        """
        return self if self.waiting >= 0 else replace(self, waiting=0)

    def output_mb(self, now_ms: int) -> int:
        """Output of today, in whole MiB."""
        return self.output_bytes // MEBIBYTE if self.day == now_ms // DAY_MS else 0

    def file_mb(self, now_ms: int) -> int:
        """Output files of today, in whole MiB."""
        return self.file_bytes // MEBIBYTE if self.day == now_ms // DAY_MS else 0


class Total(Protocol):
    """What the use of minutes adds up to."""

    def plus(self, minute: int, use: Use) -> Self:
        """Add the use of a later minute."""
        ...

    def none_below_zero(self) -> Self:
        """Correct numbers that cannot be."""
        ...


ATotal = TypeVar("ATotal", bound=Total)


@dataclass(frozen=True, slots=True)
class Account(Generic[ATotal]):
    """A total of a tenant, that of its closed minutes and that of all."""

    closed_minute: int
    """Unix seconds over 60; the minutes up to this one are in `closed`."""
    closed: ATotal
    present: ATotal
    """That of all minutes together."""
    at_minute: int
    """When it was counted."""

    @classmethod
    def new(cls, nothing: ATotal, now_minute: int) -> Self:
        """The account of a tenant that has none."""
        closed = now_minute - OPEN_MINUTES - 1
        return cls(closed, nothing, nothing, closed)

    def at(self, now_minute: int) -> Self:
        """Close all of its minutes if it is old enough; those to add begin after them.

        Their counts may have expired in the table.
        """
        if now_minute - self.at_minute <= OPEN_MINUTES:
            return self
        return type(self)(self.at_minute, self.present, self.present, self.at_minute)

    def count(self, minutes: Mapping[int, Use], now_minute: int) -> Self:
        """Count the minutes after `closed_minute`, and close those that are old enough."""
        closed, present = self.closed, self.closed
        closed_minute = max(self.closed_minute, now_minute - OPEN_MINUTES - 1)
        for minute, use in sorted(minutes.items()):
            if minute <= self.closed_minute:
                continue
            present = present.plus(minute, use)
            if minute <= closed_minute:
                closed = present.none_below_zero()
                present = closed
        return type(self)(closed_minute, closed, present.none_below_zero(), now_minute)

    def until(self, last: int, minutes: Mapping[int, Use]) -> ATotal:
        """Add the minutes from the first open one to `last` to the closed ones, uncorrected."""
        total = self.closed
        for minute, use in sorted(minutes.items()):
            if self.closed_minute < minute <= last:
                total = total.plus(minute, use)
        return total


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs of a tenant by state, and those that wait or run, as totals."""

    counts: StateCounts = field(default_factory=StateCounts)
    backlog: Backlog = field(default_factory=Backlog)

    def plus(self, minute: int, use: Use) -> "Jobs":
        """Add the use of a later minute."""
        return Jobs(self.counts.plus(use.states), self.backlog.plus_minute(minute, use.backlog))

    def none_below_zero(self) -> "Jobs":
        """Correct numbers that cannot be."""
        return Jobs(self.counts.none_below_zero(), self.backlog.none_below_zero())


@dataclass(frozen=True, slots=True)
class Settled:
    """The totals of all minutes up to one that hardly changes any more.

    Most counts read the few minutes after it.
    """

    minute: int
    figures: Figures
    jobs: Jobs


@dataclass(frozen=True, slots=True)
class Accounts:
    """The accounts of a tenant."""

    figures: Account[Figures]
    jobs: Account[Jobs]
    counted_ms: int | None = None
    """When `jobs` was counted; None before it ever was."""
    settled: Settled | None = None

    @classmethod
    def new(cls, now_minute: int) -> "Accounts":
        """The accounts of a tenant that has none."""
        return cls(Account.new(Figures(), now_minute), Account.new(Jobs(), now_minute))

    def at(self, now_minute: int) -> "Accounts":
        """As `Account.at`, of each."""
        figures, jobs = self.figures.at(now_minute), self.jobs.at(now_minute)
        same = figures is self.figures and jobs is self.jobs
        return Accounts(figures, jobs, self.counted_ms, self.settled if same else None)

    def since(self, first: int, now_minute: int) -> int:
        """Return the first minute to read after counts were written from the minute `first` on.

        That is the first one that is not settled, unless a settled one was written; and the first
        one that is not closed whenever the settled ones have not been read for some minutes. So
        counts of a call that died after it had written settled minutes are found as well.
        """
        settled = self.settled
        if settled is None or first <= settled.minute or now_minute - settled.minute > RESETTLE:
            return min(self.figures.closed_minute, self.jobs.closed_minute) + 1
        return settled.minute + 1

    def count(self, minutes: Mapping[int, Use], since: int, now_ms: int) -> "Accounts":
        """Count the minutes from `since` on, as it was returned, at a time in Unix milliseconds."""
        now, settled = now_ms // 60_000, self.settled
        if settled is not None and since == settled.minute + 1:
            figures = replace(self.figures, present=_sum(settled.figures, minutes), at_minute=now)
            jobs = replace(self.jobs, present=_sum(settled.jobs, minutes), at_minute=now)
            return Accounts(figures, jobs, now_ms, settled)
        figures, jobs = self.figures.count(minutes, now), self.jobs.count(minutes, now)
        last = max(now - UNSETTLED, figures.closed_minute, jobs.closed_minute)
        settled = Settled(last, figures.until(last, minutes), jobs.until(last, minutes))
        return Accounts(figures, jobs, now_ms, settled)


def _sum(settled: ATotal, minutes: Mapping[int, Use]) -> ATotal:
    for minute, use in sorted(minutes.items()):
        settled = settled.plus(minute, use)
    return settled.none_below_zero()


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
        if (what := _OF_A_DAY.get(self.limit)) is not None:
            what = f"{self.current} MiB of {what} since midnight UTC"
        else:
            what = f"{self.current} jobs waiting"
            if self.jobs > 1:
                what += f", and this one would become {self.jobs}"
        return f"the tenant has {what}; the limit {self.limit} is {self.allowed}"


_OF_A_DAY: Final[Mapping[Limit, str]] = {
    "output_mb_per_day": "output",
    "output_files_mb_per_day": "output files",
    "upload_mb_per_day": "uploads",
}


def of_a_day(limit: Limit, allowed: int, current: int, now_ms: int) -> Excess:
    """Return the excess of a limit that begins anew at midnight UTC."""
    return Excess(limit, allowed, current, (now_ms // DAY_MS + 1) * DAY_MS)


def excess(limits: TenantLimits, figures: Figures, now_ms: int, jobs: int = 1) -> Excess | None:
    """Return the limit that forbids so many more jobs; None if they are allowed."""
    if (used := figures.output_mb(now_ms)) >= (most := limits.output_mb_per_day):
        return of_a_day("output_mb_per_day", most, used, now_ms)
    if (used := figures.file_mb(now_ms)) >= (most := limits.output_files_mb_per_day):
        return of_a_day("output_files_mb_per_day", most, used, now_ms)
    if figures.waiting + jobs > limits.jobs_waiting:
        until_ms = now_ms + SOON_MS
        return Excess("jobs_waiting", limits.jobs_waiting, figures.waiting, until_ms, jobs)
    return None


def room(limits: TenantLimits, figures: Figures, now_ms: int) -> int:
    """Return how many more jobs are allowed."""
    if excess(limits, figures, now_ms) is not None:
        return 0
    return limits.jobs_waiting - figures.waiting
