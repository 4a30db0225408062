"""The trace context of jobs: where it comes from, and everywhere it goes."""

import io
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from aws_lambda_powertools.logging import Logger

from ec2_agent.attempt.preparation import sandbox_spec
from ec2_agent.messages.delivery import Delivery, decode_delivery, encode_delivery, read_message
from functions.admin import handler as admin
from functions.dead_letter import handler as dead_letter
from functions.submission import handler as submission_function
from joblane.aws.condition.items import to_waiting, waiting_row
from joblane.aws.job.items import from_item, to_item
from joblane.aws.queue.lanes import LaneQueue, Lanes
from joblane.deployment.names import dead_letter_name, inbox_name, lane_name
from joblane.job.blocked import waiting_job
from joblane.job.head import Head, make_head
from joblane.job.message import Command
from joblane.job.moves import AttemptFacts, plan
from joblane.service.job.wake_up import wake_up_message
from joblane.state.lifecycle import Event, Outcome, State
from joblane.state.timeline import Step
from joblane.state.trace import TraceContext, job_trace, parse_trace
from tests.support.aws import DESCRIPTOR, NAME, PREFIX, Cloud, configure
from tests.support.jobs import JOB, named, submission
from tests.support.requests import Api

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
STATE = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
CALLER = TraceContext(TRACE, SPAN, 1, STATE)
HEADERS = {"traceparent": PARENT, "tracestate": STATE}
AGENT = "i-0123456789abcdef0"
DLQ = f"arn:aws:sqs:us-east-1:123456789012:{dead_letter_name(NAME)}"

Make = Callable[..., Api]


@pytest.fixture(name="make")
def _make(aws: Cloud) -> Make:
    def make(function: str, client_id: str = "client-acme", **claims: str) -> Api:
        module: Any = {"admin": admin, "submission": submission_function}[function]
        settings = configure(module.Settings)
        return Api(module.build(settings, aws.clients, time.time), client_id, claims)

    return make


def messages(aws: Cloud, name: str = lane_name(NAME, "default", "default")) -> list[dict[str, Any]]:
    """Messages of a queue with their attributes, in no order."""
    sqs = aws.clients.make("sqs")
    found: list[Any] = []
    while answer := sqs.receive_message(QueueUrl=f"{PREFIX}{name}", MaxNumberOfMessages=10).get(
        "Messages"
    ):
        found += answer
    return found


def carried(message: dict[str, Any]) -> dict[str, str]:
    """The trace context in the body of a message."""
    found = json.loads(message["Body"]).get("caller_trace")
    return {} if found is None else TraceContext(**found).fields


# At submission.


def test_a_submission_takes_the_context_of_its_request_and_reads_back_with_it(aws: Cloud, api: Api):
    status, job = api("POST", "/v1/jobs", {"command": ["true"]}, headers=HEADERS)
    assert (202, PARENT, STATE) == (status, job["traceparent"], job["tracestate"])
    status, again = api("GET", f"/v1/jobs/{job['id']}")
    assert (200, {**again, "admission": "accepted", "replaced": None, "warning": None}) == (
        status,
        job,
    )
    assert CALLER == aws.job(job["id"]).caller_trace
    (message,) = messages(aws)
    assert HEADERS == carried(message)


def test_the_body_counts_before_the_header(aws: Cloud, api: Api):
    own = f"00-{'a' * 32}-{SPAN}-00"
    body = {"command": ["true"], "traceparent": own, "tracestate": "a=1"}
    _, job = api("POST", "/v1/jobs", body, headers=HEADERS)
    assert (own, "a=1") == (job["traceparent"], job["tracestate"])
    key = {"job_id": {"S": job["id"]}, "sk": {"S": "JOB"}}
    row = aws.clients.make("dynamodb").get_item(TableName=DESCRIPTOR.jobs_table, Key=key)["Item"]
    assert {"command"} == json.loads(row["spec"]["S"]).keys()


