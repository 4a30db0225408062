"""Who did what: each action that changes something is in the trail, whatever became of it."""

import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, get_args

import pytest

from functions.admin import handler as admin
from functions.submission import handler as submission
from joblane.audit.records import Action
from joblane.aws.errors import AwsRefused
from joblane.contract.audit import ACTION_REASON_CHARS
from joblane.contract.route import Route
from joblane.contract.routes import ROUTES
from joblane.state.lease import Heartbeat
from tests.support.aws import AUDIT_TABLE, Cloud, configure
from tests.support.jobs import JOB
from tests.support.requests import REQUEST_ID, Api
from tests.support.types import described

AUDITED = [route for route in ROUTES if route.action is not None]
SUBMISSIONS = {"POST /v1/jobs", "POST /v1/jobs/batch"}
"""What needs no record: who submitted a job stands in its head."""

BODIES = {
    "POST /v1/agents/{agent}/log-level": {"level": "debug"},
    "PATCH /v1/jobs/{job_id}": {"priority": "low"},
    "PUT /v1/queues/{queue}/settings": {
        "run_jobs": False,
        "threads": None,
        "cluster_threads": None,
    },
    "PUT /v1/conditions/{condition}": {"state": "down"},
    "PUT /v1/types/{type}": described(),
    "POST /v1/schedules": {
        "name": "a",
        "every_s": 60,
        "submission": {"command": ["a"], "queue": "nowhere"},
    },
    "PATCH /v1/schedules/{schedule}": {"every_s": 60},
    "POST /v1/schedules/{schedule}/backfill": {
        "from": "2026-01-01T00:00:00Z",
        "to": "2026-01-02T00:00:00Z",
    },
}
"""What those need that do not come without a body."""

KEY = {"scope": "command", "key": "0" * 32}

Make = Callable[..., Api]


@pytest.fixture(name="make")
def _make(aws: Cloud) -> Make:
    def make(
        function: str, client_id: str = "client-acme", claims: Mapping[str, str] | None = None
    ) -> Api:
        module: Any = {"admin": admin, "submission": submission}[function]
        settings = configure(module.Settings)
        return Api(module.build(settings, aws.clients, time.time), client_id, claims)

    return make


def trail(make: Make, client_id: str = "client-acme", **query: str) -> list[dict[str, Any]]:
    status, page = make("admin", client_id)("GET", "/v1/audit", query=query)
    assert 200 == status, page
    entries: list[dict[str, Any]] = page["entries"]
    return entries


def of_job(api: Api, job_id: str, **query: str) -> list[dict[str, Any]]:
    status, page = api("GET", f"/v1/jobs/{job_id}/audit", query=query)
    assert 200 == status, page
    entries: list[dict[str, Any]] = page["entries"]
    return entries


def pages_of_job(api: Api, job_id: str, limit: str) -> list[str]:
    """The actions of a job's trail, read in pages."""
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        _, page = api("GET", f"/v1/jobs/{job_id}/audit", query={"limit": limit, **cursor})
        seen += [entry["action"] for entry in page["entries"]]
        if page["next"] is None:
            return seen
        cursor = {"next": page["next"]}


def a_job(api: Api) -> str:
    job_id: str = api("POST", "/v1/jobs", {"command": ["true"]})[1]["id"]
    return job_id


def test_every_route_that_changes_something_names_its_action():
    silent = {route.key for route in ROUTES if route.method != "GET" and route.action is None}
    reading = {route.key for route in ROUTES if route.reads}
    assert {"POST /v1/queues/explain", "POST /v1/schedules/preview"} == reading
    assert SUBMISSIONS | reading == silent
    assert not [route.key for route in AUDITED if route.method == "GET"]
    assert sorted(get_args(Action)) == sorted(str(route.action) for route in AUDITED)


@pytest.mark.parametrize(
    "route",
    # Whoever may ask for an upload gets it: tests/unit/typed/test_api.py,
    # tests/unit/files/test_routes.py
    [route for route in AUDITED if route.action not in ("upload-bundle", "upload-files")],
    ids=lambda route: route.key,
)
def test_every_action_is_in_the_trail_before_anything_is_looked_at(make: Make, route: Route):
    names = {
        "job_id": JOB,
        "group": JOB,
        "queue": "nowhere",
        "agent": "nobody",
        "condition": "http:up",
        "schedule": "nothing",
    } | KEY
    names["type"] = "sleep"
    path = route.path.format(**names)
    headers = {"if-match": "*"}
    body = BODIES.get(route.key)
    client = "client-acme" if "admin.mutate" in route.scopes else "client-platform"
    client = "client-acme" if route.function == "submission" else client
    api = make(route.function, client)
    status = api.raw(route.method, path, body, headers=headers)["statusCode"]
    assert status in range(400, 500)
    (entry,) = trail(make, client)
    assert (route.action, "machine", status) == (
        entry["action"],
        entry["by"]["kind"],
        entry["refused"]["status"],
    )
    assert {name: value for name, value in names.items() if f"{{{name}}}" in route.path} == (
        entry["target"]
    )
    assert REQUEST_ID == entry["request_id"]


