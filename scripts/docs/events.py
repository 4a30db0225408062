"""Writes the table of log events of docs/PROTOCOL.md: scripts/events, after a change."""

import logging
from dataclasses import fields
from pathlib import Path
from typing import Any

from ec2_agent import events as of_agent
from ec2_agent.log_event import Event
from ec2_agent.state import events as of_state
from scripts.docs.between import between

FILE = Path(__file__).parents[2] / "docs" / "PROTOCOL.md"

BEGIN = "<!-- events: written by scripts/events from ec2_agent/events.py and state/events.py -->\n"
END = "<!-- end of events -->\n"


def all_events() -> list[type[Event]]:
    """Every event, in the order of the files."""
    found = [value for module in (of_agent, of_state) for value in vars(module).values()]
    return [
        value
        for value in found
        if isinstance(value, type) and issubclass(value, Event) and value is not Event
    ]


def render() -> str:
    """The table, with an empty line before and after."""
    lines = ["| event | level | fields | what it means |", "|---|---|---|---|"]
    for event in all_events():
        of_class: Any = event  # each one is a dataclass
        names = ", ".join(f"`{field.name}`" for field in fields(of_class))
        level = logging.getLevelName(event.level).lower()
        meaning = " ".join((event.__doc__ or "").split())
        lines.append(f"| `{event.name()}` | {level} | {names} | {meaning} |")
    return "\n".join(["", *lines, "", ""])


def page(text: str) -> str:
    """The page with its table as it should be."""
    return between(text, BEGIN, render(), END)


if __name__ == "__main__":
    FILE.write_text(page(FILE.read_text(encoding="utf-8")), encoding="utf-8")
