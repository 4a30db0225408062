"""Spans of real jobs: exported to an OTLP endpoint, again later, and put aside if it refuses."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from joblane.aws.clients import Clients
from joblane.deployment.names import traces_dead_name, traces_name
from scripts.local.cloud import DEPLOYMENT, Cloud
from tests.e2e.conftest import Http
from tests.support.collector import Answer, Collector, collecting, values
from tests.support.deployed import until, wait_for

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def submit(http: Http, *command: str, trace: str = TRACE, sampled: int = 1, **fields: Any) -> str:
    """Submit a job from within a trace."""
    body = {"command": list(command), **fields}
    headers = {"traceparent": f"00-{trace}-{CALLER}-{sampled:02}", "tracestate": "rojo=1"}
    answer = http("POST", "/v1/jobs", json=body, headers=headers)
    assert 202 == answer.status_code, answer.text
    return str(answer.json()["id"])


@pytest.fixture(name="collector")
def _collector(clients: Clients) -> Iterator[Collector]:
    """A receiver at a free port, which the deployed function is told of."""
    functions, name = clients.make("lambda"), f"{DEPLOYMENT}-tracer"
    before = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    with collecting() as collector:
        there = {**before, "JOBLANE_ENDPOINT": collector.url}
        functions.update_function_configuration(FunctionName=name, Environment={"Variables": there})
        yield collector
        functions.update_function_configuration(
            FunctionName=name, Environment={"Variables": before}
        )


def all_of(collector: Collector, job_id: str) -> Any:
    """The spans of a job by their names, once that of the job is among them."""
    found = {each.name: each for each in collector.spans(job_id)}
    return found if any(name.startswith("process") for name in found) else None


@pytest.mark.usefixtures("agent")
def test_a_job_is_seen_in_the_trace_of_its_caller(http: Http, collector: Collector):
    script = "echo $TRACEPARENT; exit 3"
    retry = {"max_attempts": 2, "backoff_s": [0]}
    job_id = submit(http, "sh", "-c", script, name="nightly", retry=retry)
    job = wait_for(http, job_id, "dead")
    until(lambda: all_of(collector, job_id))
    spans = collector.spans(job_id)
    assert [
        "attempt default",
        "attempt default",
        "process default",
        "wait pending",
        "wait retry",
    ] == sorted(each.name for each in spans)
    assert {TRACE} == {each.trace_id.hex() for each in spans}
    (whole,) = (each for each in spans if each.name == "process default")
    assert (CALLER, "rojo=1") == (whole.parent_span_id.hex(), whole.trace_state)
    assert {whole.span_id} == {each.parent_span_id for each in spans if each is not whole}
    assert ("nightly", "dead", job["reason"]) == (
        values(whole.attributes)["joblane.job.name"],
        values(whole.attributes)["joblane.job.state"],
        whole.status.message,
    )
    # What the job sends by its TRACEPARENT is below its own attempt.
    entries = http("GET", f"/v1/jobs/{job_id}/logs").json()["entries"]
    attempts = [each for each in spans if each.name == "attempt default"]
    assert [entry["text"].split("-")[2] for entry in entries] == [
        each.span_id.hex() for each in attempts
    ]
    assert {3} == {values(each.attributes)["process.exit.code"] for each in attempts}
    for received in collector.received:
        assert "Bearer key-1" == received.headers["authorization"]


@pytest.mark.usefixtures("agent")
def test_what_the_caller_did_not_sample_is_not_sent(http: Http, collector: Collector):
    quiet = submit(http, "true", sampled=0)
    wait_for(http, quiet, "completed")
    told = submit(http, "true")
    wait_for(http, told, "completed")
    until(lambda: all_of(collector, told))
    assert [] == collector.spans(quiet)


@pytest.mark.usefixtures("agent")
def test_an_endpoint_that_is_down_gets_the_spans_later(http: Http, collector: Collector):
    collector.answers, collector.trace = [Answer(503, {"Retry-After": "1"})], uuid4().hex
    job_id = submit(http, "true", trace=collector.trace)
    wait_for(http, job_id, "completed")
    until(lambda: len(collector.received) > 1 and all_of(collector, job_id))
    first, *_ = collector.received
    assert first.body in [each.body for each in collector.received[1:]]


@pytest.mark.usefixtures("agent")
def test_what_is_refused_is_a_dead_letter_that_can_be_sent_again(
    http: Http, collector: Collector, clients: Clients
):
    collector.answers, collector.trace = [Answer(400)], uuid4().hex
    job_id = submit(http, "true", trace=collector.trace)
    wait_for(http, job_id, "completed")
    sqs = clients.make("sqs")
    dead, queue = (
        sqs.get_queue_url(QueueName=name(DEPLOYMENT))["QueueUrl"]
        for name in (traces_dead_name, traces_name)
    )

    def letter() -> Any:
        for each in sqs.receive_message(QueueUrl=dead).get("Messages", []):
            if job_id in each["Body"]:
                sqs.delete_message(QueueUrl=dead, ReceiptHandle=each["ReceiptHandle"])
                return each["Body"]
        return None

    body = until(letter)
    assert [job_id] == [each["job_id"] for each in json.loads(body)["ended"]]
    before = len(collector.received)
    # As StartMessageMoveTask does, which the local AWS has not got.
    sqs.send_message(QueueUrl=queue, MessageBody=body)
    until(lambda: len(collector.received) > before)
    assert collector.received[0].body == collector.received[-1].body


def test_no_job_waits_for_spans(quiet: Cloud, http: Http, collector: Collector):
    """While the endpoint does not answer, jobs run as ever."""
    quiet.start_agent("local", threads=4)
    collector.server.shutdown()  # connections are made, and nobody answers
    for _ in range(3):
        wait_for(http, submit(http, "true"), "completed")
    assert [] == collector.received
