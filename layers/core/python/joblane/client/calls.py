"""Calls of the API without I/O: generators that yield what is to be done and are sent the results.

A `Call` yields requests, sleeps and work that blocks, and returns its result; a `Stream` yields
items between them. `Client` and `AsyncClient` inherit the same calls, and their connections run
them: each sends the requests and sleeps in its own way. An error of `joblane.client.errors` is
thrown into the call, at the step that failed.
"""

import json
import math
import re
from collections.abc import (
    AsyncGenerator,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from enum import Enum
from functools import wraps
from types import MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)
from urllib.parse import quote

from joblane.client.answers import rows
from joblane.client.errors import AnswerError, InputError

if TYPE_CHECKING:
    from joblane.client.connection import AsyncConnection, Connection

LIST_MAX = 100
"""Most entries in one answer of the API."""

C = TypeVar("C")
P = ParamSpec("P")
T = TypeVar("T")


_NAME = re.compile(r"[A-Za-z0-9_.:-]+", re.ASCII)
"""Ids and names in the API's paths: of jobs, agents, queues, types, scopes of keys, conditions."""


class Retries(Enum):
    """When a request is sent again."""

    READ = "after a network error, 429 and 5xx"
    UNSENT = "when no connection could be made, so that the API saw nothing"
    IDEMPOTENT = "like READ, for a request that takes effect once, however often it is sent"
    NONE = "never: the call repeats it"


Params: TypeAlias = Mapping[str, str | int | Sequence[str]]
"""Parameters of a request; one with several values is repeated."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the API; its result is the JSON of the answer, None without a body."""

    method: str
    path: str
    params: Params | None = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    retries: Retries = Retries.READ
    redirect: bool = False
    """Its result is the URL that the answer redirects to, which gets no token."""


Send: TypeAlias = Callable[[Request], Any]
"""Sends a request and returns its result, in any thread. Raises `JoblaneError`."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """A pause."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Work:
    """Work that blocks, on files for example; its result is what `run` returns."""

    run: Callable[[Send], Any]
    stop: Callable[[], None]
    """Makes `run` return soon, from another thread, because nobody waits for it any more."""


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """A value for the caller of a stream."""

    value: T


Call: TypeAlias = Generator[Request | Sleep | Work, Any, T]
Stream: TypeAlias = Generator[Request | Sleep | Work | Item[T], Any, None]


class Caller(Generic[C]):
    """What has calls as its methods; C is the connection that runs them."""

    _connection: C


