"""Jobs of a tenant that wait or run, and their items, by queue and by job type.

Counted from changes of jobs, as jobs by state are (`joblane.queue.state_counts`). A job that is
edited or moved into another queue leaves the figures of its old one, though its state stays.

So is, by queue and type, when those were submitted that could have started.
"""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from typing import Final

from joblane.queue.activity import Change
from joblane.queue.submitted import Submitted, count_submitted, grown_spans
from joblane.state.lifecycle import NOT_RUNNING, State

DUE: Final = NOT_RUNNING - {State.SCHEDULED}
"""States of jobs of which the oldest is shown: how long a job waits for its `run_at` is its
submitter's choice."""


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
_NONE = Submitted()


@dataclass(frozen=True, slots=True)
class Backlog:
    """The load of each queue and of each job type of a tenant."""

    by_key: Mapping[str, Load] = field(default_factory=dict)
    """By `_key` of a name: a digest, since every batch stores those that it changes, in an item
    that holds all batches of a minute, and a tenant may have 200 types with long names."""
    due: Mapping[str, Submitted] = field(default_factory=dict)
    """When jobs in one of the states `DUE` were submitted, by the same keys. Members of groups are
    left out: lists have their group."""

    def queue(self, name: str) -> Load:
        """Return the load of a queue."""
        return self.by_key.get(_key("q", name), NOTHING)

    def type(self, name: str) -> Load:
        """Return the load of a job type; that of `command` is jobs without a type."""
        return self.by_key.get(_key("t", name), NOTHING)

    def due_in_queue(self, name: str) -> Submitted:
        """Return when the jobs of a queue were submitted that are `DUE`."""
        return self.due.get(_key("q", name), _NONE)

    def due_of_type(self, name: str) -> Submitted:
        """Return the same for a job type, as `type`."""
        return self.due.get(_key("t", name), _NONE)

    def plus(self, other: "Backlog") -> "Backlog":
        """Add another backlog."""
        loads, due = dict(self.by_key), dict(self.due)
        for key, load in other.by_key.items():
            loads[key] = loads.get(key, NOTHING).plus(load)
        for key, submitted in other.due.items():
            due[key] = due.get(key, _NONE).plus(submitted)
        return Backlog(loads, due)

    def plus_minute(self, minute: int, other: "Backlog") -> "Backlog":
        """Add the changes of a later minute, and add all up by its spans.

        Also what they do not change: of a job that left a span and one that came into it, nothing
        is in the changes.
        """
        total = self.plus(other)
        grown = grown_spans({span for each in total.due.values() for span in each.by_span}, minute)
        if not grown:
            return total
        return Backlog(total.by_key, {key: due.within(grown) for key, due in total.due.items()})

    def none_below_zero(self) -> "Backlog":
        """Correct numbers that cannot be, as `joblane.queue.usage.Figures` does.

        Where no job waits, none is due.
        """
        loads = {key: load.none_below_zero() for key, load in self.by_key.items()}
        due = {
            key: submitted.none_below_zero()
            for key, submitted in self.due.items()
            if loads.get(key, NOTHING).waiting
        }
        return Backlog(
            {key: load for key, load in loads.items() if load != NOTHING},
            {key: submitted for key, submitted in due.items() if submitted != _NONE},
        )

    def encode(self) -> str:
        """Encode for the table: `qN3f_8Z:1,1:huvk6A1 tuV3kd1:-1,-1,1,1`.

        Zeros at the end are left out, and after them jobs that are due if there are none.
        """
        found = list[str]()
        for key in sorted({*self.by_key, *self.due}):
            load = self.by_key.get(key, NOTHING)
            due = self.due.get(key, _NONE).encode()
            if due or load != NOTHING:
                numbers = ",".join(map(str, astuple(load))).removesuffix(",0,0")
                found.append(f"{key}:{numbers}:{due}".removesuffix(":"))
        return " ".join(found)

    @classmethod
    def decode(cls, text: str) -> "Backlog":
        """Inverse of `encode`."""
        loads: dict[str, Load] = {}
        due: dict[str, Submitted] = {}
        for entry in text.split():
            key, numbers, *submitted = entry.split(":")
            if (load := Load(*map(int, numbers.split(",")))) != NOTHING:
                loads[key] = load
            if submitted:
                due[key] = Submitted.decode(submitted[0])
        return cls(loads, due)


def fold_backlog(changes: Iterable[Change]) -> dict[tuple[str, int], tuple[int, Backlog]]:
    """Count a batch by tenant and minute: the sequence number of the first change, and the backlog.

    As `joblane.queue.state_counts.fold_states`, also of a batch that changes nothing in the end.
    """
    found: dict[tuple[str, int], tuple[int, Backlog]] = {}
    for change in changes:
        if (one := _backlog_of(change)) is not None:
            place = (change.tenant, change.minute)
            sequence, before = found.get(place, (change.sequence, Backlog()))
            found[place] = (sequence, before.plus(one))
    return found


def _backlog_of(change: Change) -> Backlog | None:
    """What one change adds; None for nothing."""
    before = _load(change.before, -1, change.items)
    after = _load(change.after, 1, change.items)
    was_due, is_due = (change.listed and each in DUE for each in (change.before, change.after))
    old = change.queue if change.moved_from is None else change.moved_from
    if old == change.queue and before.plus(after) == NOTHING and was_due is is_due:
        return None
    loads: dict[str, Load] = {}
    due: dict[str, Submitted] = {}
    for kind, name, load, number in (
        ("q", old, before, -was_due),
        ("q", change.queue, after, +is_due),
        ("t", change.type, before.plus(after), is_due - was_due),
    ):
        key = _key(kind, name)
        loads[key] = loads.get(key, NOTHING).plus(load)
        submitted = count_submitted([(change.submitted, number)], change.minute)
        due[key] = due.get(key, _NONE).plus(submitted)
    return Backlog(loads, due)


def _load(state: State | None, sign: int, items: int) -> Load:
    """What a job in a state counts as; `sign` is -1 for one that leaves it."""
    if state in NOT_RUNNING:
        return Load(sign, sign * items, 0, 0)
    return Load(0, 0, sign, sign * items) if state is State.ACTIVE else NOTHING


def _key(kind: str, name: str) -> str:
    """Of 300 names, two have one key in less than one of a million deployments (36 bits)."""
    return kind + urlsafe_b64encode(hashlib.sha256(name.encode()).digest())[:6].decode()