def test_each_job_of_a_batch_has_its_own_or_that_of_the_request(aws: Cloud, api: Api):
    own = f"00-{'a' * 32}-{SPAN}-00"
    jobs = [{"command": ["true"]}, {"command": ["true"], "traceparent": own}]
    _, answer = api("POST", "/v1/jobs/batch", {"jobs": jobs}, headers=HEADERS)
    first, second = [entry["job"] for entry in answer["entries"]]
    assert (PARENT, STATE) == (first["traceparent"], first["tracestate"])
    assert (own, None) == (second["traceparent"], second["tracestate"])
    assert {PARENT, own} == {carried(message)["traceparent"] for message in messages(aws)}


@pytest.mark.parametrize("header", [{}, {"traceparent": "ff-x", "tracestate": "a=1"}])
@pytest.mark.parametrize("field", [{}, {"traceparent": "x" * 9000, "tracestate": "\n"}])
def test_without_a_valid_one_it_is_made_and_costs_no_byte(
    aws: Cloud, api: Api, header: dict[str, str], field: dict[str, str]
):
    status, job = api("POST", "/v1/jobs", {"command": ["true"], **field}, headers=header)
    assert 202 == status
    made = job_trace(job["id"], None)
    assert (made.traceparent, None) == (job["traceparent"], job["tracestate"])
    assert aws.job(job["id"]).caller_trace is None
    (message,) = messages(aws)
    assert {} == carried(message)


def test_a_repeated_request_may_come_from_another_span(api: Api):
    """Each try of an instrumented client has a span of its own, and is the same request."""
    body, key = {"command": ["true"]}, {"idempotency-key": "k"}
    _, job = api("POST", "/v1/jobs", body, headers={**HEADERS, **key})
    again = {**key, "traceparent": f"00-{TRACE}-{'b' * 16}-01"}
    assert (202, job) == api("POST", "/v1/jobs", body, headers=again)


def test_a_long_tracestate_leaves_the_head_below_a_kilobyte(aws: Cloud, api: Api):
    state = ",".join(f"k{n}={'v' * 97}" for n in range(5))
    headers = {"traceparent": PARENT, "tracestate": state}
    _, job = api("POST", "/v1/jobs", {"command": ["x" * 100]}, headers=headers)
    assert state == aws.job(job["id"]).trace.state
    key = {"job_id": {"S": job["id"]}, "sk": {"S": "DATA"}}
    dynamodb = aws.clients.make("dynamodb")
    assert "Item" in dynamodb.get_item(TableName=DESCRIPTOR.jobs_table, Key=key)


# In the job.


def environment(head: Head) -> dict[str, str]:
    env = sandbox_spec(head, 10.0).env
    return {name: env[name] for name in ("TRACEPARENT", "TRACESTATE") if name in env}


def test_every_attempt_is_in_the_trace_with_a_parent_id_of_its_own(aws: Cloud, make: Make):
    api = make("submission")
    body = {"command": ["true"], "retry": {"max_attempts": 1}}
    _, job = api("POST", "/v1/jobs", body, headers=HEADERS)
    seen = []
    for restart in ("retry", "replay", "end"):
        now_ms = int(time.time() * 1000)
        head = aws.jobs.claim(named(job["id"]), AGENT, now_ms)
        env = environment(head)
        assert STATE == env["TRACESTATE"]
        seen.append(env["TRACEPARENT"])
        step = Step(State.DEAD, now_ms, 1, "exit code 1")
        aws.jobs.settle(head, step, AttemptFacts(Outcome.FAILED, exit_code=1))
        if restart == "retry":
            assert 202 == api("POST", f"/v1/jobs/{job['id']}/retry")[0]
        elif restart == "replay":
            assert 202 == make("admin")("POST", f"/v1/dlq/{job['id']}/replay")[0]
    _, again = api("POST", f"/v1/jobs/{job['id']}/resubmit", headers={"traceparent": "00-x"})
    contexts = [parse_trace(text) for text in (*seen, again["traceparent"])]
    assert {(TRACE, 1)} == {(each.trace_id, each.flags) for each in contexts if each}
    # The resubmitted job belongs to the last attempt of the one that it repeats.
    *attempts, resubmitted = [each.parent_id for each in contexts if each]
    assert 3 == len({SPAN, *attempts}) - 1
    assert (attempts[-1], STATE) == (resubmitted, again["tracestate"])
    assert {PARENT, again["traceparent"]} == {carried(m)["traceparent"] for m in messages(aws)}


