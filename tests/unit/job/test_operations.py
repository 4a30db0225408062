"""The routes that move jobs: batches, times, cancel, retry, delete."""

import json
import os
import subprocess
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.submission.handler import Settings, build
from joblane.deployment.names import inbox_name
from joblane.formats.times import rfc3339
from joblane.job.head import Head
from joblane.job.moves import AttemptFacts
from joblane.job.spec import MAX_BATCH
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import NAME, PREFIX, Cloud, configure
from tests.support.jobs import named
from tests.support.meter import Meter
from tests.support.requests import Api

INBOX = PREFIX + inbox_name(NAME, "agent-1")


def make_api(aws: Cloud) -> Api:
    return Api(build(configure(Settings), aws.clients, time.time))


def at(seconds: float) -> str:
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def submit(api: Api, **fields: object) -> dict[str, Any]:
    status, job = api("POST", "/v1/jobs", {"command": ["true"], **fields})
    assert 202 == status, job
    return dict(job)


def bodies(aws: Cloud, url: str) -> list[dict[str, Any]]:
    answer = aws.clients.make("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10)
    return [json.loads(message["Body"]) for message in answer.get("Messages", [])]


def waiting(aws: Cloud, queue: str = "default_default") -> tuple[int, int]:
    """Messages that can be seen, and those that are kept back."""
    answer = aws.clients.make("sqs").get_queue_attributes(
        QueueUrl=f"{PREFIX}{NAME}-lane-{queue}", AttributeNames=["All"]
    )["Attributes"]
    return (
        int(answer["ApproximateNumberOfMessages"]),
        int(answer["ApproximateNumberOfMessagesDelayed"]),
    )


def claim(aws: Cloud, job_id: str) -> Head:
    return aws.jobs.claim(named(job_id), "agent-1", int(time.time() * 1000))


def end(aws: Cloud, head: Head, state: State, outcome: Outcome = Outcome.FAILED) -> None:
    now_ms = int(time.time() * 1000)
    step = Step(state, now_ms, head.attempt, "as the test wants")
    facts = AttemptFacts(outcome, exit_code=3, usage_json="{}", expires_at=now_ms // 1000 + 3600)
    aws.jobs.settle(head, step, facts)


# --- time


def test_a_start_within_15_minutes_is_a_delayed_message(aws: Cloud, api: Api):
    job = submit(api, run_at=at(600))
    assert ("scheduled", job["run_at"]) == (job["state"], job["next_at"])
    assert (0, 1) == waiting(aws)


def test_a_later_start_has_no_message_until_it_is_due(aws: Cloud, api: Api):
    assert "scheduled" == submit(api, run_at=at(1000))["state"]
    assert (0, 0) == waiting(aws)


def test_a_start_in_the_past_is_now(aws: Cloud, api: Api):
    assert "pending" == submit(api, run_at=at(-5))["state"]
    assert (1, 0) == waiting(aws)


@pytest.mark.parametrize("later_s", [-1, 0])
def test_a_deadline_in_the_past_is_refused_and_leaves_nothing(aws: Cloud, api: Api, later_s: int):
    late = {"command": ["true"], "deadline": at(later_s)}
    status, problem = api("POST", "/v1/jobs", late)
    (wrong,) = problem["errors"]
    assert (400, "deadline") == (status, wrong["field"])
    assert wrong["problem"].startswith(f"must be in the future; it is {at(0)[:16]}")
    in_time = {**late, "deadline": at(60)}
    status, batch = api("POST", "/v1/jobs/batch", {"jobs": [late, in_time]})
    assert [400, 202] == [entry["status"] for entry in batch["entries"]]
    assert ["deadline"] == [entry["field"] for entry in batch["entries"][0]["errors"]]
    assert (1, 0) == waiting(aws)
    assert 1 == len(api("GET", "/v1/jobs")[1]["entries"])


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"run_at": "tomorrow"}, "run_at"),
        ({"run_at": 5}, "run_at"),
        ({"run_at": "2026-02-30T00:00:00Z"}, "run_at"),
        ({"run_at": "2026-01-01T00:00:00+02:00"}, "run_at"),
        ({"run_at": "2030-01-01T00:00:00Z", "deadline": "2030-01-01T00:00:00Z"}, "deadline"),
        ({"requires": ["smoke:signals"]}, "requires.0"),
        ({"requires": ["app:x"] * 6}, "requires"),
        ({"params": {"ms": 1}}, "params"),
        ({"type": "sleep", "params": {"ms": 1}}, "command"),
    ],
)
def test_what_is_wrong_is_named(api: Api, fields: dict[str, object], wrong: str):
    status, problem = api("POST", "/v1/jobs", {"command": ["true"], **fields})
    assert (400, [wrong]) == (status, [error["field"] for error in problem["errors"]])


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({}, "command"),
        ({"type": "sleep"}, "params"),
        ({"type": "nap", "params": {"ms": 1}}, "type"),
        ({"type": "nap"}, "type"),
        ({"type": "sleep", "params": {"ms": -1}}, "params.ms"),
        ({"type": "sleep", "params": {"ms": 1, "depth": 2}}, "params.depth"),
    ],
)
def test_a_type_needs_its_params_and_no_command(api: Api, body: object, wrong: str):
    status, problem = api("POST", "/v1/jobs", body)
    assert (400, [wrong]) == (status, [error["field"] for error in problem["errors"]])


