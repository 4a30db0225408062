"""Replaying and dismissing the dead jobs that filters select."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from functions.admin import handler as admin
from joblane.aws.audit import AuditStore, TrailQuery
from joblane.aws.clients import Clients
from joblane.contract.cursors import encode_cursor
from joblane.contract.operator_queries import SelectDead
from joblane.formats.times import rfc3339
from joblane.state.lifecycle import State
from tests.support.aws import AUDIT_TABLE, FUNCTION_ENVIRONMENT, Cloud, configure
from tests.support.memory import Memory
from tests.support.meter import Meter
from tests.support.requests import Api
from tests.unit.job.test_selected_jobs import NOW, NOW_MS, api_of, end, states, submit

VERBS = pytest.mark.parametrize(
    ("verb", "done", "state"),
    [("replay", "replayed", "pending"), ("dismiss", "dismissed", "dismissed")],
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


@pytest.fixture(name="operators")
def _operators(aws: Cloud, clock: Iterator[float]) -> Api:
    return operators_of(aws.clients, clock)


def operators_of(
    clients: Clients, clock: Iterator[float], client_id: str = "client-acme", **more: str
) -> Api:
    settings = admin.Settings.model_validate({**FUNCTION_ENVIRONMENT, **more})
    return Api(admin.build(settings, clients, lambda: next(clock)), client_id)


def dead(aws: Cloud, api: Api, **fields: object) -> str:
    job_id = submit(api, **fields)
    end(aws, job_id, State.DEAD)
    return job_id


def page(api: Api, verb: str, **query: str) -> dict[str, Any]:
    status, answer = api("POST", f"/v1/dlq/{verb}", {"reason": "fixed"}, query=query)
    assert 200 == status, answer
    return dict(answer)


@VERBS
def test_dead_jobs_that_match_are_changed(
    aws: Cloud, api: Api, operators: Api, verb: str, done: str, state: str
):
    web = {"labels": {"team": "web"}}
    first, second = (dead(aws, api, **web) for _ in range(2))
    failed = submit(api, **web)
    end(aws, failed)
    other = dead(aws, api)
    hidden = dead(aws, api, **web)
    api("POST", f"/v1/jobs/{hidden}/hide")
    expected = {"examined": 2, done: 2, "refused": [], "next": None}
    assert expected == page(operators, verb, label="team=web")
    assert [state, state, "failed", "dead", "dead"] == states(
        aws, first, second, failed, other, hidden
    )
    assert f"{done} by machine ci" in aws.job(first).reason
    assert 1 == page(operators, verb, label="team=web", hidden="true")[done]


@VERBS
def test_a_request_works_on_a_page_and_may_be_repeated(
    aws: Cloud, api: Api, operators: Api, verb: str, done: str, state: str
):
    jobs = [dead(aws, api, name="etl") for _ in range(5)]
    part = page(operators, verb, name="etl", limit="2")
    assert (2, 2) == (part["examined"], part[done])
    rest = page(operators, verb, name="etl", limit="9", next=part["next"])
    assert (3, None) == (rest[done], rest["next"])
    assert {state} == set(states(aws, *jobs))
    assert 0 == page(operators, verb, name="etl")["examined"]


def test_jobs_that_cannot_be_replayed_are_named(aws: Cloud, api: Api, operators: Api):
    fine, unsafe = dead(aws, api), dead(aws, api, restartable=False)
    answer = page(operators, "replay", queue="default")
    assert (2, 1, [unsafe]) == (
        answer["examined"],
        answer["replayed"],
        [entry["id"] for entry in answer["refused"]],
    )
    assert "is not restartable" in answer["refused"][0]["detail"]
    assert ["pending", "dead"] == states(aws, fine, unsafe)


@VERBS
def test_a_job_that_is_retried_meanwhile_is_left_alone(
    aws: Cloud, api: Api, clock: Iterator[float], verb: str, done: str, state: str
):
    del state
    job_id = dead(aws, api)
    session = aws.session()
    taken: list[int] = []

    def retry(**_: object) -> None:
        if not taken:
            taken.append(api("POST", f"/v1/jobs/{job_id}/retry")[0])

    session.get_component("event_emitter").register(
        "provide-client-params.dynamodb.UpdateItem", retry
    )
    answer = page(operators_of(Clients(session), clock), verb, queue="default")
    assert {"examined": 1, done: 0, "refused": [], "next": None} == answer
    assert ([202], ["pending"]) == (taken, states(aws, job_id))
    assert "retried by" in aws.job(job_id).reason


@VERBS
@pytest.mark.parametrize("query", [{}, {"until": rfc3339(NOW_MS)}, {"hidden": "true"}])
def test_one_filter_is_required(
    aws: Cloud,
    api: Api,
    operators: Api,
    verb: str,
    done: str,
    state: str,
    query: dict[str, str],
):
    del done, state
    job_id = dead(aws, api)
    status, problem = operators("POST", f"/v1/dlq/{verb}", query=query)
    assert 400 == status
    assert "at least one filter: type, name, queue, label or since" in problem["detail"]
    assert 400 == operators("POST", f"/v1/dlq/{verb}", query={"state": "failed"})[0]
    assert ["dead"] == states(aws, job_id)


def test_a_replay_needs_room_for_the_jobs_of_its_tenant(
    aws: Cloud, api: Api, clock: Iterator[float]
):
    limits = '{"tenants": {"acme": {"jobs_waiting": 1}}}'
    job_id = dead(aws, api)
    operators = operators_of(aws.clients, clock, JOBLANE_LIMITS=limits)
    status, problem = operators("POST", "/v1/dlq/replay", query={"queue": "default"})
    assert (200, 1) == (status, problem.get("replayed"))
    other = dead(aws, api)
    status, problem = operators("POST", "/v1/dlq/replay", query={"queue": "default"})
    assert (429, "jobs_waiting") == (status, problem.get("limit"))
    assert ["pending", "dead"] == states(aws, job_id, other)
    assert 1 == page(operators, "dismiss", queue="default")["dismissed"]


@VERBS
def test_it_is_for_operators(aws: Cloud, clock: Iterator[float], verb: str, done: str, state: str):
    del done, state
    settings = configure(admin.Settings)
    scope = {"scope": "https://joblane/jobs.submit"}
    developer = Api(admin.build(settings, aws.clients, lambda: next(clock)), claims=scope)
    assert 403 == developer("POST", f"/v1/dlq/{verb}", query={"queue": "default"})[0]


@VERBS
def test_nobody_reaches_another_tenants_jobs(
    aws: Cloud, api: Api, clock: Iterator[float], verb: str, done: str, state: str
):
    del state
    job_id = dead(aws, api)
    theirs = operators_of(aws.clients, clock, "client-other")
    forged = encode_cursor("7" + "Z" * 25, SelectDead(queue="default").bound)
    assert 0 == page(theirs, verb, queue="default")[done]
    assert 0 == page(theirs, verb, queue="default", next=forged)[done]
    assert ["dead"] == states(aws, job_id)


def test_the_audit_trail_says_what_was_asked(aws: Cloud, operators: Api):
    page(operators, "replay", label="team=web")
    page(operators, "dismiss", queue="bulk")
    trail = AuditStore(aws.clients.make("dynamodb"), AUDIT_TABLE)
    (dismissed, replayed), _ = trail.of_tenant("acme", TrailQuery(limit=10))
    assert ("dismiss-jobs", "replay-jobs") == (dismissed.action, replayed.action)
    assert ["team=web"] == json.loads(replayed.asked_json or "")["label"]


def test_a_page_costs_a_write_for_each_job(
    aws: Cloud, api: Api, meter: Meter, clock: Iterator[float]
):
    for _ in range(10):
        dead(aws, api)
    operators = operators_of(meter.clients_of(aws), clock)
    meter.reset()
    assert 10 == page(operators, "dismiss", queue="default")["dismissed"]
    expected = {"dynamodb.PutItem": 1, "dynamodb.Query": 1, "dynamodb.BatchGetItem": 1}
    assert {**expected, "dynamodb.UpdateItem": 10} == meter.calls
