"""Times and durations as people type them: `+5m`, `1h30m`, `tomorrow 9:00`, RFC 3339.

    moment    = [day] [clock] [zone] | duration | RFC 3339
    day       = YYYY-MM-DD | today | tomorrow | yesterday | monday .. sunday
    clock     = HH:MM[:SS] | Ham | H:MMpm
    zone      = Z | UTC | +HH:MM | a name of the tz database, such as Europe/Berlin
    duration  = a number and a unit, one or several: 90s, 1h30m, 1.5d, 5 minutes, 1 hour 30 min

Without a zone it is the machine's. A duration is from now: back for a time to look at (`1h`,
`1h ago`, `-1h`), ahead for a time to run at (`+5m`, `5m`, `in 5 minutes`). docs/decisions/1652 says
why there is no library.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Literal

import typer

from joblane.client.cli.text import terminal
from joblane.client.cli.text.formats import duration as shown_duration

Way = Literal["ahead", "back"]
"""Whether a duration is added to the present time, or taken from it."""

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_UNIT = r"s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?|w(?:eeks?)?"
_PART = rf"([0-9]{{1,9}}(?:\.[0-9]{{1,6}})?) ?({_UNIT})(?![a-z])"
_DURATION = re.compile(rf"{_PART}(?: ?{_PART})*", re.ASCII)
_CLOCK = re.compile(
    r"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?)?(?P<half>am|pm)?",
    re.ASCII,
)
_OFFSET = re.compile(r"(?P<sign>[+-])(?P<hours>[0-9]{2}):?(?P<minutes>[0-9]{2})", re.ASCII)
_UTC_TEXT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z", re.ASCII)
_ISO = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9:.]+)(Z|[+-][0-9]{2}:?[0-9]{2})?", re.ASCII
)

_EXAMPLES = {
    "ahead": "+5m, tomorrow 9:00, monday 18:30 Europe/Berlin, 2026-11-21T02:00:00Z",
    "back": "1h, yesterday 18:00, today, 2026-11-21T02:00:00Z",
}


class NotATime(ValueError):
    """A text that is no time; the message says why."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A time that was understood."""

    at: datetime
    """Aware."""
    skipped: datetime | None = None
    """The time of day that was asked for, if clocks skip it that day; `at` is when they go on."""


def utc_time(
    option: str,
    text: str | None,
    way: Way,
    *,
    in_future: bool = False,
) -> str | None:
    """Make what was typed a time in RFC 3339, and say on stderr how it was understood.

    Nothing is said about a text that is RFC 3339 in UTC, nor about a duration back. Raises
    `typer.BadParameter`; with `in_future` also for a time that has passed.
    """
    if text is None:
        return None
    current = datetime.now(UTC)
    try:
        understood, exact = moment(text, current, way), _UTC_TEXT.fullmatch(text) is not None
    except NotATime as error:
        raise typer.BadParameter(f"{option} {text!r} {error}; examples: {_EXAMPLES[way]}") from None
    found = understood.at
    if in_future and found <= current:
        said = text if exact else f"{text} ({_utc(found)})"
        raise typer.BadParameter(f"{option} {said} is not in the future: it is {_utc(current)} now")
    if exact:
        return text
    if way == "ahead" or not _is_duration(text):
        moved = ""
        if understood.skipped is not None:
            moved = f": clocks are put forward over {understood.skipped:%H:%M:%S} then"
        shown = f"{_utc(found)} ({_local(found)}, {_distance(found, current)})"
        terminal.note(f"{option} is {shown}{moved}")
    return _utc(found)


def seconds(option: str, text: str | None) -> float | None:
    """Read a duration such as 90s, 5m or 1h30m; a number alone means seconds.

    Raises `typer.BadParameter`.
    """
    if text is None:
        return None
    wanted = _normal(text).lower()
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", wanted, re.ASCII):
        return float(wanted)
    if not _DURATION.fullmatch(wanted):
        raise typer.BadParameter(f"{option} {text!r} is not a duration; examples: 90s, 5m, 1h30m")
    return _sum_s(wanted)


def one_duration(seconds_s: float | None, text: str | None) -> float | None:
    """Return the value of --timeout-s or of --timeout, whichever was given."""
    if seconds_s is not None and text is not None:
        raise typer.BadParameter("--timeout and --timeout-s exclude each other")
    return seconds_s if text is None else seconds("--timeout", text)


def moment(text: str, now: datetime, way: Way) -> Moment:
    """Read a time; `now` is aware. Raises NotATime."""
    wanted = _normal(text)
    try:
        found = _moment(wanted, now, way)
        found.at.astimezone()  # it is shown in the machine's zone
    except NotATime:
        raise
    except (ValueError, OverflowError, OSError):  # the last two: the calendar's ends
        raise NotATime("does not exist") from None
    return found


def _normal(text: str) -> str:
    return " ".join(text.split())


def _moment(wanted: str, now: datetime, way: Way) -> Moment:
    """As `moment`; also raises what `datetime` does for a time that does not exist."""
    low = wanted.lower()
    if low == "now":
        return Moment(now)
    if _is_duration(low):
        return Moment(_away(low, now, way))
    if (iso := _ISO.fullmatch(wanted.upper())) is not None:
        day, clock, zone = iso.groups()
        clock = re.sub(r"^([0-9]):", r"0\1:", clock)
        return _in_zone(datetime.fromisoformat(f"{day}T{clock}"), _zone(zone or ""))
    return _parse_named(wanted, now, way)


