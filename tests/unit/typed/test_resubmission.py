"""A job submitted again with changes: a JSON merge patch, and a submission like a new one."""

import json
import time
from typing import Any

import pytest

from functions.submission.handler import Settings, build
from joblane.aws.audit import AuditStore, TrailQuery
from joblane.formats.merge_patch import changed_paths, merge
from joblane.formats.times import rfc3339
from joblane.job.moves import AttemptFacts
from joblane.service.job.wake_up import wake_up_message
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import AUDIT_TABLE, DESCRIPTOR, FUNCTION_ENVIRONMENT, Cloud
from tests.support.requests import Api
from tests.support.types import PARAMS, store_type, type_store
from tests.unit.typed.test_jobs import GOOD

OF_THE_RFC: list[tuple[str, str, str]] = [
    ('{"a":"b"}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'),
    ('{"a":"b"}', '{"a":null}', "{}"),
    ('{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'),
    ('{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'),
    ('{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'),
    ('{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'),
    ('{"e":null}', '{"a":1}', '{"e":null,"a":1}'),
    ("{}", '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'),
]
"""Appendix A of RFC 7396, as far as documents and patches are objects."""


@pytest.mark.parametrize(("document", "patch", "result"), OF_THE_RFC)
def test_a_merge_patch_does_what_the_rfc_says(document: str, patch: str, result: str):
    assert json.loads(result) == merge(json.loads(document), json.loads(patch))


def test_changed_fields_are_named_two_levels_deep():
    patch = {"env": {"A": "b", "C": None}, "queue": "x", "params": {"a": {"b": 1}}, "labels": {}}
    assert ["env.A", "env.C", "queue", "params.a", "labels"] == list(changed_paths(patch, 2))


def made(api: Api, aws: Cloud, /, **fields: object) -> str:
    """The id of a job that has failed."""
    status, job = api("POST", "/v1/jobs", {"command": ["true"], **fields})
    assert 202 == status, job
    end(aws, job["id"])
    return str(job["id"])


def typed(api: Api, aws: Cloud, /, **fields: object) -> str:
    """The id of a job of a type that has failed."""
    status, job = api("POST", "/v1/jobs", {"type": "sync-tickets", "params": GOOD, **fields})
    assert 202 == status, job
    end(aws, job["id"])
    return str(job["id"])


def end(aws: Cloud, job_id: str) -> None:
    head = aws.job(job_id)
    at_ms = head.timeline[-1].at_ms + 1
    head = aws.jobs.claim(wake_up_message(head), "agent-1", at_ms)
    aws.jobs.settle(
        head, Step(State.FAILED, at_ms + 1, 1, "ended"), AttemptFacts(Outcome.PERMANENT)
    )


def again(api: Api, job_id: str, **changes: object) -> dict[str, Any]:
    """The job of a resubmission with changes, whole."""
    status, job = api("POST", f"/v1/jobs/{job_id}/resubmit", {"changes": changes})
    assert 202 == status, job
    return dict(api("GET", f"/v1/jobs/{job['id']}")[1])


def refused(api: Api, job_id: str, **changes: object) -> dict[str, str]:
    """The problems of a resubmission, by field."""
    body = {"changes": changes} if changes else None
    status, problem = api("POST", f"/v1/jobs/{job_id}/resubmit", body)
    assert 400 == status, problem
    return {entry["field"]: entry["problem"] for entry in problem["errors"]}


def test_a_change_sets_its_field_and_leaves_all_others(aws: Cloud, api: Api):
    job_id = made(
        api,
        aws,
        env={"A": "1", "B": "2"},
        resources={"memory_mb": 64, "pids": 9},
        timeout_s=5,
        labels={"team": "web"},
        queue="bulk",
    )
    job = again(
        api,
        job_id,
        resources={"memory_mb": 128},
        env={"B": None, "C": "3"},
        command=["sleep", "1"],
        timeout_s=None,
    )
    assert {"memory_mb": 128, "pids": 9}.items() <= job["resources"].items()
    assert ({"A": "1", "C": "3"}, ["sleep", "1"]) == (job["env"], job["command"])
    assert (600, {"team": "web"}, "bulk") == (job["timeout_s"], job["labels"], job["queue"])
    assert (job_id, "pending") == (job["resubmit_of"], job["state"])
    assert job["id"] == api("GET", f"/v1/jobs/{job_id}")[1]["resubmitted_as"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"colour": "red"}, "colour"),
        ({"resources": {"memory": 5}}, "resources.memory"),
        ({"resources": {"memory_mb": "5"}}, "resources.memory_mb"),
        ({"command": None}, "command"),
        ({"queue": "not-there"}, "queue"),
        ({"env": {"JOBLANE_X": "1"}}, "env.JOBLANE_X"),
        ({"secret_env": {"A": "ssm:/joblane/other/x"}}, "secret_env.A"),
        ({"deadline": "2001-01-01T00:00:00Z"}, "deadline"),
    ],
)
def test_what_is_not_acceptable_is_refused_by_its_field(
    aws: Cloud, api: Api, changes: dict[str, Any], field: str
):
    job_id = made(api, aws)
    assert {field} == refused(api, job_id, **changes).keys()
    assert api("GET", f"/v1/jobs/{job_id}")[1]["resubmitted_as"] is None


