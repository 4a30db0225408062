"""Queue activity: changes of jobs, counted by minute.

A change belongs to the minute in which DynamoDB wrote it: one clock for all writers, and a late
delivery does not move it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, fields
from typing import Literal

from joblane.job.fields import COMMAND
from joblane.state.lifecycle import NOT_RUNNING, State

Kind = Literal["submitted", "started", "completed", "failed", "retried"]

WINDOWS = (1, 5, 60)
"""Minutes over which activity is shown."""


KINDS: Mapping[State, Kind] = {
    State.ACTIVE: "started",
    State.COMPLETED: "completed",
    State.FAILED: "failed",
    State.DEAD: "failed",
    State.RETRY: "retried",
}
"""What a change into a state counts as; a job's first state, whichever, is a submission."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a job's state that is counted."""

    tenant: str
    queue: str
    kind: Kind | None
    """None: it counts for the figures of the tenant only."""
    items: int
    minute: int
    """Of DynamoDB's clock: Unix seconds over 60."""
    sequence: int
    """Sequence number in the stream; grows within a shard."""
    waited_ms: int = 0
    """Of a start: time since the job was ready to start."""
    ran_ms: int | None = None
    """Of the end of an attempt: time since it was claimed."""
    output_bytes: int = 0
    """Of the end of an attempt: its output."""
    file_bytes: int = 0
    """Of the end of an attempt: its output files."""
    before: State | None = None
    """The job's state until then; None for a new one."""
    after: State | None = None
    """Its state since; None if it was deleted."""
    listed: bool = True
    """False for a member of a group: lists leave it out."""
    type: str = COMMAND
    """The job type; `command` for a job without one."""
    submitted: int = 0
    """The minute of the job's id: Unix seconds over 60."""
    unbegun: int = 0
    """How many more members of a group have not begun: they are no jobs yet, and wait."""
    moved_from: str | None = None
    """The queue that it was in until then, if that is another one: an edit, or a retired queue, may
    move a job whose state stays."""

    @property
    def waiting(self) -> int:
        """1 if the job began to wait, -1 if it stopped."""
        return (self.after in NOT_RUNNING) - (self.before in NOT_RUNNING)


@dataclass(slots=True)
class Tally:
    """Counts of jobs and of their work items."""

    submitted: int = 0
    submitted_items: int = 0
    started: int = 0
    started_items: int = 0
    completed: int = 0
    completed_items: int = 0
    failed: int = 0
    failed_items: int = 0
    retried: int = 0
    retried_items: int = 0
    waited_ms: int = 0

    def add(self, other: "Tally") -> None:
        """Add another tally to this one."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    def encode(self) -> str:
        """Encode for the table: the figures in the order of the fields."""
        return " ".join(map(str, astuple(self)))

    @classmethod
    def decode(cls, text: str) -> "Tally":
        """Inverse of `encode`."""
        return cls(*map(int, text.split()))


@dataclass(frozen=True, slots=True)
class Series:
    """Key of a counter: one minute of a tenant's jobs in a queue."""

    tenant: str
    queue: str
    minute: int


def kind_of(before: State | None, after: State) -> Kind | None:
    """What a change of a job counts as; None for nothing. `before` is None for a new job."""
    if before is None:
        return "submitted"
    kind = KINDS.get(after)
    return None if kind == KINDS.get(before) else kind


def fold(changes: Iterable[Change]) -> dict[Series, tuple[int, Tally]]:
    """Count a batch: the sequence number of the first change of each series, and its tally."""
    found: dict[Series, tuple[int, Tally]] = {}
    for change in changes:
        if change.kind is None:
            continue
        series = Series(change.tenant, change.queue, change.minute)
        _, tally = found.setdefault(series, (change.sequence, Tally()))
        one = {change.kind: 1, f"{change.kind}_items": change.items, "waited_ms": change.waited_ms}
        tally.add(Tally(**one))
    return found


def oldest_minute(now_ms: int) -> int:
    """The first minute of the longest window."""
    return now_ms // 60_000 - WINDOWS[-1]
