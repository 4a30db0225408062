"""The requeue function: only what is due, each as its state asks, twice without harm."""

import json
from collections import Counter
from collections.abc import Callable

import pytest
from botocore.exceptions import EndpointConnectionError

from functions.requeue.handler import Settings, build
from joblane.aws.clients import Clients
from joblane.aws.fleet.agents import SHARDS as AGENT_SHARDS
from joblane.aws.job.items import WAKE_SHARDS
from joblane.aws.key.keys import WAIT_SHARDS
from joblane.aws.schedule.items import SHARDS as SCHEDULE_SHARDS
from joblane.deployment.names import inbox_name
from joblane.formats.times import rfc3339
from joblane.job.head import Head, make_head
from joblane.job.moves import AttemptFacts, plan
from joblane.service.job.requeue import PAGE
from joblane.state.lifecycle import Event, Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import NAME, PREFIX, Cloud, configure
from tests.support.jobs import JOB, named, submission
from tests.support.meter import Meter

NOW = 1_800_000_000.0
NOW_MS = int(NOW * 1000)
LANE = f"{PREFIX}{NAME}-lane-default_default"


def run(
    aws: Cloud,
    at: float = NOW,
    clients: Clients | None = None,
    left_s: Callable[[], float] = lambda: 60.0,
) -> Counter[str]:
    return build(configure(Settings), clients or aws.clients, lambda: at).run(left_s)


def put(aws: Cloud, job_id: str = JOB, **spec: object) -> Head:
    head = make_head(job_id, "acme", submission(**spec), NOW_MS - 10_000)
    aws.jobs.put_new(head)
    return head


