"""The agent's clock: AWS's time of day, advanced by the boot clock.

Agents compare times: an agent takes over the jobs of another whose heartbeat is five minutes old.
With its host's clock, an agent whose host was set forward by an hour would take over jobs that
run elsewhere, and one set back would lose its own:

    host of A       host of B, set forward 1 h      B concludes
    12:00 beats                                     (13:00)
                    13:00:05 reads 12:00            A was lost an hour ago: runs its jobs again

This clock starts with the host's time and then follows CLOCK_BOOTTIME only, which is never set.
Every answer of AWS has a server's time; when this clock differs by more than an answer may take,
it is set to that time.
"""

from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from ec2_agent.logging import events

TOLERATED_S = 10.0
"""An answer takes up to 5 s (`clients.QUICK`) and has whole seconds; agents tolerate a difference
of a minute (`settings.MARGIN_S`)."""


class Clock:
    """Gives Unix seconds."""

    def __init__(self, wall: Callable[[], float], monotonic: Callable[[], float]) -> None:
        """Start at `wall()`; `monotonic` counts on while the machine sleeps."""
        self._monotonic = monotonic
        self._offset = wall() - monotonic()
        self._dated: str | None = None
        """The last date that was looked at: answers of one second have the same."""

    def __call__(self) -> float:
        """Return the time."""
        return self._monotonic() + self._offset

    def adjust(self, answer: Mapping[str, Any]) -> None:
        """Adjust to the time of an answer of AWS (botocore's `parsed`). Thread-safe."""
        self.adjust_to(answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date"))

    def adjust_to(self, date: str | None) -> None:
        """Adjust to the `Date` header of an answer of AWS; a wrong one is ignored. Thread-safe."""
        if date is None or date == self._dated:
            return  # an endpoint that sends no date, or nothing new
        self._dated = date
        try:
            now = parsedate_to_datetime(date).timestamp()
        except (TypeError, ValueError):
            return
        if abs(off := now - self()) > TOLERATED_S:
            self._offset = now - self._monotonic()  # absolute: two threads may adjust at once
            events.clock_set(round(off, 1))
