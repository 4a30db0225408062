"""Words that several reasons have: times, names of agents."""

import re

from joblane.formats.text import span
from joblane.formats.times import rfc3339

_ID = re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b")


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
