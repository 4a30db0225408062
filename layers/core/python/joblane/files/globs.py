"""Globs that select a job's output files, and how they match paths.

`*`, `?` and `[a-z]` match within one component of a path, and `**` any number of components. The
names of files are a job's and may be hostile, so the time of a match is bounded: a component is
matched by an expression that does not backtrack (`fnmatch.translate`), and of several `**` only
the last one is tried again.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import translate
from typing import Final, Self

from joblane.files.paths import check_path

MAX_GLOBS: Final = 20
"""Most globs of a job."""

_ANY_DEPTH: Final = "**"


@dataclass(frozen=True, slots=True)
class Glob:
    """One glob, such as `out/**` or `report-?.csv`.

    Without a wildcard it selects that file; if it is a directory, all files below it.
    """

    text: str
    components: tuple[re.Pattern[str] | None, ...]
    """None stands for `**`."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError, which says what is wrong and does not repeat the glob."""
        check_path(text)
        parts = text.split("/")
        for part in parts:
            if _ANY_DEPTH in part and part != _ANY_DEPTH:
                raise ValueError("must have ** only as a whole component, such as out/**")
            if _has_unclosed(part):
                raise ValueError("must have a ] for each [; [[] matches the character [")
        if not any(letter in text for letter in "*?["):
            parts.append(_ANY_DEPTH)  # if it is a directory
        return cls(text, tuple(map(_compile, parts)))

    def matches(self, path: str) -> bool:
        """Whether it selects the file with a path."""
        return path == self.text or self._matches(path.split("/"))

    def spells(self, path: str) -> bool:
        """Whether it selects the file with a path and has each name that begins with a dot.

        As in a shell, where `*` stands for no such name.
        """
        dots = {name for name in path.split("/") if name.startswith(".")}
        return self.matches(path) and dots <= set(self.text.split("/"))

    def may_match_below(self, directory: str) -> bool:
        """Whether it may select files below a directory; `""` is the work directory."""
        if not directory:
            return True
        names = directory.split("/")
        for component, name in zip(self.components, names, strict=False):
            if component is None:
                return True
            if not component.match(name):
                return False
        return len(self.components) > len(names)

    def _matches(self, names: Sequence[str]) -> bool:
        """Match components with names, as `*` is matched in strings: here it is `**`.

        A `**` at the end stands for at least one name, that of the file.
        """
        at, name, again, taken = 0, 0, -1, 0
        while name < len(names):
            component = self.components[at] if at < len(self.components) else _NOTHING
            if component is None:
                again, taken, at = at, name, at + 1
            elif component.match(names[name]):
                at, name = at + 1, name + 1
            elif again >= 0:
                taken += 1
                at, name = again + 1, taken
            else:
                return False
        return at == len(self.components)


_NOTHING = re.compile(r"(?!)")


def _compile(part: str) -> re.Pattern[str] | None:
    return None if part == _ANY_DEPTH else re.compile(translate(part))


def _has_unclosed(part: str) -> bool:
    """Whether a component has a `[` without its `]`, as fnmatch reads it."""
    at = 0
    while (at := part.find("[", at)) >= 0:
        first = at + 2 if part[at + 1 : at + 2] == "!" else at + 1
        end = part.find("]", first + 1)  # a ] that comes first is a member of the set
        if end < 0:
            return True
        at = end + 1
    return False
