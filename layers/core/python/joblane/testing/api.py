"""The API in this process: a transport of httpx whose requests the functions answer."""

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import httpx

from joblane.contract.access import API_AUDIENCE, SCOPES
from joblane.contract.route import FunctionName, Route
from joblane.contract.routes import ROUTES
from joblane.http.application import Application
from joblane.testing.functions import quiet

URL: Final = "https://joblane.test"

_ALL: Final = " ".join(f"{API_AUDIENCE}/{scope}" for scope in SCOPES)


@dataclass(frozen=True)
class Api:
    """Answers requests as API Gateway and the functions behind it do."""

    functions: Mapping[FunctionName, Application]
    _ids: Callable[[], int] = count(1).__next__

    def answer(self, request: httpx.Request, client_id: str) -> httpx.Response:
        """Answer a request of an OAuth client, which has all scopes that its role allows.

        Raises NotImplementedError for what a deployment in memory does not have.
        """
        route = _find(request.method, request.url.path)
        if route is not None and route.key in _NOT_HERE:
            raise NotImplementedError(f"a deployment in memory has no {_NOT_HERE[route.key]}")
        if route is None:
            return httpx.Response(404, json={"title": "Not Found", "status": 404})
        with quiet():
            event = _event(request, route, client_id, self)
            answer = self.functions[route.function].handle(event, None)
        body = answer.get("body") or ""
        content = base64.b64decode(body) if answer.get("isBase64Encoded") else body.encode()
        return httpx.Response(answer["statusCode"], headers=answer["headers"], content=content)

    def new_id(self) -> str:
        """The id of a request."""
        return f"test-{self._ids()}"


_NOT_HERE: Final = {
    "POST /v1/files": "input files: test what reads them by calling the handler, or submit without"
}
"""What is not in memory, by the key of its route."""


def _event(request: httpx.Request, route: Route, client_id: str, api: Api) -> dict[str, Any]:
    """The event of API Gateway for a request (payload format 2.0)."""
    path, params = request.url.path, request.url.params
    claims = {"sub": client_id, "client_id": client_id, "scope": _ALL}
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": route.key,
        "rawPath": path,
        "rawQueryString": request.url.query.decode(),
        "headers": {name.lower(): value for name, value in request.headers.items()},
        "requestContext": {
            "requestId": api.new_id(),
            "stage": "$default",
            "http": {"method": request.method, "path": path},
            "authorizer": {"jwt": {"claims": claims, "scopes": None}},
        },
        "isBase64Encoded": False,
    }
    if params:
        event["queryStringParameters"] = {name: ",".join(params.get_list(name)) for name in params}
    if content := request.read():
        event["body"] = content.decode()
    return event


def _find(method: str, path: str) -> Route | None:
    """The route of a request; the one with the longest literal beginning, as API Gateway."""
    found = [route for route, pattern in _PATTERNS if pattern.fullmatch(f"{method} {path}")]
    return max(found, key=lambda route: route.path.partition("{")[0], default=None)


def _pattern(route: Route) -> re.Pattern[str]:
    parts = re.split(r"({\w+\+?})", route.key)
    texts = [
        (".+" if part.endswith("+}") else "[^/]+") if part.startswith("{") else re.escape(part)
        for part in parts
    ]
    return re.compile("".join(texts))


_PATTERNS: Final = tuple((route, _pattern(route)) for route in ROUTES)


@dataclass(frozen=True)
class Transport(httpx.BaseTransport):
    """A client's way to the API."""

    api: Api
    client_id: str

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """See BaseTransport."""
        return self.api.answer(request, self.client_id)


@dataclass(frozen=True)
class AsyncTransport(httpx.AsyncBaseTransport):
    """An asynchronous client's way to the API."""

    api: Api
    client_id: str

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See AsyncBaseTransport."""
        await request.aread()
        return self.api.answer(request, self.client_id)
