"""The command `edit` and the calls of the SDK: what is sent, what is said, what a refusal is."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from joblane import InputError, RequestError
from tests.support.client.command import Joblane
from tests.support.client.fake_api import CUT, FakeApi, ok, problem

PATH = "/v1/jobs/01J"
REASON = "edited by machine ci: priority default -> high; waits in lane high of queue bulk"
JOB = {"id": "01J", "state": "pending", "reason": REASON, "warning": None}


@pytest.fixture
def edited(api: FakeApi) -> FakeApi:
    api.add("01J")
    api.answers[PATH] = ok(JOB)
    return api


def sent(api: FakeApi) -> list[Any]:
    return [request.body for request in api.requests if request.method == "PATCH"]


@pytest.mark.parametrize(
    ("options", "body"),
    [
        (("--queue", "bulk", "--priority", "high"), {"queue": "bulk", "priority": "high"}),
        (("--deadline", "none"), {"deadline": None}),
        (("--deadline", "2130-01-01T00:00:00Z"), {"deadline": "2130-01-01T00:00:00Z"}),
        (
            ("--label", "a=1", "--label", "b=", "--no-label", "c"),
            {"labels": {"a": "1", "b": "", "c": None}},
        ),
        (("--timeout", "30m"), {"timeout_s": 1800}),
        (("--timeout-s", "1.5"), {"timeout_s": 1.5}),
        (
            ("--memory-mb", "1024", "--cpus", "0.5", "--pids", "none", "--cores", "0-2"),
            {"resources": {"memory_mb": 1024, "cpus": 0.5, "pids": None, "cores": "0-2"}},
        ),
        (("--cores", "none", "--reason", "x"), {"resources": {"cores": None}, "reason": "x"}),
    ],
)
def test_what_is_given_is_sent_and_nothing_else(
    edited: FakeApi, joblane: Joblane, options: tuple[str, ...], body: dict[str, Any]
) -> None:
    ran = joblane("edit", "01J", *options)
    assert (0, f"01J pending: {REASON}\n", "") == (ran.code, ran.stdout.decode(), ran.said)
    assert [body] == sent(edited)


def test_a_duration_is_from_now(edited: FakeApi, joblane: Joblane) -> None:
    ran = joblane("edit", "01J", "--deadline", "+2h")
    assert ran.said.startswith("joblane: --deadline is ")
    at = datetime.fromisoformat(sent(edited)[0]["deadline"])
    assert 7_000 < (at - datetime.now(UTC)).total_seconds() <= 7_200


def test_a_warning_is_on_stderr_and_json_is_the_job(edited: FakeApi, joblane: Joblane) -> None:
    warned = {**JOB, "warning": "no agent that serves queue bulk is alive"}
    edited.answers[PATH] = ok(warned)
    ran = joblane("edit", "01J", "--queue", "bulk", "--json")
    assert (0, "joblane: no agent that serves queue bulk is alive\n") == (ran.code, ran.said)
    assert warned == json.loads(ran.stdout)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "nothing to change; give at least one option, such as --queue or --priority"),
        (("--reason", "x"), "nothing to change"),
        (("--memory-mb", "much"), "--memory-mb must be a whole number or none"),
        (("--cpus", "all"), "--cpus must be a number or none"),
        (("--label", "a"), "--label must be KEY=VALUE"),
        (("--label", "a=1", "--no-label", "a"), "--label and --no-label both name a"),
        (("--deadline", "2020-01-01T00:00:00Z"), "is not in the future"),
        (("--deadline", "soon"), "--deadline 'soon' is not a time"),
        (("--timeout", "1h", "--timeout-s", "5"), "--timeout and --timeout-s exclude each other"),
        (("--priority", "urgent"), "'high', 'default', 'low'"),
    ],
)
def test_a_usage_error_sends_nothing(
    api: FakeApi, joblane: Joblane, options: tuple[str, ...], said: str
) -> None:
    ran = joblane("edit", "01J", *options)
    assert (2, b"", []) == (ran.code, ran.stdout, api.requests)
    assert said in ran.said


def test_a_refusal_names_the_field(edited: FakeApi, joblane: Joblane) -> None:
    wrong = [{"field": "queue", "problem": "is unknown; this tenant may use default, bulk"}]
    edited.answers[PATH] = problem(400, "Bad Request", detail="x", errors=wrong)
    ran = joblane("edit", "01J", "--queue", "nowhere")
    assert (64, b"") == (ran.code, ran.stdout)
    assert "queue: is unknown; this tenant may use default, bulk" in ran.said


def test_an_id_may_be_short(api: FakeApi, joblane: Joblane) -> None:
    whole = "01JD0000000000000000ABCDEF"
    api.add(whole)
    api.answers["/v1/jobs"] = ok({"entries": [{"id": whole, "state": "pending"}], "next": None})
    api.answers[f"/v1/jobs/{whole}"] = ok({**JOB, "id": whole})
    assert 0 == joblane("edit", "abcdef", "--priority", "low").code
    assert [{"priority": "low"}] == sent(api)


def test_an_edit_whose_answer_is_lost_is_sent_again(edited: FakeApi, joblane: Joblane) -> None:
    edited.faults += [CUT, problem(503, "Service Unavailable")]
    assert 0 == joblane("edit", "01J", "--priority", "high").code
    assert [{"priority": "high"}] * 3 == sent(edited)


def test_the_sdk_removes_by_none_and_leaves_what_is_not_given(edited: FakeApi, client: Any):
    job = client.edit("01J", labels={"a": None}, deadline=None, timeout_s=5, reason="no hurry")
    assert REASON == job.reason
    assert [
        {"labels": {"a": None}, "deadline": None, "timeout_s": 5, "reason": "no hurry"}
    ] == sent(edited)
    client.edit("01J", deadline=datetime(2130, 1, 1, tzinfo=UTC), resources={"cpus": None})
    assert {"deadline": "2130-01-01T00:00:00Z", "resources": {"cpus": None}} == sent(edited)[1]
    with pytest.raises(InputError, match="timeout_s must be a number of seconds"):
        client.edit("01J", timeout_s="5m")


def test_a_handle_is_the_job_after_its_edit(edited: FakeApi, client: Any) -> None:
    job = client._handle({"id": "01J", "state": "pending"})
    edited.answers[PATH] = ok({**JOB, "warning": "nobody serves it"})
    job.edit(priority="high")
    assert (REASON, "nobody serves it") == (job.reason, job.warning)
    edited.answers[PATH] = problem(409, "Conflict", detail="a job that is active cannot be edited")
    with pytest.raises(RequestError, match="cannot be edited"):
        job.edit(priority="low")
