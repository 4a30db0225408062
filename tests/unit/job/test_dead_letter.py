"""The dead-letter function: every letter is kept, its job ends dead, an operator hears of it."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functions.dead_letter.handler import Settings, build
from joblane.aws.clients import Clients
from joblane.aws.job.dead_letters import PART_CHARS
from joblane.aws.job.jobs import JobStore
from joblane.aws.queue.lanes import LaneQueue
from joblane.deployment.names import LANES, Lane, lane_name, sequel_mapping_parameter_name
from joblane.job.edit import plan_edit
from joblane.job.head import Head, make_head
from joblane.job.message import Message
from joblane.job.moves import AttemptFacts
from joblane.service.fleet.kick import KICK
from joblane.service.job.dead_letters import UNKNOWN
from joblane.service.job.expired_records import NEW_S
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import FUNCTION_ENVIRONMENT, NAME, PREFIX, Cloud, configure
from tests.support.jobs import JOB, named, submission

NOW = 1_800_000_000.0
DLQ = f"arn:aws:sqs:us-east-1:123456789012:{NAME}-dlq"
ALTERNATE = f"arn:aws:sqs:us-east-1:123456789012:{NAME}-alternate"
OURS = named(JOB).encode()


@pytest.fixture(name="told")
def _told(aws: Cloud) -> str:
    """URL of a queue that hears what the topic says."""
    sqs, sns = aws.clients.make("sqs"), aws.clients.make("sns")
    url = sqs.create_queue(QueueName="operator")["QueueUrl"]
    sns.subscribe(
        TopicArn=FUNCTION_ENVIRONMENT["JOBLANE_TOPIC"],
        Protocol="sqs",
        Endpoint="arn:aws:sqs:us-east-1:123456789012:operator",
    )
    return url


def letter(body: str, arn: str = DLQ, reason: str | None = None) -> dict[str, Any]:
    said = {"reason": {"stringValue": reason, "dataType": "String"}} if reason else {}
    return {
        "messageId": "m-1",
        "body": body,
        "attributes": {"ApproximateReceiveCount": "1000"},
        "messageAttributes": said,
        "eventSourceARN": arn,
    }


def deal(aws: Cloud, *records: dict[str, Any], clients: Clients | None = None) -> list[str]:
    return build(configure(Settings), clients or aws.clients, lambda: NOW).handle(list(records))


def put(aws: Cloud) -> Head:
    head = make_head(JOB, "acme", submission(), 1_000)
    aws.jobs.put_new(head)
    return head


def notes(aws: Cloud, url: str) -> list[tuple[str, dict[str, str]]]:
    answer = aws.clients.make("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10)
    found = [json.loads(message["Body"]) for message in answer.get("Messages", [])]
    return [(note["Subject"], json.loads(note["Message"])) for note in found]


def kept(aws: Cloud, job_id: str) -> list[dict[str, Any]]:
    answer = aws.clients.make("dynamodb").query(
        TableName=f"{NAME}-jobs",
        KeyConditionExpression="job_id = :job AND begins_with(sk, :raw)",
        ExpressionAttributeValues={":job": {"S": job_id}, ":raw": {"S": "RAW"}},
    )
    return list(answer["Items"])


def test_a_job_whose_message_was_received_too_often_is_dead_and_somebody_knows(
    aws: Cloud, told: str
):
    put(aws)
    assert [] == deal(aws, letter(OURS))
    head = aws.job(JOB)
    assert State.DEAD is head.state
    assert "received 1000 times" in head.timeline[-1].reason
    assert head.expires_at == int(NOW) + 90 * 86_400
    (raw,) = kept(aws, JOB)
    assert (OURS, UNKNOWN) == (raw["body"]["S"], raw["source"]["S"])
    ((subject, note),) = notes(aws, told)
    assert f"Joblane: job {JOB} is dead" == subject
    assert f"joblane dlq replay {JOB}" in note["next"]
    assert [JOB] == [
        job.job_id for job in aws.jobs.attention_page("acme", State.DEAD, limit=10, before=None)[0]
    ]


def test_a_letter_that_comes_twice_tells_twice_and_moves_once(aws: Cloud, told: str):
    put(aws)
    for _ in range(2):
        assert [] == deal(aws, letter(OURS))
    assert 2 == len(aws.job(JOB).timeline)
    assert 2 == len(notes(aws, told))


@pytest.mark.parametrize("body", ["hello", "{}", "[]", '{"v":2}', "\ud7ff\u0000", "x" * 400_000])
def test_what_is_not_ours_is_kept_whole_and_told(aws: Cloud, told: str, body: str):
    assert [] == deal(aws, letter(body, reason="not JSON"))
    parts = kept(aws, "letter#m-1")
    assert body == "".join(part["body"]["S"] for part in parts)
    assert max(1, -(-len(body) // PART_CHARS)) == len(parts)
    ((_, note),) = notes(aws, told)
    assert "could not be read: not JSON" in note["reason"]
    assert "letter#m-1" in note["kept"]


def test_an_event_that_nothing_could_route_is_kept_and_told(aws: Cloud, told: str):
    assert [] == deal(aws, letter('{"source": "aws.events"}', ALTERNATE))
    assert 1 == len(kept(aws, "letter#m-1"))
    ((subject, _),) = notes(aws, told)
    assert f"Joblane: an event that AWS could not deliver in {NAME}-alternate" == subject


def _failed_call(condition: str, payload: object) -> str:
    """Lambda's record of an asynchronous call that failed."""
    context = {"functionArn": "arn:aws:lambda:x:y:function:s:$LATEST", "condition": condition}
    return json.dumps({"version": "1.0", "requestContext": context, "requestPayload": payload})


