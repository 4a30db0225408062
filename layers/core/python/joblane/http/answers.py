"""Answers of the HTTP functions: JSON, and pages of lists."""

import json
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.event_handler.api_gateway import Response
from pydantic import BaseModel

from joblane.contract.cursors import NotACursor, decode_cursor, encode_cursor
from joblane.contract.problems import Invalid, wrong
from joblane.contract.query import MembersQuery, PageQuery

if TYPE_CHECKING:  # many requests concern no job
    from joblane.contract.queries import JobFilters
    from joblane.service.job.bulk import BulkResult

JSON = "application/json"


def success(
    body: BaseModel | Mapping[str, Any],
    status: HTTPStatus = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
) -> Response[str]:
    """Make a JSON answer."""
    text = body.model_dump_json() if isinstance(body, BaseModel) else json.dumps(body)
    return Response(int(status), JSON, text, headers=dict(headers or {}))


def listing(
    entries: Iterable[BaseModel],
    query: PageQuery,
    following: str | None,
    **more: Iterable[BaseModel],
) -> Response[str]:
    """Make the answer of a list, `{entries, limit, next}`; `following` starts the next page.

    `more` are further lists of it.
    """
    lists = {"entries": entries, **more}
    return success(
        {
            **{name: [entry.model_dump(mode="json") for entry in lists[name]] for name in lists},
            "limit": query.limit,
            "next": next_cursor(query, following),
        }
    )


def require_filter(query: "JobFilters") -> None:
    """Refuse a bulk operation on all jobs of a tenant: Problem 400."""
    if not query.selects:
        possible = ("state", "type", "name", "queue", "label", "since", "groups")
        *names, last = (name for name in possible if name in type(query).model_fields)
        raise Invalid(f"give at least one filter: {', '.join(names)} or {last}")


def answer_sweep(
    done: str, result: "BulkResult", query: PageQuery, **more: object
) -> Response[str]:
    """Make the answer of a bulk operation; `done` names the count of the jobs that it changed.

    `more` has further fields.
    """
    refused = [
        {"id": job_id, "index": None, "detail": why} for job_id, why in result.refused.items()
    ]
    return success(
        {
            "examined": result.examined,
            done: result.done,
            "refused": refused,
            **more,
            "next": next_cursor(query, result.following),
        }
    )


def next_cursor(query: PageQuery | MembersQuery, following: str | None) -> str | None:
    """Return the `next` field of a page; None on the last page."""
    return None if following is None else encode_cursor(following, query.bound)


def page_start(query: PageQuery | MembersQuery, is_key: Callable[[str], object]) -> str | None:
    """Return the key that a page starts after; Problem 400 for the cursor of another list."""
    if query.next is None:
        return None
    try:
        return decode_cursor(query.next, is_key, query.bound)
    except NotACursor as error:
        raise wrong("next", str(error)) from None
