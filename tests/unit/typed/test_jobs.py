"""Submissions with a type: checked by its schema, completed by its defaults, counted, pinned."""

import json
import time
from typing import Any

import pytest

from functions.submission.handler import Settings, build
from joblane.job.disk import MOST_BUNDLE_MB, OUTPUT_MB
from joblane.job.fields import MAX_PARAMS_BYTES
from tests.support.aws import Cloud, configure
from tests.support.meter import Meter
from tests.support.requests import Api
from tests.support.types import PARAMS, store_type, type_store

GOOD = {"origin": "acme", "tickets": [1, 2, 3]}


def submit(api: Api, **fields: object) -> Any:
    body = {"type": "sync-tickets", "params": GOOD, **fields}
    status, job = api("POST", "/v1/jobs", body)
    assert 202 == status, job
    return job


def submit_refused(api: Api, **fields: object) -> dict[str, str]:
    """The problems of a submission, by field."""
    body = {"type": "sync-tickets", "params": GOOD, **fields}
    status, problem = api("POST", "/v1/jobs", body)
    assert 400 == status, problem
    return {entry["field"]: entry["problem"] for entry in problem["errors"]}


# --- params


def test_a_typed_job_is_accepted_with_its_version_and_items(aws: Cloud, api: Api):
    store_type(aws)
    job = submit(api)
    assert ("sync-tickets", GOOD, 1, 3, []) == (
        job["type"],
        job["params"],
        job["type_version"],
        job["items"],
        job["command"],
    )
    stored = aws.job(job["id"])
    assert (1, GOOD) == (stored.type_version, stored.spec.params)
    _, again = api("GET", f"/v1/jobs/{job['id']}")
    assert (1, GOOD, 3) == (again["type_version"], again["params"], again["items"])


def test_every_wrong_field_is_named_and_no_value_is_repeated(aws: Cloud, api: Api):
    store_type(aws)
    params = {"tickets": ["SECRET", 1, 2.5], "since": "SECRET", "secret": "SECRET"}
    status, problem = api("POST", "/v1/jobs", {"type": "sync-tickets", "params": params})
    assert 400 == status
    assert {
        ("params.origin", "required"),
        ("params.tickets.0", "must be an integer"),
        ("params.tickets.2", "must be an integer"),
        ("params.since", "must be an integer or null"),
        ("params.secret", "unknown field"),
    } == {(entry["field"], entry["problem"]) for entry in problem["errors"]}
    assert "SECRET" not in json.dumps(problem)


def test_a_type_that_is_not_there_names_those_that_are(aws: Cloud, api: Api):
    store_type(aws, name="sync-users")
    store_type(aws, tenant="other")
    unknown = "is unknown; this tenant may use sleep, sync-users"
    assert {"type": unknown} == submit_refused(api)
    store_type(aws)
    submit(api)
    type_store(aws).remove("acme", "sync-tickets", 1)
    assert {"type": unknown} == submit_refused(api)


@pytest.mark.parametrize("name", ["Sync", "a b", "", "command", "a" * 64, "acme#sync", 5])
def test_what_is_no_name_of_a_type_is_refused_before_it_is_looked_up(api: Api, name: object):
    assert {"type"} == submit_refused(api, type=name).keys()


@pytest.mark.parametrize("params", [[], "x", 5, True])
def test_params_are_an_object(api: Api, params: object):
    assert {"params"} == submit_refused(api, type="sleep", params=params).keys()


