"""JSON schemas of pydantic models, with the docstrings of their fields, and as Markdown."""

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

Json = dict[str, Any]

_OURS = ("joblane.", "ec2_agent.")

_LONG = 40
"""A default with more characters is described where its own fields are."""


def describe(schemas: Json) -> None:
    """Set the descriptions of schemas, by model name, to the docstrings of models and fields."""
    for model in _models(BaseModel):
        if model.__name__ in schemas:
            _describe(schemas[model.__name__], model)


def table(schema: Json) -> list[str]:
    """Rows of an object's fields: name, type, default, meaning."""
    required = schema.get("required", ())
    lines = ["| name | type | default | meaning |", "|---|---|---|---|"]
    for name, field in schema.get("properties", {}).items():
        default = "required" if name in required else _default(field.get("default"))
        meaning = field.get("description", "")
        lines.append(f"| `{name}` | {type_of(field)} | {default} | {escape(meaning)} |")
    return lines


def type_of(schema: Json) -> str:
    """The type of a value in words, with its bounds; other objects are links."""
    options = schema.get("anyOf") or schema.get("oneOf")
    if "$ref" in schema:
        text = _link(schema["$ref"])
    elif "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        text = ", ".join(f"`{json.dumps(value)}`" for value in values)
    elif options:
        text = " or ".join(dict.fromkeys(map(type_of, options)))
    else:
        text = _plain(schema, str(schema.get("type", "any")))
    return text


def _plain(schema: Json, kind: str) -> str:
    if kind == "array":
        return f"array of {type_of(schema.get('items', {}))}{_bounds(schema, 'Items')}"
    patterns = schema.get("patternProperties", {"": schema.get("additionalProperties")})
    if kind == "object" and all(isinstance(values, dict) for values in patterns.values()):
        return f"map of names to {' or '.join(map(type_of, patterns.values()))}"
    if kind == "string":
        pattern = f", pattern `{escape(schema['pattern'])}`" if "pattern" in schema else ""
        return f"string{_bounds(schema, 'Length')}{pattern}"
    return f"{kind}{_range(schema)}"


def escape(text: str) -> str:
    """Text for a cell of a table."""
    return text.replace("|", "\\|")


def _link(ref: str) -> str:
    name = ref.rsplit("/", 1)[-1]
    return f"[{name}](#{name.lower()})"


def _default(value: object) -> str:
    if value is None or value in ([], {}):
        return "none"
    text = json.dumps(value)
    if isinstance(value, dict) and len(text) > _LONG:
        return "see there"
    return f"`{escape(text)}`"


def _bounds(schema: Json, what: str) -> str:
    least, most = schema.get(f"min{what}"), schema.get(f"max{what}")
    unit = "entries" if what == "Items" else "characters"
    if most is not None:
        return f", {least or 0} to {most} {unit}"
    return f", at least {least} {unit}" if least else ""


def _range(schema: Json) -> str:
    least, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    most = schema.get("maximum")
    low = f"above {above}" if above is not None else f"{'from ' if most is None else ''}{least}"
    if least is None and above is None:
        return "" if most is None else f", at most {most}"
    return f", {low}" if most is None else f", {low} to {most}"


def _models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        if model.__module__.startswith(_OURS):
            yield model
        yield from _models(model)


def _describe(schema: Json, model: type[BaseModel]) -> None:
    """Give fields the docstrings below them, and remove the titles that pydantic makes."""
    docstrings: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if each.__module__.startswith(_OURS):
            docstrings |= attribute_docstrings(each)
    for name, field in schema.get("properties", {}).items():
        field.pop("title", None)
        said = docstrings.get(name) or docstrings.get(f"{name}_")  # `from` is `from_` in Python
        if said is not None:
            field["description"] = said
    schema.pop("title", None)
    if "description" in schema:
        schema["description"] = " ".join(schema["description"].split())


def attribute_docstrings(owner: type) -> dict[str, str]:
    """The strings below the attributes of a class, by the attribute's name."""
    (parsed,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    if not isinstance(parsed, ast.ClassDef):
        raise TypeError(f"{owner} is not a class")
    return {
        name: " ".join(str(text.value.value).split())
        for statement, text in zip(parsed.body, parsed.body[1:], strict=False)
        if (name := _find_assigned(statement)) is not None
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


def _find_assigned(statement: ast.stmt) -> str | None:
    """The name that a statement of a class body assigns."""
    target: ast.expr | None = None
    if isinstance(statement, ast.AnnAssign):
        target = statement.target
    elif isinstance(statement, ast.Assign):
        target = statement.targets[0]
    return target.id if isinstance(target, ast.Name) else None
