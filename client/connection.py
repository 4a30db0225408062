"""One connection to one API: requests out, JSON or an error of `client.errors` back.

Reads are sent again after a refused or broken connection, 429 and 5xx, some seconds long. A
submission is sent again only when the connection itself could not be made: then the API never
saw it. With an Idempotency-Key, which makes it one that is done once, it is retried like a read.
"""

import json
import ssl
from collections.abc import Generator, Iterator, Mapping
from http import HTTPStatus
from typing import Any

import httpx
from httpx_retries import Retry, RetryTransport

from client.credentials import Credential
from client.errors import (
    AccessError,
    AnswerError,
    ApiError,
    ConfigError,
    FieldProblem,
    InputError,
    JoblaneError,
    NotFoundError,
    RequestError,
    ServerError,
    ThrottledError,
    UnreachableError,
)
from client.transport import Certificate, base_url, transport

TIMEOUT = httpx.Timeout(35.0, connect=5.0)
"""Seconds. API Gateway itself gives up after 30."""

BRIEF_TIMEOUT = httpx.Timeout(15.0, connect=5.0)
"""For a read that its caller repeats anyway, and that should notice soon when nobody answers."""

RETRY_READ = Retry(
    total=4,
    allowed_methods=["GET"],
    status_forcelist=[429, 500, 502, 503, 504],
    # A read that timed out has already cost 35 s.
    retry_on_exceptions=[httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout],
    backoff_factor=0.2,
    backoff_jitter=0.5,
    max_backoff_wait=5.0,
    total_timeout=10.0,
)
"""Waits of about 0.3, 0.6, 1.2 and 2.4 s, or what Retry-After asks for, 10 s at most in all."""

RETRY_ONCE = Retry(
    total=4,
    allowed_methods=["POST"],
    status_forcelist=[429, 500, 502, 503, 504],
    retry_on_exceptions=[httpx.NetworkError, httpx.RemoteProtocolError, httpx.TimeoutException],
    backoff_factor=0.2,
    backoff_jitter=0.5,
    max_backoff_wait=5.0,
    total_timeout=45.0,
)
"""For a request with an Idempotency-Key, which is done once however often it is sent."""

NO_RETRY = Retry(total=0)


class _RetryUnsent(Retry):
    """Only a connection that was never made is tried again; every answer is final."""

    def is_retryable_status_code(self, status_code: int) -> bool:  # noqa: ARG002
        return False


RETRY_UNSENT = _RetryUnsent(
    total=4,
    allowed_methods=["POST", "DELETE"],
    retry_on_exceptions=[httpx.ConnectError],
    backoff_factor=0.2,
    backoff_jitter=0.5,
)


class _Bearer(httpx.Auth):
    """Sends the credential's token, and once more with another one after a 401.

    The API did nothing for a request that it answered so, hence a submission may be repeated.
    """

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        token = self._credential.token()
        _authorize(request, token)
        response = yield request
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            other = self._credential.renewed(token)
            if other is not None:
                _authorize(request, other)
                yield request


def _authorize(request: httpx.Request, token: str | None) -> None:
    if token:
        request.headers["Authorization"] = f"Bearer {token}"


