"""How the function `sequel` reads the stream of the jobs table."""

from infra.stream import HEADS, Pattern, Reading
from joblane.job.lifecycle import ENDED, State
from joblane.key.state import FREES_SLOT

RESERVED = 10
"""Calls at once whatever other functions do: one for each shard of the stream, of which a new table
has four. Above it Lambda throttles, and a shard waits for its turn."""

_KEYED = {"follows": {"M": {"k": {"S": [{"exists": True}]}}}}
"""Jobs with a key. `exists` knows leaves only."""

_NOT_ENDED = sorted(state.value for state in State if state not in ENDED)


def patterns() -> list[Pattern]:
    """Return the filters: ends of jobs with a key, and deletions of those that had not ended."""
    before = {"OldImage": {**_KEYED, "state": {"S": _NOT_ENDED}}}
    after = {"NewImage": {"state": {"S": sorted(FREES_SLOT)}}}
    return [
        {"eventName": ["MODIFY"], "dynamodb": {**HEADS, **before, **after}},
        {"eventName": ["REMOVE"], "dynamodb": {**HEADS, **before}},
    ]


READING = Reading(
    patterns=patterns(),
    batch=100,
    window_s=0,  # the next job of a key waits for it
    # A slot whose end was given up stays taken, so only what fails for hours is given up.
    retries=None,
    max_age_s=6 * 3600,
    late_ms=60 * 1000,
    late="Jobs with a key wait for slots that are free: the function sequel lags behind its stream",
)
