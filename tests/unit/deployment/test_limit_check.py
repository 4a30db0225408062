"""Submissions over a limit of their tenant are refused with which limit and until when."""

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from functions.admin import handler as admin
from functions.submission.handler import Settings, build
from joblane.aws.errors import AwsSilent
from joblane.aws.queue.usage import UsageStore
from joblane.aws.table import Table
from joblane.deployment.limits import ADMITTED, LimitOverrides, Limits
from joblane.deployment.names import table_name
from joblane.formats.ids import nth_id
from joblane.job.head import make_head, with_step
from joblane.queue.usage import MEBIBYTE, Account, Accounts, Figures
from joblane.state.lifecycle import State
from joblane.state.timeline import Step
from joblane.testing.clock import Clock
from tests.support.aws import FUNCTION_ENVIRONMENT, NAME, Cloud
from tests.support.jobs import JOB as FIRST
from tests.support.jobs import submission
from tests.support.requests import Api

LIMITS = Limits(
    tenants={"acme": LimitOverrides(jobs_waiting=5, output_mb_per_day=3, output_files_mb_per_day=4)}
)
JOB = {"command": ["true"]}


@pytest.fixture(name="clock")
def _clock() -> Clock:
    """At a time of day that is not near midnight."""
    return Clock(time.time() // 86_400 * 86_400 + 43_200.0)


@pytest.fixture(name="application")
def _application(aws: Cloud, clock: Clock) -> Any:
    settings = Settings.model_validate(
        {
            **FUNCTION_ENVIRONMENT,
            "JOBLANE_LIMITS": LIMITS.compact(*ADMITTED),
        }
    )
    return build(settings, aws.clients, clock)


@pytest.fixture(name="api")
def _api(application: Any) -> Api:
    return Api(application)


@pytest.fixture(name="count")
def _count(aws: Cloud, clock: Clock) -> Any:
    """Stores the figures of acme, as the projector does."""
    usage = UsageStore(aws.clients.make("dynamodb"), table_name(NAME, "counters"))

    def count(waiting: int = 0, output_mb: int = 0, file_mb: int = 0) -> None:
        day = int(clock()) // 86_400
        figures = Figures(waiting, day, output_mb * MEBIBYTE, file_mb * MEBIBYTE)
        _, version = usage.accounts("acme")
        own = Account(1, Figures(), figures, int(clock()) // 60)
        usage.store("acme", replace(Accounts.new(0), figures=own), version)

    return count


def statuses(api: Api, jobs: int) -> list[int]:
    return [api("POST", "/v1/jobs", JOB)[0] for _ in range(jobs)]


def test_a_tenant_that_floods_is_refused_at_its_limit_and_another_is_not(
    application: Any, api: Api
) -> None:
    assert [202] * 5 + [429] * 3 == statuses(api, 8)
    assert [202] * 8 == statuses(Api(application, "client-other"), 8)


def test_a_refusal_says_which_limit_and_until_when(api: Api, count: Any, clock: Clock) -> None:
    count(waiting=7)
    answer = api.raw("POST", "/v1/jobs", JOB)
    problem = json.loads(answer["body"])
    until = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(clock() + 10))
    assert (429, "10") == (answer["statusCode"], answer["headers"]["Retry-After"])
    assert "application/problem+json" == answer["headers"]["Content-Type"]
    assert ("jobs_waiting", 5, 7, until) == tuple(
        problem[name] for name in ("limit", "allowed", "current", "until")
    )
    assert problem["detail"] == (
        f"the tenant has 7 jobs waiting; the limit jobs_waiting is 5; try again at {until}"
    )


@pytest.mark.parametrize(
    ("used", "limit", "what"),
    [
        ({"output_mb": 3}, "output_mb_per_day", "3 MiB of output since"),
        ({"file_mb": 4}, "output_files_mb_per_day", "4 MiB of output files since"),
    ],
)
def test_the_output_of_a_day_refuses_until_midnight(
    api: Api, count: Any, used: dict[str, int], limit: str, what: str
) -> None:
    count(**used)
    answer = api.raw("POST", "/v1/jobs", JOB)
    problem = json.loads(answer["body"])
    assert (429, "43200") == (answer["statusCode"], answer["headers"]["Retry-After"])
    assert limit == problem["limit"]
    assert problem["current"] == problem["allowed"] == sum(used.values())
    assert f"the tenant has {what} midnight UTC" in problem["detail"]
    assert problem["until"].endswith("T00:00:00.000Z")


def test_a_day_of_output_begins_anew_at_midnight(api: Api, count: Any, clock: Clock) -> None:
    count(output_mb=3, file_mb=4)
    clock.now += 43_200
    assert [202] == statuses(api, 1)


WRONG = {"command": ["true"], "queue": "nowhere"}


def test_limits_come_before_all_that_a_submission_may_make_slow(api: Api, count: Any, clock: Clock):
    assert 400 == api("POST", "/v1/jobs", WRONG)[0]
    assert 200 == api("POST", "/v1/jobs/batch", {"jobs": [WRONG]})[0]
    count(output_mb=3)
    clock.now += 11
    assert 429 == api("POST", "/v1/jobs", WRONG)[0]
    assert 429 == api("POST", "/v1/jobs/batch", {"jobs": [WRONG]})[0]


def test_a_request_that_was_accepted_is_answered_as_before(api: Api, count: Any, clock: Clock):
    again, new = {"idempotency-key": "a"}, {"idempotency-key": "b"}
    first = api.raw("POST", "/v1/jobs", JOB, headers=again)
    count(output_mb=3)
    clock.now += 11
    assert first["body"] == api.raw("POST", "/v1/jobs", JOB, headers=again)["body"]
    assert 429 == api.raw("POST", "/v1/jobs", JOB, headers=new)["statusCode"]


def test_nobody_is_refused_by_figures_that_are_old(api: Api, count: Any, clock: Clock) -> None:
    assert [202] * 5 == statuses(api, 5)  # which started at once
    clock.now += 1.5
    assert [202] == statuses(api, 1)
    count(waiting=5)
    clock.now += 1.5
    assert [202] * 4 == statuses(api, 4)  # by the figures of 1.5 s ago
    assert [429] == statuses(api, 1)
    count(waiting=0)
    assert [429] == statuses(api, 1)
    clock.now += 1.5
    assert [202] == statuses(api, 1)


def test_of_a_batch_the_first_jobs_are_accepted_that_there_is_room_for(
    api: Api, count: Any, aws: Cloud
) -> None:
    count(waiting=3)
    invalid: dict[str, list[str]] = {"command": []}
    status, answer = api("POST", "/v1/jobs/batch", {"jobs": [JOB, invalid, JOB, JOB]})
    assert (200, [202, 400, 202, 429]) == (status, [e["status"] for e in answer["entries"]])
    assert "jobs_waiting is 5; try again at" in answer["entries"][3]["detail"]
    jobs, _ = aws.jobs.page("acme", limit=10, before=None)
    assert 2 == len(jobs)


def test_a_batch_that_there_is_no_room_for_is_refused_as_a_whole(api: Api, count: Any) -> None:
    count(waiting=5)
    answer = api.raw("POST", "/v1/jobs/batch", {"jobs": [JOB] * 4})
    assert (429, "10") == (answer["statusCode"], answer["headers"]["Retry-After"])


def test_a_request_that_was_accepted_is_answered_again_at_the_limit(api: Api, count: Any) -> None:
    for path, body in (("/v1/jobs", JOB), ("/v1/jobs/batch", {"jobs": [JOB, JOB]})):
        key = {"idempotency-key": path}
        first = api("POST", path, body, headers=key)
        count(waiting=99)
        assert first == api("POST", path, body, headers=key)
        count()


def test_a_key_whose_job_was_refused_makes_it_later(api: Api, count: Any, clock: Clock) -> None:
    count(waiting=5)
    key = {"idempotency-key": "k"}
    assert 429 == api("POST", "/v1/jobs", JOB, headers=key)[0]
    count()
    clock.now += 1.5
    assert 202 == api("POST", "/v1/jobs", JOB, headers=key)[0]


def test_jobs_are_not_retried_over_the_limit(api: Api, count: Any, clock: Clock) -> None:
    _, job = api("POST", "/v1/jobs", JOB)
    count(waiting=5)
    clock.now += 11
    status, problem = api("POST", f"/v1/jobs/{job['id']}/resubmit")
    assert 409 == status  # it has not ended: that is said first
    status, problem = api("POST", f"/v1/jobs/{job['id']}/retry")
    assert (429, "jobs_waiting") == (status, problem["limit"])


@pytest.mark.parametrize("later", [{}, {"run_at": "2099-01-01T00:00:00Z"}])
def test_an_array_counts_for_all_of_its_jobs_also_a_scheduled_one(
    api: Api, later: dict[str, str]
) -> None:
    assert 202 == api("POST", "/v1/jobs", {**JOB, **later, "array": {"size": 2}})[0]
    status, problem = api("POST", "/v1/jobs", {**JOB, **later, "array": {"size": 4}})
    assert (429, "jobs_waiting") == (status, problem["limit"])
    assert 202 == api("POST", "/v1/jobs", {**JOB, **later, "array": {"size": 3}})[0]


def test_an_array_that_no_time_has_room_for_is_not_to_be_tried_again(api: Api) -> None:
    status, problem = api("POST", "/v1/jobs", {**JOB, "array": {"size": 6}})
    text = "array makes 6 jobs; the limit jobs_waiting of the tenant allows 5"
    assert (400, text) == (status, problem["detail"])


def test_figures_that_cannot_be_read_refuse_nobody_and_the_log_says_so(
    api: Api, count: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    count(waiting=99)

    def unreachable(*_: object) -> None:
        raise AwsSilent(error="https://dynamodb.test")

    monkeypatch.setattr(Table, "get", unreachable)
    assert [202] == statuses(api, 1)
    assert "limits are not checked: the figures cannot be read" in caplog.messages


@pytest.fixture(name="operator")
def _operator(aws: Cloud, clock: Clock) -> Api:
    environment = {**FUNCTION_ENVIRONMENT, "JOBLANE_LIMITS": LIMITS.compact(*ADMITTED)}
    return Api(admin.build(admin.Settings.model_validate(environment), aws.clients, clock))


def end_job(aws: Cloud, state: State, number: int) -> str:
    """A job of acme that has ended so."""
    head = make_head(nth_id(FIRST, number), "acme", submission(), 1000)
    step = Step(state, 2000, 1, "ended", "agent-1")
    return aws.jobs.put_new(replace(with_step(head, step), attempt=1)).job_id


def test_operators_restart_and_replay_no_more_than_may_wait(
    aws: Cloud, operator: Api, count: Any, clock: Clock
) -> None:
    dead = end_job(aws, State.DEAD, 0)
    failed = [end_job(aws, State.FAILED, n) for n in range(1, 5)]
    count(waiting=3)
    status, answer = operator("POST", "/v1/queues/default/restart-failed")
    assert (200, 2) == (status, answer["restarted"])
    assert all("jobs_waiting is 5" in each["detail"] for each in answer["refused"])
    assert 2 == len(answer["refused"])
    count(waiting=5)
    clock.now += 11
    assert 429 == operator("POST", "/v1/queues/default/restart-failed")[0]
    assert 429 == operator("POST", f"/v1/dlq/{dead}/replay")[0]
    states = [aws.job(job_id).state for job_id in (dead, *failed)]
    assert [State.DEAD, *[State.FAILED] * 2, *[State.PENDING] * 2] == sorted(
        states, key=["dead", "failed", "pending"].index
    )
    count(waiting=4)
    clock.now += 11
    assert 202 == operator("POST", f"/v1/dlq/{dead}/replay")[0]
    assert 429 == operator("POST", "/v1/queues/default/restart-failed")[0]


def test_each_job_of_a_page_that_is_retried_counts(aws: Cloud, api: Api, count: Any) -> None:
    for number in range(3):
        end_job(aws, State.FAILED, number)
    count(waiting=0)
    _, answer = api("POST", "/v1/jobs/retry", query={"state": "failed"})
    assert 3 == answer["retried"]
    assert [202, 202, 429] == statuses(api, 3)
