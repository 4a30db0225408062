"""Members without a row: those that have not begun, and what they wait for. Pure."""

from typing import NamedTuple

from joblane.group.record import PAGE, Group
from joblane.state.lifecycle import State


class WithoutRow(NamedTuple):
    """How a member stands whose job has no row."""

    state: State | None
    """`waiting`, or as what it counts if it is not to begin any more; None if it has ended, and its
    row has expired."""
    reason: str
    """A sentence."""


def without_row(group: Group, number: int, max_concurrency: int | None) -> WithoutRow:
    """How a member stands whose job has no row."""
    if number >= group.begun and group.stop is not None:
        return WithoutRow(group.stop.state, f"not begun: {group.stop.why}")
    if number >= group.begun:
        return WithoutRow(State.WAITING, _wait_for_turn(group, number, max_concurrency))
    if number >= group.placed and number // PAGE not in group.done:
        to = "its lane" if group.array is not None else "its agent"
        return WithoutRow(State.WAITING, f"is being sent to {to}")
    return WithoutRow(None, "it has ended, and its row has expired")


def count_before(group: Group, number: int) -> int:
    """How many members begin, or are retried, before one that has not begun."""
    return len(group.again) + number - group.begun


def _wait_for_turn(group: Group, number: int, max_concurrency: int | None) -> str:
    if max_concurrency is None:
        return "is about to be placed"
    before = count_before(group, number)
    verb = "begins" if before == 1 else "begin"
    first = "it is the next one" if not before else f"{before} {verb} before it"
    said = f"waits for its turn: at most {max_concurrency} run at once (max_concurrency)"
    return f"{said}, and {first}"
