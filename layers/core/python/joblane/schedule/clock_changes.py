"""What is surprising about an expression when clocks are changed: a sentence for each change."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from joblane.formats.text import some
from joblane.schedule import zones
from joblane.schedule.cron import expand, is_by_real_time, local_matches
from joblane.schedule.fields import Timing

_AHEAD: Final = timedelta(days=400)
"""How far ahead changes of clocks are looked for: a year, and some more."""


class ClockChange(NamedTuple):
    """A change of a zone's clocks."""

    before: datetime
    """The local time at which they are changed, as they would show it, without a zone."""
    after: datetime
    """What they show then."""

    @property
    def leaves_out(self) -> bool:
        """Whether local times are left out; else some come twice."""
        return self.after > self.before

    @property
    def first(self) -> datetime:
        """The first local time that is left out or comes twice."""
        return min(self.before, self.after)

    @property
    def end(self) -> datetime:
        """The local time after them."""
        return max(self.before, self.after)


def find_changes(zone: str, after_ms: int) -> Iterator[ClockChange]:
    """The changes of a zone's clocks in the 400 days after a time."""
    if zone == "UTC":
        return
    known = zones.load(zone)
    moment = datetime.fromtimestamp(after_ms // 1000, UTC)
    until = moment + _AHEAD
    while (change := zones.next_change(known, moment, until)) is not None:
        before, after = (
            zones.offset(known, change - timedelta(seconds=1)),
            zones.offset(known, change),
        )
        bare = change.replace(tzinfo=None)
        yield ClockChange(bare + before, bare + after)
        moment = change


def find_surprises(timing: Timing, after_ms: int) -> list[str]:
    """What its expression does at the next changes of clocks, one forward and one back."""
    if timing.cron is None:
        return []
    fields = expand(timing.cron)
    said: dict[bool, str] = {}
    for change in find_changes(timing.zone, after_ms):
        matches = local_matches(fields, change.first, change.end)
        text = _say(fields, change, matches) if matches else None
        if text is not None:
            said.setdefault(change.leaves_out, f"{timing.zone}, {change.before:%Y-%m-%d}: {text}")
    return list(said.values())


def _say(fields: str, change: ClockChange, matches: int) -> str | None:
    shown = "%H:%M" if change.first.date() == change.end.date() else "%Y-%m-%d %H:%M"
    first, end = change.first.strftime(shown), change.end.strftime(shown)
    if not is_by_real_time(fields):
        if change.leaves_out:
            return f"there is no time from {first} to {end}; what is due then is due once, at {end}"
        return None  # once, the first time: no surprise
    if fields.split()[1] == "*":
        return None  # due in each hour, it goes on evenly
    usual = some(matches, "time")
    if change.leaves_out:
        return (
            f"there is no time from {first} to {end}; it is not due then, in place of {usual}, "
            "because the minute or the hour begins with *"
        )
    return (
        f"from {first} to {end} comes twice; it is due {2 * matches} times then, in place of "
        f"{usual}, because the minute or the hour begins with *"
    )
