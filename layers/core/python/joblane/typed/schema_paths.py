"""How often the parts of a JSON Schema are applied: what a validator does for a value.

A validator follows each reference anew. Sixty definitions, each `allOf` the one before twice, have
4 KB and 2^59 paths, and all tenants wait for the function that validates. So paths are counted when
a type is pushed; and before params are validated, for what depends on them: their size, and how
deep they follow a definition that refers to itself.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

MAX_PATHS: Final = 10_000
"""Paths through a schema; one of pydantic for 100 fields has some 200."""

FAST: Final = 200_000_000
"""Paths times parts of a value that are validated without a closer look: 8 million took 0.08 s."""

STEPS: Final = 200_000
"""Applications that are allowed for every value."""

STEPS_EACH: Final = 10
"""More of them for each part of a value."""

_HERE_ONE: Final = ("not", "if", "then", "else")
_HERE_LIST: Final = ("allOf", "anyOf", "oneOf")
_REFERENCES: Final = ("$ref", "$dynamicRef")
_BELOW_ONE: Final = (
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "items",
    "contains",
    "unevaluatedItems",
)
_BELOW_MAP: Final = ("properties", "patternProperties")


class _Part(NamedTuple):
    """A schema within a schema."""

    schema: Any
    place: str


class TooManyPaths(ValueError):
    """A schema that takes too long; the text says where."""


class UnknownPlace(ValueError):
    """A reference that is not followed here; the text says which."""


class SchemaPaths:
    """The paths through one JSON Schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Count them. Raises TooManyPaths and UnknownPlace."""
        self._schema = schema
        self._anchors = dict(_anchors(schema))
        self._applied: dict[int, list[Any]] = {}
        """What a schema within this one applies to the same part of a value, by its id()."""
        self.count = 0
        self.recursive = False
        """Whether a definition refers to itself: the paths depend on the value."""
        self._count()

    def allow(self, value: object) -> bool:
        """Whether the schema is applied to parts of a value as often as is allowed at most."""
        parts = _size(value)
        if not self.recursive and parts * self.count <= FAST:
            return True
        left = STEPS + STEPS_EACH * parts
        nothing = frozenset[int]()
        waiting: list[tuple[Any, Any, frozenset[int]]] = [(self._schema, value, nothing)]
        while waiting:
            schema, here, open_here = waiting.pop()
            left -= 1
            if left < 0:
                return False
            if isinstance(schema, Mapping) and (key := id(schema)) not in open_here:
                if (applied := self._applied.get(key)) is None:
                    applied = [part.schema for part in self._here(_Part(schema, ""))]
                    self._applied[key] = applied
                if applied:
                    inside = open_here | {key}
                    waiting += [(part, here, inside) for part in applied]
                if isinstance(here, dict | list):
                    waiting += [(part, below, nothing) for part, below in _below(schema, here)]
        return True

    def _count(self) -> None:
        waiting: list[tuple[_Part, frozenset[int]]] = [(_Part(self._schema, ""), frozenset())]
        while waiting:
            part, opened = waiting.pop()
            self.count += 1
            if self.count > MAX_PATHS:
                raise TooManyPaths(
                    f"{part.place}: is reached by too many paths; a schema may have {MAX_PATHS},"
                    " with each reference followed anew"
                )
            if not isinstance(part.schema, Mapping):
                continue
            if id(part.schema) in opened:
                self.recursive = True
                continue
            if part.place and "$id" in part.schema:
                raise UnknownPlace(f"{part.place}.$id: is allowed at the top only")
            inside = opened | {id(part.schema)}
            waiting += [(each, inside) for each in (*self._here(part), *_all_below(part))]

    def _here(self, part: _Part) -> Iterator[_Part]:
        """What is applied to the same part of a value."""
        schema, place = part
        for name in _REFERENCES:
            if isinstance(text := schema.get(name), str):
                yield self._target(text, f"{place}.{name}".lstrip("."))
        yield from _members(schema, place, _HERE_ONE)
        for name in _HERE_LIST:
            if isinstance(given := schema.get(name), list):
                yield from (_Part(each, f"{place}.{name}.{n}") for n, each in enumerate(given))
        yield from _list_named(schema, place, "dependentSchemas")

    def _target(self, text: str, place: str) -> _Part:
        """What a reference refers to."""
        found: Any = self._schema
        where, _, fragment = text.partition("#")
        if where:
            raise UnknownPlace(f"{place}: must begin with #")
        if fragment and not fragment.startswith("/"):
            if fragment not in self._anchors:
                raise UnknownPlace(f"{place}: there is no such anchor")
            return self._anchors[fragment]
        names = [
            unquote(name).replace("~1", "/").replace("~0", "~") for name in fragment.split("/")[1:]
        ]
        try:
            for name in names:
                found = found[int(name)] if isinstance(found, list) else found[name]
        except (KeyError, IndexError, ValueError, TypeError):
            raise UnknownPlace(f"{place}: refers to nothing") from None
        return _Part(found, ".".join(names))


def _anchors(schema: Any, place: str = "") -> Iterator[tuple[str, _Part]]:
    """The names that references may use, wherever they are."""
    if isinstance(schema, Mapping):
        for name in ("$anchor", "$dynamicAnchor"):
            if isinstance(text := schema.get(name), str):
                yield text, _Part(schema, place)
        for name, each in schema.items():
            yield from _anchors(each, f"{place}.{name}".lstrip("."))
    elif isinstance(schema, list):
        for number, each in enumerate(schema):
            yield from _anchors(each, f"{place}.{number}".lstrip("."))


def _members(schema: Mapping[str, Any], place: str, names: tuple[str, ...]) -> Iterator[_Part]:
    for name in names:
        if name in schema:
            yield _Part(schema[name], f"{place}.{name}".lstrip("."))


def _list_named(schema: Mapping[str, Any], place: str, name: str) -> Iterator[_Part]:
    if isinstance(given := schema.get(name), Mapping):
        for key, each in given.items():
            yield _Part(each, f"{place}.{name}.{key}".lstrip("."))


def _all_below(part: _Part) -> Iterator[_Part]:
    """What may be applied to parts of a value below this one."""
    schema, place = part
    yield from _members(schema, place, _BELOW_ONE)
    for name in _BELOW_MAP:
        yield from _list_named(schema, place, name)
    if isinstance(given := schema.get("prefixItems"), list):
        yield from (_Part(each, f"{place}.prefixItems.{n}") for n, each in enumerate(given))


def _below(schema: Mapping[str, Any], value: object) -> Iterator[tuple[Any, Any]]:
    """What is applied to parts of this value; a pattern counts as one that matches every name."""
    match value:
        case dict():
            known = schema.get("properties") or {}
            yield from ((known[name], value[name]) for name in value if name in known)
            patterns = [*(schema.get("patternProperties") or {}).values()]
            yield from ((each, below) for each in patterns for below in value.values())
            for name in ("additionalProperties", "unevaluatedProperties"):
                if name in schema:
                    rest = (below for key, below in value.items() if key not in known)
                    yield from ((schema[name], below) for below in rest)
            if "propertyNames" in schema:
                yield from ((schema["propertyNames"], name) for name in value)
        case list():
            first = schema.get("prefixItems") or []
            yield from zip(first, value, strict=False)
            if "items" in schema:
                yield from ((schema["items"], each) for each in value[len(first) :])
            for name in ("contains", "unevaluatedItems"):
                if name in schema:
                    yield from ((schema[name], each) for each in value)


def _size(value: object) -> int:
    """Number of the parts of a value, itself among them."""
    size, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        size += 1
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return size
