"""Submissions too large for the table: refused where nothing could run them, else kept in S3."""

import asyncio
import errno
import json
import resource
import subprocess
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ec2_agent.sandbox.launcher import Launcher
from functions.submission.handler import Settings, build
from joblane.aws.clients import Clients
from joblane.aws.job.payload_store import MAX_DATA_BYTES
from joblane.job.fields import MAX_ARGUMENT_BYTES, MAX_ENV_NAME, MAX_ENV_VALUE_BYTES
from joblane.job.head import Head
from joblane.job.judge import StopReason
from joblane.job.spec import LISTED_CHARS, MAX_BODY_BYTES, MAX_EXEC_BYTES, exec_bytes
from joblane.state.lifecycle import Outcome, State
from tests.support.agents import Parts
from tests.support.aws import DESCRIPTOR, Cloud, configure, objects
from tests.support.meter import Meter
from tests.support.requests import Api

LAMBDA_BYTES = 6_291_556
"""Largest event and answer of a Lambda function that is called synchronously."""

BIG = ["sh", "-c", 'printf %s "$@" | wc -c; printf %s "$A" | wc -c', "sh", *["x" * 100_000] * 9]
BIG_ENV = {"A": "y" * 100_000, "B": "z" * 100_000}


@pytest.fixture(name="api")
def _api(aws: Cloud, meter: Meter) -> Api:
    return Api(build(configure(Settings), meter.clients_of(aws), time.time))


def submit(api: Api, **fields: Any) -> Any:
    status, job = api("POST", "/v1/jobs", {"command": BIG, "env": BIG_ENV, **fields})
    assert 202 == status, job
    return job


# --- what Linux would refuse


def starts(argv: list[str], env: dict[str, str]) -> bool:
    """Whether Linux executes this, under the stack limit that processes have by default."""

    def usual() -> None:
        hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
        resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, hard))

    try:
        subprocess.run(argv, env=env, preexec_fn=usual, check=True)
    except OSError as error:
        if error.errno != errno.E2BIG:
            raise
        return False
    return True


def fill_command(total: int, env: dict[str, str]) -> list[str]:
    """A command that takes `total` bytes together with `env`."""
    words = ["/bin/true"]
    while (left := total - exec_bytes(words, env)) > 0:
        words.append("x" * min(MAX_ARGUMENT_BYTES, left - 9))
    assert total == exec_bytes(words, env)
    return words


def test_linux_starts_what_is_accepted_and_refuses_what_is_not_much_longer():
    env = {f"NAME_{n}": "v" * 1000 for n in range(100)}
    assert starts(fill_command(MAX_EXEC_BYTES, env), env)
    assert not starts(fill_command(2 * 1024 * 1024, env), env)
    name = "N" * MAX_ENV_NAME
    assert starts(["/bin/true"], {name: "v" * MAX_ENV_VALUE_BYTES})
    assert not starts(["/bin/true"], {name: "v" * (MAX_ENV_VALUE_BYTES + 1)})
    assert not starts(["/bin/true", "x" * (MAX_ARGUMENT_BYTES + 1)], {})


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("command.1", {"command": ["a", "x" * (MAX_ARGUMENT_BYTES + 1)]}),
        ("command", {"command": fill_command(MAX_EXEC_BYTES + 1, {})}),
        ("env.A", {"command": ["a"], "env": {"A": "x" * (MAX_ENV_VALUE_BYTES + 1)}}),
        ("env", {"command": fill_command(MAX_EXEC_BYTES, {}), "env": {"A": ""}}),
    ],
)
def test_what_could_not_run_is_refused_by_its_field(
    aws: Cloud, api: Api, field: str, body: dict[str, Any]
):
    status, problem = api("POST", "/v1/jobs", body)
    assert (400, [field]) == (status, [error["field"] for error in problem["errors"]])
    assert len(json.dumps(problem)) < 1000
    assert [] == objects(aws)


def test_the_longest_body_and_its_answer_fit_lambda_however_they_are_escaped(api: Api):
    words = ["q"]
    while len(json.dumps({"command": words})) < MAX_BODY_BYTES - 400_000:
        words.append('"' * 100_000)
    body = json.dumps({"command": words})
    body += " " * (MAX_BODY_BYTES - len(body))
    assert len(json.dumps({"body": body})) + 64_000 < LAMBDA_BYTES
    status, job = api("POST", "/v1/jobs", json.loads(body))
    assert 202 == status
    answer = api.raw("GET", f"/v1/jobs/{job['id']}")
    assert words == json.loads(answer["body"])["command"]
    assert len(json.dumps(answer)) + 64_000 < LAMBDA_BYTES


# --- in S3


