"""The generated parts of docs/reference/api.md, from the OpenAPI document."""

from collections.abc import Iterator
from typing import Any

from joblane.contract.routes import ROUTES
from scripts.docs import openapi
from scripts.docs.roles import least_role
from scripts.docs.schema import Json, table, type_of


def operations() -> str:
    """Every route: who may call it, what it takes, what it answers."""
    paths = openapi.document()["paths"]
    parts: list[str] = []
    tag = ""
    for route in sorted(ROUTES, key=lambda route: route.path.split("/")[2]):
        operation = paths[route.template][route.method.lower()]
        if operation["tags"][0] != tag:
            tag = operation["tags"][0]
            parts.append(f"### {tag}\n")
        parts.append("\n".join(_operation(operation, route.key, least_role(route))) + "\n")
    return "\n".join(parts).strip()


def objects() -> str:
    """Every object of requests and answers."""
    parts = []
    for name, schema in openapi.objects().items():
        about = schema.get("description", "")
        rows = table(schema) if "properties" in schema else [f"Type: {type_of(schema)}"]
        parts.append("\n".join([f"### {name}\n", f"{about}\n", *rows]))
    return "\n\n".join(parts)


def _operation(operation: Json, key: str, role: str) -> Iterator[str]:
    rate = operation["x-rate-limit"]
    yield f"#### `{key}`\n"
    yield f"`{operation['operationId']}`: {operation['summary']}.\n"
    yield f"{operation['description']}\n"
    yield (
        f"* Least role: {role}. Rate: {rate['per_second']} a second, bursts of {rate['burst']}, "
        "over all callers."
    )
    parameters = operation["parameters"]
    if headers := [each["name"] for each in parameters if each["in"] == "header"]:
        yield f"* Headers: {', '.join(f'`{name}`' for name in headers)}, optional."
    if "requestBody" in operation:
        optional = "" if operation["requestBody"]["required"] else ", optional"
        yield f"* Body: {_content(operation['requestBody'])}{optional}."
    yield from _answers(operation["responses"])
    if query := [each for each in parameters if each["in"] == "query"]:
        yield "\n| parameter | type | meaning |\n|---|---|---|"
        for each in query:
            meaning = each.get("description", "")
            yield f"| `{each['name']}` | {type_of(each['schema'])} | {meaning} |"


def _answers(responses: Json) -> Iterator[str]:
    errors = []
    for status, answer in responses.items():
        if "$ref" in answer:
            errors.append(status)
            continue
        content = _content(answer) if answer.get("content") else "no body"
        yield f"* Answer: {status}, {content}."
    if errors:
        yield f"* Errors: {', '.join(errors)}."


def _content(described: dict[str, Any]) -> str:
    kinds = [
        "events" if kind == "text/event-stream" else type_of(media["schema"])
        for kind, media in described["content"].items()
    ]
    return " or ".join(kinds)
