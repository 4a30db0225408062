"""Which fields of a typed job its submitter gave, and what another version fills in anew."""

from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from joblane.aws.job.items import from_item, to_item
from joblane.job.head import make_head
from joblane.job.spec import Submission
from joblane.service.typed.admission import default_deadline, with_defaults
from joblane.typed.definition import TypeContract, TypeDefaults
from joblane.typed.given import given_fields, only_given
from tests.support.aws import Cloud
from tests.support.jobs import JOB
from tests.support.requests import Api
from tests.support.types import store_type
from tests.unit.typed.test_jobs import DEFAULTS, GOOD, submit

OTHERS = {
    "queue": "default",
    "priority": "high",
    "timeout_s": 90,
    "heartbeat_timeout_s": 30,
    "retry": {"max_attempts": 2, "backoff_s": [9]},
    "resources": {"memory_mb": 128, "pids": 5},
    "network": "none",
    "exit_codes": {"permanent": [3], "blocked": [4]},
    "env": {"MODE": "new", "OWN": "1"},
}

FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "queue": st.just("default"),
        "priority": st.sampled_from(["default", "high"]),
        "timeout_s": st.sampled_from([600, 90]),
        "restartable": st.booleans(),
        "network": st.sampled_from(["none", "egress"]),
        "retry": st.fixed_dictionaries(
            {}, optional={"max_attempts": st.sampled_from([3, 5]), "backoff_s": st.just([7.0])}
        ),
        "resources": st.fixed_dictionaries(
            {}, optional={"memory_mb": st.just(64), "cpus": st.just(2.0)}
        ),
        "env": st.dictionaries(st.sampled_from(["MODE", "OWN", "LEVEL"]), st.just("x")),
        "labels": st.just({"a": "b"}),
    },
)


def filled_in(spec: Submission, contract: TypeContract) -> dict[str, Any]:
    """The fields that a type sets, its deadline included."""
    return with_defaults(spec, contract) | default_deadline(spec, contract, 1_000)


def written(fields: dict[str, Any]) -> Submission:
    return Submission.model_validate(
        {"type": "sync-tickets", "params": GOOD, **fields}, strict=False
    )


def test_what_a_submission_gives_is_named_member_by_member():
    spec = written({"retry": {"max_attempts": 3}, "env": {"B": "", "A": ""}, "timeout_s": 600})
    assert ("env.A", "env.B", "retry.max_attempts", "timeout_s") == given_fields(spec)
    assert () == given_fields(written({"labels": {"a": "b"}, "name": "x"}))


@drawn(FIELDS, FIELDS)
def test_what_was_filled_in_is_taken_away_and_nothing_else(
    fields: dict[str, Any], filled: dict[str, Any]
):
    """Stored and read back in between, which loses which fields were set."""
    spec = written(fields)
    names = given_fields(spec)
    full: dict[str, Any] = {**filled, **fields}
    for name in ("retry", "resources", "env"):
        full[name] = {**filled.get(name, {}), **fields.get(name, {})}
    head = make_head(JOB, "acme", written({"queue": "default", **full}), 1)
    stored = from_item(to_item(head, head.spec.model_dump_json(exclude_defaults=True))).spec
    bare = only_given(stored, names)
    assert given_fields(bare) == names
    assert bare == written({**fields, "labels": full.get("labels", {})})


DEFAULTED = FIELDS.map(lambda fields: {n: v for n, v in fields.items() if n != "labels"})


def filled(spec: Submission, defaults: dict[str, Any]) -> Submission:
    """A submission with what a version of its type fills in."""
    contract = TypeContract(
        params_schema={"type": "object"},
        defaults=TypeDefaults.model_validate(defaults, strict=False),
    )
    return spec.model_copy(update=with_defaults(spec, contract))


@drawn(FIELDS, DEFAULTED, DEFAULTED, DEFAULTED)
def test_another_version_fills_in_what_it_would_fill_in_today(
    fields: dict[str, Any], one: dict[str, Any], two: dict[str, Any], three: dict[str, Any]
):
    """Whatever versions have filled in before, and however often."""
    spec = written(fields)
    names = given_fields(spec)
    seen = filled(spec, one)
    for defaults in (two, three):
        seen = filled(only_given(seen, names), defaults)
        assert seen == filled(spec, defaults)


