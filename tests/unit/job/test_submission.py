"""The submission function: bad input is named and leaves nothing; good input is all there."""

import json
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from functions.submission.handler import Settings, build
from joblane.job.spec import MAX_BODY_BYTES
from tests.support.aws import DESCRIPTOR, FUNCTION_ENVIRONMENT, PREFIX, Cloud, configure
from tests.support.jobs import named
from tests.support.requests import REQUEST_ID, Api


def application(aws: Cloud) -> Any:
    return build(configure(Settings), aws.clients, time.time)


@pytest.fixture(name="api")
def _api(aws: Cloud) -> Api:
    return Api(application(aws))


def messages(aws: Cloud, lane: str = "default_default") -> list[Any]:
    answer = aws.clients.make("sqs").receive_message(
        QueueUrl=f"{PREFIX}joblane-lane-{lane}",
        MaxNumberOfMessages=10,
        MessageSystemAttributeNames=["All"],
    )
    return list(answer.get("Messages", []))


def rows(aws: Cloud) -> int:
    return aws.clients.make("dynamodb").scan(TableName=DESCRIPTOR.jobs_table)["Count"]


def test_a_job_is_stored_and_its_message_sent(aws: Cloud, api: Api):
    status, job = api("POST", "/v1/jobs", {"command": ["echo", "hi"], "labels": {"a": "b"}})
    assert 202 == status
    assert ("pending", "acme", "default", ["echo", "hi"]) == (
        job["state"],
        job["tenant"],
        job["queue"],
        job["command"],
    )
    assert "waits in lane default" in job["reason"]
    (message,) = messages(aws)
    assert named(job["id"]).encode() == message["Body"]
    assert "acme" == message["Attributes"]["MessageGroupId"]
    assert ("accepted", None, None) == (
        job.pop("admission"),
        job.pop("replaced"),
        job.pop("warning"),
    )
    assert (200, job) == api("GET", f"/v1/jobs/{job['id']}")


@pytest.mark.parametrize("tenant", ["other", "nobody"])
def test_a_job_cannot_require_another_tenants_quota(aws: Cloud, api: Api, tenant: str):
    """The answer is the same for a tenant that exists, and how busy it is stays its own."""
    requires = ["quota:acme", f"quota:{tenant}"]
    status, problem = api("POST", "/v1/jobs", {"command": ["true"], "requires": requires})
    assert 400 == status
    problem_of = {each["field"]: each["problem"] for each in problem["errors"]}
    assert {"requires.1": "may name this tenant's quota only, quota:acme"} == problem_of
    assert 0 == rows(aws)


def test_priority_and_queue_choose_the_lane(aws: Cloud, api: Api):
    api("POST", "/v1/jobs", {"command": ["x"], "queue": "bulk", "priority": "high"})
    assert 1 == len(messages(aws, "bulk_high"))


@pytest.mark.parametrize(
    ("resources", "field", "most"),
    [
        ({"memory_mb": 4097}, "resources.memory_mb", "4096"),
        ({"cpus": 2.5, "memory_mb": 2048}, "resources.cpus", "2"),  # the fleet that has the memory
        ({"disk_mb": 90_001}, "resources.disk_mb", "90000"),
    ],
)
def test_resources_that_no_fleet_gives_are_refused_with_the_most_that_is_allowed(
    aws: Cloud, api: Api, resources: dict[str, object], field: str, most: str
):
    status, problem = api("POST", "/v1/jobs", {"command": ["x"], "resources": resources})
    assert 400 == status
    (error,) = problem["errors"]
    assert field == error["field"]
    assert error["problem"].startswith(f"must be at most {most}, the most that a fleet of queue")
    assert 0 == rows(aws)


def test_resources_that_one_fleet_gives_are_accepted(api: Api):
    for resources in ({"memory_mb": 4096, "cpus": 2}, {"memory_mb": 1024, "cpus": 64}):
        assert 202 == api("POST", "/v1/jobs", {"command": ["x"], "resources": resources})[0]