class Connection:
    """Sends requests to the API at `url`, as whoever the credential says.

    Raises `ConfigError` when the URL or the certificate cannot be one.
    """

    def __init__(
        self, url: str, credential: Credential, certificate: Certificate | None = None
    ) -> None:
        self.url = base_url(url)
        self._credential = credential
        self._http = httpx.Client(
            base_url=self.url,
            auth=_Bearer(credential),
            headers={"Accept": "application/json", "User-Agent": "joblane-client"},
            timeout=TIMEOUT,
            transport=RetryTransport(transport(self.url, certificate), RETRY_READ),
        )

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._http.close()

    def get(
        self, path: str, params: Mapping[str, str | int] | None = None, *, retry: bool = True
    ) -> Any:  # noqa: ANN401 - JSON
        """Answer the JSON of a GET; `retry=False` sends it once, for a caller that repeats it."""
        request = self._http.build_request(
            "GET",
            path,
            params=params,
            timeout=TIMEOUT if retry else BRIEF_TIMEOUT,
            extensions={} if retry else {"retry": NO_RETRY},
        )
        return self._send(request)

    def post(
        self, path: str, body: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> Any:  # noqa: ANN401 - JSON
        """Answer the JSON of a POST; see `act`."""
        return self.act("POST", path, body, idempotency_key=idempotency_key)

    def act(  # noqa: PLR0913 - the parts of a request
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        params: Mapping[str, str] | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> Any:  # noqa: ANN401 - JSON
        """Answer the JSON of a POST, PUT or DELETE, None for an answer without any.

        Sent again only if the connection was refused; with an `idempotency_key` like a read: the
        API does it once. Raises `InputError` when `body` cannot be written as JSON in UTF-8.
        """
        headers = _key_header(idempotency_key)
        if if_match is not None:
            headers["If-Match"] = if_match
        if body is not None:
            headers["Content-Type"] = "application/json"
        request = self._http.build_request(
            method,
            path,
            params=params,
            content=None if body is None else _encoded(body),
            headers=headers,
            extensions={"retry": RETRY_ONCE if idempotency_key else RETRY_UNSENT},
        )
        return self._send(request)

    def _send(self, request: httpx.Request) -> Any:  # noqa: ANN401 - JSON
        try:
            response = self._http.send(request)
        except httpx.TimeoutException as error:
            sent = not isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout)
            message = f"the API at {self.url} did not answer in time"
            raise UnreachableError(message, sent=sent) from error
        except httpx.TransportError as error:
            raise _unreachable(self.url, error) from error
        except httpx.DecodingError as error:
            raise AnswerError(f"the answer of {self.url} cannot be decoded: {error}") from error
        if response.status_code == HTTPStatus.NO_CONTENT:
            return None
        if response.is_success:
            return _json(response, self.url)
        raise self._error(response)

    def _error(self, response: httpx.Response) -> JoblaneError:
        status = response.status_code
        if not response.is_error:
            return AnswerError(
                f"{self.url} answered {status} and not Joblane's API; is JOBLANE_URL right?"
            )
        try:
            found = response.json()
        except (ValueError, RecursionError):
            found = None
        problem = found if isinstance(found, dict) else {}
        kind = _kind(status)
        title = f"{status} {_title(problem, status)}"
        detail = problem.get("detail")
        error = kind(
            f"{title}{f': {detail}' if detail else ''}{self._hint(kind, problem)}",
            status=status,
            title=title,
            fields=tuple(_fields(problem)),
            request_id=_request_id(problem, response),
        )
        if isinstance(error, ThrottledError):
            error.retry_after_s = _seconds(response.headers.get("Retry-After"))
        return error

    def _hint(self, kind: type[ApiError], problem: Mapping[str, Any]) -> str:
        if kind is AccessError and "detail" not in problem:
            return f"; {self._credential.hint}"
        if kind is NotFoundError and "title" not in problem:
            return f"; is {self.url} (JOBLANE_URL) a Joblane API?"
        return ""


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        raise InputError("the submission holds bytes that are not UTF-8 text") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"the submission cannot be written as JSON: {error}") from error


def _key_header(key: str | None) -> dict[str, str]:
    """The header of an Idempotency-Key. Raises `InputError` for what no header can hold."""
    if key is None:
        return {}
    if not key.isascii() or not key.isprintable() or not key.strip():
        raise InputError("an idempotency key is printable ASCII, such as a UUID")
    return {"Idempotency-Key": key}


def _unreachable(url: str, error: httpx.TransportError) -> JoblaneError:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return ConfigError(f"the certificate of {url} is not trusted: {cause.verify_message}")
        cause = cause.__cause__ or cause.__context__
    return UnreachableError(
        f"cannot reach the API at {url}: {str(error) or type(error).__name__}",
        sent=not isinstance(error, httpx.ConnectError | httpx.ProxyError),
    )


def _json(response: httpx.Response, url: str) -> Any:  # noqa: ANN401 - JSON
    try:
        return response.json()
    except (ValueError, RecursionError) as error:
        raise AnswerError(f"the answer of {url} is not JSON; is JOBLANE_URL right?") from error


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
    """Joblane says `title`, API Gateway `message` and, from some places, `Message`."""
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


def _seconds(header: str | None) -> float | None:
    return float(header) if header and header.isascii() and header.isdigit() else None
