"""The generated parts of docs/reference/events.md, from the model of the event."""

import json

from pydantic.json_schema import models_json_schema

from joblane.contract.job_events import JobEvent
from scripts.docs.schema import Json, describe, escape, type_of


def fields() -> str:
    """A row for each field of the event."""
    lines = ["| field | type | meaning |", "|---|---|---|"]
    for name, field in _schema()["properties"].items():
        lines.append(f"| `{name}` | {type_of(field)} | {escape(field['description'])} |")
    return "\n".join(lines)


def schema() -> str:
    """The JSON Schema of the event."""
    text = json.dumps(_schema(), indent=2, ensure_ascii=False)
    return f"```json\n{text}\n```"


def _schema() -> Json:
    """The schema of the event alone: its enums stand where they are used."""
    _, found = models_json_schema([(JobEvent, "serialization")])
    schemas: Json = found["$defs"]
    describe(schemas)
    event: Json = schemas[JobEvent.__name__]
    whole: Json = json.loads(json.dumps(event), object_hook=lambda part: _inline(part, schemas))
    return whole


def _inline(part: Json, schemas: Json) -> Json:
    ref = part.get("$ref")
    if ref is None:
        return part
    whole = schemas[str(ref).rsplit("/", 1)[-1]]
    return {name: whole[name] for name in ("type", "enum")}
