"""Which changes of jobs become notifications, and what these say."""

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from functions.sequel import handler
from joblane.aws.errors import AwsSilent
from joblane.aws.job.items import NOTIFY, TELLS
from joblane.contract.job_events import Delivery, JobEvent
from joblane.deployment.names import notify_name, sequel_mapping_parameter_name
from joblane.job.head import Head, make_head
from joblane.job.moves import AttemptFacts, plan
from joblane.notify.event_names import ENDS
from joblane.service.notify.notifications import FRESH_S
from joblane.state.lifecycle import Event, Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import FUNCTION_ENVIRONMENT, JOBS_TOPIC, NAME, PREFIX
from tests.support.job_stream import Stream
from tests.support.jobs import JOB, named, submission
from tests.support.keyed import ALTERNATE, NOW, NOW_MS, Deployed
from tests.support.keys import job, put_keyed, stored

QUEUE = PREFIX + notify_name(NAME)
BUS = {"eventbridge": True}


def put(at: Deployed, letter: str = "A", notify: object = None, **fields: object) -> Head:
    """A pending job that notifies the bus, or whom `notify` says."""
    spec = submission(notify=notify or BUS, **fields)
    head = make_head(job(letter), "acme", spec, NOW_MS)
    return at.aws.jobs.put_new(replace(head, request_id="request-7"))


def deliver_and_take(at: Deployed) -> list[Delivery]:
    """Deliver the stream, and take what is in the queue of notifications."""
    at.deliver()
    return [Delivery.decode(json.dumps(body)) for body in at.messages(QUEUE)]


def test_the_end_of_a_job_is_one_event_with_what_the_job_says(at: Deployed):
    put(at, name="nightly", labels={"team": "web"}, notify={"sns": JOBS_TOPIC})
    assert [] == deliver_and_take(at)
    head = at.aws.jobs.claim(named(job("A")), "agent-1", NOW_MS + 5)
    facts = AttemptFacts(Outcome.FAILED, exit_code=3, expires_at=int(NOW) + 999)
    at.aws.jobs.settle(head, Step(State.DEAD, NOW_MS + 1234, 1, "exit code 3"), facts)
    (delivery,) = deliver_and_take(at)
    event = delivery.event
    assert delivery.notify is not None
    assert JOBS_TOPIC == delivery.notify.sns
    assert event == JobEvent(
        version=1,
        id=f"{job('A')}.1.{event.sequence}",
        sequence=event.sequence,
        event="job.dead",
        deployment=NAME,
        tenant="acme",
        job_id=job("A"),
        name="nightly",
        type=None,
        queue="default",
        labels={"team": "web"},
        group=None,
        index=None,
        state=State.DEAD,
        previous_state=State.ACTIVE,
        ended=True,
        reason="exit code 3",
        outcome=Outcome.FAILED,
        exit_code=3,
        signal=None,
        attempt=1,
        epoch=1,
        condition=None,
        members=None,
        at="2027-01-15T08:00:01.234Z",
        created_at="2027-01-15T08:00:00.000Z",
        started_at="2027-01-15T08:00:00.005Z",
        link=f"https://api.test/v1/jobs/{job('A')}",
        trace_id=head.trace_id,
        traceparent=f"00-{head.trace_id}-{head.span_id}-01",
        request_id="request-7",
    )


def test_nothing_that_a_job_runs_with_is_in_an_event(at: Deployed):
    put(at, command=["sh", "-c", "secret-word"], env={"PASSWORD": "secret-word"})
    at.end("A")
    assert "secret-word" not in deliver_and_take(at)[0].model_dump_json()


def test_a_record_that_comes_twice_gives_the_same_id(at: Deployed):
    put(at)
    at.end("A")
    records = at.stream.take()
    for _ in range(2):
        at.sequel.handle(records)
    first, second = (body["events"] for body in at.messages(QUEUE))
    assert first == second