def test_a_network_that_no_fleet_of_the_queue_allows_is_refused(aws: Cloud):
    environment = {**FUNCTION_ENVIRONMENT, "JOBLANE_WITHOUT_HOST_NETWORK": '["default"]'}
    function = build(Settings.model_validate(environment), aws.clients, time.time)
    api, job = Api(function), {"command": ["x"], "network": "host"}
    status, problem = api("POST", "/v1/jobs", job)
    assert 400 == status
    said = "must be none or egress: no fleet of queue default allows host (allow_host_network)"
    assert [{"field": "network", "problem": said}] == problem["errors"]
    assert 0 == rows(aws)
    status, answer = api("POST", "/v1/jobs/batch", {"jobs": [job]})
    assert "network" == answer["entries"][0]["errors"][0]["field"]
    for other in ({"queue": "bulk"}, {"target": "host:laptop"}, {"network": "egress"}):
        assert 202 == api("POST", "/v1/jobs", {**job, **other})[0]
    assert 400 == api("POST", "/v1/jobs", {**job, "target": "_any"})[0]


def test_a_large_submission_goes_aside_and_comes_back_whole(aws: Cloud, api: Api):
    command = ["run", "x" * 100_000, "y" * 100_000]
    status, job = api("POST", "/v1/jobs", {"command": command})
    assert 202 == status
    assert 2 == rows(aws)
    assert command == api("GET", f"/v1/jobs/{job['id']}")[1]["command"]


BAD = [
    ("{", "body"),
    ("", "body"),
    ("[]", "body"),
    ("null", "body"),
    ('{"command": "ls"}', "command"),
    ('{"command": []}', "command"),
    ('{"command": [""]}', "command"),
    ('{"command": ["a", 5]}', "command.1"),
    ('{"command": ["a\\u0000b"]}', "command.0"),
    ('{"command": ["a"], "comand": 1}', "comand"),
    ('{"command": ["a"], "queue": "nowhere"}', "queue"),
    ('{"command": ["a"], "priority": "urgent"}', "priority"),
    ('{"command": ["a"], "timeout_s": 0}', "timeout_s"),
    ('{"command": ["a"], "timeout_s": "5"}', "timeout_s"),
    ('{"command": ["a"], "timeout_s": 1e9}', "timeout_s"),
    ('{"command": ["a"], "retry": {"max_attempts": 0}}', "retry.max_attempts"),
    ('{"command": ["a"], "exit_codes": {"permanent": [0]}}', "exit_codes.permanent.0"),
    ('{"command": ["a"], "exit_codes": {"blocked": [9, 256]}}', "exit_codes.blocked.1"),
    ('{"command": ["a"], "exit_codes": {"blocked": [9, 9]}}', "exit_codes.blocked"),
    ('{"command": ["a"], "exit_codes": {"permanent": [9], "blocked": [9]}}', "exit_codes.blocked"),
    ('{"command": ["a"], "exit_codes": {"permanent": [9], "skipped": [9]}}', "exit_codes.skipped"),
    ('{"type": "sleep", "params": {"ms": 1}, "exit_codes": {"skipped": [75]}}', "exit_codes"),
    ('{"type": "sleep", "params": {"ms": 1}, "exit_codes": {"permanent": [65]}}', "exit_codes"),
    ('{"command": ["a"], "resources": {"cores": "3-1"}}', "resources.cores"),
    ('{"command": ["a"], "resources": {"cores": "0,0"}}', "resources.cores"),
    ('{"command": ["a"], "requires": ["app:x", "capacity:nowhere"]}', "requires.1"),
    ('{"command": ["a"], "env": {"A=B": "1"}}', "env.A=B"),
    ('{"command": ["a"], "env": {"JOBLANE_JOB_ID": "1"}}', "env.JOBLANE_JOB_ID"),
    ('{"command": ["a"], "tenant": "other"}', "tenant"),
]


