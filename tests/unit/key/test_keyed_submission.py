"""Submissions with a key: what is accepted, what waits, what is refused, and what is written."""

import time
from typing import Any

import pytest

from joblane.aws.key.keys import KeyStore, StoredKey
from joblane.aws.queue.lanes import Lanes
from joblane.key.decide import End, release
from joblane.key.segments import KeyName
from tests.support.aws import DESCRIPTOR, KEYS_TABLE, NAME, Cloud
from tests.support.jobs import named
from tests.support.requests import Api

KEY = ["customer", "acme"]
NAME_OF_KEY = KeyName.of("command", KEY)


def job(**concurrency: object) -> dict[str, object]:
    return {"command": ["true"], "concurrency": {"key": KEY, **concurrency}}


def stored(aws: Cloud, name: KeyName = NAME_OF_KEY) -> StoredKey:
    return KeyStore(aws.clients.make("dynamodb"), KEYS_TABLE).get("acme", name, 0)


def messages(aws: Cloud) -> int:
    lanes = Lanes(aws.clients.make("sqs"), DESCRIPTOR.queue_url_prefix, NAME)
    return len(lanes.lane("default", "default").receive(10, 0))


def test_a_job_gets_a_slot_the_next_waits_and_one_more_is_refused(aws: Cloud, api: Api):
    status, first = api("POST", "/v1/jobs", job(max_queued=1))
    assert (202, "pending", "accepted", None) == (
        status,
        first["state"],
        first["admission"],
        first["replaced"],
    )
    assert {"type": "command", "id": NAME_OF_KEY.hash} == first["key"]
    assert {"key": KEY, "max_active": 1, "max_queued": 1, "when_full": "reject"} == {
        name: first["concurrency"][name]
        for name in ("key", "max_active", "max_queued", "when_full")
    }
    status, second = api("POST", "/v1/jobs", job(max_queued=1))
    assert (202, "waiting", None) == (status, second["state"], second["slot"])
    assert second["reason"] == (
        'waits for a slot of key ["customer", "acme"] (1 of 1 were taken, 0 waited); '
        "see: joblane keys get command customer acme"
    )
    status, problem = api("POST", "/v1/jobs", job(max_queued=1))
    assert 409 == status
    assert {"reason": "queue-depth", "active": 1, "queued": 1, "limit": 2, "key": KEY} == {
        name: problem[name] for name in ("reason", "active", "queued", "limit", "key")
    }
    assert problem["detail"] == (
        'key ["customer", "acme"] is full: 1 of 1 jobs active, 1 of 1 queued; submit the job again '
        "after one of them has ended (joblane keys get command customer acme)"
    )
    key = stored(aws)
    assert ({first["id"]: first["slot"]}, (second["id"],)) == (key.state.active, key.state.queued)
    assert '["customer", "acme"]' == key.segments
    assert 1 == messages(aws)


def test_the_refusal_says_whether_a_job_of_the_key_has_started(aws: Cloud, api: Api):
    _, first = api("POST", "/v1/jobs", job())
    aws.jobs.claim(named(first["id"]), "agent-1", int(time.time() * 1000))
    _, problem = api("POST", "/v1/jobs", job())
    assert "active-limit" == problem["reason"]


def test_a_full_key_answers_with_a_job_that_is_there(aws: Cloud, api: Api):
    _, first = api("POST", "/v1/jobs", job(when_full="coalesce", max_queued=1))
    _, second = api("POST", "/v1/jobs", job(when_full="coalesce", max_queued=1))
    before = stored(aws)
    status, third = api("POST", "/v1/jobs", job(when_full="coalesce", max_queued=1))
    assert (200, "coalesced", second["id"]) == (status, third["admission"], third["id"])
    assert before == stored(aws)
    assert first["id"] != second["id"]


def test_a_newer_job_replaces_the_one_that_waits(aws: Cloud, api: Api):
    api("POST", "/v1/jobs", job(when_full="replace-oldest", max_queued=1))
    _, second = api("POST", "/v1/jobs", job(when_full="replace-oldest", max_queued=1))
    status, third = api("POST", "/v1/jobs", job(when_full="replace-oldest", max_queued=1))
    assert (202, "waiting", "replaced", second["id"]) == (
        status,
        third["state"],
        third["admission"],
        third["replaced"],
    )
    _, old = api("GET", f"/v1/jobs/{second['id']}")
    assert ("skipped", True) == (old["state"], third["id"] in old["reason"])
    row = aws.job(second["id"])
    assert row.expires_at is not None
    assert (third["id"],) == stored(aws).state.queued


def test_a_newer_job_replaces_one_with_a_slot_that_has_not_started(aws: Cloud, api: Api):
    _, first = api("POST", "/v1/jobs", job(when_full="replace-oldest"))
    _, second = api("POST", "/v1/jobs", job(when_full="replace-oldest"))
    assert ("pending", first["id"]) == (second["state"], second["replaced"])
    assert second["slot"] > first["slot"]
    aws.jobs.claim(named(second["id"]), "agent-1", int(time.time() * 1000))
    status, problem = api("POST", "/v1/jobs", job(when_full="replace-oldest"))
    assert (409, "active-limit") == (status, problem["reason"])


def test_a_policy_of_the_deployment_takes_its_key_from_the_submission(aws: Cloud, api: Api):
    body = {"command": ["a"], "concurrency": "per-customer", "labels": {"customer": "c1"}}
    status, first = api("POST", "/v1/jobs", body)
    assert (202, "per-customer") == (status, first["concurrency"])
    assert "policy.per-customer" == first["key"]["type"]
    assert "waiting" == api("POST", "/v1/jobs", body)[1]["state"]
    other = {**body, "labels": {"customer": "c2"}}
    assert "pending" == api("POST", "/v1/jobs", other)[1]["state"]
    key = stored(aws, KeyName("policy.per-customer", first["key"]["id"]))
    assert '["customer", "c1"]' == key.segments


