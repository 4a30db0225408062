"""A group as the attribute `group` of its job's item, and its roster."""

from collections.abc import Sequence
from typing import Any

from joblane.aws.table import Row
from joblane.group.array import Indices
from joblane.group.record import Group, Stop
from joblane.state.lifecycle import State


def group_value(group: Group) -> dict[str, Any]:
    """The attribute of a group: a map without what is empty."""
    stop = group.stop
    known = {
        "v": group.version,
        "n": group.members,
        "first": group.first,
        "begun": group.begun,
        "placed": group.placed,
        "done": {str(page): dict(tally) for page, tally in sorted(group.done.items())},
        "open": sorted(group.open),
        "failed": sorted(group.failed),
        "again": list(group.again),
        "stop": None if stop is None else [str(stop.state), stop.why],
        "changed": group.changed or None,
        "array": None if group.array is None else list(group.array),
        "tolerate": group.tolerate or None,
        "marks": {str(page): f"{mark:x}" for page, mark in sorted(group.marks.items())},
    }
    return {name: value for name, value in known.items() if value not in (None, [], {})}


def read_group(value: dict[str, Any]) -> Group:
    """Inverse of `group_value`."""
    return Group(
        members=value["n"],
        first=value["first"],
        version=value["v"],
        begun=value["begun"],
        placed=value["placed"],
        done={
            int(page): {State(state): count for state, count in tally.items()}
            for page, tally in value.get("done", {}).items()
        },
        open=frozenset(value.get("open", ())),
        failed=frozenset(value.get("failed", ())),
        again=tuple(value.get("again", ())),
        stop=_stop(*value["stop"]) if "stop" in value else None,
        changed=value.get("changed", False),
        array=Indices(*value["array"]) if "array" in value else None,
        tolerate=value.get("tolerate", 0),
        marks={int(page): int(mark, 16) for page, mark in value.get("marks", {}).items()},
    )


def _stop(state: str, why: str) -> Stop:
    return Stop(State.CANCELLED if state == State.CANCELLED else State.SKIPPED, why)


def roster_key(group: Group, page: int) -> Row:
    """Primary key of the item with the agents of a page.

    In the partition of the first member, whose id is random: two requests with the same
    Idempotency-Key, which may find other agents, write two rosters.
    """
    return {"job_id": group.first, "sk": f"AGENTS#{page:04d}"}


def roster_row(group: Group, page: int, agents: Sequence[str], expires_at: int) -> Row:
    """The item with the names of the agents of a page, in order; names have no spaces."""
    return {**roster_key(group, page), "agents": " ".join(agents), "expires_at": expires_at}