def test_sleep_is_a_command_that_fails_as_often_as_asked(api: Api):
    status, job = api("POST", "/v1/jobs", {"type": "sleep", "params": {"ms": 10, "fail_first": 2}})
    assert (202, "sleep", {"ms": 10, "fail_first": 2}, ["sleep", "0.010", "2"]) == (
        status,
        job["type"],
        job["params"],
        job["command"][-3:],
    )
    status, again = api("GET", f"/v1/jobs/{job['id']}")
    assert (200, {**again, "admission": "accepted", "replaced": None, "warning": None}) == (
        status,
        job,
    )
    for attempt, code in ((1, 1), (2, 1), (3, 0)):
        environment = {"PATH": os.environ["PATH"], "JOBLANE_ATTEMPT": str(attempt)}
        assert code == subprocess.run(job["command"], env=environment, check=False).returncode


# --- batch


def test_a_batch_is_answered_entry_by_entry_in_order(aws: Cloud, api: Api):
    jobs: list[object] = [
        {"command": ["a"]},
        {"command": []},
        {"command": ["b"], "queue": "bulk", "priority": "high"},
        "no object",
        {"command": ["c"], "run_at": at(5000)},
    ]
    status, answer = api("POST", "/v1/jobs/batch", {"jobs": jobs})
    entries = answer["entries"]
    assert 200 == status
    assert [202, 400, 202, 400, 202] == [entry["status"] for entry in entries]
    assert "command" == entries[1]["errors"][0]["field"]
    assert ((1, 0), (1, 0)) == (waiting(aws), waiting(aws, "bulk_high"))
    for entry in entries:
        if entry["status"] == 202:
            status, again = api("GET", f"/v1/jobs/{entry['job']['id']}")
            accepted = {"admission": "accepted", "replaced": None, "warning": None}
            assert (200, again | accepted) == (status, entry["job"])


def test_a_batch_of_a_hundred_is_a_hundred_jobs_with_their_messages(aws: Cloud, api: Api):
    status, answer = api("POST", "/v1/jobs/batch", {"jobs": [{"command": ["a"]}] * MAX_BATCH})
    ids = {entry["job"]["id"] for entry in answer["entries"]}
    assert (200, MAX_BATCH) == (status, len(ids))
    assert (MAX_BATCH, 0) == waiting(aws)
    assert MAX_BATCH == len(aws.jobs.heads(sorted(ids)))


@pytest.mark.parametrize(
    "body", [{"jobs": []}, {"jobs": [{"command": ["a"]}] * 101}, {}, [], {"jobs": 5}, "{"]
)
def test_a_batch_that_is_none_is_refused_whole(aws: Cloud, api: Api, body: object):
    assert 400 == api("POST", "/v1/jobs/batch", body)[0]
    assert (0, 0) == waiting(aws)