def test_params_have_at_most_256_kb(aws: Cloud, api: Api):
    store_type(aws, params_schema={"type": "object"}, items=None)
    least = len(json.dumps({"a": ""}, separators=(",", ":")))
    job = submit(api, params={"a": "ä" * ((MAX_PARAMS_BYTES - least) // 2)})
    _, whole = api("GET", f"/v1/jobs/{job['id']}")
    assert MAX_PARAMS_BYTES - least - 1 <= len(whole["params"]["a"].encode())
    long = {"a": "x" * 300_000}
    assert submit_refused(api, params=long) == {
        "params": f"takes 300008 bytes as JSON; at most {MAX_PARAMS_BYTES} are allowed"
    }


def test_large_params_are_whole_for_one_job_and_left_out_of_lists(aws: Cloud, api: Api):
    store_type(aws, params_schema={"type": "object"}, items=None)
    large = {"a": "x" * 200_000}
    job = submit(api, params=large, env={"B": "y" * 100_000})  # more than the table takes
    _, page = api("GET", "/v1/jobs")
    (entry,) = page["entries"]
    assert ({}, True) == (entry["params"], entry["abridged"])
    _, whole = api("GET", f"/v1/jobs/{job['id']}")
    assert (large, False) == (whole["params"], whole["abridged"])
    assert 1 == whole["type_version"]


# --- defaults


DEFAULTS = {
    "queue": "bulk",
    "priority": "low",
    "timeout_s": 60,
    "retry": {"max_attempts": 7, "backoff_s": [1]},
    "resources": {"memory_mb": 64, "cpus": 0.5},
    "network": "egress",
    "restartable": False,
    "env": {"MODE": "full", "LEVEL": "info"},
}


def test_a_type_sets_what_a_submission_leaves_out(aws: Cloud, api: Api):
    store_type(aws, defaults=DEFAULTS)
    job = submit(api)
    shown = {name: job[name] for name in DEFAULTS if name != "resources"}
    assert {**DEFAULTS, "retry": {"max_attempts": 7, "backoff_s": [1.0]}} == {
        **shown,
        "resources": {name: job["resources"][name] for name in ("memory_mb", "cpus")},
    }


def test_what_a_submission_sets_counts_first_also_if_it_is_the_usual_value(aws: Cloud, api: Api):
    store_type(aws, defaults=DEFAULTS)
    job = submit(
        api,
        queue="default",
        priority="default",
        timeout_s=600,
        retry={"max_attempts": 3},
        resources={"cpus": 2},
        network="none",
        restartable=True,
        env={"MODE": "some"},
        secret_env={"LEVEL": "ssm:/joblane/acme/level"},
    )
    given = (job["queue"], job["priority"], job["timeout_s"], job["network"], job["restartable"])
    assert ("default", "default", 600, "none", True) == given
    assert {"max_attempts": 3, "backoff_s": [1.0]} == job["retry"]
    assert (2, 64) == (job["resources"]["cpus"], job["resources"]["memory_mb"])
    assert {"MODE": "some"} == job["env"]
    again = submit(api, env={"OWN": "1"})
    assert {"MODE": "full", "LEVEL": "info", "OWN": "1"} == again["env"]


def test_defaults_are_checked_with_the_submission(aws: Cloud, api: Api):
    store_type(aws, defaults={"queue": "nowhere"})
    assert {"queue": "is unknown; this tenant may use default, bulk"} == submit_refused(api)
    submit(api, queue="default")
    store_type(aws, defaults={"env": {f"D{n}": "" for n in range(300)}})
    assert {"env"} == submit_refused(api, env={f"S{n}": "" for n in range(300)}).keys()


# --- items


def test_items_are_counted_and_never_taken_from_the_submission(aws: Cloud, api: Api):
    store_type(aws)
    assert {"items": "must be left out: the type counts them in /tickets"} == submit_refused(
        api, items=4
    )
    assert 3 == submit(api, items=3)["items"]  # a job that is read back has them
    assert 0 == submit(api, params={"origin": "acme", "tickets": []})["items"]
    absent = {"origin": "acme"}
    assert 1 == submit(api, params=absent)["items"]
    assert 5 == submit(api, params=absent, items=5)["items"]


def test_without_a_pointer_the_submission_says_how_many_items(aws: Cloud, api: Api):
    store_type(aws, items=None)
    assert (1, 9) == (submit(api)["items"], submit(api, items=9)["items"])


def test_a_pointer_to_what_is_not_an_array_is_refused(aws: Cloud, api: Api):
    store_type(aws, items="/origin")
    assert submit_refused(api) == {
        "params.origin": "must be an array: its length is the number of work items"
    }


# --- versions


def test_a_waiting_job_keeps_the_version_it_was_accepted_with(aws: Cloud, api: Api):
    store_type(aws)
    waits = submit(api, run_at="2100-01-01T00:00:00Z")
    schema = {**PARAMS, "required": ["origin", "since"]}
    store_type(aws, params_schema=schema)
    assert {"params.since": "required"} == submit_refused(api)
    newer = submit(api, params={**GOOD, "since": None})
    assert (1, 2) == (waits["type_version"], newer["type_version"])
    _, still = api("GET", f"/v1/jobs/{waits['id']}")
    assert 1 == still["type_version"]
    pinned = type_store(aws).version("acme", "sync-tickets", still["type_version"])
    assert pinned is not None
    assert PARAMS == pinned.definition.params_schema


def test_a_resubmitted_job_has_the_current_version_and_the_fields_it_had(aws: Cloud, api: Api):
    store_type(aws, defaults={"timeout_s": 60})
    store_type(aws, items="/tickets", defaults={"timeout_s": 30})
    first = submit(api, timeout_s=600)
    assert 202 == api("POST", f"/v1/jobs/{first['id']}/cancel")[0]
    status, again = api("POST", f"/v1/jobs/{first['id']}/resubmit")
    assert (202, 2, 600, 3) == (
        status,
        again["type_version"],
        again["timeout_s"],
        again["items"],
    )


def test_a_job_that_the_current_version_does_not_take_is_not_resubmitted(aws: Cloud, api: Api):
    store_type(aws)
    job = submit(api)
    assert 202 == api("POST", f"/v1/jobs/{job['id']}/cancel")[0]
    store_type(aws, params_schema={**PARAMS, "required": ["origin", "since"]})
    status, problem = api("POST", f"/v1/jobs/{job['id']}/resubmit")
    assert (400, "params.since") == (status, problem["errors"][0]["field"])


def test_a_batch_reads_the_number_of_a_type_once(aws: Cloud, meter: Meter):
    store_type(aws)
    api = Api(build(configure(Settings), meter.clients_of(aws), time.time))
    good, bad = {"type": "sync-tickets", "params": GOOD}, {"type": "sync-tickets", "params": {}}
    for reads in (3, 1):  # the limits' figures and the version are kept
        meter.reset()
        _, answer = api("POST", "/v1/jobs/batch", {"jobs": [good, bad] * 20})
        assert [202, 400] * 20 == [entry["status"] for entry in answer["entries"]]
        assert reads == meter.calls["dynamodb.GetItem"]


# --- the built-in type


def test_sleep_is_a_type_like_others_with_its_command(api: Api):
    params = {"ms": 10, "fail_first": 2, "items": [1, 2]}
    job = submit(api, type="sleep", params=params)
    assert (None, 2, params) == (job["type_version"], job["items"], job["params"])
    assert ["sleep", "0.010", "2"] == job["command"][-3:]
    assert (
        job["command"]
        == submit(api, type="sleep", params=params, command=job["command"])["command"]
    )


def test_sleep_takes_no_other_command_and_checks_its_params(api: Api):
    given = {"type": "sleep", "params": {"ms": 5}}
    assert {"command"} == submit_refused(api, **given, command=["rm"]).keys()
    wrong = {"ms": -1, "fail_first": True, "items": 5, "depth": 2}
    assert submit_refused(api, type="sleep", params=wrong) == {
        "params.ms": "must be at least 0",
        "params.fail_first": "must be an integer",
        "params.items": "must be an array",
        "params.depth": "unknown field",
    }


def test_another_type_takes_no_command(aws: Cloud, api: Api):
    store_type(aws)
    assert {"command"} == submit_refused(api, command=["true"]).keys()


# --- schemas


# --- what commands do not pay for


def test_a_typed_job_says_what_its_bundle_takes_of_the_disk(aws: Cloud, api: Api):
    store_type(aws, bundle_mb=70)
    stored = aws.job(submit(api)["id"])
    assert (0, 70) == (stored.files_mb, stored.bundle_mb)
    assert (70 + OUTPUT_MB, 0) == (stored.disk_mb, stored.work_mb)
    built_in = submit(api, type="sleep", params={"ms": 1})
    assert 0 == aws.job(built_in["id"]).bundle_mb, "it has no bundle"


def test_a_bundle_of_unknown_size_counts_as_the_largest(aws: Cloud, api: Api):
    store_type(aws)
    assert MOST_BUNDLE_MB == aws.job(submit(api)["id"]).bundle_mb