def test_what_was_done_is_told_with_its_reason(make: Make, api: Api):
    job_id = a_job(api)
    assert 202 == api("POST", f"/v1/jobs/{job_id}/cancel", {"reason": "wrong input"})[0]
    (entry,) = trail(make)
    assert ("cancel", "wrong input", None) == (entry["action"], entry["reason"], entry["refused"])
    assert 409 == api("POST", f"/v1/jobs/{job_id}/cancel")[0]
    again, first, submitted = of_job(api, job_id)
    assert entry == first
    assert (None, 409) == (again["reason"], again["refused"]["status"])
    assert "cancelled" in again["refused"]["detail"]
    assert ("submit", job_id, entry["by"], REQUEST_ID) == (
        submitted["action"],
        submitted["id"],
        submitted["by"],
        submitted["request_id"],
    )


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs/batch"])
def test_a_job_was_submitted_when_it_was_created(aws: Cloud, path: str):
    seconds = count(int(time.time()))  # a second passes at each look at the clock
    settings = configure(submission.Settings)
    api = Api(submission.build(settings, aws.clients, lambda: next(seconds)), "client-acme")
    spec = {"command": ["true"]}
    answer = api("POST", path, {"jobs": [spec]} if path.endswith("batch") else spec)[1]
    job_id = answer["entries"][0]["job"]["id"] if path.endswith("batch") else answer["id"]
    (submitted,) = of_job(api, job_id)
    assert api("GET", f"/v1/jobs/{job_id}")[1]["created_at"] == submitted["at"]


def test_deleting_a_job_does_not_remove_who_submitted_it(make: Make, api: Api):
    job_id = a_job(api)
    (before,) = of_job(api, job_id)
    answer = api.raw("DELETE", f"/v1/jobs/{job_id}", {"reason": "a mistake"})
    assert 204 == answer["statusCode"]
    deleted, submitted = of_job(api, job_id)
    assert ("delete", "a mistake") == (deleted["action"], deleted["reason"])
    assert before == submitted
    assert before in trail(make)
    other = make("submission", "client-other")
    assert 404 == other("GET", f"/v1/jobs/{job_id}/audit")[0]


@pytest.mark.parametrize("limit", ["1", "2", "10"])
def test_a_deletion_that_fails_leaves_one_submission_in_the_trail(
    aws: Cloud, make: Make, api: Api, limit: str
):
    def fail(**_: object) -> None:
        raise AwsRefused({"Error": {"Code": "InternalServerError"}}, "DeleteItem")

    job_id = a_job(api)
    aws.emitter().register("before-call.dynamodb.DeleteItem", fail)
    assert 503 == make("submission")("DELETE", f"/v1/jobs/{job_id}")[0]
    assert ["delete", "submit"] == pages_of_job(api, job_id, limit)


@pytest.mark.parametrize(
    "route",
    [*AUDITED, *(route for route in ROUTES if route.key in SUBMISSIONS)],
    ids=lambda route: route.key,
)
def test_a_change_refused_for_the_role_is_in_the_trail_of_the_callers_tenant(
    make: Make, route: Route
):
    names = {
        "job_id": JOB,
        "group": JOB,
        "queue": "default",
        "agent": "nobody",
        "condition": "app:up",
        "schedule": "nothing",
    } | KEY
    names["type"] = "a"
    api = make(route.function, "client-people", {"cognito:groups": "[acme:reader]"})
    status, problem = api(route.method, route.path.format(**names), {"reason": 5})
    assert 403 == status
    (entry,) = trail(make)
    assert (route.action or "submit", 403, problem["detail"], "client-people") == (
        entry["action"],
        entry["refused"]["status"],
        entry["refused"]["detail"],
        entry["by"]["subject"],
    )
    assert {name: value for name, value in names.items() if f"{{{name}}}" in route.path} == (
        entry["target"]
    )