def test_a_message_that_sqs_refuses_is_a_job_that_was_not_accepted(aws: Cloud):
    def keep_back(params: dict[str, Any], **_: object) -> dict[str, Any]:
        return {**params, "Entries": params["Entries"][1:]}

    def refuse(parsed: dict[str, Any], **_: object) -> None:
        parsed["Failed"] = [{"Id": "0", "Code": "InternalError", "SenderFault": False}]

    emitter = aws.emitter()
    emitter.register("provide-client-params.sqs.SendMessageBatch", keep_back)
    emitter.register("after-call.sqs.SendMessageBatch", refuse)
    api = make_api(aws)
    _, answer = api("POST", "/v1/jobs/batch", {"jobs": [{"command": ["a"]}] * 3})
    assert [503, 202, 202] == [entry["status"] for entry in answer["entries"]]
    assert "submit it again" in answer["entries"][0]["detail"]
    assert 2 == len(api("GET", "/v1/jobs")[1]["entries"])


# --- cancel


@pytest.mark.parametrize("fields", [{}, {"run_at": "2100-01-01T00:00:00Z"}])
def test_a_waiting_job_is_cancelled_at_once(aws: Cloud, api: Api, fields: dict[str, object]):
    job_id = submit(api, **fields)["id"]
    status, job = api("POST", f"/v1/jobs/{job_id}/cancel")
    assert (202, "cancelled") == (status, job["state"])
    assert "cancelled before it ran" == job["note"]
    assert "machine ci at 20" in job["reason"]
    stored = aws.job(job_id)
    assert stored.expires_at is not None
    status, problem = api("POST", f"/v1/jobs/{job_id}/cancel")
    assert 409 == status
    assert problem["detail"].startswith("a job that is cancelled cannot be cancelled, only one")
    assert problem["detail"].endswith("; it has ended")


@pytest.mark.parametrize("state", [State.RETRY, State.PENDING])
def test_a_job_between_two_attempts_is_cancelled_at_once(aws: Cloud, api: Api, state: State):
    job_id = submit(api)["id"]
    end(aws, claim(aws, job_id), state)
    job = api("POST", f"/v1/jobs/{job_id}/cancel")[1]
    note = "cancelled between two attempts; it is not started again"
    assert ("cancelled", note) == (job["state"], job["note"])


def test_a_blocked_job_that_ran_is_not_said_to_be_cancelled_before(aws: Cloud, api: Api):
    job_id = submit(api)["id"]
    head = claim(aws, job_id)
    step = Step(State.BLOCKED, int(time.time() * 1000), 0, "exit code 75")
    aws.jobs.block(head, step, "app:billing", AttemptFacts(Outcome.BLOCKED, exit_code=75))
    note = api("POST", f"/v1/jobs/{job_id}/cancel")[1]["note"]
    assert "cancelled while it was blocked" == note


def test_an_agent_is_told_to_end_the_job_that_it_runs(aws: Cloud, api: Api):
    aws.clients.make("sqs").create_queue(QueueName=inbox_name(NAME, "agent-1"))
    job_id = submit(api)["id"]
    claim(aws, job_id)
    status, job = api("POST", f"/v1/jobs/{job_id}/cancel")
    assert (202, "active") == (status, job["state"])
    assert "cancelled by machine ci" in job["cancel_requested"]
    assert "agent agent-1 was asked to stop the job" in job["note"]
    assert [{"v": 1, "command": "cancel", "job_id": job_id}] == bodies(aws, INBOX)
    status, problem = api("POST", f"/v1/jobs/{job_id}/cancel")
    assert 409 == status
    assert "already being stopped" in problem["detail"]
    assert 1 == len(bodies(aws, INBOX))  # told again, in case the first was lost


def test_a_job_whose_agent_is_gone_says_how_it_will_end(aws: Cloud, api: Api):
    job_id = submit(api)["id"]
    claim(aws, job_id)
    status, job = api("POST", f"/v1/jobs/{job_id}/cancel")
    assert 202 == status
    assert "has no inbox any more; the job ends when its lease has ended" in job["note"]


def claim_before(aws: Cloud, operation: str, job_id: str) -> None:
    """Let an agent start a job just before the first such write from now on."""
    claimed: list[Head] = []

    def claim_first(**_: object) -> None:
        if not claimed:
            claimed.append(claim(aws, job_id))

    aws.emitter().register(f"before-call.dynamodb.{operation}", claim_first)


def test_a_job_that_starts_while_it_is_cancelled_is_told(aws: Cloud, api: Api):
    job_id = submit(api)["id"]
    claim_before(aws, "UpdateItem", job_id)
    _, job = make_api(aws)("POST", f"/v1/jobs/{job_id}/cancel")
    assert "active" == job["state"]
    assert job["cancel_requested"]