@pytest.mark.parametrize("fleet", ["nowhere", "others"])
def test_a_condition_names_a_fleet_of_the_tenants_queues(api: Api, fleet: str):
    """The fleet `others` is there and serves a queue that is not this tenant's."""
    body = {"command": ["a"], "requires": [f"capacity:{fleet}"]}
    status, problem = api("POST", "/v1/jobs", body)
    allowed = "must name a fleet that serves a queue of this tenant: capacity:main"
    assert (400, [{"field": "requires.0", "problem": allowed}]) == (status, problem["errors"])
    assert 202 == api("POST", "/v1/jobs", {**body, "requires": ["capacity:main"]})[0]


@pytest.mark.parametrize(
    ("cores", "status"), [("0-3", 202), ("7,2", 202), ("5,8", 400), ("99", 400)]
)
def test_cores_that_no_instance_has_are_refused(aws: Cloud, cores: str, status: int):
    maxima = '{"default": [{"cores": 4}, {"cores": 8}]}'
    environment = {**FUNCTION_ENVIRONMENT, "JOBLANE_MAXIMA": maxima}
    api = Api(build(Settings.model_validate(environment), aws.clients, time.time))
    found, answer = api("POST", "/v1/jobs", {"command": ["a"], "resources": {"cores": cores}})
    assert status == found
    if status == 400:
        problem = "must name cores below 8: an instance of a fleet of queue default has 8"
        assert [{"field": "resources.cores", "problem": problem}] == answer["errors"]
    else:  # ascending, as agents take them
        assert {"0-3": "0-3", "7,2": "2,7"}[cores] == answer["resources"]["cores"]


@pytest.mark.parametrize(("body", "field"), BAD)
def test_bad_input_is_named_and_leaves_nothing(aws: Cloud, api: Api, body: str, field: str):
    answer = api.raw("POST", "/v1/jobs", body)
    problem = json.loads(answer["body"])
    assert 400 == answer["statusCode"]
    assert "application/problem+json" == answer["headers"]["Content-Type"]
    assert field in [error["field"] for error in problem["errors"]]
    assert REQUEST_ID == problem["instance"]
    assert 0 == rows(aws)
    assert [] == messages(aws)


def test_a_queue_of_another_tenant_is_as_unknown_as_one_that_is_not_there(aws: Cloud):
    other = Api(application(aws), "client-other")
    status, problem = other("POST", "/v1/jobs", {"command": ["a"], "queue": "bulk"})
    assert (400, "queue") == (status, problem["errors"][0]["field"])


def test_a_body_over_the_limit_is_refused_by_its_size(api: Api):
    status, problem = api("POST", "/v1/jobs", {"command": ["x" * MAX_BODY_BYTES]})
    assert 413 == status
    assert str(MAX_BODY_BYTES) in problem["detail"]


def test_errors_do_not_repeat_what_the_caller_sent(api: Api):
    answer = api.raw("POST", "/v1/jobs", {"command": ["a"], "env": {"TOKEN": 5, "X": "hunter2\0"}})
    assert "hunter2" not in answer["body"]


JSON_VALUES = st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(JSON_VALUES)
def test_no_json_makes_it_fall_over(api: Api, value: object):
    answer = api.raw("POST", "/v1/jobs", json.dumps({"command": value}))
    assert answer["statusCode"] in {202, 400}


@pytest.mark.parametrize("job_id", ["x", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "..", "%00"])
def test_an_unknown_job_is_not_found(api: Api, job_id: str):
    assert 404 == api("GET", f"/v1/jobs/{job_id}")[0]
    assert 404 == api("GET", f"/v1/jobs/{job_id}/logs")[0]


