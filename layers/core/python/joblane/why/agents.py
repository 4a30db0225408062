"""Why no agent starts a job that waits in a lane, as far as the agents' heartbeats say it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from joblane.fleet.serving import Capabilities
from joblane.formats.text import some, span
from joblane.formats.times import rfc3339
from joblane.job.assigned import SILENT_MS
from joblane.job.lacking import lacking_agents
from joblane.queue.tenant_shares import paused_tenant
from joblane.state.lease import Heartbeat
from joblane.why.capacity import Obstacle, QueueCapacity
from joblane.why.disks import disk_full
from joblane.why.edits import in_queue_of, may_edit, within_disk_of, within_memory_of
from joblane.why.reason import Fact, Reason
from joblane.why.situation import Agents, Queue, Situation
from joblane.why.words import at, without_ids

LIST_AGENTS = "joblane agents ls"

_TAKES_NONE = "takes no jobs"
"""Begins the `trouble` of an agent that takes no jobs; others take them (ec2_agent/presence)."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the agents could start the job now."""

    reasons: tuple[Reason, ...]
    """Why they cannot, the one that decides first; else what is wrong with some of them."""
    free: int
    """Slots that are free for jobs of the queue, as of the heartbeats; 0 if nothing can start."""
    facts: dict[str, Fact]
    """Facts about the agents that were read."""
    uncounted: int = 0
    """Agents with free slots that a limit may stop all the same: their jobs were not counted."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """Agents, sorted by how they are."""

    alive: list[Heartbeat]
    unavailable: list[Heartbeat]
    """Cordoned or draining."""
    silent: list[Heartbeat]
    troubled: list[Heartbeat]
    lacking: list[Heartbeat]
    """Those that cannot give the job what it asks for."""
    ready: list[Heartbeat]


def readiness(s: Situation, queue: Queue, agents: Agents) -> Readiness:
    """Say whether the agents of the queue can start the job, and why not."""
    seen = _sort(s, [row for row in agents.rows if s.head.queue in row.queues])
    facts: dict[str, Fact] = {
        "alive": len(seen.alive),
        "more": agents.more,
        "age_s": _age_s(seen.alive, s.now_ms),
    }
    if not seen.alive:
        return Readiness((_nobody(s, agents, facts),), 0, facts)
    found = _unready(s, seen, facts)
    if not seen.ready:
        first, *rest = found
        first = replace(first, commands=(*first.commands, *elsewhere(s)))
        return Readiness((first, *rest), 0, facts)
    capacity = QueueCapacity(s.head, queue, agents, s.limits)
    free = sum(map(capacity.room, seen.ready))
    if free:
        known = agents.counted or {}
        uncounted = sum(capacity.counts_jobs(r) and r.name not in known for r in seen.ready)
        return Readiness(tuple(found), free, facts, uncounted)
    return Readiness((*_full(s, capacity, seen.ready, facts), *found), 0, facts)


def elsewhere(s: Situation) -> tuple[str, ...]:
    """Commands that let the job wait in another queue, whose agents could start it."""
    return () if s.agents is None else in_queue_of(s, _sort(s, s.agents.rows).ready)


def _sort(s: Situation, rows: Iterable[Heartbeat]) -> _Seen:
    now_ms = s.now_ms
    alive = [row for row in rows if row.alive(now_ms)]
    lacking = [row for row in alive if _missing(s, row)]  # however they are: they never run it
    able = [row for row in alive if row not in lacking]
    unavailable = [row for row in able if row.mode is not None]
    rest = [row for row in able if row.mode is None]
    silent = [row for row in rest if is_silent(row, now_ms)]
    rest = [row for row in rest if row not in silent]
    troubled = [row for row in rest if takes_none(row)]
    ready = [row for row in rest if not takes_none(row)]
    return _Seen(alive, unavailable, silent, troubled, lacking, ready)


def _missing(s: Situation, row: Heartbeat) -> list[str]:
    """What an agent cannot give the job: by its heartbeat, or as it found out with the job."""
    if found := Capabilities.of(row).missing(s.head.spec, s.head.own_disk_mb):
        return list(found)
    at_ms, lack = lacking_agents(s.head.timeline).get(row.name, (0, ""))
    return [lack] if lack and row.since_ms <= at_ms else []


def is_silent(row: Heartbeat, now_ms: int) -> bool:
    """Whether an agent has missed heartbeats, although its lease may not be over."""
    return now_ms - row.beat_ms >= SILENT_MS


def takes_none(row: Heartbeat) -> bool:
    """Whether an agent says that it takes no jobs."""
    return row.trouble is not None and row.trouble.startswith(_TAKES_NONE)


def _age_s(rows: Sequence[Heartbeat], now_ms: int) -> float | None:
    """Age of the oldest heartbeat that was used."""
    return max(((now_ms - row.beat_ms) / 1000 for row in rows), default=None)


def _nobody(s: Situation, agents: Agents, facts: dict[str, Fact]) -> Reason:
    queue = s.head.queue
    gone = [row for row in agents.rows if queue in row.queues]
    last = max(gone, key=lambda row: row.beat_ms, default=None)
    others = sum(row.alive(s.now_ms) for row in agents.rows)
    known = s.fleets is not None and any(fleet.record for fleet in s.fleets)
    todo = "" if known else ": start an agent that serves it"  # else its fleets have reasons
    if agents.more:
        text = (
            f"none of the {len(agents.rows)} agents that were read serves queue {queue} and is "
            "alive; there are more, which were not read"
        )
    else:
        text = f"no agent that serves queue {queue} is alive"
        if others:
            text += f"; {some(others, 'agent')} of other queues {_is(others)}"
    if last is not None:
        text += f"; the last heartbeat was that of {last.name}, {_beat(last, s.now_ms)}"
    return Reason(
        "no_agents",
        f"{text}{todo}",
        {
            "queue": queue,
            "last_agent": None if last is None else last.name,
            "last_seen_at": None if last is None or not last.beat_ms else rfc3339(last.beat_ms),
            "others_alive": others,
            **facts,
        },
        (LIST_AGENTS, *elsewhere(s)),
    )


def _beat(row: Heartbeat, now_ms: int) -> str:
    return at(row.beat_ms, now_ms) if row.beat_ms else "whose instance has ended"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _unready(s: Situation, seen: _Seen, facts: dict[str, Fact]) -> list[Reason]:
    """What is wrong with agents that are alive and would not start the job, if free or not."""
    found = []
    queue, all_ = s.head.queue, len(seen.alive)
    if seen.lacking and len(seen.lacking) == all_:
        found.append(_lacking(s, seen, facts))
    if seen.troubled:
        row = seen.troubled[0]
        trouble = without_ids(row.trouble or "")
        found.append(
            Reason(
                "agents_in_trouble",
                f"{len(seen.troubled)} of the {some(all_, 'live agent')} of queue {queue} "
                f"{_take(len(seen.troubled))} no jobs; {row.name} says: {trouble}",
                {
                    "queue": queue,
                    "troubled": len(seen.troubled),
                    "agent": row.name,
                    "trouble": trouble,
                    **facts,
                },
                (f"joblane agents get {row.name}",),
            )
        )
    if seen.silent:
        row = max(seen.silent, key=lambda row: row.beat_ms)
        found.append(
            Reason(
                "agents_silent",
                f"{len(seen.silent)} of the {some(all_, 'live agent')} of queue {queue} "
                f"{_have(len(seen.silent))} sent no heartbeat for {span(SILENT_MS / 1000)} or "
                f"longer, {row.name} since {at(row.beat_ms, s.now_ms)}: the instance may be gone",
                {
                    "queue": queue,
                    "silent": len(seen.silent),
                    "agent": row.name,
                    "last_seen_at": rfc3339(row.beat_ms),
                    **facts,
                },
                (LIST_AGENTS,),
            )
        )
    if seen.unavailable:
        cordoned = [row.name for row in seen.unavailable if row.mode == "cordoned"]
        draining = len(seen.unavailable) - len(cordoned)
        parts = [f"{len(cordoned)} cordoned"] if cordoned else []
        parts += [f"{draining} draining"] if draining else []
        found.append(
            Reason(
                "agents_unavailable",
                f"of the {some(all_, 'live agent')} of queue {queue} "
                f"{' and '.join(parts)} {_take(len(seen.unavailable))} nothing new",
                {
                    "queue": queue,
                    "cordoned": len(cordoned),
                    "draining": draining,
                    "agent": seen.unavailable[0].name,
                    **facts,
                },
                (f"joblane agents uncordon {cordoned[0]}",) if cordoned else (LIST_AGENTS,),
            )
        )
    if seen.lacking and len(seen.lacking) < all_:
        found.append(_lacking(s, seen, facts))
    return found


def _without(s: Situation, missing: list[str]) -> str:
    """How to do without what no agent gives: a limit may be edited, network egress may not."""
    if may_edit(s) and "egress" not in missing:
        return "edit the job to ask for less"
    return "submit the job without"


def _lacking(s: Situation, seen: _Seen, facts: dict[str, Fact]) -> Reason:
    """What agents cannot give the job: of all of them that decides, of some it is said last."""
    queue, all_, some_ = s.head.queue, len(seen.alive), len(seen.lacking)
    row = min(seen.lacking, key=lambda row: len(_missing(s, row)))
    missing = _missing(s, row)
    what = " and ".join(missing)
    heartbeat = bool(Capabilities.of(row).missing(s.head.spec, s.head.own_disk_mb))
    says = f"{row.name} lacks {what}" if heartbeat else f"{row.name} says: {what}"
    mends: tuple[str, ...] = ()
    if some_ == all_:
        mends = within_memory_of(s, seen.lacking)
        mends = mends or within_disk_of(s, seen.lacking, lambda disk: disk.most_mb)
    if some_ == all_:
        text = (
            f"no live agent of queue {queue} can give it what it asks for; {says}: start an agent "
            f"whose host has it, or {_without(s, missing)}"
        )
    else:
        text = (
            f"{some_} of the {some(all_, 'live agent')} of queue {queue} cannot give it what it "
            f"asks for, and leave it to the others; {says}"
        )
    return Reason(
        "agents_lack",
        text,
        {
            "queue": queue,
            "lacking": some_,
            "agent": row.name,
            "lacks": ", ".join(missing),
            **facts,
        },
        (f"joblane agents get {row.name}", *mends),
    )


def _take(count: int) -> str:
    return "takes" if count == 1 else "take"


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _full(
    s: Situation, capacity: QueueCapacity, ready: Sequence[Heartbeat], facts: dict[str, Fact]
) -> list[Reason]:
    """Why agents that would take jobs take none of this queue.

    A limit that stops an agent with a free slot decides; where all slots are taken, they do.
    """
    obstacles = {row.name: capacity.obstacle(row) for row in ready}
    by = {kind: [row for row in ready if obstacles[row.name] is kind] for kind in Obstacle}
    makers = {
        Obstacle.SHARE: _cluster_limit,
        Obstacle.THREADS: _thread_limit,
        Obstacle.TENANT: _running_limit,
        Obstacle.DISK: disk_full,
    }
    found = [make(s, capacity, by[kind], facts) for kind, make in makers.items() if by[kind]]
    if full := by[Obstacle.SLOTS]:
        slots = sum(row.threads for row in full)
        read = " that were read" if capacity.agents.more else ""
        others = "" if len(full) == len(ready) else "other "
        word = "agent" if len(full) == 1 else "agents"
        found.append(
            Reason(
                "no_free_slot",
                f"all {some(slots, 'slot')} of {len(full)} {others}{word}{read} are taken, as of "
                f"heartbeats of up to {span(_age_s(full, s.now_ms) or 0)} ago: it starts when a "
                "job ends, or another agent comes",
                {
                    "queue": s.head.queue,
                    "agents": len(full),
                    "slots": slots,
                    "running": sum(row.running for row in full),
                    **facts,
                },
                (f"joblane queues show {s.head.queue}",),
            )
        )
    return found


def _describe(rows: Sequence[Heartbeat], running: int) -> str:
    return f"{some(len(rows), 'agent')} with free slots {_have(len(rows))} {running} running"


def _new(capacity: QueueCapacity, rows: Sequence[Heartbeat], kind: Obstacle) -> str:
    """What is said of agents that came after a limit was shared out."""
    count = sum(capacity.is_new(row, kind) for row in rows)
    if not count:
        return ""
    word = "agent has" if count == 1 else "agents have"
    return f"; {count} {word} just come, and {_get(count)} a share within two minutes"


def _get(count: int) -> str:
    return "gets" if count == 1 else "get"


def _running_limit(
    s: Situation, capacity: QueueCapacity, rows: Sequence[Heartbeat], facts: dict[str, Fact]
) -> Reason:
    limit = 0 if s.limits is None else s.limits.jobs_running
    running = sum(capacity.get_count(row).of_tenant for row in rows)
    text = (
        f"tenant {s.head.tenant} may run {some(limit, 'job')} at once (jobs_running), shared out "
        f"among the agents, and {_describe(rows, running)}, which is their share: it starts when "
        f"one of the tenant's jobs ends{_new(capacity, rows, Obstacle.TENANT)}"
    )
    return Reason(
        "running_limit",
        paused_tenant(s.head.tenant) if limit == 0 else text,
        {"limit": limit, "agents": len(rows), "running": running, **facts},
        ("joblane ls --state active",),
    )


def _cluster_limit(
    s: Situation, capacity: QueueCapacity, rows: Sequence[Heartbeat], facts: dict[str, Fact]
) -> Reason:
    name, settings = s.head.queue, capacity.queue.settings
    running = sum(capacity.get_count(row).of_queue for row in rows)
    most = settings.cluster_threads or 0
    return Reason(
        "cluster_limit",
        f"the agents together may run {some(most, 'job')} of queue {name} at once "
        f"(cluster_threads), shared out among them, and {_describe(rows, running)}, which is their "
        f"share{_new(capacity, rows, Obstacle.SHARE)}",
        {
            "queue": name,
            "cluster_threads": most,
            "agents": len(rows),
            "running": running,
            "each": 0 if settings.shares is None else settings.shares.each,
            **facts,
        },
        (f"joblane queues set {name} --cluster-threads N",),
    )


def _thread_limit(
    s: Situation, capacity: QueueCapacity, rows: Sequence[Heartbeat], facts: dict[str, Fact]
) -> Reason:
    name, most = s.head.queue, capacity.threads
    running = sum(capacity.get_count(row).of_queue for row in rows)
    return Reason(
        "thread_limit",
        f"an agent may run {some(most, 'job')} of queue {name} at once (threads), and "
        f"{_describe(rows, running)}",
        {"queue": name, "threads": most, "agents": len(rows), "running": running, **facts},
        (f"joblane queues set {name} --threads N",),
    )
