"""Answers of the API as its reference shows them: of each operation the first example.

What answers without a body does so. Lists end with their first page, and bulk operations refuse no
job.
"""

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

from tests.support.client.fake_api import Fault, Request, ok

NO_BODY = object()

_ENDS: dict[str, Any] = {"next": None, "refused": []}


def answer_as_documented(request: Request) -> Fault | None:
    """The example of the operation; None if there is none."""
    for method, path, example in _operations():
        if method == request.method and path.fullmatch(request.path):
            if example is NO_BODY:
                return 204, {}, b""
            names = example.keys() & _ENDS.keys() if isinstance(example, dict) else ()
            return ok({**example, **{name: _ENDS[name] for name in names}} if names else example)
    return None


@cache
def _operations() -> list[tuple[str, re.Pattern[str], Any]]:
    """Method, path and example of each operation that has one or no body, fixed paths first."""
    text = files("joblane.contract").joinpath("openapi.json").read_text("utf-8")
    document: dict[str, Any] = json.loads(text)
    found = [
        (method.upper(), path, example)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if (example := _example(operation)) is not None
    ]
    found.sort(key=lambda each: each[1].count("{"))
    return [(method, _pattern(path), example) for method, path, example in found]


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)))


def _example(operation: Any) -> Any:
    for status, answer in operation["responses"].items():
        content = answer.get("content", {}).get("application/json", {})
        if status.startswith("2") and "examples" in content:
            return next(iter(content["examples"].values()))["value"]
        if status.startswith("2") and "example" in content:
            return content["example"]
        if status == "204":
            return NO_BODY
    return None
