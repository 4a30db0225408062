"""How many chunks a job's output becomes, and where they cost least.

An upper bound: output is counted as the job wrote it, although chunks are compressed, and spread
evenly over the time that the job runs.
"""

import math
from dataclasses import dataclass

from ec2_agent.attempt.shipping import FIRST_AFTER_S, LATER_AFTER_S, NEXT_AFTER_S
from joblane.job.chunk import CHUNK_BYTES, ROW_BYTES, belongs_in_s3

PAUSES_S = (FIRST_AFTER_S, *NEXT_AFTER_S)
"""Seconds before each of the first chunks, while nobody reads; LATER_AFTER_S before the others."""

LEAST_BYTES = 1024
"""A chunk a kilobyte at most: a job that writes little does so at a few moments."""


@dataclass(frozen=True)
class Output:
    """What the output of one job uses."""

    write_units: int = 0
    table_bytes: float = 0
    puts: int = 0
    object_bytes: float = 0


def output(size: float, seconds: float, days: int) -> Output:
    """Return what `size` bytes of a job that runs for `seconds` use when kept for `days`."""
    if size <= 0:
        return Output()
    count = chunks(size, seconds)
    each = size / count
    units = math.ceil((ROW_BYTES + each) / 1024)
    if belongs_in_s3(math.ceil(each), days):
        return Output(count, count * ROW_BYTES, count, size)
    return Output(count * units, count * ROW_BYTES + size)


def chunks(size: float, seconds: float) -> int:
    """Return how many chunks go while the job runs and at its end."""
    last = sum(PAUSES_S)
    if seconds >= last:
        timed = len(PAUSES_S) + math.floor((seconds - last) / LATER_AFTER_S) + 1
    else:
        timed = sum(seconds >= sum(PAUSES_S[:n]) for n in range(1, len(PAUSES_S) + 1)) + 1
    small = math.ceil(size / LEAST_BYTES)
    return max(min(timed, small), math.ceil(size / CHUNK_BYTES))
