"""Calls of the API without I/O: generators that yield what is to be done and are sent the results.

A `Call` yields requests and sleeps, and returns its result; a `Stream` yields items between them.
`Client` and `AsyncClient` run the same calls: each sends the requests and sleeps in its own way.
An error of `joblane.client.errors` is thrown into the call, at the request that failed.
"""

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeAlias, TypeVar

from joblane.client.errors import InputError

T = TypeVar("T")


class Retries(Enum):
    """When a request is sent again."""

    READ = "after a network error, 429 and 5xx"
    UNSENT = "when no connection could be made, so that the API saw nothing"
    IDEMPOTENT = "like READ, and after a timeout: an Idempotency-Key makes it one request"
    NONE = "never: the call repeats it"


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the API; its result is the JSON of the answer, None without a body."""

    method: str
    path: str
    params: Mapping[str, str | int] | None = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    retries: Retries = Retries.READ


@dataclass(frozen=True, slots=True)
class Sleep:
    """A pause."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """A value for the caller of a stream."""

    value: T


Call: TypeAlias = Generator[Request | Sleep, Any, T]
Stream: TypeAlias = Generator[Request | Sleep | Item[T], Any, None]


def get(
    path: str, params: Mapping[str, str | int] | None = None, *, retry: bool = True
) -> Call[Any]:
    """Read; `retry=False` sends the request once, for a caller that repeats it."""
    retries = Retries.READ if retry else Retries.NONE
    return (yield Request("GET", path, params, retries=retries))


def act(  # noqa: PLR0913 - the parts of a request
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    params: Mapping[str, str] | None = None,
    if_match: str | None = None,
    idempotency_key: str | None = None,
) -> Call[Any]:
    """Send a POST, PUT or DELETE. Raises `InputError` when `body` cannot be JSON in UTF-8."""
    headers = _key_header(idempotency_key)
    if if_match is not None:
        headers["If-Match"] = if_match
    content = None
    if body is not None:
        headers["Content-Type"] = "application/json"
        content = _encoded(body)
    retries = Retries.IDEMPOTENT if idempotency_key else Retries.UNSENT
    return (yield Request(method, path, params, content, headers, retries))


def as_stream(call: Call[T]) -> Stream[T]:
    """Make a stream whose only item is the result of a call."""
    yield Item((yield from call))


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        raise InputError("the submission holds bytes that are not UTF-8 text") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"the submission cannot be written as JSON: {error}") from error


def _key_header(key: str | None) -> dict[str, str]:
    """Header of an Idempotency-Key. Raises `InputError` for what no header can hold."""
    if key is None:
        return {}
    if not key.isascii() or not key.isprintable() or not key.strip():
        raise InputError("an idempotency key is printable ASCII, such as a UUID")
    return {"Idempotency-Key": key}
