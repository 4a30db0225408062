"""When the delivery of a notification is tried again."""

from collections.abc import Sequence

MAX_S = 43_000
"""Longest pause, in seconds. SQS counts a message's 12 h from its receive, which was some seconds
ago: hiding it for all of them is refused."""


def wait_s(receives: int, retry_s: Sequence[int], spread: float) -> int:
    """Seconds until the next attempt, after `receives` attempts (1 or more) have failed.

    `spread`, from 0 to 1, makes it up to a fifth shorter or longer, so that what failed together
    does not come back together. 0 after the last attempt: SQS then moves the message to the
    dead-letter queue.
    """
    if receives > len(retry_s):
        return 0
    return min(MAX_S, round(retry_s[max(1, receives) - 1] * (0.8 + 0.4 * spread)))
