"""The state of a condition: who tests it, what the last test found, and its changes.

Its phase says whether an execution of the recovery state machine tests the condition:

    (absent) --open--> opening --begin--> running --close--> closed --open--> opening ...
                          ^                  |
                          +--- renew --------+   another execution takes over

Each opening and renewal is a new generation, and a generation names one execution.
"""

import hashlib
from dataclasses import dataclass, field, replace
from enum import StrEnum

from joblane.condition.names import parse

OVERDUE_S = 3600
"""An execution whose next test is overdue by this much has died unnoticed."""

RELAPSE_S = 600
"""A condition that blocks again so soon after its list was emptied had not recovered: its delays
continue where they were, instead of starting over."""


class Phase(StrEnum):
    """Whether an execution tests a condition."""

    OPENING = "opening"
    RUNNING = "running"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class ConditionState:
    """A condition, as of its last test."""

    condition: str
    generation: int
    """When it was last opened or renewed, Unix milliseconds; names its execution."""
    phase: Phase
    since_ms: int
    """When its first job joined."""
    tests: int
    """Tests since one last let a job go for good; the policy's delay follows from it."""
    allow: int
    """How many jobs the last test released; 0 while it blocks."""
    why: str
    """What the last test saw."""
    next_ms: int | None = None
    """When the next test is due."""
    closed_ms: int | None = None
    tenants: frozenset[str] = field(default=frozenset(), compare=False)
    """Tenants whose jobs have joined since it was opened. Only joining and opening change it."""

    @property
    def blocks(self) -> bool:
        """Whether jobs wait for it, and the last test did not let any go."""
        return self.phase is not Phase.CLOSED and self.allow == 0

    @property
    def execution_name(self) -> str:
        """Name of this generation's execution: `http-<hash>-<generation>`, up to 80 characters."""
        digest = hashlib.sha256(self.condition.encode()).hexdigest()[:32]
        return f"{parse(self.condition).kind}-{digest}-{self.generation}"

    def is_abandoned(self, now_ms: int) -> bool:
        """Whether its execution must have died."""
        due_ms = self.next_ms if self.next_ms is not None else self.generation
        return self.phase is Phase.RUNNING and now_ms > due_ms + OVERDUE_S * 1000

    def needs_opening(self, now_ms: int) -> bool:
        """Whether no execution tests it."""
        return self.phase is Phase.CLOSED or self.is_abandoned(now_ms)

    def close(self, now_ms: int) -> "ConditionState":
        """Its state once its list is empty."""
        return replace(self, phase=Phase.CLOSED, next_ms=None, closed_ms=now_ms)

    def reopen(self) -> "ConditionState":
        """Its state when a job joined while it was being closed: the same execution continues."""
        return replace(self, phase=Phase.RUNNING, closed_ms=None)

    def renew(self, now_ms: int) -> "ConditionState":
        """Its state when another execution takes over."""
        return replace(
            self,
            generation=max(now_ms, self.generation + 1),
            phase=Phase.OPENING,
            next_ms=None,
            closed_ms=None,
        )


def open_condition(condition: str, old: ConditionState | None, now_ms: int) -> ConditionState:
    """Open a condition; after a relapse, or when its execution died, its delays continue."""
    if old is not None and old.phase is not Phase.CLOSED:
        return old.renew(now_ms)
    tests, generation = 0, now_ms
    if old is not None:
        generation = max(now_ms, old.generation + 1)
        if old.closed_ms is None or now_ms - old.closed_ms < RELAPSE_S * 1000:
            tests = old.tests
    return ConditionState(
        condition=condition,
        generation=generation,
        phase=Phase.OPENING,
        since_ms=now_ms,
        tests=tests,
        allow=0,
        why="a job was blocked by it; not tested yet",
    )
