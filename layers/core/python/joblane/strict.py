"""JSON as the API takes it: stricter than most parsers, because what is unclear is refused.

Two parsers that read one text differently are how checks are passed by: a field that is there
twice, a number that is none, nesting that exhausts a stack. No message repeats a value.
"""

import json
import math
import re
from collections.abc import Sequence
from typing import Any

MAX_DEPTH = 32
"""Levels of objects and lists; a submission has five of its own, the rest is for its params."""


class NotStrict(ValueError):
    """A text that is not taken; the message says why, without repeating any of it."""


def check(text: str) -> None:
    """Raise NotStrict unless `text` is one JSON value (RFC 8259) that is read in one way only."""
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float
        )
    except NotStrict:
        raise
    except RecursionError:
        raise NotStrict(f"is nested deeper than {MAX_DEPTH} levels") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise NotStrict(f"is not JSON: {error.msg.lower()} at {place}") from None
    except ValueError:  # Python refuses to read a whole number of more than 4300 digits
        raise NotStrict("holds a number that is too long") from None
    if _depth(value) > MAX_DEPTH:
        raise NotStrict(f"is nested deeper than {MAX_DEPTH} levels")


def printable(name: str) -> str:
    """A name that the caller chose, cut short and without control characters."""
    return re.sub(r"[^\x20-\x7e]", "?", name)[:64]


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise NotStrict(f"has the field {printable(twice)} twice in one object")
    return found


def _constant(name: str) -> Any:  # noqa: ANN401 - never returns
    raise NotStrict(f"holds {name}, which is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise NotStrict("holds a number that is too large")
    return value


def _depth(value: object) -> int:
    """Levels of containers, counted without a stack of our own being exhausted."""
    depth, level = 0, [value]
    while level := [entry for entry in level if isinstance(entry, dict | list)]:
        depth += 1
        level = [
            member
            for entry in level
            for member in (entry.values() if isinstance(entry, dict) else entry)
        ]
    return depth
