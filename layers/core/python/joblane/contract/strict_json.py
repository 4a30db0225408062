"""Strict JSON: refuses what parsers may read differently.

A check can be bypassed where two parsers read one text differently: duplicate fields, NaN, nesting
that exhausts a stack. No message repeats a value.
"""

import json
import math
import re
from collections.abc import Sequence
from typing import Any

MAX_DEPTH = 32
"""Levels of objects and lists; a submission has five, the rest is for its params."""


class NotStrict(ValueError):
    """A text that is refused; the message says why, without repeating any of it."""


def check(text: str) -> None:
    """Raise NotStrict unless `text` is one unambiguous JSON value (RFC 8259)."""
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
    """A name from the caller, cut short and without control characters."""
    return re.sub(r"[^\x20-\x7e]", "?", name)[:64]


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise NotStrict(f"has the field {printable(twice)} twice in one object")
    return found


def _constant(name: str) -> Any:
    raise NotStrict(f"holds {name}, which is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise NotStrict("holds a number that is too large")
    return value


def _depth(value: object) -> int:
    """Levels of containers, counted without recursion."""
    depth, level = 0, [value]
    while level := [entry for entry in level if isinstance(entry, dict | list)]:
        depth += 1
        level = [
            member
            for entry in level
            for member in (entry.values() if isinstance(entry, dict) else entry)
        ]
    return depth
