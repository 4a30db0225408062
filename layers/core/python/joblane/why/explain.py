"""Explain why a job is where it is: a function from what is known to ordered reasons. Pure."""

from collections.abc import Callable, Iterator, Mapping

from joblane.formats.text import span
from joblane.formats.times import rfc3339
from joblane.state.lifecycle import ENDED, State
from joblane.state.timeline import waits_since
from joblane.why.ended import explain_ended
from joblane.why.pending import explain_pending, explain_retry, explain_scheduled
from joblane.why.reason import Reason
from joblane.why.running import explain_active
from joblane.why.situation import Situation
from joblane.why.waiting import explain_blocked, explain_processing, explain_waiting
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
    """The reasons of a job, the one that decides first; at least one."""
    found = tuple(BY_STATE[situation.head.state](situation))
    return found or (_repeat_reason(situation),)


def _repeat_reason(s: Situation) -> Reason:
    """What the job itself says, if nothing else is known."""
    return Reason(
        "recorded", s.head.reason, {"since_at": rfc3339(waits_since(s.head.timeline).at_ms)}
    )


def summary(situation: Situation, reasons: tuple[Reason, ...]) -> str:
    """The job's state, since when, and the reason that decides: one sentence."""
    head, first = situation.head, reasons[0]
    if head.ended:
        return first.text
    since_ms = waits_since(head.timeline).began_ms
    seconds = (situation.now_ms - since_ms) / 1000
    return f"{head.state} for {span(seconds)}, since {clock(since_ms)}: {first.text}"
