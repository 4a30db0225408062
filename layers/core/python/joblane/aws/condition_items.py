"""The rows of the `conditions` table: a condition's own, and one for each job that waits for it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

from joblane.head import Head, Step
from joblane.lifecycle import State
from joblane.names import Lane

Item = dict[str, Any]

OVERDUE_S = 3600
"""An execution that is so late with its next test has died without anybody noticing."""

KEPT_S = 7 * 86_400
"""How long a closed condition's row stays for operators to see."""

OWN = "CONDITION"
"""Sort key of a condition's own row."""

JOB = "JOB#"
"""Begins the sort keys of the jobs that wait for it."""

_SAME_CYCLE = frozenset({State.PENDING, State.ACTIVE, State.BLOCKED})


class Phase(StrEnum):
    """Whether an execution takes care of a condition."""

    OPENING = "opening"
    RUNNING = "running"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """A condition, as of its last test."""

    condition: str
    generation: int
    """When it was last opened or renewed, Unix milliseconds; names its execution."""
    phase: Phase
    since_ms: int
    """When its first job joined."""
    tests: int
    """Rounds since it last helped a job to let it go; the policy's delay follows from it."""
    allow: int
    """How many jobs the last test let go; 0 while it blocks."""
    why: str
    """What the last test saw."""
    next_ms: int | None = None
    """When the next test is due."""
    closed_ms: int | None = None
    tenants: frozenset[str] = field(default=frozenset(), compare=False)
    """Whose jobs have joined since it was opened. Only joining and opening change it."""

    @property
    def blocks(self) -> bool:
        """Whether jobs wait for it, and the last test did not let any go."""
        return self.phase is not Phase.CLOSED and self.allow == 0

    def abandoned(self, now_ms: int) -> bool:
        """Whether its execution must have died."""
        due_ms = self.next_ms if self.next_ms is not None else self.generation
        return self.phase is Phase.RUNNING and now_ms > due_ms + OVERDUE_S * 1000


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job in a condition's list: all that its return to its lane takes."""

    job_id: str
    tenant: str
    queue: str
    lane: Lane
    first_ms: int
    """When it blocked first, without having run to an end since: its policy's time runs from
    here, so a job that blocks again and again does not wait for ever."""
    blocked_ms: int
    """When it blocked this time."""

    @property
    def again(self) -> bool:
        """Whether it had been let go before, and has come back."""
        return self.blocked_ms > self.first_ms

    @property
    def sort(self) -> str:
        """Where it stands in the list: first come first served, however often it joins."""
        return f"{JOB}{self.first_ms:015d}#{self.job_id}"


def waiting(head: Head) -> Waiting:
    """The list entry of a job that is blocked, as `JobStore.block` returned it."""
    blocked_ms = head.timeline[-1].at_ms
    return Waiting(
        job_id=head.job_id,
        tenant=head.tenant,
        queue=head.queue,
        lane=head.spec.priority,
        first_ms=_first_blocked(head.timeline, blocked_ms),
        blocked_ms=blocked_ms,
    )


def _first_blocked(timeline: Sequence[Step], blocked_ms: int) -> int:
    """When the blocks began that no other end of an attempt has interrupted."""
    first = blocked_ms
    for step in reversed(timeline):
        if step.state not in _SAME_CYCLE:
            break
        if step.state is State.BLOCKED:
            first = step.began_ms
    return first


def row_key(condition: str, sk: str) -> Item:
    """Key of a row."""
    return {"condition": {"S": condition}, "sk": {"S": sk}}


def number(value: int) -> Item:
    """A number, as DynamoDB writes it."""
    return {"N": str(value)}


def own_values(row: ConditionRow) -> dict[str, Item | None]:
    """Every attribute of a condition's own row but its key and its tenants; None: not there."""
    closed_ms = row.closed_ms
    return {
        "generation": number(row.generation),
        "phase": {"S": row.phase},
        "since": number(row.since_ms),
        "tests": number(row.tests),
        "allow": number(row.allow),
        "why": {"S": row.why},
        "next_at": None if row.next_ms is None else number(row.next_ms),
        "closed_at": None if closed_ms is None else number(closed_ms),
        "expires_at": None if closed_ms is None else number(closed_ms // 1000 + KEPT_S),
    }


def from_own(item: Item) -> ConditionRow:
    """Read a condition's own row."""
    return ConditionRow(
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


def to_row(condition: str, entry: Waiting) -> Item:
    """Write a list entry."""
    return {
        **row_key(condition, entry.sort),
        "tenant": {"S": entry.tenant},
        "queue": {"S": entry.queue},
        "lane": {"S": entry.lane},
        "first_at": number(entry.first_ms),
        "blocked_at": number(entry.blocked_ms),
    }


def from_row(item: Item) -> Waiting:
    """Inverse of `to_row`."""
    return Waiting(
        job_id=item["sk"]["S"].rpartition("#")[2],
        tenant=item["tenant"]["S"],
        queue=item["queue"]["S"],
        lane=cast("Lane", item["lane"]["S"]),
        first_ms=int(item["first_at"]["N"]),
        blocked_ms=int(item["blocked_at"]["N"]),
    )
