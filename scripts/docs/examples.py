"""Programs of examples/, as pages show them.

A page has two marks for each:

    <!-- begin examples/NAME: written by scripts/reference -->
    <!-- end examples/NAME -->

A program is shown without what it says of itself in its first lines, a file of a project (a folder
of examples/) with its path there.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[2]

LANGUAGES = {".py": "python", ".sh": "sh", ".toml": "toml"}

_MARK = re.compile(
    r"^<!-- begin (examples/[^:\n]+): written by scripts/reference -->$", re.MULTILINE
)


def find_parts(page: str) -> Mapping[str, Callable[[], str]]:
    """The parts of a page that are programs, by the names in their marks."""
    return {name: partial(show, name) for name in _MARK.findall(page)}


def show(name: str) -> str:
    """A program as a fenced block; `name` begins with `examples/`."""
    file = ROOT / name
    text = file.read_text(encoding="utf-8")
    _, *folders, _ = Path(name).parts
    if folders:
        text = f"# {'/'.join(Path(name).parts[2:])}\n{text}"
    else:
        text = text.removeprefix(introduction(text))
    return f"```{LANGUAGES[file.suffix]}\n{text}```"


def introduction(text: str) -> str:
    """What a program says of itself before it begins: a docstring, or the comment of a script."""
    if found := re.match(r'""".*?"""\n+|(?:#.*\n)+', text, re.DOTALL if text[0] == '"' else 0):
        return found[0]
    raise ValueError("a program begins with what it is an example of")
