"""Answers of the API: JSON, or an error of `joblane.client.errors`."""

import re
import ssl
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

import httpx

from joblane.client.errors import (
    AccessError,
    AnswerError,
    ApiError,
    ConfigError,
    FieldProblem,
    JoblaneError,
    KeyFullError,
    NotFoundError,
    RequestError,
    ServerError,
    ThrottledError,
    UnreachableError,
)

_KEY_FULL = ("active-limit", "queue-depth")
"""Reasons of a refusal by a key."""


def result(response: httpx.Response, url: str, access_hint: str, *, redirect: bool = False) -> Any:
    """Return the JSON of an answer, None without a body, or raise its error.

    `access_hint` is what to do about a 401 or 403 without a detail. With `redirect`, returns the
    URL that the answer redirects to.
    """
    if redirect:
        if response.has_redirect_location:
            return response.headers["Location"]
        if response.is_success:
            raise AnswerError(f"{url} answered {response.status_code} in place of a redirection")
    if response.status_code == HTTPStatus.NO_CONTENT:
        return None
    if response.is_success:
        return _json(response, url)
    raise _error(response, url, access_hint)


def failure(error: httpx.HTTPError, url: str) -> JoblaneError:
    """Turn the failure of a request that got no answer into an error of ours."""
    match error:
        case httpx.TimeoutException():
            sent = not isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout)
            return UnreachableError(f"the API at {url} did not answer in time", sent=sent)
        case httpx.DecodingError():
            return AnswerError(f"the answer of {url} cannot be decoded: {error}")
        case _:
            return _unreachable(url, error)


def _error(response: httpx.Response, url: str, access_hint: str) -> JoblaneError:
    status = response.status_code
    if not response.is_error:
        return AnswerError(f"{url} answered {status}, as no Joblane API does; check JOBLANE_URL")
    try:
        found = response.json()
    except (ValueError, RecursionError):
        found = None
    problem = found if isinstance(found, dict) else {}
    kind = KeyFullError if problem.get("reason") in _KEY_FULL else _kind(status)
    title = f"{status} {_title(problem, status)}"
    detail = problem.get("detail")
    hint = ""
    if kind is AccessError and "detail" not in problem:
        needed = _find_needed_role(response.request) if status == HTTPStatus.FORBIDDEN else ""
        hint = f"{needed}; {access_hint}"
    elif kind is NotFoundError and "title" not in problem:
        hint = f"; is {url} (JOBLANE_URL) a Joblane API?"
    error = kind(
        f"{title}{f': {detail}' if detail else ''}{hint}",
        status=status,
        title=title,
        fields=tuple(_fields(problem)),
        request_id=_request_id(problem, response),
    )
    if isinstance(error, ThrottledError):
        error.retry_after_s = retry_after_s(response)
    _set_counts(error, problem)
    return error


def refusal(entry: Mapping[str, Any]) -> ApiError:
    """Make the error of a job that a batch did not accept, from its entry in the answer."""
    status = _count(entry, "status") or int(HTTPStatus.BAD_REQUEST)
    kind = KeyFullError if entry.get("reason") in _KEY_FULL else _kind(status)
    title = f"{status} {_title(entry, status)}"
    fields = tuple(_fields(entry))
    told = str(entry.get("detail") or "") or "; ".join(f"{f.field}: {f.problem}" for f in fields)
    message = f"{title}: {told}" if told else title
    error = kind(message, status=status, title=title, fields=fields)
    _set_counts(error, entry)
    return error


def _set_counts(error: ApiError, problem: Mapping[str, Any]) -> None:
    """Say how full the key is."""
    if isinstance(error, KeyFullError):
        error.reason = str(problem["reason"])
        error.active, error.queued, error.limit = (
            _count(problem, name) for name in ("active", "queued", "limit")
        )


def _count(problem: Mapping[str, Any], name: str) -> int:
    found = problem.get(name)
    return found if isinstance(found, int) else 0


def _find_needed_role(request: httpx.Request) -> str:
    """Name the role that API Gateway, which does not say it, missed in a token."""
    # Imported for this error only: the models of the routes take long.
    from joblane.contract.access import roles_for
    from joblane.contract.routes import ROUTES

    for route in ROUTES:
        path = "/".join(
            "[^/]+" if part.startswith("{") else re.escape(part) for part in route.path.split("/")
        )
        if route.method == request.method and re.search(rf"{path}$", request.url.path):
            return f": this needs the role {roles_for(route.scopes)}" if route.scopes else ""
    return ""


def _unreachable(url: str, error: httpx.HTTPError) -> JoblaneError:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return ConfigError(f"the certificate of {url} is not trusted: {cause.verify_message}")
        cause = cause.__cause__ or cause.__context__
    return UnreachableError(
        f"cannot reach the API at {url}: {str(error) or type(error).__name__}",
        sent=not isinstance(error, httpx.ConnectError | httpx.ProxyError),
    )


def _json(response: httpx.Response, url: str) -> Any:
    try:
        return response.json()
    except (ValueError, RecursionError) as error:
        raise AnswerError(f"the answer of {url} is not JSON; check JOBLANE_URL") from error


def _kind(status: int) -> type[ApiError]:
    match status:
        case 401 | 403:
            return AccessError
        case 404:
            return NotFoundError
        case 429:
            return ThrottledError
        case _ if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return ServerError
        case _:
            return RequestError


def _title(problem: Mapping[str, Any], status: int) -> str:
    """Read the title: `title` of Joblane, `message` or `Message` of API Gateway."""
    for name in ("title", "message", "Message"):
        if problem.get(name):
            return str(problem[name])
    return HTTPStatus(status).phrase if status in {int(known) for known in HTTPStatus} else "error"


def _fields(problem: Mapping[str, Any]) -> Iterator[FieldProblem]:
    listed = problem.get("errors")
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict):
            yield FieldProblem(str(entry.get("field", "?")), str(entry.get("problem", "refused")))


def _request_id(problem: Mapping[str, Any], response: httpx.Response) -> str | None:
    found = problem.get("instance") or response.headers.get("apigw-requestid")
    return str(found) if found else None


def retry_after_s(response: httpx.Response) -> float | None:
    """Return the seconds of the header Retry-After; None without it."""
    header = response.headers.get("Retry-After")
    return float(header) if header and header.isascii() and header.isdigit() else None