def test_each_end_of_a_job_that_is_retried_has_an_id_of_its_own(at: Deployed):
    put(at)
    at.end("A", State.FAILED)
    head = at.head("A")
    at.aws.jobs.move(head, Event.RETRY, plan(head, Event.RETRY, NOW_MS + 7, "again"))
    claimed = at.aws.jobs.claim(named(job("A")), "agent-1", NOW_MS + 8)
    step = Step(State.FAILED, NOW_MS + 9, claimed.attempt, "exit code 65")
    at.aws.jobs.settle(claimed, step, AttemptFacts(Outcome.PERMANENT))
    events = [delivery.event for delivery in deliver_and_take(at)]
    assert ["failed", "failed"] == [event.state for event in events]
    assert 2 == len({event.id for event in events})


def test_a_blocked_job_is_an_event_with_its_condition(at: Deployed):
    put(at)
    head = at.aws.jobs.claim(named(job("A")), "agent-1", NOW_MS)
    step = Step(State.BLOCKED, NOW_MS, 1, "waits for app:acme/billing")
    at.aws.jobs.block(head, step, "app:acme/billing", AttemptFacts(Outcome.BLOCKED))
    (delivery,) = deliver_and_take(at)
    assert ("job.blocked", False, "app:billing") == (
        delivery.event.event,
        delivery.event.ended,
        delivery.event.condition,
    )


@pytest.mark.parametrize("state", sorted(ENDS))
def test_a_job_notifies_about_the_ends_that_it_names(at: Deployed, state: str):
    stream = Stream()
    stream.write(JOB, State.ACTIVE)
    record = stream.write(JOB, State(state))
    others = [name for name in sorted(ENDS) if name != state]
    for on, count in (([state], 1), (others, 0)):
        image = record["dynamodb"]["NewImage"]
        spec = json.loads(image["spec"]["S"]) | {"notify": {"eventbridge": True, "on": on}}
        image |= {TELLS: {"S": NOTIFY}, "spec": {"S": json.dumps(spec)}}
        at.sequel.handle([record])
        assert count == len(at.messages(QUEUE))


def test_a_job_that_is_dismissed_has_been_told_of_when_it_died(at: Deployed):
    put(at)
    at.end("A", State.DEAD)
    assert ["dead"] == [delivery.event.state for delivery in deliver_and_take(at)]
    head = at.head("A")
    at.aws.jobs.move(head, Event.DISMISS, plan(head, Event.DISMISS, NOW_MS, "known"))
    assert [] == deliver_and_take(at)


def test_other_changes_of_an_ended_job_are_no_events(at: Deployed):
    put(at)
    at.end("A")
    deliver_and_take(at)
    at.aws.jobs.set_hidden(at.head("A"), hidden=True)
    assert at.stream.records
    assert [] == deliver_and_take(at)


def test_a_job_that_is_skipped_at_once_is_an_event_without_a_state_before(at: Deployed):
    """As one for a host that has no agent is."""
    head = make_head(job("A"), "acme", submission(notify=BUS), NOW_MS)
    step = Step(State.SKIPPED, NOW_MS, 0, "no agent web-1 serves queue default")
    at.aws.jobs.put_new(replace(head, state=State.SKIPPED, timeline=(step,)))
    (delivery,) = deliver_and_take(at)
    assert ("skipped", None) == (delivery.event.state, delivery.event.previous_state)


def test_a_long_submission_is_read_for_the_name(at: Deployed):
    put(at, name="long", env={"A": "x" * 5000})
    at.end("A")
    records = at.stream.take()
    at.sequel.handle(records)
    assert "long" == at.messages(QUEUE)[0]["events"][0]["name"]
    at.aws.jobs.delete(job("A"))
    at.sequel.handle(records)  # a repeated record, of a job that is deleted
    (late,) = at.messages(QUEUE)
    assert (None, "default", "completed") == tuple(
        late["events"][0][name] for name in ("name", "queue", "state")
    )


def test_a_job_with_a_key_gives_its_slot_and_notifies(at: Deployed):
    put_keyed(at.aws, active="A", queued="B", notify=BUS)
    at.end("A")
    assert [job("A")] == [delivery.event.job_id for delivery in deliver_and_take(at)]
    assert ["B"] == at.sent()
    assert {job("B")} == set(stored(at.aws).state.active)


