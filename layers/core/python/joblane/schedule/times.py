"""When a schedule is due, as values: no clock. All times are Unix milliseconds.

The due times of a schedule depend on its timing alone, and never on when somebody asks. Each next
one is later than the one before it.
"""

import hashlib
from datetime import UTC, datetime
from typing import Final, NamedTuple

from joblane.formats.ids import new_id
from joblane.formats.times import unix_ms
from joblane.schedule import zones
from joblane.schedule.cron import expand, next_match
from joblane.schedule.fields import Timing

LAST_MS: Final = unix_ms("9999-12-31T00:00:00Z")
"""No due time is later: with its jitter, and in each zone, it is in a year of four digits."""

MOST_COUNTED: Final = 10_000
"""Due times that are counted one by one; 10,000 take 0.1 s."""

_WINDOWS_MS: Final = (3_600_000, 86_400_000, 32 * 86_400_000, 367 * 86_400_000)
"""How far the latest due time is looked for; what is due less often is counted from the first."""


def next_due(timing: Timing, after_ms: int) -> int | None:
    """The first due time later than a time; None if the schedule is over."""
    if timing.start is not None:
        after_ms = max(after_ms, unix_ms(timing.start) - 1)
    last_ms = LAST_MS if timing.end is None else min(LAST_MS, unix_ms(timing.end))
    found = _next(timing, after_ms)
    return None if found is None or found > last_ms else found


def _next(timing: Timing, after_ms: int) -> int | None:
    if timing.every_s is None:
        return next_match(expand(timing.cron or ""), timing.zone, after_ms)
    first_ms = 0 if timing.start is None else unix_ms(timing.start)
    period_ms = timing.every_s * 1000
    return first_ms + ((after_ms - first_ms) // period_ms + 1) * period_ms


def next_times(timing: Timing, after_ms: int, count: int) -> list[int]:
    """The next due times, at most so many."""
    found: list[int] = []
    while len(found) < count and (due_ms := next_due(timing, after_ms)) is not None:
        found.append(due_ms)
        after_ms = due_ms
    return found


class Passed(NamedTuple):
    """Due times that have come, from the first that was not decided to the latest."""

    latest_ms: int
    """The latest of them."""
    before_ms: int | None
    """The one before the latest; None if there is one alone."""
    earlier: int | None
    """How many are before the latest; None for more than `MOST_COUNTED`."""


def passed(timing: Timing, due_ms: int, now_ms: int) -> Passed:
    """What has come by `now_ms`, from the due time `due_ms` on, which has.

    `due_ms` counts even if the timing, which was edited since, does not have it.
    """
    latest_ms, before_ms = due_ms, None
    for window_ms in _WINDOWS_MS:
        if now_ms - window_ms <= due_ms:
            break
        last = _last_two(timing, now_ms - window_ms, now_ms)
        if len(last) == 2:
            before_ms, latest_ms = last
            break
    if before_ms is None:
        *_, before_ms, latest_ms = (None, due_ms, *_last_two(timing, due_ms, now_ms))
    return Passed(latest_ms, before_ms, _count(timing, due_ms, latest_ms))


def _last_two(timing: Timing, after_ms: int, now_ms: int) -> tuple[int, ...]:
    """The last two due times after a time that have come, in their order; fewer if there are."""
    found: tuple[int, ...] = ()
    while (due_ms := next_due(timing, after_ms)) is not None and due_ms <= now_ms:
        found, after_ms = (*found[-1:], due_ms), due_ms
    return found


def _count(timing: Timing, due_ms: int, latest_ms: int) -> int | None:
    """How many due times there are from one to another, the other excluded."""
    if timing.every_s is not None:
        return (latest_ms - due_ms) // (timing.every_s * 1000)
    found = 0
    while due_ms < latest_ms:
        found += 1
        following = next_due(timing, due_ms)
        if found > MOST_COUNTED or following is None:
            return None
        due_ms = following
    return found


def jitter_ms(tenant: str, name: str, jitter_s: int) -> int:
    """How much later than its due times a schedule starts: whole seconds, always the same."""
    if not jitter_s:
        return 0
    return int.from_bytes(_digest(tenant, name)[:8]) % (jitter_s + 1) * 1000


def job_id(tenant: str, name: str, created_ms: int, due_ms: int) -> str:
    """The id of what a schedule starts for a due time: the same, whoever computes it.

    A schedule that was deleted and created again, `created_ms` later, is another one.
    """
    digest = _digest(tenant, name, str(created_ms), str(due_ms))
    return new_id(due_ms, int.from_bytes(digest[:10]))


def _digest(*parts: str) -> bytes:
    return hashlib.sha256("\0".join(parts).encode()).digest()


def local_time(at_ms: int, zone: str) -> str:
    """A time in a zone with its offset: `2026-03-29T03:00:00+02:00`."""
    known = UTC if zone == "UTC" else zones.load(zone)
    return datetime.fromtimestamp(at_ms / 1000, known).isoformat(timespec="seconds")
