"""When the jobs that wait were submitted: how many in which minutes, coarser for older ones.

It says since when the oldest one waits, and where in the table to look for it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

FINE: Final = 4
"""A span of minutes ended at least four times its own length ago: so an age is known to a quarter,
and to the minute until it is eight minutes."""

_SPAN = re.compile(r"([A-Z])(-?[0-9]+)(?:\.([0-9]+))?")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Span(NamedTuple):
    """`2 ** level` minutes that begin at a multiple of their number."""

    start: int
    """The first minute: Unix seconds over 60."""
    level: int

    @property
    def end(self) -> int:
        """The minute after the last one."""
        return self.start + (1 << self.level)


def span_of(minute: int, now: int) -> Span:
    """Return the longest span of a minute that ended long enough before another minute, `now`.

    Spans of one `now` are disjoint, and each lies within one of a later `now`: so whatever was
    counted by earlier spans can be added up by later ones, and the change that takes a job away
    meets the one that added it.
    """
    level = 0
    while True:
        above = level + 1
        end = ((minute >> above) + 1) << above
        if end + (FINE << above) > now:
            return Span(minute >> level << level, level)
        level = above


def grown_spans(spans: Iterable[Span], now: int) -> dict[Span, Span]:
    """Return those that lie within a longer one in a later minute, with that one."""
    found = {span: span_of(span.start, now) for span in spans}
    return {span: place for span, place in found.items() if place.level > span.level}


@dataclass(frozen=True, slots=True)
class Submitted:
    """Numbers of jobs by the span in which they were submitted, or how changes alter them."""

    by_span: Mapping[Span, int] = field(default_factory=dict)

    def plus(self, other: "Submitted") -> "Submitted":
        """Add other numbers."""
        total = dict(self.by_span)
        for span, number in other.by_span.items():
            total[span] = total.get(span, 0) + number
        return Submitted({span: number for span, number in total.items() if number})

    def within(self, grown: Mapping[Span, Span]) -> "Submitted":
        """Add up by the spans that others lie within, as `grown_spans` returns them."""
        if self.by_span.keys().isdisjoint(grown):
            return self
        total: dict[Span, int] = {}
        for span, number in self.by_span.items():
            place = grown.get(span, span)
            total[place] = total.get(place, 0) + number
        return Submitted({span: number for span, number in total.items() if number})

    def none_below_zero(self) -> "Submitted":
        """Correct numbers of jobs that cannot be."""
        return Submitted({span: number for span, number in self.by_span.items() if number > 0})

    def spans(self) -> list[Span]:
        """Return the spans of jobs that wait, the oldest first."""
        return sorted(span for span, number in self.by_span.items() if number > 0)

    def encode(self) -> str:
        """Encode for the table: `huvk6C2A1.3`; two of eight minutes, one after three others.

        The first minute in base 36, and for each span the letter of its level, the number, and how
        many spans of its length are between the one before and it. Empty for no jobs.
        """
        parts, at = list[str](), 0
        for span in sorted(self.by_span):
            number = self.by_span[span]
            if not number:
                continue
            if not parts:
                parts.append(_base36(span.start))
                at = span.start
            gap = (span.start >> span.level) - (-(-at >> span.level))
            parts.append(f"{chr(ord('A') + span.level)}{number}{f'.{gap}' if gap else ''}")
            at = span.end
        return "".join(parts)

    @classmethod
    def decode(cls, text: str) -> "Submitted":
        """Inverse of `encode`."""
        found: dict[Span, int] = {}
        at = 0
        for part in _SPAN.finditer(text):
            if not found:
                at = int(text[: part.start()], 36)
            level = ord(part[1]) - ord("A")
            start = ((-(-at >> level)) + int(part[3] or 0)) << level
            span = Span(start, level)
            found[span] = int(part[2])
            at = span.end
        return cls(found)


def count_submitted(minutes: Iterable[tuple[int, int]], now: int) -> Submitted:
    """Count jobs by the minute of their submission, each with 1 or -1, in the minute `now`."""
    total: dict[Span, int] = {}
    for minute, number in minutes:
        span = span_of(minute, now)
        total[span] = total.get(span, 0) + number
    return Submitted({span: number for span, number in total.items() if number})


def _base36(number: int) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text or "0"