class ApiCall(Generic[P, T]):
    """Method of both clients that runs a call: `Client` blocks, `AsyncClient` awaits.

    As an attribute of a class it is the call itself, for other calls.
    """

    def __init__(self, call: Callable[Concatenate[Any, P], Call[T]]) -> None:
        def as_stream(client: Any, *args: P.args, **kwargs: P.kwargs) -> Stream[T]:
            yield Item((yield from call(client, *args, **kwargs)))

        @wraps(call)
        def run(client: Caller[Any], *args: P.args, **kwargs: P.kwargs) -> Any:
            return client._connection.result(as_stream(client, *args, **kwargs))  # noqa: SLF001

        self._call, self._run = call, run

    @overload
    def __get__(self, client: "Caller[Connection]", owner: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, client: "Caller[AsyncConnection]", owner: object = None
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(
        self, client: None, owner: object = None
    ) -> Callable[Concatenate[Any, P], Call[T]]: ...
    def __get__(self, client: object, owner: object = None) -> object:
        """Return the method of a client; without one, the call."""
        return self._call if client is None else MethodType(self._run, client)


class AnswerCall(Generic[P, T]):
    """Like `ApiCall`, for a call whose result, JSON to other calls, is an object to programs."""

    def __init__(
        self, call: Callable[Concatenate[Any, P], Call[Any]], made: Callable[[Any], T]
    ) -> None:
        @wraps(call)
        def answered(client: Any, *args: P.args, **kwargs: P.kwargs) -> Call[T]:
            return made((yield from call(client, *args, **kwargs)))

        self.made = made
        self._call = call
        self._answered = ApiCall[P, T](cast("Any", answered))  # wraps() hides its parameters

    @overload
    def __get__(self, client: "Caller[Connection]", owner: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, client: "Caller[AsyncConnection]", owner: object = None
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(
        self, client: None, owner: object = None
    ) -> Callable[Concatenate[Any, P], Call[Any]]: ...
    def __get__(self, client: Any, owner: object = None) -> object:
        """Return the method of a client; without one, the call, which returns JSON."""
        return self._call if client is None else self._answered.__get__(client)


def answers(
    made: Callable[[Any], T],
) -> Callable[[Callable[Concatenate[Any, P], Call[Any]]], AnswerCall[P, T]]:
    """Make a call's result an object: `@answers(QueuePage)`."""
    return lambda call: AnswerCall(call, made)


class ApiStream(Generic[P, T]):
    """Like `ApiCall`, for a stream: a method that yields."""

    def __init__(self, call: Callable[Concatenate[Any, P], Stream[T]]) -> None:
        @wraps(call)
        def run(client: Caller[Any], *args: P.args, **kwargs: P.kwargs) -> Any:
            return client._connection.run(call(client, *args, **kwargs))  # noqa: SLF001

        self._call, self._run = call, run

    @overload
    def __get__(
        self, client: "Caller[Connection]", owner: object = None
    ) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(
        self, client: "Caller[AsyncConnection]", owner: object = None
    ) -> Callable[P, AsyncGenerator[T, None]]: ...
    @overload
    def __get__(
        self, client: None, owner: object = None
    ) -> Callable[Concatenate[Any, P], Stream[T]]: ...
    def __get__(self, client: object, owner: object = None) -> object:
        """Return the method of a client; without one, the stream."""
        return self._call if client is None else MethodType(self._run, client)


def get(
    path: str,
    params: Mapping[str, str | int | Sequence[str] | None] | None = None,
    *,
    retry: bool = True,
) -> Call[Any]:
    """Read, with the parameters that are not None.

    `retry=False` sends the request once, for a caller that repeats it.
    """
    given = {name: value for name, value in (params or {}).items() if value is not None}
    retries = Retries.READ if retry else Retries.NONE
    return (yield Request("GET", path, given, retries=retries))


def act(
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    reason: str | None = None,
    params: Params | None = None,
    if_match: str | None = None,
    idempotency_key: str | None = None,
    headers: Mapping[str, str] | None = None,
    repeatable: bool = False,
) -> Call[Any]:
    """Send a POST, PUT, PATCH or DELETE; `reason`, for the audit trail, is a field of the body.

    `repeatable` says that it may be sent again after a lost answer; with an `idempotency_key` it
    always may. Raises `InputError` when the body cannot be JSON in UTF-8.
    """
    headers = {**(headers or {}), **_key_header(idempotency_key)}
    if if_match is not None:
        headers["If-Match"] = if_match
    content = None
    if reason is not None:
        body = {**(body or {}), "reason": reason}
    if body is not None:
        headers["Content-Type"] = "application/json"
        content = encode_body(body)
    retries = Retries.IDEMPOTENT if idempotency_key or repeatable else Retries.UNSENT
    return (yield Request(method, path, params, content, headers, retries))


def ask(path: str, body: Mapping[str, Any]) -> Call[Any]:
    """Send a POST that changes nothing, again after a failure. Raises `InputError` as `act`."""
    headers = {"Content-Type": "application/json"}
    return (yield Request("POST", path, None, encode_body(body), headers, Retries.IDEMPOTENT))


def restart_body(same_version: bool) -> dict[str, bool] | None:  # noqa: FBT001 - as the calls have it
    """The body of a request that starts ended jobs again; None for the usual one."""
    return {"same_version": True} if same_version else None


def sweep(
    path: str,
    made: Callable[[Any], T],
    reason: str | None,
    params: Params | None = None,
    body: Mapping[str, Any] | None = None,
) -> Stream[T]:
    """Send a POST for each page of jobs, until there are no more; yields what is made of each."""
    given = dict(params or {})
    while True:
        answer = yield from act("POST", path, body, reason=reason, params=given)
        if not isinstance(answer, dict):
            raise AnswerError("the API's answer is not a page of jobs")
        yield Item(made(answer))
        if not answer.get("next"):
            return
        given["next"] = str(answer["next"])


def list_entries(
    read: Callable[..., Call[Mapping[str, Any]]], limit: int | None, made: Callable[[Any], T]
) -> Stream[T]:
    """Yield what is made of the entries of a list, at most `limit`; pages are read as needed.

    `read` takes the `limit` and the `cursor` of a page.
    """
    cursor: str | None = None
    left = limit
    while left is None or left > 0:
        size = LIST_MAX if left is None else min(left, LIST_MAX)
        page = yield from read(limit=size, cursor=cursor)
        entries = rows(page)[:left]
        for entry in entries:
            yield Item(made(entry))
        left = None if left is None else left - len(entries)
        cursor = page.get("next")
        if not cursor:
            return


def segment(name: object, what: str) -> str:
    """Quote a name for a path. Raises `InputError` for what no name of the API can be.

    API Gateway decodes a path before it looks for the route, so a quoted slash would be one: the id
    `ID/logs` would call another route than a job's.
    """
    if not isinstance(name, str) or not name.strip(".") or not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is not the {what}: one has letters, digits and the characters _ . : - only"
        )
    return quote(name, safe="")


def encode_body(body: Mapping[str, Any]) -> bytes:
    """Write a body as JSON in UTF-8. Raises `InputError`, which names the value that cannot be."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except (
        TypeError,
        ValueError,
        RecursionError,
    ) as error:  # the second is also UnicodeEncodeError
        wrong = None if isinstance(error, RecursionError) else _find_wrong(body, "")
        raise InputError(wrong or f"the submission cannot be written as JSON: {error}") from error


def _find_wrong(value: object, place: str) -> str | None:
    """Say which value of a body JSON in UTF-8 cannot have; None if it is none of these."""
    match value:
        case str() if not is_text(value):
            # An argument is shown, as it may be one of many; another value may be confidential.
            shown = f", {value[:80]!r}," if place.startswith("command[") else ""
            return f"{place}{shown} is not UTF-8 text"
        case float() if not math.isfinite(value):
            return f"{place} is {value}, which is no number in JSON"
        case Mapping():
            for name, item in value.items():
                if not is_text(str(name)):
                    return f"a name in {place or 'the submission'} is not UTF-8 text"
                if wrong := _find_wrong(item, f"{place}.{name}".removeprefix(".")):
                    return wrong
        case list() | tuple():
            found = (_find_wrong(item, f"{place}[{at}]") for at, item in enumerate(value))
            return next(filter(None, found), None)
    return None


def is_text(text: str) -> bool:
    """Whether UTF-8 can have a text: bytes of an argument that are not UTF-8 become surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _key_header(key: str | None) -> dict[str, str]:
    """Header of an Idempotency-Key. Raises `InputError` for what no header can hold."""
    if key is None:
        return {}
    if not key.isascii() or not key.isprintable() or not key.strip():
        raise InputError("an idempotency key is printable ASCII, such as a UUID")
    return {"Idempotency-Key": key}
