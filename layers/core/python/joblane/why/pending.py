"""Why a job does not start: those that a lane or an inbox holds, and those that wait for a time."""

from collections.abc import Iterator

from joblane.deployment.names import LANES
from joblane.formats.text import some, span
from joblane.formats.times import rfc3339
from joblane.job.assigned import overdue, why_silent
from joblane.job.offers import offers
from joblane.job.wanted import read_wanted
from joblane.queue.maxima import excess
from joblane.queue.settings import READ_EVERY_S
from joblane.state.lifecycle import State
from joblane.why import fleets
from joblane.why.agents import (
    LIST_AGENTS,
    Readiness,
    elsewhere,
    is_silent,
    readiness,
    takes_none,
)
from joblane.why.edits import in_first_lane, within_fleets, without_deadline
from joblane.why.queue import explain_gone, explain_retired, is_gone
from joblane.why.reason import Fact, Reason
from joblane.why.situation import Queue, Situation
from joblane.why.words import at, clock, without_ids

SOON_S = 60
"""A job that could start and has waited for longer should have started: messages are delivered
within seconds."""

RECEIVED_S = 10
"""An agent that receives a message starts its job, or writes why it does not, within seconds."""

LATE_MS = 120_000
"""The requeue function runs every minute and needs some seconds: after this it is late."""


def explain_pending(s: Situation) -> Iterator[Reason]:
    """Reasons of a job whose message is in its lane, or in the inbox of its agent."""
    yield from explain_passed_deadline(s)
    if is_gone(s):
        yield from explain_gone(s)
    else:
        yield from explain_queue_hold(s)
        yield from _for_agents(s)
        yield from explain_retired(s)
    yield from last_attempt(s)
    yield from explain_deadline(s)


def explain_retry(s: Situation) -> Iterator[Reason]:
    """Reasons of a job between two attempts."""
    head = s.head
    if head.next_at_ms is None or head.next_at_ms <= s.now_ms:
        yield from explain_pending(s)
        return
    yield from explain_passed_deadline(s)
    most = head.spec.retry.max_attempts
    yield Reason(
        "backoff",
        f"attempt {head.attempt} of {most} failed, and the next one starts at "
        f"{at(head.next_at_ms, s.now_ms)}",
        {
            "next_at": rfc3339(head.next_at_ms),
            "wait_s": (head.next_at_ms - s.now_ms) / 1000,
            "attempt": head.attempt,
            "max_attempts": most,
        },
    )
    yield from last_attempt(s)
    yield from explain_gone(s)
    yield from explain_queue_hold(s)
    yield from explain_retired(s)
    yield from explain_deadline(s)


def explain_scheduled(s: Situation) -> Iterator[Reason]:
    """Reasons of a job whose `run_at` has not come."""
    yield from explain_passed_deadline(s)
    due_ms = s.head.next_at_ms
    if due_ms is not None:
        if due_ms + LATE_MS <= s.now_ms:
            yield requeue_late(s, due_ms, "its run_at came")
        else:
            then = "enters its lane" if s.head.spec.target is None else "is sent to its agents"
            if s.head.spec.array is not None:
                then = "begins"
            yield Reason(
                "run_at",
                f"its run_at is {at(due_ms, s.now_ms)}; it {then} within a minute after that",
                {"run_at": rfc3339(due_ms), "wait_s": max(0, (due_ms - s.now_ms) / 1000)},
            )
    yield from explain_gone(s)
    yield from explain_queue_hold(s)
    yield from explain_retired(s)
    yield from explain_deadline(s)


def explain_passed_deadline(s: Situation) -> Iterator[Reason]:
    """The deadline of a job that has not started, if it has passed: nothing else matters then."""
    due_ms = s.head.deadline_ms
    if due_ms is None or due_ms > s.now_ms:
        return
    if due_ms + LATE_MS <= s.now_ms:
        yield requeue_late(s, due_ms, "its deadline passed")
    else:
        yield Reason(
            "deadline",
            f"its deadline passed at {at(due_ms, s.now_ms)}: it expires within a minute",
            _deadline(due_ms, s.now_ms),
            without_deadline(s),
        )


def explain_deadline(s: Situation) -> Iterator[Reason]:
    """The deadline that is still to come."""
    due_ms = s.head.deadline_ms
    if due_ms is not None and due_ms > s.now_ms:
        yield Reason(
            "deadline",
            f"it expires if it has not started by its deadline, {at(due_ms, s.now_ms)}",
            _deadline(due_ms, s.now_ms),
            without_deadline(s),
        )


