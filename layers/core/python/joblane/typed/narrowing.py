"""Which documents a JSON Schema no longer allows that an earlier one allowed. Pure.

It errs to one side: a difference that it cannot judge counts as one that refuses something, since
somebody is asked then, and jobs that are submitted in the meantime are not refused.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

_SAYS_NOTHING: Final = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
    | {"$comment", "$schema", "$id", "$defs", "definitions", "discriminator"}
)
"""Keywords that refuse nothing by themselves. `format` is not one: what the schema lets pass there,
the handler's model refuses when the job runs."""

_LEAST: Final = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_MOST: Final = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})

_OF_SCHEMAS: Final = frozenset({"properties", "items", "additionalProperties"})

_LISTS: Final = frozenset({"allOf", "prefixItems"})
"""Keywords with a list of schemas that all count."""

MAX_FOUND: Final = 20
"""Differences that are named, of those of one schema."""

_DEPTH: Final = 50
"""Schemas within each other that are compared."""

MOST_COMPARED: Final = 5000
"""Pairs of schemas that are compared; what is left then counts as refused. Unions of unions that
refer to each other have more combinations than can be tried."""


class _Pair:
    """Two schemas of params, with what their references lead to."""

    def __init__(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        self.old, self.new = old, new
        self._same_definitions = all(
            _text(old.get(name)) == _text(new.get(name)) for name in ("$defs", "definitions")
        )
        self._within: set[tuple[int, int]] = set()
        """Pairs that are being compared. A schema may refer to itself: what comes again within
        itself refuses nothing that it does not refuse the first time."""
        self._compared = 0

    def differences(self, old: Any, new: Any, at: str, depth: int = 0) -> Iterator[str]:
        """What `new` refuses and `old` does not, in words."""
        old, new = _resolve(self.old, old), _resolve(self.new, new)
        pair = id(old), id(new)
        if new is True or new == {} or old is False or pair in self._within:
            return
        old = {} if old is True else old
        self._compared += 1
        if not isinstance(old, dict) or not isinstance(new, dict):
            if not self._same(old, new):
                yield f"{at} has another schema"
        elif depth == _DEPTH or self._compared > MOST_COMPARED:
            yield f"{at} has too many schemas in it to be compared"
        else:
            self._within.add(pair)
            try:
                yield from self._of_objects(old, new, at, depth)
            finally:
                self._within.discard(pair)

    def _of_objects(
        self, old: dict[str, Any], new: dict[str, Any], at: str, depth: int
    ) -> Iterator[str]:
        before, after = _branches(old), _branches(new)
        if before is not None or after is not None:
            for branch in before or [old]:
                if not any(self._accepts(branch, to, at, depth) for to in after or [new]):
                    yield f"{at} no longer takes {_short(branch)}"
            if after is None:  # each branch was compared to the whole of it
                return
            union = "anyOf" if "anyOf" in new else "oneOf"
            new = {name: value for name, value in new.items() if name != union}
        for keyword in sorted(new.keys() - _SAYS_NOTHING):
            given, wanted = old.get(keyword), new[keyword]
            if keyword in _OF_SCHEMAS | _LISTS or not self._same(given, wanted):
                yield from self._keyword(keyword, given, wanted, (old, new), at, depth)
        yield from _closed(old, new, at)

    def _same(self, before: Any, after: Any) -> bool:
        """Whether two values are the same text, with references that lead to the same."""
        text = _text(before)
        return text == _text(after) and (self._same_definitions or '"$ref"' not in text)

    def _accepts(self, old: Any, new: Any, at: str, depth: int) -> bool:
        return next(self.differences(old, new, at, depth + 1), None) is None

    def _keyword(
        self, keyword: str, before: Any, after: Any, owners: tuple[Any, Any], at: str, depth: int
    ) -> Iterator[str]:
        match keyword:
            case "properties":
                for name, schema in after.items():
                    if name in (before or {}):
                        yield from self.differences(before[name], schema, f"{at}.{name}", depth + 1)
            case "items" | "additionalProperties":
                where = f"{at}[]" if keyword == "items" else f"{at}.*"
                before = True if before is None else before
                if after is not False:
                    yield from self.differences(before, after, where, depth + 1)
                elif keyword == "items":
                    yield f"{where} is not allowed"
            case "allOf" | "prefixItems" if _as_long(before, after):
                for number, pair in enumerate(zip(before, after, strict=True)):
                    where = at if keyword == "allOf" else f"{at}[{number}]"
                    yield from self.differences(*pair, where, depth + 1)
            case "type" | "enum":
                yield from _fewer_values(keyword, before, after, owners[0], at)
            case _:
                yield from _plain_keyword(keyword, before, after, at)


def _plain_keyword(keyword: str, before: Any, after: Any, at: str) -> Iterator[str]:
    """What a keyword refuses that has no schemas in it."""
    if keyword == "required":
        yield from (f"{at}.{name} is required" for name in after if name not in (before or ()))
    elif keyword in _LEAST:
        if before is None or after > before:
            yield f"{at} has {keyword} {after:g}"
    elif keyword in _MOST:
        if before is None or after < before:
            yield f"{at} has {keyword} {after:g}"
    elif keyword != "uniqueItems":
        yield f"{at} has another {keyword}"
    elif after:
        yield f"{at} must have no entry twice"


def _fewer_values(
    keyword: str, before: Any, after: Any, old: Mapping[str, Any], at: str
) -> Iterator[str]:
    """What a `type` or an `enum` no longer takes."""
    if before is None:
        if not _implied(old, keyword, after):
            yield f"{at} has a {keyword}: {_short(after)}"
        return
    lost = _values(before) - _values(after) - _integers(keyword, after)
    if lost:
        yield f"{at} no longer takes {', '.join(sorted(lost))}"


def refused_by(old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """What `new` refuses of what `old` allowed: sentences with paths that begin with `name`."""
    found: list[str] = []
    for each in _Pair(old, new).differences(old, new, name):
        if each not in found:
            found.append(each)
        if len(found) == MAX_FOUND:
            break
    return tuple(found)


def _closed(old: Mapping[str, Any], new: Mapping[str, Any], at: str) -> Iterator[str]:
    """What is refused once no other members are allowed: all others, or those that went."""
    if new.get("additionalProperties") is not False:
        return
    if old.get("additionalProperties") is not False:
        yield f"{at} takes no other members"
    gone = sorted(old.get("properties", {}).keys() - new.get("properties", {}).keys())
    yield from (f"{at}.{name} is gone" for name in gone)


def _branches(schema: Mapping[str, Any]) -> list[Any] | None:
    """The schemas of which one must take a value; None without a union.

    Of `oneOf` only with a `discriminator`, a member that says which one: another value may be taken
    by two of them, so by none.
    """
    found: list[Any] | None = schema.get("anyOf")
    return schema.get("oneOf") if found is None and "discriminator" in schema else found


def _as_long(before: Any, after: Any) -> bool:
    return isinstance(before, list) and isinstance(after, list) and len(before) == len(after)


def _resolve(root: Mapping[str, Any], schema: Any) -> Any:
    """The schema that a plain reference leads to: `#/$defs/Name`, as pydantic writes them.

    What stands beside the reference counts as well.
    """
    for _ in range(_DEPTH):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        found: Any = root
        for part in reference[2:].split("/"):
            found = found.get(part) if isinstance(found, dict) else None
        if not isinstance(found, dict):
            return schema
        own = schema.keys() - _SAYS_NOTHING - {"$ref"}
        schema = {**found, **{name: schema[name] for name in own}} if own else found
    return schema


def _values(value: Any) -> set[str]:
    """The entries of `type` or `enum`, as JSON."""
    if value is None:
        return set()
    return {_text(each) for each in (value if isinstance(value, list) else [value])}


def _integers(keyword: str, after: Any) -> set[str]:
    """An integer is a number."""
    return {'"integer"'} if keyword == "type" and '"number"' in _values(after) else set()


def _implied(old: Mapping[str, Any], keyword: str, after: Any) -> bool:
    """Whether a `const` or an `enum` already allowed no more than a new `enum`."""
    if keyword != "enum":
        return False
    return "const" in old and _text(old["const"]) in _values(after)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _short(value: Any) -> str:
    text = _text(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
