"""The projector calls the scaler, sends what spans are made of, and counts in any case."""

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from functions.projector import handler
from joblane.aws.errors import AwsSilent
from joblane.aws.trace.queue import MESSAGE_BYTES, SpanBatch, TraceQueue
from joblane.deployment.names import traces_name
from joblane.job.spans import Ended, spans
from joblane.service.queue.count import Counting
from joblane.service.trace.traces import Traces
from joblane.state.lifecycle import Outcome, State
from tests.support.aws import FUNCTION_ENVIRONMENT, NAME, PREFIX
from tests.support.keyed import NOW
from tests.support.keys import job
from tests.support.noted_log import NotedLog
from tests.support.span_scene import Scene

QUEUE = PREFIX + traces_name(NAME)


def projector(scene: Scene, **environment: str) -> Counting:
    """The function, as it is deployed."""
    settings = handler.Settings.model_validate({**FUNCTION_ENVIRONMENT, **environment})
    return handler.build(settings, scene.at.aws.clients, lambda: NOW)


def messages(scene: Scene) -> list[SpanBatch]:
    """What is in the queue of traces."""
    return [SpanBatch.model_validate(each) for each in scene.at.messages(QUEUE)]


def run_job() -> Scene:
    """A job that has run."""
    scene = Scene()
    scene.put()
    scene.claim()
    scene.settle(State.COMPLETED, Outcome.SUCCEEDED)
    return scene


def test_a_batch_is_one_message_of_what_has_ended():
    scene = run_job()
    assert projector(scene, JOBLANE_SAMPLE="1.0").handle(scene.at.stream.take())
    (batch,) = messages(scene)
    (ended,) = batch.ended
    assert (job("A"), "acme", State.COMPLETED) == (ended.job_id, ended.tenant, ended.after)
    assert 3 == len(spans(ended))


@pytest.mark.parametrize("metrics", ["true", "false"])
@pytest.mark.parametrize("kicks", ["true", "false"])
def test_the_scaler_of_a_deployment_with_fleets_is_called_when_jobs_wait(kicks: str, metrics: str):
    scene, called = Scene(), list[str]()

    def invoke(model: Any, **_: Any) -> Any:
        called.append(model.name)
        return SimpleNamespace(status_code=202), {"StatusCode": 202}

    scene.at.aws.emitter().register("before-call.lambda.Invoke", invoke)
    scene.put()
    projector(scene, JOBLANE_KICKS=kicks, JOBLANE_METRICS=metrics).handle(scene.at.stream.take())
    assert (["Invoke"] if kicks == "true" else []) == called


def test_a_deployment_without_an_endpoint_sends_nothing():
    scene = run_job()
    assert projector(scene).handle(scene.at.stream.take())
    assert [] == messages(scene)


def test_a_batch_that_ends_nothing_sends_nothing():
    scene = Scene()
    scene.put()
    scene.claim()
    projector(scene, JOBLANE_SAMPLE="1.0").handle(scene.at.stream.take())
    assert [] == messages(scene)


class Down:
    """A queue that cannot be reached."""

    def send(self, _found: Sequence[Ended]) -> int:
        """Fail."""
        raise AwsSilent(error="https://sqs.test")


def test_a_queue_that_is_down_fails_nothing_and_is_logged():
    scene, log = run_job(), NotedLog()
    Traces(Down(), 1.0, log).send(scene.at.stream.take())  # type: ignore[arg-type]
    assert [("spans not sent", {"ended": 1})] == log.entries


def test_a_record_that_cannot_be_read_holds_up_no_other():
    scene, log = run_job(), NotedLog()
    records = [{"dynamodb": {"Keys": {}}}, *scene.at.stream.take()]
    queue = TraceQueue(scene.at.aws.clients.make("sqs"), QUEUE)
    Traces(queue, 1.0, log).send(records)
    assert 1 == len(messages(scene))
    assert 1 == len(log.of("spans cannot be made of a record"))


def test_metrics_are_written_when_the_queue_is_missing(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    scene = run_job()
    environment = {"JOBLANE_SAMPLE": "1", "JOBLANE_METRICS": "true", "JOBLANE_DEPLOYMENT": "none"}
    assert projector(scene, **environment).handle(scene.at.stream.take())
    assert "spans not sent" in caplog.text
    assert "_aws" in capsys.readouterr().out


class Noting:
    """An SQS client that notes what is sent."""

    def __init__(self) -> None:
        self.bodies: list[str] = []

    def send_message(self, **message: Any) -> None:
        """Note it."""
        self.bodies.append(message["MessageBody"])


def test_a_message_is_never_larger_than_sqs_allows():
    (ended,) = run_job().read()
    wide = ended.model_copy(update={"timeline": (*ended.timeline, "ä" * 20_000)})
    client = Noting()
    sent = TraceQueue(client, QUEUE).send([wide] * 12)  # type: ignore[arg-type]
    sizes = [len(body.encode()) for body in client.bodies]
    assert (sent, 12) == (len(sizes), sum(len(json.loads(b)["ended"]) for b in client.bodies))
    assert MESSAGE_BYTES // 2 < max(sizes) <= MESSAGE_BYTES


def test_one_that_is_larger_than_a_message_goes_alone():
    (ended,) = run_job().read()
    wide = ended.model_copy(update={"timeline": (*ended.timeline, "x" * MESSAGE_BYTES)})
    client = Noting()
    TraceQueue(client, QUEUE).send([ended, wide, ended])  # type: ignore[arg-type]
    assert [1, 1, 1] == [len(json.loads(body)["ended"]) for body in client.bodies]
