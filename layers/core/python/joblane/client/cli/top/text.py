"""The screen of `joblane top` as text: what needs attention, queues, fleets and agents."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

from joblane.client.cli.queue.text import oldest, running, seconds, state, total, window
from joblane.client.cli.text.formats import age, parse_time, printable
from joblane.client.cli.text.tables import GAP, Screen, table
from joblane.client.cli.top.attention import Point, entries, obstacle, shortage

Fields = Mapping[str, Any]

RATES = ("submitted", "started", "completed", "failed")

FEWEST = 3
"""Rows of a table that are shown however low the terminal is; the screen ends where it ends."""

MOST = 20
"""Rows of a table that are shown where there is no terminal."""

SORTS = ("name", "waiting", "failed")
"""Orders of the queues: that of the API, then most waiting jobs first, most failures first."""

TEXT = 24
"""Fewest characters of a sentence that are of use."""


class Column(NamedTuple):
    """A column of a table."""

    heading: str
    cell: Callable[[Any], object]
    rank: int
    """A narrow terminal does without the columns of the highest ranks; 0 always stays."""
    least: int | None = None
    """Characters to which it may be cut; None: it is never cut."""


def overview(
    answer: Fields, points: Sequence[Point], screen: Screen, height: int | None, sort: str
) -> str:
    """Show everything, in at most `height` lines as far as possible; None: no limit."""
    summary = answer["summary"]
    queues = _sort(entries(answer, "queues"), sort)
    fleets, agents = entries(answer, "fleets"), entries(answer, "agents")
    head = [*(line for text in _head(answer) for line in _wrap(text, screen)), ""]
    wanted = [len(points), len(queues), len(fleets), len(agents)]
    rooms = _rooms(wanted, None if height is None else height - len(head))
    sections = [
        _table(POINTS, points, rooms[0], screen, "points") or "nothing needs attention",
        _table(QUEUES, queues, rooms[1], screen, "queues") or "no queues",
        *([_table(FLEETS, fleets, rooms[2], screen, "fleets")] if fleets else []),
        *([_agents(agents, rooms[3], screen, summary)] if answer.get("agents") is not None else []),
    ]
    return "\n".join([*head, "\n\n".join(sections)])


def _head(answer: Fields) -> Iterator[str]:
    """Who asks, jobs by state, rates of all queues, agents, limits in use, what is not shown."""
    summary = answer["summary"]
    caller, agents = summary.get("caller") or {}, summary.get("agents") or {}
    whose = caller.get("tenant") or "all tenants"
    yield f"{summary.get('deployment')} {summary.get('version')}: {whose}"
    jobs = summary.get("jobs")
    if jobs is not None:
        states = [f"{count} {state}" for state, count in (jobs.get("by_state") or {}).items()]
        yield f"jobs    {', '.join(states) or 'none'}"
    rates = [_total(entries(answer, "queues"), kind) for kind in RATES]
    if None not in rates:
        shown = [f"{_show_rate(rate)} {kind}" for kind, rate in zip(RATES, rates, strict=True)]
        yield f"rates   {', '.join(shown)} a minute"
    more = " or more" if agents.get("more") else ""
    parts = [
        f"{agents.get('alive')}{more} alive",
        f"{agents.get('running')} of {agents.get('slots')} slots in use",
        f"{agents.get('free')} free",
        *(f"{agents[name]} {name}" for name in ("troubled", "cordoned") if agents.get(name)),
    ]
    yield f"agents  {', '.join(parts)}"
    used = [
        f"{limit.get('limit')} {limit['current']} of {limit.get('allowed')}"
        for limit in summary.get("limits") or ()
        if limit.get("current")
    ]
    if used:
        yield f"limits  {', '.join(used)}"
    unread = answer.get("unread") or {}
    whys = {why: [name for name in unread if unread[name] == why] for why in unread.values()}
    for why, names in whys.items():
        old = any(answer.get(name) is not None for name in names)
        yield f"{'old' if old else 'hidden':8}{' and '.join(names)}: {why}"


def _wrap(text: str, screen: Screen) -> list[str]:
    """Lines of a text; those after the first one begin below its second word."""
    line = printable(text)
    if screen.width is None or len(line) <= screen.width:
        return [line]
    return wrap(line, max(screen.width, 16), subsequent_indent=" " * 8) or [line]


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


def _table(
    columns: Sequence[Column], things: Sequence[Any], room: int, screen: Screen, what: str
) -> str:
    """Show some things in the columns for which there is room; empty without things.

    Columns that can be cut come last.
    """
    if not things:
        return ""
    rows = [[column.cell(thing) for column in columns] for thing in things[:room]]
    kept = _fitting(columns, rows, screen.width)
    cuttable = sum(columns[place].least is not None for place in kept)
    shown = table(
        [columns[place].heading for place in kept],
        [[row[place] for place in kept] for row in rows],
        screen,
        cuttable=max(cuttable, 1),
    )
    rest = len(things) - len(rows)
    return f"{shown}\nand {rest} more {what}" if rest else shown


def _fitting(
    columns: Sequence[Column], rows: Sequence[Sequence[object]], width: int | None
) -> list[int]:
    """The places of the columns that fit, without those of the highest ranks."""
    needs = []
    for place, column in enumerate(columns):
        need = max(len(printable(cell)) for cell in (column.heading, *(row[place] for row in rows)))
        needs.append(need if column.least is None else min(need, column.least))
    kept = list(range(len(columns)))
    while width is not None and sum(needs[place] + GAP for place in kept) - GAP > width:
        last = max(kept, key=lambda place: columns[place].rank)
        if not columns[last].rank:
            break
        kept.remove(last)
    return kept


POINTS = (
    Column("ATTENTION", lambda point: point.kind, 0),
    Column("LOOK WITH", lambda point: point.command, 1),
    Column("WHAT", lambda point: point.text, 0, TEXT),
)


def _sort(queues: Sequence[Fields], sort: str) -> list[Fields]:
    if sort == "waiting":
        return sorted(queues, key=_waiting, reverse=True)
    if sort == "failed":
        return sorted(queues, key=lambda queue: _rate(queue, "failed") or 0, reverse=True)
    return list(queues)


def _waiting(queue: Fields) -> int:
    return total(queue, "visible")


QUEUES = (
    Column("QUEUE", lambda queue: queue.get("name"), 0),
    Column("STATE", state, 6),
    Column("WAITING", _waiting, 0),
    Column("RUNNING", running, 3),
    Column("IN-FLIGHT", lambda queue: total(queue, "in_flight"), 9),
    Column("IN/MIN", lambda queue: _show_rate(_rate(queue, "submitted")), 5),
    Column("START/MIN", lambda queue: _show_rate(_rate(queue, "started")), 2),
    Column("DONE/MIN", lambda queue: _show_rate(_rate(queue, "completed")), 4),
    Column("FAIL/MIN", lambda queue: _show_rate(_rate(queue, "failed")), 1),
    Column("WAIT", lambda queue: seconds(window(queue, 1).get("mean_wait_s")), 7),
    Column("OLDEST", lambda queue: seconds(oldest(queue)), 1),
    Column("DELAYED", lambda queue: total(queue, "delayed"), 8),
)


def _rate(queue: Fields, kind: str) -> float | None:
    """Jobs a minute since the beginning of the last minute; None if the API has no figures."""
    last = window(queue, 1)
    if not last:
        return None
    return float(last[kind]["jobs"] * 60 / last["span_s"])


def _total(queues: Sequence[Fields], kind: str) -> float | None:
    """The rate of all queues; None if there are none, or no figures of one."""
    rates = [rate for queue in queues if (rate := _rate(queue, kind)) is not None]
    return sum(rates) if queues and len(rates) == len(queues) else None


def _show_rate(rate: float | None) -> str | None:
    if rate is None:
        return None
    return "0" if rate == 0 else f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}"


def _of_fleet(fleet: Fields) -> object:
    """What keeps a fleet from having more instances, or which are on their way."""
    reasons = (fleet.get("decision") or {}).get("reasons") or ()
    first = obstacle(fleet) or next(iter(reasons), {})
    return first.get("text") or shortage(fleet) or fleet.get("note")


FLEETS = (
    Column("FLEET", lambda fleet: fleet.get("name"), 0),
    Column("DESIRED", lambda fleet: fleet.get("desired"), 0),
    Column("IN SERVICE", lambda fleet: fleet.get("in_service"), 2),
    Column("MAX", lambda fleet: fleet.get("max_size"), 3),
    Column("WAITING", lambda fleet: (fleet.get("decision") or {}).get("backlog"), 1),
    Column("QUEUES", lambda fleet: fleet.get("queues"), 4, 8),
    Column("NOTE", _of_fleet, 0, TEXT),
)


def _agents(agents: Sequence[Fields], room: int, screen: Screen, summary: Fields) -> str:
    now = parse_time(summary.get("now"))
    columns = (
        Column("AGENT", lambda agent: agent.get("name"), 0),
        Column("STATE", lambda agent: agent.get("state"), 1),
        Column("JOBS", lambda agent: agent.get("running"), 2),
        Column("SLOTS", lambda agent: agent.get("threads"), 3),
        Column("LOAD", lambda agent: agent.get("load"), 6),
        Column("MEM FREE", lambda agent: agent.get("free_memory_mb"), 7),
        Column("DISK FREE", lambda agent: (agent.get("disk") or {}).get("free_mb"), 8),
        Column("SEEN", lambda agent: age(agent.get("last_seen_at"), now) if now else None, 5),
        Column("VERSION", lambda agent: agent.get("version"), 6),
        Column("QUEUES", lambda agent: agent.get("queues"), 4, 8),
        Column("TROUBLE", lambda agent: agent.get("trouble"), 0, TEXT),
    )
    return _table(columns, sorted(agents, key=_badness), room, screen, "agents") or "no agents"


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
