"""Due times around changes of clocks, against a walk through each minute that uses no cronsim."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache

import pytest

from joblane.schedule import zones
from joblane.schedule.fields import Timing
from joblane.schedule.times import next_due
from tests.support.depth import budget

MINUTE = timedelta(minutes=1)
BEFORE, AFTER = timedelta(hours=26), timedelta(hours=28)
CHANGES = {
    "Europe/Berlin": ("2026-03-29T01:00", "2026-10-25T01:00", "2039-03-27T01:00"),
    "America/New_York": ("2026-03-08T07:00", "2026-11-01T06:00"),
    "Australia/Lord_Howe": ("2026-04-04T15:00", "2026-10-03T15:30"),
    "America/Santiago": ("2026-04-05T03:00", "2026-09-06T04:00"),
    "Pacific/Apia": ("2011-12-30T10:00",),
    "Africa/Casablanca": ("2026-02-15T02:00", "2026-03-22T02:00"),
    "Africa/El_Aaiun": ("2026-02-15T02:00", "2026-03-22T02:00"),
    "Asia/Gaza": ("2026-03-28T00:00", "2026-10-23T23:00"),
    "Antarctica/Troll": ("2026-03-29T01:00", "2026-10-25T01:00"),
    "Pacific/Chatham": ("2026-04-04T14:00", "2026-09-26T14:00"),
}
"""Some changes of each zone, in UTC: of an hour, of half an hour, of two, at midnight, of a day."""

RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


@cache
def numbers(field: str, low: int, high: int) -> frozenset[int]:
    """The numbers that a field names."""
    found = set[int]()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        if first == "*":
            first, last = str(low), str(high)
        found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    return frozenset(found)


def matches(cron: str, at: datetime) -> bool:
    """Whether a local time is one of an expression; of both days, either, unless one is `*`."""
    fields = cron.split()
    minute, hour, day, month, weekday = (
        numbers(field, *limits) for field, limits in zip(fields, RANGES, strict=True)
    )
    if at.minute not in minute or at.hour not in hour or at.month not in month:
        return False
    days = at.day in day, at.isoweekday() % 7 in {each % 7 for each in weekday}
    return all(days) if "*" in (fields[2][0], fields[4][0]) else any(days)


def walk(cron: str, zone: tzinfo, first: datetime, end: datetime) -> Iterator[datetime]:
    """The due times, minute by minute.

    By real time each minute counts whose local time matches. Of a fixed time the first one counts,
    and the first minute after a gap counts for all that the gap leaves out.
    """
    minute, hour, *_ = cron.split()
    by_real_time = "*" in (minute[0], hour[0])
    at = first - BEFORE
    latest = at.astimezone(zone).replace(tzinfo=None)
    while (at := at + MINUTE) < end:
        local = at.astimezone(zone).replace(tzinfo=None)
        if by_real_time:
            due = matches(cron, local)
        else:
            passed = range(1, (local - latest) // MINUTE + 1)
            due = any(matches(cron, latest + MINUTE * number) for number in passed)
        latest = max(latest, local)
        if due and at >= first:
            yield at


def expression(rng: random.Random, change: datetime) -> str:
    """An expression that is due near a change of clocks."""
    near = str((change.hour + rng.choice((-2, -1, 0, 0, 0, 1))) % 24)
    minute = rng.choice(("0", "30", "15", "*/20", "*", "5,35", "*/7", "59", "1-10"))
    hour = rng.choice((near, near, near, "*", "*/2", "*/5", "0", "2", "0-3", "23", f"{near},12"))
    day = rng.choice(("*", "*", "*", str(change.day), "*/2", "30"))
    return f"{minute} {hour} {day} * {rng.choice(('*', '*', '*', '0', '1-5'))}"


@pytest.mark.parametrize("zone", CHANGES)
def test_times_around_a_change_of_clocks_are_those_of_a_walk_through_each_minute(zone: str) -> None:
    rng, known = random.Random(zone), zones.load(zone)
    for _ in range(budget(1, 20)):
        change = datetime.fromisoformat(rng.choice(CHANGES[zone])).replace(tzinfo=UTC)
        offsets = {zones.offset(known, change - each) for each in (MINUTE, timedelta())}
        assert 2 == len(offsets), "clocks are changed then"
        cron = expression(rng, change.astimezone(known))
        first, end = change - BEFORE, change + AFTER
        timing, found = Timing(cron=cron, zone=zone), list[datetime]()
        after_ms = int(first.timestamp() * 1000) - 1
        while (due_ms := next_due(timing, after_ms)) is not None:
            assert due_ms > after_ms
            after_ms, due = due_ms, datetime.fromtimestamp(due_ms / 1000, UTC)
            if due >= end:
                break
            found.append(due)
        assert [*walk(cron, known, first, end)] == found, cron
