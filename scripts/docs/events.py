"""The generated part of docs/reference/agent-protocol.md: the events of the agent's log."""

import logging
from typing import Any

from ec2_agent.logging import events as of_agent
from ec2_agent.logging.event import Event
from ec2_agent.state import events as of_state


def all_events() -> list[Event[Any]]:
    """Every event, in the order of the files."""
    found = [value for module in (of_agent, of_state) for value in vars(module).values()]
    return [value for value in found if isinstance(value, Event)]


def events() -> str:
    """One row for each event."""
    lines = ["| event | level | fields | meaning |", "|---|---|---|---|"]
    for event in all_events():
        names = ", ".join(f"`{name}`" for name in event.fields)
        level = logging.getLevelName(event.level).lower()
        meaning = " ".join(event.meaning.split())
        lines.append(f"| `{event.name}` | {level} | {names} | {meaning} |")
    return "\n".join(lines)
