"""Explain why a job is where it is: a function from what is known to ordered reasons. Pure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from joblane.formats.text import span
from joblane.formats.times import rfc3339
from joblane.state.lifecycle import ENDED, State
from joblane.state.timeline import waits_since
from joblane.why.ended import explain_ended
from joblane.why.members import (
    explain_not_begun,
    explain_processing,
    explain_retry_turn,
    name_member,
)
from joblane.why.pending import explain_pending, explain_retry, explain_scheduled
from joblane.why.reason import Reason
from joblane.why.running import explain_active
from joblane.why.situation import Situation
from joblane.why.waiting import explain_blocked, explain_waiting
from joblane.why.words import clock

BY_STATE: Mapping[State, Callable[[Situation], Iterator[Reason]]] = {
    State.SCHEDULED: explain_scheduled,
    State.WAITING: explain_waiting,
    State.PENDING: explain_pending,
    State.ACTIVE: explain_active,
    State.RETRY: explain_retry,
    State.BLOCKED: explain_blocked,
    State.PROCESSING: explain_processing,
    **dict.fromkeys(ENDED, explain_ended),
}
"""Every state has its function."""


def explain(situation: Situation) -> tuple[Reason, ...]:
    """The reasons of a job, the one that decides first; at least one.

    Of a group, behind its own first reason, those of the first of its members that waits.
    """
    found = (*explain_retry_turn(situation), *BY_STATE[situation.head.state](situation))
    if not found:
        return (_repeat_reason(situation),)
    return (found[0], *_explain_waiting_member(situation), *found[1:])


def explain_member(situation: Situation, number: int) -> tuple[Reason, ...]:
    """The reasons of a member of a group that has no row; the situation is that of the group.

    Behind its own reason come those of the group, if these may hold it up.
    """
    head, own = situation.head, explain_not_begun(situation, number)
    begins = not head.ended and (head.group is None or head.group.stop is None)
    return (own, *explain(situation)) if begins else (own,)


def _explain_waiting_member(s: Situation) -> Iterator[Reason]:
    if s.waiting is None:
        return
    name = name_member(s.waiting.head)
    for reason in explain(s.waiting):
        if reason.code != "deadline":  # which its group has as well
            yield replace(reason, text=f"{name}: {reason.text}")


def _repeat_reason(s: Situation) -> Reason:
    """What the job itself says, if nothing else is known."""
    return Reason(
        "recorded", s.head.reason, {"since_at": rfc3339(waits_since(s.head.timeline).at_ms)}
    )


def summary(situation: Situation, reasons: tuple[Reason, ...]) -> str:
    """The job's state, since when, and the reason that decides: one sentence."""
    head = situation.head
    return summary_of(head.state, situation, reasons)


def summary_of(state: State, situation: Situation, reasons: tuple[Reason, ...]) -> str:
    """As `summary`, of a member without a row, whose group's situation it is."""
    if state in ENDED:
        return reasons[0].text
    since_ms = waits_since(situation.head.timeline).began_ms
    seconds = (situation.now_ms - since_ms) / 1000
    return f"{state} for {span(seconds)}, since {clock(since_ms)}: {reasons[0].text}"
