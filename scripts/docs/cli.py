"""The generated part of docs/reference/cli.md: the help of every command, as typer writes it."""

import re
from typing import Any

import typer
from typer.cli import get_docs_for_click

from joblane.client.cli.app import app


def commands() -> str:
    """Every command with its options, one heading lower than typer has them."""
    command = typer.main.get_command(app)
    _say_whole_sentences(command)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="joblane")
    text = re.sub(r"^(Exit codes\n(?:.+\n)+)", r"```text\n\1```\n", text, flags=re.MULTILINE)
    return re.sub(r"^#", "##", re.sub(r"\n{3,}", "\n\n", text), flags=re.MULTILINE).strip()


def _say_whole_sentences(group: Any) -> None:
    """Have lists of commands say the first sentence of each: typer cuts it to 45 characters."""
    for command in group.commands.values():
        command.short_help = command.get_short_help_str(limit=10_000)
        if hasattr(command, "commands"):
            _say_whole_sentences(command)
