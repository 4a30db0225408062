"""Idempotency-Key, resubmit, If-Match: what is sent twice or too late doubles nothing."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.submission.handler import Settings, build
from joblane.formats.times import rfc3339
from joblane.job.idempotency import WINDOW_S
from joblane.job.moves import AttemptFacts
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from joblane.testing.clock import Clock
from tests.support.aws import DESCRIPTOR, PREFIX, Cloud, configure
from tests.support.jobs import named
from tests.support.meter import Meter
from tests.support.requests import Api

JOB = {"command": ["true"]}
Params = dict[str, Any]

KEY = {"idempotency-key": "8e03978e-40d5-43dd-bc93-6894a57f9324"}


@pytest.fixture(name="clock")
def _clock() -> Clock:
    return Clock(time.time())


@pytest.fixture(name="api")
def _api(aws: Cloud, clock: Clock, meter: Meter) -> Api:
    return Api(build(configure(Settings), meter.clients_of(aws), clock))


def hook_calls(aws: Cloud, clock: Clock, operation: str, hook: Callable[..., None]) -> Api:
    """The API by clients of its own that call `hook` before each call of an operation."""
    aws.emitter().register(f"provide-client-params.{operation}", hook)
    return Api(build(configure(Settings), aws.clients, clock))


def is_new_job(params: Params) -> bool:
    """Whether a PutItem stores a job, rather than the row of an idempotency key."""
    return "tenant" in params["Item"]


def ids(api: Api) -> list[str]:
    page = api("GET", "/v1/jobs", query={"limit": "100", "hidden": "true"})[1]
    return [job["id"] for job in page["entries"]]


def end(
    aws: Cloud, job_id: str, state: State = State.COMPLETED, lane: str = "default/default"
) -> None:
    head = aws.jobs.claim(named(job_id, lane), "i-1", 1)
    outcome = Outcome.SUCCEEDED if state is State.COMPLETED else Outcome.FAILED
    aws.jobs.settle(head, Step(state, 2, 1, "ended"), AttemptFacts(outcome))


def test_a_request_that_is_sent_again_answers_the_job_that_it_made(aws: Cloud, api: Api):
    first = api.raw("POST", "/v1/jobs", JOB, headers=KEY)
    assert "Idempotency-Replayed" not in first["headers"]
    (job_id,) = ids(api)
    end(aws, job_id)
    again = api.raw("POST", "/v1/jobs", JOB, headers=KEY)
    assert "true" == again["headers"]["Idempotency-Replayed"]
    assert first["headers"]["Location"] == again["headers"]["Location"]
    assert (202, [job_id]) == (again["statusCode"], ids(api))
    assert '"completed"' in again["body"]


def test_a_key_costs_one_write_unit_and_nothing_without_it(api: Api, meter: Meter):
    api("POST", "/v1/jobs", JOB)  # reads the figures of the tenant's limits
    meter.reset()
    api("POST", "/v1/jobs", JOB)
    assert (2, 0) == (meter.write_units, meter.reads)
    api("POST", "/v1/jobs", JOB, headers=KEY)
    assert (2 + 2 + 1, 0) == (meter.write_units, meter.reads)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/jobs", {"command": ["false"]}),
        ("POST", "/v1/jobs/batch", {"jobs": [JOB]}),
    ],
)
def test_a_key_that_was_used_with_another_request_is_refused(
    api: Api, method: str, path: str, body: object
):
    api("POST", "/v1/jobs", JOB, headers=KEY)
    status, problem = api(method, path, body, headers=KEY)
    assert 422 == status
    assert "another request" in problem["detail"]
    assert 1 == len(ids(api))


def test_keys_of_two_tenants_have_nothing_to_do_with_each_other(aws: Cloud, api: Api):
    other = Api(build(configure(Settings), aws.clients, time.time), "client-other")
    mine, theirs = (each("POST", "/v1/jobs", JOB, headers=KEY)[1] for each in (api, other))
    assert mine["id"] != theirs["id"]


def test_a_quoted_key_is_the_same_key(api: Api):
    for key in ("abc", '"abc"'):
        api("POST", "/v1/jobs", JOB, headers={"idempotency-key": key})
    assert 1 == len(ids(api))


@pytest.mark.parametrize("key", ["", '""', "a" * 256, "a\nb", "é", 'a"b', "a\\b", " a"])
def test_a_key_that_is_none_is_named(api: Api, key: str):
    status, problem = api("POST", "/v1/jobs", JOB, headers={"idempotency-key": key})
    assert (400, "Idempotency-Key") == (status, problem["errors"][0]["field"])
    assert [] == ids(api)


def test_a_day_later_the_key_is_free_again(api: Api, clock: Clock):
    api("POST", "/v1/jobs", JOB, headers=KEY)
    clock.now += WINDOW_S - 1
    api("POST", "/v1/jobs", JOB, headers=KEY)
    assert 1 == len(ids(api))
    clock.now += 2
    assert 202 == api("POST", "/v1/jobs", {"command": ["other"]}, headers=KEY)[0]
    assert 2 == len(ids(api))


def test_a_refused_request_leaves_its_key_free(api: Api):
    assert 400 == api("POST", "/v1/jobs", {"command": []}, headers=KEY)[0]
    assert 202 == api("POST", "/v1/jobs", JOB, headers=KEY)[0]


@pytest.mark.parametrize("lost", ["sqs.SendMessage", "dynamodb.PutItem"])
def test_what_a_crash_left_undone_the_next_request_does(
    aws: Cloud, api: Api, clock: Clock, lost: str
):
    class Killed(BaseException):
        """As if Lambda had stopped the process."""

    def kill(params: Params, **_: object) -> None:
        if lost == "sqs.SendMessage" or is_new_job(params):
            raise Killed

    killed = hook_calls(aws, clock, lost, kill)
    with pytest.raises(Killed):
        killed.raw("POST", "/v1/jobs", JOB, headers=KEY)
    assert [] == ids(api)
    status, job = api("POST", "/v1/jobs", JOB, headers=KEY)
    assert (202, [job["id"]]) == (status, ids(api))
    answer = aws.clients.make("sqs").receive_message(
        QueueUrl=f"{PREFIX}joblane-lane-default_default", MaxNumberOfMessages=10
    )
    assert {True} == {job["id"] in message["Body"] for message in answer["Messages"]}


def test_two_at_once_make_one_job(aws: Cloud, api: Api, clock: Clock):
    """The second comes when the first has its ids and nothing else is stored."""
    seen: list[tuple[int, Any]] = []

    def overtake(params: Params, **_: object) -> None:
        if is_new_job(params):
            seen.append(api("POST", "/v1/jobs", JOB, headers=KEY))

    late = hook_calls(aws, clock, "dynamodb.PutItem", overtake)
    status, job = late("POST", "/v1/jobs", JOB, headers=KEY)
    assert [(202, job["id"])] == [(status, made["id"]) for status, made in seen]
    assert (202, [job["id"]]) == (status, ids(api))


def test_a_deleted_job_is_not_made_again(api: Api):
    job_id = api("POST", "/v1/jobs", JOB, headers=KEY)[1]["id"]
    assert 204 == api.raw("DELETE", f"/v1/jobs/{job_id}")["statusCode"]
    status, problem = api("POST", "/v1/jobs", JOB, headers=KEY)
    assert (409, []) == (status, ids(api))
    assert "deleted" in problem["detail"]


def test_a_batch_that_is_sent_again_makes_only_what_is_missing(aws: Cloud, api: Api):
    batch = {"jobs": [JOB, {"command": []}, {"command": ["b"]}, {"command": ["c"]}]}
    first = api("POST", "/v1/jobs/batch", batch, headers=KEY)[1]["entries"]
    made = [entry["job"]["id"] for entry in first if "job" in entry]
    assert made == sorted(made)
    assert made[::-1] == ids(api)
    api.raw("DELETE", f"/v1/jobs/{made[0]}")  # by somebody: stays deleted
    for sk in ("JOB",):  # as if the first had been killed before this one
        aws.clients.make("dynamodb").delete_item(
            TableName=DESCRIPTOR.jobs_table, Key={"job_id": {"S": made[1]}, "sk": {"S": sk}}
        )
    answer = api.raw("POST", "/v1/jobs/batch", batch, headers=KEY)
    assert "true" == answer["headers"]["Idempotency-Replayed"]
    entries = api("POST", "/v1/jobs/batch", batch, headers=KEY)[1]["entries"]
    assert [409, 400, 202, 202] == [entry["status"] for entry in entries]
    assert made[:0:-1] == ids(api)


def test_a_job_that_is_resubmitted_is_linked_both_ways(aws: Cloud, api: Api):
    fields = {"command": ["x", "y" * 2000], "labels": {"a": "b"}, "queue": "bulk"}
    old = api("POST", "/v1/jobs", fields)[1]
    end(aws, old["id"], State.FAILED, "bulk/default")
    answer = api.raw("POST", f"/v1/jobs/{old['id']}/resubmit")
    assert 202 == answer["statusCode"]
    new = api("GET", answer["headers"]["Location"])[1]
    assert ("pending", old["id"], None) == (
        new["state"],
        new["resubmit_of"],
        new["resubmitted_as"],
    )
    for field in ("command", "labels", "queue", "retry", "timeout_s"):
        assert api("GET", f"/v1/jobs/{old['id']}")[1][field] == new[field]
    old = api("GET", f"/v1/jobs/{old['id']}")[1]
    assert ("failed", new["id"]) == (old["state"], old["resubmitted_as"])


def test_a_job_that_has_not_ended_or_is_too_late_is_not_resubmitted(
    aws: Cloud, api: Api, clock: Clock
):
    job_id = api("POST", "/v1/jobs", JOB)[1]["id"]
    assert 409 == api("POST", f"/v1/jobs/{job_id}/resubmit")[0]
    soon = rfc3339(int(clock.now * 1000) + 60_000)
    late = api("POST", "/v1/jobs", {**JOB, "deadline": soon})[1]
    end(aws, late["id"])
    clock.now += 60
    status, problem = api("POST", f"/v1/jobs/{late['id']}/resubmit")
    assert 409 == status
    assert "deadline has passed" in problem["detail"]
    assert 2 == len(ids(api))


def test_a_request_that_is_sent_again_after_its_deadline_answers_its_job(api: Api, clock: Clock):
    job = {**JOB, "deadline": rfc3339(int(clock.now * 1000) + 60_000)}
    first = api("POST", "/v1/jobs", job, headers=KEY)[1]["id"]
    clock.now += 60
    assert first == api("POST", "/v1/jobs", job, headers=KEY)[1]["id"]
    assert 400 == api("POST", "/v1/jobs", job)[0]
    assert [first] == ids(api)


def test_a_resubmission_that_is_sent_again_makes_one_job(aws: Cloud, api: Api):
    old = api("POST", "/v1/jobs", JOB)[1]["id"]
    end(aws, old)
    new = [api("POST", f"/v1/jobs/{old}/resubmit", headers=KEY)[1]["id"] for _ in range(2)]
    assert new[0] == new[1]
    assert {new[0], old} == set(ids(api))


def test_no_link_stands_if_the_old_job_was_deleted_meanwhile(aws: Cloud, api: Api):
    old = api("POST", "/v1/jobs", JOB)[1]["id"]
    end(aws, old)
    head = aws.job(old)
    aws.jobs.delete(old)
    new = replace(head, job_id="01ARZ3NDEKTSV4RRFFQ69G5FAV", resubmit_of=old)
    with pytest.raises(Exception, match="no such job"):
        aws.jobs.put_resubmitted(new)
    assert [] == ids(api)


def etag(api: Api, job_id: str) -> str:
    return str(api.raw("GET", f"/v1/jobs/{job_id}")["headers"]["ETag"])


def test_an_operator_who_saw_an_older_version_changes_nothing(aws: Cloud, api: Api):
    job_id = api("POST", "/v1/jobs", JOB)[1]["id"]
    seen = etag(api, job_id)
    end(aws, job_id, State.FAILED)
    for method, path in (
        ("POST", f"/v1/jobs/{job_id}/cancel"),
        ("POST", f"/v1/jobs/{job_id}/retry"),
        ("DELETE", f"/v1/jobs/{job_id}"),
    ):
        answer = api.raw(method, path, headers={"if-match": seen})
        assert 412 == answer["statusCode"], path
    assert "failed" == api("GET", f"/v1/jobs/{job_id}")[1]["state"]
    fresh = {"if-match": f'"0000000000000000", {etag(api, job_id)}'}
    assert 202 == api("POST", f"/v1/jobs/{job_id}/retry", headers=fresh)[0]
    assert 202 == api("POST", f"/v1/jobs/{job_id}/cancel", headers={"if-match": "*"})[0]


def test_a_write_that_somebody_else_overtakes_is_refused_too(aws: Cloud, api: Api, clock: Clock):
    job_id = api("POST", "/v1/jobs", JOB)[1]["id"]
    seen = {"if-match": etag(api, job_id)}

    def overtake(**_: object) -> None:
        aws.jobs.claim(named(job_id), "i-1", 1)

    late = hook_calls(aws, clock, "dynamodb.UpdateItem", overtake)
    assert 412 == late("POST", f"/v1/jobs/{job_id}/cancel", headers=seen)[0]
    job = api("GET", f"/v1/jobs/{job_id}")[1]
    assert ("active", None) == (job["state"], job["cancel_requested"])


def test_every_change_of_a_job_changes_its_etag(aws: Cloud, api: Api):
    job_id = api("POST", "/v1/jobs", JOB)[1]["id"]
    tags = [etag(api, job_id)]
    assert tags[0] == etag(api, job_id)
    aws.jobs.claim(named(job_id), "i-1", 1)
    tags.append(etag(api, job_id))
    aws.jobs.request_cancel(job_id, "why")
    tags.append(etag(api, job_id))
    head = aws.job(job_id)
    aws.jobs.settle(head, Step(State.CANCELLED, 2, 1, "ended"), AttemptFacts(Outcome.CANCELLED))
    tags.append(etag(api, job_id))
    api("POST", f"/v1/jobs/{job_id}/hide")
    tags.append(etag(api, job_id))
    api("POST", f"/v1/jobs/{job_id}/resubmit")
    tags.append(etag(api, job_id))
    assert len(tags) == len(set(tags))
