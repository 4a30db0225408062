"""When the message of a member that waits is sent again. Pure.

A member of an array waits in a lane, maybe for days. Should its message be lost (by a function that
died, by an agent), nobody receives it; who looks at the lane cannot tell. So the watch sends a
second one when the member has waited for 5, 10, 20, 40 minutes and so on: at most a dozen in a
fortnight, each of which an agent deletes if the first one was there.
"""

from joblane.state.lease import LEASE_S

FIRST_MS = LEASE_S * 1000
"""Age of a member, in milliseconds, when its message is sent again for the first time; then at
every doubling of it."""


def is_sent_again(waits_since_ms: int, looked_ms: int | None, now_ms: int) -> bool:
    """Whether a member's age has doubled since its group was looked at; all in Unix milliseconds.

    None for a group that was never looked at.
    """
    before = 0 if looked_ms is None else _doublings(looked_ms - waits_since_ms)
    return _doublings(now_ms - waits_since_ms) > before


def _doublings(age_ms: int) -> int:
    """How often a member of this age has been sent again."""
    return max(0, age_ms // FIRST_MS).bit_length()