SHARED = {"run_jobs": False, "threads": None, "cluster_threads": None, "reason": "upgrade"}

BY_PLATFORM = [
    (("PUT", "/v1/queues/default/settings", SHARED), 200, ["acme", "other"]),
    (("PUT", "/v1/queues/bulk/settings", SHARED), 200, ["acme"]),
    (("PUT", "/v1/queues/bulk/settings", {**SHARED, "threads": -1}), 400, []),
    (("PUT", "/v1/conditions/app:billing", {"state": "down"}), 200, ["acme", "other"]),
    (("POST", "/v1/agents/of-default/drain", {"reason": "upgrade"}), 409, ["acme", "other"]),
    (("POST", "/v1/agents/of-bulk/drain", {"reason": "upgrade"}), 202, ["acme"]),
    (("POST", "/v1/agents/of-bulk/cordon", {"reason": "kernel"}), 202, ["acme"]),
    (("POST", "/v1/agents/of-bulk/uncordon", {}), 202, ["acme"]),
    (("POST", "/v1/agents/of-bulk/log-level", {"level": "debug"}), 202, ["acme"]),
    (("POST", "/v1/agents/nobody/drain", {"reason": "upgrade"}), 404, []),
]


@pytest.mark.parametrize(("call", "status", "tenants"), BY_PLATFORM)
def test_what_the_role_platform_does_is_in_the_trail_of_each_tenant_that_it_affects(
    aws: Cloud, make: Make, call: tuple[str, str, object], status: int, tenants: list[str]
):
    now_ms = int(time.time() * 1000)
    for queue in ("default", "bulk"):
        aws.agents.beat(Heartbeat(f"of-{queue}", 0, now_ms, 4, 0, (queue,), "full", "0"))
    aws.clients.make("sqs").create_queue(QueueName="joblane-inbox-of-bulk")
    answer = make("admin", "client-platform").raw(*call, headers={"if-match": "*"})
    assert status == answer["statusCode"]
    told = trail(make, "client-platform")
    assert (0 if status == 400 else 1) == len(told)
    assert all(entry["by_platform"] and "ops" == entry["by"]["name"] for entry in told)
    for tenant in ("acme", "other"):
        assert (told if tenant in tenants else []) == trail(make, f"client-{tenant}")


def test_an_agent_that_runs_a_tenants_job_affects_the_tenant_whatever_it_serves(
    aws: Cloud, make: Make
):
    """It adopted the job when it was started again with other queues."""
    job_id = make("submission", "client-other")("POST", "/v1/jobs", {"command": ["true"]})[1]["id"]
    now_ms = int(time.time() * 1000)
    aws.agents.beat(Heartbeat("a", 0, now_ms, 4, 1, ("bulk",), "full", "0", jobs=(job_id,)))
    make("admin", "client-platform")("POST", "/v1/agents/a/drain")
    (entry,) = trail(make, "client-other")
    assert ("drain", True) == (entry["action"], entry["by_platform"])


def test_without_the_trail_of_each_tenant_the_role_platform_does_nothing(aws: Cloud, make: Make):
    def fail(params: Mapping[str, Any], **_: object) -> None:
        if {"S": "other"} == params["Item"]["tenant"]:
            raise AwsRefused({"Error": {"Code": "InternalServerError"}}, "PutItem")

    aws.emitter().register("provide-client-params.dynamodb.PutItem", fail)
    api = make("admin", "client-platform")
    path = "/v1/queues/default/settings"
    assert 503 == api.raw("PUT", path, SHARED, headers={"if-match": "*"})["statusCode"]
    assert 0 == api("GET", path)[1]["version"]


def test_a_refusal_is_answered_even_if_it_cannot_be_recorded(aws: Cloud, make: Make):
    aws.clients.make("dynamodb").delete_table(TableName=AUDIT_TABLE)
    api = make("submission", "client-people", {"cognito:groups": "[acme:reader]"})
    assert 403 == api("POST", f"/v1/jobs/{JOB}/cancel")[0]


@pytest.mark.parametrize("job_id", ["x", "01ARZ3NDEKTSV4RRFFQ69G5FAV"])
def test_a_job_that_never_was_has_no_trail(api: Api, job_id: str):
    assert 404 == api("GET", f"/v1/jobs/{job_id}/audit")[0]


def test_a_tenant_sees_its_own_trail_only(make: Make, api: Api):
    job_id = a_job(api)
    other = make("submission", "client-other")
    assert 404 == other("POST", f"/v1/jobs/{job_id}/cancel")[0]
    assert [] == trail(make)
    assert ["submit"] == [entry["action"] for entry in of_job(api, job_id)]
    assert [404] == [entry["refused"]["status"] for entry in trail(make, "client-other")]


