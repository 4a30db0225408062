"""Connections of direct calls: one complete answer to each request, or none."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ec2_agent.aws_calls import transport
from ec2_agent.aws_calls.transport import (
    IDLE_S,
    MOST_HEAD_BYTES,
    MOST_IDLE,
    MOST_SPARE,
    Answer,
    AwsConnection,
    AwsConnections,
    NoAnswer,
    connect,
)
from tests.support import virtual_time
from tests.support.answering import Asked, Part, Script, Server, Then, answer, serving
from tests.support.tls import self_signed

REQUEST = b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}"
TOO_LATE_S = 30.0
"""For an answer that must come: only a hanging test waits so long."""


def request(number: int) -> bytes:
    """A request that can be told from others."""
    body = str(number).encode()
    return b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


def repeated(asked: Asked) -> list[Part]:
    """An answer that says what was asked."""
    return [answer(asked.body)]


async def read_refusal(call: Awaitable[Answer]) -> str:
    """The reason why there is no answer."""
    with pytest.raises(NoAnswer) as error:
        await call
    return str(error.value)


def run(script: Script, work: Callable[[Server, AwsConnections], Awaitable[None]]) -> None:
    """Work with a server, and with connections to it on a clock that stands still."""

    async def both() -> None:
        async with serving(script) as server:
            connections = AwsConnections(
                lambda: connect("127.0.0.1", server.port, None, lambda: 0.0), lambda: 0.0
            )
            await work(server, connections)
            connections.close()

    asyncio.run(both())


# One connection.


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep it."""
        self.written.append(bytes(data))

    def abort(self) -> None:
        """Note it; what has come stays."""
        self.aborted = True


def connect_wire() -> tuple[AwsConnection, Wire]:
    """A connection, and its wire."""
    connection, wire = AwsConnection(lambda: 0.0), Wire()
    connection.connection_made(wire)
    return connection, wire


async def asking(connection: AwsConnection, timeout_s: float = TOO_LATE_S) -> asyncio.Task[Answer]:
    """A request that was written and waits."""
    task = asyncio.create_task(connection.ask(REQUEST, timeout_s))
    await asyncio.sleep(0)
    return task


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_an_answer_may_come_in_pieces(size: int):
    async def work() -> None:
        connection, wire = connect_wire()
        for body in (b"", b"x", b"\r\n\r\n" * 20):
            waiting, sent = await asking(connection), answer(body)
            for start in range(0, len(sent), size):
                assert not waiting.done()
                connection.data_received(sent[start : start + size])
            assert body == (await waiting).body
        assert [REQUEST] * 3 == wire.written
        assert not wire.aborted

    asyncio.run(work())


@pytest.mark.parametrize("cut", range(1, len(answer(b"abc"))))
def test_an_answer_that_is_cut_is_none(cut: int):
    async def work() -> None:
        connection, _ = connect_wire()
        waiting = await asking(connection)
        connection.data_received(answer(b"abc")[:cut])
        connection.connection_lost(None)
        assert "the connection was closed" == await read_refusal(waiting)

    asyncio.run(work())


@pytest.mark.parametrize(
    ("received", "why"),
    [
        pytest.param(answer(b"abc") + b"H", "more than the answer", id="more"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nx: " + b"y" * MOST_HEAD_BYTES, "headers without an end", id="head"
        ),
    ],
)
def test_more_than_the_answer_or_a_head_without_an_end_is_none(received: bytes, why: str):
    async def work() -> None:
        connection, wire = connect_wire()
        waiting = await asking(connection)
        connection.data_received(received)
        assert why == await read_refusal(waiting)
        assert wire.aborted

    asyncio.run(work())


def test_bytes_that_nobody_asked_for_close_the_connection():
    async def work() -> None:
        connection, wire = connect_wire()
        connection.data_received(answer(b"of nobody"))
        assert wire.aborted
        assert "the connection is not free" == await read_refusal(
            connection.ask(REQUEST, TOO_LATE_S)
        )
        assert [] == wire.written

    asyncio.run(work())


