"""Default deadlines, which job types and queues have: how long they are, and when one is. Pure."""

from typing import Annotated, Final

from pydantic import Field

from joblane.formats.times import rfc3339, unix_ms
from joblane.job.spec import Submission

MAX_DEADLINE_S: Final = 366 * 86_400
"""Longest time to a default deadline: a year."""

DeadlineAfter = Annotated[float, Field(ge=1, le=MAX_DEADLINE_S)]
"""Seconds from the submission of a job, or from its `run_at`, to its deadline."""


def deadline_after(spec: Submission, seconds: float, now_ms: int) -> str:
    """Return the deadline of a job that is submitted now; it counts from a later `run_at`.

    RFC 3339; `now_ms` is in Unix milliseconds.
    """
    start_ms = now_ms if spec.run_at is None else max(now_ms, unix_ms(spec.run_at))
    return rfc3339(start_ms + round(seconds * 1000))
