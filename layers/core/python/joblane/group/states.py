"""The state of a group, computed from the states of its members. Pure.

`STATES` is the only list of rules: functions, command line, tests and docs/reference/states.md use
it.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from joblane.state.lifecycle import Event, State

Tally = Mapping[State, int]
"""How many members ended in each state."""


class SeenMemberStates(NamedTuple):
    """What the members of a group are, as far as its state depends on it."""

    open: bool
    """Some have not ended."""
    completed: bool
    """Some are completed."""
    other: bool
    """Some ended in another state: failed, cancelled. Skipped ones do not count."""


STATES: Mapping[SeenMemberStates, State] = {
    SeenMemberStates(open=True, completed=False, other=False): State.PROCESSING,
    SeenMemberStates(open=True, completed=False, other=True): State.PROCESSING,
    SeenMemberStates(open=True, completed=True, other=False): State.PROCESSING,
    SeenMemberStates(open=True, completed=True, other=True): State.PROCESSING,
    SeenMemberStates(open=False, completed=False, other=False): State.SKIPPED,
    SeenMemberStates(open=False, completed=True, other=False): State.COMPLETED,
    SeenMemberStates(open=False, completed=False, other=True): State.FAILED,
    SeenMemberStates(open=False, completed=True, other=True): State.PARTIAL_FAILURE,
}
"""The state of a group, for every possible combination."""

SETTLES: Mapping[State, Event] = {
    State.COMPLETED: Event.ALL_COMPLETED,
    State.FAILED: Event.NONE_COMPLETED,
    State.PARTIAL_FAILURE: Event.SOME_COMPLETED,
    State.SKIPPED: Event.ALL_SKIPPED,
}
"""The event that ends a group in each state; one without members is skipped from the start."""

GROUP_STATES: frozenset[State] = frozenset(STATES.values())


FAILURES: frozenset[State] = frozenset({State.FAILED, State.DEAD, State.EXPIRED, State.STALE})
"""States of members that failed, as `max_failures` and `tolerate` count them. A member that
somebody cancelled did not fail."""


def failures(ended: Tally) -> int:
    """How many members failed."""
    return sum(count for state, count in ended.items() if state in FAILURES)


def state_of(ended: Tally, members: int, tolerate: int = 0) -> State:
    """The state of a group of so many members, of which those of `ended` have ended.

    If no more than `tolerate` failed, they count as completed.
    """
    total, failed = sum(ended.values()), failures(ended)
    completed = ended.get(State.COMPLETED, 0) + (failed if failed <= tolerate else 0)
    other = total - completed - ended.get(State.SKIPPED, 0)
    return STATES[SeenMemberStates(total < members, completed > 0, other > 0)]


def add_up(tallies: Iterable[Tally]) -> Tally:
    """The sum of tallies, in the order of the states."""
    found: dict[State, int] = {}
    for tally in tallies:
        for state, count in tally.items():
            found[state] = found.get(state, 0) + count
    return {state: found[state] for state in State if found.get(state)}


def sentence(ended: Tally, members: int, tolerate: int = 0) -> str:
    """What has become of the members, such as "48 of 50 completed; 1 failed, 1 cancelled".

    Ends with how many were to be `tolerated`, if some failed.
    """
    said = f"{ended.get(State.COMPLETED, 0)} of {members} completed"
    rest = [f"{count} {state}" for state, count in ended.items() if state != State.COMPLETED]
    if tolerate and failures(ended):
        rest.append(f"and {tolerate} may fail")
    return f"{said}; {', '.join(rest)}" if rest else said
