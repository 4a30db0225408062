"""Where in a TOML file a string stands: `tomllib` reads values without their places.

[queues.big]
filter = '''              the string begins at the line below the key,
memory_mb > 4000 &&       and its second line is line 4 of the file
tenan == "acme"
'''
"""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

_TOKEN: Final = re.compile(
    r"#[^\n]*"
    r'|"""(?:\\.|[^\\])*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
"""A comment or a string. Outside of both, TOML has neither quotes nor `#`."""

_UNIT: Final = re.compile(
    r"\\[ \t]*\n[ \t\n]*|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\.|.", re.DOTALL
)
"""What stands for a character between double quotes; the first alternative stands for none."""

_MARK: Final = "joblane: this string"


@dataclass(frozen=True, slots=True)
class StringPlace:
    """Where a string stands."""

    text: str
    """The whole file, with `\\n` between lines."""
    starts: tuple[int, ...]
    """Index in the file of each character of the string, and of its end."""
    value: str

    def position(self, line: int, column: int) -> tuple[int, int]:
        """Line and column in the file of a line and a column of the string, all from 1."""
        lines = self.value.split("\n")
        offset = sum(len(before) + 1 for before in lines[: line - 1]) + column - 1
        index = self.starts[min(offset, len(self.starts) - 1)]
        before = self.text[:index]
        return before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1


def find_string(text: str, key: Sequence[str]) -> StringPlace:
    """Find the string that a valid TOML file has for a key, such as `("queues", "big", "filter")`.

    Raises KeyError if the file has no string for it.
    """
    text = text.replace("\r\n", "\n")  # as tomllib reads it
    wanted = _value(tomllib.loads(text), key)
    for token in _TOKEN.finditer(text):
        start, end, quoted = token.start(), token.end(), token.group()
        if quoted.startswith("#") or tomllib.loads(f"x = {quoted}")["x"] != wanted:
            continue
        # The same string may be the value of another key, or a key: this one is where the value
        # changes with the token.
        try:
            changed = _value(tomllib.loads(f'{text[:start]}"{_MARK}"{text[end:]}'), key)
        except (tomllib.TOMLDecodeError, KeyError):
            continue
        if changed == _MARK:
            return StringPlace(text, _starts(quoted, start), wanted)
    raise KeyError(".".join(key))


def _value(declared: dict[str, Any], key: Sequence[str]) -> str:
    found: Any = declared
    for part in key:
        found = found[part]
    if not isinstance(found, str):
        raise KeyError(".".join(key))
    return found


def _starts(quoted: str, start: int) -> tuple[int, ...]:
    """Index in the file of each character of a string that begins there with its quotes."""
    quotes = 3 if quoted[:3] in {"'''", '"""'} else 1
    begin, end = quotes, len(quoted) - quotes
    if quotes > 1 and quoted[begin : begin + 1] == "\n":
        begin += 1  # is not part of the string
    if quoted[0] == "'":
        return tuple(range(start + begin, start + end + 1))
    units = _UNIT.finditer(quoted, begin, end)
    found = [start + unit.start() for unit in units if not re.match(r"\\[ \t]*\n", unit.group())]
    return (*found, start + end)
