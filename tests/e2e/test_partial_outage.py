"""Part of AWS hangs or fails: the rest works on until the agent's journal is full."""

import time
from collections.abc import Iterator

import pytest

from scripts.local.cloud import Cloud
from scripts.local.processes import Process
from tests.e2e.conftest import Http
from tests.sandbox.running import STOPS, go_on, marker
from tests.support.deployed import (
    assert_once,
    output,
    state_of,
    submit,
    wait_for,
    wait_for_trouble,
    wait_for_words,
)
from tests.support.paced import start_paced
from tests.support.proxy import Proxy, proxy

WAITS_S = 10
"""For which an outcome waits for its job's output."""

ROOM = 4
"""Outcomes that may wait in the journal."""


@pytest.fixture(name="road")
def _road(quiet: Cloud) -> Iterator[Proxy]:
    """A proxy to AWS whose faults meet every request."""
    with proxy(quiet.endpoint, seed=1, share=1) as road:
        yield road


@pytest.mark.timeout(240)  # the product's own time-outs alone take 40 s of it
def test_a_part_of_aws_that_fails_holds_up_nothing_else_until_the_journal_is_full(
    quiet: Cloud, http: Http, platform: Http, road: Proxy
):
    agent = start_paced(quiet, "patient", threads=8, endpoint=road.url, journal_room=ROOM)
    _output_hangs(http, road)
    _sqs_hangs(http, road)
    _dynamodb_hangs(http, road, agent)
    _fills_its_journal(http, platform, road, agent)
    quiet.stop_agent("patient")


def _output_hangs(http: Http, road: Proxy) -> None:
    """Output arrives later, an outcome waits for it 10 s, and jobs without output not at all."""
    road.only, road.fault = "DynamoDB_20120810.PutItem", "hang"  # and heartbeats; claims go on
    began = time.monotonic()
    chatty = submit(http, "echo", "hello")
    silent = [submit(http, "true") for _ in range(3)]
    for job_id in silent:
        wait_for(http, job_id, "completed")
    assert "active" == state_of(http, chatty) or time.monotonic() - began > WAITS_S
    wait_for(http, chatty, "completed")
    assert time.monotonic() - began > WAITS_S
    road.fault = None
    ends = time.monotonic() + 20
    while not http("GET", f"/v1/jobs/{chatty}/logs").json()["entries"]:
        assert time.monotonic() < ends
        time.sleep(0.2)
    assert ["hello"] == output(http, chatty)["stdout"]


def _sqs_hangs(http: Http, road: Proxy) -> None:
    """Outcomes are in the table at once; the message is let go of when SQS answers."""
    running = [submit(http, "sleep", "1") for _ in range(2)]
    for job_id in running:
        wait_for(http, job_id, "active")
    road.only, road.fault = "AmazonSQS", "hang"
    for job_id in running:
        wait_for(http, job_id, "completed")
    road.fault = None


def _dynamodb_hangs(http: Http, road: Proxy, agent: Process) -> None:
    """Jobs run on; outcomes are settled when it answers."""
    mark = marker()
    job_id = submit(http, "sh", "-c", f"echo seen; {STOPS} sleep 1 # {mark}")
    wait_for(http, job_id, "active")
    while not http("GET", f"/v1/jobs/{job_id}/logs").json()["entries"]:
        time.sleep(0.1)
    road.only, road.fault = "DynamoDB", "hang"
    go_on(mark)
    wait_for_words(agent.log, "outcomes wait for AWS")  # its time-outs are over: 5 s, three times
    assert "active" == state_of(http, job_id)
    road.fault = None
    assert_once(http, job_id)
    assert ["seen"] == output(http, job_id)["stdout"]


def _fills_its_journal(http: Http, platform: Http, road: Proxy, agent: Process) -> None:
    """No more jobs are taken than outcomes may wait, and none while as many do."""
    marks = [marker() for _ in range(ROOM)]
    jobs = [submit(http, "sh", "-c", f"{STOPS} # {mark}") for mark in marks]
    for job_id in jobs:
        wait_for(http, job_id, "active")
    jobs += [submit(http, "true") for _ in range(2)]
    road.only, road.fault = "DynamoDB_20120810.UpdateItem", "error"
    for mark in marks:
        go_on(mark)
    wait_for_words(agent.log, "takes no new jobs: the journal is full")
    wait_for_trouble(platform, "patient", "outcome(s) wait since")
    wait_for_trouble(platform, "patient", "takes no jobs: the journal is full")
    assert len(jobs) - ROOM == sum(state_of(http, job_id) == "pending" for job_id in jobs)
    road.fault = None
    for job_id in jobs:
        assert_once(http, job_id)
