"""The daily sweep deletes inboxes without an agent, and nothing else."""

import time
from collections import Counter
from typing import Any

import pytest

from functions.instance_end.handler import Settings, build, sweep_of
from joblane.aws.fleet import inboxes
from joblane.aws.fleet.inboxes import KEPT_S
from joblane.deployment.names import inbox_name
from joblane.state.lease import Heartbeat
from tests.support.aws import NAME, Cloud, configure


def make(aws: Cloud, agent: str, kept_s: int = KEPT_S) -> None:
    """Create an inbox as an agent does."""
    aws.clients.make("sqs").create_queue(
        QueueName=inbox_name(NAME, agent), Attributes={"MessageRetentionPeriod": str(kept_s)}
    )


def beat(aws: Cloud, agent: str, ago_s: int = 0) -> None:
    """Write a heartbeat."""
    beat_ms = int(time.time() * 1000) - ago_s * 1000
    aws.agents.beat(Heartbeat(agent, 0, beat_ms, 1, 0, ("default",), "full", "1"))


def sweep(aws: Cloud, *left_s: float) -> Counter[str]:
    """Run it with this much time left at each look at the clock, then with the last value."""
    times = list(left_s or [100.0])
    made = sweep_of(build(configure(Settings), aws.clients))
    return made.run(lambda: times.pop(0) if len(times) > 1 else times[0])


def list_left(aws: Cloud) -> set[str]:
    """The agents that still have an inbox."""
    prefix = inbox_name(NAME, "")
    urls = aws.clients.make("sqs").list_queues(QueueNamePrefix=prefix).get("QueueUrls", [])
    return {url.rpartition("/")[2].removeprefix(prefix) for url in urls}


def test_inboxes_without_an_agent_are_deleted_and_others_stay(aws: Cloud):
    for agent in ("gone", "alive", "cut-off"):
        make(aws, agent)
    beat(aws, "alive")
    beat(aws, "cut-off", ago_s=900)  # its lease is over, but it may come back
    before = len(aws.clients.make("sqs").list_queues()["QueueUrls"])
    assert {"Deleted": 1} == sweep(aws)
    assert {"alive", "cut-off"} == list_left(aws)
    assert before - 1 == len(aws.clients.make("sqs").list_queues()["QueueUrls"])
    assert {} == sweep(aws)


def test_a_queue_whose_name_begins_so_and_that_is_no_inbox_stays(aws: Cloud):
    for agent, kept_s in (("short", KEPT_S - 1), ("long", 14 * 86_400)):
        make(aws, agent, kept_s)
    assert {"Foreign": 2} == sweep(aws)
    assert {"short", "long"} == list_left(aws)


def test_every_page_is_read(aws: Cloud, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inboxes, "PAGE", 2)
    for n in range(5):
        make(aws, f"gone-{n}")
        make(aws, f"alive-{n}")
        beat(aws, f"alive-{n}")
    assert {"Deleted": 5} == sweep(aws)
    assert {f"alive-{n}" for n in range(5)} == list_left(aws)


def test_what_takes_too_long_is_left_for_the_next_day(aws: Cloud):
    for n in range(5):
        make(aws, f"gone-{n}")
    assert {"Deleted": 2, "Left": 3} == sweep(aws, 100.0, 100.0, 100.0, 4.9)
    assert {"Deleted": 3} == sweep(aws)
    assert {} == sweep(aws, 4.9)


def test_one_that_cannot_be_deleted_does_not_keep_others(aws: Cloud):
    for n in range(3):
        make(aws, f"gone-{n}")
    refused = inbox_name(NAME, "gone-1")

    def refuse(params: dict[str, Any], **_: Any) -> None:
        if params["QueueUrl"].endswith(refused):
            raise aws.clients.make("sqs").exceptions.RequestThrottled(
                {"Error": {"Code": "RequestThrottled"}}, "DeleteQueue"
            )

    aws.emitter().register("provide-client-params.sqs.DeleteQueue", refuse)
    assert {"Deleted": 2, "Failed": 1} == sweep(aws)
    assert {"gone-1"} == list_left(aws)