def _bare(text: str) -> str:
    return text.removeprefix("in ").removesuffix(" ago").lstrip("+-").strip()


def _is_duration(text: str) -> bool:
    return _DURATION.fullmatch(_bare(_normal(text).lower())) is not None


def _away(text: str, now: datetime, way: Way) -> datetime:
    forth = text.startswith(("+", "in "))
    back = text.startswith("-") or text.endswith(" ago")
    if (forth and way == "back") or (back and way == "ahead"):
        raise NotATime(f"is in the {'future' if forth else 'past'}")
    try:
        distance = timedelta(seconds=_sum_s(_bare(text)))
        found = now + distance if way == "ahead" else now - distance
    except OverflowError:
        raise NotATime("is too far away") from None
    return found.replace(microsecond=0)


def _sum_s(text: str) -> float:
    parts = re.findall(_PART, text, re.ASCII)
    return sum(float(number) * UNITS_S[unit[0]] for number, unit in parts)


def _parse_named(text: str, now: datetime, way: Way) -> Moment:
    """A day, a time of day, and a zone; each may be missing, the first two not both."""
    words = text.split(" ")
    day = words.pop(0) if _is_day(words[0]) else None
    clock = words.pop(0) if words and _CLOCK.fullmatch(words[0].lower()) else None
    if (day is None and clock is None) or len(words) > 1:
        raise NotATime("is not a time")
    hour, minute, second = (0, 0, 0) if clock is None else _clock(clock.lower())
    zone = _zone(words[0] if words else "")
    here = now.astimezone(zone).replace(tzinfo=None)
    start = _day(day, here, way).replace(hour=hour, minute=minute, second=second, microsecond=0)
    found = _in_zone(start, zone)
    if day is None or day.lower() in WEEKDAYS:
        days = 1 if day is None else 7
        if way == "ahead" and found.at <= now:
            return _in_zone(start + timedelta(days=days), zone)
        if way == "back" and found.at > now:
            return _in_zone(start - timedelta(days=days), zone)
    return found


def _is_day(word: str) -> bool:
    low = word.lower()
    return low in ("today", "tomorrow", "yesterday", *WEEKDAYS) or bool(
        re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", low, re.ASCII)
    )


def _day(word: str | None, here: datetime, way: Way) -> datetime:
    match None if word is None else word.lower():
        case None | "today":
            return here
        case "tomorrow":
            return here + timedelta(days=1)
        case "yesterday":
            return here - timedelta(days=1)
        case day if day in WEEKDAYS:
            ahead = (WEEKDAYS.index(day) - here.weekday()) % 7
            return here + timedelta(days=ahead if way == "ahead" or ahead == 0 else ahead - 7)
        case day:
            return datetime.fromisoformat(day)


def _clock(text: str) -> tuple[int, int, int]:
    found = _CLOCK.fullmatch(text)
    if found is None or (found["minute"] is None and found["half"] is None):
        raise NotATime("is not a time; write the time of day as 9:00 or 9am")
    hour = int(found["hour"])
    if found["half"]:
        if not 1 <= hour <= 12:
            raise NotATime("has no such time of day")
        hour = hour % 12 + (12 if found["half"] == "pm" else 0)
    return hour, int(found["minute"] or 0), int(found["second"] or 0)


def _zone(name: str) -> tzinfo | None:
    """Return a zone; None is the machine's."""
    if not name:
        return None
    if name.upper() in {"Z", "UTC", "GMT"}:
        return UTC
    if (offset := _OFFSET.fullmatch(name)) is not None:
        there = timedelta(hours=int(offset["hours"]), minutes=int(offset["minutes"]))
        if there >= timedelta(days=1):
            raise NotATime(f"has no time zone: {name} is none")
        return timezone(there if offset["sign"] == "+" else -there)
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # few name a zone

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise NotATime(f"names the time zone {name}, which this machine does not know") from None


def _in_zone(naive: datetime, zone: tzinfo | None) -> Moment:
    """Put a time into a zone. One that clocks skip there becomes the time at which they go on.

    So do schedules: a job at 2:30 runs at 3:00 on the day when summer time begins.
    """
    found = _instant(naive, zone)
    if found.astimezone(zone).replace(tzinfo=None) == naive:
        return Moment(found)
    # With the offset of before the jump it would lie after it, with the other one before it.
    before, after = sorted((found, _instant(naive.replace(fold=1), zone)))
    offset = before.astimezone(zone).utcoffset()
    while after - before > timedelta(seconds=1):
        middle = (before + (after - before) / 2).replace(microsecond=0)
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return Moment(after, skipped=naive)


def _instant(naive: datetime, zone: tzinfo | None) -> datetime:
    aware = naive.astimezone() if zone is None else naive.replace(tzinfo=zone)
    return aware.astimezone(UTC)


def _utc(moment: datetime) -> str:
    precision = "milliseconds" if moment.microsecond >= 1000 else "seconds"
    text = moment.astimezone(UTC).isoformat(timespec=precision)
    return text.replace("+00:00", "Z")


def _local(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S %Z}"


def _distance(then: datetime, now: datetime) -> str:
    left = (then - now).total_seconds()
    return f"in {shown_duration(left)}" if left >= 0 else f"{shown_duration(-left)} ago"