def explain_expiry(s: Situation) -> Iterator[Reason]:
    """The deadline of a job that runs."""
    due_ms = s.head.deadline_ms
    if due_ms is not None:
        yield Reason(
            "deadline",
            f"it is stopped at its deadline, {at(due_ms, s.now_ms)}",
            _deadline(due_ms, s.now_ms),
        )


def _deadline(due_ms: int, now_ms: int) -> dict[str, Fact]:
    return {"deadline": rfc3339(due_ms), "left_s": (due_ms - now_ms) / 1000}


def requeue_late(s: Situation, due_ms: int, what: str) -> Reason:
    """The requeue function should have done something by now."""
    return Reason(
        "requeue_late",
        f"{what} at {at(due_ms, s.now_ms)}, and the requeue function, which runs every minute, has "
        "not moved the job: see the function's alarm and log",
        {"due_at": rfc3339(due_ms), "late_s": (s.now_ms - due_ms) / 1000},
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
        new = _read_by_ms(s) > s.now_ms
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


def _for_agents(s: Situation) -> Iterator[Reason]:
    if s.head.assigned is not None:
        yield from _for_one(s)
        return
    if s.agents is None or s.queue is None:
        return
    able = readiness(s, s.queue, s.agents)
    if any(explain_queue_hold(s)):
        yield from able.reasons
        yield from note(s)
        yield from _ahead(s, able)
        return
    if not able.free:
        yield from _without_slot(s, able)
        yield from note(s)
        yield from _ahead(s, able)
        return
    if (changed := _just_changed(s, f"{_free(able)}, so it should start then")) is not None:
        yield changed
    yield from note(s)
    yield from _ahead(s, able)
    if changed is None:
        yield from _could_start(s, able)
    yield from able.reasons


def _without_slot(s: Situation, able: Readiness) -> Iterator[Reason]:
    """Why no agent has a slot for it, and why its fleets start none.

    Without any agent the fleets decide; else a job that ends may be sooner. Limits of all agents
    together hold with more agents, too.
    """
    found = {reason.code for reason in able.reasons}
    if found & {"cluster_limit", "running_limit"}:
        yield from able.reasons
        return
    why = fleets.of_queue(s)
    if "no_agents" in found and s.fleets:
        yield from why
        yield from able.reasons
    else:
        yield from able.reasons
        yield from why
    yield from fleets.unread(s)


def note(s: Situation) -> Iterator[Reason]:
    """What an agent that had the message wrote into the job."""
    if s.head.waits_for is not None:
        text = without_ids(s.head.waits_for)
        yield Reason(
            "agent_note",
            f"an agent that had its message wrote: {text}; that was true then, and the note has "
            "no time",
            {"note": text},
        )


def _ahead(s: Situation, able: Readiness) -> Iterator[Reason]:
    """How busy the lane is; nothing if no other message is visible."""
    if s.lanes is None:
        return
    lane, queue = s.head.lane, s.head.queue
    own = s.lanes[lane].visible
    higher = sum(s.lanes[name].visible for name in LANES[: LANES.index(lane)] if name in s.lanes)
    if own <= 1 and not higher:
        return
    parts = [f"about {some(own, 'message')} in lane {lane} of queue {queue}"]
    if higher:
        parts.append(f"about {higher} in the lanes that agents serve before it")
    yield Reason(
        "jobs_ahead",
        f"{' and '.join(parts)} wait, of all tenants (an estimate of SQS); tenants go in turn, and "
        "the order is not strict, so how many start before this one is not known",
        {
            "queue": queue,
            "lane": lane,
            "in_lane": own,
            "in_higher_lanes": higher,
            "free": able.free,
        },
        (f"joblane queues show {queue}", *in_first_lane(s)),
    )


def _could_start(s: Situation, able: Readiness) -> Iterator[Reason]:
    """The job could start: it is about to, or its message does not come."""
    head = s.head
    waits_s = _waits_s(s)
    own = None if s.lanes is None else s.lanes.get(head.lane)
    where = _free(able)
    if any(True for _ in note(s)):
        return  # that explains it
    if waits_s < SOON_S:
        soon = "it should start within seconds"
        if waits_s >= RECEIVED_S and own is not None and not own.visible and own.in_flight:
            soon = (
                "no message is visible in its lane (an estimate), so an agent has received its "
                "message; if that agent has ended, the message comes back within 2 min of that"
            )
        yield Reason(
            "about_to_start",
            f"{where}, as of the last heartbeats: {soon}",
            {"queue": head.queue, "free": able.free, "waits_s": waits_s, **able.facts},
        )
        return
    if own is None:
        seen = "its message may be lost"
    elif own.visible or own.in_flight:
        seen = (
            f"about {own.visible} messages are visible in its lane and {own.in_flight} in flight. "
            "An agent may have given its message back, which hides it for up to 15 min, have ended "
            "with it, which hides it for 2 min, or have too little free memory to fetch any"
        )
    else:
        seen = "SQS shows no message in its lane (an estimate), so its message may be lost"
    yield Reason(
        "message_lost_hint",
        f"nothing that can be seen here holds it up: {where}, and it has waited for "
        f"{span(waits_s)}; {seen}: send messages again, which is safe at any time",
        {
            "queue": head.queue,
            "free": able.free,
            "waits_s": waits_s,
            "in_lane": None if own is None else own.visible,
            "in_flight": None if own is None else own.in_flight,
            **able.facts,
        },
        (f"joblane requeue {head.queue}",),
    )


def _free(able: Readiness) -> str:
    free = f"agents have {some(able.free, 'slot')} free"
    if not able.uncounted:
        return free
    return (
        f"{free}, unless a limit of the queue or of the tenant stops "
        f"{some(able.uncounted, 'agent')} whose jobs were too many to count"
    )


def _for_one(s: Situation) -> Iterator[Reason]:
    """Reasons of a job that only one agent may run."""
    head, row, now_ms = s.head, s.agent, s.now_ms
    late = overdue(head, now_ms)
    how = without_ids(why_silent(row, now_ms))
    facts: dict[str, Fact] = {
        "agent": head.assigned,
        "alive": row is not None and row.alive(now_ms),
        "mode": None if row is None else row.mode,
        "trouble": None if row is None or row.trouble is None else without_ids(row.trouble),
        "running": None if row is None else row.running,
        "slots": None if row is None else row.threads,
        "last_seen_at": None if row is None or not row.beat_ms else rfc3339(row.beat_ms),
        "reply_by_at": None if head.reply_by_ms is None else rfc3339(head.reply_by_ms),
    }
    if late is not None:
        first, _, rest = late.partition(";")
        yield Reason("assigned_agent", f"{first}: {how};{rest}", facts)
        return
    text = f"only agent {head.assigned} may run it: {how}"
    if head.reply_by_ms is not None:
        text += f"; it fails unless it has started by {at(head.reply_by_ms, now_ms)}"
    look = LIST_AGENTS if row is None else f"joblane agents get {head.assigned}"
    yield Reason("assigned_agent", text, facts, (look,))
    yield from note(s)
    if row is None or is_silent(row, now_ms) or row.mode is not None or takes_none(row):
        return
    waits_s = _waits_s(s)
    free = row.threads - row.running
    held = any(explain_queue_hold(s))
    if not held and (changed := _just_changed(s, "it should start then")) is not None:
        yield changed
    if free > 0 and waits_s >= SOON_S and head.waits_for is None and not held:
        yield Reason(
            "message_lost_hint",
            f"it has waited for {span(waits_s)} although its agent has {some(free, 'slot')} free: "
            "its message may be lost; send messages again, which is safe at any time",
            {"queue": head.queue, "free": free, "waits_s": waits_s},
            (f"joblane requeue {head.queue}",),
        )


def _waits_s(s: Situation) -> float:
    """Seconds for which the job could have started, if nothing held it up."""
    since_ms = max(s.head.timeline[-1].at_ms, s.head.next_at_ms or 0, _read_by_ms(s))
    return max(0.0, (s.now_ms - since_ms) / 1000)


def _read_by_ms(s: Situation) -> int:
    """When agents have read the settings of the queue as they are; 0 if nobody changed them."""
    changed_ms = None if s.queue is None else s.queue.settings.changed_ms
    return 0 if changed_ms is None else changed_ms + READ_EVERY_S * 1000


def _just_changed(s: Situation, then: str) -> Reason | None:
    """The settings of the queue, if agents may not have read them yet."""
    if s.queue is None or _read_by_ms(s) <= s.now_ms:
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
            "read_by_at": rfc3339(_read_by_ms(s)),
        },
    )


def last_attempt(s: Situation) -> Iterator[Reason]:
    """How the attempt before ended, of a job that was started before."""
    head = s.head
    ends = [
        step
        for before, step in zip(head.timeline, head.timeline[1:], strict=False)
        if before.state is State.ACTIVE and step.state is not State.ACTIVE
    ]
    if not ends:
        return
    step, most = ends[-1], head.spec.retry.max_attempts
    yield Reason(
        "last_attempt",
        f"the attempt before ended at {clock(step.at_ms)}: {step.full_reason}",
        {
            "attempt": step.attempt,
            "max_attempts": most,
            "outcome": head.outcome,
            "exit_code": head.exit_code,
        },
        (f"joblane logs {head.job_id}",),
    )
