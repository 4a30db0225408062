"""The OpenAPI document, from the table of routes and its models.

A test compares the file with what this returns, and validates every example. No function runs
this code: the file is packed with the layer and served as it is.
"""

import json
import re
import textwrap
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from joblane import __version__
from joblane.contract import routes
from joblane.contract.access import API_AUDIENCE, ROLES, SCOPES
from joblane.contract.audit import Because
from joblane.contract.job import LogEnd
from joblane.contract.route import Route
from joblane.contract.routes import ROUTES
from joblane.contract.views import GatewayError, ProblemDocument
from joblane.deployment.names import AGENT_NAME_PATTERN
from joblane.job.message import JOB_ID_PATTERN
from joblane.job.output import LogRecord
from joblane.job.spec import Submission
from scripts.docs.examples import EXAMPLES, PROBLEMS
from scripts.docs.schema import describe

FILE = Path(routes.__file__).with_name("openapi.json")

Json = dict[str, Any]
Mode = Literal["validation", "serialization"]

_REF = "#/components/schemas/{model}"

_NAME_PATTERN = r"^[a-z][a-z0-9-]{0,30}$"

_PATH_PARAMETERS: dict[str, Json] = {
    "job_id": {
        "description": "Id of a job: a ULID.",
        "schema": {"type": "string", "pattern": JOB_ID_PATTERN},
        "example": "01KAJ5RJ00V3XW8TQZ9M4C2N7D",
    },
    "queue": {
        "description": "A queue; `_all` names every one where something is done to jobs.",
        "schema": {"type": "string", "pattern": rf"{_NAME_PATTERN}|^_all$"},
        "example": "default",
    },
    "agent": {
        "description": "Name of an agent.",
        "schema": {"type": "string", "pattern": AGENT_NAME_PATTERN},
        "example": "i-0123456789abcdef0",
    },
    "condition": {
        "description": "A condition, percent-encoded: `app:` and a name.",
        "schema": {"type": "string", "pattern": r"^app:[a-z][a-z0-9-]{0,30}$"},
        "example": "app:billing",
    },
}

_REQUEST_ID = {
    "X-Request-Id": {
        "description": "Id of the request, as in the logs; name it when you report a problem.",
        "schema": {"type": "string"},
    }
}

_IDEMPOTENCY_KEY: Json = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Sent again with the same key within 24 hours, the request makes no second "
    "job: the answer is the job that it made, as it is by then, with `Idempotency-Replayed: "
    "true`. With another body it is answered 422, and 409 if that job has been deleted.",
    "schema": {
        "type": "string",
        "pattern": r"^[!#-\[\]-~]([ !#-\[\]-~]{0,253}[!#-\[\]-~])?$",
    },
    "example": "8e03978e-40d5-43dd-bc93-6894a57f9324",
}

_IF_MATCH: Json = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "description": "ETag of the job as you have seen it: if it has changed since, nothing is done "
    "and the answer is 412.",
    "schema": {"type": "string", "pattern": r'^(\*|"[0-9a-f]{16}")$'},
    "example": '"6f9ab3dd2f1c0a57"',
}

_BY_THE_GATEWAY_TOO = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.SERVICE_UNAVAILABLE,
    }
)
"""Answered by API Gateway in its own form when it does not get as far as Joblane."""

_ONLY_BY_THE_GATEWAY = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS})


