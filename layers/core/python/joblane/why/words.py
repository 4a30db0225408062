"""Words that several reasons have: durations, numbers of things, names of agents."""

import re

from joblane.formats.times import rfc3339

_ID = re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b")


def span(seconds: float) -> str:
    """Show a duration in one or two units: 4 s, 5 min, 2 h 10 min, 3 d 4 h."""
    left = max(0, round(seconds))
    if left < 120:
        return f"{left} s"
    minutes = left // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def some(count: int, what: str) -> str:
    """Show a number of things: 1 agent, 3 agents."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def clock(at_ms: int) -> str:
    """Show a time for a sentence: RFC 3339 in UTC, in whole seconds."""
    return rfc3339(at_ms // 1000 * 1000).replace(".000Z", "Z")


def at(at_ms: int, now_ms: int) -> str:
    """Show a time and its distance."""
    seconds = (at_ms - now_ms) / 1000
    distance = f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"
    return f"{clock(at_ms)} ({distance})"


def without_ids(text: str) -> str:
    """A text of an agent without ids of jobs: they may be another tenant's."""
    return _ID.sub("\u2026", text)
