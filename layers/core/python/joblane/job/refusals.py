"""Texts of refused operations: from which states they are possible, and what to do instead.

Apart from `joblane.job.moves`, because only refusals need them.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from joblane.job.head import Head
from joblane.state.lifecycle import ENDED, OF_GROUPS, OPERATORS, TABLE, Event, State, name_done

_STARTS: Final[Mapping[State, str]] = {
    State.SCHEDULED: "it starts at its run_at",
    State.WAITING: "it starts when its key has a free slot",
    State.PENDING: "it starts when an agent has a free slot",
    State.RETRY: "its next attempt follows by itself",
    State.BLOCKED: "it starts again when its condition holds",
    State.ACTIVE: "wait for its end, or cancel it and then resubmit it",
}
"""Why a job that has not ended need not be started again."""


def refusal(head: Head, event: Event) -> str:
    """Why a job's state does not allow an event, from which states it is possible, what to do."""
    if event not in (OPERATORS - OF_GROUPS) | {Event.CANCEL}:  # nobody asks for it
        return f"a job that is {head.state} cannot be {name_done(event)}"
    allowed = (state for state, by in TABLE if by is event)
    return _text(head, name_done(event), allowed, _instead(head, event))


def not_ended(head: Head, verb: str) -> str:
    """Why what needs an ended job is refused; `verb` is "hidden", "resubmitted"."""
    instead = "cancel it first, or wait for its end"
    return _text(head, verb, ENDED - {State.PARTIAL_FAILURE}, instead)


def running(head: Head) -> str:
    """Why a running job is not deleted."""
    return f"a job that is {head.state} cannot be deleted; cancel it first"


def _text(head: Head, verb: str, allowed: Iterable[State], instead: str) -> str:
    states = frozenset(allowed)
    *first, last = (state.value for state in State if state in states)
    only = f"{', '.join(first)} or {last}" if first else last
    return f"a job that is {head.state} cannot be {verb}, only one that is {only}; {instead}"


def _instead(head: Head, event: Event) -> str:
    possible = {by for source, by in TABLE if source is head.state}
    again = "retry it" if Event.RETRY in possible else _resubmit(head)
    match event:
        case Event.CANCEL:
            return "it has ended"
        case Event.DISMISS:
            return "cancel it" if Event.CANCEL in possible else f"hide it, or {again}"
        case _:
            return _STARTS.get(head.state, f"{again} instead")


def _resubmit(head: Head) -> str:
    if head.member_of is None:
        return "resubmit it"
    return f"resubmit its group, {head.member_of.group_id},"
