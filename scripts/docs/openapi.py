"""The OpenAPI document, from the table of routes, its models, `openapi.yaml` and `examples.yaml`.

A test compares the file with what this returns, and validates every example. No function runs
this code: the file is packed with the layer and served as it is.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from joblane import __version__
from joblane.contract import routes
from joblane.contract.access import ALL_ROLES, API_AUDIENCE, SCOPES
from joblane.contract.audit import Because
from joblane.contract.job import LogEnd
from joblane.contract.problem_documents import GatewayError, ProblemDocument
from joblane.contract.route import Route
from joblane.contract.routes import ROUTES
from joblane.deployment.names import AGENT_NAME_PATTERN
from joblane.job.message import JOB_ID_PATTERN
from joblane.job.output import LogRecord
from joblane.job.spec import Submission
from scripts.docs.schema import Json, describe

FILE = Path(routes.__file__).with_name("openapi.json")

Mode = Literal["validation", "serialization"]
Refs = Mapping[tuple[Any, Mode], Json]
"""References to the schemas of models."""

_HERE = Path(__file__).parent
WRITTEN: Json = yaml.safe_load((_HERE / "openapi.yaml").read_text(encoding="utf-8"))
"""What no code says, besides examples."""

EXAMPLES: Json = yaml.safe_load((_HERE / "examples.yaml").read_text(encoding="utf-8"))
"""By the model's name, then by the example's name."""

_REF = "#/components/schemas/{model}"

_PATTERNS = {"job_id": JOB_ID_PATTERN, "group": JOB_ID_PATTERN, "agent": AGENT_NAME_PATTERN}

_BY_THE_GATEWAY_TOO = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.SERVICE_UNAVAILABLE,
    }
)
"""Answered by API Gateway in its own form when it does not get as far as Joblane."""

_ONLY_BY_THE_GATEWAY = frozenset({HTTPStatus.UNAUTHORIZED})


def render() -> str:
    """The whole file."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


@cache
def document() -> Json:
    """The OpenAPI document."""
    made, refs = _schemas()
    schemas = _split(made)
    queries = {route.query.__name__ for route in ROUTES}
    statuses = sorted({status for route in ROUTES for status in route.problems})
    paths: dict[str, Json] = {}
    for route in ROUTES:
        operation = _operation(route, made, refs)
        paths.setdefault(route.template, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {**WRITTEN["info"], "version": __version__},
        "servers": [{"url": "/", "description": "Where this document was read"}],
        "tags": [{"name": tag} for tag in sorted({_tag(route) for route in ROUTES})],
        "paths": paths,
        "components": {
            "schemas": {name: schemas[name] for name in sorted(schemas) if name not in queries},
            "responses": {_response(status): _problem(status) for status in statuses},
            "securitySchemes": {"token": _security()},
        },
    }


def _security() -> Json:
    issuer = "https://example.auth.eu-west-1.amazoncognito.com/oauth2"
    held = {scope: ", ".join(r for r in ALL_ROLES if scope in ALL_ROLES[r]) for scope in SCOPES}
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


def _operation(route: Route, schemas: Json, refs: Refs) -> Json:
    operation: Json = {
        "operationId": route.operation,
        "summary": route.summary,
        "description": WRITTEN["operations"][route.operation],
        "tags": [_tag(route)],
        "parameters": [*_parameters(route), *_query(schemas[route.query.__name__])],
    }
    if route.body is not None:
        content = _content(route.body, refs[route.body, "validation"])
        required = not issubclass(route.body, Because)
        operation["requestBody"] = {"required": required, "content": content}
    problems = {
        str(int(status)): {"$ref": f"#/components/responses/{_response(status)}"}
        for status in route.problems
    }
    scopes = [{"token": [f"{API_AUDIENCE}/{scope}"]} for scope in route.scopes]
    return {
        **operation,
        "responses": {**_answers(route, refs), **problems},
        "security": scopes,
        "x-rate-limit": {"per_second": route.rate.per_second, "burst": route.rate.burst},
    }


def _parameters(route: Route) -> Iterator[Json]:
    """Those of the path, then headers."""
    names = re.findall(r"{(\w+)}", route.template)
    names += ["Idempotency-Key"] * route.idempotent + ["If-Match"] * route.conditional
    names += ["traceparent", "tracestate"] * route.traced
    for name in names:
        written = dict(WRITTEN["parameters"][name])
        # A trace context is ignored if it is invalid, so it has no pattern.
        pattern = _PATTERNS.get(name) or written.pop("pattern", None)
        schema = {"type": "string"} | ({"pattern": pattern} if pattern else {})
        yield {"name": name, "required": written["in"] == "path", **written, "schema": schema}


def _query(schema: Json) -> Iterator[Json]:
    for name, described in schema.get("properties", {}).items():
        given = {key: value for key, value in described.items() if key != "description"}
        if given.get("default", ...) is None:
            del given["default"]
        text = {"description": described["description"]} if "description" in described else {}
        yield {"name": name, "in": "query", "required": False, **text, "schema": _not_null(given)}


