"""Tables cut to the width of the terminal."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from joblane.client.cli.text.formats import parse_time, printable, relative_time
from joblane.client.cli.text.terminal import is_terminal

COLOURS: Mapping[str, str] = {
    "completed": "green",
    "active": "cyan",
    "failed": "red",
    "dead": "red",
    "blocked": "yellow",
    "retry": "yellow",
    "stale": "yellow",
    "expired": "yellow",
    "processing": "cyan",
    "partial_failure": "yellow",
    "alive": "green",
    "lost": "red",
    "gone": "red",
    "stuck": "red",
    "capacity": "yellow",
    "trouble": "red",
    "paused": "yellow",
}
"""Colour of a state."""

GAP = 2
"""Spaces between columns."""

NARROWEST = 8
"""Minimum width of a column that is cut."""


@dataclass(frozen=True, slots=True)
class Screen:
    """Width and colour of the output."""

    width: int | None = None
    """Characters; None (a file, a pipe) means unlimited."""
    colour: bool = False


def screen() -> Screen:
    """Width and colour of the terminal; neither when stdout is not a terminal."""
    if not is_terminal(sys.stdout):
        return Screen()
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Screen(shutil.get_terminal_size().columns, colour=colour)


def table(
    headings: Sequence[str], rows: Sequence[Sequence[object]], screen: Screen, cuttable: int = 1
) -> str:
    """Lay out rows under headings; only the last `cuttable` columns are cut to fit the screen.

    Ids are never cut, so that they can be copied; on a narrower screen lines wrap.
    """
    from io import StringIO  # rich takes 60 ms; only tables pay for it

    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

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
    """Widths of the columns: the cuttable ones share what the others leave.

    Width that one of them does not need goes to the next ones.
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


def records_table(
    entries: Sequence[Mapping[str, Any]], now: datetime, screen: Screen, nothing: str
) -> str:
    """Table of the API's records, a column for each field; times become ages.

    A record with a list of records, such as the lanes of a queue, becomes a row for each.
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
    if name.endswith("_at") and parse_time(value):
        return relative_time(value, now)
    return value
