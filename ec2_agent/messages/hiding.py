"""How long a message that is given back stays hidden, and when it is replaced. Pure.

SQS moves a message that was received 1,000 times to the dead letters, whose job becomes dead, and
deletes one 14 days after it was sent. Neither may decide over a job that only waits: a message is
replaced by a new one (sent anew, then deleted) before that, whatever it waits for. Those that no
agent receives are renewed by the requeue function, by the same days (`joblane.job.renewal`).
"""

from typing import NamedTuple

from joblane.job.renewal import KEPT_S, REPLACE_AFTER_S

REPLACE_AT = 500
"""Receives from which a message is replaced, half of what a lane allows (`infra.lanes`)."""


class Pauses(NamedTuple):
    """How long a message is hidden, by the number of its receives."""

    first_s: int
    longest_s: int
    quick: int = 0
    """So many receives are hidden for `first_s` only."""
    power: int = 1
    """Of the number of receives after these."""

    def after(self, receives: int) -> int:
        """Give the seconds for a message that was received so often."""
        steps: int = max(1, receives - self.quick) ** self.power
        return min(self.first_s * steps, self.longest_s)


TOO_LARGE = Pauses(60, 900)
"""A job that asks for more memory than any job may have here."""

LACKING = Pauses(30, 600)
"""A job for which this host lacks a limit, or disk for now."""

TENANT_FULL = Pauses(1, 300, quick=30, power=2)
"""A job whose tenant runs its share here. With a share on every tenth agent, 96 of 100 messages
have reached one of those within the quick ones."""

INBOX_FULL = Pauses(10, 300)
"""A targeted job of a tenant of which many wait here."""


def is_worn(receives: int, age_s: float) -> bool:
    """Whether a message is to be replaced when it is given back.

    SQS keeps one of `REPLACE_AFTER_S` for five days more, twelve hours of them hidden.
    """
    return receives >= REPLACE_AT or age_s >= REPLACE_AFTER_S


SPENT_AFTER_S = 2 * KEPT_S
"""Age of the first message from which those that replace it end. The pass of renewal has sent two
others since, the later one 13 days ago at most; all of them together would be one more each nine
days, received again and again."""


def is_spent(first_age_s: float) -> bool:
    """Whether a worn message is deleted and not replaced: its job has others."""
    return first_age_s >= SPENT_AFTER_S
