"""Rows of the `conditions` table: a condition's own, and one for each job that waits for it."""

from typing import TYPE_CHECKING, Any, cast

from joblane.condition.state import ConditionState, Phase
from joblane.condition.waiting import WaitingJob

if TYPE_CHECKING:
    from joblane.deployment.names import Lane

Item = dict[str, Any]

KEPT_S = 7 * 86_400
"""How long a closed condition's row stays for operators to see."""

OWN = "CONDITION"
"""Sort key of a condition's own row."""

JOB = "JOB#"
"""Begins the sort keys of the jobs that wait for it."""


def row_key(condition: str, sk: str) -> Item:
    """Key of a row."""
    return {"condition": {"S": condition}, "sk": {"S": sk}}


def number(value: int) -> Item:
    """A number, as DynamoDB writes it."""
    return {"N": str(value)}


def sort_key(entry: WaitingJob) -> str:
    """Where a job is in the list: first come first served, however often it joins."""
    return f"{JOB}{entry.first_ms:015d}#{entry.job_id}"


def state_values(state: ConditionState) -> dict[str, Item | None]:
    """Attributes of a condition's own row, without its key and tenants; None: absent."""
    closed_ms = state.closed_ms
    return {
        "generation": number(state.generation),
        "phase": {"S": state.phase},
        "since": number(state.since_ms),
        "tests": number(state.tests),
        "allow": number(state.allow),
        "why": {"S": state.why},
        "next_at": None if state.next_ms is None else number(state.next_ms),
        "closed_at": None if closed_ms is None else number(closed_ms),
        "expires_at": None if closed_ms is None else number(closed_ms // 1000 + KEPT_S),
    }


def to_state(item: Item) -> ConditionState:
    """Read a condition's own row."""
    return ConditionState(
        condition=item["condition"]["S"],
        generation=int(item["generation"]["N"]),
        phase=Phase(item["phase"]["S"]),
        since_ms=int(item["since"]["N"]),
        tests=int(item["tests"]["N"]),
        allow=int(item["allow"]["N"]),
        why=item["why"]["S"],
        next_ms=int(item["next_at"]["N"]) if "next_at" in item else None,
        closed_ms=int(item["closed_at"]["N"]) if "closed_at" in item else None,
        tenants=frozenset(item["tenants"]["SS"]) if "tenants" in item else frozenset(),
    )


def waiting_item(condition: str, entry: WaitingJob) -> Item:
    """Write a list entry."""
    return {
        **row_key(condition, sort_key(entry)),
        "tenant": {"S": entry.tenant},
        "queue": {"S": entry.queue},
        "lane": {"S": entry.lane},
        "first_at": number(entry.first_ms),
        "blocked_at": number(entry.blocked_ms),
    }


def to_waiting(item: Item) -> WaitingJob:
    """Inverse of `waiting_item`."""
    return WaitingJob(
        job_id=item["sk"]["S"].rpartition("#")[2],
        tenant=item["tenant"]["S"],
        queue=item["queue"]["S"],
        lane=cast("Lane", item["lane"]["S"]),
        first_ms=int(item["first_at"]["N"]),
        blocked_ms=int(item["blocked_at"]["N"]),
    )
