"""The commands by name, each with its module, which is imported when the command is used.

All modules together take 0.1 s of CPU to import, one takes 0.01 s. docs/decisions/1658 has the
reasons.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final

import typer
import typer.main

COMMANDS: Final = {
    **dict.fromkeys(("run", "submit"), "job.submit"),
    **dict.fromkeys(("files", "outputs"), "files.files"),
    "download": "job.download",
    **dict.fromkeys(("ls", "get", "logs", "health", "audit"), "job.read"),
    "results": "group.groups",
    "why": "job.why",
    "stats": "job.stats",
    "wait": "job.wait",
    "top": "top.top",
    "edit": "job.edit",
    **dict.fromkeys(("cancel", "retry", "resubmit", "hide", "unhide", "delete"), "job.change"),
    **dict.fromkeys(("requeue", "restart-failed"), "job.change"),
    "console": "console",
    **dict.fromkeys(("login", "logout", "token"), "login"),
    "completion": "completion",
    **dict.fromkeys(("agent", "doctor"), "host"),
}
"""Modules below `joblane.client.cli` by the names of their commands, in the order of the help."""

GROUPS: Final = {
    "queues": "queue.queues",
    "schedules": "schedule.schedules",
    "agents": "agents",
    "dlq": "job.dead_letters",
    "conditions": "conditions",
    "types": "typed.types",
    "keys": "keys",
}
"""Modules by the names of groups of commands."""


class LoadedCommands(Mapping[str, Any]):
    """The commands by name; a command's module is imported when the command is asked for."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """Import and build a command. Raises `KeyError` for an unknown name."""
        if name not in self._loaded:
            module = import_module(f"joblane.client.cli.{(COMMANDS | GROUPS)[name]}")
            # Plain help: it reads the same in a pipe, and needs no rich.
            parent = typer.Typer(rich_markup_mode=None)
            parent.add_typer(module.commands, name=name if name in GROUPS else None)
            self._loaded |= typer.main.get_group(parent).commands
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        """Whether there is such a command; imports nothing."""
        return name in COMMANDS or name in GROUPS

    def __iter__(self) -> Iterator[str]:
        """Names, in the order of the help."""
        yield from COMMANDS
        yield from GROUPS

    def __len__(self) -> int:
        """Return how many there are."""
        return len(COMMANDS) + len(GROUPS)
