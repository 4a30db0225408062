"""The submission function chooses a queue by filters, and explains its choice without storing."""

import json
import subprocess
import sys
import time
from typing import Any

import pytest

from functions.submission.handler import Settings, build
from joblane.state.lifecycle import State
from tests.support.aws import DESCRIPTOR, FUNCTION_ENVIRONMENT, Cloud
from tests.support.requests import Api
from tests.support.types import store_type

QUEUES: dict[str, list[str]] = {"default": [], "bulk": ["acme"], "theirs": ["other"]}

BULK = "'size' in labels && labels.size == 'big'"
"""The filter of the queue bulk, which is acme's alone."""

NOON = 1_728_046_740.0  # 2024-10-04T12:59:00Z


def api_of(
    aws: Cloud,
    *filters: tuple[str, int, str],
    client: str = "client-acme",
    default: str = "default",
    own: dict[str, str] | None = None,
    at: float | None = None,
) -> Api:
    environment = FUNCTION_ENVIRONMENT | {
        "JOBLANE_QUEUES": json.dumps(QUEUES),
        "JOBLANE_FILTERS": json.dumps(filters),
        "JOBLANE_DEFAULT_QUEUE": default,
        "JOBLANE_DEFAULT_QUEUES": json.dumps(own or {}),
    }
    clock = time.time if at is None else lambda: at
    return Api(build(Settings.model_validate(environment), aws.clients, clock), client)


@pytest.fixture(name="api")
def _api(aws: Cloud) -> Api:
    return api_of(aws, ("theirs", 20, "true"), ("bulk", 10, BULK))


def submit(api: Api, **fields: Any) -> Any:
    body = {"command": ["true"], **fields}
    status, job = api("POST", "/v1/jobs", body)
    assert 202 == status, job
    _, choice = api("POST", "/v1/queues/explain", body)
    assert job["queue"] == choice["queue"]
    return job


def submit_refused(api: Api, **fields: Any) -> str:
    body = {"command": ["true"], **fields}
    status, problem = api("POST", "/v1/jobs", body)
    assert (400, "queue") == (status, problem["errors"][0]["field"])
    status, choice = api("POST", "/v1/queues/explain", body)
    assert (200, None) == (status, choice["queue"])
    assert f"queue {problem['errors'][0]['problem']}" == choice["reason"]
    return str(problem["detail"])


BIG = {"labels": {"size": "big"}}


def test_the_first_true_filter_takes_the_job(api: Api):
    assert "bulk" == submit(api, **BIG)["queue"]
    assert "waits in lane default of queue bulk" in submit(api, **BIG)["reason"]


def test_what_no_filter_takes_goes_to_the_default(api: Api):
    assert "default" == submit(api)["queue"]
    assert "default" == submit(api, labels={"size": "small"})["queue"]


def test_the_named_queue_takes_the_job_whatever_the_filters_say(api: Api):
    assert "default" == submit(api, queue="default", **BIG)["queue"]
    assert "bulk" == submit(api, queue="bulk")["queue"]


def test_filters_of_other_tenants_queues_are_not_evaluated(aws: Cloud):
    """`theirs` would take every job, and is before `bulk`."""
    filters = (("theirs", 20, "true"), ("bulk", 10, "true"))
    assert "bulk" == submit(api_of(aws, *filters))["queue"]
    # For the tenant `other`, bulk is another tenant's.
    other = api_of(aws, ("theirs", 20, "false"), ("bulk", 10, "true"), client="client-other")
    assert "default" == submit(other)["queue"]


def test_a_tenants_queues_have_priority_among_them(aws: Cloud):
    filters = (("default", 20, "priority == 'high'"), ("bulk", 10, "true"))
    assert "default" == submit(api_of(aws, *filters), priority="high")["queue"]
    assert "bulk" == submit(api_of(aws, *filters), priority="low")["queue"]


def test_without_a_default_of_its_own_a_tenant_gets_a_reason(aws: Cloud):
    api = api_of(aws, ("bulk", 10, BULK), default="theirs")
    assert "bulk" == submit(api, **BIG)["queue"]
    assert submit_refused(api) == (
        "queue is required: no filter is true for this job, and the default queue is not this "
        "tenant's; it may name default, bulk"
    )
    unknown = "queue is unknown; this tenant may use default, bulk"
    assert [unknown] * 2 == [
        submit_refused(api, queue="theirs"),
        submit_refused(api, queue="absent"),
    ]


def test_a_tenant_may_have_a_default_queue_of_its_own(aws: Cloud):
    own = {"acme": "bulk"}
    api = api_of(aws, ("default", 20, "priority == 'high'"), own=own)
    assert "bulk" == submit(api)["queue"]
    assert "default" == submit(api, priority="high")["queue"]
    assert "default" == submit(api, queue="default")["queue"]
    assert "default" == submit(api_of(aws, client="client-other", own=own))["queue"]


def test_an_error_is_not_true_and_is_logged_once_a_process(
    aws: Cloud, caplog: pytest.LogCaptureFixture
):
    api = api_of(aws, ("bulk", 10, "labels.size == 'big'"))
    assert ["default"] * 3 == [submit(api)["queue"] for _ in range(3)]
    assert "bulk" == submit(api, **BIG)["queue"]
    (record,) = [each for each in caplog.records if each.msg == "filter failed"]
    said = ("bulk", 'key not found in map : "size"')
    assert said == (vars(record)["queue"], vars(record)["error"])


def test_each_job_of_a_batch_is_routed_by_itself(api: Api):
    jobs = [{"command": ["true"], **fields} for fields in ({}, BIG, {"queue": "bulk"})]
    jobs.append({"command": ["true"], "queue": "theirs"})
    _, answer = api("POST", "/v1/jobs/batch", {"jobs": jobs})
    entries = [entry.get("job", {}).get("queue") for entry in answer["entries"]]
    assert ["default", "bulk", "bulk", None] == entries
    assert 400 == answer["entries"][3]["status"]


