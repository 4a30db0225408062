"""Commands that pages print."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

_EXAMPLE = re.compile(r"<!-- begin (examples/.*?):.*?<!-- end \1 -->", re.DOTALL)
"""Programs that tests/e2e/test_examples.py runs."""
_BLOCK = re.compile(r"^ *```(sh|bash|console)[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_OPENED = re.compile(r"^(?:for|while|if)\b")
_HEREDOC = re.compile(r"<<'?(\w+)'?")


class Command(NamedTuple):
    """What a person would type at a prompt."""

    page: str
    text: str

    @property
    def program(self) -> str:
        """The first word that is no variable's value."""
        words = re.sub(r"^(?:\w+=\$?\(|\()?(?:\w+=[^\s(]\S* )*", "", self.text).split()
        return words[0] if words else self.text


def commands() -> Iterator[Command]:
    """All commands of README.md and docs, but for decisions and the generated usage of cli.md."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for path in found:
        page = str(path.relative_to(ROOT))
        if "/decisions/" in page or page == "docs/reference/cli.md":
            continue
        text = _EXAMPLE.sub("", path.read_text(encoding="utf-8"))
        for kind, block in _BLOCK.findall(text):
            for command in split(block, prompts=kind == "console"):
                yield Command(page, command)


def split(block: str, *, prompts: bool = False) -> Iterator[str]:
    """Cut a block into commands; with `prompts`, those are behind `$ ` and the rest is output."""
    lines = re.sub(r"\\\n\s*", "", block).splitlines()
    if prompts:
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    held: list[str] = []
    for line in lines:
        held.append(line if held else line.strip())
        text = "\n".join(held)
        if _is_whole(text):
            held = []
            if text and not text.startswith("#"):
                yield text
    if held:
        raise ValueError(f"a command that does not end: {held[0]}")


def _is_whole(text: str) -> bool:
    if (found := _HEREDOC.search(text)) and not text.endswith(f"\n{found[1]}"):
        return False
    if _OPENED.match(text) and not re.search(r"\b(?:done|fi)\b(?!.*\b(?:do|then)\b)", text):
        return False
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    return True
