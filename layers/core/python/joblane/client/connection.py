"""Connections to the API, which run its calls: one blocks, one awaits.

Reads are sent again after a network error, 429 and 5xx, for some seconds. After a 429 whose
Retry-After is longer than that, nothing is. Everything else is sent
again only when no connection could be made, because then the API saw nothing of it; what takes
effect once, such as a request with an Idempotency-Key, is retried like a read.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, closing
from http import HTTPStatus
from typing import Any, TypeVar

import httpx
from httpx_retries import Retry, RetryTransport

from joblane.client.calls import Item, Request, Retries, Sleep, Stream, Work, is_text
from joblane.client.credentials import Credential
from joblane.client.errors import InputError, JoblaneError
from joblane.client.responses import failure, result, retry_after_s
from joblane.client.transport import HEADERS, Certificate, base_url, transport

T = TypeVar("T")

TIMEOUT = httpx.Timeout(35.0, connect=5.0)
"""Seconds. API Gateway itself gives up after 30."""

BRIEF_TIMEOUT = httpx.Timeout(15.0, connect=5.0)
"""For a read that the call repeats itself: an API that is away is noticed sooner."""


MAX_WAIT_S = 5.0
"""Longest pause between two tries."""


class _Throttled(httpx.TransportError):
    """The answer 429, which says that the request may succeed soon."""


def _again_if_soon(response: httpx.Response) -> None:
    """Raise _Throttled for 429, unless the pause that the API asks for is too long."""
    if response.status_code != HTTPStatus.TOO_MANY_REQUESTS:
        return
    if (retry_after_s(response) or 0.0) <= MAX_WAIT_S:
        raise _Throttled("too many requests")


def _retry(
    methods: list[str], exceptions: list[type[httpx.HTTPError]], total_timeout: float
) -> Retry:
    return Retry(
        total=4,
        allowed_methods=methods,
        status_forcelist=[500, 502, 503, 504],
        validate_response=_again_if_soon,
        retry_on_exceptions=[
            httpx.NetworkError,
            httpx.RemoteProtocolError,
            _Throttled,
            *exceptions,
        ],
        backoff_factor=0.2,
        backoff_jitter=0.5,
        max_backoff_wait=MAX_WAIT_S,
        total_timeout=total_timeout,
    )


# A read that timed out has already cost 35 s.
RETRY_READ = _retry(["GET"], [httpx.ConnectTimeout], total_timeout=10.0)
"""Waits of about 0.3, 0.6, 1.2 and 2.4 s, or as long as Retry-After says, 10 s at most in all."""

RETRY_IDEMPOTENT = _retry(["POST", "PATCH"], [httpx.TimeoutException], total_timeout=45.0)
"""For a request that takes effect once, such as one with an Idempotency-Key."""


class _RetryUnsent(Retry):
    """Tries again when no connection could be made; every answer is final."""

    def is_retryable_status_code(self, status_code: int) -> bool:  # noqa: ARG002
        return False


RETRY_UNSENT = _RetryUnsent(
    total=4,
    allowed_methods=["POST", "PUT", "DELETE"],
    retry_on_exceptions=[httpx.ConnectError],
    backoff_factor=0.2,
    backoff_jitter=0.5,
)


_RETRY: Mapping[Retries, Retry] = {
    Retries.READ: RETRY_READ,
    Retries.UNSENT: RETRY_UNSENT,
    Retries.IDEMPOTENT: RETRY_IDEMPOTENT,
    Retries.NONE: Retry(total=0),
}


class _Bearer(httpx.Auth):
    """Sends the credential's token, and a renewed one once after a 401.

    The API did nothing for a request with that answer, hence a submission may be repeated.
    """

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    def sync_auth_flow(
        self, request: httpx.Request
    ) -> Generator[httpx.Request, httpx.Response, None]:
        token = self._credential.token()
        response = yield _authorize(request, token)
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            other = self._credential.renew(token)
            if other is not None:
                yield _authorize(request, other)

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        # In a thread: a credential reads and locks files, and asks the issuer. A renewal continues
        # when the task is cancelled, so that the refresh token that it used is replaced on disk.
        token = await asyncio.to_thread(self._credential.token)
        response = yield _authorize(request, token)
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            other = await asyncio.to_thread(self._credential.renew, token)
            if other is not None:
                yield _authorize(request, other)


def _auth(credential: Credential) -> httpx.Auth:
    return credential if isinstance(credential, httpx.Auth) else _Bearer(credential)


def _authorize(request: httpx.Request, token: str | None) -> httpx.Request:
    if token:
        request.headers["Authorization"] = f"Bearer {token}"
    return request


def _build(http: httpx.Client | httpx.AsyncClient, request: Request) -> httpx.Request:
    for name, value in (request.params or {}).items():
        if not isinstance(value, int) and not is_text("".join(value)):
            raise InputError(f"{name} is not UTF-8 text")
    return http.build_request(
        request.method,
        request.path,
        params=request.params,
        content=request.content,
        headers=request.headers,
        timeout=BRIEF_TIMEOUT if request.retries is Retries.NONE else TIMEOUT,
        extensions={"retry": _RETRY[request.retries]},
    )


class Connection:
    """Sends requests to the API at `url` and blocks until they are answered.

    Raises `ConfigError` when the URL or the certificate cannot be one.
    """

    def __init__(
        self,
        url: str,
        credential: Credential,
        certificate: Certificate | None = None,
        over: httpx.BaseTransport | None = None,
    ) -> None:
        """`over` takes the requests in place of the network."""
        self.url = base_url(url)
        self._credential = credential
        over = over or transport(httpx.HTTPTransport, self.url, certificate)
        self._http = httpx.Client(
            base_url=self.url,
            auth=_auth(credential),
            headers=HEADERS,
            transport=RetryTransport(over),
        )

    def sleep(self, seconds: float) -> None:
        """Let these seconds pass."""
        time.sleep(seconds)

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._http.close()

    def send(self, request: Request) -> Any:
        """Return the JSON of the answer. Raises `JoblaneError`."""
        try:
            response = self._http.send(_build(self._http, request))
        except httpx.HTTPError as error:
            raise failure(error, self.url) from error
        return result(response, self.url, self._credential.hint, redirect=request.redirect)

    def run(self, call: Stream[T]) -> Generator[T, None, None]:
        """Do what a call yields: send its requests, sleep, and yield its items."""
        answer: object = None
        error: JoblaneError | None = None
        with closing(call):
            while True:
                try:
                    step = call.send(answer) if error is None else call.throw(error)
                except StopIteration:
                    return
                answer = error = None
                match step:
                    case Item():
                        yield step.value
                    case Sleep():
                        self.sleep(step.seconds)
                    case _:
                        try:
                            answer = self._do(step)
                        except JoblaneError as failed:
                            error = failed

    def _do(self, step: Request | Work) -> Any:
        return step.run(self.send) if isinstance(step, Work) else self.send(step)

    def result(self, call: Stream[T]) -> T:
        """Return the only item of a call."""
        with closing(self.run(call)) as items:
            return next(items)


class AsyncConnection:
    """Like `Connection`, for asyncio."""

    def __init__(
        self,
        url: str,
        credential: Credential,
        certificate: Certificate | None = None,
        over: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """`over` takes the requests in place of the network."""
        self.url = base_url(url)
        self._credential = credential
        over = over or transport(httpx.AsyncHTTPTransport, self.url, certificate)
        self._http = httpx.AsyncClient(
            base_url=self.url,
            auth=_auth(credential),
            headers=HEADERS,
            transport=RetryTransport(over),
        )

    async def sleep(self, seconds: float) -> None:
        """Let these seconds pass."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close the connections that are kept open."""
        await self._http.aclose()

    async def send(self, request: Request) -> Any:
        """Return the JSON of the answer. Raises `JoblaneError`."""
        try:
            response = await self._http.send(_build(self._http, request))
        except httpx.HTTPError as error:
            raise failure(error, self.url) from error
        return result(response, self.url, self._credential.hint, redirect=request.redirect)

    async def run(self, call: Stream[T]) -> AsyncGenerator[T, None]:
        """Do what a call yields: send its requests, sleep, and yield its items."""
        answer: object = None
        error: JoblaneError | None = None
        with closing(call):
            while True:
                try:
                    step = call.send(answer) if error is None else call.throw(error)
                except StopIteration:
                    return
                answer = error = None
                match step:
                    case Item():
                        yield step.value
                    case Sleep():
                        await self.sleep(step.seconds)
                    case _:
                        try:
                            answer = await self._do(step)
                        except JoblaneError as failed:
                            error = failed

    async def _do(self, step: Request | Work) -> Any:
        if isinstance(step, Request):
            return await self.send(step)
        loop = asyncio.get_running_loop()

        def send(request: Request) -> Any:
            return asyncio.run_coroutine_threadsafe(self.send(request), loop).result()

        try:
            return await asyncio.to_thread(step.run, send)
        except asyncio.CancelledError:
            step.stop()  # the thread goes on until it sees that
            raise

    async def result(self, call: Stream[T]) -> T:
        """Return the only item of a call."""
        async with aclosing(self.run(call)) as items:
            return await anext(items)
