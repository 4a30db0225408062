"""Direct calls: the result of a complete good answer, or word that botocore is to be asked."""

import asyncio
import logging
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ec2_agent.aws_calls import direct
from ec2_agent.aws_calls.direct import (
    OPEN_AGAIN_S,
    REST_AFTER,
    REST_S,
    DirectCalls,
    NotMade,
    call_either,
)
from ec2_agent.aws_calls.endpoint import AwsEndpoint, NotDirect
from joblane.testing.clock import Clock
from tests.support import inline_calls
from tests.support.answering import Asked, Part, Server, Then, answer, serving
from tests.support.wire import calls_to, endpoint

REQUEST = {"TableName": "jobs", "Key": {"job_id": {"B": b"\x00\xff"}}}


def count_named(caplog: pytest.LogCaptureFixture, event: str) -> int:
    """How many log events have this name."""
    return [record.__dict__.get("event") for record in caplog.records].count(event)


def whole(content: Any) -> Any:
    """The whole content of an answer."""
    return content


async def read_refusal(
    calls: DirectCalls, wait_s: float = 0, read: Callable[[Any], Any] = whole
) -> str:
    """Why a call was not made."""
    with pytest.raises(NotMade) as error:
        await calls.call("UpdateItem", REQUEST, read, wait_s)
    return str(error.value)


def run(
    parts: Callable[[Asked], list[Part]],
    work: Callable[[Server, DirectCalls, Clock], Awaitable[None]],
    **options: Any,
) -> None:
    """Work with a server that answers so."""

    async def both() -> None:
        clock = Clock(1000.0)
        async with serving(parts) as server:
            calls = calls_to("dynamodb", server.port, clock, **options)
            await work(server, calls, clock)
            calls.close()
            await server.all_closed()

    asyncio.run(both())


def test_a_call_has_its_answer():
    async def work(server: Server, calls: DirectCalls, _: Clock) -> None:
        assert {"a": "ü"} == await calls.call("UpdateItem", REQUEST, whole)
        (asked,) = server.came
        assert "POST / HTTP/1.1" == asked.line
        assert "DynamoDB_20120810.UpdateItem" == asked.headers["x-amz-target"]
        assert {"TableName": "jobs", "Key": {"job_id": {"B": "AP8="}}} == asked.json
        assert 1 == server.opened

    run(lambda _: [answer({"a": "ü"})], work)


BODY = b'{"a": 1}'
CRC = str(zlib.crc32(BODY))


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([answer({}, "500 Internal Server Error")], "status 500"),
        ([answer({}, "503 Service Unavailable")], "status 503"),
        ([answer({"__type": "ThrottlingException"}, "400 Bad Request")], "status 400"),
        ([answer({}, "301 Moved Permanently", location="/")], "status 301"),
        ([answer(BODY, x_amz_crc32="17")], "another checksum"),
        ([answer(b"<html>")], "unexpected answer"),
        ([answer(b"\xff")], "unexpected answer"),
        ([answer(b"")], "unexpected answer"),
        ([answer(BODY)[:-1], Then.CLOSE], "closed"),
        ([Then.CLOSE], "closed"),
    ],
)
def test_anything_but_a_good_answer_is_none(parts: list[Part], why: str):
    async def work(server: Server, calls: DirectCalls, _: Clock) -> None:
        assert why in await read_refusal(calls)
        assert 1 == len(server.came)

    run(lambda _: parts, work)


def test_a_checksum_that_agrees():
    async def work(_server: Server, calls: DirectCalls, _: Clock) -> None:
        assert {"a": 1} == await calls.call("UpdateItem", REQUEST, whole)

    run(lambda _: [answer(BODY, x_amz_crc32=CRC)], work)


@pytest.mark.parametrize(
    "read",
    [
        lambda content: content["b"],
        lambda content: content["a"].lower(),
        lambda content: int("x" * content["a"]),
        lambda content: content["a"]["b"],
    ],
)
def test_an_answer_that_cannot_be_read_is_none(read: Callable[[Any], Any]):
    async def work(_server: Server, calls: DirectCalls, _: Clock) -> None:
        assert "unexpected answer" in await read_refusal(calls, read=read)

    run(lambda _: [answer(BODY)], work)


def test_an_answer_is_waited_for_as_long_as_the_call_itself_waits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(direct, "TIMEOUT_S", 0.01)

    async def work(server: Server, calls: DirectCalls, _: Clock) -> None:
        polls = asyncio.create_task(read_refusal(calls, wait_s=60))
        await server.wait_asked(1)
        assert "no answer in time" == await read_refusal(calls)
        assert not polls.done()
        polls.cancel()
        await asyncio.wait({polls})

    run(lambda _: [Then.HANG], work)


def test_a_condition_that_does_not_hold_says_nothing_against_direct_calls():
    async def work(server: Server, calls: DirectCalls, _clock: Clock) -> None:
        for _ in range(REST_AFTER * 3):
            assert "condition" in await read_refusal(calls)
        assert REST_AFTER * 3 == len(server.came)
        assert 1 == server.opened

    body = {"__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"}
    run(lambda _: [answer(body, "400 Bad Request")], work)


