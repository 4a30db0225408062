"""Direct calls: requests to AWS's JSON services from the event loop, without botocore or threads.

For the few calls that every job makes (decision 1751 has what it saves).
Only a complete answer with status 200 counts. After anything else the caller repeats the call
through botocore, with the same values:

    agent                            table
    claim, at 17 (direct)  ----->    active, "17 claimed by A"
    (the answer is lost)
    claim, at 17 (botocore)  --->    refused; the last line is our own: claimed

So a call that is made directly must be one that may be made twice.
"""

import asyncio
import base64
import json
import zlib
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, TypeVar

from ec2_agent.aws_calls.credentials import CurrentKeys
from ec2_agent.aws_calls.endpoint import AwsEndpoint, NotDirect
from ec2_agent.aws_calls.sign import Keys, Signer
from ec2_agent.aws_calls.transport import Answer, AwsConnections, NoAnswer, connect
from ec2_agent.calls import in_thread
from ec2_agent.logging import events

T = TypeVar("T")

TIMEOUT_S = 2.0
"""For an answer, beyond what the call itself waits for."""

REST_AFTER = 3
"""After so many calls in a row without a usable answer all are made through botocore for a while:
while AWS cannot be reached, nobody should wait for two time-outs."""

REST_S = 10.0

OPEN_AGAIN_S = 60.0
"""Before a service that could not be called directly is looked at again."""

_EXPECTED = (b"ConditionalCheckFailed",)
"""In refusals that say nothing against direct calls."""


class NotMade(Exception):
    """The call must be repeated through botocore; it may have been made. The text says why."""


class DirectCalls:
    """Direct calls to one service."""

    def __init__(
        self,
        find: Callable[[], AwsEndpoint],
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        dated: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`find` gives the endpoint, called in a thread; see `endpoint_of` for what it raises.

        `clock` gives Unix seconds, `monotonic` seconds that count on while the machine sleeps;
        `dated` takes the `Date` header of each answer.
        """
        self._find = find
        self._clock = clock
        self._monotonic = monotonic
        self._dated = dated
        self._service: _Service | None = None
        self._opening: asyncio.Task[None] | None = None
        self._open_at = self._rests_until = -OPEN_AGAIN_S
        self._failed = 0
        """Calls in a row without a usable answer."""
        self._told = ""
        """Why the service is not called directly, as the log has it."""

    async def call(
        self,
        operation: str,
        request: Mapping[str, Any],
        read: Callable[[Any], T],
        wait_s: float = 0,
    ) -> T:
        """Make a call that may be made twice.

        `request` has botocore's parameters, `read` gives the result of an answer, and `wait_s` is
        how long the call itself waits. Raises NotMade, also when `read` raises KeyError,
        TypeError, ValueError or AttributeError.
        """
        service = self._service or await self._open()
        if self._monotonic() < self._rests_until:
            raise NotMade("direct calls rest")
        keys = service.keys.get() or await service.keys.wait_first()
        if keys is None:
            raise NotMade("no valid credentials")
        body = _ENCODE(request).encode()
        head = service.head(operation, keys, self._clock(), body)
        try:
            answer = await service.connections.ask(head + body, TIMEOUT_S + wait_s)
            result = read(self._content(answer))
        except NoAnswer as why:
            self._note_failure(service, operation, str(why))
            raise NotMade(str(why)) from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self._note_failure(service, operation, f"unexpected answer: {error!r}")
            raise NotMade(f"unexpected answer: {error!r}") from None
        self._failed = 0
        return result

    def close(self) -> None:
        """Close idle connections."""
        if self._service is not None:
            self._service.connections.close()

    def close_spare(self) -> None:
        """Close idle connections except some."""
        if self._service is not None:
            self._service.connections.close_spare()

    def _content(self, answer: Answer) -> Any:
        """The content of a good answer. Raises NoAnswer and ValueError."""
        head, body = answer.head, answer.body
        if head.status != HTTPStatus.OK:
            if any(text in body for text in _EXPECTED):
                raise NotMade("its condition does not hold")
            raise NoAnswer(f"status {head.status}")
        crc = head.headers.get("x-amz-crc32")
        if crc is not None and crc != str(zlib.crc32(body)):
            raise NoAnswer("a body with another checksum")
        if date := head.headers.get("date"):
            self._dated(date)
        return json.loads(body)

    def _note_failure(self, service: "_Service", operation: str, why: str) -> None:
        self._failed += 1
        if self._failed >= REST_AFTER:
            self._failed = 0
            self._rests_until = self._monotonic() + REST_S
            service.connections.close()
            events.direct_calls_rest(operation, why)

    async def _open(self) -> "_Service":
        """Find the endpoint, once for all callers. Raises NotMade."""
        if self._opening is None:
            if self._monotonic() < self._open_at:
                raise NotMade("this service is not called directly")
            self._opening = asyncio.create_task(self._find_service())
        await asyncio.wait({self._opening})
        if self._service is None:
            raise NotMade("this service is not called directly")
        return self._service

    async def _find_service(self) -> None:
        try:
            endpoint = await in_thread(self._find, "find endpoint")
        except Exception as error:  # noqa: BLE001 - botocore's own calls report what is wrong
            self._open_at = self._monotonic() + OPEN_AGAIN_S
            if isinstance(error, NotDirect) and self._told != (why := str(error)):
                self._told = why  # once, although it is looked at each minute
                events.not_called_directly(error)
        else:
            self._service = _Service(endpoint, self._monotonic)
        finally:
            self._opening = None


class _Service:
    """One endpoint, with what is kept between calls."""

    def __init__(self, endpoint: AwsEndpoint, monotonic: Callable[[], float]) -> None:
        self._endpoint = endpoint
        self._signer = Signer(endpoint.region, endpoint.service)
        self.keys = CurrentKeys(endpoint.credentials, monotonic)
        self.connections = AwsConnections(
            lambda: connect(endpoint.host, endpoint.port, endpoint.tls, monotonic), monotonic
        )

    def head(self, operation: str, keys: Keys, now: float, body: bytes) -> bytes:
        """Request line and headers of a signed request."""
        endpoint = self._endpoint
        given = [
            ("content-type", endpoint.content_type),
            ("host", endpoint.authority),
            ("x-amz-target", f"{endpoint.target}.{operation}"),
        ]
        headers = self._signer.headers(keys, now, given, body)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        text = f"POST / HTTP/1.1\r\n{lines}user-agent: joblane-agent\r\n"
        return f"{text}content-length: {len(body)}\r\n\r\n".encode("latin-1")


def _blob(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"no request has a {type(value).__name__}")


_ENCODE = json.JSONEncoder(separators=(",", ":"), default=_blob).encode


async def call_either(
    direct: DirectCalls | None,
    directly: Callable[[DirectCalls], Awaitable[T]],
    through_botocore: Callable[[], T],
    name: str,
) -> T:
    """Make a call directly; if that fails, or without `direct`, through botocore in a thread."""
    if direct is not None:
        try:
            return await directly(direct)
        except NotMade:
            pass
    return await in_thread(through_botocore, name)