def _answers(route: Route, refs: Refs) -> Json:
    """What a route answers besides problems."""
    answer: Json = {"description": route.summary, "headers": WRITTEN["headers"]}
    answers = {str(int(route.status)): answer}
    if route.status is HTTPStatus.FOUND:
        answer["headers"] = {**WRITTEN["headers"], **WRITTEN["redirect"]}
    if route.answer is not None:
        answer["content"] = _content(route.answer, refs[route.answer, "serialization"])
    if route.coalesces:
        there = "The key of the job is full, and a job that is there stands for it"
        answers["200"] = {**answer, "description": there}
    if route.streams:
        answer["content"]["text/event-stream"] = {
            "schema": {"type": "string"},
            "x-event-data": [refs[model, "serialization"] for model in (LogRecord, LogEnd)],
        }
        told = "The reader has received the end of the stream and must not reconnect"
        answers["204"] = {"description": told, "headers": WRITTEN["headers"]}
    return answers


def _content(model: type[BaseModel], ref: Json) -> Json:
    media: Json = {"schema": ref}
    if examples := EXAMPLES.get(model.__name__):
        media["examples"] = {name: {"value": value} for name, value in examples.items()}
    return {"application/json": media}


def objects() -> Json:
    """The schemas of all objects by their names, with the defaults of requests."""
    published = document()["components"]["schemas"]
    return {name: _schemas()[0].get(name, schema) for name, schema in published.items()}


@cache
def _schemas() -> tuple[Json, Refs]:
    """Every schema by name, and how each model is referred to."""
    wanted: dict[tuple[type[BaseModel], Mode], None] = dict.fromkeys(
        (model, "serialization") for model in (ProblemDocument, GatewayError, LogRecord, LogEnd)
    )
    wanted[Submission, "validation"] = None
    for route in ROUTES:
        wanted[route.query, "validation"] = None
        if route.body is not None:
            wanted[route.body, "validation"] = None
        if route.answer is not None:
            wanted[route.answer, "serialization"] = None
    refs, definitions = models_json_schema([*wanted], ref_template=_REF)
    schemas: Json = definitions["$defs"]
    describe(schemas)
    # A batch judges each entry for itself, so its own model takes anything for one.
    schemas["Batch"]["properties"]["jobs"]["items"] = refs[Submission, "validation"]
    return schemas, refs


def _split(schemas: Json) -> Json:
    """The schemas as they are published: those of requests say their defaults in words.

    Generators take `default` for a value that is always there: openapi-typescript requires the
    field, and clients in Python send it. A job of a type would not get its type's defaults then.
    In answers it is always there: what they share with requests is a schema of its own in them,
    `RetryView` beside `Retry`.
    """
    bodies = _reach(schemas, (route.body for route in ROUTES))
    shared = bodies & _reach(schemas, (route.answer for route in ROUTES))
    refs = {_REF.format(model=name): _REF.format(model=f"{name}View") for name in shared}

    def of_answer(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: of_answer(each) for name, each in value.items()}
        if isinstance(value, list):
            return [of_answer(each) for each in value]
        return refs.get(value, value) if isinstance(value, str) else value

    answers = {
        f"{name}View" if name in shared else name: of_answer(_require_values(schema))
        for name, schema in schemas.items()
        if name in shared or name not in bodies
    }
    return answers | {name: _say_defaults(schemas[name]) for name in bodies}


def _require_values(schema: Json) -> Json:
    """Require what answers always have.

    datamodel-code-generator would take such defaults for those of requests: it makes one
    enumeration of two that have the same values.
    """
    said = deepcopy(schema)
    given = [name for name, field in said.get("properties", {}).items() if field.get("default")]
    for name in given:
        del said["properties"][name]["default"]
    required = list(dict.fromkeys([*said.get("required", []), *given]))
    return {**said, "required": required} if required else said


def _say_defaults(schema: Json) -> Json:
    said = deepcopy(schema)
    for field in said.get("properties", {}).values():
        value = field.pop("default", None)
        if isinstance(value, str | int | float):
            about = field.get("description", "")
            field["description"] = f"{about} Default: `{json.dumps(value)}`.".strip()
    return said


def _reach(schemas: Json, models: Iterable[type[BaseModel] | None]) -> frozenset[str]:
    """Names of the schemas that models have, at any depth."""
    wanted, found = [model.__name__ for model in models if model is not None], set[str]()
    while wanted:
        name = wanted.pop()
        if name not in found:
            found.add(name)
            wanted += re.findall(_REF.format(model=r"(\w+)"), json.dumps(schemas[name]))
    return frozenset(found)


def _not_null(schema: Json) -> Json:
    """Leave out null: a parameter is given or not."""
    options = [option for option in schema.get("anyOf", []) if option != {"type": "null"}]
    if len(options) == 1:
        rest = {name: value for name, value in schema.items() if name != "anyOf"}
        return {**options[0], **rest}
    return schema


def _response(status: HTTPStatus) -> str:
    return status.name.title().replace("_", "")


def _problem(status: HTTPStatus) -> Json:
    """An error as a component; its own words come first."""
    content: Json = {}
    if status not in _ONLY_BY_THE_GATEWAY:
        example = {"type": "about:blank", "title": status.phrase, "status": int(status)}
        example |= {"instance": "UZ0Zgh7vDoEEJxA=", **WRITTEN["problems"][int(status)]}
        schema = {"$ref": _REF.format(model="ProblemDocument")}
        content["application/problem+json"] = {"schema": schema, "example": example}
    if status in _BY_THE_GATEWAY_TOO | _ONLY_BY_THE_GATEWAY:
        content["application/json"] = {
            "schema": {"$ref": _REF.format(model="GatewayError")},
            "example": {"message": status.phrase},
        }
    return {"description": status.description or status.phrase, "content": content}


def _tag(route: Route) -> str:
    return route.path.split("/")[2].removesuffix(".json")
