"""The generated parts of docs/reference/configuration.md, from the models that read the files."""

import argparse
import re
from collections.abc import Iterator

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from ec2_agent.command_line import make_parser
from ec2_agent.configuration import Configuration
from joblane.config import Config
from scripts.docs.schema import Json, describe, escape, table


def deployment() -> str:
    """Every key of joblane.toml, table by table."""
    return _file(Config)


def agent_file() -> str:
    """Every key of the agent's configuration file."""
    return _file(Configuration)


def agent_options() -> str:
    """Every option of `joblane agent`."""
    commands = next(a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction))  # noqa: SLF001 - argparse has no public way to list them
    lines = ["| option | meaning |", "|---|---|"]
    for action in commands.choices["run"]._actions:  # noqa: SLF001
        name = max(action.option_strings, key=len)
        value = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
        lines.append(f"| `{name}{value}` | {escape(action.help or '')} |")
    return "\n".join(lines)


def _file(model: type[BaseModel]) -> str:
    _, found = models_json_schema([(model, "validation")])
    schemas: Json = found["$defs"]
    describe(schemas)
    return "\n".join(_sections(schemas[model.__name__], schemas, ())).strip()


def _sections(schema: Json, schemas: Json, path: tuple[str, ...]) -> Iterator[str]:
    """A table for the keys of a section, then one for each section below it."""
    below = {name: _refs(field) for name, field in schema["properties"].items()}
    keys = {name: field for name, field in schema["properties"].items() if not below[name]}
    if path:
        yield f"### `[{'.'.join(path)}]`\n\n{schema.get('description', '')}\n"
    if keys:
        rows = "\n".join(table({**schema, "properties": keys}))
        yield re.sub(r"\[\w+\]\(#\w+\)", "table", rows) + "\n"
    for name, refs in below.items():
        values = schema["properties"][name].get("type") == "object"
        for ref in refs:
            named = (*path, name, "NAME") if values else (*path, name)
            yield from _sections(schemas[ref], schemas, named)


def _refs(field: Json) -> list[str]:
    """The models of a key whose values are tables; none for an array of tables."""
    if "$ref" in field:
        return [str(field["$ref"]).rsplit("/", 1)[-1]]
    inner = [field.get("additionalProperties"), *field.get("patternProperties", {}).values()]
    options = [*field.get("anyOf", []), *field.get("oneOf", []), *inner]
    return [ref for option in options if isinstance(option, dict) for ref in _refs(option)]
