"""Activity as points of a chart: minutes over an hour, five minutes over a day.

The counters of a queue's minutes are added up by hours for the points of a day. Whoever reads a day
does that for an hour whose counters can no longer change (`usage.OPEN_MINUTES`), and stores the
result, which is the same whoever made it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

from joblane.queue.activity import Tally
from joblane.queue.usage import OPEN_MINUTES

Span = Literal["1h", "24h"]

STEPS: Final[Mapping[Span, tuple[int, int]]] = {"1h": (1, 60), "24h": (5, 288)}
"""Minutes from one point to the next, and the number of points."""

HOUR: Final = 60
_STEP = STEPS["24h"][0]
TALLIES: Final = HOUR // _STEP
"""Tallies of an hour."""

KEPT_S: Final = 26 * 3600
"""How long counters are stored: a day of points reaches back to the beginning of its first hour."""

LATE_MS: Final = 15_000
"""After which counts of a minute are complete, unless the projector is late: a batch is collected
for 5 s, and a cold start takes seconds."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Points of a span that ends now; the last one is not over."""

    step: int
    """Minutes from one point to the next."""
    first: int
    """The first minute: Unix seconds over 60."""
    points: int

    @classmethod
    def until(cls, span: Span, now_ms: int) -> "Chart":
        """The points of a span that ends at a time in Unix milliseconds."""
        step, points = STEPS[span]
        return cls(step, (now_ms // 60_000 // step - points + 1) * step, points)

    def tallies(self, minutes: Mapping[int, Tally]) -> Iterator[tuple[int, Tally]]:
        """Add up minutes, or the tallies of `spread`, by point: its first minute and its tally."""
        found = {self.first + n * self.step: Tally() for n in range(self.points)}
        for minute, tally in minutes.items():
            if (total := found.get(minute // self.step * self.step)) is not None:
                total.add(tally)
        yield from found.items()

    def complete_ms(self, now_ms: int) -> int:
        """Until when points are complete, in Unix milliseconds: those that begin later are not."""
        step_ms = self.step * 60_000
        return (now_ms - LATE_MS) // step_ms * step_ms


def closed_hours(first: int, now_minute: int) -> range:
    """The hours from that of the minute `first` on whose counters can no longer change.

    Hours are Unix seconds over 3,600.
    """
    return range(first // HOUR, (now_minute - OPEN_MINUTES) // HOUR)


def roll_up(hour: int, minutes: Mapping[int, Tally]) -> tuple[Tally, ...]:
    """Add up the minutes of an hour by five."""
    found = tuple(Tally() for _ in range(TALLIES))
    for minute, tally in minutes.items():
        if minute // HOUR == hour:
            found[minute % HOUR // _STEP].add(tally)
    return found


def spread(hour: int, tallies: Iterable[Tally]) -> dict[int, Tally]:
    """Inverse of `roll_up`, each tally at its first minute."""
    return {hour * HOUR + n * _STEP: tally for n, tally in enumerate(tallies)}


def runs(hours: Iterable[int]) -> list[tuple[int, int]]:
    """Join rising hours that follow each other: the first and the last one of each run."""
    joined = groupby(enumerate(hours), lambda place: place[1] - place[0])
    found = [[hour for _, hour in run] for _, run in joined]
    return [(run[0], run[-1]) for run in found]
