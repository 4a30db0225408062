"""The segments of a key, and the name that they give it."""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field

from joblane.formats.pointer import parse_pointer, resolve

MAX_SEGMENT_BYTES = 200
"""Longest segment, as UTF-8."""

MAX_SEGMENTS = 10

HASH_CHARS = 32
"""Hexadecimal digits of a key's name: 128 bits."""


Constant = bool | str | int | float
"""A constant; a boolean is no number: `true` and 1 are different segments."""


def check_segment(value: object) -> Constant:
    """Return a segment. Raises ValueError, which does not repeat it, for what cannot be one."""
    if not isinstance(value, Constant):
        raise ValueError("must be a string, a number or a boolean")  # noqa: TRY004 - what pydantic reports
    if len(_text(value).encode("utf-8", "surrogatepass")) > MAX_SEGMENT_BYTES:
        raise ValueError(f"must be at most {MAX_SEGMENT_BYTES} bytes")
    return value


def check_template(value: str | float) -> Constant:
    """Return a segment of a template. Raises ValueError for a pointer that is none."""
    if isinstance(value, str) and value.startswith("/"):
        parse_pointer(value)
    return check_segment(value)


Segment = Annotated[Constant, BeforeValidator(check_segment)]
"""A constant: the strings `"1"` and the number 1 are different segments."""

TemplateSegment = Annotated[Constant, BeforeValidator(check_template)]
"""A constant, or a JSON Pointer to one: a string that begins with `/`."""

Segments = Annotated[tuple[Segment, ...], Field(min_length=1, max_length=MAX_SEGMENTS)]
Template = Annotated[tuple[TemplateSegment, ...], Field(min_length=1, max_length=MAX_SEGMENTS)]


class NoSegment(ValueError):
    """A pointer of a template leads to no segment; the text says what is wrong there."""

    def __init__(self, pointer: str, problem: str) -> None:
        super().__init__(problem)
        self.pointer = pointer


def fill_in(template: Sequence[Constant], document: object) -> tuple[Constant, ...]:
    """Replace the pointers of a template by what they lead to. Raises NoSegment."""
    return tuple(_fill_in(segment, document) for segment in template)


def _fill_in(segment: str | float, document: object) -> Constant:
    if not isinstance(segment, str) or not segment.startswith("/"):
        return segment
    try:
        return check_segment(resolve(document, segment))
    except ValueError as problem:
        raise NoSegment(segment, str(problem)) from None


@dataclass(frozen=True, slots=True)
class KeyName:
    """The name of a key among those of a tenant."""

    scope: str
    """A job type; `command`; or `policy.<name>` for a policy of joblane.toml."""
    hash: str
    """Of the segments (`key_hash`)."""

    @classmethod
    def of(cls, scope: str, segments: Sequence[Constant]) -> Self:
        """The name of the key of some segments."""
        return cls(scope, key_hash(segments))

    def encode(self) -> str:
        """Encode for a job's row: `<scope>#<hash>`."""
        return f"{self.scope}#{self.hash}"

    @classmethod
    def decode(cls, text: str) -> Self:
        """Inverse of `encode`."""
        scope, _, digits = text.partition("#")
        return cls(scope, digits)


def to_argument(segment: str | float) -> str:
    """A segment as an argument of the command line: inverse of `from_argument`."""
    if not isinstance(segment, str):
        return json.dumps(_normal(segment))
    plain = from_argument(segment) == segment and isinstance(from_argument(segment), str)
    return segment if plain else json.dumps(segment, ensure_ascii=False)


def from_argument(text: str) -> Constant:
    """A segment from an argument of the command line.

    A JSON number is a number, true and false are booleans, a JSON string in its quotes is that
    string, and anything else is a string as it stands. Raises ValueError for what cannot be a
    segment.
    """
    try:
        value = json.loads(text, parse_constant=str)
    except ValueError:
        return check_segment(text)
    is_constant = isinstance(value, Constant)
    return check_segment(value if is_constant and _is_finite(value) else text)


def parse_segments(text: str) -> tuple[Constant, ...]:
    """Segments from a JSON array. Raises ValueError, which does not repeat them."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, list):
        raise ValueError("must be a JSON array")  # noqa: TRY004 - one error for all that is wrong
    if not 1 <= len(values) <= MAX_SEGMENTS:
        raise ValueError(f"must have 1 to {MAX_SEGMENTS} entries")
    return tuple(map(check_segment, values))


def segments_text(segments: Sequence[Constant]) -> str:
    """The segments as a JSON array, for people and for the hash."""
    return json.dumps([_normal(segment) for segment in segments], ensure_ascii=False)


def key_hash(segments: Sequence[Constant]) -> str:
    """The name of a key among those of its scope: `HASH_CHARS` hexadecimal digits.

    It is over canonical JSON with a version, so `["a", "b:c"]` and `["a:b", "c"]` differ, and other
    ways to write segments can be added.
    """
    canonical = json.dumps(
        {"version": 1, "segments": [_normal(segment) for segment in segments]},
        sort_keys=True,
        separators=(",", ":"),
    )
    return hashlib.sha256(canonical.encode()).hexdigest()[:HASH_CHARS]


def _normal(segment: str | float) -> Constant:
    """JSON knows one kind of number: 1.0 is 1."""
    if isinstance(segment, float) and segment.is_integer():
        return int(segment)
    return segment


def _is_finite(value: str | float) -> bool:
    return isinstance(value, str) or math.isfinite(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