def test_the_queue_of_a_type_counts_as_named(aws: Cloud, api: Api):
    params = {"origin": "acme", "tickets": [1]}
    store_type(aws, defaults={"queue": "default"})
    typed = {"command": [], "type": "sync-tickets", "params": params}
    assert "default" == submit(api, **typed, **BIG)["queue"]


def test_filters_see_the_type_its_defaults_and_the_items_that_it_counts(aws: Cloud):
    store_type(aws, defaults={"priority": "high"})
    filter_ = "job_type == 'sync-tickets' && priority == 'high' && items == 3"
    api = api_of(aws, ("bulk", 10, filter_))
    typed = {"command": [], "type": "sync-tickets"}
    three = {"origin": "acme", "tickets": [1, 2, 3]}
    assert "bulk" == submit(api, **typed, params=three)["queue"]
    assert "default" == submit(api, **typed, params={**three, "tickets": []})["queue"]
    assert "default" == submit(api, **typed, params=three, priority="low")["queue"]


def test_a_scheduled_job_is_routed_at_submission_for_the_hour_of_its_start(aws: Cloud):
    api = api_of(aws, ("bulk", 10, "hour == 3"), at=NOON)
    job = submit(api, run_at="2024-10-06T03:30:00Z")
    assert (State.SCHEDULED, "bulk") == (job["state"], job["queue"])
    stored = aws.job(job["id"])
    assert "bulk" == stored.queue
    assert "default" == submit(api)["queue"]


def test_a_resubmitted_job_keeps_its_queue(aws: Cloud):
    """The stored submission names it: what was routed once is not routed again."""
    job = submit(api_of(aws, ("bulk", 10, BULK)), **BIG)
    api = api_of(aws)  # the filter has been removed since
    api("POST", f"/v1/jobs/{job['id']}/cancel")
    status, again = api("POST", f"/v1/jobs/{job['id']}/resubmit")
    assert (202, "bulk") == (status, again["queue"])


def test_explaining_stores_nothing_and_names_each_queue_of_the_tenant(aws: Cloud, api: Api):
    status, choice = api("POST", "/v1/queues/explain", {"command": ["true"], **BIG})
    assert (200, "bulk", "its filter is the first that is true") == (
        status,
        choice["queue"],
        choice["reason"],
    )
    assert [
        {
            "queue": "bulk",
            "filter_order": 10,
            "filter": BULK,
            "verdict": "takes",
            "reason": "its filter is the first that is true",
        },
        {
            "queue": "default",
            "filter_order": None,
            "filter": None,
            "verdict": "no_filter",
            "reason": "it has no filter, so it takes jobs only by name, or if no filter is true",
        },
    ] == choice["entries"]
    table = aws.clients.make("dynamodb").scan(TableName=DESCRIPTOR.jobs_table)
    assert 0 == table["Count"]


def test_explaining_shows_no_queue_of_another_tenant(api: Api):
    body = {"command": ["true"]}
    answers = [
        json.dumps(api("POST", "/v1/queues/explain", {**body, "queue": queue})[1])
        for queue in ("theirs", "nobody")
    ]
    assert answers[0].replace("theirs", "nobody") == answers[1]
    assert "theirs" not in json.dumps(api("POST", "/v1/queues/explain", body)[1])


def test_explaining_takes_a_submission_and_nothing_else(api: Api):
    status, problem = api("POST", "/v1/queues/explain", {"command": [], "color": "red"})
    assert 400 == status
    assert {"command", "color"} == {entry["field"] for entry in problem["errors"]}
    status, problem = api("POST", "/v1/queues/explain", {"type": "absent", "params": {}})
    assert (400, "type") == (status, problem["errors"][0]["field"])


def test_a_reader_may_not_explain_and_no_trail_is_written(aws: Cloud):
    environment = FUNCTION_ENVIRONMENT | {"JOBLANE_QUEUES": json.dumps(QUEUES)}
    app = build(Settings.model_validate(environment), aws.clients, time.time)
    reader = Api(app, claims={"scope": "joblane/jobs.read"})
    status, problem = reader("POST", "/v1/queues/explain", {"command": ["true"]})
    assert (403, True) == (status, "jobs.submit" in problem["detail"])
    trail = aws.clients.make("dynamodb").scan(TableName=FUNCTION_ENVIRONMENT["JOBLANE_AUDIT_TABLE"])
    assert 0 == trail["Count"]


LOADED = """
import json, sys, time
from functions.submission.handler import Settings, build
from joblane.contract.principal import Principal
from joblane.job.spec import Submission
from joblane.queue.routing import DefaultQueues, QueueFilter
from joblane.service.queue.router import QueueRouter
from joblane.service.queue.rules import QueueRules

class Log:
    pass

by = Principal("machine", "ci", "ci", "acme", "admin", frozenset())
spec = Submission(command=("true",))
rules = QueueRules({"default": (), "bulk": (), "theirs": ("other",)}, {}, {}, ())
loaded = []
for filters in ((), (QueueFilter("theirs", 1, "true"),), (QueueFilter("bulk", 1, "true"),)):
    QueueRouter(rules, DefaultQueues("default"), filters, Log()).route(
        by, spec, 0
    )
    loaded.append("cel_expr_python" in sys.modules)
print(json.dumps(loaded))
"""


def test_the_library_is_loaded_when_a_filter_is_evaluated():
    """Not without filters, nor by tenants whose queues have none."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=False
    )
    assert "" == done.stderr
    assert [False, False, True] == json.loads(done.stdout)
