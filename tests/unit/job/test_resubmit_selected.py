"""Resubmitting what filters select: a page a request, each job once and as it was read."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

import pytest

from functions.submission.handler import Settings, build
from joblane.aws.audit import AuditStore, TrailQuery
from joblane.aws.clients import Clients
from joblane.aws.job.jobs import Refused
from joblane.contract.cursors import encode_cursor
from joblane.contract.queries import SelectJobs
from joblane.formats.times import rfc3339
from joblane.service.job import resubmit
from joblane.state.lifecycle import State
from tests.support.aws import AUDIT_TABLE, Cloud, configure
from tests.support.fleet import beat
from tests.support.memory import Memory
from tests.support.meter import Meter
from tests.support.requests import Api
from tests.support.types import store_type
from tests.unit.job.test_selected_jobs import (
    AGENTS,
    NOW,
    NOW_MS,
    api_of,
    end,
    page,
    pages,
    states,
    submit,
)


@pytest.fixture(name="aws")
def _aws() -> Cloud:
    return Memory().cloud()


@pytest.fixture(name="clock")
def _clock() -> Iterator[float]:
    """A millisecond passes with every look at it."""
    return (NOW + number / 1000 for number in count())


@pytest.fixture(name="api")
def _api(aws: Cloud, clock: Iterator[float]) -> Api:
    return api_of(aws, clock)


def ended(aws: Cloud, api: Api, **fields: object) -> str:
    job_id = submit(api, **fields)
    end(aws, job_id)
    return job_id


def newer(aws: Cloud, job_id: str) -> str:
    """The job that repeats another one."""
    found = aws.job(job_id).resubmitted_as
    assert found is not None
    return found


def test_what_did_not_succeed_and_matches_is_submitted_again(aws: Cloud, api: Api):
    web = {"labels": {"team": "web"}}
    done, cancelled, failed = submit(api, **web), submit(api, **web), ended(aws, api, **web)
    end(aws, done, State.COMPLETED)
    assert 202 == api("POST", f"/v1/jobs/{cancelled}/cancel")[0]
    pending, other = submit(api, **web), ended(aws, api)
    answer = page(api, "resubmit", label="team=web")
    made = {entry["id"]: entry["resubmitted_as"] for entry in answer.pop("jobs")}
    assert {
        "examined": 2,
        "resubmitted": 2,
        "already": 0,
        "refused": [],
        "next": None,
    } == answer
    assert {job_id: newer(aws, job_id) for job_id in (cancelled, failed)} == made
    assert ["pending"] * 2 == states(aws, *made.values())
    head = aws.job(made[failed])
    assert (failed, {"team": "web"}) == (head.resubmit_of, head.spec.labels)
    assert ["completed", "failed", "pending", "failed"] == states(aws, done, failed, pending, other)
    assert aws.job(other).resubmitted_as is None
    assert 1 == page(api, "resubmit", label="team=web", state="completed")["resubmitted"]


def test_a_request_that_is_sent_again_does_not_take_what_it_has_made(aws: Cloud, api: Api):
    ended(aws, api, labels={"team": "web"})
    (made,) = page(api, "resubmit", label="team=web")["jobs"]
    end(aws, made["resubmitted_as"], State.COMPLETED)
    again = page(api, "resubmit", label="team=web")
    assert (1, 0, 1) == (again["examined"], again["resubmitted"], again["already"])


def test_what_was_resubmitted_before_is_left_out_and_counted(aws: Cloud, api: Api):
    jobs = [ended(aws, api) for _ in range(4)]
    assert 202 == api("POST", f"/v1/jobs/{jobs[0]}/resubmit")[0]
    first = page(api, "resubmit", state="failed", limit="3")
    assert (3, 3, 0) == (first["examined"], first["resubmitted"], first["already"])
    again = page(api, "resubmit", state="failed")
    assert (4, 0, 4, []) == (
        again["examined"],
        again["resubmitted"],
        again["already"],
        again["jobs"],
    )
    # Of what was made, those that fail are submitted again.
    end(aws, newer(aws, jobs[1]))
    more = page(api, "resubmit", state="failed")
    assert (1, 4) == (more["resubmitted"], more["already"])


def test_jobs_that_cannot_be_resubmitted_are_named_and_the_others_go_on(
    aws: Cloud, api: Api, clock: Iterator[float]
):
    store_type(aws)
    fits, broken = (
        ended(aws, api, command=[], type="sync-tickets", params={"origin": "a", "tickets": tickets})
        for tickets in ([1], [])
    )
    plain, waits = ended(aws, api), submit(api)
    late = ended(aws, api, deadline=rfc3339(NOW_MS + 70_000))
    while next(clock) < NOW + 70:
        pass
    some = {"type": "array", "minItems": 1}
    store_type(aws, params_schema={"type": "object", "properties": {"tickets": some}})
    answer = page(api, "resubmit", queue="default")
    assert {fits, plain} == {entry["id"] for entry in answer["jobs"]}
    told = {entry["id"]: entry["detail"] for entry in answer["refused"]}
    assert {broken, late} == told.keys()
    assert told[broken].startswith("params.tickets: ")
    assert "deadline has passed" in told[late]
    named = page(api, "resubmit", state="pending")["refused"]
    assert waits in {entry["id"] for entry in named}
    assert "only one that is completed" in named[0]["detail"]


def test_changes_are_those_of_every_job(aws: Cloud, api: Api):
    jobs = [ended(aws, api, env={"N": str(number)}) for number in range(3)]
    body = {"changes": {"resources": {"memory_mb": 2048}, "env": {"A": "b"}}}
    status, answer = api("POST", "/v1/jobs/resubmit", body, query={"state": "failed"})
    assert (200, 3) == (status, answer["resubmitted"])
    for number, job_id in enumerate(jobs):
        spec = aws.job(newer(aws, job_id)).spec
        assert (2048, {"N": str(number), "A": "b"}) == (spec.resources.memory_mb, spec.env)


def test_a_change_that_is_not_acceptable_is_told_for_each_job(aws: Cloud, api: Api):
    job_id = ended(aws, api)
    body = {"changes": {"colour": "red"}}
    _, answer = api("POST", "/v1/jobs/resubmit", body, query={"state": "failed"})
    assert [{"id": job_id, "index": None, "detail": "colour: unknown field"}] == answer["refused"]
    body = {"changes": {"deadline": rfc3339(NOW_MS)}}
    _, answer = api("POST", "/v1/jobs/resubmit", body, query={"state": "failed"})
    assert answer["refused"][0]["detail"].startswith("deadline must be in the future")
    assert aws.job(job_id).resubmitted_as is None


def racing(aws: Cloud, clock: Iterator[float], change: Callable[[], None], operation: str) -> Api:
    """The API by clients that make a change once, right before a call of an operation."""
    session = aws.session()
    done: list[bool] = []

    def once(**_: object) -> None:
        if not done:
            done.append(True)
            change()

    name = f"provide-client-params.dynamodb.{operation}"
    session.get_component("event_emitter").register(name, once)
    return Api(build(configure(Settings), Clients(session), lambda: next(clock)))


@pytest.mark.parametrize("key", [None, {"key": ["a"], "max_active": 2, "max_queued": 5}])
def test_a_job_that_another_one_resubmits_meanwhile_is_counted_as_such(
    aws: Cloud, api: Api, clock: Iterator[float], key: object
):
    job_id = ended(aws, api, concurrency=key)

    def first() -> None:
        assert 1 == page(api, "resubmit", state="failed")["resubmitted"]

    answer = page(racing(aws, clock, first, "TransactWriteItems"), "resubmit", state="failed")
    assert (1, 0, 1, []) == (
        answer["examined"],
        answer["resubmitted"],
        answer["already"],
        answer["refused"],
    )
    made = [job["resubmit_of"] for job in api("GET", "/v1/jobs")[1]["entries"]]
    assert [job_id] == [of for of in made if of is not None]


@pytest.mark.parametrize("key", [None, {"key": ["a"], "max_active": 2, "max_queued": 5}])
def test_a_job_that_is_retried_meanwhile_is_left_alone(
    aws: Cloud, api: Api, clock: Iterator[float], key: object
):
    job_id = ended(aws, api, concurrency=key)

    def retried() -> None:
        assert 202 == api("POST", f"/v1/jobs/{job_id}/retry")[0]

    answer = page(racing(aws, clock, retried, "TransactWriteItems"), "resubmit", state="failed")
    assert (0, 0, []) == (answer["resubmitted"], answer["already"], answer["refused"])
    assert (["pending"], None) == (states(aws, job_id), aws.job(job_id).resubmitted_as)


def test_jobs_of_a_key_are_admitted_one_after_the_other(aws: Cloud, api: Api):
    key = {"key": ["customer", "acme"], "max_active": 3, "max_queued": 0}
    jobs = [ended(aws, api, labels={"n": str(number)}, concurrency=key) for number in range(3)]
    body = {"changes": {"concurrency": {"max_active": 1, "max_queued": 1}}}
    _, answer = api("POST", "/v1/jobs/resubmit", body, query={"state": "failed"})
    assert 2 == answer["resubmitted"]
    (full,) = answer["refused"]
    assert jobs[0] == full["id"]  # the newest are first
    assert "key" in full["detail"]
    made = [newer(aws, job_id) for job_id in reversed(jobs[1:])]
    assert ["pending", "waiting"] == [aws.job(job_id).state.value for job_id in made]


def test_a_job_for_which_another_one_stands_is_told(aws: Cloud, api: Api):
    key = {"key": ["a"], "max_active": 1, "max_queued": 0, "when_full": "coalesce"}
    job_id = ended(aws, api, concurrency=key)
    stands = submit(api, concurrency=key)
    answer = page(api, "resubmit", state="failed")
    detail = f"no job was made: job {stands} of its key stands for it"
    assert (0, [{"id": job_id, "index": None, "detail": detail}]) == (
        answer["resubmitted"],
        answer["refused"],
    )
    assert aws.job(job_id).resubmitted_as is None


def test_a_page_ends_with_a_group_which_makes_another_one(aws: Cloud, api: Api):
    older = ended(aws, api)
    for name in AGENTS[:3]:
        beat(aws, name, NOW_MS)
    group = submit(api, target="_all")
    pages(api, "cancel", groups="true")
    latest = ended(aws, api)
    found = pages(api, "resubmit", queue="default")
    assert [2, 1] == [part["resubmitted"] for part in found]
    made = [entry["id"] for part in found for entry in part["jobs"]]
    assert [latest, group, older] == made
    new = aws.job(newer(aws, group))
    assert ("processing", 3) == (new.state, new.group.members if new.group else None)
    # The group that was resubmitted does not end a page again, and its members are not listed.
    (again,) = pages(api, "resubmit", queue="default")
    assert (3, 0, 3) == (again["examined"], again["resubmitted"], again["already"])


def test_a_request_begins_no_job_when_its_time_is_up(
    aws: Cloud, api: Api, monkeypatch: pytest.MonkeyPatch
):
    jobs = [ended(aws, api) for _ in range(20)]
    monkeypatch.setattr(resubmit, "MOST_MS", 0)
    found = pages(api, "resubmit", state="failed")
    assert [8, 8, 4] == [part["resubmitted"] for part in found]
    assert 20 == len({newer(aws, job_id) for job_id in jobs})


def test_the_tenants_limits_leave_room_for_some(aws: Cloud, clock: Iterator[float]):
    api = api_of(aws, clock, JOBLANE_LIMITS='{"tenants": {"acme": {"jobs_waiting": 2}}}')
    free = api_of(aws, clock)
    jobs = [ended(aws, free) for _ in range(3)]
    answer = page(api, "resubmit", state="failed")
    assert 2 == answer["resubmitted"]
    (refused,) = answer["refused"]
    assert refused["id"] in jobs
    assert "jobs_waiting" in refused["detail"]
    status, problem = api("POST", "/v1/jobs/resubmit", query={"state": "failed"})
    assert (429, "jobs_waiting") == (status, problem["limit"])


@pytest.mark.parametrize("query", [{}, {"until": rfc3339(NOW_MS)}, {"hidden": "true"}])
def test_one_filter_is_required(aws: Cloud, api: Api, query: dict[str, str]):
    job_id = ended(aws, api)
    status, problem = api("POST", "/v1/jobs/resubmit", query=query)
    assert 400 == status
    assert "at least one filter: state, type, name, queue, label, since or groups" in str(problem)
    assert aws.job(job_id).resubmitted_as is None


def test_nobody_reaches_another_tenants_jobs(aws: Cloud, api: Api, clock: Iterator[float]):
    job_id = ended(aws, api)
    theirs = api_of(aws, clock, "client-other")
    assert 0 == page(theirs, "resubmit", state="failed")["examined"]
    forged = encode_cursor("7" + "Z" * 25, SelectJobs(state=(State.FAILED,)).bound)
    assert 0 == page(theirs, "resubmit", state="failed", next=forged)["examined"]
    assert aws.job(job_id).resubmitted_as is None


def test_the_audit_trail_says_what_was_asked_and_no_value(aws: Cloud, api: Api):
    body = {"reason": "too little memory", "changes": {"env": {"A": "SECRET"}}}
    assert 200 == api("POST", "/v1/jobs/resubmit", body, query={"label": "team=web"})[0]
    trail = AuditStore(aws.clients.make("dynamodb"), AUDIT_TABLE)
    (record,), _ = trail.of_tenant("acme", TrailQuery(limit=10))
    assert ("resubmit-jobs", "too little memory") == (record.action, record.reason)
    asked = json.loads(record.asked_json or "")
    assert (["team=web"], ["env.A"]) == (asked["label"], asked["changes"])


def test_a_page_costs_what_its_jobs_cost(aws: Cloud, meter: Meter, clock: Iterator[float]):
    api = Api(build(configure(Settings), meter.clients_of(aws), lambda: next(clock)))
    for _ in range(10):
        ended(aws, api)
    page(api, "resubmit", state="dead")  # what is read once a minute
    meter.reset()
    assert 10 == page(api, "resubmit", state="failed")["resubmitted"]
    assert {
        "dynamodb.PutItem": 1,  # the record in the audit trail
        "dynamodb.Query": 1,
        "dynamodb.BatchGetItem": 1,
        "dynamodb.TransactWriteItems": 10,
        "sqs.SendMessage": 10,
    } == meter.calls
    # 5 each: both rows in a transaction, and the new job's index; docs/explanation/costs.md
    assert 1 + 10 * 5 == meter.write_units


def test_what_is_left_out_costs_its_read(aws: Cloud, meter: Meter, clock: Iterator[float]):
    api = Api(build(configure(Settings), meter.clients_of(aws), lambda: next(clock)))
    for _ in range(3):
        ended(aws, api)
    page(api, "resubmit", state="failed")
    meter.reset()
    assert 3 == page(api, "resubmit", state="failed")["already"]
    assert {"dynamodb.PutItem": 1, "dynamodb.Query": 1, "dynamodb.BatchGetItem": 1} == meter.calls


def test_a_job_that_failed_again_is_not_the_one_that_was_read(aws: Cloud, api: Api):
    job_id = ended(aws, api)
    seen = aws.job(job_id)
    assert 202 == api("POST", f"/v1/jobs/{job_id}/retry")[0]
    end(aws, job_id)
    assert (seen.state, None) == (aws.job(job_id).state, aws.job(job_id).resubmitted_as)
    new = replace(seen, job_id="01ARZ3NDEKTSV4RRFFQ69G5FAV", resubmit_of=job_id)
    with pytest.raises(Refused, match="the job is failed"):
        aws.jobs.put_resubmitted(new, seen)
    assert aws.jobs.get(new.job_id) is None
