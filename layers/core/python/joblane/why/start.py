"""Why no agent has started a job whose message is in its lane, or in the inbox of its agent."""

from collections.abc import Iterator

from joblane.deployment.names import LANES
from joblane.formats.text import some, span
from joblane.formats.times import rfc3339
from joblane.job.assigned import overdue, why_silent
from joblane.why import fleets
from joblane.why.agents import (
    LIST_AGENTS,
    Readiness,
    is_silent,
    readiness,
    takes_none,
)
from joblane.why.edits import in_first_lane
from joblane.why.queue import (
    explain_change,
    explain_queue_hold,
    read_by_ms,
)
from joblane.why.reason import Fact, Reason
from joblane.why.situation import Situation
from joblane.why.words import at, without_ids

SOON_S = 60
"""A job that could start and has waited for longer should have started: messages are delivered
within seconds."""

RECEIVED_S = 10
"""An agent that receives a message starts its job, or writes why it does not, within seconds."""


def explain_start(s: Situation) -> Iterator[Reason]:
    """Reasons of a job that an agent could start if it had a slot for it."""
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
    if (changed := explain_change(s, f"{_free(able)}, so it should start then")) is not None:
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
    if not held and (changed := explain_change(s, "it should start then")) is not None:
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
    since_ms = max(s.head.timeline[-1].at_ms, s.head.next_at_ms or 0, read_by_ms(s))
    return max(0.0, (s.now_ms - since_ms) / 1000)
