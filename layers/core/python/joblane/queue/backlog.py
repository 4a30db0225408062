"""Jobs of a tenant that wait or run, and their items, by queue and by job type.

Counted from changes of jobs, as jobs by state are (`joblane.queue.state_counts`). A job that is
edited or moved into another queue leaves the figures of its old one, though its state stays.
"""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field

from joblane.queue.activity import Change
from joblane.state.lifecycle import NOT_RUNNING, State


@dataclass(frozen=True, slots=True)
class Load:
    """Numbers of jobs and of their work items, or how some changes alter them."""

    waiting: int = 0
    """Jobs that neither run nor have ended: scheduled, waiting, pending, retry or blocked."""
    waiting_items: int = 0
    running: int = 0
    running_items: int = 0

    def plus(self, other: "Load") -> "Load":
        """Add other numbers."""
        return Load(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def none_below_zero(self) -> "Load":
        """Correct numbers of jobs that cannot be; no job has no items."""
        waiting, running = max(0, self.waiting), max(0, self.running)
        return Load(
            waiting,
            max(0, self.waiting_items) if waiting else 0,
            running,
            max(0, self.running_items) if running else 0,
        )


NOTHING = Load()


@dataclass(frozen=True, slots=True)
class Backlog:
    """The load of each queue and of each job type of a tenant."""

    by_key: Mapping[str, Load] = field(default_factory=dict)
    """By `_key` of a name: a digest, since every batch stores those that it changes, in an item
    that holds all batches of a minute, and a tenant may have 200 types with long names."""

    def queue(self, name: str) -> Load:
        """Return the load of a queue."""
        return self.by_key.get(_key("q", name), NOTHING)

    def type(self, name: str) -> Load:
        """Return the load of a job type; that of `command` is jobs without a type."""
        return self.by_key.get(_key("t", name), NOTHING)

    def plus(self, other: "Backlog") -> "Backlog":
        """Add another backlog."""
        keys = {**self.by_key, **other.by_key}
        return Backlog(
            {
                key: self.by_key.get(key, NOTHING).plus(other.by_key.get(key, NOTHING))
                for key in keys
            }
        )

    def none_below_zero(self) -> "Backlog":
        """Correct numbers that cannot be, as `joblane.queue.usage.Figures` does."""
        corrected = {key: load.none_below_zero() for key, load in self.by_key.items()}
        return Backlog({key: load for key, load in corrected.items() if load != NOTHING})

    def encode(self) -> str:
        """Encode for the table: `qN3f_8Z:1,1 tuV3kd1:-1,-1,1,1`; zeros at the end are left out."""
        return " ".join(
            f"{key}:{','.join(map(str, astuple(load))).removesuffix(',0,0')}"
            for key, load in sorted(self.by_key.items())
            if load != NOTHING
        )

    @classmethod
    def decode(cls, text: str) -> "Backlog":
        """Inverse of `encode`."""
        entries = (entry.split(":") for entry in text.split())
        return cls({key: Load(*map(int, numbers.split(","))) for key, numbers in entries})


def fold_backlog(changes: Iterable[Change]) -> dict[tuple[str, int], tuple[int, Backlog]]:
    """Count a batch by tenant and minute: the sequence number of the first change, and the backlog.

    As `joblane.queue.state_counts.fold_states`, also of a batch that changes nothing in the end.
    """
    found: dict[tuple[str, int], tuple[int, dict[str, Load]]] = {}
    for change in changes:
        before = _load(change.before, -1, change.items)
        after = _load(change.after, 1, change.items)
        old = change.queue if change.moved_from is None else change.moved_from
        if old == change.queue and before.plus(after) == NOTHING:
            continue
        _, loads = found.setdefault((change.tenant, change.minute), (change.sequence, {}))
        for kind, name, load in (
            ("q", old, before),
            ("q", change.queue, after),
            ("t", change.type, before.plus(after)),
        ):
            key = _key(kind, name)
            loads[key] = loads.get(key, NOTHING).plus(load)
    return {place: (sequence, Backlog(loads)) for place, (sequence, loads) in found.items()}


def _load(state: State | None, sign: int, items: int) -> Load:
    """What a job in a state counts as; `sign` is -1 for one that leaves it."""
    if state in NOT_RUNNING:
        return Load(sign, sign * items, 0, 0)
    return Load(0, 0, sign, sign * items) if state is State.ACTIVE else NOTHING


def _key(kind: str, name: str) -> str:
    """Of 300 names, two have one key in less than one of a million deployments (36 bits)."""
    return kind + urlsafe_b64encode(hashlib.sha256(name.encode()).digest())[:6].decode()
