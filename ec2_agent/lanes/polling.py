"""Decides which lane to poll next. Pure.

An agent keeps a long poll open on each lane that is empty. A poll that has been open for a moment
without an answer shows that its lane is empty, so a busy agent serves lower lanes with one request
a fetch, and still receives a high-priority job at once.
"""

from collections.abc import Container, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class Poll:
    """An open poll."""

    since: float
    """When it was opened, in seconds; long ago if its lane was empty when last asked."""
    most: int
    """How many messages it may bring."""


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
    polls: Mapping[LaneKey, Poll],
    known: Container[LaneKey],
    now: float,
) -> Fetch | float | None:
    """Decide what to poll next.

    `order` is the serving order, `wanted` has how many messages are wanted by queue, `polls` are
    open, on the clock of `now` (seconds), and `known` are lanes that have answered a poll before. A
    lane that has not is asked for one message, so that an agent that begins, or takes its first
    turn from the lowest lane, does not wait for one such lane after another.

    Returns a poll to open; or the seconds to wait, because lanes that come before may still bring
    all that is wanted; or None if no poll can be opened until more are wanted or a poll ends.
    """
    coming, since = 0, now
    wait_s: float | None = None
    for lane in order:
        if (poll := polls.get(lane)) is not None:
            if now - poll.since < EMPTY_AFTER_S:
                coming, since = coming + poll.most, min(since, poll.since)
        elif (most := wanted[lane[0]]) > coming:
            return Fetch(lane, min(most - coming, MOST_A_FETCH if lane in known else 1))
        elif most > 0:
            wait_s = EMPTY_AFTER_S - (now - since)
    return wait_s
