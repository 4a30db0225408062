"""The page docs/RUNBOOK.md, read for its tests."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[2] / "docs" / "RUNBOOK.md"
INTRODUCTION = "Before you begin"


class Block(NamedTuple):
    """A fenced block of commands."""

    section: str
    number: int
    """From 1, in its section."""
    text: str
    in_account: bool
    """Whether it needs a real account: its fence says `sh account`."""


def sections() -> dict[str, str]:
    """Return the text below each heading, in order, without the introduction."""
    parts = re.split(r"^## (.+)\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def blocks() -> Iterator[Block]:
    """Yield all blocks of commands, in the order of the page."""
    for section, text in sections().items():
        found = re.findall(r"^```([^\n]*)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
        for number, (kind, content) in enumerate(found, 1):
            yield Block(section, number, content, kind == "sh account")


def inline(text: str) -> set[str]:
    """Return the code in a text that is outside of blocks."""
    return set(
        re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    )
