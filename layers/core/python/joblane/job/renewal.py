"""When messages of waiting jobs are sent anew, before SQS deletes them. Pure.

SQS deletes a message 14 days after it was sent. Agents replace those that they hold or give back
(`ec2_agent.messages.hiding`); those that nobody receives, as of a paused queue, are sent again by a
pass of the requeue function each 4 days, to jobs that have come to a multiple of 9 days since the
pass before. Days since a job was made:

    0         9         18        27
    |---------|---------|---------|--->
      p   p   p   p   p   p   p   p     passes
              s         s       (s)     its message is sent again

Two multiples are 9 days apart, and the first pass after one comes within 4: so two messages of a
job are at most 13 days apart, and a pass may be late, or take long, by a day. It does not matter
when the first one was sent, nor since when the job waits: a job that was scheduled, retried or
released has one that is younger, and gets another one all the same, which does no harm. Counted
from a change of its state it would be wrong, as a change need not bring a new message:

    day 0          8              9                  14                17
    sent           fails, retry   its backoff ends   SQS deletes it    9 days of waiting: too late
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from joblane.formats.ids import first_id, submitted_ms
from joblane.state.retention import LOOK_DAYS

DAY_S: Final = 86_400

KEPT_S: Final = 14 * DAY_S
"""How long SQS keeps a message: its maximum, which all queues have."""

REPLACE_AFTER_S: Final = 9 * DAY_S
"""Age from which agents replace a message, and multiples at which the pass sends another one."""

PASS_EVERY_S: Final = 4 * DAY_S
"""Seconds from the begin of a pass to that of the next one."""

SPARE_S: Final = KEPT_S - REPLACE_AFTER_S - PASS_EVERY_S
"""A day: how late a pass may be, and how long it may take."""

FIRST_TENANT: Final = ""
"""Before the name of every tenant."""


def count_multiples(job_id: str, at_ms: int) -> int:
    """How many multiples of `REPLACE_AFTER_S` a job has come to, since it was made."""
    return max(0, at_ms - submitted_ms(job_id)) // (REPLACE_AFTER_S * 1000)


def is_due(job_id: str, since_ms: int, now_ms: int) -> bool:
    """Whether a job has come to a multiple after `since_ms`, and up to `now_ms`."""
    return count_multiples(job_id, now_ms) > count_multiples(job_id, since_ms)


def next_due(job_id: str | None, since_ms: int, now_ms: int) -> str:
    """An id below which the next jobs are that may be due, going from new to old.

    `job_id` is the last one that was seen; None at the start.
    """
    if job_id is not None and is_due(job_id, since_ms, now_ms):
        return job_id
    multiples = 0 if job_id is None else count_multiples(job_id, now_ms)
    below = first_id(now_ms - (multiples + 1) * REPLACE_AFTER_S * 1000 + 1)
    return below if job_id is None else min(below, job_id)


def is_data_due(job_id: str, since_ms: int, now_ms: int, days: int) -> bool:
    """Whether what lives for so many days of a job that is due is to live on.

    At a multiple before half of the days, and each time that as many have passed again.
    """
    every = max(1, days * DAY_S // 2 // REPLACE_AFTER_S)
    before, now = (count_multiples(job_id, at_ms) // every for at_ms in (since_ms, now_ms))
    return now > before


def copied_after_s(days: int) -> int:
    """Age from which an object that lives for so many days, 14 or more, is copied onto itself.

    When half of its days are gone; before that if it would not live until the next look.
    """
    return min(days * DAY_S // 2, (days - LOOK_DAYS) * DAY_S)


@dataclass(frozen=True, slots=True)
class RenewalPass:
    """How far a pass has come."""

    began_ms: int
    since_ms: int
    """When the pass before began: jobs that came to a multiple after that are due."""
    tenant: str | None = FIRST_TENANT
    """The tenant whose jobs are looked at now; None once all were."""
    place: str | None = None
    """Where to go on in its list: below this id, or `GROUP:PAGE` for members; None: its begin."""
    tries: int = 0
    """How many runs of the function have begun at this place."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """What was done, by name."""
    version: int = 0
    """Counts the writes of it."""

    def at(self, tenant: str | None, place: str | None) -> "RenewalPass":
        """The pass at another place."""
        return replace(self, tenant=tenant, place=place, tries=0)


def begin_pass(before: RenewalPass | None, now_ms: int) -> RenewalPass | None:
    """The pass to go on with: the one before, or a new one; None if none is due.

    The first one of a deployment is over when it begins: no job is older than that.
    """
    if before is None:
        return RenewalPass(now_ms, now_ms, tenant=None)
    if before.tenant is not None:
        return before
    if now_ms - before.began_ms < PASS_EVERY_S * 1000:
        return None
    return RenewalPass(now_ms, before.began_ms, version=before.version)
