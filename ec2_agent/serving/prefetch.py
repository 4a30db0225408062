"""How many messages of lanes to receive shortly before a slot becomes free.

An agent whose slots become free many times a second would wait for SQS before each job, and ask for
one message at a time. It receives a few more than it has free slots for, as many as it has lately
begun within `AHEAD_S`:

    slots full     ten jobs ended in the last tenth of a second     ten messages wait
    a slot free    the oldest of them is claimed and starts
    five are left  five more are asked for, with one request
    slots full     no job ends for `gates.PREFETCH_HOLD_S`          given back to the lane

So no message waits for long, and none at all on an agent with long jobs.
"""

from collections import deque
from collections.abc import Callable

from ec2_agent.lanes.polling import MOST_A_FETCH

AHEAD_S = 0.1
"""Seconds of work that may wait, at the rate of the last `WINDOW_S`. An agent receives a message,
and claims its job, in some hundredths of a second."""

WINDOW_S = 1.0
"""Seconds over which slots that became free are counted: fewer than ten bring nothing."""

_MOST_COUNTED = round(MOST_A_FETCH * WINDOW_S / AHEAD_S)


class Prefetch:
    """Counts slots that become free, by queue."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._freed: dict[str, deque[float]] = {}
        """By queue, when its slots became free."""

    def count_freed(self, queue: str) -> None:
        """Count a slot of a queue that has become free."""
        self._freed.setdefault(queue, deque(maxlen=_MOST_COUNTED)).append(self._monotonic())

    def forget(self, queue: str) -> None:
        """Receive nothing ahead for a while: a message has waited for too long."""
        self._freed.pop(queue, None)

    def most(self, queue: str) -> int:
        """How many messages of a queue may wait here for a slot."""
        since = self._monotonic() - WINDOW_S
        lately = sum(at > since for at in self._freed.get(queue, ()))
        return min(MOST_A_FETCH, int(lately * AHEAD_S / WINDOW_S))

    def wanted(self, queue: str, held: int) -> int:
        """How many to receive now, of which `held` wait already.

        0 until half of what may wait has been started: so one request brings several.
        """
        most = self.most(queue)
        return most - held if held <= most // 2 else 0
