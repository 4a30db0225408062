"""Time zones, from the package `tzdata` alone: the same on each machine, whatever the host has."""

from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from functools import lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    """All names of the IANA database."""
    return frozenset(files("tzdata").joinpath("zones").read_text("utf-8").split())


@lru_cache(maxsize=64)
def load(name: str) -> ZoneInfo:
    """The zone of a name. Raises ValueError for an unknown one, and names those that are alike."""
    if name not in names():
        alike = get_close_matches(name, names(), n=3, cutoff=0.7)
        said = f"; like it are {', '.join(alike)}" if alike else ", such as Europe/Berlin or UTC"
        raise ValueError(f"must be a name of the IANA time zone database{said}")
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


def offset(zone: tzinfo, moment: datetime) -> timedelta:
    """How much later than UTC a zone's clocks are at a moment."""
    return moment.astimezone(zone).utcoffset() or timedelta()


def next_change(zone: tzinfo, after: datetime, until: datetime) -> datetime | None:
    """The first moment later than `after` and not later than `until` at which clocks are changed.

    To the second; None if there is none. Two changes within a day that cancel each other are none.
    """
    if zone is UTC:
        return None
    low, before = after, offset(zone, after)
    while low < until:
        high = min(low + timedelta(days=1), until)
        if offset(zone, high) != before:
            return _find_change(zone, low, high)
        low = high
    return None


def _find_change(zone: tzinfo, low: datetime, high: datetime) -> datetime:
    before = offset(zone, low)
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low).total_seconds() // 2)
        low, high = (middle, high) if offset(zone, middle) == before else (low, middle)
    return high