@pytest.mark.parametrize("changes", [[], "x", 5])
def test_changes_are_an_object(aws: Cloud, api: Api, changes: object):
    job_id = made(api, aws)
    status, problem = api("POST", f"/v1/jobs/{job_id}/resubmit", {"changes": changes})
    assert (400, "changes") == (status, problem["errors"][0]["field"])


def test_a_job_whose_deadline_has_passed_gets_another_one_or_none(aws: Cloud, api: Api):
    now_ms = aws.job(made(api, aws)).timeline[0].at_ms
    job_id = made(api, aws, deadline=rfc3339(now_ms + 60_000))
    late = aws.job(job_id).spec.model_copy(update={"deadline": rfc3339(now_ms - 1000)})
    store(aws, job_id, late.model_dump_json(exclude_defaults=True))
    status, problem = api("POST", f"/v1/jobs/{job_id}/resubmit")
    assert 409 == status
    assert "with another deadline, or with none" in problem["detail"]
    assert again(api, job_id, deadline=None)["deadline"] is None
    later = rfc3339(now_ms + 9_999_000)
    assert later == again(api, job_id, deadline=later)["deadline"]


def store(aws: Cloud, job_id: str, spec: str) -> None:
    """Write another submission into a job's row."""
    aws.clients.make("dynamodb").update_item(
        TableName=DESCRIPTOR.jobs_table,
        Key={"job_id": {"S": job_id}, "sk": {"S": "JOB"}},
        UpdateExpression="SET spec = :spec",
        ExpressionAttributeValues={":spec": {"S": spec}},
    )


def test_a_job_of_a_queue_that_is_gone_goes_to_another_one(aws: Cloud, api: Api):
    job_id = made(api, aws, queue="bulk")
    settings = {**FUNCTION_ENVIRONMENT, "JOBLANE_QUEUES": '{"default": []}'}
    later = Api(build(Settings.model_validate(settings), aws.clients, time.time))
    assert {"queue"} == refused(later, job_id).keys()
    assert "default" == again(later, job_id, queue="default")["queue"]
    assert "default" == again(later, job_id, queue=None)["queue"]


def test_params_that_a_new_schema_refuses_are_accepted_with_a_change(aws: Cloud, api: Api):
    store_type(aws)
    job_id = typed(api, aws)
    stricter = {**PARAMS, "required": ["origin", "since"]}
    store_type(aws, params_schema=stricter)
    assert {"params.since": "required"} == refused(api, job_id)
    assert {"params.since"} == refused(api, job_id, params={"since": "x"}).keys()
    job = again(api, job_id, params={"since": 5, "tickets": [1]})
    assert ({**GOOD, "since": 5, "tickets": [1]}, 2, 1) == (
        job["params"],
        job["type_version"],
        job["items"],
    )


def test_what_the_submitter_gave_or_changes_stays_and_the_type_fills_in_the_rest(
    aws: Cloud, api: Api
):
    first = {"timeout_s": 60, "env": {"MODE": "old", "LEVEL": "1"}, "resources": {"pids": 9}}
    store_type(aws, defaults=first)
    job_id = typed(api, aws, env={"LEVEL": "2"}, timeout_s=600)
    second = {
        "timeout_s": 90,
        "env": {"MODE": "new", "LEVEL": "3"},
        "resources": {"pids": 5, "memory_mb": 99},
        "priority": "high",
    }
    store_type(aws, defaults=second)
    job = again(api, job_id, resources={"memory_mb": 128})
    assert {"MODE": "new", "LEVEL": "2"} == job["env"]
    assert {"memory_mb": 128, "pids": 5}.items() <= job["resources"].items()
    assert (600, "high", 2) == (job["timeout_s"], job["priority"], job["type_version"])
    end(aws, job["id"])
    # What was changed is given from now on; null gives it back to the type.
    more = again(api, job["id"], env={"LEVEL": None}, timeout_s=None)
    assert {"MODE": "new", "LEVEL": "3"} == more["env"]
    assert (128, 90) == (more["resources"]["memory_mb"], more["timeout_s"])
    assert ("resources.memory_mb",) == aws.job(more["id"]).given


