"""The state of a key: who has its slots, who waits for one, and what has happened so far."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from joblane.key.policy import KeyLimits

IDLE_S = 86_400
"""Seconds for which the row of a key without jobs is kept."""


class Grant(NamedTuple):
    """A slot that a job has got."""

    job_id: str
    slot: int
    """Number of the grant: it rises with each grant of a key."""


@dataclass(frozen=True, slots=True)
class KeyState:
    """A key as the table stores it; immutable."""

    grants: int
    """Number of the latest grant. A new row begins with the time in milliseconds and not with 0:
    the row of an idle key expires, and slots must rise all the same."""
    active: Mapping[str, int] = field(default_factory=dict)
    """Jobs with a slot, and the numbers of their grants."""
    queued: tuple[str, ...] = ()
    """Jobs that wait for a slot, the first one first."""
    limits: KeyLimits = field(default_factory=KeyLimits)
    """The limits of its latest admission."""
    queued_total: int = 0
    """Jobs that had to wait so far, while the row was there; so for the next two."""
    replaced: int = 0
    """Jobs that newer ones have replaced."""
    stale: int = 0
    """Jobs that ended as stale."""

    @property
    def idle(self) -> bool:
        """Whether no job has or waits for a slot."""
        return not self.active and not self.queued

    @property
    def limit(self) -> int:
        """Most jobs that have or wait for a slot."""
        return self.limits.max_active + self.limits.max_queued

    @property
    def full(self) -> bool:
        """Whether no further job is accepted."""
        return len(self.active) + len(self.queued) >= self.limit

    @property
    def holders(self) -> tuple[str, ...]:
        """Jobs with a slot, in the order of their grants."""
        return tuple(sorted(self.active, key=self.active.__getitem__))