def test_a_large_submission_lies_in_s3_and_comes_back_whole(aws: Cloud, api: Api, meter: Meter):
    job = submit(api, labels={"team": "web"})
    assert [f"payloads/acme/{job['id']}"] == objects(aws)
    status, read = api("GET", f"/v1/jobs/{job['id']}")
    assert (200, BIG, BIG_ENV, False) == (status, read["command"], read["env"], read["abridged"])
    assert 1 == meter.calls["s3.GetObject"]
    assert {"team": "web"} == read["labels"]


def test_lists_and_changes_show_it_abridged_and_ask_s3_nothing(api: Api, meter: Meter):
    jobs = [submit(api) for _ in range(3)]
    meter.calls.clear()
    page = api("GET", "/v1/jobs")[1]["entries"]
    # Keys, then heads, their DATA, and the settings of their queues.
    assert {"dynamodb.Query": 1, "dynamodb.BatchGetItem": 3} == dict(meter.calls)
    cancelled = api("POST", f"/v1/jobs/{jobs[0]['id']}/cancel")[1]
    assert "s3.GetObject" not in meter.calls
    for job in (*jobs, *page, cancelled):
        assert job["abridged"]
        assert BIG[:4] == job["command"][:4]
        assert len(json.dumps(job)) < LISTED_CHARS + 2300
        assert {} == job["env"]


def test_one_that_the_table_holds_is_abridged_in_lists_too(aws: Cloud, api: Api):
    words = ["a", "b" * (LISTED_CHARS + 1)]
    job = api("POST", "/v1/jobs", {"command": words})[1]
    (listed,) = api("GET", "/v1/jobs")[1]["entries"]
    assert (True, True) == (job["abridged"], listed["abridged"])
    assert ["a", "b" * (LISTED_CHARS - 3) + "\u2026"] == listed["command"]
    assert words == api("GET", f"/v1/jobs/{job['id']}")[1]["command"]
    assert [] == objects(aws)


