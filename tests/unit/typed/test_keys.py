"""Keys of job types: filled in from the params, by the version that a job has."""

from itertools import count
from typing import Any

import pytest

from functions.admin import handler as admin
from functions.requeue import handler as requeue
from functions.submission import handler as submission
from joblane.aws.key.keys import KeyStore, row_key
from joblane.formats.times import rfc3339
from joblane.job.moves import AttemptFacts
from joblane.key.decide import End, release
from joblane.key.segments import KeyName
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from joblane.testing.inline import Inline
from tests.support.aws import KEYS_TABLE, Cloud, configure
from tests.support.jobs import named
from tests.support.requests import Api
from tests.support.types import PARAMS, store_type

NOW = 1_800_000_000.0
LATER = NOW + 3600
KEY = {"segments": ["zendesk", "/origin"]}
NAME = KeyName.of("sync-tickets", ("zendesk", "acme"))


@pytest.fixture(name="api")
def _api(aws: Cloud) -> Api:
    settings = configure(submission.Settings)
    moments = count()  # no two requests come in the same millisecond
    return Api(submission.build(settings, aws.clients, lambda: NOW + next(moments) / 1000))


def submit(api: Api, origin: object = "acme", **fields: object) -> tuple[int, Any]:
    return api("POST", "/v1/jobs", {"type": "sync-tickets", "params": {"origin": origin}, **fields})


def keys_of(aws: Cloud) -> KeyStore:
    return KeyStore(aws.clients.make("dynamodb"), KEYS_TABLE)


def test_jobs_of_a_type_have_the_key_that_their_params_name(aws: Cloud, api: Api):
    store_type(aws, key=KEY)
    status, first = submit(api)
    segments = ["zendesk", "acme"]
    assert (202, {"type": "sync-tickets", "id": NAME.hash}, "pending") == (
        status,
        first["key"],
        first["state"],
    )
    assert first["slot"] > 0
    status, problem = submit(api)
    assert (409, "queue-depth", segments, 1) == (
        status,
        problem["reason"],
        problem["key"],
        problem["limit"],
    )
    assert 202 == submit(api, "other")[0]


def test_a_job_waits_for_the_slot_that_its_type_limits(aws: Cloud, api: Api):
    store_type(aws, key={**KEY, "max_queued": 1})
    assert ["pending", "waiting"] == [submit(api)[1]["state"] for _ in range(2)]
    assert 409 == submit(api)[0]


@pytest.mark.parametrize(
    ("schema", "origin"),
    [({"type": "object"}, None), ({"type": "object"}, ["a"]), ({"type": "object"}, "x" * 201)],
)
def test_a_pointer_to_no_segment_is_refused_by_its_field(
    aws: Cloud, api: Api, schema: dict[str, object], origin: object
):
    store_type(aws, key=KEY, params_schema=schema)
    status, problem = submit(api, origin)
    assert (400, "params.origin") == (status, problem["errors"][0]["field"])
    assert "key of the type sync-tickets" in problem["detail"]
    assert "xxx" not in problem["detail"]


def test_a_pointer_to_what_is_not_there_is_refused(aws: Cloud, api: Api):
    store_type(aws, key={"segments": ["/nested/id"]})
    status, problem = submit(api)
    assert (400, "params.nested.id") == (status, problem["errors"][0]["field"])


def test_a_type_with_a_key_takes_no_other(aws: Cloud, api: Api):
    store_type(aws, key=KEY)
    status, problem = submit(api, concurrency={"key": ["mine"]})
    assert (400, "concurrency") == (status, problem["errors"][0]["field"])
    store_type(aws)
    assert "command" == submit(api, concurrency={"key": ["mine"]})[1]["key"]["type"]


def test_a_scheduled_job_is_admitted_by_the_key_of_its_version(aws: Cloud, api: Api):
    """Also if nobody has used the key yet, so that its limits are in the type alone."""
    store_type(aws, key={**KEY, "max_active": 2})
    ids = [submit(api, run_at=rfc3339(int(LATER * 1000)))[1]["id"] for _ in range(3)]
    settings = configure(requeue.Settings)
    # One after the other: moto undoes a refused transaction by an earlier copy of all tables, and
    # with it what another thread has written since.
    requeue.build(settings, aws.clients, lambda: LATER, Inline).run(lambda: 60.0)
    states = sorted(api("GET", f"/v1/jobs/{job_id}")[1]["state"] for job_id in ids)
    assert ["pending", "pending", "skipped"] == states
    stored = keys_of(aws).get("acme", NAME, 1)
    assert ('["zendesk", "acme"]', 2) == (stored.segments, stored.state.limits.max_active)


def test_a_job_that_keeps_its_earlier_version_keeps_the_latest_limits(aws: Cloud, api: Api):
    store_type(aws, key=KEY)
    _, old = submit(api)
    dies(aws, old["id"])
    store_type(aws, key={**KEY, "max_active": 3})
    assert 202 == submit(api)[0]
    status, again = replay(aws, old["id"], same_version=True)
    assert (202, 1, "pending") == (status, again["type_version"], again["state"])
    limits = keys_of(aws).get("acme", NAME, 1).state.limits
    assert 3 == limits.max_active


def test_a_replayed_job_whose_key_was_forgotten_has_that_of_its_version(aws: Cloud, api: Api):
    """The row of an idle key expires after a day."""
    store_type(aws, key={**KEY, "max_active": 2})
    _, old = submit(api)
    dies(aws, old["id"])
    aws.clients.make("dynamodb").delete_item(
        TableName=KEYS_TABLE, Key={"key": {"S": row_key("acme", NAME)}}
    )
    status, again = replay(aws, old["id"])
    assert (202, "pending") == (status, again["state"])
    stored = keys_of(aws).get("acme", NAME, 1)
    assert ('["zendesk", "acme"]', 2) == (stored.segments, stored.state.limits.max_active)


def dies(aws: Cloud, job_id: str) -> None:
    """A job is dead, and sequel has freed its slot."""
    keys, now_ms = keys_of(aws), int(NOW * 1000) + 500
    head = aws.jobs.claim(named(job_id), "agent-1", now_ms)
    step = Step(State.DEAD, now_ms, 1, "exit code 1")
    aws.jobs.settle(head, step, AttemptFacts(Outcome.FAILED, expires_at=int(NOW) + 9_999))
    seen = keys.get("acme", NAME, 1)
    state = release(seen.state, [End(job_id, head.slot)]).state
    assert state is not None
    keys.write(seen, state, now_ms)


def replay(aws: Cloud, job_id: str, **body: object) -> tuple[int, Any]:
    operator = Api(admin.build(configure(admin.Settings), aws.clients, lambda: NOW + 1))
    return operator("POST", f"/v1/dlq/{job_id}/replay", body or None)


def test_large_params_are_in_the_key_too(aws: Cloud, api: Api):
    """The submission is in S3, and what the table has of it is cut."""
    schema = {**PARAMS, "additionalProperties": True}
    store_type(aws, key=KEY, params_schema=schema)
    params = {"origin": "acme", "notes": "x" * 200_000}
    body = {"type": "sync-tickets", "params": params, "env": {"A": "y" * 100_000}}
    status, job = api("POST", "/v1/jobs", body)
    assert (202, NAME.hash) == (status, job["key"]["id"])