def test_a_kick_that_was_given_up_is_discarded_silently(aws: Cloud, told: str):
    assert [] == deal(aws, letter(_failed_call("EventAgeExceeded", KICK), ALTERNATE))
    assert [] == kept(aws, "letter#m-1")
    assert [] == notes(aws, told)


@pytest.mark.parametrize(
    "body",
    [
        _failed_call("RetriesExhausted", KICK),
        _failed_call("EventAgeExceeded", {"source": "aws.events"}),
        '{"requestContext": []}',
        "no JSON",
    ],
)
def test_other_events_that_could_not_be_delivered_are_told(aws: Cloud, told: str, body: str):
    assert [] == deal(aws, letter(body, ALTERNATE))
    assert 1 == len(notes(aws, told))


def expired_records(after_s: int, function: str = f"{NAME}-sequel", **context: str) -> str:
    """Lambda's report on records that were too old when it read them; `after_s` from now."""
    about = {
        "requestId": "r-1",
        "functionArn": f"arn:aws:lambda:us-east-1:123456789012:function:{function}",
        "condition": "RecordAgeExceeded",
        "approximateInvokeCount": 0,
        **context,
    }
    when = (datetime.now(UTC) + timedelta(seconds=after_s)).isoformat(timespec="milliseconds")
    batch = {"shardId": "shardId-1", "batchSize": 7, "approximateArrivalOfFirstRecord": when}
    stamp = when.replace("+00:00", "Z")
    return json.dumps(
        {"requestContext": about, "version": "1.0", "timestamp": stamp, "DDBStreamBatchInfo": batch}
    )


@pytest.mark.parametrize(("is_written", "after_s"), [(False, 0), (True, -10), (True, NEW_S - 60)])
def test_records_that_are_older_than_their_new_mapping_are_logged_and_nobody_is_told(
    aws: Cloud, told: str, caplog: pytest.LogCaptureFixture, *, is_written: bool, after_s: int
):
    if is_written:
        put_mapping(aws)
    assert [] == deal(aws, letter(expired_records(after_s), ALTERNATE))
    assert ([], []) == (kept(aws, "letter#m-1"), notes(aws, told))
    (line,) = (r for r in caplog.records if "older than their new mapping" in r.getMessage())
    assert (f"{NAME}-sequel", 7) == (vars(line)["function"], vars(line)["records"])


@pytest.mark.parametrize(
    ("after_s", "context"),
    [
        pytest.param(NEW_S + 60, {}, id="an hour after the mapping was made"),
        pytest.param(0, {"function": f"{NAME}-projector"}, id="of another function"),
        pytest.param(0, {"condition": "RetryAttemptsExhausted"}, id="that failed"),
        pytest.param(0, {"functionArn": "sequel"}, id="that cannot be read"),
    ],
)
def test_other_records_that_were_given_up_are_told(
    aws: Cloud, told: str, after_s: int, context: dict[str, str]
):
    put_mapping(aws)
    assert [] == deal(aws, letter(expired_records(after_s, **context), ALTERNATE))
    assert (1, 1) == (len(kept(aws, "letter#m-1")), len(notes(aws, told)))


def put_mapping(aws: Cloud) -> None:
    """What CloudFormation writes when it has made the mapping of sequel, now."""
    name = sequel_mapping_parameter_name(NAME)
    aws.clients.make("ssm").put_parameter(Name=name, Value="a UUID", Type="String")


def test_the_letter_of_a_deleted_job_is_discarded_silently(aws: Cloud, told: str):
    assert [] == deal(aws, letter(OURS))
    assert [] == kept(aws, JOB) + kept(aws, "letter#m-1")
    assert [] == notes(aws, told)


def test_a_letter_that_names_another_tenants_job_does_not_touch_it(aws: Cloud, told: str):
    put(aws)
    deal(aws, letter(Message(job_id=JOB, tenant="other", lane="default/default").encode()))
    assert State.PENDING is aws.job(JOB).state
    assert "another tenant" in notes(aws, told)[0][0]