@pytest.mark.parametrize(
    ("fields", "field", "problem"),
    [
        ({"concurrency": "nightly"}, "concurrency", "names an unknown policy; this deployment has"),
        ({"concurrency": "per-customer"}, "labels.customer", "/labels/customer leads to nothing"),
        ({"concurrency": "latest"}, "name", "must be a string, a number or a boolean"),
        ({"concurrency": {"key": []}}, "concurrency.key", "at least 1 item"),
        (
            {"concurrency": {"key": ["a", None]}},
            "concurrency.key.1",
            "must be a string, a number or a boolean",
        ),
        (
            {"concurrency": {"key": [{}]}},
            "concurrency.key.0",
            "must be a string, a number or a boolean",
        ),
        ({"concurrency": {"key": ["x" * 201]}}, "concurrency.key.0", "at most 200 bytes"),
        ({"concurrency": {"key": ["a"], "max_active": 0}}, "concurrency.max_active", "greater"),
        ({"concurrency": {"key": ["a"], "max_queued": 1001}}, "concurrency.max_queued", "1000"),
        ({"concurrency": {"key": ["a"], "limit": 3}}, "concurrency.limit", "unknown field"),
        ({"concurrency": 5}, "concurrency", "object"),
    ],
)
def test_a_wrong_key_is_named_by_its_field(
    api: Api, fields: dict[str, Any], field: str, problem: str
):
    status, answer = api("POST", "/v1/jobs", {"command": ["a"], **fields})
    assert 400 == status
    assert [field] == sorted({entry["field"] for entry in answer["errors"]})
    assert problem in answer["errors"][0]["problem"]


def test_a_job_that_is_too_late_is_not_admitted(aws: Cloud, api: Api):
    late = {**job(), "deadline": "2020-01-01T00:00:00Z"}
    assert 400 == api("POST", "/v1/jobs", late)[0]
    assert 0 == stored(aws).version


def test_entries_of_a_batch_are_admitted_in_their_order(aws: Cloud, api: Api):
    other = {"command": ["a"], "concurrency": {"key": ["other"]}}
    entries = [job(max_queued=1), {"command": ["a"]}, other, job(max_queued=1), job(max_queued=1)]
    status, answer = api("POST", "/v1/jobs/batch", {"jobs": entries})
    assert 200 == status
    found = answer["entries"]
    assert [202, 202, 202, 202, 409] == [entry["status"] for entry in found]
    states = [entry["job"]["state"] for entry in found[:4]]
    assert ["pending", "pending", "pending", "waiting"] == states
    assert ("queue-depth", 2, KEY) == (found[4]["reason"], found[4]["limit"], found[4]["key"])
    assert 3 == messages(aws)


def test_a_repeated_request_finds_its_job(aws: Cloud, api: Api):
    headers = {"idempotency-key": "once"}
    _, first = api("POST", "/v1/jobs", job(), headers=headers)
    status, again = api("POST", "/v1/jobs", job(), headers=headers)
    assert (202, first["id"]) == (status, again["id"])
    assert 1 == stored(aws).version


@pytest.mark.parametrize("batch", [False, True])
def test_a_repeated_request_is_answered_with_the_job_that_stood_for_its_own(
    aws: Cloud, api: Api, *, batch: bool
):
    _, first = api("POST", "/v1/jobs", job())
    asked = job(when_full="coalesce")
    path, body = ("/v1/jobs/batch", {"jobs": [asked]}) if batch else ("/v1/jobs", asked)

    def ask() -> tuple[int, dict[str, Any]]:
        status, answer = api("POST", path, body, headers={"idempotency-key": "once"})
        if batch:
            (answer,) = answer["entries"]
        return (answer["status"], answer["job"]) if batch else (status, answer)

    assert (200, first["id"]) == (ask()[0], ask()[1]["id"])
    api("POST", f"/v1/jobs/{first['id']}/cancel")
    seen = stored(aws)
    keys = KeyStore(aws.clients.make("dynamodb"), KEYS_TABLE)
    freed = release(seen.state, [End(first["id"], first["slot"])]).state
    assert freed is not None
    keys.write(seen, freed, 0)
    status, again = ask()
    assert (200, "coalesced", first["id"]) == (status, again["admission"], again["id"])
    assert stored(aws).state.idle


def test_a_job_is_submitted_again_under_its_key(api: Api):
    _, first = api("POST", "/v1/jobs", job(max_queued=1))
    api("POST", f"/v1/jobs/{first['id']}/cancel")
    status, second = api("POST", f"/v1/jobs/{first['id']}/resubmit")
    assert (202, "waiting") == (status, second["state"])  # the end of the first is handled later
    _, first = api("GET", f"/v1/jobs/{first['id']}")
    assert second["id"] == first["resubmitted_as"]
    # The key is full, and whoever sees that the first has ended passes its slot on.
    status, third = api("POST", f"/v1/jobs/{first['id']}/resubmit")
    assert (202, "waiting") == (status, third["state"])
    assert "pending" == api("GET", f"/v1/jobs/{second['id']}")[1]["state"]
    status, problem = api("POST", f"/v1/jobs/{first['id']}/resubmit")
    assert (409, "queue-depth") == (status, problem["reason"])