def test_a_queue_that_was_chosen_stays_unless_it_is_changed(aws: Cloud, api: Api):
    store_type(aws)
    job_id = typed(api, aws)
    store_type(aws, defaults={"queue": "bulk"})
    assert "default" == again(api, job_id, timeout_s=5)["queue"]
    assert "bulk" == again(api, job_id, queue=None)["queue"]
    its_types = typed(api, aws)
    assert ("bulk", ()) == (aws.job(its_types).queue, aws.job(its_types).given)
    assert "bulk" == again(api, its_types, queue=None)["queue"]
    assert "default" == again(api, its_types, queue="default")["queue"]
    given = again(api, job_id, queue="default")
    assert ("default", ("queue",)) == (given["queue"], aws.job(given["id"]).given)


def test_a_job_may_become_one_of_another_type_or_a_command(aws: Cloud, api: Api):
    store_type(aws, defaults={"timeout_s": 60})
    store_type(aws, name="sync-users", defaults={"priority": "low", "timeout_s": 90})
    job_id = typed(api, aws)
    other = again(api, job_id, type="sync-users")
    assert ("sync-users", 90, "low") == (other["type"], other["timeout_s"], other["priority"])
    given = typed(api, aws, timeout_s=600)
    assert 600 == again(api, given, type="sync-users")["timeout_s"]
    command = again(api, job_id, type=None, params=None, command=["true"])
    assert (None, ["true"], None) == (command["type"], command["command"], command["params"])
    end(aws, command["id"])
    back = again(api, command["id"], type="sync-tickets", params=GOOD, command=None)
    assert ("sync-tickets", 60, 1) == (back["type"], back["timeout_s"], back["type_version"])
    plain = made(api, aws, timeout_s=7)
    first = again(api, plain, type="sync-tickets", params=GOOD, command=None)
    end(aws, first["id"])
    assert 7 == again(api, first["id"], priority="high")["timeout_s"]  # the submitter gave it
    type_store(aws).remove("acme", "sync-tickets", 1)
    assert {"type"} == refused(api, job_id).keys()


def test_a_job_of_a_built_in_type_has_the_command_of_its_changed_params(aws: Cloud, api: Api):
    job_id = made(api, aws, command=[], type="sleep", params={"ms": 5})
    job = again(api, job_id, params={"ms": 7})
    assert {"ms": 7}.items() <= job["params"].items()
    new = aws.job(job["id"]).spec.command
    assert new != aws.job(job_id).spec.command
    assert new


def test_an_idempotency_key_is_for_the_same_changes(aws: Cloud, api: Api):
    job_id = made(api, aws)
    path, key = f"/v1/jobs/{job_id}/resubmit", {"idempotency-key": '"k-1"'}
    first = api("POST", path, {"changes": {"timeout_s": 5}}, headers=key)[1]
    assert first["id"] == api("POST", path, {"changes": {"timeout_s": 5}}, headers=key)[1]["id"]
    assert 422 == api("POST", path, {"changes": {"timeout_s": 6}}, headers=key)[0]


def test_the_audit_trail_names_what_was_changed_and_no_value(aws: Cloud, api: Api):
    job_id = made(api, aws)
    changes = {"env": {"A": "SECRET"}, "timeout_s": 7}
    body = {"changes": changes, "reason": "too slow"}
    assert 202 == api("POST", f"/v1/jobs/{job_id}/resubmit", body)[0]
    many = {"env": {f"V{number}": "SECRET" for number in range(50)}}
    again(api, job_id, **many)
    trail = AuditStore(aws.clients.make("dynamodb"), AUDIT_TABLE)
    (last, first), _ = trail.of_tenant("acme", TrailQuery(limit=10))
    assert ("resubmit", "too slow") == (first.action, first.reason)
    assert {"changes": ["env.A", "timeout_s"]} == json.loads(first.asked_json or "")
    assert {"changes": ["env"]} == json.loads(last.asked_json or "")
