"""The command `top`: what needs attention, queues, fleets and agents on one screen."""

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle
from typing import TYPE_CHECKING, Annotated, Any

import typer

from joblane.client.answers import rows
from joblane.client.cli import queue_text, terminal, top_text
from joblane.client.cli.attention import points
from joblane.client.cli.live import watch
from joblane.client.cli.options import Json, connect
from joblane.client.cli.tables import screen
from joblane.client.errors import AccessError, NotFoundError

if TYPE_CHECKING:
    from joblane.client.clients import Client

commands = typer.Typer()

EVERY_S = 5.0
"""The summary is counted every 5 s, and heartbeats are written every 10 s."""

AGENTS_EVERY_S = 10.0
"""Heartbeats are written every 10 s."""

RARELY_S = 30.0
"""Fleets and conditions: their routes ask Auto Scaling, or read many rows."""

MOST_AGENTS = 400
"""Agents that are read, in requests of a hundred: as many as the summary counts."""

KEYS = "q quit, s sort queues, tab next queue, space refresh"

Fields = Mapping[str, Any]


@commands.command()
def top(
    ctx: typer.Context,
    *,
    every_s: Annotated[
        float,
        typer.Option("-n", "--interval", metavar="SECONDS", min=1, help="Refresh this often."),
    ] = EVERY_S,
    once: Annotated[bool, typer.Option("--once", help="Show it once and exit.")] = False,
    json: Json = False,
) -> None:
    """Show what needs attention, queues, fleets and agents, refreshed until q or Ctrl-C.

    Rates are of the last minute. Jobs by state are those of your tenant. Agents and fleets are for
    the role platform, conditions for operators. Agents are read every 10 s at most, fleets and
    conditions every 30 s. Keys: q quits, s sorts queues, tab shows the next queue, space refreshes.
    --json prints a document per line.
    """
    readings = _Readings(connect(ctx))
    view = _View()
    if once:
        answer = readings.read()
        terminal.show(answer, lambda: view.text(answer), as_json=json)
    else:
        watch(readings.read, view.text, every_s, as_json=json, on_key=view.press)


class _Readings:
    """Reads what the caller may, each no more often than it changes."""

    def __init__(self, client: "Client", clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._kept: dict[str, tuple[float, Any]] = {}

    def read(self) -> dict[str, Any]:
        """Read the answers of the API; None stands for what the caller may not read."""
        summary = self._client.summary()
        scopes = (summary.get("caller") or {}).get("scopes") or ()
        platform, operator = "platform.read" in scopes, "admin.read" in scopes
        found = {
            "summary": summary,
            "queues": self._client.queues(),
            "agents": self._keep("agents", AGENTS_EVERY_S, self._agents) if platform else None,
            "fleets": self._keep("fleets", RARELY_S, self._client.fleets) if platform else None,
            "conditions": (
                self._keep("conditions", RARELY_S, self._client.conditions) if operator else None
            ),
        }
        return found | {"attention": [point.as_json() for point in points(found)]}

    def _keep(self, name: str, every_s: float, read: Callable[[], Any]) -> Any:  # noqa: ANN401 - JSON
        """Return what was read before if that is not `every_s` old; None if it is refused."""
        now = self._clock()
        before = self._kept.get(name)
        if before is None or now - before[0] >= every_s:
            try:
                before = now, read()
            except (AccessError, NotFoundError):  # a role has less than the scopes of its token
                before = now, None
            self._kept[name] = before
        return before[1]

    def _agents(self) -> Fields:
        return {"entries": list(self._client.list_agents(MOST_AGENTS))}


@dataclass
class _View:
    """What the keys have chosen to show."""

    sort: str = top_text.SORTS[0]
    queue: int | None = None
    """The queue that is shown in detail, by its place; None shows everything."""
    _queues: int = 0
    _sorts: Any = field(default_factory=lambda: cycle((*top_text.SORTS[1:], top_text.SORTS[0])))

    def press(self, key: str) -> None:
        """Change what is shown."""
        if key == "s":
            self.sort = next(self._sorts)
        elif key == "\t":
            following = 0 if self.queue is None else self.queue + 1
            self.queue = following if following < self._queues else None

    def text(self, answer: Fields) -> str:
        """Show it, with the keys at the end if there is a terminal."""
        queues = rows(answer["queues"])
        self._queues = len(queues)
        size = screen()
        if self.queue is not None and self.queue < len(queues):
            shown = queue_text.queue_details(queues[self.queue], datetime.now(UTC), size)
        else:
            height = None if size.width is None else shutil.get_terminal_size().lines - 4
            found = points(answer)
            shown = top_text.overview(answer, found, size, height, self.sort)
        return shown if size.width is None else f"{KEYS}; sorted by {self.sort}\n\n{shown}"