@pytest.mark.parametrize(
    "fields", [{}, OTHERS, {"env": {"MODE": "x"}, "retry": {"max_attempts": 3}}]
)
def test_a_job_that_is_started_again_is_as_if_it_was_submitted_now(
    aws: Cloud, api: Api, fields: dict[str, Any]
):
    """But for the queue that was chosen."""
    store_type(aws, defaults=DEFAULTS)
    first = submit(api, **fields)
    store_type(aws, defaults=OTHERS, items=None)
    assert 202 == api("POST", f"/v1/jobs/{first['id']}/cancel")[0]
    _, again = api("POST", f"/v1/jobs/{first['id']}/resubmit")
    fresh = submit(api, **fields)
    differs = {name for name in Submission.model_fields if again[name] != fresh[name]}
    assert {"traceparent"} == differs
    assert (2, 2) == (again["type_version"], fresh["type_version"])
    assert aws.job(first["id"]).given == aws.job(again["id"]).given


@pytest.mark.parametrize(
    ("before", "after", "queue"),
    [
        (None, "bulk", "default"),  # chosen by the deployment: it stays (1402)
        ("bulk", "default", "default"),
        ("bulk", None, "bulk"),
    ],
)
def test_a_queue_that_the_type_named_follows_the_type(
    aws: Cloud, api: Api, before: str | None, after: str | None, queue: str
):
    store_type(aws, defaults={} if before is None else {"queue": before})
    first = submit(api)
    store_type(aws, defaults={} if after is None else {"queue": after})
    api("POST", f"/v1/jobs/{first['id']}/cancel")
    _, again = api("POST", f"/v1/jobs/{first['id']}/resubmit")
    assert queue == again["queue"]
    store_type(aws, defaults={"queue": "bulk"}, description="another one")
    api("POST", f"/v1/jobs/{again['id']}/cancel")
    _, third = api("POST", f"/v1/jobs/{again['id']}/resubmit")
    assert ("default" if before is None else "bulk") == third["queue"]


def test_items_that_a_type_counts_are_counted_anew(aws: Cloud, api: Api):
    store_type(aws, items=None)
    first = submit(api, items=9)
    store_type(aws, items="/tickets")
    api("POST", f"/v1/jobs/{first['id']}/cancel")
    _, again = api("POST", f"/v1/jobs/{first['id']}/resubmit")
    assert (3, ()) == (again["items"], aws.job(again["id"]).given)
    store_type(aws, items=None)
    api("POST", f"/v1/jobs/{again['id']}/cancel")
    assert 1 == api("POST", f"/v1/jobs/{again['id']}/resubmit")[1]["items"]


def test_a_command_and_a_built_in_type_keep_no_such_names(aws: Cloud, api: Api):
    _, plain = api("POST", "/v1/jobs", {"command": ["true"], "timeout_s": 5})
    sleep = submit(api, type="sleep", params={"ms": 1}, timeout_s=5)
    assert ((), ()) == (aws.job(plain["id"]).given, aws.job(sleep["id"]).given)
    api("POST", f"/v1/jobs/{sleep['id']}/cancel")
    assert 5 == api("POST", f"/v1/jobs/{sleep['id']}/resubmit")[1]["timeout_s"]


def test_the_names_stand_beside_the_submission_also_if_that_is_long(aws: Cloud, api: Api):
    store_type(aws, params_schema={"type": "object"}, items=None)
    for size in (10, 10_000, 300_000):
        params, env = {"a": "x" * min(size, 200_000)}, {"B": "y" * min(size, 100_000)}
        job = submit(api, params=params, env=env, timeout_s=600)
        assert ("env.B", "timeout_s") == aws.job(job["id"]).given


@pytest.mark.parametrize(
    ("given", "deadline"),
    [
        ({}, "1970-01-01T00:01:31.000Z"),
        ({"run_at": "1970-01-01T01:00:00Z"}, "1970-01-01T01:01:30.000Z"),
        ({"run_at": "1969-12-31T00:00:00Z"}, "1970-01-01T00:01:31.000Z"),  # it means now
        ({"deadline": "1970-01-02T00:00:00Z"}, "1970-01-02T00:00:00Z"),
        ({"deadline": None}, None),
    ],
)
def test_the_default_deadline_counts_from_the_start(given: dict[str, Any], deadline: str | None):
    contract = TypeContract(params_schema={"type": "object"}, defaults=TypeDefaults(deadline_s=90))
    spec = written(given)
    whole = spec.model_copy(update=filled_in(spec, contract))
    assert deadline == whole.deadline
    names = given_fields(spec)
    assert ("deadline" in given) == ("deadline" in names)
    assert given.get("deadline") is None or only_given(whole, names).deadline == deadline
    again = only_given(whole, names)
    refilled = again.model_copy(update=filled_in(again, contract))
    assert deadline == refilled.deadline
