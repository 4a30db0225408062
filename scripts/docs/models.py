"""client/models.py: a class for each object that the API answers, from the OpenAPI document."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from joblane.client import answer
from scripts.docs.openapi import document
from scripts.docs.schema import Json

FILE = Path(answer.__file__).with_name("models.py")

_REF = "#/components/schemas/"

_HEAD = '''"""What the API answers, as objects. Written by `scripts/reference`; do not edit it.

The names are those of the OpenAPI document. Times are RFC 3339 in UTC, durations seconds (`_s`) or
milliseconds (`_ms`). A text of a list, such as a state, may be newer than this version.
"""

# ruff: noqa: D205 - the descriptions are those of the API's models

from __future__ import annotations

from typing import Any

from joblane.client.answer import Answer
'''

_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}

_WIDTH = 96


def render() -> str:
    """The whole file."""
    schemas = {name: schema for name, schema in _schemas().items() if "properties" in schema}
    return _HEAD + "".join(f"\n\n{_class(name, schemas[name])}" for name in _ordered(schemas))


def _schemas() -> Json:
    found: Json = document()["components"]["schemas"]
    return found


def _ordered(schemas: Json) -> list[str]:
    """Names of what answers have, each after those that it refers to."""
    ordered: dict[str, None] = {}

    def add(name: str) -> None:
        if name not in ordered and name in schemas:
            for below in re.findall(rf"{_REF}(\w+)", str(schemas[name])):
                add(below)
            ordered[name] = None

    for methods in document()["paths"].values():
        for operation in methods.values():
            for name in re.findall(rf"{_REF}(\w+)", str(operation["responses"])):
                add(name)
    return list(ordered)


def _class(name: str, schema: Json) -> str:
    about = _docstring(schema.get("description", f"{name}."))
    if "\n" in about:
        about = about.removesuffix('"""') + '\n    """'
    lines = [f"class {name}(Answer):", about, ""]
    for field, described in schema["properties"].items():
        lines.append(f"    {field}: {_type(described)}")
        if "description" in described:
            lines.append(_docstring(described["description"]))
    return "\n".join(lines) + "\n"


def _docstring(text: str) -> str:
    quoted = text.replace("\\", "\\\\")
    wrapped = textwrap.wrap(f'"""{quoted}"""', _WIDTH, break_on_hyphens=False)
    return textwrap.indent("\n".join(wrapped), "    ")


def _type(schema: Json) -> str:
    options = schema.get("anyOf") or schema.get("oneOf")
    if "$ref" in schema:
        return _named(schema["$ref"].removeprefix(_REF))
    if options:
        found = dict.fromkeys(each for option in options for each in _type(option).split(" | "))
        return "Any" if "Any" in found else " | ".join(sorted(found, key=lambda one: one == "None"))
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " | ".join(dict.fromkeys(type(value).__name__ for value in values))
    return _container(schema)


def _container(schema: Json) -> str:
    kind = schema.get("type")
    if kind == "array":
        return f"list[{_type(schema.get('items', {}))}]"
    if kind == "object":
        return f"dict[str, {' | '.join(_values(schema)) or 'Any'}]"
    return _PLAIN.get(str(kind), "Any")


def _values(schema: Json) -> Iterator[str]:
    more = schema.get("additionalProperties")
    for values in [*schema.get("patternProperties", {}).values(), *([more] if more else [])]:
        yield _type(values) if isinstance(values, dict) else "Any"


def _named(name: str) -> str:
    """The class of an object; what is no object, such as a state, is its value."""
    schema = _schemas()[name]
    return name if "properties" in schema else _type(schema)
