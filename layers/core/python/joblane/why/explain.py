"""Explain why a job is where it is: a function from what is known to ordered reasons. Pure."""

from collections.abc import Callable, Iterator, Mapping

from joblane.formats.times import rfc3339
from joblane.job.lifecycle import ENDED, State
from joblane.why.ended import ended
from joblane.why.held import blocked, processing, waiting
from joblane.why.reason import Reason
from joblane.why.running import active
from joblane.why.situation import Situation
from joblane.why.waiting import pending, retry, scheduled
from joblane.why.words import clock, span

BY_STATE: Mapping[State, Callable[[Situation], Iterator[Reason]]] = {
    State.SCHEDULED: scheduled,
    State.WAITING: waiting,
    State.PENDING: pending,
    State.ACTIVE: active,
    State.RETRY: retry,
    State.BLOCKED: blocked,
    State.PROCESSING: processing,
    **dict.fromkeys(ENDED, ended),
}
"""Every state has its function."""


def explain(situation: Situation) -> tuple[Reason, ...]:
    """The reasons of a job, the one that decides first; at least one."""
    found = tuple(BY_STATE[situation.head.state](situation))
    return found or (_unexplained(situation),)


def _unexplained(s: Situation) -> Reason:
    """What the job itself says, if nothing else is known."""
    return Reason("recorded", s.head.reason, {"since_at": rfc3339(s.head.timeline[-1].at_ms)})


def summary(situation: Situation, reasons: tuple[Reason, ...]) -> str:
    """The job's state, since when, and the reason that decides: one sentence."""
    head, first = situation.head, reasons[0]
    if head.ended:
        return first.text
    since_ms = head.timeline[-1].began_ms
    seconds = (situation.now_ms - since_ms) / 1000
    return f"{head.state} for {span(seconds)}, since {clock(since_ms)}: {first.text}"
