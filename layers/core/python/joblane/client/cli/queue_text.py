"""Queues as text: a table of queues, and one queue with its lanes and activity."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from joblane.client.cli.formats import age, duration, printable, timestamp
from joblane.client.cli.tables import Screen, table

Fields = Mapping[str, Any]

WINDOW = 5
"""Minutes over which the table of queues shows rates."""

WIDE = 90
"""Width of the screen from which the table of queues shows all columns."""

KINDS = ("submitted", "started", "completed", "failed", "retried")


def queues_table(entries: Sequence[Fields], screen: Screen) -> str:
    """Table of queues: waiting jobs by lane, rates in jobs per minute."""
    if not entries:
        return "no queues"
    wide = screen.width is None or screen.width >= WIDE
    headings = [
        *(
            "QUEUE",
            "STATE",
            "WAITING",
            "RUNNING",
            "DEAD",
            "OLDEST",
            "IN/MIN",
            "DONE/MIN",
            "FAIL/MIN",
        ),
        *(("DELAYED", "MEAN WAIT") if wide else ()),
    ]
    rows = [_row(queue, wide=wide) for queue in entries]
    return "\n".join(
        [
            table(headings, rows, screen),
            "",
            f"WAITING: high/default/low; rates: your jobs, last {WINDOW} minutes",
        ]
    )


def queue_details(entry: Fields, now: datetime, screen: Screen) -> str:
    """One queue: settings, lanes, and activity over 1, 5 and 60 minutes."""
    settings = _part(entry, "settings")
    declared = settings.get("threads_declared")
    own = settings.get("threads")
    shown = [
        ("queue", entry.get("name")),
        ("state", _state(entry)),
        ("threads", f"{declared} (joblane.toml)" if own is None else f"{own} (set)"),
        ("all agents", settings.get("cluster_threads")),
        ("changed", _set(settings, now)),
    ]
    lines = [f"{name:<12} {printable(value)}" for name, value in shown]
    lanes = [
        [
            lane.get("lane"),
            *(lane.get(name) for name in ("visible", "in_flight", "delayed", "dead_letters")),
            _age(lane, now),
        ]
        for lane in _list(entry, "lanes")
    ]
    headings = ["LANE", "WAITING", "RUNNING", "DELAYED", "DEAD", "OLDEST"]
    lines += ["", table(headings, lanes, screen)]
    windows = [
        [
            f"{window.get('minutes')} min",
            *(_count(window, kind) for kind in KINDS),
            _wait(window),
        ]
        for window in _list(entry, "activity")
    ]
    headings = ["LAST", *(kind.upper() for kind in KINDS), "MEAN WAIT"]
    lines += ["", table(headings, windows, screen)]
    return "\n".join(
        [*lines, "", "your jobs since the beginning of a minute; (items) where the number differs"]
    )


def _row(queue: Fields, *, wide: bool) -> list[object]:
    lanes = _list(queue, "lanes")
    windows = [w for w in _list(queue, "activity") if w.get("minutes") == WINDOW]
    window = windows[0] if windows else {}
    ages = [lane["oldest_s"] for lane in lanes if isinstance(lane.get("oldest_s"), int)]
    return [
        queue.get("name"),
        _state(queue),
        "/".join(printable(lane.get("visible")) for lane in lanes) or None,
        _sum(lanes, "in_flight"),
        _sum(lanes, "dead_letters"),
        duration(max(ages)) if ages else None,
        *(_rate(window, kind, "jobs") for kind in ("submitted", "completed", "failed")),
        *((_sum(lanes, "delayed"), _wait(window)) if wide else ()),
    ]


def _state(queue: Fields) -> str:
    return "paused" if _part(queue, "settings").get("run_jobs") is False else "running"


def _set(settings: Fields, now: datetime) -> str:
    if not settings.get("version"):
        return "never"
    by = settings.get("changed_by") or "an operator of another tenant"
    when = timestamp(settings.get("changed_at"), now)
    return f"{when} by {by}, version {settings['version']}"


def _age(lane: Fields, now: datetime) -> str | None:
    """Age of a lane's oldest message, and how old that figure is: SQS reports once a minute."""
    seconds = lane.get("oldest_s")
    if not isinstance(seconds, int | float):
        return None
    return f"{duration(seconds)} ({age(lane.get('oldest_at'), now)} ago)"


def _count(window: Fields, kind: str) -> str:
    jobs, items = (_part(window, kind).get(unit) for unit in ("jobs", "items"))
    return printable(jobs) if items == jobs else f"{jobs} ({items})"


def _rate(window: Fields, kind: str, unit: str) -> str | None:
    span_s = window.get("span_s")
    if not isinstance(span_s, int | float) or span_s <= 0:
        return None
    return _per_minute(_part(window, kind).get(unit), span_s)


def _per_minute(count: object, span_s: float) -> str:
    rate = count * 60 / span_s if isinstance(count, int | float) else 0.0
    return "0" if rate == 0 else f"{rate:.0f}" if rate >= 100 else f"{rate:.2g}"  # noqa: PLR2004


def _wait(window: Fields) -> str | None:
    seconds = window.get("mean_wait_s")
    return duration(seconds) if isinstance(seconds, int | float) else None


def _sum(lanes: Sequence[Fields], name: str) -> int:
    return sum(lane[name] for lane in lanes if isinstance(lane.get(name), int))


def _part(entry: Fields, name: str) -> Fields:
    part = entry.get(name)
    return part if isinstance(part, Mapping) else {}


def _list(entry: Fields, name: str) -> list[Fields]:
    found = entry.get(name)
    return [part for part in found if isinstance(part, Mapping)] if isinstance(found, list) else []
