"""The price of a job, counted at the client: what the README promises, and fails when it rises."""

import asyncio
import time

import pytest

from ec2_agent.sandbox import Launcher
from functions.submission.handler import Settings, build
from joblane.aws.clients import Clients
from joblane.aws.jobs import JobStore
from joblane.head import INLINE_SPEC_BYTES
from joblane.lifecycle import State
from tests.support.agents import Parts
from tests.support.aws import DESCRIPTOR, FUNCTION_ENVIRONMENT, Cloud, Meter, item_size, new_session
from tests.support.requests import Api


@pytest.fixture(name="meter")
def _meter() -> Meter:
    return Meter()


@pytest.fixture(name="metered")
def _metered(aws: Cloud, meter: Meter) -> Clients:
    """Clients whose every call is counted."""
    session = new_session()
    meter.attach(session, aws.clients.make("dynamodb"))
    return Clients(session)


def run_one(metered: Clients, body: dict[str, object]) -> str:
    """A job's whole way: API, lane, claim, sandbox, outcome."""
    api = Api(build(Settings.model_validate(FUNCTION_ENVIRONMENT), metered, time.time))
    status, job = api("POST", "/v1/jobs", body)
    assert 202 == status
    with Launcher(isolation="namespaces", slots=0) as launcher:
        parts = Parts(metered, launcher, name="i-0123456789abcdef0")
        held = parts.receive()
        assert held is not None
        head = parts.claim(held)
        assert head is not None
        asyncio.run(parts.attempt(head, held).run())
    return str(job["id"])


def head_size(aws: Cloud, job_id: str) -> int:
    answer = aws.clients.make("dynamodb").get_item(
        TableName=DESCRIPTOR.jobs_table, Key={"job_id": {"S": job_id}, "sk": {"S": "JOB"}}
    )
    return item_size(answer["Item"])


def test_a_simple_job_costs_four_write_units_no_read_and_three_sqs_requests(
    aws: Cloud, meter: Meter, metered: Clients
):
    job_id = run_one(metered, {"command": ["true"]})
    head = JobStore(aws.clients.make("dynamodb"), DESCRIPTOR.jobs_table).get(job_id)
    assert head is not None
    assert State.COMPLETED is head.state
    sqs = sum(n for call, n in meter.calls.items() if call.startswith("sqs."))
    assert (4, 0, 3) == (meter.write_units, meter.reads, sqs)


def test_the_longest_submission_that_stays_in_the_head_costs_no_more(
    aws: Cloud, meter: Meter, metered: Clients
):
    empty = len('{"command":["true",""],"queue":"default"}')
    job_id = run_one(metered, {"command": ["true", "x" * (INLINE_SPEC_BYTES - empty)]})
    assert 4 == meter.write_units
    room = 1024 - head_size(aws, job_id)
    # cgroup accounting, which this isolation lacks, adds four figures to the usage
    assert 130 < room < 300


def test_a_longer_one_goes_aside_for_its_own_size(meter: Meter, metered: Clients):
    run_one(metered, {"command": ["true", "x" * INLINE_SPEC_BYTES]})
    assert 5 == meter.write_units
    assert 1 == meter.reads  # the agent fetches it once, with the claim


def test_the_output_of_a_job_costs_two_requests(meter: Meter, metered: Clients):
    run_one(metered, {"command": ["echo", "hello"]})
    assert 1 == meter.calls["logs.CreateLogStream"]
    assert 1 == meter.calls["logs.PutLogEvents"]
