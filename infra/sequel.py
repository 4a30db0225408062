"""How the function `sequel` reads the stream of the jobs table."""

from collections.abc import Iterable, Mapping

from infra.stream import HEADS, Pattern, Reading
from joblane.job.lifecycle import ENDED, State
from joblane.key.state import FREES_SLOT

RESERVED = 10
"""Calls at once whatever other functions do: one for each shard of the stream, of which a new table
has four. Above it Lambda throttles, and a shard waits for its turn."""

_KEYED = {"follows": {"M": {"k": {"S": [{"exists": True}]}}}}
"""Jobs with a key. `exists` knows leaves only."""

_MEMBERS = {"follows": {"M": {"g": {"S": [{"exists": True}]}}}}
"""Members of groups."""

_NOT_ENDED = sorted(state.value for state in State if state not in ENDED)


def patterns() -> list[Pattern]:
    """Return the filters: ends of jobs with a key or of members of groups, and deletions before.

    Nothing follows when the row of an ended job is deleted, by its TTL or with its group.
    """

    def ends(of: Mapping[str, object], states: Iterable[State]) -> list[Pattern]:
        before = {"OldImage": {**of, "state": {"S": _NOT_ENDED}}}
        after = {"NewImage": {"state": {"S": sorted(states)}}}
        return [
            {"eventName": ["MODIFY"], "dynamodb": {**HEADS, **before, **after}},
            {"eventName": ["REMOVE"], "dynamodb": {**HEADS, **before}},
        ]

    return [*ends(_KEYED, FREES_SLOT), *ends(_MEMBERS, ENDED)]


READING = Reading(
    patterns=patterns(),
    batch=100,
    window_s=0,  # the next job of a key waits for it, and whoever waits for a group
    # A slot whose end was given up stays taken, so only what fails for hours is given up.
    retries=None,
    max_age_s=6 * 3600,
    late_ms=60 * 1000,
    late="Slots of keys that are free are not given, and groups do not end: the function sequel "
    "lags behind its stream",
)
