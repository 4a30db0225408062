"""Which lanes to poll next. Pure: values in, a decision out.

An agent keeps a long poll open on each lane that it believes to be empty. A poll that has been
open for a moment without an answer *is* the knowledge that the lane is empty, so a busy agent
serves lower lanes at one request a fetch and still sees a high-priority job at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from joblane.names import LANES, Lane

LaneKey = tuple[str, Lane]
"""A queue and one of its lanes."""

EMPTY_AFTER_S = 0.2
"""A long poll that has not answered for this long has found its lane empty: SQS answers one
that finds a message in tens of milliseconds, MiniStack within 100 (MINISTACK.md section 3)."""

LOW_EVERY = 8
"""One fetch in so many starts from the lowest lane, so that nothing starves."""

MOST_A_FETCH = 10
"""SQS hands out ten messages a request at most."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """A poll to start now."""

    lane: LaneKey
    most: int


def serving_order(queues: Sequence[str], fetches: int) -> list[LaneKey]:
    """Lanes in the order in which the next fetch asks them.

    `fetches` counts those that brought a message. All high lanes come before all default ones;
    every eighth fetch asks the other way round.
    """
    order: list[LaneKey] = [(queue, lane) for lane in LANES for queue in queues]
    return order[::-1] if fetches % LOW_EVERY == LOW_EVERY - 1 else order


def next_fetch(
    order: Sequence[LaneKey],
    free: Mapping[str, int],
    open_since: Mapping[LaneKey, float],
    now: float,
) -> Fetch | float | None:
    """Decide what to poll, in serving order.

    `free` has the free slots of each queue, `open_since` the polls that are open, on the clock
    of `now` (seconds). Returns a poll to start; or the seconds until asking again may start
    one, because a lane further up has not had the time to answer; or None if nothing can be
    started until a slot is freed or a poll ends.
    """
    for lane in order:
        slots = free[lane[0]]
        if slots <= 0:
            continue
        since = open_since.get(lane)
        if since is None:
            return Fetch(lane, min(slots, MOST_A_FETCH))
        if now - since < EMPTY_AFTER_S:
            return EMPTY_AFTER_S - (now - since)
    return None
