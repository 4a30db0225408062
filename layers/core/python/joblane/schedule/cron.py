"""Cron expressions of five fields: what is accepted, and the times that one matches.

`cronsim` reads them, and evaluates them as Debian's cron does (decision 1860). A fixed time that a
change of clocks leaves out is due at the end of the gap; one that comes twice, at its first
occurrence. An expression whose minute or hour begins with `*` goes by real time.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice, takewhile
from types import MappingProxyType
from typing import Final

from cronsim import CronSim, CronSimError

from joblane.schedule import zones

FIELDS: Final = ("minute", "hour", "day of the month", "month", "day of the week")

_RANGES: Final = (
    "0 to 59",
    "0 to 23",
    "1 to 31 or L",
    "1 to 12 or JAN to DEC",
    "0 to 7 or SUN to SAT",
)

_HIGHEST: Final = (59, 23, 31, 12, 7)
"""Longest step of each field: with `*/90` cronsim and cron are due each hour."""

_STEP: Final = re.compile(r"/([0-9]{1,9})")

MACROS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "@hourly": "0 * * * *",
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@weekly": "0 0 * * 0",
        "@monthly": "0 0 1 * *",
        "@yearly": "0 0 1 1 *",
        "@annually": "0 0 1 1 *",
    }
)
"""What stands for an expression, and for which."""

_TRIED: Final = datetime(2024, 1, 1)  # noqa: DTZ001 # local, in no zone
"""From here an expression is tried: a leap year, so that 29 February comes soon."""

_MOST_STEPS: Final = 100_000
"""Matches at or before the time after which the next one is asked for: a doubled hour has 60."""


@lru_cache(maxsize=64)
def expand(text: str) -> str:
    """The five fields of an expression. Raises ValueError saying what is allowed."""
    if text.startswith("@"):
        return _expand_macro(text)
    words = text.upper().split()
    if len(words) != len(FIELDS):
        seconds = ", none for seconds" if len(words) > len(FIELDS) else ""
        raise ValueError(
            f"has {len(words)} fields; {len(FIELDS)} are allowed: {', '.join(FIELDS)}{seconds}"
        )
    for number, name in enumerate(FIELDS):
        if any(int(step) > _HIGHEST[number] for step in _STEP.findall(words[number])):
            raise ValueError(
                f"{name}: a step must be {_HIGHEST[number]} at most; longer periods are every_s"
            )
        alone = ["*"] * len(FIELDS)
        alone[number] = words[number]
        if not _is_read(alone):
            raise ValueError(
                f"{name}: must be {_RANGES[number]}, `*`, or a list (1,2), a range (1-5) or a step "
                "(*/5) of them"
            )
    if not _is_read(words) or next(CronSim(" ".join(words), _TRIED), None) is None:
        raise ValueError("is never due: no month that it names has such a day")
    return " ".join(words)


def _expand_macro(text: str) -> str:
    if (found := MACROS.get(text.lower())) is not None:
        return found
    if text.lower() == "@reboot":
        raise ValueError("must not be @reboot: a schedule belongs to no machine that starts")
    raise ValueError(f"must be five fields or one of {', '.join(MACROS)}; periods are every_s")


def _is_read(words: Sequence[str]) -> bool:
    try:
        CronSim(" ".join(words), _TRIED)
    except (CronSimError, AssertionError):
        return False
    return True


def is_by_real_time(fields: str) -> bool:
    """Whether an expression goes by real time when clocks are changed: `*` in minute or hour."""
    minute, hour, *_ = fields.split()
    return minute.startswith("*") or hour.startswith("*")


def next_match(fields: str, zone: str, after_ms: int) -> int | None:
    """The first match later than a time, both in Unix milliseconds; None if there is none.

    Raises ValueError for an unknown zone. `fields` is what `expand` returned.
    """
    known: tzinfo = UTC if zone == "UTC" else zones.load(zone)
    try:
        after = datetime.fromtimestamp(after_ms // 1000, UTC)
        if is_by_real_time(fields):
            found = _next_by_real_time(fields, known, after)
        else:
            found = _next_fixed(fields, known, after)
    except (OverflowError, ValueError):
        return None  # after the year 9999
    return None if found is None else int(found.timestamp()) * 1000


def _next_fixed(fields: str, zone: tzinfo, after: datetime) -> datetime | None:
    """The next match of a fixed time, as cronsim has it.

    Asked for what follows a time in the second pass of a doubled hour, it begins with matches of
    the first pass, which are earlier.
    """
    matches = islice(CronSim(fields, after.astimezone(zone)), _MOST_STEPS)
    return next((found for found in matches if found.astimezone(UTC) > after), None)


def _next_by_real_time(fields: str, zone: tzinfo, after: datetime) -> datetime | None:
    """The next match of local times as they come, from one change of clocks to the next.

    cronsim itself steps by hours and misses some where clocks are changed by half of one.
    """
    since, offset = after, zones.offset(zone, after)
    while True:
        match = next(CronSim(fields, (after + offset).replace(tzinfo=None)), None)
        if match is None:
            return None
        found = match.replace(tzinfo=UTC) - offset
        change = zones.next_change(zone, since, found)
        if change is None:
            return found
        since, after, offset = change, change - timedelta(seconds=1), zones.offset(zone, change)


def local_matches(fields: str, first: datetime, end: datetime) -> int:
    """How many matches lie between two local times without a zone, the first included."""
    before = first - timedelta(seconds=1)
    return sum(1 for _ in takewhile(lambda found: found < end, CronSim(fields, before)))