@pytest.mark.parametrize("word", ["", "x", "word"])
def test_a_command_has_as_many_words_as_linux_starts(aws: Cloud, api: Api, word: str):
    """`find . | xargs`: only bytes count. An empty word has no characters and still a place."""
    words = ["/bin/true", *[word] * ((MAX_EXEC_BYTES - 19) // (9 + len(word)))]
    assert starts(words, {})
    job = api("POST", "/v1/jobs", {"command": words})[1]
    (listed,) = api("GET", "/v1/jobs")[1]["entries"]
    for shown in (job, listed):
        assert shown["abridged"]
        assert len(json.dumps(shown)) < 6 * LISTED_CHARS + 2000
    assert words == api("GET", f"/v1/jobs/{job['id']}")[1]["command"]
    assert 1 == len(objects(aws))
    assert (400, ["command"]) == refused(api, {"command": [*words, *[word] * 2]})


def refused(api: Api, body: dict[str, Any]) -> tuple[int, list[str]]:
    status, problem = api("POST", "/v1/jobs", body)
    return status, [error["field"] for error in problem["errors"]]


def test_an_edit_holds_for_what_lies_in_s3(aws: Cloud, api: Api):
    """For the agent, for who reads it, and for who submits it again; the object is as it was."""
    job = submit(api, labels={"a": "1"}, timeout_s=60)
    before = objects(aws)
    changes = {"labels": {"a": "2"}, "timeout_s": 77, "resources": {"memory_mb": 99}}
    status, edited = api("PATCH", f"/v1/jobs/{job['id']}", changes)
    assert (200, True) == (status, edited["abridged"])
    assert before == objects(aws)
    _, shown = api("GET", f"/v1/jobs/{job['id']}")
    assert (BIG, {"a": "2"}, 77) == (shown["command"], shown["labels"], shown["timeout_s"])
    api("POST", f"/v1/jobs/{job['id']}/cancel")
    _, again = api("POST", f"/v1/jobs/{job['id']}/resubmit")
    _, new = api("GET", f"/v1/jobs/{again['id']}")
    assert (BIG, {"a": "2"}, 77) == (new["command"], new["labels"], new["timeout_s"])
    assert 99 == new["resources"]["memory_mb"]


def test_a_deleted_job_takes_its_object_along(aws: Cloud, api: Api):
    job = submit(api)
    assert 204 == api.raw("DELETE", f"/v1/jobs/{job['id']}")["statusCode"]
    assert [] == objects(aws)


def test_a_batch_keeps_what_is_large_and_refuses_what_s3_does_not_take(aws: Cloud, api: Api):
    jobs = [{"command": BIG}, {"command": ["a"]}]
    entries = api("POST", "/v1/jobs/batch", {"jobs": jobs})[1]["entries"]
    assert [202, 202] == [entry["status"] for entry in entries]
    assert 1 == len(objects(aws))
    empty(aws)
    aws.clients.make("s3").delete_bucket(Bucket=DESCRIPTOR.bucket)
    entries = api("POST", "/v1/jobs/batch", {"jobs": jobs})[1]["entries"]
    assert [503, 202] == [entry["status"] for entry in entries]
    assert 503 == api("POST", "/v1/jobs", jobs[0])[0]


def empty(aws: Cloud) -> None:
    """Delete every object, as the lifecycle rule does in time."""
    for name in objects(aws):
        aws.clients.make("s3").delete_object(Bucket=DESCRIPTOR.bucket, Key=name)


def test_a_job_whose_object_is_gone_can_still_be_read(aws: Cloud, api: Api):
    job = submit(api)
    empty(aws)
    status, read = api("GET", f"/v1/jobs/{job['id']}")
    assert (200, True, BIG[0]) == (status, read["abridged"], read["command"][0])


# --- where it runs


def submit_and_claim(
    aws: Cloud, launcher: Launcher, api: Api, clients: Clients | None = None
) -> Any:
    submit(api)
    parts = Parts(clients or aws.clients, launcher)
    return parts.begin()


def after(aws: Cloud, attempt: Any) -> Head:
    asyncio.run(attempt.run())
    return aws.job(attempt.head.job_id)


def test_the_agent_fetches_it_and_runs_it_whole(aws: Cloud, launcher: Launcher, api: Api):
    attempt = submit_and_claim(aws, launcher, api)
    head = after(aws, attempt)
    assert State.COMPLETED is head.state, head.timeline[-1].reason
    status, page = api("GET", f"/v1/jobs/{head.job_id}/logs")
    printed = "".join(r["text"] for r in page["entries"])  # its two lines may be one record
    assert (200, ["900000", "100000"]) == (status, printed.split())


def tamper(aws: Cloud) -> None:
    (name,) = objects(aws)
    body = json.dumps({"command": ["rm", "-rf", "/"], "queue": "default"}).encode()
    aws.clients.make("s3").put_object(Bucket=DESCRIPTOR.bucket, Key=name, Body=body)


@pytest.mark.parametrize(("harm", "why"), [(empty, "no such object"), (tamper, "not the object")])
def test_a_lost_submission_fails_the_job_for_good_and_says_what_to_do(
    aws: Cloud, launcher: Launcher, api: Api, harm: Any, why: str
):
    attempt = submit_and_claim(aws, launcher, api)
    harm(aws)
    head = after(aws, attempt)
    assert (State.FAILED, Outcome.PERMANENT) == (head.state, head.outcome)
    reason = head.timeline[-1].reason
    assert "submit it again" in reason
    assert why in reason
    assert f"s3://{DESCRIPTOR.bucket}/payloads/acme/{head.job_id}" in reason


def failing(aws: Cloud, code: str, times: int) -> Clients:
    """Clients to which S3 answers so often with an error."""
    session = aws.session()
    left = times

    def fail(**_: Any) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise ClientError({"Error": {"Code": code}}, "GetObject")

    session.get_component("event_emitter").register("before-call.s3.GetObject", fail)
    return Clients(session)


def test_an_object_that_s3_does_not_show_is_as_lost_as_one_that_is_gone(
    aws: Cloud, launcher: Launcher, api: Api
):
    head = after(aws, submit_and_claim(aws, launcher, api, failing(aws, "AccessDenied", 1)))
    assert State.FAILED is head.state
    assert "s3:GetObject" in head.timeline[-1].reason


def test_trouble_of_s3_is_waited_out(aws: Cloud, launcher: Launcher, api: Api):
    head = after(aws, submit_and_claim(aws, launcher, api, failing(aws, "SlowDown", 2)))
    assert (State.COMPLETED, 1) == (head.state, head.attempt)


@pytest.mark.parametrize(
    ("stop", "end"),
    [(StopReason.DRAIN, (State.PENDING, 0)), (StopReason.COMMAND, (State.CANCELLED, 1))],
)
def test_who_waits_for_s3_can_be_asked_to_end(
    aws: Cloud, launcher: Launcher, api: Api, stop: StopReason, end: tuple[State, int]
):
    attempt = submit_and_claim(aws, launcher, api, failing(aws, "SlowDown", 10**9))
    attempt.request_stop(stop)
    head = after(aws, attempt)
    assert end == (head.state, head.attempt)


def test_a_submission_of_the_longest_length_for_the_table_stays_there(aws: Cloud, api: Api):
    frame = len(json.dumps({"command": ["a", "", "", ""]}, separators=(",", ":")))
    left = MAX_DATA_BYTES - frame
    words = ["a", "x" * 100_000, "y" * 100_000, "z" * (left - 200_000)]
    api("POST", "/v1/jobs", {"command": words})
    assert [] == objects(aws)
    api("POST", "/v1/jobs", {"command": [*words[:3], words[3] + "z"]})
    assert 1 == len(objects(aws))