def test_nobody_moves_another_tenants_job(aws: Cloud, api: Api):
    other = Api(
        build(configure(Settings), aws.clients, time.time),
        "client-other",
    )
    job_id = submit(api)["id"]
    for method, path in (("POST", "/cancel"), ("POST", "/retry"), ("DELETE", "")):
        assert 404 == other(method, f"/v1/jobs/{job_id}{path}")[0]
    assert "pending" == api("GET", f"/v1/jobs/{job_id}")[1]["state"]


# --- retry and delete


@pytest.mark.parametrize("state", [State.FAILED, State.DEAD])
def test_a_job_that_failed_is_retried_with_its_counters_reset(aws: Cloud, api: Api, state: State):
    job_id = submit(api)["id"]
    bodies(aws, f"{PREFIX}{NAME}-lane-default_default")
    end(aws, claim(aws, job_id), state)
    status, job = api("POST", f"/v1/jobs/{job_id}/retry")
    assert (202, "pending", 0, None) == (status, job["state"], job["attempt"], job["ended_at"])
    assert [job_id] == [m["job_id"] for m in bodies(aws, f"{PREFIX}{NAME}-lane-default_default")]
    of_the_last = ("outcome", "exit_code", "signal", "usage", "agent", "started_at")
    assert [None] * 6 == [job[name] for name in of_the_last]  # its timeline has them
    assert job == api("GET", f"/v1/jobs/{job_id}")[1]
    head = claim(aws, job_id)
    assert (1, 2, None) == (head.attempt, head.epoch, head.wake_at_ms)
    started = api("GET", f"/v1/jobs/{job_id}")[1]["started_at"]
    assert rfc3339(head.timeline[-1].at_ms) == started > job["created_at"]


def test_what_cannot_be_retried_says_why(aws: Cloud, api: Api):
    job_id = submit(api, restartable=False)["id"]
    status, problem = api("POST", f"/v1/jobs/{job_id}/retry")
    refused = "a job that is pending cannot be retried, only one that is failed or dead; "
    starts = "it starts when an agent has a free slot"
    assert (409, refused + starts) == (status, problem["detail"])
    end(aws, claim(aws, job_id), State.FAILED)
    status, problem = api("POST", f"/v1/jobs/{job_id}/retry")
    assert 409 == status
    assert "not restartable" in problem["detail"]


def test_a_job_that_starts_while_it_is_deleted_is_not_deleted(aws: Cloud, api: Api):
    job_id = submit(api)["id"]
    claim_before(aws, "DeleteItem", job_id)
    status, problem = make_api(aws)("DELETE", f"/v1/jobs/{job_id}")
    running = "a job that is active cannot be deleted; cancel it first"
    assert (409, running) == (status, problem["detail"])


def test_a_job_is_deleted_unless_it_runs(aws: Cloud, api: Api):
    job_id = submit(api)["id"]
    head = claim(aws, job_id)
    status, problem = api("DELETE", f"/v1/jobs/{job_id}")
    running = "a job that is active cannot be deleted; cancel it first"
    assert (409, running) == (status, problem["detail"])
    end(aws, head, State.COMPLETED, Outcome.SUCCEEDED)
    answer = api.raw("DELETE", f"/v1/jobs/{job_id}")
    assert (204, "") == (answer["statusCode"], answer["body"])  # not null: MiniStack's gateway
    assert 404 == api("DELETE", f"/v1/jobs/{job_id}")[0]
    assert 404 == api("GET", f"/v1/jobs/{job_id}")[0]


def test_a_batch_costs_two_write_units_a_job_and_a_tenth_of_a_message(aws: Cloud, meter: Meter):
    api = Api(build(configure(Settings), meter.clients_of(aws), time.time))
    api("POST", "/v1/jobs", {"command": ["true"]})  # reads the figures of the tenant's limits
    meter.reset()
    api("POST", "/v1/jobs/batch", {"jobs": [{"command": ["true"]}] * MAX_BATCH})
    assert (2 * MAX_BATCH, 0) == (meter.write_units, meter.reads)
    assert {"sqs.SendMessageBatch": 10, "dynamodb.PutItem": MAX_BATCH} == dict(meter.calls)
