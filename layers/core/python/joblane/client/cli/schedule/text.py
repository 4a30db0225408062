"""Schedules as text: the list, one with its times and results, and what is said on stderr."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from joblane.client.cli.text import formats, tables, terminal
from joblane.formats.text import shorten

SHOWN = 40
"""Characters of what a schedule starts, in a list."""

_PARTS = ("next", "last", "next_times", "results", "warnings", "cron", "every_s", "zone", "running")
"""Fields of a schedule that are not shown as they come."""


def row(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of a list; --json prints all fields."""
    return {
        "name": entry.get("name"),
        "what": shorten(str(entry.get("what") or ""), SHOWN),
        "when": when(entry),
        "next_at": (entry.get("next") or {}).get("due_at"),
        "last": _last(entry.get("last")),
        "why": entry.get("why"),
    }


def when(entry: Mapping[str, Any]) -> str:
    """When it is due: `0 2 * * * Europe/Berlin`, `every 5m`."""
    if entry.get("cron") is None:
        return f"every {_period(entry.get('every_s') or 0)}"
    return f"{entry['cron']} {entry.get('zone')}"


def due(entry: Mapping[str, Any] | None) -> str:
    """A due time with its offset, and how far away it is."""
    if not entry:
        return "never"
    distance = formats.relative_time(entry.get("starts_at"), datetime.now(UTC))
    return f"{entry.get('local')} ({distance})"


def said(entry: Mapping[str, Any], done: str) -> str:
    """One line after a change: `nightly added; next 2026-03-29T03:00:00+02:00 (in 5h)`."""
    state = "paused" if entry.get("paused") else f"next {due(entry.get('next'))}"
    return formats.printable(f"{entry.get('name')} {done}; {state}")


def next_times(entries: Sequence[Mapping[str, Any]], zone: object) -> str:
    """Table of due times, each with its offset and in UTC."""
    now = datetime.now(UTC)
    shown = [
        {
            f"due in {zone}": each.get("local"),
            "starts": each.get("starts_at"),
            "in": formats.relative_time(each.get("starts_at"), now),
        }
        for each in entries
    ]
    return tables.records_table(shown, now, tables.screen(), "never due again")


def result_row(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of a list of results; --json prints all fields."""
    to, times = entry.get("to_at"), entry.get("times")
    return {
        "due": entry.get("due_at") if to is None else f"{entry.get('due_at')} to {to}",
        "times": times or "more than 10,000",
        "outcome": entry.get("outcome"),
        "by": entry.get("cause"),
        "job": entry.get("job_id"),
        "text": entry.get("text"),
    }


def details(entry: Mapping[str, Any]) -> str:
    """A schedule, its next times, and its latest results."""
    now, screen = datetime.now(UTC), tables.screen()
    own: dict[str, Any] = {"name": entry.get("name"), "when": when(entry)}
    rest = {name: value for name, value in entry.items() if name not in {*own, *_PARTS}}
    own |= {"last_started": entry.get("running"), **rest}
    submission: Mapping[str, Any] = entry.get("submission") or {}
    own["submission"] = {name: submission[name] for name in submission if name != "command"}
    own["created_by"] = (entry.get("created_by") or {}).get("name")
    shown = {name: value for name, value in own.items() if value not in (None, {})}
    results = [result_row(each) for each in entry.get("results") or ()]
    return "\n\n".join(
        (
            formats.record(shown),
            next_times(entry.get("next_times") or (), entry.get("zone")),
            tables.records_table(results, now, screen, "no results yet"),
        )
    )


def note_warnings(entry: Mapping[str, Any]) -> None:
    """Print what is surprising about a schedule on stderr."""
    for each in entry.get("warnings") or ():
        terminal.note(str(each))


def _period(seconds: int) -> str:
    """Seconds in their largest whole unit: 5m, 12h, 90s; weeks are days."""
    units = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
    return next(f"{seconds // length}{unit}" for unit, length in units if not seconds % length)


def _last(result: Mapping[str, Any] | None) -> str | None:
    if not result:
        return None
    return f"{result.get('outcome')} {formats.relative_time(result.get('at'), datetime.now(UTC))}"