def test_another_tenants_job_is_as_absent_as_one_that_never_was(aws: Cloud, api: Api):
    job_id = api("POST", "/v1/jobs", {"command": ["a"]})[1]["id"]
    other = Api(application(aws), "client-other")
    stranger, nobody = (
        other("GET", f"/v1/jobs/{i}") for i in (job_id, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    )
    assert (404, nobody) == (stranger[0], stranger)
    assert [] == other("GET", "/v1/jobs")[1]["entries"]


def test_a_client_of_no_tenant_is_refused(aws: Cloud):
    assert 403 == Api(application(aws), "client-of-nobody")("GET", "/v1/jobs")[0]


@pytest.mark.parametrize("limit", ["0", "101", "-1", "ten", "", "1.5", "99999", "\u0661"])
def test_a_limit_out_of_range_is_refused(api: Api, limit: str):
    status, problem = api("GET", "/v1/jobs", query={"limit": limit})
    assert (400, "limit") == (status, problem["errors"][0]["field"])
    whole = "a whole number " if limit in {"ten", "", "1.5", "\u0661"} else ""
    assert f"must be {whole}between 1 and 100" == problem["errors"][0]["problem"]


def test_a_problem_spells_names_as_the_caller_does(api: Api):
    body = {"command": ["a"], "env": {"MyVar": "1"}, "secret_env": {"MyVar": "ssm:/joblane/a/b"}}
    status, problem = api("POST", "/v1/jobs", body)
    assert 400 == status
    assert problem["errors"] == [
        {"field": "secret_env", "problem": "MyVar is in env as well; set it once"}
    ]


@pytest.mark.parametrize("cursor", ["", "x", "Li4v", "\u00e9", "A" * 400])
def test_a_cursor_that_is_not_ours_is_refused(api: Api, cursor: str):
    assert 400 == api("GET", "/v1/jobs", query={"next": cursor})[0]
    job_id = api("POST", "/v1/jobs", {"command": ["a"]})[1]["id"]
    assert 400 == api("GET", f"/v1/jobs/{job_id}/logs", query={"next": cursor})[0]


def test_an_unknown_parameter_is_refused(api: Api):
    assert 400 == api("GET", "/v1/jobs", query={"stat": "dead"})[0]


def test_pages_hold_every_job_once_newest_first(aws: Cloud):
    moments = iter(range(1_800_000_000, 1_800_001_000))
    api = Api(build(configure(Settings), aws.clients, lambda: next(moments)))
    submitted = [api("POST", "/v1/jobs", {"command": ["a"]})[1]["id"] for _ in range(25)]
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        status, page = api("GET", "/v1/jobs", query={"limit": "10", **cursor})
        assert (200, 10) == (status, page["limit"])
        seen += [job["id"] for job in page["entries"]]
        if page["next"] is None:
            break
        cursor = {"next": page["next"]}
    assert submitted[::-1] == seen


def test_expired_jobs_are_hidden_before_ttl_deletes_them(aws: Cloud, api: Api):
    job_id = api("POST", "/v1/jobs", {"command": ["a"]})[1]["id"]
    aws.clients.make("dynamodb").update_item(
        TableName=DESCRIPTOR.jobs_table,
        Key={"job_id": {"S": job_id}, "sk": {"S": "JOB"}},
        UpdateExpression="SET expires_at = :past",
        ExpressionAttributeValues={":past": {"N": str(int(time.time()) - 1)}},
    )
    assert 404 == api("GET", f"/v1/jobs/{job_id}")[0]
    assert [] == api("GET", "/v1/jobs")[1]["entries"]


def test_aws_trouble_is_a_503_without_its_details(aws: Cloud, api: Api):
    aws.clients.make("dynamodb").delete_table(TableName=DESCRIPTOR.jobs_table)
    status, problem = api("GET", "/v1/jobs")
    assert 503 == status
    assert "ResourceNotFound" not in json.dumps(problem)


def test_an_unknown_route_is_a_problem_too(api: Api):
    answer = api.raw("GET", "/v1/nothing")
    assert (404, "application/problem+json") == (
        answer["statusCode"],
        answer["headers"]["Content-Type"],
    )


def test_a_missing_variable_is_named_at_the_cold_start():
    environment = {k: v for k, v in FUNCTION_ENVIRONMENT.items() if k != "JOBLANE_JOBS_TABLE"}
    with pytest.raises(ValidationError, match="JOBLANE_JOBS_TABLE"):
        Settings.model_validate(environment)