@pytest.mark.parametrize("by", ["SQS", "an agent"])
def test_a_letter_from_a_lane_of_another_queue_does_not_touch_the_job(
    aws: Cloud, told: str, by: str
):
    """Agents of all fleets write to the dead-letter queue."""
    put(aws)
    assert [] == deal(aws, moved(OURS, lane_name(NAME, "bulk", "high"), by=by))
    assert State.PENDING is aws.job(JOB).state
    ((subject, note),) = notes(aws, told)
    assert "a message that names a job of another queue" in subject
    assert lane_name(NAME, "bulk", "high") == note["source"]


@pytest.mark.parametrize("other", ["edit", "claim"])
def test_a_letter_does_not_end_a_job_that_moves_on_meanwhile(
    aws: Cloud, told: str, monkeypatch: pytest.MonkeyPatch, other: str
):
    """Its message of the edit is in its lane; one that runs now gets a new message."""
    seen, now_ms = put(aws), int(NOW * 1000)
    move, met = JobStore.move, list[str]()

    def late(store: JobStore, *decided: Any, **more: Any) -> Head:
        if not met:
            met.append(other)
            if other == "edit":
                spec = seen.spec.model_copy(update={"priority": "high"})
                aws.jobs.edit(seen, plan_edit(seen, spec, now_ms, "edited"), now_ms)
            else:
                aws.jobs.claim(named(JOB), "agent-1", now_ms)
        return move(store, *decided, **more)

    monkeypatch.setattr(JobStore, "move", late)
    assert [] == deal(aws, letter(OURS))
    assert [other] == met
    assert (State.PENDING if other == "edit" else State.ACTIVE) is aws.job(JOB).state
    assert [] == notes(aws, told)
    lane = LaneQueue(aws.clients.make("sqs"), PREFIX + lane_name(NAME, "default", "default"))
    assert int(other == "claim") == lane.lengths().visible


def test_a_letter_from_before_an_edit_does_not_touch_the_job(aws: Cloud, told: str):
    """The job has moved to another queue, and has a message there."""
    head = make_head(JOB, "acme", submission(), int(NOW * 1000))
    aws.jobs.put_new(replace(head, edit=1))
    body = Message(job_id=JOB, tenant="acme", lane="bulk/default").encode()
    assert [] == deal(aws, moved(body, lane_name(NAME, "bulk", "default"), by="SQS"))
    assert State.PENDING is aws.job(JOB).state
    assert [] == notes(aws, told)


@pytest.mark.parametrize("by", ["SQS", "an agent"])
@pytest.mark.parametrize("lane", LANES)
def test_a_letter_from_a_lane_of_its_queue_ends_the_job(aws: Cloud, told: str, lane: Lane, by: str):
    put(aws)
    assert [] == deal(aws, moved(OURS, lane_name(NAME, "default", lane), by=by))
    assert State.DEAD is aws.job(JOB).state
    ((_, note),) = notes(aws, told)
    assert ("default", "default") == (note["queue"], note["lane"])


def moved(body: str, lane: str, *, by: str) -> dict[str, Any]:
    """A message of a lane, moved to the dead letters."""
    record = letter(body)
    if by == "SQS":
        record["attributes"]["DeadLetterQueueSourceArn"] = f"arn:aws:sqs:us-east-1:1:{lane}"
    else:
        record["messageAttributes"]["lane"] = {"stringValue": lane, "dataType": "String"}
    return record


def test_a_running_job_gets_a_fresh_message_instead(aws: Cloud, told: str):
    put(aws)
    aws.jobs.claim(named(JOB), "agent-1", 2_000)
    assert [] == deal(aws, letter(OURS))
    assert State.ACTIVE is aws.job(JOB).state
    lane = aws.clients.make("sqs").receive_message(QueueUrl=f"{PREFIX}{NAME}-lane-default_default")
    assert OURS == lane["Messages"][0]["Body"]
    assert [] == notes(aws, told)


@pytest.mark.parametrize("state", [State.COMPLETED, State.CANCELLED, State.FAILED, State.DEAD])
def test_a_job_that_has_ended_stays_as_it_is(aws: Cloud, told: str, state: State):
    put(aws)
    head = aws.jobs.claim(named(JOB), "agent-1", 2_000)
    aws.jobs.settle(head, Step(state, 3_000, 1, "as it was"), AttemptFacts(Outcome.FAILED))
    assert [] == deal(aws, letter(OURS))
    assert "as it was" == aws.job(JOB).timeline[-1].reason
    assert [] == notes(aws, told)


def test_one_letter_that_cannot_be_dealt_with_comes_back_and_the_others_do_not(aws: Cloud):
    put(aws)
    broken = letter(OURS) | {"messageId": "m-2"}
    del broken["eventSourceARN"]
    assert ["m-2"] == deal(aws, broken, letter(OURS))
    assert State.DEAD is aws.job(JOB).state


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(st.characters(codec="utf-8")))
def test_no_body_makes_it_fall_over(aws: Cloud, body: str):
    assert [] == deal(aws, letter(body))