def test_what_is_asked_for_is_kept_beside_the_target(make: Make):
    make("admin")("POST", "/v1/queues/default/requeue", query={"type": "sleep"})
    (entry,) = trail(make)
    assert ({"queue": "default"}, {"type": "sleep"}) == (entry["target"], entry["asked"])
    settings = {"run_jobs": False, "threads": None, "cluster_threads": 3}
    why = {**settings, "reason": "maintenance"}
    headers = {"if-match": "*"}
    put = make("admin").raw("PUT", "/v1/queues/bulk/settings", why, headers=headers)
    assert 200 == put["statusCode"]
    assert settings == trail(make)[0]["asked"]
    body = {"state": "down", "reason": "its disk is full"}
    make("admin")("PUT", "/v1/conditions/http:up", body)
    declared = trail(make)[0]
    assert ("its disk is full", {"state": "down"}) == (declared["reason"], declared["asked"])


BAD_REASONS = [
    {"reason": ""},
    {"reason": "a\nb"},
    {"reason": 5},
    {"reason": "x" * (ACTION_REASON_CHARS + 1)},
]


@pytest.mark.parametrize("body", [*BAD_REASONS, {"raeson": "x"}, [], "{"])
def test_a_bad_reason_is_named_and_nothing_is_done(make: Make, api: Api, body: object):
    job_id = a_job(api)
    status, problem = api("POST", f"/v1/jobs/{job_id}/cancel", body)
    assert 400 == status
    assert problem["errors"][0]["field"] in ("reason", "raeson", "body")
    assert [] == trail(make)
    assert "pending" == api("GET", f"/v1/jobs/{job_id}")[1]["state"]


def test_what_a_dying_function_did_is_in_the_trail(aws: Cloud, make: Make, api: Api):
    class Killed(BaseException):
        pass

    def die(**_: object) -> None:
        raise Killed

    job_id = a_job(api)
    aws.emitter().register("before-call.dynamodb.UpdateItem", die)
    with pytest.raises(Killed):
        make("submission")("POST", f"/v1/jobs/{job_id}/cancel")
    (entry,) = trail(make)
    assert ("cancel", None) == (entry["action"], entry["refused"])


def test_trouble_of_aws_is_told_as_such(aws: Cloud, make: Make, api: Api):
    def fail(**_: object) -> None:
        raise AwsRefused({"Error": {"Code": "InternalServerError"}}, "UpdateItem")

    job_id = a_job(api)
    aws.emitter().register("before-call.dynamodb.UpdateItem", fail)
    assert 503 == make("submission")("POST", f"/v1/jobs/{job_id}/cancel")[0]
    (entry,) = trail(make)
    assert 503 == entry["refused"]["status"]


def test_without_a_trail_nothing_is_done(aws: Cloud, api: Api):
    job_id = a_job(api)
    aws.clients.make("dynamodb").delete_table(TableName=AUDIT_TABLE)
    assert 503 == api("POST", f"/v1/jobs/{job_id}/cancel")[0]
    assert "pending" == api("GET", f"/v1/jobs/{job_id}")[1]["state"]


def test_the_trail_of_a_job_is_read_in_pages_to_its_submission(api: Api):
    job_id = a_job(api)
    for _ in range(3):
        api("POST", f"/v1/jobs/{job_id}/retry")
    assert ["retry", "retry", "retry", "submit"] == pages_of_job(api, job_id, "1")


def test_moments_and_actions_narrow_the_trail(make: Make, api: Api):
    job_id = a_job(api)
    api("POST", f"/v1/jobs/{job_id}/retry")
    api("POST", f"/v1/jobs/{job_id}/cancel")
    assert ["cancel"] == [entry["action"] for entry in trail(make, action="cancel")]
    assert [] == trail(make, until="2020-01-01T00:00:00Z")
    assert 2 == len(trail(make, since="2020-01-01T00:00:00Z"))


@pytest.mark.parametrize(
    "query",
    [{"action": "steal"}, {"since": "yesterday"}, {"limit": "0"}, {"next": "x"}, {"by": "a"}],
)
def test_a_filter_that_is_none_is_named(make: Make, query: dict[str, str]):
    status, problem = make("admin")("GET", "/v1/audit", query=query)
    assert (400, list(query)) == (status, [error["field"] for error in problem["errors"]])
