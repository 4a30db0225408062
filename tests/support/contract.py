"""Holds every answer that a unit test gets against contract/openapi.json."""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from jsonschema_rs import Draft202012Validator

from joblane.contract.route import Route
from joblane.contract.routes import ROUTES
from scripts.docs.openapi import FILE


def check(method: str, path: str, answer: Mapping[str, Any]) -> None:
    """Fail unless the contract has this answer to this request.

    A path that no route has is answered 404 by API Gateway before any function is asked.
    """
    route = find_route(method, path)
    if route is None:
        assert 404 == answer["statusCode"], f"{method} {path} is in no contract"
        return
    where = route.template
    operation = _document()["paths"][where][method.lower()]
    described = operation["responses"].get(str(answer["statusCode"]))
    assert described is not None, f"{method} {where} may not answer {answer['statusCode']}"
    if "$ref" in described:
        described = _document()["components"]["responses"][described["$ref"].rsplit("/", 1)[1]]
    kinds = described.get("content")
    if kinds is None:
        assert answer["body"] == ""
        return
    kind = answer["headers"]["Content-Type"]
    assert kind in kinds, f"{method} {where} may not answer {kind}"
    if "json" in kind:
        validator(json.dumps(kinds[kind]["schema"])).validate(json.loads(answer["body"]))


@cache
def validator(schema: str) -> Draft202012Validator:
    """A validator of a schema that may refer to the document's components."""
    components = {"components": _document()["components"]}
    return Draft202012Validator({**components, **json.loads(schema)})


@cache
def _document() -> Any:
    return json.loads(FILE.read_text(encoding="utf-8"))


@cache
def find_route(method: str, path: str) -> Route | None:
    """The route that API Gateway would choose: words go first. None if it has none."""
    found = [
        route
        for route in sorted(ROUTES, key=lambda route: route.path.count("{"))
        if route.method == method and re.fullmatch(_expression(route.path), path)
    ]
    return found[0] if found else None


def _expression(path: str) -> str:
    """What the path of a route matches; its last parameter may have slashes."""
    return re.sub(r"{\w+}", "[^/]+", re.sub(r"{\w+\+}", ".+", path))
