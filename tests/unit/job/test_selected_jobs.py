"""Cancelling and retrying what filters select: a page a request, each job as it was read."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from functions.submission.handler import Settings, build
from joblane.aws.audit import AuditStore, TrailQuery
from joblane.aws.clients import Clients
from joblane.contract.cursors import encode_cursor
from joblane.contract.queries import SelectJobs
from joblane.formats.times import rfc3339
from joblane.job.head import Head
from joblane.job.moves import AttemptFacts
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import AUDIT_TABLE, FUNCTION_ENVIRONMENT, Cloud, configure
from tests.support.fleet import beat, every_message
from tests.support.groups import place_left
from tests.support.jobs import named
from tests.support.memory import Memory
from tests.support.meter import Meter
from tests.support.requests import Api

NOW = 1_800_000_000
NOW_MS = NOW * 1000
AGENTS = [f"web-{number:03d}" for number in range(120)]


@pytest.fixture(name="aws")
def _aws() -> Cloud:
    return Memory().cloud()


@pytest.fixture(name="clock")
def _clock() -> Iterator[float]:
    """A tenth of a second passes with every look at it."""
    return (NOW + number / 10 for number in count())


@pytest.fixture(name="api")
def _api(aws: Cloud, clock: Iterator[float]) -> Api:
    return api_of(aws, clock)


def api_of(aws: Cloud, clock: Iterator[float], client_id: str = "client-acme", **more: str) -> Api:
    settings = Settings.model_validate({**FUNCTION_ENVIRONMENT, **more})
    return Api(build(settings, aws.clients, lambda: next(clock)), client_id)


def submit(api: Api, **fields: object) -> str:
    status, job = api("POST", "/v1/jobs", {"command": ["true"], **fields})
    assert 202 == status, job
    return str(job["id"])


def run(aws: Cloud, job_id: str, agent: str = "web-000") -> Head:
    return aws.jobs.claim(named(job_id), agent, NOW_MS + 60_000)


def end(aws: Cloud, job_id: str, state: State = State.FAILED) -> None:
    head = run(aws, job_id)
    step = Step(state, NOW_MS + 61_000, 1, "ended")
    outcome = Outcome.SUCCEEDED if state is State.COMPLETED else Outcome.PERMANENT
    aws.jobs.settle(head, step, AttemptFacts(outcome))


def states(aws: Cloud, *job_ids: str) -> list[str]:
    return [head.state.value for head in aws.jobs.heads(job_ids)]


def page(api: Api, verb: str, **query: str) -> dict[str, Any]:
    status, answer = api("POST", f"/v1/jobs/{verb}", {"reason": "wrong input"}, query=query)
    assert 200 == status, answer
    return dict(answer)


def pages(api: Api, verb: str, **query: str) -> list[dict[str, Any]]:
    found = [page(api, verb, **query)]
    while found[-1]["next"] is not None:
        found.append(page(api, verb, **query, next=found[-1]["next"]))
    return found


def test_cancel_takes_what_matches_and_has_not_ended(aws: Cloud, api: Api):
    beat(aws, "web-000", NOW_MS)
    web = {"labels": {"team": "web"}}
    pending, running, done = (submit(api, **web) for _ in range(3))
    scheduled = submit(api, **web, run_at=rfc3339(NOW_MS + 9_000_000))
    other = submit(api, labels={"team": "app"})
    run(aws, running)
    end(aws, done, State.COMPLETED)
    assert {"examined": 3, "cancelled": 3, "refused": [], "next": None} == page(
        api, "cancel", label="team=web"
    )
    expected = ["cancelled", "active", "completed", "cancelled", "pending"]
    assert expected == states(aws, pending, running, done, scheduled, other)
    command = {"v": 1, "command": "cancel", "job_id": running}
    assert [("web-000", command)] == every_message(aws, "web-000")
    head = aws.job(pending)
    assert "cancelled by machine ci at 2027-" in head.reason


def test_jobs_that_cannot_be_changed_are_named_with_the_reason(aws: Cloud, api: Api):
    beat(aws, "web-000", NOW_MS)
    running, done, unsafe, fine = (submit(api, restartable=n != 2) for n in range(4))
    run(aws, running)
    end(aws, done, State.COMPLETED)
    end(aws, unsafe)
    end(aws, fine)
    assert 1 == page(api, "cancel", state="active")["cancelled"]
    (again,) = page(api, "cancel", state="active")["refused"]
    assert running == again["id"]
    assert "the job is already being stopped" in again["detail"]
    ended = page(api, "cancel", state="completed")
    assert (1, 0) == (ended["examined"], ended["cancelled"])
    detail = (
        "a job that is completed cannot be cancelled, only one that is scheduled, waiting, "
        "pending, active, retry or blocked; it has ended"
    )
    assert [{"id": done, "index": None, "detail": detail}] == ended["refused"]
    retried = page(api, "retry", queue="default")
    assert (2, 1) == (retried["examined"], retried["retried"])
    assert [unsafe] == [entry["id"] for entry in retried["refused"]]
    assert "is not restartable" in retried["refused"][0]["detail"]
    assert ["failed", "pending"] == states(aws, unsafe, fine)


def test_a_request_works_on_a_page_and_says_where_to_continue(aws: Cloud, api: Api):
    jobs = [submit(api, labels={"n": str(number)}) for number in range(7)]
    found = pages(api, "cancel", state="pending", limit="3")
    assert [3, 3, 1] == [part["cancelled"] for part in found]
    assert {"cancelled"} == set(states(aws, *jobs))
    status, problem = api("POST", "/v1/jobs/cancel", query={"state": "x"})
    assert 400 == status, problem


def test_until_leaves_out_what_is_submitted_meanwhile(aws: Cloud, api: Api):
    early = submit(api)
    now = rfc3339(aws.jobs.heads([early])[0].timeline[0].at_ms + 1)
    late = submit(api)
    assert 1 == page(api, "cancel", state="pending", until=now)["cancelled"]
    assert ["cancelled", "pending"] == states(aws, early, late)


@pytest.mark.parametrize("verb", ["cancel", "retry"])
@pytest.mark.parametrize("query", [{}, {"until": rfc3339(NOW_MS)}, {"hidden": "true"}])
def test_one_filter_is_required(aws: Cloud, api: Api, verb: str, query: dict[str, str]):
    job_id = submit(api)
    status, problem = api("POST", f"/v1/jobs/{verb}", query=query)
    assert 400 == status
    assert "at least one filter" in problem["detail"]
    assert ["pending"] == states(aws, job_id)


@pytest.mark.parametrize("state", ["pending", None])
def test_a_job_that_an_agent_takes_meanwhile_is_left_alone(
    aws: Cloud, api: Api, clock: Iterator[float], state: str | None
):
    job_id = submit(api, labels={"team": "web"})
    session = aws.session()
    taken: list[Head] = []

    def take(**_: object) -> None:
        if not taken:
            taken.append(run(aws, job_id))

    session.get_component("event_emitter").register(
        "provide-client-params.dynamodb.UpdateItem", take
    )
    racing = Api(build(configure(Settings), Clients(session), lambda: next(clock)))
    query = {"label": "team=web"} | ({} if state is None else {"state": state})
    assert {"examined": 1, "cancelled": 0, "refused": [], "next": None} == page(
        racing, "cancel", **query
    )
    (head,) = aws.jobs.heads([job_id])
    assert (State.ACTIVE, None) == (head.state, head.cancel_requested)


def test_a_group_is_cancelled_with_its_members_before_older_jobs(aws: Cloud, api: Api):
    older = [submit(api) for _ in range(2)]
    for name in AGENTS:
        beat(aws, name, NOW_MS)
    group = submit(api, target="_all")
    place_left(aws.clients, group, NOW)
    newer = submit(api)
    found = pages(api, "cancel", queue="default", limit="10")
    # the newer job with the first page of members, the second page, and what is older
    assert [1 + 100, 20, 2] == [part["cancelled"] for part in found]
    assert ["cancelled"] * 3 == states(aws, newer, *older)
    head = aws.job(group)
    assert head.group is not None
    assert {"cancelled"} == set(states(aws, *(head.group.id_of(n) for n in range(len(AGENTS)))))
    assert "failed" == head.state  # none of its members is completed
    again = pages(api, "cancel", groups="true", state="failed")
    assert [group] == [entry["id"] for part in again for entry in part["refused"]]


def test_a_page_ends_with_a_group_and_the_next_one_has_what_is_older(aws: Cloud, api: Api):
    older = [submit(api) for _ in range(2)]
    for name in AGENTS[:3]:
        beat(aws, name, NOW_MS)
    submit(api, target="_all")
    newer = submit(api)
    found = pages(api, "cancel", queue="default")
    assert [(4, 4), (2, 2)] == [(part["examined"], part["cancelled"]) for part in found]
    assert ["cancelled"] * 3 == states(aws, newer, *older)


def test_a_group_is_retried_where_it_failed(aws: Cloud, api: Api):
    for name in AGENTS[:3]:
        beat(aws, name, NOW_MS)
    group = submit(api, target="_all")
    head = aws.job(group)
    assert head.group is not None
    members = [head.group.id_of(number) for number in range(3)]
    for number, state in enumerate((State.COMPLETED, State.FAILED, State.CANCELLED)):
        mine = aws.jobs.claim(named(members[number]), AGENTS[number], NOW_MS + 1000)
        facts = AttemptFacts(Outcome.PERMANENT)
        aws.jobs.settle(mine, Step(state, NOW_MS + 2000, 1, "ended"), facts)
    found = pages(api, "retry", groups="true", state="processing")
    assert [1] == [part["retried"] for part in found]
    assert ["completed", "pending", "cancelled"] == states(aws, *members)


def test_jobs_with_a_key_are_admitted_again(aws: Cloud, api: Api):
    key = {"key": ["customer", "acme"], "max_active": 1, "max_queued": 5}
    first, waits = (submit(api, concurrency=key) for _ in range(2))
    assert ["pending", "waiting"] == states(aws, first, waits)
    assert 1 == page(api, "cancel", state="waiting")["cancelled"]
    end(aws, first)
    plain = submit(api)
    end(aws, plain, State.DEAD)
    done = {"examined": 2, "retried": 2, "refused": [], "next": None}
    assert done == page(api, "retry", queue="default")
    assert ["pending", "pending", "cancelled"] == states(aws, first, plain, waits)


def test_retry_needs_room_for_the_jobs_of_its_tenant(aws: Cloud, clock: Iterator[float]):
    api = api_of(aws, clock, JOBLANE_LIMITS='{"tenants": {"acme": {"jobs_waiting": 1}}}')
    job_id = submit(api)
    end(aws, job_id)
    status, problem = api("POST", "/v1/jobs/retry", query={"state": "failed"})
    assert (429, "jobs_waiting") == (status, problem["limit"])
    assert ["failed"] == states(aws, job_id)


def test_nobody_reaches_another_tenants_jobs(aws: Cloud, api: Api, clock: Iterator[float]):
    for name in AGENTS[:2]:
        beat(aws, name, NOW_MS)
    mine, group = submit(api), submit(api, target="_all")
    theirs = api_of(aws, clock, "client-other")
    assert [0] == [part["examined"] for part in pages(theirs, "cancel", queue="default")]
    query = SelectJobs(queue="default")
    forged = encode_cursor(f"{group}:0", query.bound)
    assert {"examined": 0, "cancelled": 0} == {
        name: number
        for name, number in page(theirs, "cancel", queue="default", next=forged).items()
        if name in {"examined", "cancelled"}
    }
    assert ["pending", "processing"] == states(aws, mine, group)


def test_the_audit_trail_says_what_was_asked(aws: Cloud, api: Api):
    submit(api)
    page(api, "cancel", state="pending", label="team=web", limit="7")
    page(api, "retry", state="dead")
    trail = AuditStore(aws.clients.make("dynamodb"), AUDIT_TABLE)
    records, _ = trail.of_tenant("acme", TrailQuery(limit=10))
    retry, cancel = records
    assert ("retry-jobs", "cancel-jobs") == (retry.action, cancel.action)
    assert ("wrong input", ()) == (cancel.reason, cancel.target)
    assert cancel.asked_json is not None
    asked = json.loads(cancel.asked_json)
    assert (["pending"], ["team=web"]) == (asked["state"], asked["label"])


def test_a_page_of_a_hundred_costs_a_write_each(aws: Cloud, meter: Meter, clock: Iterator[float]):
    api = Api(build(configure(Settings), meter.clients_of(aws), lambda: next(clock)))
    for _ in range(101):
        submit(api)
    meter.reset()
    assert 100 == page(api, "cancel", state="pending")["cancelled"]
    assert {
        "dynamodb.PutItem": 1,  # the record in the audit trail
        "dynamodb.Query": 1,
        "dynamodb.BatchGetItem": 1,
        "dynamodb.UpdateItem": 100,
    } == meter.calls