@pytest.mark.parametrize(
    "own",
    [
        {"env": {"TRACEPARENT": "mine"}},
        {"env": {"TRACESTATE": "mine=1"}},
        {"secret_env": {"TRACEPARENT": "ssm:/joblane/acme/t"}},
    ],
)
def test_variables_of_the_submission_are_left_alone(own: dict[str, dict[str, str]]):
    """Jobs that set them already keep them, and never with half of another context."""
    head = make_head(JOB, "acme", submission(**own), 1000, caller_trace=CALLER)
    assert own.get("env", {}) == environment(head)


def test_the_context_is_there_after_every_move(aws: Cloud):
    head = make_head(JOB, "acme", submission(), 1000, caller_trace=CALLER)
    aws.jobs.put_new(head)
    assert head == from_item(to_item(head, head.spec.model_dump_json()))
    claimed = aws.jobs.claim(named(JOB), AGENT, 2000)
    step = Step(State.BLOCKED, 3000, 0, "exit code 75")
    blocked = aws.jobs.block(claimed, step, "app:x", AttemptFacts(Outcome.BLOCKED, exit_code=75))
    back = aws.jobs.unblock(JOB, "app:x", Step(State.PENDING, 4000, 0, "released"))
    ended = aws.jobs.move(back, Event.CANCEL, plan(back, Event.CANCEL, 5000, "why"))
    heads = (claimed, blocked, back, ended, aws.job(JOB))
    assert {CALLER} == {each.caller_trace for each in heads}


# In messages.


def test_a_message_keeps_it_when_it_is_replaced_or_held_over_a_restart(aws: Cloud):
    lane = LaneQueue(aws.clients.make("sqs"), DESCRIPTOR.lane_url("default", "default"))
    head = make_head(JOB, "acme", submission(), 1000, caller_trace=CALLER)
    lane.send(wake_up_message(head))
    (received,) = lane.receive(1, 0)
    lane.send_again(received, 0)
    (again,) = lane.receive(1, 0)
    assert received.message is not None
    assert CALLER == received.message.caller_trace
    first_sent = {"first_sent_ms": received.sent_ms}
    assert received.message.model_copy(update=first_sent) == again.message
    assert received.sent_ms == received.first_sent_ms == again.first_sent_ms
    delivery = Delivery("default", lane.url, lane.url, received, 1.0)
    value = encode_delivery(delivery)
    assert delivery == decode_delivery(value)
    assert TRACE == read_message(delivery).trace_id


def test_a_job_that_a_condition_releases_keeps_it():
    entry = waiting_job(make_head(JOB, "acme", submission(), 1000, caller_trace=CALLER))
    row = {name: value for name, value in waiting_row("app:x", entry).items() if value is not None}
    assert TRACE == to_waiting(row).trace_id


def test_a_command_about_a_job_carries_it(aws: Cloud, api: Api):
    sqs = aws.clients.make("sqs")
    sqs.create_queue(QueueName=inbox_name(NAME, AGENT))
    _, job = api("POST", "/v1/jobs", {"command": ["true"]}, headers=HEADERS)
    aws.jobs.claim(named(job["id"]), AGENT, int(time.time() * 1000))
    assert 202 == api("POST", f"/v1/jobs/{job['id']}/cancel")[0]
    (message,) = messages(aws, inbox_name(NAME, AGENT))
    assert HEADERS == carried(message)
    sent = Command(command="cancel", job_id=job["id"], caller_trace=CALLER)
    assert sent == Command.decode(message["Body"])
    Lanes(sqs, PREFIX, NAME).send_command(AGENT, Command(command="drain"))
    (drain,) = messages(aws, inbox_name(NAME, AGENT))
    assert {} == carried(drain)


