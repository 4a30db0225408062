"""Jobs of a tenant by state, counted from changes of jobs."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from joblane.queue.activity import Change
from joblane.state.lifecycle import State

LETTERS: Final[Mapping[State, str]] = {
    State.SCHEDULED: "s",
    State.WAITING: "w",
    State.PENDING: "p",
    State.ACTIVE: "a",
    State.RETRY: "r",
    State.BLOCKED: "b",
    State.COMPLETED: "c",
    State.FAILED: "f",
    State.DEAD: "d",
    State.CANCELLED: "x",
    State.EXPIRED: "e",
    State.SKIPPED: "k",
    State.STALE: "l",
    State.DISMISSED: "i",
    State.PROCESSING: "g",
    State.PARTIAL_FAILURE: "h",
}
"""The letter of each state in the table. Counts of every batch are stored for hours and read with
every later one, so they are short; they are stored, so a letter never changes."""

MEMBERS_ACTIVE: Final = "m"
"""The letter of members of groups that run: no list has them, and the limit jobs_running does."""

_ENTRY = re.compile(r"([a-z])(-?[0-9]+)")


@dataclass(frozen=True, slots=True)
class StateCounts:
    """Number of jobs in each state, or how some changes alter it.

    Members of groups are left out, as lists leave them out, but for those that run.
    """

    by_letter: Mapping[str, int] = field(default_factory=dict)
    """By the letter of the state; letters that LETTERS lacks are kept."""

    def plus(self, other: "StateCounts") -> "StateCounts":
        """Add other counts."""
        letters = {**self.by_letter, **other.by_letter}
        return StateCounts(
            {each: self.by_letter.get(each, 0) + other.by_letter.get(each, 0) for each in letters}
        )

    def none_below_zero(self) -> "StateCounts":
        """Correct numbers of jobs that cannot be, as `joblane.queue.usage.Figures` does."""
        return StateCounts({letter: n for letter, n in self.by_letter.items() if n > 0})

    def by_state(self) -> dict[State, int]:
        """Return the number of jobs in each state that has one."""
        found = {state: self.by_letter.get(letter, 0) for state, letter in LETTERS.items()}
        return {state: number for state, number in found.items() if number > 0}

    @property
    def running(self) -> int:
        """Number of jobs that run, with members of groups."""
        return sum(self.by_letter.get(each, 0) for each in (LETTERS[State.ACTIVE], MEMBERS_ACTIVE))

    def encode(self) -> str:
        """Encode for the table: `p-3a3`."""
        return "".join(f"{letter}{n}" for letter, n in sorted(self.by_letter.items()) if n)

    @classmethod
    def decode(cls, text: str) -> "StateCounts":
        """Inverse of `encode`."""
        return cls({letter: int(number) for letter, number in _ENTRY.findall(text)})


def fold_states(changes: Iterable[Change]) -> dict[tuple[str, int], tuple[int, StateCounts]]:
    """Count a batch by tenant and minute: the sequence number of the first change, and the counts.

    A batch that changes nothing in the end has counts as well: they replace those of an earlier
    delivery that was shorter.
    """
    found: dict[tuple[str, int], tuple[int, dict[str, int]]] = {}
    for change in changes:
        if change.before is change.after:
            continue
        _, letters = found.setdefault((change.tenant, change.minute), (change.sequence, {}))
        for state, number in ((change.before, -1), (change.after, 1)):
            letter = _letter(state, listed=change.listed)
            if letter is not None:
                letters[letter] = letters.get(letter, 0) + number
    return {place: (sequence, StateCounts(letters)) for place, (sequence, letters) in found.items()}


def _letter(state: State | None, *, listed: bool) -> str | None:
    """What a job in a state counts as; None for nothing."""
    if state is None:
        return None
    if not listed:
        return MEMBERS_ACTIVE if state is State.ACTIVE else None
    return LETTERS[state]
