"""The metric HandoverMs: how long a slot of a key is free while a job waits for it."""

import json
from typing import Any

import pytest

from joblane.aws.errors import AwsSilent
from joblane.deployment.metrics import OF_QUEUES
from joblane.key.policy import KeyLimits
from tests.support.keyed import NOW, NOW_MS, Deployed
from tests.support.keys import OTHER, job, put_keyed

ENDED_MS = NOW_MS + 1
"""When `Deployed.end` says that a job ended."""


@pytest.fixture(name="at")
def _at() -> Deployed:
    at = Deployed()
    at.now = NOW + 0.251
    return at


def written(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The metrics that were written since the last call."""
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [line for line in lines if "_aws" in line]


def test_a_handover_is_measured_from_the_end_to_the_message(
    at: Deployed, capsys: pytest.CaptureFixture[str]
):
    put_keyed(at.aws, active="A", queued="B")
    at.end("A")
    assert 1 == at.function(at.aws.clients, JOBLANE_METRICS="true").handle(at.stream.take())
    (line,) = written(capsys)
    assert (250, "default") == (line["HandoverMs"], line["Queue"])
    assert ENDED_MS // 60_000 * 60_000 == line["_aws"]["Timestamp"]
    assert "HandoverMs" in OF_QUEUES


def test_jobs_that_got_slots_of_one_key_are_measured_from_its_first_end(
    at: Deployed, capsys: pytest.CaptureFixture[str]
):
    limits = KeyLimits(max_active=2, max_queued=9)
    put_keyed(at.aws, active="AB", queued="CD", limits=limits)
    at.end("A")
    at.end("B")
    at.function(at.aws.clients, JOBLANE_METRICS="true").handle(at.stream.take())
    assert [[250, 250]] == [line["HandoverMs"] for line in written(capsys)]


def test_a_clock_that_is_ahead_makes_no_negative_time(
    at: Deployed, capsys: pytest.CaptureFixture[str]
):
    put_keyed(at.aws, active="A", queued="B")
    at.end("A")
    at.now = NOW - 5
    at.function(at.aws.clients, JOBLANE_METRICS="true").handle(at.stream.take())
    assert [0] == [line["HandoverMs"] for line in written(capsys)]


def test_nothing_is_measured_without_a_handover_or_without_metrics(
    at: Deployed, capsys: pytest.CaptureFixture[str]
):
    """A deletion says no time; an end for which no job waits hands nothing over."""
    put_keyed(at.aws, active="A", queued="B")
    put_keyed(at.aws, active="D", key=OTHER)
    at.aws.jobs.delete(job("A"))
    at.end("D")
    assert 1 == at.function(at.aws.clients, JOBLANE_METRICS="true").handle(at.stream.take())
    at.end("B")
    at.sequel.handle(at.stream.take())
    assert [] == written(capsys)


def test_a_batch_that_comes_again_is_measured_once(
    at: Deployed, capsys: pytest.CaptureFixture[str]
):
    """What was handed over before another key failed is not handed over again."""
    ends = at.two_ends()
    emitter, clients = at.own_clients()

    def refuse(params: Any, **_: Any) -> None:
        if job("B") in str(params):
            raise AwsSilent(error="https://dynamodb.test")

    emitter.register("before-parameter-build.dynamodb.UpdateItem", refuse)
    with pytest.raises(AwsSilent):
        at.function(clients, JOBLANE_METRICS="true").handle(ends)
    assert [250] == [line["HandoverMs"] for line in written(capsys)]
    at.now += 1
    at.function(at.aws.clients, JOBLANE_METRICS="true").handle(ends)
    assert [1250] == [line["HandoverMs"] for line in written(capsys)]
    at.now += 1
    at.function(at.aws.clients, JOBLANE_METRICS="true").handle(ends)
    assert [] == written(capsys)