# In records.


Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture(name="lines")
def _lines(monkeypatch: pytest.MonkeyPatch) -> Lines:
    """What the functions have logged since the last call."""
    log = io.StringIO()
    monkeypatch.setattr(Logger().registered_handler, "stream", log)

    def lines() -> list[dict[str, Any]]:
        found = [json.loads(line) for line in log.getvalue().splitlines()]
        log.truncate(0)
        log.seek(0)
        return found

    return lines


def test_log_entries_of_a_request_name_its_job_and_those_of_the_next_do_not(api: Api, lines: Lines):
    _, job = api("POST", "/v1/jobs", {"command": ["true"]}, headers=HEADERS)
    (line,) = lines()
    assert (job["id"], TRACE) == (line["job_id"], line["trace_id"])
    for path in ("", "/audit", "/logs"):
        api("GET", f"/v1/jobs/{job['id']}{path}")
        (line,) = lines()
        assert (job["id"], TRACE) == (line["job_id"], line["trace_id"])
    api("GET", "/v1/jobs")
    (line,) = lines()
    assert {"job_id", "trace_id"}.isdisjoint(line)


def test_every_record_of_the_audit_trail_about_a_job_has_its_trace_id(make: Make):
    api, ops = make("submission"), make("admin")
    _, job = api("POST", "/v1/jobs", {"command": ["true"]}, headers=HEADERS)
    path = f"/v1/jobs/{job['id']}"
    assert 409 == api("POST", f"{path}/hide")[0]
    assert 409 == ops("POST", f"/v1/dlq/{job['id']}/replay")[0]
    reader = make("submission", scope="https://api.joblane.dev/jobs.read")
    assert 403 == reader("POST", f"{path}/cancel")[0]
    assert 202 == api("POST", f"{path}/cancel")[0]
    before = api("GET", f"{path}/audit")[1]["entries"]
    assert ["cancel", "cancel", "replay", "hide", "submit"] == [e["action"] for e in before]
    assert 204 == api.raw("DELETE", path)["statusCode"]
    after = api("GET", f"{path}/audit")[1]["entries"]
    assert "delete" == after[0]["action"]
    assert {TRACE} == {entry["trace_id"] for entry in before + after}
    foreign = make("submission", "client-other")
    assert 404 == foreign("POST", f"{path}/cancel")[0]
    assert 200 == ops("POST", "/v1/queues/default/requeue")[0]
    trail = ops("GET", "/v1/audit")[1]["entries"]
    assert ("requeue", None) == (trail[0]["action"], trail[0]["trace_id"])


def test_a_trail_does_not_tell_the_trace_of_another_tenants_job(make: Make):
    _, job = make("submission")("POST", "/v1/jobs", {"command": ["true"]}, headers=HEADERS)
    assert 404 == make("submission", "client-other")("POST", f"/v1/jobs/{job['id']}/cancel")[0]
    (entry,) = make("admin", "client-other")("GET", "/v1/audit")[1]["entries"]
    assert ("cancel", None) == (entry["action"], entry["trace_id"])


def letter(head: Head) -> dict[str, Any]:
    fields = wake_up_message(head).trace.fields
    return {
        "messageId": "m-1",
        "body": wake_up_message(head).encode(),
        "attributes": {"ApproximateReceiveCount": "1000"},
        "messageAttributes": {name: {"stringValue": text} for name, text in fields.items()},
        "eventSourceARN": DLQ,
    }


@pytest.mark.parametrize("there", [True, False])
def test_a_dead_letters_notification_and_log_entry_have_the_trace_id(
    aws: Cloud,
    lines: Lines,
    there: bool,
):
    head = make_head(JOB, "acme", submission(), 1000, caller_trace=CALLER)
    if there:
        aws.jobs.put_new(head)
    told: list[str] = []
    function = dead_letter.build(configure(dead_letter.Settings), aws.clients, time.time)
    function = replace(function, publish=lambda _subject, text: told.append(text))
    assert [] == function.handle([letter(head)])
    (line,) = lines()
    assert (JOB, TRACE) == (line["job_id"], line["trace_id"])
    assert [TRACE] * there == [json.loads(text)["trace_id"] for text in told]