def render() -> str:
    """The whole file."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def document() -> Json:
    """The OpenAPI document."""
    schemas, refs = _schemas()
    queries = {_name_of(refs[route.query, "validation"]) for route in ROUTES}
    paths: dict[str, Json] = {}
    for route in ROUTES:
        operation = _Operation(route, schemas, refs).render()
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Joblane",
            "version": __version__,
            "summary": "Runs jobs on your own EC2 instances",
            "description": _about(),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "Where this document was read"}],
        "tags": [{"name": tag} for tag in sorted({_tag(route) for route in ROUTES})],
        "paths": paths,
        "components": {
            "schemas": {name: schemas[name] for name in sorted(schemas) if name not in queries},
            "responses": {_response(status): _problem(status) for status in _statuses()},
            "securitySchemes": {"token": _security()},
        },
    }


def _about() -> str:
    return textwrap.dedent(
        """\
        Times are RFC 3339 in UTC; durations are seconds (`_s`) or milliseconds (`_ms`). Lists
        answer `{entries, limit, next}`; pass `next` to go on. A page may hold fewer entries than
        `limit`, even none, and still have a `next`: a list with filters looks at 500 jobs a
        request. Unknown fields and parameters are refused. Errors are problem+json (RFC 9457),
        but those of API Gateway itself, which are `{"message": ...}`.

        Requests above a route's rate (`x-rate-limit`) are answered 429; try again a little
        later, each time a little later still."""
    )


def _security() -> Json:
    issuer = "https://example.auth.eu-west-1.amazoncognito.com/oauth2"
    held = {scope: ", ".join(r for r in ROLES if scope in ROLES[r]) for scope in SCOPES}
    scopes = {f"{API_AUDIENCE}/{scope}": f"Held by: {held[scope]}" for scope in SCOPES}
    return {
        "type": "oauth2",
        "description": "A JWT of the deployment's issuer; `GET /v1/login` says which that is. "
        "The tenant is the token's, never the request's.",
        "flows": {
            "clientCredentials": {"tokenUrl": f"{issuer}/token", "scopes": scopes},
            "authorizationCode": {
                "authorizationUrl": f"{issuer}/authorize",
                "tokenUrl": f"{issuer}/token",
                "scopes": scopes,
            },
        },
    }


class _Operation:
    """One route as OpenAPI has it."""

    def __init__(self, route: Route, schemas: Json, refs: dict[tuple[Any, Mode], Json]) -> None:
        self._route = route
        self._schemas = schemas
        self._refs = refs

    def render(self) -> Json:
        """The operation object."""
        route = self._route
        operation: Json = {
            "operationId": _operation_id(route),
            "summary": route.summary,
            "tags": [_tag(route)],
        }
        if parameters := [*self._path(), *self._query(), *self._headers()]:
            operation["parameters"] = parameters
        if route.body is not None:
            content = self._content(route.body, "validation")
            required = route.body is not Because
            operation["requestBody"] = {"required": required, "content": content}
        operation["responses"] = {
            str(int(route.status)): self._success(),
            **self._events(),
            **{
                str(int(status)): {"$ref": f"#/components/responses/{_response(status)}"}
                for status in route.problems
            },
        }
        scopes = [] if route.scope is None else [{"token": [f"{API_AUDIENCE}/{route.scope}"]}]
        operation["security"] = scopes
        rate = route.rate
        operation["x-rate-limit"] = {"per_second": rate.per_second, "burst": rate.burst}
        return operation

    def _path(self) -> Iterator[Json]:
        for name in re.findall(r"{(\w+)}", self._route.path):
            yield {"name": name, "in": "path", "required": True, **_PATH_PARAMETERS[name]}

    def _query(self) -> Iterator[Json]:
        model = self._route.query
        schema = self._schemas[_name_of(self._refs[model, "validation"])]
        for name, described in schema.get("properties", {}).items():
            given = dict(described)
            parameter = {"name": name, "in": "query", "required": False}
            if text := given.pop("description", None):
                parameter["description"] = text
            given.pop("title", None)
            if (default := given.pop("default", None)) is not None:
                given["default"] = default
            yield {**parameter, "schema": _not_null(given)}

    def _headers(self) -> Iterator[Json]:
        if self._route.idempotent:
            yield _IDEMPOTENCY_KEY
        if self._route.conditional:
            yield _IF_MATCH

    def _success(self) -> Json:
        route = self._route
        answer: Json = {"description": route.summary, "headers": dict(_REQUEST_ID)}
        if route.answer is not None:
            answer["content"] = self._content(route.answer, "serialization")
        if route.streams:
            answer["content"]["text/event-stream"] = {
                "schema": {"type": "string"},
                "x-event-data": [
                    self._refs[model, "serialization"] for model in (LogRecord, LogEnd)
                ],
            }
        return answer

    def _events(self) -> Json:
        if not self._route.streams:
            return {}
        told = "The reader has received the end of the stream and must not reconnect"
        return {"204": {"description": told, "headers": dict(_REQUEST_ID)}}

    def _content(self, model: type[BaseModel], mode: Mode) -> Json:
        media: Json = {"schema": self._refs[model, mode]}
        if model in EXAMPLES:
            media["examples"] = {name: {"value": value} for name, value in EXAMPLES[model].items()}
        return {"application/json": media}


def _schemas() -> tuple[Json, dict[tuple[Any, Mode], Json]]:
    """Every schema by name, and how each model is referred to."""
    wanted: list[tuple[type[BaseModel], Mode]] = [
        (model, "serialization") for model in (ProblemDocument, GatewayError, LogRecord, LogEnd)
    ]
    wanted.append((Submission, "validation"))
    for route in ROUTES:
        wanted.append((route.query, "validation"))
        if route.body is not None:
            wanted.append((route.body, "validation"))
        if route.answer is not None:
            wanted.append((route.answer, "serialization"))
    refs, definitions = models_json_schema(list(dict.fromkeys(wanted)), ref_template=_REF)
    schemas: Json = definitions["$defs"]
    describe(schemas)
    # A batch judges each entry for itself, so its own model takes anything for one.
    schemas["Batch"]["properties"]["jobs"]["items"] = refs[Submission, "validation"]
    return schemas, dict(refs)


def _not_null(schema: Json) -> Json:
    """Leave out null: a parameter is given or not."""
    options = [option for option in schema.get("anyOf", []) if option != {"type": "null"}]
    if len(options) == 1:
        rest = {name: value for name, value in schema.items() if name != "anyOf"}
        return {**options[0], **rest}
    return schema


def _statuses() -> list[HTTPStatus]:
    return sorted({status for route in ROUTES for status in route.problems})


def _response(status: HTTPStatus) -> str:
    return status.name.title().replace("_", "")


def _problem(status: HTTPStatus) -> Json:
    """An error as a component; its own words come first."""
    content: Json = {}
    if status not in _ONLY_BY_THE_GATEWAY:
        content["application/problem+json"] = {
            "schema": {"$ref": _REF.format(model="ProblemDocument")},
            "example": PROBLEMS[status],
        }
    if status in _BY_THE_GATEWAY_TOO | _ONLY_BY_THE_GATEWAY:
        content["application/json"] = {
            "schema": {"$ref": _REF.format(model="GatewayError")},
            "example": {"message": status.phrase},
        }
    return {"description": status.description or status.phrase, "content": content}


def _name_of(ref: Json) -> str:
    return str(ref["$ref"]).rsplit("/", 1)[-1]


def _operation_id(route: Route) -> str:
    words = re.sub(r"[^a-z]+", "_", route.path.removeprefix("/v1/").lower()).strip("_")
    return f"{route.method.lower()}_{words}"


def _tag(route: Route) -> str:
    return route.path.split("/")[2].removesuffix(".json")