def test_eleven_ends_are_two_requests(at: Deployed):
    for letter in "ABCDEFGHJKM":
        put(at, letter)
        at.end(letter)
    at.deliver()
    assert 11 == len(at.messages(QUEUE)) + len(at.messages(QUEUE))


def test_what_cannot_be_read_is_put_aside_and_the_others_go(at: Deployed):
    for letter in "AB":
        put(at, letter)
        at.end(letter)
    records = at.stream.take()
    broken = copy.deepcopy(records[-1])
    broken["dynamodb"]["NewImage"]["spec"] = {"S": "no JSON"}
    at.sequel.handle([broken, *records])
    (aside,) = at.messages(ALTERNATE)
    assert ("sequel", broken["dynamodb"]["SequenceNumber"]) == (aside["source"], aside["sequence"])
    assert {job("A"), job("B")} == {body["events"][0]["job_id"] for body in at.messages(QUEUE)}


@pytest.mark.parametrize("operation", ["SendMessageBatch", "GetItem"])
def test_the_batch_comes_again_when_aws_cannot_be_reached(at: Deployed, operation: str):
    put(at, env={"A": "x" * 5000})
    at.end("A")
    records = at.stream.take()
    emitter, clients = at.own_clients()

    def fail(**_: Any) -> None:
        raise AwsSilent(error="x")

    emitter.register(f"before-call.*.{operation}", fail)
    with pytest.raises(AwsSilent):
        at.function(clients).handle(records)
    at.sequel.handle(records)
    assert 1 == len(at.messages(QUEUE))


def test_messages_that_sqs_refuses_come_again(at: Deployed):
    put(at)
    at.end("A")
    emitter, clients = at.own_clients()

    def refuse(parsed: dict[str, Any], **_: Any) -> None:
        parsed["Failed"] = [{"Id": "0", "Code": "InternalError", "SenderFault": False}]

    emitter.register("after-call.sqs.SendMessageBatch", refuse)
    with pytest.raises(Exception, match="SQS refused 1 messages: InternalError"):
        at.function(clients).handle(at.stream.take())


@pytest.mark.parametrize(
    "case",
    [
        pytest.param((True, -1, FRESH_S, False), id="by the mapping before"),
        pytest.param((False, 1, FRESH_S + 1, False), id="while the mapping's time is not written"),
        pytest.param((True, -1, FRESH_S - 2, True), id="while there was no mapping"),
        pytest.param((True, 1, FRESH_S + 1, True), id="before sequel failed for long"),
    ],
)
def test_changes_from_before_the_mapping_are_notified_about_for_a_quarter_of_an_hour(
    at: Deployed,
    caplog: pytest.LogCaptureFixture,
    case: tuple[bool, int, int, bool],
):
    """The mapping is made at `NOW`."""
    is_written, ended_s, read_s, told = case
    put(at)
    head = at.aws.jobs.claim(named(job("A")), "agent-1", NOW_MS - 9_000)
    step = Step(State.COMPLETED, NOW_MS + 1000 * ended_s, 1, "exit code 0")
    at.aws.jobs.settle(head, step, AttemptFacts(Outcome.SUCCEEDED, expires_at=int(NOW) + 999))
    if is_written:
        name = sequel_mapping_parameter_name(NAME)
        at.aws.clients.make("ssm").put_parameter(Name=name, Value="a UUID", Type="String")
    at.now = NOW + read_s
    at.deliver()
    assert told == bool(at.messages(QUEUE))
    dropped = [vars(r)["queues"] for r in caplog.records if "dropped" in r.getMessage()]
    assert ([] if told else [{"default": 1}]) == dropped


def test_a_deployment_that_notifies_nobody_any_more_sends_nothing(at: Deployed):
    settings = handler.Settings.model_validate({**FUNCTION_ENVIRONMENT, "JOBLANE_NOTIFIES": "0"})
    put(at)
    at.end("A")
    handler.build(settings, at.aws.clients, lambda: NOW).handle(at.stream.take())
    assert [] == at.messages(QUEUE)
