"""API Gateway events (payload format 2.0), as the functions get them."""

import json
import time
from collections.abc import Mapping
from typing import Any

from joblane.contract.access import API_AUDIENCE, SCOPES
from joblane.http.application import Application
from tests.support import contract

ALL = " ".join(f"{API_AUDIENCE}/{scope}" for scope in SCOPES)
"""The scope claim of a token that carries them all."""

REQUEST_ID = "JKJaXmPLvHcESHA="
"""Id of each request, as long as those of API Gateway."""


class Api:
    """Asks one function, in this process, as one OAuth client with all scopes."""

    def __init__(
        self,
        application: Application,
        client_id: str = "client-acme",
        claims: Mapping[str, str] | None = None,
    ) -> None:
        self._application = application
        self._claims = {"sub": client_id, "client_id": client_id, "scope": ALL, **(claims or {})}

    def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Ask; returns status and the decoded JSON body."""
        answer = self.raw(method, path, body, query, headers)
        return answer["statusCode"], json.loads(answer["body"])

    def raw(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Ask; returns the function's answer as it is. A `str` body is sent as it is.

        Headers are written in small letters, as API Gateway hands them on.
        """
        route = contract.find_route(method, path)
        event: dict[str, Any] = {
            "version": "2.0",
            "routeKey": "$default" if route is None else route.key,
            "rawPath": path,
            "rawQueryString": "",
            "headers": {"content-type": "application/json", **(headers or {})},
            "requestContext": {
                "requestId": REQUEST_ID,
                "stage": "$default",
                "http": {"method": method, "path": path},
                "authorizer": {"jwt": {"claims": self._claims, "scopes": None}},
            },
            "isBase64Encoded": False,
        }
        if query is not None:
            event["queryStringParameters"] = dict(query)
        if body is not None:
            event["body"] = body if isinstance(body, str) else json.dumps(body)
        answer = self._application.handle(event, None)
        contract.check(method, path, answer)
        _wait_for_the_next_millisecond()
        return answer


def _wait_for_the_next_millisecond() -> None:
    """As any network makes a caller wait: what is done in one millisecond has no order."""
    answered_ms = time.time_ns() // 1_000_000
    while (now_ns := time.time_ns()) // 1_000_000 == answered_ms:
        time.sleep((1_000_000 - now_ns % 1_000_000) / 1e9)
