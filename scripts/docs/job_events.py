"""The generated parts of docs/reference/events.md, from the table of events and their model."""

import json

from pydantic.json_schema import models_json_schema

from joblane.contract.job_events import JobEvent
from joblane.notify.event_names import EVENTS
from joblane.state.lifecycle import TABLE, State
from scripts.docs.schema import Json, describe, escape, type_of

AT_SUBMISSION = {"waiting", "skipped"}
"""Events of jobs that come from another state, or are submitted so."""


def names() -> str:
    """A row for each event: the states that it comes from and to, and what it means."""
    lines = ["| event | from | to | meaning |", "|---|---|---|---|"]
    for name, kind in EVENTS.items():
        before = [
            state
            for state in State
            if kind.new is not True
            and any(source is state and to in kind.to for (source, _), to in TABLE.items())
        ]
        sources = [f"`{state}`" for state in before]
        if kind.new is True or (kind.new is None and name in AT_SUBMISSION):
            sources.insert(0, "its submission")
        states = ", ".join(f"`{state}`" for state in State if state in kind.to)
        lines.append(f"| `{name}` | {', '.join(sources)} | {states} | {escape(kind.meaning)} |")
    return "\n".join(lines)


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
    meaning = {"description": part["description"]} if "description" in part else {}
    return {**{name: whole[name] for name in ("type", "enum")}, **meaning}
