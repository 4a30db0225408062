"""The screen of `joblane top` as text: what needs attention, queues, fleets and agents."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from joblane.client.cli.attention import Point, entries, obstacle, shortage, waiting, window
from joblane.client.cli.formats import age, duration, parse_time, printable
from joblane.client.cli.tables import Screen, table

Fields = Mapping[str, Any]

WIDE = 110
"""Width of the terminal from which tables have all their columns."""

RATES = ("submitted", "started", "completed", "failed")

FEWEST = 3
"""Rows of a table that are shown however low the terminal is; the screen ends where it ends."""

MOST = 20
"""Rows of a table that are shown where there is no terminal."""

SORTS = ("name", "waiting", "failed")
"""Orders of the queues: that of the API, then most waiting jobs first, most failures first."""


def overview(
    answer: Fields, points: Sequence[Point], screen: Screen, height: int | None, sort: str
) -> str:
    """Show everything, in at most `height` lines as far as possible; None: no limit."""
    summary = answer["summary"]
    head = [*_head(summary), ""]
    queues = _sorted(entries(answer, "queues"), sort)
    fleets, agents = entries(answer, "fleets"), entries(answer, "agents")
    wanted = [len(points), len(queues), len(fleets), len(agents)]
    rooms = _rooms(wanted, None if height is None else height - len(head))
    sections = [
        _points(points, rooms[0], screen),
        _queues(queues, rooms[1], screen),
        *([_fleets(fleets, rooms[2], screen)] if fleets else []),
        *([_agents(agents, rooms[3], screen, summary)] if answer.get("agents") is not None else []),
    ]
    return "\n".join([*head, "\n\n".join(sections)])


def _head(summary: Fields) -> Iterator[str]:
    """Who asks, the jobs by state, the agents, and limits that are used."""
    caller, agents = summary.get("caller") or {}, summary.get("agents") or {}
    whose = caller.get("tenant") or "all tenants"
    yield printable(f"{summary.get('deployment')} {summary.get('version')}: {whose}")
    jobs = summary.get("jobs")
    if jobs is not None:
        states = [f"{count} {state}" for state, count in (jobs.get("by_state") or {}).items()]
        yield printable(f"jobs    {', '.join(states) or 'none'}")
    more = " or more" if agents.get("more") else ""
    parts = [
        f"{agents.get('alive')}{more} alive",
        f"{agents.get('running')} of {agents.get('slots')} slots in use",
        f"{agents.get('free')} free",
        *(f"{agents[name]} {name}" for name in ("troubled", "cordoned") if agents.get(name)),
    ]
    yield printable(f"agents  {', '.join(parts)}")
    used = [
        f"{limit.get('limit')} {limit['current']} of {limit.get('allowed')}"
        for limit in summary.get("limits") or ()
        if limit.get("current")
    ]
    if used:
        yield printable(f"limits  {', '.join(used)}")


def _rooms(wanted: Sequence[int], height: int | None) -> list[int]:
    """Rows for each table, so that all fit: each in turn gets what the later ones can spare."""
    if height is None:
        return [min(count, MOST) for count in wanted]
    left = height - sum(4 for count in wanted if count)  # heading, two blank lines, "and N more"
    rooms = []
    for place, count in enumerate(wanted):
        spare = left - sum(min(other, FEWEST) for other in wanted[place + 1 :])
        rooms.append(max(min(count, spare), min(count, FEWEST)))
        left -= rooms[-1]
    return rooms


def _points(points: Sequence[Point], room: int, screen: Screen) -> str:
    if not points:
        return "nothing needs attention"
    rows = [[point.kind, point.command, point.text] for point in points[:room]]
    headings = ["ATTENTION", "LOOK WITH", "WHAT"]
    return table(headings, rows, screen) + _rest(len(points) - len(rows), "points")


def _sorted(queues: Sequence[Fields], sort: str) -> list[Fields]:
    if sort == "waiting":
        return sorted(queues, key=waiting, reverse=True)
    if sort == "failed":
        return sorted(queues, key=lambda queue: _rate(queue, "failed") or 0, reverse=True)
    return list(queues)


def _queues(queues: Sequence[Fields], room: int, screen: Screen) -> str:
    if not queues:
        return "no queues"
    wide = screen.width is None or screen.width >= WIDE
    headings = ["QUEUE", "STATE", "WAITING", "RUNNING", "IN/MIN", "START/MIN", "DONE/MIN"]
    headings += ["FAIL/MIN", *(("WAIT", "OLDEST", "DELAYED") if wide else ("WAIT",))]
    rows = [_queue(queue, wide=wide) for queue in queues[:room]]
    return table(headings, rows, screen) + _rest(len(queues) - len(rows), "queues")


def _queue(queue: Fields, *, wide: bool) -> list[object]:
    lanes = queue.get("lanes", ())
    ages = [lane["oldest_s"] for lane in lanes if lane.get("oldest_s") is not None]
    wait = window(queue, 1).get("mean_wait_s")
    more = (duration(max(ages)) if ages else None, _sum(lanes, "delayed"))
    return [
        queue.get("name"),
        "paused" if (queue.get("settings") or {}).get("run_jobs") is False else "running",
        waiting(queue),
        _sum(lanes, "in_flight"),
        *(_shown(_rate(queue, kind)) for kind in RATES),
        None if wait is None else duration(wait),
        *(more if wide else ()),
    ]


def _rate(queue: Fields, kind: str) -> float | None:
    """Jobs a minute since the beginning of the last minute; None if the API has no figures."""
    last = window(queue, 1)
    if not last:
        return None
    return float(last[kind]["jobs"] * 60 / last["span_s"])


def _shown(rate: float | None) -> str | None:
    if rate is None:
        return None
    return "0" if rate == 0 else f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}"  # noqa: PLR2004


def _fleets(fleets: Sequence[Fields], room: int, screen: Screen) -> str:
    headings = ["FLEET", "DESIRED", "IN SERVICE", "MAX", "WAITING", "QUEUES", "NOTE"]
    rows = [
        [
            fleet.get("name"),
            fleet.get("desired"),
            fleet.get("in_service"),
            fleet.get("max_size"),
            (fleet.get("decision") or {}).get("backlog"),
            fleet.get("queues"),
            _of_fleet(fleet),
        ]
        for fleet in fleets[:room]
    ]
    return table(headings, rows, screen, cuttable=2) + _rest(len(fleets) - len(rows), "fleets")


def _of_fleet(fleet: Fields) -> object:
    """What keeps a fleet from having more instances, or which are on their way."""
    reasons = (fleet.get("decision") or {}).get("reasons") or ()
    first = obstacle(fleet) or next(iter(reasons), {})
    return first.get("text") or shortage(fleet) or fleet.get("note")


def _agents(agents: Sequence[Fields], room: int, screen: Screen, summary: Fields) -> str:
    if not agents:
        return "no agents"
    now = summary.get("now")
    wide = screen.width is None or screen.width >= WIDE
    headings = ["AGENT", "STATE", "JOBS", "SLOTS", *(("SEEN", "VERSION") if wide else ())]
    headings += ["QUEUES", "TROUBLE"]
    rows = [_agent(agent, now, wide=wide) for agent in sorted(agents, key=_badness)[:room]]
    return table(headings, rows, screen, cuttable=2) + _rest(len(agents) - len(rows), "agents")


def _agent(agent: Fields, now: object, *, wide: bool) -> list[object]:
    seen = age(agent.get("last_seen_at"), at) if (at := parse_time(now)) else None
    return [
        agent.get("name"),
        agent.get("state"),
        agent.get("running"),
        agent.get("threads"),
        *((seen, agent.get("version")) if wide else ()),
        agent.get("queues"),
        agent.get("trouble"),
    ]


def _badness(agent: Fields) -> tuple[object, ...]:
    """Agents in the order of the screen: gone, in trouble, not ready, then the fullest."""
    state = agent.get("state")
    slots = agent.get("threads") or 1
    return (
        state != "gone",
        not agent.get("trouble"),
        state == "ready",
        -(agent.get("running") or 0) / slots,
        str(agent.get("name")),
    )


def _sum(lanes: Sequence[Fields], name: str) -> int:
    return sum(lane.get(name) or 0 for lane in lanes)


def _rest(count: int, what: str) -> str:
    return f"\nand {count} more {what}" if count else ""