def bodies(aws: Cloud, url: str = LANE) -> list[dict[str, str]]:
    answer = aws.clients.make("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10)
    return [json.loads(message["Body"]) for message in answer.get("Messages", [])]


def test_a_job_whose_time_has_come_is_sent_to_its_lane_once(aws: Cloud):
    put(aws, run_at=rfc3339(NOW_MS))
    assert {} == run(aws, NOW - 1)
    assert {"Woken": 1} == run(aws)
    head = aws.job(JOB)
    assert (State.PENDING, None, None) == (head.state, head.wake_at_ms, head.next_at_ms)
    assert "its run_at has come; waits in lane default" in head.timeline[-1].reason
    assert [json.loads(named(JOB).encode())] == bodies(aws)
    assert {} == run(aws, NOW + 60)
    assert [] == bodies(aws)


def test_a_woken_job_still_has_its_deadline(aws: Cloud):
    put(aws, run_at=rfc3339(NOW_MS), deadline=rfc3339(NOW_MS + 60_000))
    assert {"Woken": 1} == run(aws)
    assert {"Expired": 1} == run(aws, NOW + 60)
    head = aws.job(JOB)
    assert (State.EXPIRED, None) == (head.state, head.wake_at_ms)
    assert "before it started" in head.timeline[-1].reason
    assert head.expires_at is not None


@pytest.mark.parametrize("state", [State.RETRY, State.PENDING])
def test_a_job_between_attempts_expires(aws: Cloud, state: State):
    put(aws, deadline=rfc3339(NOW_MS))
    head = aws.jobs.claim(named(JOB), "agent-1", NOW_MS - 5_000)
    step = Step(state, NOW_MS - 4_000, 1, "exit code 1")
    aws.jobs.settle(head, step, AttemptFacts(Outcome.FAILED, next_at_ms=NOW_MS + 9_000))
    assert {"Expired": 1} == run(aws)
    assert "between two attempts" in aws.job(JOB).timeline[-1].reason


def test_a_blocked_job_expires(aws: Cloud):
    put(aws, deadline=rfc3339(NOW_MS))
    head = aws.jobs.claim(named(JOB), "agent-1", NOW_MS - 5_000)
    step = Step(State.BLOCKED, NOW_MS - 4_000, 0, "exit code 75")
    aws.jobs.block(head, step, "app:x", AttemptFacts(Outcome.BLOCKED))
    assert {"Expired": 1} == run(aws)
    assert aws.job(JOB).condition is None


@pytest.mark.parametrize("gone", [False, True])
def test_an_agent_is_told_of_the_deadline_of_what_it_runs(aws: Cloud, *, gone: bool):
    if not gone:
        aws.clients.make("sqs").create_queue(QueueName=inbox_name(NAME, "agent-1"))
    put(aws, deadline=rfc3339(NOW_MS))
    aws.jobs.claim(named(JOB), "agent-1", NOW_MS - 5_000)
    assert {"StopRequested": 1} == run(aws)
    head = aws.job(JOB)
    assert (State.ACTIVE, None) == (head.state, head.wake_at_ms)
    assert "its deadline 2027" in (head.cancel_requested or "")
    if not gone:
        url = PREFIX + inbox_name(NAME, "agent-1")
        assert [{"v": 1, "command": "cancel", "job_id": JOB}] == bodies(aws, url)
    assert {} == run(aws, NOW + 60)


def test_a_job_that_was_asked_to_end_before_its_deadline_is_not_asked_for_ever(aws: Cloud):
    put(aws, deadline=rfc3339(NOW_MS))
    aws.jobs.claim(named(JOB), "agent-1", NOW_MS - 5_000)
    aws.jobs.request_cancel(JOB, "cancelled by somebody")
    assert {"StopRequested": 1} == run(aws)
    assert "cancelled by somebody" == aws.job(JOB).cancel_requested
    assert {} == run(aws, NOW + 60)


def put_replay(aws: Cloud) -> None:
    """A job whose replay died before its message was sent."""
    put(aws)
    head = aws.jobs.claim(named(JOB), "agent-1", NOW_MS - 5_000)
    dead = aws.jobs.settle(
        head, Step(State.DEAD, NOW_MS - 4_000, 1, "exit code 1"), AttemptFacts(Outcome.FAILED)
    )
    aws.jobs.move(dead, Event.REPLAY, plan(dead, Event.REPLAY, NOW_MS - 1, "replayed"))


def test_a_replay_that_died_before_its_message_is_finished(aws: Cloud):
    put_replay(aws)
    assert {"Sent": 1} == run(aws)
    assert 1 == len(bodies(aws))
    assert {} == run(aws, NOW + 60)


def test_a_row_of_a_job_that_started_meanwhile_rests(aws: Cloud):
    put_replay(aws)
    aws.jobs.claim(named(JOB), "agent-1", NOW_MS)
    assert {"Rearmed": 1} == run(aws)
    assert [] == bodies(aws)
    assert {} == run(aws, NOW + 60)


QUERIES = SCHEDULE_SHARDS + WAKE_SHARDS + WAIT_SHARDS + AGENT_SHARDS
"""Questions of a minute in which nothing is due."""


def many(aws: Cloud, count: int) -> list[str]:
    alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    ids = [f"{JOB[:24]}{alphabet[n // 32]}{alphabet[n % 32]}" for n in range(count)]
    for job_id in ids:
        put(aws, job_id, run_at=rfc3339(NOW_MS))
    return ids


def test_more_than_a_page_is_due_and_jobs_that_are_not_cost_nothing(aws: Cloud, meter: Meter):
    ids = many(aws, 2 * PAGE)
    put(aws, run_at=rfc3339(NOW_MS + 1))
    assert {"Woken": 2 * PAGE} == run(aws, clients=meter.clients_of(aws))
    assert QUERIES == meter.calls["dynamodb.Query"]
    assert meter.calls["dynamodb.BatchGetItem"] <= WAKE_SHARDS + 5  # as below
    assert 2 * len(ids) + 2 == meter.calls["dynamodb.UpdateItem"]  # the first of those two
    assert len(ids) == meter.calls["sqs.SendMessage"]


def test_nothing_due_costs_a_question_a_shard_of_due_jobs_and_agents(aws: Cloud, meter: Meter):
    run(aws)
    assert {} == run(aws, clients=meter.clients_of(aws))
    # What agents can give, as it was, when passes began; once in a process, which queues moved.
    # And once in a process which schedules joblane.toml declared.
    first_minute = {"dynamodb.BatchGetItem": 5}
    assert {"dynamodb.Query": QUERIES, **first_minute} == dict(meter.calls)


def test_what_there_was_no_time_for_is_done_a_minute_later(aws: Cloud):
    many(aws, 40)
    left = iter([1.0] * SCHEDULE_SHARDS + [60.0] + [1.0] * 100)
    first = run(aws, left_s=lambda: next(left))
    assert WAKE_SHARDS - 1 == first["Unread"]
    assert 0 < first["Woken"] < 40
    assert 40 == first["Woken"] + run(aws, NOW + 60)["Woken"]


def test_a_job_that_cannot_be_moved_does_not_stop_the_rest(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
):
    ids = many(aws, 5)
    session = aws.session()

    def fail(params: dict[str, object], **_: object) -> None:
        if ids[2] in str(params.get("MessageBody")):
            raise EndpointConnectionError(endpoint_url=LANE)

    session.get_component("event_emitter").register("provide-client-params.sqs.SendMessage", fail)
    assert {"Woken": 4, "Failed": 1} == run(aws, clients=Clients(session))
    monkeypatch.undo()
    assert {"Sent": 1} == run(aws, NOW + 60)  # it is pending by now, and still due
