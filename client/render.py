"""What a person sees: tables, one job in full, durations and sizes. Values in, text out.

Whatever comes from the API is another person's text: control characters are shown as escapes,
so that no job's name can move the cursor or recolour the terminal.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

COLOURS: Mapping[str, str] = {
    "completed": "green",
    "active": "cyan",
    "failed": "red",
    "dead": "red",
    "blocked": "yellow",
    "retry": "yellow",
    "stale": "yellow",
    "expired": "yellow",
    "alive": "green",
    "lost": "red",
}
"""Colour of a state's word; others have none."""

GAP = 2
"""Blanks between two columns."""

NARROWEST = 8
"""Columns of a cell that is cut, at least."""

WIDE = 110
"""Columns from which on a list of jobs has room for the reason."""


@dataclass(frozen=True, slots=True)
class Screen:
    """Where text goes."""

    width: int | None = None
    """Columns; None (a file, a pipe) cuts nothing."""
    colour: bool = False


def printable(value: object) -> str:
    """Show a value in one line; control characters become escapes as in Python."""
    text = value if isinstance(value, str) else _plain(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _plain(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return str(value).removesuffix(".0")
        case Mapping():
            said = {key: item for key, item in value.items() if item is not None}
            return " ".join(f"{key}={_plain(item)}" for key, item in said.items()) or "-"
        case list() | tuple():
            return ",".join(_plain(item) for item in value) or "-"
        case _:
            return str(value)


def table(
    headings: Sequence[str], rows: Sequence[Sequence[object]], screen: Screen, cuttable: int = 1
) -> str:
    """Lay out rows under headings; only the last `cuttable` columns are cut to fit the screen.

    An id is there to be copied: on a screen that is too narrow even so, lines wrap.
    """
    from io import StringIO  # noqa: PLC0415 - rich takes 60 ms; only tables pay for it

    from rich.cells import cell_len  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    cells = [[printable(cell) for cell in row] for row in rows]
    needs = [max(map(cell_len, column)) for column in zip(headings, *cells, strict=True)]
    widths = _widths(needs, screen.width, cuttable)
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for heading, width in zip(headings, widths, strict=True):
        grid.add_column(heading, no_wrap=True, overflow="ellipsis", width=width)
    for row in cells:
        grid.add_row(*(Text(cell, style=COLOURS.get(cell, "")) for cell in row))
    sink = StringIO()
    console = Console(
        file=sink,
        width=sum(widths) + GAP * len(widths),
        force_terminal=screen.colour,
        color_system="standard" if screen.colour else None,
        highlight=False,
        legacy_windows=False,
    )
    console.print(grid)
    return "\n".join(line.rstrip() for line in sink.getvalue().splitlines())


def _widths(needs: Sequence[int], screen_width: int | None, cuttable: int) -> list[int]:
    """Share the screen: fixed columns first, then the cuttable ones, each its part of the rest.

    What one of them does not need goes to the others.
    """
    widths = list(needs)
    if screen_width is None:
        return widths
    first = len(needs) - cuttable
    left = screen_width - sum(needs[:first]) - GAP * (len(needs) - 1)
    part = max(left // cuttable, NARROWEST)
    widths[first:] = [min(need, part) for need in needs[first:]]
    spare = max(left - sum(widths[first:]), 0)
    for index in range(first, len(needs)):
        more = min(needs[index] - widths[index], spare)
        widths[index] += more
        spare -= more
    return widths


def jobs(entries: Sequence[Mapping[str, Any]], now: datetime, screen: Screen) -> str:
    """Table of jobs, in the order given."""
    if not entries:
        return "no jobs"
    wide = screen.width is None or screen.width >= WIDE
    headings = ["ID", "STATE", "AGE", "RAN", "EXIT", *(["REASON"] if wide else []), "COMMAND"]
    rows = [
        [
            job.get("id"),
            job.get("state"),
            since(job.get("created_at"), now),
            ran(job, now),
            ending(job),
            *([job.get("reason") or None] if wide else []),
            command(job),
        ]
        for job in entries
    ]
    return table(headings, rows, screen, cuttable=2 if wide else 1)


def things(
    entries: Sequence[Mapping[str, Any]], now: datetime, screen: Screen, nothing: str
) -> str:
    """Table of what the API lists, with whatever columns it sends; times become ages.

    An entry with a list of parts, as a queue has its lanes, becomes a row for each part.
    """
    rows = [row for entry in entries for row in _parts(entry)]
    if not rows:
        return nothing
    names = list(dict.fromkeys(name for row in rows for name in row))
    headings = [name.removesuffix("_at").upper().replace("_", " ") for name in names]
    cells = [[_cell(name, row.get(name), now) for name in names] for row in rows]
    return table(headings, cells, screen)


def _parts(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    own = dict(entry)
    for name, value in entry.items():
        if isinstance(value, list) and value and all(isinstance(part, Mapping) for part in value):
            del own[name]
            return [{**own, **part} for part in value]
    return [own]


def _cell(name: str, value: object, now: datetime) -> object:
    if name.endswith("_at") and instant(value):
        return away(value, now)
    return value


def job(data: Mapping[str, Any], now: datetime) -> str:
    """One job in full, a line a field, and its timeline."""
    shown = [
        ("id", data.get("id")),
        ("state", data.get("state")),
        ("reason", data.get("reason")),
        ("command", command(data)),
        ("exit", ending(data)),
        ("attempt", data.get("attempt")),
        ("queue", f"{_plain(data.get('queue'))} ({_plain(data.get('priority'))})"),
        ("agent", data.get("agent")),
        ("created", moment(data.get("created_at"), now)),
        ("started", moment(data.get("started_at"), now)),
        ("ended", moment(data.get("ended_at"), now)),
        ("next", moment(data.get("next_at"), now)),
        ("ran", ran(data, now)),
        ("usage", usage(data.get("usage"))),
    ]
    done = {name for name, _ in shown} | {
        *("exit_code", "signal", "priority", "created_at", "started_at", "ended_at", "next_at"),
        *("timeline", "epoch"),
    }
    shown += [(name, value) for name, value in data.items() if name not in done]
    lines = [
        f"{name:<12} {printable(value)}" for name, value in shown if _plain(value) not in ("", "-")
    ]
    timeline = data.get("timeline")
    if isinstance(timeline, list) and timeline:
        lines += ["", "timeline", *(_step(step) for step in timeline if isinstance(step, dict))]
    return "\n".join(lines)


def _step(step: Mapping[str, Any]) -> str:
    agent = step.get("agent")
    words = [_plain(step.get("at")), "", f"{_plain(step.get('state')):<9}"]
    words += [f"on {agent}:"] if agent else []
    words += [str(step["reason"])] if step.get("reason") else []
    return "  " + printable(" ".join(words))


def command(data: Mapping[str, Any]) -> str:
    """The command as a shell would take it."""
    words = data.get("command")
    if isinstance(words, list) and all(isinstance(word, str) for word in words):
        return shlex.join(words)
    return _plain(words)


def ending(data: Mapping[str, Any]) -> str:
    """Exit code or signal of the last attempt."""
    if data.get("signal"):
        return f"sig {_plain(data['signal'])}"
    return _plain(data.get("exit_code"))


def ran(data: Mapping[str, Any], now: datetime) -> str:
    """How long the last attempt ran, or has run."""
    if data.get("state") == "active":
        began = instant(_last_start(data) or data.get("started_at"))
        return "-" if began is None else duration((now - began).total_seconds())
    used = data.get("usage")
    wall_s = used.get("wall_s") if isinstance(used, Mapping) else None
    return duration(wall_s) if isinstance(wall_s, int | float) else "-"


def _last_start(data: Mapping[str, Any]) -> object:
    timeline = data.get("timeline")
    steps = timeline if isinstance(timeline, list) else []
    starts = [s.get("at") for s in steps if isinstance(s, Mapping) and s.get("state") == "active"]
    return starts[-1] if starts else None


def usage(value: object) -> str:
    """What a run used, in units for people."""
    if not isinstance(value, Mapping):
        return "-"
    return ", ".join(_used(str(name), amount) for name, amount in value.items() if amount)


def _used(name: str, amount: object) -> str:
    if isinstance(amount, int | float) and not isinstance(amount, bool):
        if name.endswith("_bytes"):
            return f"{name.removesuffix('_bytes').replace('_', ' ')} {size(amount)}"
        if name.endswith("_s"):
            return f"{name.removesuffix('_s').replace('_', ' ')} {duration(amount)}"
    return f"{name.replace('_', ' ')} {_plain(amount)}"


def instant(value: object) -> datetime | None:
    """Read an RFC 3339 time; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def since(value: object, now: datetime) -> str:
    """How long ago a time was, in its largest unit."""
    then = instant(value)
    if then is None:
        return "-"
    return _largest(max((now - then).total_seconds(), 0))


def away(value: object, now: datetime) -> str:
    """How far away a time is, in its largest unit: 5m ago, in 20s."""
    then = instant(value)
    if then is not None and then > now:
        return f"in {_largest((then - now).total_seconds())}"
    return f"{since(value, now)} ago"


def moment(value: object, now: datetime) -> str:
    """Show a time, and how far away it is."""
    then = instant(value)
    if then is None:
        return _plain(value)
    return f"{value} ({away(value, now)})"


def duration(seconds: float) -> str:
    """Show seconds: 250ms, 1.5s, 3m05s, 2h10m, 3d04h."""
    seconds = max(seconds, 0)
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:  # noqa: PLR2004 - a minute
        return f"{seconds:.1f}s".replace(".0s", "s")
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:  # noqa: PLR2004 - an hour
        return f"{minutes}m{rest:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours < 24 else f"{hours // 24}d{hours % 24:02}h"  # noqa: PLR2004


def _largest(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f}{unit}"
    return f"{seconds:.0f}s"


def size(count: float) -> str:
    """Show bytes in binary units: 512 B, 1.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:  # noqa: PLR2004
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