def test_a_second_request_does_not_share_a_connection():
    async def work() -> None:
        connection, wire = connect_wire()
        waiting = await asking(connection)
        assert "the connection is not free" == await read_refusal(connection.ask(b"2", TOO_LATE_S))
        connection.data_received(answer(b"1"))
        assert b"1" == (await waiting).body
        assert [REQUEST] == wire.written

    asyncio.run(work())


@pytest.mark.parametrize("early", [0, 1, 40])
def test_an_answer_after_the_time_is_not_taken(early: int):
    async def work() -> None:
        connection, wire = connect_wire()
        waiting = await asking(connection, 2.0)
        connection.data_received(answer(b"late")[:early])
        assert "no answer in time" == await read_refusal(waiting)
        assert wire.aborted
        connection.data_received(answer(b"late")[early:])
        assert "the connection is not free" == await read_refusal(connection.ask(REQUEST, 2.0))

    virtual_time.run(work())


def test_an_answer_in_the_moment_of_the_time_out_is_not_taken():
    async def work() -> None:
        connection, wire = connect_wire()
        waiting = await asking(connection, 0)
        for _ in range(2):
            await asyncio.sleep(0)  # the timer has run, the caller has not
        connection.data_received(answer(b"late"))
        assert "no answer in time" == await read_refusal(waiting)
        assert wire.aborted

    virtual_time.run(work())


def test_who_gives_up_closes_the_connection():
    async def work() -> None:
        connection, wire = connect_wire()
        waiting = await asking(connection)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert wire.aborted
        assert connection.closed

    asyncio.run(work())


# Connections.


def test_requests_in_a_row_share_a_connection():
    async def work(server: Server, connections: AwsConnections) -> None:
        for number in range(20):
            assert b"%d" % number == (await connections.ask(request(number), TOO_LATE_S)).body
        assert 1 == server.opened

    run(repeated, work)


def test_requests_at_once_have_a_connection_each_and_their_own_answers():
    async def work(server: Server, connections: AwsConnections) -> None:
        asked = (connections.ask(request(number), TOO_LATE_S) for number in range(MOST_IDLE + 8))
        answers = await asyncio.gather(*asked)
        assert [b"%d" % number for number in range(MOST_IDLE + 8)] == [a.body for a in answers]
        assert MOST_IDLE + 8 == server.opened
        again = [connections.ask(request(number), TOO_LATE_S) for number in range(MOST_IDLE)]
        await asyncio.gather(*again)
        assert MOST_IDLE + 8 == server.opened, "those that were kept"

    run(repeated, work)


@pytest.mark.parametrize("how", [Then.CLOSE, Then.RESET])
@pytest.mark.parametrize("sent", [0, 30])
def test_a_connection_that_ends_before_the_answer_is_no_answer(how: Then, sent: int):
    async def work(server: Server, connections: AwsConnections) -> None:
        await read_refusal(connections.ask(request(1), TOO_LATE_S))
        assert 1 == len(server.came), "asked once: it may have been done"

    run(lambda _: [answer(b"12345")[:sent], how], work)


@pytest.mark.parametrize("how", [Then.CLOSE, Then.RESET])
def test_a_connection_that_the_server_closed_is_not_used_again(how: Then):
    made: list[AwsConnection] = []

    async def work() -> None:
        async with serving(lambda asked: [answer(asked.body), how]) as server:

            async def connected() -> AwsConnection:
                made.append(await connect("127.0.0.1", server.port, None, lambda: 0.0))
                return made[-1]

            connections = AwsConnections(connected, lambda: 0.0)
            await connections.ask(request(1), TOO_LATE_S)
            while not made[0].closed:
                await asyncio.sleep(0)
            assert b"2" == (await connections.ask(request(2), TOO_LATE_S)).body
            assert [1, 2] == [asked.connection for asked in server.came]

    asyncio.run(work())


def test_an_answer_that_says_close_is_the_last_of_its_connection():
    async def work(server: Server, connections: AwsConnections) -> None:
        for number in (1, 2):
            got = await connections.ask(request(number), TOO_LATE_S)
            assert b"%d" % number == got.body
        assert [1, 2] == [asked.connection for asked in server.came]

    run(lambda asked: [answer(asked.body, connection="Close")], work)