def test_after_three_failures_in_a_row_they_rest_for_a_while(caplog: pytest.LogCaptureFixture):
    well = False
    caplog.set_level(logging.INFO, "joblane")

    async def work(server: Server, calls: DirectCalls, clock: Clock) -> None:
        nonlocal well
        for _ in range(REST_AFTER):
            assert "status 500" == await read_refusal(calls)
        assert "direct calls rest" == await read_refusal(calls)
        clock.now += REST_S - 0.1
        assert "direct calls rest" == await read_refusal(calls)
        assert REST_AFTER == len(server.came)
        clock.now += 0.1
        well = True
        assert {} == await calls.call("UpdateItem", REQUEST, whole)
        well = False
        for _ in range(REST_AFTER - 1):
            assert "status 500" == await read_refusal(calls)
        well = True
        assert {} == await calls.call("UpdateItem", REQUEST, whole)
        well = False
        assert "status 500" == await read_refusal(calls)
        well = True
        assert {} == await calls.call("UpdateItem", REQUEST, whole), "they were not in a row"
        assert 1 == count_named(caplog, "direct_calls_rest")

    run(lambda _: [answer({}, "200 OK" if well else "500 Internal Server Error")], work)


def test_the_date_of_each_good_answer_is_told():
    dates: list[str] = []

    async def work(_server: Server, calls: DirectCalls, _clock: Clock) -> None:
        for _ in range(2):
            await calls.call("UpdateItem", REQUEST, whole)
        assert ["Fri, 15 Jan 2027 08:00:00 GMT"] * 2 == dates

    run(lambda _: [answer({}, date="Fri, 15 Jan 2027 08:00:00 GMT")], work, dated=dates.append)


def test_a_request_that_no_request_can_be_is_a_bug():
    async def work(server: Server, calls: DirectCalls, _: Clock) -> None:
        with pytest.raises(TypeError):
            await calls.call("UpdateItem", {"a": object()}, whole)
        assert [] == server.came

    run(lambda _: [answer({})], work)


# Finding the service.


@pytest.mark.parametrize(("error", "told"), [(NotDirect("a proxy"), 1), (OSError("no file"), 0)])
def test_a_service_that_is_not_called_directly_is_looked_at_again_after_a_while(
    caplog: pytest.LogCaptureFixture, error: Exception, told: int
):
    looks = 0
    caplog.set_level(logging.INFO, "joblane")

    def find() -> AwsEndpoint:
        nonlocal looks
        looks += 1
        raise error

    async def work() -> None:
        clock = Clock(1000.0)
        calls = DirectCalls(find, lambda: 0, clock)
        for _ in range(5):
            assert "this service is not called directly" == await read_refusal(calls)
        assert 1 == looks
        assert told == count_named(caplog, "not_called_directly")
        clock.now += OPEN_AGAIN_S
        await read_refusal(calls)
        assert 2 == looks
        assert told == count_named(caplog, "not_called_directly")  # the same as before
        calls.close()

    inline_calls.run(work())


def test_callers_at_once_find_it_together():
    looks = 0

    async def work() -> None:
        async with serving(lambda _: [answer({})]) as server:

            def find() -> AwsEndpoint:
                nonlocal looks
                looks += 1
                return endpoint("dynamodb", server.port)

            calls = DirectCalls(find, lambda: 0, Clock(1000.0))
            asked = (calls.call("UpdateItem", REQUEST, whole) for _ in range(10))
            assert [{}] * 10 == await asyncio.gather(*asked)
            calls.close()

    asyncio.run(work())
    assert 1 == looks


def test_without_valid_credentials_no_call_is_made():
    class Empty:
        def get_frozen_credentials(self) -> Any:
            raise OSError("the metadata service is away")

    async def work() -> None:
        async with serving(lambda _: [answer({})]) as server:
            calls = DirectCalls(
                lambda: endpoint("dynamodb", server.port, Empty()), lambda: 0, Clock(1000.0)
            )
            assert "no valid credentials" == await read_refusal(calls)
            assert [] == server.came

    asyncio.run(work())


# Through botocore instead.


@pytest.mark.parametrize("given", [None, "refuses"])
def test_what_is_not_made_directly_is_made_through_botocore(given: str | None):
    async def directly(_: Any) -> str:
        raise NotMade("why")

    async def work() -> None:
        calls = None if given is None else DirectCalls(_no_endpoint, lambda: 0, Clock(1000.0))
        assert "botocore" == await call_either(calls, directly, lambda: "botocore", "call")

    inline_calls.run(work())


def _no_endpoint() -> AwsEndpoint:
    raise NotDirect("none")


def test_what_is_made_directly_is_made_once():
    async def directly(_: Any) -> str:
        return "directly"

    def botocore() -> str:
        raise AssertionError

    async def work() -> None:
        calls = DirectCalls(_no_endpoint, lambda: 0, Clock(1000.0))
        assert "directly" == await call_either(calls, directly, botocore, "call")

    inline_calls.run(work())
