"""Answers of the HTTP functions: JSON, pages of lists, ETags."""

import json
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools.event_handler.api_gateway import Response
from pydantic import BaseModel

from joblane.cursors import NotACursor, decode_cursor, encode_cursor
from joblane.head import Head, version
from joblane.problems import wrong
from joblane.queries import PageQuery

JSON = "application/json"


def etag(head: Head) -> str:
    """The ETag of a job."""
    return f'"{version(head)}"'


def success(
    body: BaseModel | Mapping[str, Any],
    status: HTTPStatus = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
) -> Response[str]:
    """Make a JSON answer."""
    text = body.model_dump_json() if isinstance(body, BaseModel) else json.dumps(body)
    return Response(int(status), JSON, text, headers=dict(headers or {}))


def listing(entries: Iterable[BaseModel], query: PageQuery, following: str | None) -> Response[str]:
    """Make the answer of a list, `{entries, limit, next}`; `following` is where to go on."""
    return success(
        {
            "entries": [entry.model_dump(mode="json") for entry in entries],
            "limit": query.limit,
            "next": go_on(query, following),
        }
    )


def go_on(query: PageQuery, following: str | None) -> str | None:
    """Make the `next` of a page; None at the end."""
    return None if following is None else encode_cursor(following, query.bound)


def place(query: PageQuery, is_key: Callable[[str], object]) -> str | None:
    """Where a page begins, from its `next`. Raises Problem 400 unless it came from this list."""
    if query.next is None:
        return None
    try:
        return decode_cursor(query.next, is_key, query.bound)
    except NotACursor as error:
        raise wrong("next", str(error)) from None
