"""The audit trail of real jobs and queues, on the deployed stacks."""

import json
from typing import Any

import pytest
from ulid import ULID

from joblane.aws.clients import Clients
from scripts.local.cloud import Cloud
from tests.e2e.conftest import Http, Run
from tests.support.deployed import submit, wait_for

pytestmark = pytest.mark.usefixtures("agent")


def entries(run: Run, *arguments: str) -> list[dict[str, Any]]:
    done = run("audit", *arguments, "--json")
    assert 0 == done.returncode, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["entries"]
    return found


def test_a_jobs_trail_tells_its_whole_story(joblane: Run, http: Http):
    job_id = submit(http, "false", retry={"max_attempts": 1})
    wait_for(http, job_id, "dead")
    assert 0 == joblane("dlq", "replay", job_id, "--reason", "the disk is back").returncode
    wait_for(http, job_id, "dead")
    assert 0 == joblane("dlq", "dismiss", job_id, "--reason", "no use").returncode
    refused = joblane("cancel", job_id, "--reason", "to be sure")
    assert 64 == refused.returncode
    cancel, dismiss, replay, submission = entries(joblane, job_id)
    assert [("cancel", "to be sure"), ("dismiss", "no use"), ("replay", "the disk is back")] == [
        (entry["action"], entry["reason"]) for entry in (cancel, dismiss, replay)
    ]
    assert [409, None, None] == [
        entry["refused"] and entry["refused"]["status"] for entry in (cancel, dismiss, replay)
    ]
    assert ("submit", cancel["by"]) == (submission["action"], submission["by"])
    assert submission["by"] == http("GET", f"/v1/jobs/{job_id}").json()["submitted_by"]
    shown = joblane("audit", job_id).stdout.decode()
    assert "the disk is back" in shown
    assert "409" in shown


def test_a_deleted_jobs_trail_stays_and_is_its_tenants_own(
    joblane: Run, http: Http, as_other: Http
):
    job_id = submit(http, "true")
    by = wait_for(http, job_id, "completed")["submitted_by"]
    assert 0 == joblane("delete", job_id, "--reason", "holds a name").returncode
    deleted, submitted = entries(joblane, job_id)
    assert ("delete", "holds a name") == (deleted["action"], deleted["reason"])
    assert ("submit", by) == (submitted["action"], submitted["by"])
    assert 404 == as_other("GET", f"/v1/jobs/{job_id}/audit").status_code
    assert deleted["id"] not in as_other("GET", "/v1/audit", params={"limit": 100}).text


def test_a_machine_that_may_not_is_in_the_trail_by_its_name(cloud: Cloud, joblane: Run, http: Http):
    """Its token lacks the scope, so the refusal must not end at API Gateway."""
    job_id = submit(http, "true")
    reader = Http(cloud.url, cloud.token(machine="reader"))
    refused = reader("POST", f"/v1/jobs/{job_id}/cancel", json={"reason": "mine"})
    before = entries(joblane, "-n", "100")
    unsent = reader("POST", "/v1/jobs", json={"command": ["true"]})
    reader.close()
    assert [403, 403] == [refused.status_code, unsent.status_code]
    entry, _submission = entries(joblane, job_id)
    assert ("cancel", "reader") == (entry["action"], entry["by"]["name"])
    assert {"status": 403, "detail": refused.json()["detail"]} == entry["refused"]
    assert ("submit", "reader", 403) in [
        (added["action"], added["by"]["name"], (added["refused"] or {}).get("status"))
        for added in entries(joblane, "-n", "100")
        if added not in before
    ]


def test_what_was_done_to_queues_is_told_with_what_was_set(joblane: Run, platform: Http):
    before, after = (f"{words} {ULID()}" for words in ("as it was", "after the outage"))
    body = {"run_jobs": True, "threads": 4, "cluster_threads": None, "reason": before}
    answer = platform("PUT", "/v1/queues/bulk/settings", json=body, headers={"If-Match": "*"})
    assert 200 == answer.status_code, answer.text
    assert 0 == joblane("requeue", "bulk", "--reason", after).returncode
    # By their reasons: whoever else acts, and a call that was repeated, is in the trail too.
    trail = entries(joblane, "-n", "100")
    (requeue, *_), (settings, *_) = (
        [entry for entry in trail if entry["reason"] == reason] for reason in (after, before)
    )
    assert ("requeue", {"queue": "bulk"}) == (requeue["action"], requeue["target"])
    assert ("settings", 4) == (settings["action"], settings["asked"]["threads"])
    assert trail.index(requeue) < trail.index(settings)
    changes = entries(joblane, "--action", "settings", "-n", "100")
    assert settings in changes
    assert {"settings"} == {entry["action"] for entry in changes}


def test_pages_of_the_trail_hold_each_entry_once(http: Http):
    job_id = submit(http, "true")
    wait_for(http, job_id, "completed")
    for _ in range(5):
        http("POST", f"/v1/jobs/{job_id}/retry")
    seen: list[str] = []
    params = {"limit": "2"}
    while True:
        page = http("GET", f"/v1/jobs/{job_id}/audit", params=params).json()
        seen += [entry["action"] for entry in page["entries"]]
        if page["next"] is None:
            break
        params["next"] = page["next"]
    assert ["retry"] * 5 + ["submit"] == seen


def test_rows_expire_by_themselves(clients: Clients, http: Http):
    job_id = submit(http, "true")
    http("POST", f"/v1/jobs/{job_id}/cancel")
    dynamodb = clients.make("dynamodb")
    ttl = dynamodb.describe_time_to_live(TableName="joblane-audit")["TimeToLiveDescription"]
    assert ("ENABLED", "expires_at") == (ttl["TimeToLiveStatus"], ttl["AttributeName"])
    rows = dynamodb.query(
        TableName="joblane-audit",
        IndexName="by_job",
        KeyConditionExpression="#job = :job",
        ExpressionAttributeNames={"#job": "job"},
        ExpressionAttributeValues={":job": {"S": f"demo/{job_id}"}},
    )["Items"]
    assert rows
    assert all("expires_at" in row for row in rows)
