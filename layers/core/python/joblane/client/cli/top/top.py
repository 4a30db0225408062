"""The command `top`: what needs attention, queues, fleets and agents on one screen.

What a refresh costs does not depend on jobs or on time. A refresh makes two requests of the API:
the summary, whose counts are kept for some seconds, and the queues with their lanes and rates. For
the role platform there are up to four more every 10 s (agents, a hundred in a request) and one
every 30 s (fleets); for operators one every 30 s (conditions). Nothing is computed by reading jobs.
"""

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle
from typing import TYPE_CHECKING, Annotated, Any

import typer

from joblane.client.answer import Answer
from joblane.client.answers import rows
from joblane.client.cli.options import Json, connect
from joblane.client.cli.queue import text as queue_text
from joblane.client.cli.text import terminal
from joblane.client.cli.text.live import watch
from joblane.client.cli.text.tables import screen
from joblane.client.cli.top import text as top_text
from joblane.client.cli.top.attention import points
from joblane.client.errors import AccessError, JoblaneError, NotFoundError
from joblane.client.models import AgentPage

if TYPE_CHECKING:
    from joblane.client.clients import Client

commands = typer.Typer()

EVERY_S = 5.0
"""The summary is counted every 5 s, and heartbeats are written every 10 s."""

AGENTS_EVERY_S = 10.0
"""Heartbeats are written every 10 s."""

RARELY_S = 30.0
"""Fleets and conditions: their routes ask Auto Scaling, or read many rows."""

LEAST_S = 2.0
"""Smallest interval: nothing that is shown changes more often."""

ROLES = {
    "agents": "for the role platform",
    "fleets": "for the role platform",
    "conditions": "for operators of a tenant",
}
"""What is not for every role, and for whom it is."""

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
        typer.Option(
            "-n", "--interval", metavar="SECONDS", min=LEAST_S, help="Refresh this often."
        ),
    ] = EVERY_S,
    once: Annotated[bool, typer.Option("--once", help="Show it once and exit.")] = False,
    json: Json = False,
) -> None:
    """Show what needs attention, queues, fleets and agents, refreshed until q or Ctrl-C.

    Rates are of the last minute. Jobs by state are those of your tenant. Agents and fleets need the
    role platform, conditions the role operator; parts that your role cannot read are named. Agents
    are read every 10 s at most, fleets and conditions every 30 s. A narrow terminal has fewer
    columns.
    Keys: q quits, s sorts queues, tab shows the next queue, space refreshes. --json prints a
    document per line.
    """
    readings = _Readings(connect(ctx))
    view = _View()
    if once:
        answer = readings.read()
        terminal.show(answer, lambda: view.text(answer), as_json=json)
    else:
        watch(readings.read, view.text, every_s, as_json=json, on_key=view.press)


class _Readings:
    """Reads what the caller may, each no more often than it changes.

    Without the summary or the queues there is no answer; without the rest there is a smaller one.
    """

    def __init__(self, client: "Client", clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    def read(self) -> dict[str, Any]:
        """Read the answers of the API; None stands for what is not known, and `unread` says why.

        Raises `JoblaneError`.
        """
        summary = self._client.summary().model_dump()
        scopes = (summary.get("caller") or {}).get("scopes") or ()
        platform, operator = "platform.read" in scopes, "admin.read" in scopes
        queues = self._client.queues().model_dump()
        parts = {
            "agents": self._keep("agents", AGENTS_EVERY_S, self._agents, may=platform),
            "fleets": self._keep("fleets", RARELY_S, self._client.fleets, may=platform),
            "conditions": self._keep("conditions", RARELY_S, self._client.conditions, may=operator),
        }
        found = {
            "summary": summary,
            "queues": queues,
            **{name: part.answer for name, part in parts.items()},
            "unread": {name: part.problem for name, part in parts.items() if part.problem},
        }
        return found | {"attention": [point.as_json() for point in points(found)]}

    def _keep(self, name: str, every_s: float, read: Callable[[], Answer], *, may: bool) -> "_Kept":
        """Return what was read before if that is not `every_s` old, or cannot be read anew."""
        if not may:
            return _Kept(None, ROLES[name])
        now = self._clock()
        kept = self._kept.get(name)
        if kept is None or now - kept.asked >= every_s:
            try:
                kept = _Kept(read().model_dump(), None, now)
            except (AccessError, NotFoundError):  # a role has less than the scopes of its token
                kept = _Kept(None, ROLES[name], now)
            except JoblaneError as error:
                if not error.retryable:
                    raise
                kept = _Kept(kept and kept.answer, f"no answer: {error}", now)
            self._kept[name] = kept
        return kept

    def _agents(self) -> Answer:
        agents = self._client.list_agents(MOST_AGENTS)
        return AgentPage({"entries": [agent.model_dump() for agent in agents]})


@dataclass(frozen=True, slots=True)
class _Kept:
    """A part of the screen, as it was last read."""

    answer: Any
    """None: it is not for the caller, or was never read."""
    problem: str | None
    """Why it is not read, or not the newest."""
    asked: float = 0.0
    """When, in seconds of the clock."""


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
