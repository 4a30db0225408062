"""The agent's retry loop: its pauses, when it gives up, and what it logs."""

import asyncio
import json
import logging

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from ec2_agent.logging.events import heartbeat_failed
from ec2_agent.logging.standard import JsonLines
from ec2_agent.retry import Backoff, RetryPolicy, retry

POLICY = RetryPolicy(first_s=0.2, longest_s=1.0)
TROUBLE = ReadTimeoutError(endpoint_url="https://aws.test")


class Calls:
    """A call that fails some times before it succeeds, and the pauses between."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.made = 0
        self.pauses: list[float] = []

    async def call(self) -> str:
        """Fail or succeed."""
        self.made += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    async def sleep(self, seconds: float) -> None:
        """Take no time."""
        self.pauses.append(seconds)

    def backoff(self, policy: RetryPolicy = POLICY, rng: float = 1.0) -> Backoff:
        """Pauses at the upper end of what the policy allows, unless `rng` says otherwise."""
        return Backoff(policy, self.sleep, lambda: rng)


def test_pauses_double_up_to_the_longest_and_begin_anew_after_a_success():
    calls = Calls(*[TROUBLE] * 5)
    backoff = calls.backoff()
    assert "done" == asyncio.run(retry(calls.call, backoff))
    assert [0.2, 0.4, 0.8, 1.0, 1.0] == calls.pauses
    backoff.reset()
    calls.errors = [TROUBLE]
    asyncio.run(retry(calls.call, backoff))
    assert 0.2 == calls.pauses[-1]


@pytest.mark.parametrize(("rng", "pause"), [(0.0, 0.1), (0.5, 0.15), (1.0, 0.2)])
def test_a_pause_is_between_half_and_all_of_its_time(rng: float, pause: float):
    calls = Calls(TROUBLE)
    asyncio.run(retry(calls.call, calls.backoff(rng=rng)))
    assert [pytest.approx(pause)] == calls.pauses


def test_thousands_of_failures_are_paused_for_like_the_latest():
    calls = Calls(*[TROUBLE] * 3000)
    asyncio.run(retry(calls.call, calls.backoff()))
    assert 1.0 == calls.pauses[-1]


def test_a_policy_may_bound_the_retries():
    calls = Calls(*[TROUBLE] * 9)
    with pytest.raises(ReadTimeoutError):
        asyncio.run(retry(calls.call, calls.backoff(RetryPolicy(0.1, 1.0, factor=4.0, retries=3))))
    assert (4, [0.1, 0.4, 1.0]) == (calls.made, calls.pauses)


def test_what_is_not_retryable_is_raised_at_once():
    calls = Calls(KeyError("a defect"))
    with pytest.raises(KeyError):
        asyncio.run(retry(calls.call, calls.backoff()))
    assert (1, []) == (calls.made, calls.pauses)


@pytest.mark.parametrize(("stop_at", "pauses"), [(1, 0), (2, 1), (3, 1), (4, 2)])
def test_it_stops_before_or_after_a_pause_when_told(stop_at: int, pauses: int):
    calls, asked = Calls(*[TROUBLE] * 9), 0

    def proceed() -> bool:
        nonlocal asked
        asked += 1
        return asked < stop_at

    with pytest.raises(ReadTimeoutError):
        asyncio.run(retry(calls.call, calls.backoff(), proceed=proceed))
    assert pauses == len(calls.pauses)


@pytest.mark.parametrize("failures", [1, 5])
def test_trouble_is_logged_once_however_many_tries_fail(
    caplog: pytest.LogCaptureFixture, failures: int
):
    first = ClientError({"Error": {"Code": "ThrottlingException"}}, "Any")
    calls = Calls(first, *[TROUBLE] * (failures - 1))
    with caplog.at_level(logging.INFO):
        asyncio.run(retry(calls.call, calls.backoff(), event=heartbeat_failed))
    (line,) = [json.loads(JsonLines().format(record)) for record in caplog.records]
    assert ("heartbeat_failed", str(first)) == (line["event"], line["error"])
