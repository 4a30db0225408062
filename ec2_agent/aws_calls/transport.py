"""HTTP/1.1 over connections that stay open: one request at a time, and its complete answer.

It takes only what every answer of AWS's JSON services looks like: a status line of HTTP/1.1 and a
body of exactly `Content-Length` bytes. Anything else is a NoAnswer, and its connection is closed:

    agent                       connection                  AWS
    request 1  ------------------------------------------>
    (gives it up: too late)     closed
                                (the late answer 1 goes nowhere)  <---
    request 2  -----------------another connection------->

So no answer is ever taken for that of another request.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from ec2_agent.calls import NoThread, in_thread

IDLE_S = 30.0
"""A connection that was idle for longer is not used again: a NAT gateway forgets connections after
350 s without a word, and servers close theirs."""

MOST_IDLE = 32
"""Idle connections that are kept; more are closed."""

MOST_SPARE = 4
"""Of these, how many an idle agent keeps: when it has no descriptors left, it works over them."""

CONNECT_S = 2.0
"""For the lookup of the name, the connection and the TLS handshake together."""

MOST_HEAD_BYTES = 16 * 1024
MOST_BODY_BYTES = 16 * 1024 * 1024
"""Above every answer: SQS sends 1 MiB of messages at most, DynamoDB an item of 400 KB."""

_STATUS = re.compile(r"HTTP/1\.1 ([2-5][0-9][0-9])(?: .*)?")
_DIGITS = re.compile(r"[0-9]{1,10}")


class NoAnswer(Exception):
    """There was no complete answer; AWS may have done what it was asked, or not. Says why."""


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """Status line and headers of an answer."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case."""
    length: int
    """Bytes of the body."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer."""

    head: AnswerHead
    body: bytes


def read_head(text: str) -> AnswerHead:
    """Read status line and headers, without the empty line after them. Raises NoAnswer."""
    first, *lines = text.split("\r\n")
    status = _STATUS.fullmatch(first)
    if status is None:
        raise NoAnswer("not a status line of HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or not name or name != name.strip():
            raise NoAnswer("a line that is no header")
        if name == "content-length" and name in headers:
            raise NoAnswer("two lengths")
        headers[name] = value.strip()
    length = headers.get("content-length", "")
    if "transfer-encoding" in headers or "content-encoding" in headers:
        raise NoAnswer("an encoded body")
    if not _DIGITS.fullmatch(length) or int(length) > MOST_BODY_BYTES:
        raise NoAnswer("no Content-Length that can be")
    return AnswerHead(int(status[1]), headers, int(length))


class AwsConnection(asyncio.Protocol):
    """One open connection."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives seconds."""
        self._clock = clock
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self._buffer = bytearray()
        self._head: AnswerHead | None = None
        self._starts = 0
        """Where the body starts in the buffer."""
        self.closed = False
        self.idle_since = clock()

    async def ask(self, request: bytes, timeout_s: float) -> Answer:
        """Send a request and wait for its answer. Raises NoAnswer.

        The connection is closed if there is none, or if the caller is cancelled.
        """
        loop = asyncio.get_running_loop()
        if self.closed or self._transport is None or self._waiting is not None:
            raise NoAnswer("the connection is not free")
        waiting = self._waiting = loop.create_future()
        timer = loop.call_later(timeout_s, self._fail, "no answer in time")
        answer: Answer | None = None
        try:
            self._transport.write(request)
            answer = await waiting
        finally:
            timer.cancel()
            self._waiting, self._head = None, None
            self._buffer.clear()
            self.idle_since = self._clock()
            if answer is None or answer.head.headers.get("connection", "").lower() == "close":
                self.close()
        return answer

    def close(self) -> None:
        """Close at once, whatever is under way."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    # asyncio calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - create_connection's
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """End: what waits gets no answer."""
        self.closed = True
        self._fail("the connection was closed" if exc is None else str(exc))

    def data_received(self, data: bytes) -> None:
        """Collect an answer."""
        waiting = self._waiting
        if waiting is None or waiting.done():
            self.close()  # nobody has asked: it belongs to no request
            return
        self._buffer += data
        try:
            answer = self._complete()
        except NoAnswer as why:
            self._fail(str(why))
            return
        if answer is not None:
            waiting.set_result(answer)

    def _complete(self) -> Answer | None:
        """The answer; None while there is more to come. Raises NoAnswer."""
        buffer = self._buffer
        if self._head is None:
            end = buffer.find(b"\r\n\r\n", 0, MOST_HEAD_BYTES)
            if end < 0:
                if len(buffer) >= MOST_HEAD_BYTES:
                    raise NoAnswer("headers without an end")
                return None
            self._head, self._starts = read_head(buffer[:end].decode("latin-1")), end + 4
        missing = self._starts + self._head.length - len(buffer)
        if missing < 0:
            raise NoAnswer("more than the answer")
        return None if missing else Answer(self._head, bytes(buffer[self._starts :]))

    def _fail(self, why: str) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(NoAnswer(why))


Connect = Callable[[], Awaitable[AwsConnection]]
"""Opens a connection. Raises OSError (also of TLS) and TimeoutError."""


class AwsConnections:
    """The connections to one endpoint: the one used last is used next."""

    def __init__(self, connect: Connect, clock: Callable[[], float]) -> None:
        """`clock` gives seconds."""
        self._connect = connect
        self._clock = clock
        self._idle: list[AwsConnection] = []

    async def ask(self, request: bytes, timeout_s: float) -> Answer:
        """Send a request over an idle connection, or a new one. Raises NoAnswer."""
        connection = self._take()
        if connection is None:
            try:
                async with asyncio.timeout(CONNECT_S):
                    connection = await self._connect()
            except (OSError, TimeoutError, NoThread) as error:
                raise NoAnswer(f"no connection: {error}") from None
        answer = await connection.ask(request, timeout_s)
        self._give_back(connection)
        return answer

    def close(self) -> None:
        """Close idle connections."""
        while self._idle:
            self._idle.pop().close()

    def close_spare(self) -> None:
        """Close idle connections except those used last.

        With TLS each holds 256 KiB, and those of a peak would otherwise stay until the next one.
        """
        while len(self._idle) > MOST_SPARE:
            self._idle.pop(0).close()

    def _take(self) -> AwsConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed and not self._is_stale(connection):
                return connection
            connection.close()
        return None

    def _give_back(self, connection: AwsConnection) -> None:
        idle = self._idle
        if not connection.closed:
            idle.append(connection)
        while idle and (idle[0].closed or len(idle) > MOST_IDLE or self._is_stale(idle[0])):
            idle.pop(0).close()

    def _is_stale(self, connection: AwsConnection) -> bool:
        return self._clock() - connection.idle_since > IDLE_S


async def connect(
    host: str, port: int, tls: ssl.SSLContext | None, clock: Callable[[], float]
) -> AwsConnection:
    """Connect to one of a host's addresses. Raises OSError and TimeoutError.

    Name and address are looked up and tried in a thread: asyncio's own way runs in its executor,
    whose threads are waited for at the end of the process.
    """
    given_up = False

    def dial() -> socket.socket:
        dialled = socket.create_connection((host, port), timeout=CONNECT_S)
        if given_up:
            dialled.close()
            raise TimeoutError
        return dialled

    try:
        dialled = await in_thread(dial, "connect")
    except asyncio.CancelledError:
        given_up = True
        raise
    try:
        dialled.setblocking(False)
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: AwsConnection(clock),
            sock=dialled,
            ssl=tls,
            server_hostname=host if tls is not None else None,
        )
    except BaseException:
        with suppress(OSError):
            dialled.close()
        raise
    return connection
