"""What only the client for asyncio has: calls side by side, and calls that are cancelled."""

import asyncio
import json
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from joblane import AsyncClient, FollowError, FollowPolicy, NotFoundError, ThrottledError
from tests.support.client.clients import Connect
from tests.support.client.fake_api import CUT, FakeApi, Request, gateway


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine; 20 s at most."""

    async def bounded() -> None:
        async with asyncio.timeout(20):
            await main

    asyncio.run(bounded())


class Tokens:
    """A credential whose first token is refused; a renewal may be held up."""

    hint = "log in again"

    def __init__(self) -> None:
        self.held = threading.Event()
        self.held.set()
        self.asked = threading.Event()
        self.renewals = 0
        self._token = "old"

    def token(self) -> str:
        """Return the token that is valid for all it knows."""
        return self._token

    def renew(self, refused: str | None) -> str | None:
        """Return the new token once `held` is set."""
        assert refused == "old"
        self.asked.set()
        assert self.held.wait(20)
        self.renewals += 1
        self._token = "new"
        return self._token


def refuse_the_old(api: FakeApi) -> None:
    def before(request: Request) -> None:
        if request.headers.get("Authorization") == "Bearer old":
            api.faults.append(gateway(401, "Unauthorized"))

    api.before = before


def test_a_refused_token_is_renewed_once(api: FakeApi, connect: Connect) -> None:
    refuse_the_old(api)
    with connect(api.url, Tokens()) as client:
        assert client.submit(["true"]).id == "01J0"
        assert client.get("01J0").ended
    sent = [request.headers["Authorization"] for request in api.requests]
    assert sent == ["Bearer old", "Bearer new", "Bearer new"]


def test_a_read_is_retried_and_a_submission_is_not(api: FakeApi, client: Any) -> None:
    api.add("01J").end()
    api.faults += [gateway(503, "x"), CUT, (429, {"Retry-After": "0"}, b"{}")]
    assert client.get("01J").ended
    api.faults.append(gateway(503, "x"))
    with pytest.raises(Exception, match="503"):
        client.submit(["true"])
    api.faults += [gateway(503, "x"), CUT]
    assert client.submit(["true"], idempotency_key="k").id == "01J1"
    assert [4, 4] == [api.count("GET", "/v1/jobs/01J"), api.count("POST", "/v1/jobs")]


def test_a_submission_over_a_limit_is_not_repeated_and_says_until_when(api: FakeApi, client: Any):
    """A pause of hours is the caller's to make; a short one the SDK makes itself, with a key."""
    over = {
        "title": "Too Many Requests",
        "detail": "the tenant has 7 jobs waiting; the limit jobs_waiting is 5; try again at 12:00",
        "limit": "jobs_waiting",
    }
    for pause in ("10", "43200"):
        for key in (None, "k"):
            api.faults.append((429, {"Retry-After": pause}, json.dumps(over).encode()))
            with pytest.raises(ThrottledError, match="the limit jobs_waiting is 5") as refused:
                client.submit(["true"], idempotency_key=key)
            assert (float(pause), True) == (
                refused.value.retry_after_s,
                refused.value.retryable,
            )
    assert 4 == api.count("POST", "/v1/jobs")
    api.faults.append((429, {"Retry-After": "1"}, b"{}"))
    assert client.submit(["true"], idempotency_key="k").id == "01J0"
    assert 6 == api.count("POST", "/v1/jobs")


def test_following_resumes_after_an_outage(api: FakeApi, client: Any) -> None:
    """The server goes away and comes back between two records; each comes once."""
    job = api.add("01J")
    job.say("one\n")
    records = client.logs("01J", follow=True, policy=FollowPolicy(first_retry_s=0.01))
    assert next(records).text == "one\n"
    api.down()
    job.say("two\n")
    job.end()
    api.up()
    assert [record.text for record in records] == ["two\n"]


def test_following_gives_up(api: FakeApi, client: Any) -> None:
    api.add("01J").say("one\n")
    records = client.logs(
        "01J", follow=True, policy=FollowPolicy(first_retry_s=0.01, give_up_s=0.1)
    )
    assert next(records).text == "one\n"
    api.down()
    with pytest.raises(FollowError) as caught:
        next(records)
    assert caught.value.cursor == "1"


def test_calls_run_side_by_side(api: FakeApi) -> None:
    """All four requests are at the server before the first is answered."""
    together = threading.Barrier(4)
    api.before = lambda _request: void(together.wait(20))
    ids = [api.add(f"{number}").data["id"] for number in range(4)]

    async def main() -> None:
        async with AsyncClient(api.url, "secret") as client:
            jobs = await asyncio.gather(*(client.get(job_id) for job_id in ids))
            assert ids == [job.id for job in jobs]

    run(main())


def void(_value: object) -> None:
    """Drop a value."""


def test_a_cancelled_wait_asks_no_more_and_the_client_goes_on(api: FakeApi) -> None:
    async def main() -> None:
        job = api.add("01J")
        polled = asyncio.Event()
        loop = asyncio.get_running_loop()
        api.before = lambda _request: void(loop.call_soon_threadsafe(polled.set))
        async with AsyncClient(api.url) as client:
            waiting = asyncio.create_task(client.wait("01J"))
            await polled.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            asked = len(api.requests)
            job.end()
            assert (await client.get("01J")).ended
            assert len(api.requests) == asked + 1

    run(main())


def test_a_stream_that_is_left_asks_no_more(api: FakeApi) -> None:
    for number in range(150):
        api.add(f"{number:03}")

    async def main() -> None:
        async with AsyncClient(api.url) as client:
            async for job in client.list():
                if job.id == "140":
                    break
            assert len(api.requests) == 1
            with pytest.raises(NotFoundError):
                await client.get("nothing")

    run(main())


def test_a_renewal_is_finished_when_its_call_is_cancelled(api: FakeApi) -> None:
    """A refresh token may be used once only: what replaces it must not be lost."""
    refuse_the_old(api)
    tokens = Tokens()
    tokens.held.clear()

    async def main() -> None:
        async with AsyncClient(api.url, tokens) as client:
            api.add("01J").end()
            call = asyncio.create_task(client.get("01J"))
            await asyncio.to_thread(tokens.asked.wait, 20)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert tokens.renewals == 0
            tokens.held.set()

    run(main())
    assert (tokens.renewals, tokens.token()) == (1, "new")
