"""The function that exports spans: to an OTLP endpoint, again later, or to the dead letters."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

import joblane
from functions.tracer import handler
from joblane.aws.errors import AwsSilent
from joblane.deployment.names import traces_dead_name, traces_name
from joblane.job.spans import Ended, spans
from joblane.service.trace.tracer import RETRY_S, Tracer
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from joblane.state.trace import span_id
from tests.support.aws import FUNCTION_ENVIRONMENT, NAME, PREFIX, Cloud
from tests.support.collector import Answer, Collector, collecting, values
from tests.support.keys import job
from tests.support.noted_log import NotedLog

NOW = 1_800_000_000.0
AT = int(NOW) * 1000
DEAD, QUEUE = (PREFIX + name(NAME) for name in (traces_dead_name, traces_name))


def ended(letter: str = "A") -> Ended:
    """A job that ran for two seconds."""
    steps = (
        Step(State.PENDING, AT, 1, "submitted"),
        Step(State.ACTIVE, AT + 1000, 1, "claimed"),
        Step(State.COMPLETED, AT + 3000, 1, "exit code 0"),
    )
    return Ended(
        job_id=job(letter),
        tenant="acme",
        queue="default",
        before=State.ACTIVE,
        after=State.COMPLETED,
        epoch=1,
        attempt=1,
        agent="agent-1",
        timeline=tuple(step.encode() for step in steps),
        outcome=Outcome.SUCCEEDED,
    )


def record(*found: Ended, receives: int = 1, number: int = 1, body: str | None = None) -> Any:
    """A record of an event of SQS."""
    jobs = [json.loads(each.model_dump_json(exclude_defaults=True)) for each in found]
    return {
        "messageId": f"m{number}",
        "receiptHandle": f"r{number}",
        "body": json.dumps({"ended": jobs}) if body is None else body,
        "attributes": {"ApproximateReceiveCount": str(receives)},
    }


def function(aws: Cloud, url: str, headers: str | None = None) -> Tracer:
    """The function, as it is deployed."""
    environment = {**FUNCTION_ENVIRONMENT, "JOBLANE_ENDPOINT": url}
    if headers is not None:
        environment["JOBLANE_HEADERS"] = headers
    settings = handler.Settings.model_validate(environment)
    return handler.build(settings, aws.clients, lambda: NOW)


def letters(aws: Cloud) -> list[Any]:
    """Bodies of the dead letters."""
    sqs = aws.clients.make("sqs")
    found = sqs.receive_message(QueueUrl=DEAD, MaxNumberOfMessages=10).get("Messages", [])
    return [json.loads(each["Body"]) for each in found]


class Hidden:
    """A queue that notes what is put off."""

    def __init__(self) -> None:
        self.put_off: list[tuple[str, int]] = []

    def hide(self, receipt: str, seconds: int) -> None:
        """Note it."""
        self.put_off.append((receipt, seconds))


def putting_off(aws: Cloud, url: str, jitter: float = 0.5) -> tuple[Tracer, Hidden]:
    """The function with a queue that notes what is put off."""
    queue: Any = Hidden()
    return replace(function(aws, url), queue=queue, jitter=lambda: jitter), queue


def logged(tracer: Tracer) -> tuple[Tracer, NotedLog]:
    """The function with a log that is kept."""
    log = NotedLog()
    return replace(tracer, log=log), log


def test_a_message_becomes_the_spans_of_its_jobs(aws: Cloud):
    with collecting() as collector:
        assert [] == function(aws, collector.url).handle([record(ended("A"), ended("B"))])
    (received,) = collector.received
    (resource,) = received.request.resource_spans
    assert {
        "service.name": NAME,
        "service.version": joblane.__version__,
        "cloud.provider": "aws",
        "cloud.region": "us-east-1",
    } == values(resource.resource.attributes)
    for letter in ("A", "B"):
        assert {"wait pending", "attempt default", "process default"} == {
            each.name for each in collector.spans(job(letter))
        }
    by_name = {each.name: each for each in collector.spans(job("A"))}
    whole, attempt = by_name["process default"], by_name["attempt default"]
    assert (span_id(job("A"), 0), span_id(job("A"), 1)) == (
        whole.span_id.hex(),
        attempt.span_id.hex(),
    )
    assert (b"", whole.span_id) == (whole.parent_span_id, attempt.parent_span_id)
    assert (2_000_000_000, "agent-1") == (
        attempt.end_time_unix_nano - attempt.start_time_unix_nano,
        values(attempt.attributes)["host.name"],
    )


def test_the_same_message_again_is_the_same_spans(aws: Cloud):
    with collecting() as collector:
        tracer = function(aws, collector.url)
        for _ in range(2):
            tracer.handle([record(ended())])
    first, again = collector.received
    assert first.body == again.body


@pytest.mark.parametrize("reference", ["secretsmanager:tracing/otlp", "ssm:/tracing/otlp"])
def test_headers_are_those_of_the_secret(aws: Cloud, reference: str):
    text = "Authorization=Basic%20abc%3D,x-team=web"
    aws.clients.make("secretsmanager").create_secret(Name="tracing/otlp", SecretString=text)
    ssm = aws.clients.make("ssm")
    ssm.put_parameter(Name="/tracing/otlp", Value=text, Type="SecureString")
    with collecting() as collector:
        assert [] == function(aws, collector.url, reference).handle([record(ended())])
    (received,) = collector.received
    assert ("Basic abc=", "web") == tuple(
        received.headers[name] for name in ("authorization", "x-team")
    )


def test_a_secret_that_is_missing_sends_nothing_and_comes_back(aws: Cloud):
    with collecting() as collector:
        tracer, log = logged(function(aws, collector.url, "secretsmanager:tracing/none"))
        assert ["m1"] == tracer.handle([record(ended())])
    assert [] == collector.received
    (entry,) = log.of("spans not exported")
    assert entry["problem"].startswith("the secret secretsmanager:tracing/none: ")
    assert [] == letters(aws)


@pytest.mark.parametrize(("receives", "wait_s"), [(1, 5), (2, 15), (7, 3600), (8, 0), (9, 0)])
def test_what_fails_comes_back_later_each_time_and_then_to_the_dead_letters(
    aws: Cloud, receives: int, wait_s: int
):
    with collecting(Answer(503)) as collector:
        tracer, queue = putting_off(aws, collector.url)
        assert ["m1"] == tracer.handle([record(ended(), receives=receives)])
    assert [("r1", wait_s)] == queue.put_off


def test_waits_between_attempts_are_almost_two_hours():
    assert 1.5 < sum(RETRY_S) / 3600 < 2


@pytest.mark.parametrize(
    ("said", "jitter", "wait_s"), [(30, 0.0, 30), (30, 1.0, 36), (10**8, 0.5, 43_000)]
)
def test_an_endpoint_that_says_when_is_asked_then_or_a_little_later(
    aws: Cloud, said: int, jitter: float, wait_s: int
):
    with collecting(Answer(429, {"Retry-After": str(said)})) as collector:
        tracer, queue = putting_off(aws, collector.url, jitter)
        tracer.handle([record(ended())])
    assert [("r1", wait_s)] == queue.put_off


@pytest.mark.parametrize("status", [400, 401, 404])
def test_what_is_refused_is_a_dead_letter_at_once(aws: Cloud, status: int):
    with collecting(Answer(status)) as collector:
        built, queue = putting_off(aws, collector.url)
        tracer, log = logged(built)
        assert [] == tracer.handle([record(ended())])
    assert [json.loads(record(ended())["body"])] == letters(aws)
    assert [] == queue.put_off
    (entry,) = log.of("spans refused")
    assert f"the endpoint answers {status}" == entry["problem"]


def test_what_cannot_be_put_aside_comes_back(aws: Cloud):
    def down(_: str) -> None:
        raise AwsSilent(error="https://sqs.test")

    with collecting(Answer(400)) as collector:
        built, queue = putting_off(aws, collector.url)
        tracer = replace(built, bury=down)
        assert ["m1"] == tracer.handle([record(ended())])
    assert ["r1"] == [receipt for receipt, _ in queue.put_off]


def test_one_that_fails_does_not_hold_up_the_others(aws: Cloud):
    with collecting() as collector:
        tracer, queue = putting_off(aws, collector.url)
        records = [
            record(ended("A"), number=1),
            record(number=2, body="{"),
            record(number=3, body='{"ended": [{"job_id": 1}]}'),
            record(ended("B"), number=4),
        ]
        assert ["m2", "m3"] == tracer.handle(records)
    assert [3, 3] == [len(collector.spans(job(letter))) for letter in ("A", "B")]
    assert {"r2", "r3"} == {receipt for receipt, _ in queue.put_off}


def test_a_message_that_cannot_be_put_off_comes_back_after_the_queues_own_time(aws: Cloud):
    """Its receipt is made up, so SQS refuses."""
    with collecting(Answer(503)) as collector:
        assert ["m1"] == function(aws, collector.url).handle([record(ended())])


def test_fields_of_a_later_version_are_left_out(aws: Cloud):
    body = json.loads(record(ended())["body"])
    body["more"] = body["ended"][0]["more"] = {"x": 1}
    with collecting() as collector:
        assert [] == function(aws, collector.url).handle([record(body=json.dumps(body))])
    assert len(spans(ended())) == len(collector.spans(job("A")))


def test_spans_that_the_endpoint_rejects_are_logged(aws: Cloud):
    partial = ExportTracePartialSuccess(rejected_spans=2, error_message="too old")
    answer = ExportTraceServiceResponse(partial_success=partial).SerializeToString()
    with collecting(Answer(body=answer)) as collector:
        tracer, log = logged(function(aws, collector.url))
        assert [] == tracer.handle([record(ended())])
    (entry,) = log.of("spans rejected")
    assert (2, "too old") == (entry["rejected"], entry["problem"])


Call = Callable[[Any, None], dict[str, list[dict[str, str]]]]


def test_lambda_is_told_which_messages_failed(aws: Cloud, monkeypatch: pytest.MonkeyPatch):
    collector: Collector
    with collecting(Answer(503)) as collector:
        tracer = function(aws, collector.url)
        monkeypatch.setattr(handler, "_application", lambda: tracer)
        main: Call = handler.main
        assert {"batchItemFailures": [{"itemIdentifier": "m1"}]} == main(
            {"Records": [record(ended())]}, None
        )
        assert {"batchItemFailures": []} == main({"Records": [record(ended())]}, None)