def test_a_late_answer_is_never_that_of_the_next_request():
    async def work(server: Server, connections: AwsConnections) -> None:
        first = asyncio.create_task(connections.ask(request(1), TOO_LATE_S))
        await server.wait_asked(1)
        first.cancel()
        assert b"2" == (await connections.ask(request(2), TOO_LATE_S)).body
        assert [1, 2] == [asked.connection for asked in server.came]

    run(lambda asked: [Then.HANG] if asked.body == b"1" else repeated(asked), work)


@pytest.mark.parametrize(("idle_s", "opened"), [(IDLE_S, 1), (IDLE_S + 1, 2)])
def test_a_connection_that_was_idle_for_long_is_not_used_again(idle_s: float, opened: int):
    now = 0.0

    async def work() -> None:
        nonlocal now
        async with serving(repeated) as server:
            connections = AwsConnections(
                lambda: connect("127.0.0.1", server.port, None, lambda: now), lambda: now
            )
            await connections.ask(request(1), TOO_LATE_S)
            now = idle_s
            await connections.ask(request(2), TOO_LATE_S)
            assert opened == server.opened
            connections.close()
            await server.all_closed()

    asyncio.run(work())


def test_an_idle_agent_keeps_few_connections():
    async def work(server: Server, connections: AwsConnections) -> None:
        await asyncio.gather(*(connections.ask(request(n), TOO_LATE_S) for n in range(9)))
        connections.close_spare()
        await server.all_closed(but=MOST_SPARE)
        await asyncio.gather(*(connections.ask(request(n), TOO_LATE_S) for n in range(MOST_SPARE)))
        assert 9 == server.opened

    run(repeated, work)


def test_nobody_listens():
    async def work() -> None:
        async with serving(repeated) as server:
            port = server.port
        connections = AwsConnections(lambda: connect("127.0.0.1", port, None, lambda: 0), lambda: 0)
        assert (await read_refusal(connections.ask(REQUEST, TOO_LATE_S))).startswith(
            "no connection: "
        )

    asyncio.run(work())


def test_a_connection_that_takes_long_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transport, "CONNECT_S", 0.01)

    async def never() -> AwsConnection:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def work() -> None:
        connections = AwsConnections(never, lambda: 0)
        assert (await read_refusal(connections.ask(REQUEST, TOO_LATE_S))).startswith(
            "no connection"
        )

    asyncio.run(work())


# TLS.


def test_over_tls_with_a_certificate_that_is_trusted(tmp_path: Path):
    async def work() -> None:
        certificate = self_signed(tmp_path)
        async with serving(repeated, server_tls(certificate)) as server:
            tls = ssl.create_default_context(cafile=str(certificate))
            connections = AwsConnections(
                lambda: connect("127.0.0.1", server.port, tls, lambda: 0), lambda: 0
            )
            for number in (1, 2):
                got = await connections.ask(request(number), TOO_LATE_S)
                assert b"%d" % number == got.body
            assert 1 == server.opened
            connections.close()

    asyncio.run(work())


@pytest.mark.parametrize("host", ["127.0.0.1", "other.example"])
def test_a_certificate_of_a_stranger_or_another_host_is_refused(tmp_path: Path, host: str):
    async def work() -> None:
        certificate = self_signed(tmp_path, host)
        trusted = str(certificate) if host == "other.example" else None
        tls = ssl.create_default_context(cafile=trusted)
        async with serving(repeated, server_tls(certificate)) as server:
            connections = AwsConnections(
                lambda: connect("127.0.0.1", server.port, tls, lambda: 0), lambda: 0
            )
            assert "CERTIFICATE_VERIFY_FAILED" in await read_refusal(connections.ask(REQUEST, 9))
            assert [] == server.came

    asyncio.run(work())


def server_tls(certificate: Path) -> ssl.SSLContext:
    """TLS of a server with a certificate."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    return tls
