"""The default deadline of a queue: for whom it is, what wins over it, and what becomes of it."""

import json
from typing import Any

import pytest

from functions.admin import handler as admin
from functions.submission import handler as submission
from joblane.formats.times import rfc3339, unix_ms
from joblane.job.moves import AttemptFacts
from joblane.service.job.wake_up import wake_up_message
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import FUNCTION_ENVIRONMENT, Cloud
from tests.support.requests import Api
from tests.support.types import store_type

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
ENVIRONMENT = {**FUNCTION_ENVIRONMENT, "JOBLANE_DEADLINES": json.dumps({"default": 3600})}
AFTER_AN_HOUR = rfc3339(NOW_MS + HOUR_MS)


def api_of(aws: Cloud, now_ms: int = NOW_MS) -> Api:
    settings = submission.Settings.model_validate(ENVIRONMENT)
    return Api(submission.build(settings, aws.clients, lambda: now_ms / 1000), "client-acme")


@pytest.fixture(name="api")
def _api(aws: Cloud) -> Api:
    return api_of(aws)


def submit(api: Api, **fields: Any) -> Any:
    command = {} if "type" in fields else {"command": ["true"]}
    status, job = api("POST", "/v1/jobs", {**command, **fields})
    assert 202 == status, job
    return job


@pytest.mark.parametrize(
    ("fields", "deadline"),
    [
        ({}, AFTER_AN_HOUR),
        ({"queue": "bulk"}, None),  # it has no default
        ({"run_at": rfc3339(NOW_MS + HOUR_MS)}, rfc3339(NOW_MS + 2 * HOUR_MS)),
        ({"run_at": rfc3339(NOW_MS - HOUR_MS)}, AFTER_AN_HOUR),  # it means now
        ({"deadline": rfc3339(NOW_MS + 60_000)}, rfc3339(NOW_MS + 60_000)),
        ({"deadline": None}, None),
        ({"type": "sleep", "params": {"ms": 1}}, AFTER_AN_HOUR),
        ({"type": "bare", "params": {}}, AFTER_AN_HOUR),
        ({"type": "bare", "params": {}, "deadline": None}, None),
        ({"type": "quick", "params": {}}, rfc3339(NOW_MS + 90_000)),
        ({"type": "quick", "params": {}, "deadline": None}, None),
    ],
)
def test_the_submissions_deadline_wins_then_the_types_then_the_queues(
    aws: Cloud, api: Api, fields: dict[str, Any], deadline: str | None
):
    store_type(aws, "bare", params_schema={"type": "object"}, items=None, defaults=defaults())
    store_type(
        aws, "quick", params_schema={"type": "object"}, items=None, defaults=defaults(deadline_s=90)
    )
    assert deadline == submit(api, **fields)["deadline"]


def defaults(**members: Any) -> dict[str, Any]:
    """Defaults of a type, with an environment: the submission is then validated anew."""
    return {"env": {"MODE": "x"}, **members}


def end(aws: Cloud, job_id: str, state: State = State.FAILED) -> None:
    step = Step(state, NOW_MS + 1000, 1, "as the test wants")
    taken = aws.jobs.claim(wake_up_message(aws.job(job_id)), "agent-1", NOW_MS)
    aws.jobs.settle(taken, step, AttemptFacts(Outcome.FAILED))


def resubmit(api: Api, job_id: str, **changes: Any) -> Any:
    status, job = api("POST", f"/v1/jobs/{job_id}/resubmit", {"changes": changes})
    assert 202 == status, job
    return job


def test_an_edit_that_moves_a_job_leaves_its_deadline(api: Api):
    into, out = submit(api, queue="bulk"), submit(api)
    for job, queue, deadline in ((into, "default", None), (out, "bulk", AFTER_AN_HOUR)):
        status, edited = api("PATCH", f"/v1/jobs/{job['id']}", {"queue": queue})
        assert (200, queue, deadline) == (status, edited["queue"], edited["deadline"])
    status, edited = api("PATCH", f"/v1/jobs/{out['id']}", {"queue": "default", "deadline": None})
    assert (200, None) == (status, edited["deadline"])


def test_a_resubmission_keeps_the_deadline_and_null_brings_a_new_one(aws: Cloud, api: Api):
    job = submit(api)
    end(aws, job["id"])
    later = api_of(aws, NOW_MS + 1_800_000)
    assert AFTER_AN_HOUR == resubmit(later, job["id"])["deadline"]
    new = rfc3339(NOW_MS + 1_800_000 + HOUR_MS)
    assert new == resubmit(later, job["id"], deadline=None)["deadline"]


def test_a_job_that_was_to_have_none_is_resubmitted_without(aws: Cloud, api: Api):
    job = submit(api, deadline=None)
    end(aws, job["id"])
    assert resubmit(api, job["id"])["deadline"] is None
    assert resubmit(api, job["id"], timeout_s=5)["deadline"] is None


def test_a_typed_job_that_is_retried_gets_the_default_again(aws: Cloud, api: Api):
    store_type(aws, "bare", params_schema={"type": "object"}, items=None)
    jobs = [submit(api, type="bare", params={}, **more)["id"] for more in ({}, {"deadline": None})]
    for job_id in jobs:
        end(aws, job_id)
    later = api_of(aws, NOW_MS + 1_800_000)
    for job_id in jobs:
        assert 202 == later("POST", f"/v1/jobs/{job_id}/retry")[0]
    assert [rfc3339(NOW_MS + 1_800_000 + HOUR_MS), None] == [
        aws.job(job_id).spec.deadline for job_id in jobs
    ]


def test_a_replay_has_it_too(aws: Cloud, api: Api):
    store_type(aws, "bare", params_schema={"type": "object"}, items=None)
    job_id = submit(api, type="bare", params={})["id"]
    end(aws, job_id, State.DEAD)
    settings = admin.Settings.model_validate(ENVIRONMENT)
    operator = Api(admin.build(settings, aws.clients, lambda: NOW_MS / 1000 + 60), "client-acme")
    assert 202 == operator("POST", f"/v1/dlq/{job_id}/replay")[0]
    assert unix_ms(AFTER_AN_HOUR) + 60_000 == aws.job(job_id).deadline_ms


def test_the_queue_shows_it(aws: Cloud):
    settings = admin.Settings.model_validate(ENVIRONMENT)
    operator = Api(admin.build(settings, aws.clients, lambda: NOW_MS / 1000), "client-acme")
    _, page = operator("GET", "/v1/queues")
    found = {queue["name"]: queue["deadline_s"] for queue in page["entries"]}
    assert {"default": 3600, "bulk": None} == found
