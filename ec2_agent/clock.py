"""The time of day as this agent believes it: AWS's, carried on by a clock that nobody sets.

Agents compare times: whoever finds another's heartbeat five minutes old takes its jobs over. So
an agent whose host's clock was set forward by an hour would take over jobs that run elsewhere,
and one set back would lose its own:

    host of A       host of B, set forward 1 h      B believes
    12:00 beats                                     (13:00)
                    13:00:05 reads 12:00            A was lost an hour ago: runs its jobs again

This clock starts with the host's and then only follows CLOCK_BOOTTIME, whatever happens to the
host's. Every answer of AWS carries the time of a server; where this clock is off by more than an
answer may take, it is set by that.
"""

from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from ec2_agent.events import ClockSet
from ec2_agent.log_event import tell

TOLERATED_S = 10.0
"""An answer takes up to 5 s (`clients.QUICK`) and names whole seconds; agents bear a difference of
a minute (`lease.MARGIN_S`)."""


class Clock:
    """Gives Unix seconds."""

    def __init__(self, wall: Callable[[], float], monotonic: Callable[[], float]) -> None:
        """Begin with what `wall` says; `monotonic` goes on while the machine sleeps."""
        self._monotonic = monotonic
        self._offset = wall() - monotonic()

    def __call__(self) -> float:
        """Give the time."""
        return self._monotonic() + self._offset

    def hear(self, answer: Mapping[str, Any]) -> None:
        """Compare with the time of an answer of AWS, any thread; botocore's `parsed`."""
        said = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        try:
            now = parsedate_to_datetime(said).timestamp()
        except (TypeError, ValueError):
            return  # an endpoint that names no time
        if abs(off := now - self()) > TOLERATED_S:
            self._offset = now - self._monotonic()  # not by a difference: two may hear at once
            tell(ClockSet(round(off, 1)))
