"""Decides which lane to poll next. Pure.

An agent keeps a long poll open on each lane that is empty. A poll that has been open for a moment
without an answer shows that its lane is empty, so a busy agent serves lower lanes with one request
a fetch, and still receives a high-priority job at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from joblane.deployment.names import LANES, Lane

LaneKey = tuple[str, Lane]
"""A queue and one of its lanes."""

EMPTY_AFTER_S = 0.2
"""A lane whose long poll has been open for this long is empty: SQS answers a poll that finds a
message in tens of milliseconds, MiniStack within 100."""

LOW_EVERY = 8
"""One fetch in this many starts from the lowest lane, so that no lane starves."""

MOST_A_FETCH = 10
"""SQS delivers at most ten messages a request."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """A poll to open now."""

    lane: LaneKey
    most: int


def serving_order(queues: Sequence[str], fetches: int) -> list[LaneKey]:
    """Lanes in the order in which the next fetch polls them.

    `fetches` counts the fetches that delivered a message. All high lanes come before all default
    lanes; every eighth fetch uses the reverse order.
    """
    order: list[LaneKey] = [(queue, lane) for lane in LANES for queue in queues]
    return order[::-1] if fetches % LOW_EVERY == LOW_EVERY - 1 else order


def next_fetch(
    order: Sequence[LaneKey],
    wanted: Mapping[str, int],
    open_since: Mapping[LaneKey, float],
    now: float,
) -> Fetch | float | None:
    """Decide what to poll next.

    `order` is the serving order, `wanted` has how many messages are wanted by queue, `open_since`
    when each open poll was opened, on the clock of `now` (seconds). Returns a poll to open; or the
    seconds to wait, because a lane of higher rank may still answer; or None if no poll can be
    opened until more are wanted or a poll ends.
    """
    for lane in order:
        most = wanted[lane[0]]
        if most <= 0:
            continue
        since = open_since.get(lane)
        if since is None:
            return Fetch(lane, min(most, MOST_A_FETCH))
        if now - since < EMPTY_AFTER_S:
            return EMPTY_AFTER_S - (now - since)
    return None
