"""How the function `sequel` reads the stream of the jobs table."""

from collections.abc import Mapping

from infra.stream import HEADS, Pattern, StreamReading
from joblane.state.lifecycle import ENDED, State

_KEYED = {"follows": {"M": {"k": {"S": [{"exists": True}]}}}}
"""Jobs with a key. `exists` knows leaves only."""

_MEMBERS = {"follows": {"M": {"g": {"S": [{"exists": True}]}}}}
"""Members of groups."""

_LEFT = {"group": {"M": {"goes_on": {"N": [{"exists": True}]}}}}
"""Groups of which members are left to be placed."""

_TELLING = {"tells": {"S": [{"exists": True}]}}
"""Jobs whose transitions somebody wants to know of."""

_NOT_ENDED = sorted(state.value for state in State if state not in ENDED)


def patterns(*, notifies: bool) -> list[Pattern]:
    """Return the filters: ends of jobs with a key or of members of groups, and deletions before.

    And groups of which members are left to be placed. Nothing follows when the row of an ended job
    is deleted, by its TTL or with its group; that of any other job passes, since Lambda allows five
    filters and few are deleted. With `notifies`, every change of the jobs that tell something
    passes: a filter compares no two images and reads no list of a row, so the function drops those
    that nobody wants to know of.
    """
    after = {"NewImage": {"state": {"S": sorted(ENDED)}}}

    def before(of: Mapping[str, object]) -> dict[str, object]:
        return {"OldImage": {**of, "state": {"S": _NOT_ENDED}}}

    found: list[Pattern] = [
        {"eventName": ["MODIFY"], "dynamodb": {**HEADS, **before(_KEYED), **after}},
        {"eventName": ["MODIFY"], "dynamodb": {**HEADS, **before(_MEMBERS), **after}},
        {"eventName": ["REMOVE"], "dynamodb": {**HEADS, **before({})}},
        {"eventName": ["MODIFY"], "dynamodb": {**HEADS, "NewImage": _LEFT}},
    ]
    if notifies:
        changed = {"dynamodb": {**HEADS, "NewImage": _TELLING}}
        found.append({"eventName": ["INSERT", "MODIFY"], **changed})
    return found


def reading(*, notifies: bool) -> StreamReading:
    """How the function reads the stream."""
    return StreamReading(
        patterns=patterns(notifies=notifies),
        batch=100,
        window_s=0,  # the next job of a key waits for it, and whoever waits for a group
        # Who waits for a slot whose end was given up waits for a quarter of an hour more.
        retries=None,
        max_age_s=6 * 3600,
        # An end that is missed costs as much; one that comes again changes nothing.
        start="TRIM_HORIZON",
    )
