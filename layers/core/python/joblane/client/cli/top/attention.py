"""What needs attention in a deployment, and the command to look at each: for `joblane top`.

Pure functions over answers of the API; what a caller may not read is None there and left out.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from joblane.client.answers import rows
from joblane.client.cli.queue.text import oldest, state, total, window
from joblane.client.cli.text.formats import duration, parse_time

Fields = Mapping[str, Any]

STATES = ("dead", "failed", "stale", "blocked")
"""States of jobs that somebody should look at, the most urgent first."""

LONG_WAIT_S = 300
"""A queue whose oldest waiting job is older, and that has started none for 5 minutes, is stuck."""

WINDOW = 5
"""Minutes without a start after which a queue with waiting jobs is stuck."""

ENDS_SOON_S = 3600
"""A condition is shown as urgent when jobs that wait for it fail within this time."""

NEARLY = 0.9
"""Part of a limit from which it is shown."""


@dataclass(frozen=True, slots=True)
class Point:
    """One thing that needs attention."""

    kind: str
    """A word for the first column, such as `dead` or `paused`."""
    text: str
    """What it is, in a sentence."""
    command: str
    """The command that shows more."""

    def as_json(self) -> dict[str, str]:
        """Make the entry of `joblane top --json`."""
        return {"kind": self.kind, "text": self.text, "command": self.command}


def points(answer: Fields) -> list[Point]:
    """Find what needs attention in the answers that `joblane top` has read."""
    summary = answer["summary"]
    queues = entries(answer, "queues")
    now = parse_time(summary.get("now")) or datetime.now(UTC)
    return [
        *_find_stuck(queues, answer),
        *_find_lacking(queues, summary),
        *_fleets(entries(answer, "fleets")),
        *_agents(entries(answer, "agents"), summary),
        *_jobs(summary),
        *_conditions(entries(answer, "conditions"), now),
        *_find_paused(queues),
        *_limits(summary),
    ]


def entries(answer: Fields, name: str) -> list[dict[str, Any]]:
    """The entries of one of the lists; none if the caller may not read it."""
    return [] if answer.get(name) is None else rows(answer[name])


def shortage(fleet: Fields) -> str | None:
    """Why a fleet has fewer instances than it wants, in a sentence; None if it has them."""
    name, reason = fleet.get("name"), obstacle(fleet)
    if reason is not None and reason.get("code") != "fleet_max":
        return f"fleet {name}: {reason.get('text')}"
    desired, in_service = fleet.get("desired"), fleet.get("in_service")
    if desired is None or in_service is None or in_service >= desired:
        return None
    newest: Fields = next(iter(fleet.get("activities") or ()), {})
    if newest.get("status") != "Failed":
        return None
    why = newest.get("cause") or newest.get("description")
    return f"fleet {name} has {in_service} of {desired} instances: {why}"


def obstacle(fleet: Fields) -> Fields | None:
    """The first reason why a fleet has no more instances, without those that are on their way."""
    decision: Fields = fleet.get("decision") or {}
    reasons = (reason for reason in decision.get("reasons") or () if isinstance(reason, dict))
    return next((reason for reason in reasons if reason.get("code") != "fleet_booting"), None)


def _find_stuck(queues: Iterable[Fields], answer: Fields) -> Iterator[Point]:
    for queue in queues:
        count = total(queue, "visible")
        if not count or state(queue) == "paused":
            continue
        name = _word(queue.get("name"))
        started = (window(queue, WINDOW).get("started") or {}).get("jobs")
        waits_s = oldest(queue) or 0
        command = f"joblane ls --queue {name} --state pending"
        if _has_no_agent(queue, answer):
            text = f"{count} jobs wait in queue {name}, and no agent that serves it is alive"
            yield Point("stuck", text, command)
        elif waits_s >= LONG_WAIT_S and started == 0:
            since = duration(waits_s)
            text = f"no job of queue {name} started for {WINDOW} minutes; the oldest waits {since}"
            yield Point("stuck", text, command)


def _find_lacking(queues: Iterable[Fields], summary: Fields) -> Iterator[Point]:
    """What no live agent of a queue can give, while jobs wait that may ask for it.

    Messages of jobs that an agent could not start are hidden for a while, and so count as in
    flight.
    """
    lacks = (summary.get("agents") or {}).get("lacks") or {}
    by_state = (summary.get("jobs") or {}).get("by_state")
    if by_state is not None and not by_state.get("pending"):
        return
    for queue in queues:
        missing = lacks.get(queue.get("name"))
        counts = (total(queue, figure) for figure in ("visible", "in_flight", "delayed"))
        if missing and any(counts):
            name = _word(queue.get("name"))
            text = f"no live agent of queue {name} can give {', '.join(map(str, missing))}"
            text += ": jobs that ask for it wait"
            yield Point("lacking", text, f"joblane ls --queue {name} --state pending")


def _has_no_agent(queue: Fields, answer: Fields) -> bool:
    """Whether no agent serves a queue, as far as all agents are known."""
    counts = answer["summary"].get("agents") or {}
    if answer.get("agents") is None or counts.get("more"):
        return counts.get("alive") == 0
    return not any(
        agent.get("alive") and queue.get("name") in (agent.get("queues") or ())
        for agent in entries(answer, "agents")
    )


def _fleets(fleets: Iterable[Fields]) -> Iterator[Point]:
    for fleet in fleets:
        text = shortage(fleet)
        if text is not None:
            yield Point("capacity", text, "joblane top --once --json")


def _agents(agents: Iterable[Fields], summary: Fields) -> Iterator[Point]:
    older: dict[str, int] = {}
    for agent in agents:
        name = _word(agent.get("name"))
        if agent.get("state") == "gone":
            text = f"agent {name} is gone: no heartbeat since {agent.get('last_seen_at')}"
            yield Point("gone", text, f"joblane agents get {name}")
        elif agent.get("trouble"):
            yield Point(
                "trouble", f"agent {name}: {agent['trouble']}", f"joblane agents get {name}"
            )
        if agent.get("alive") and agent.get("version") != summary.get("version"):
            older[str(agent.get("version"))] = older.get(str(agent.get("version")), 0) + 1
    for version, count in sorted(older.items()):
        text = f"{count} agents run version {version}, the control plane {summary.get('version')}"
        yield Point("version", text, "joblane agents ls")
    if not agents and (summary.get("agents") or {}).get("troubled"):
        text = f"{summary['agents']['troubled']} agents report trouble; the role platform sees why"
        yield Point("trouble", text, "joblane ls --state pending")


def _jobs(summary: Fields) -> Iterator[Point]:
    by_state = (summary.get("jobs") or {}).get("by_state") or {}
    for kind in STATES:
        count = by_state.get(kind)
        if count:
            jobs = "1 job is" if count == 1 else f"{count} jobs are"
            yield Point(kind, f"{jobs} {kind}", f"joblane ls --state {kind}")


def _conditions(conditions: Iterable[Fields], now: datetime) -> Iterator[Point]:
    for condition in conditions:
        ends = parse_time(condition.get("gives_up_at"))
        if ends is None or (ends - now).total_seconds() > ENDS_SOON_S:
            continue
        waits = f"{condition.get('waiting')}{'+' if condition.get('more') else ''}"
        left = duration((ends - now).total_seconds())
        text = f"{waits} jobs wait for {condition.get('name')} and fail in {left}"
        yield Point("condition", f"{text}: {condition.get('reason')}", "joblane conditions ls")


def _find_paused(queues: Iterable[Fields]) -> Iterator[Point]:
    for queue in queues:
        if state(queue) == "paused":
            name, count = _word(queue.get("name")), total(queue, "visible")
            text = f"queue {name} is paused; {count} jobs wait"
            yield Point("paused", text, f"joblane queues show {name}")


def _limits(summary: Fields) -> Iterator[Point]:
    for limit in summary.get("limits") or ():
        current, allowed = limit.get("current"), limit.get("allowed")
        if current and allowed and current >= NEARLY * allowed:
            text = f"{limit.get('limit')}: {current} of {allowed} are used"
            yield Point("limit", text, "joblane top --once --json")


def _word(name: object) -> str:
    """A name as an argument of a command."""
    return shlex.quote(str(name))
