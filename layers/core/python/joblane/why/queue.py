"""What holds up a job of a queue: gone or retired in joblane.toml, paused, fleets too small."""

from collections.abc import Iterator

from joblane.formats.times import rfc3339
from joblane.job.offers import offers
from joblane.job.wanted import read_wanted
from joblane.queue.gone import ways_out
from joblane.queue.maxima import excess
from joblane.queue.moves import may_move
from joblane.queue.settings import READ_EVERY_S
from joblane.state.lifecycle import State
from joblane.why.agents import (
    elsewhere,
)
from joblane.why.edits import within_fleets
from joblane.why.reason import Reason
from joblane.why.situation import Queue, Situation
from joblane.why.words import at


def is_gone(s: Situation) -> bool:
    """Whether the job needs a lane to start, and its queue has none any more."""
    return s.queue is not None and s.queue.gone and s.head.assigned is None


def explain_gone(s: Situation) -> Iterator[Reason]:
    """The queue that joblane.toml has no more."""
    if not is_gone(s):
        return
    name = s.head.queue
    then = {
        State.WAITING: "when it gets its slot, no agent gets it",
        State.BLOCKED: "when its condition lets it go, no agent gets it",
        State.SCHEDULED: "when its run_at has come, no agent gets it",
    }.get(s.head.state, "no agent gets it")
    yield Reason(
        "queue_gone",
        f"queue {name} is gone, joblane.toml has it no more: {then} until it is moved to another "
        f"queue, or the queue is back and its messages are sent again (joblane requeue {name})",
        {"queue": name},
        ways_out(s.head, s.now_ms),
    )


def explain_retired(s: Situation) -> Iterator[Reason]:
    """The queue whose waiting jobs move to another one."""
    queue, name, in_array = s.queue, s.head.queue, s.head.in_array is not None
    if queue is None or queue.moves_to is None or not (may_move(s.head) or in_array):
        return
    to, due_ms = queue.moves_to, queue.next_move_ms
    text = f"queue {name} is retired, and its jobs move to queue {to}"
    if in_array:
        text += ", except members of groups: it stays and runs where it is"
    elif queue.misfit is not None:
        text += f", which does not take this one: {queue.misfit}; it stays and runs where it is"
    elif due_ms is not None and due_ms > s.now_ms:
        text += "; if it has not started before, it moves when all are looked at again, from "
        text += at(due_ms, s.now_ms)
    else:
        text += "; it moves within minutes, unless it starts before"
    yield Reason(
        "queue_retired",
        text,
        {
            "queue": name,
            "moves_to": to,
            "misfit": queue.misfit,
            "next_at": None if due_ms is None else rfc3339(due_ms),
        },
        () if queue.misfit is None or in_array else ways_out(s.head, s.now_ms),
    )


def explain_queue_hold(s: Situation) -> Iterator[Reason]:
    """A pause of the queue, and what no fleet of it gives."""
    if s.queue is None or is_gone(s):
        return
    settings, name = s.queue.settings, s.head.queue
    if not settings.run_jobs:
        since = "" if settings.changed_ms is None else f" since {at(settings.changed_ms, s.now_ms)}"
        by = f" by {settings.changed_by}" if settings.changed_by else ""
        who = "an operator" if s.queue.may_change else "the role platform"
        new = read_by_ms(s) > s.now_ms
        soon = f"; agents read that within {READ_EVERY_S} s" if new else ""
        yield Reason(
            "paused",
            f"queue {name} is paused{since}{by}: no agent starts its jobs until {who} resumes it"
            f"{soon}",
            {
                "queue": name,
                "since_at": None if settings.changed_ms is None else rfc3339(settings.changed_ms),
                "changed_by": settings.changed_by or None,
                "may_change": s.queue.may_change,
            },
            (f"joblane queues resume {name}",),
        )
    if s.head.assigned is None:
        yield from _too_large(s, s.queue)


def _too_large(s: Situation, queue: Queue) -> Iterator[Reason]:
    resources = s.head.spec.resources
    if (found := excess(resources, queue.maxima)) is None:
        return
    field, most = found
    asked, may = read_wanted(resources, field), offers(s.head, s.now_ms)
    todo = "edit it" if "edit" in may else "cancel it, and submit it"
    cancel = (f"joblane cancel {s.head.job_id}",) if "cancel" in may else ()
    yield Reason(
        "too_large",
        f"no fleet of queue {s.head.queue} gives a job more than {most:g} of {field}, and it asks "
        f"for {asked:g}: {todo} with less or to another queue",
        {"queue": s.head.queue, "field": field, "asked": asked, "most": most},
        (*within_fleets(s), *elsewhere(s), *cancel),
    )


def explain_change(s: Situation, then: str) -> Reason | None:
    """The settings of the queue, if agents may not have read them yet."""
    if s.queue is None or read_by_ms(s) <= s.now_ms:
        return None
    settings, name = s.queue.settings, s.head.queue
    changed_ms = settings.changed_ms or s.now_ms
    by = f" by {settings.changed_by}" if settings.changed_by else ""
    return Reason(
        "settings_changed",
        f"queue {name} was resumed or given other limits at {at(changed_ms, s.now_ms)}{by}; agents "
        f"read that within {READ_EVERY_S} s: {then}",
        {
            "queue": name,
            "changed_at": rfc3339(changed_ms),
            "changed_by": settings.changed_by or None,
            "read_by_at": rfc3339(read_by_ms(s)),
        },
    )


def read_by_ms(s: Situation) -> int:
    """When agents have read the settings of the queue as they are; 0 if nobody changed them."""
    changed_ms = None if s.queue is None else s.queue.settings.changed_ms
    return 0 if changed_ms is None else changed_ms + READ_EVERY_S * 1000
