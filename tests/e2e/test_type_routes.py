"""Job types in the deployed API: signed uploads of bundles, checks of a push, and keys in use."""

import hashlib
import os
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from scripts.local.cloud import Cloud
from tests.e2e.conftest import Http
from tests.support.types import described

NAME = "copy-tickets"
KEY = {"segments": ["zendesk", "/origin"], "max_queued": 5}


def upload(http: Http, content: bytes) -> dict[str, Any]:
    """Ask where a bundle belongs; returns the answer."""
    wanted = {
        "sha256": hashlib.sha256(content).hexdigest(),
        "size": len(content),
        "architecture": "arm64",
    }
    answer = http("POST", "/v1/bundles", json=wanted)
    assert 200 == answer.status_code, answer.text
    found: dict[str, Any] = answer.json()
    return found


def put(place: dict[str, Any], content: bytes) -> int:
    headers = {**place["headers"], "Content-Length": str(len(content))}
    return httpx.put(place["url"], content=content, headers=headers).status_code


@pytest.fixture(name="digest")
def _digest(http: Http) -> str:
    """A bundle that is there."""
    content = os.urandom(1000)
    assert 200 == put(upload(http, content)["upload"], content)
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(name="pushed")
def _pushed(http: Http, digest: str) -> Iterator[dict[str, Any]]:
    """A type with a key; returns its definition."""
    definition = described(bundles={"arm64": digest}, key=KEY)
    answer = http("PUT", f"/v1/types/{NAME}", json=definition)
    assert (200, "created") == (answer.status_code, answer.json()["change"]), answer.text
    yield definition
    assert 204 == http("DELETE", f"/v1/types/{NAME}").status_code


def test_a_bundle_is_uploaded_once_and_never_replaced(http: Http):
    content = os.urandom(100_000)
    first, second = upload(http, content), upload(http, content)
    assert (False, False) == (first["exists"], second["exists"])
    assert 200 == put(first["upload"], content)
    assert 412 == put(second["upload"], content)
    assert {"exists": True, "upload": None} == upload(http, content)


def test_an_upload_takes_no_other_content_and_no_other_request(http: Http, as_other: Http):
    content, other = os.urandom(1000), os.urandom(1000)
    place = upload(http, content)["upload"]
    headers = {name: text for name, text in place["headers"].items() if name != "If-None-Match"}
    assert 403 == put({**place, "headers": headers}, content)
    assert 403 == put({**place, "url": place["url"].replace("bundles/demo", "bundles/x")}, content)
    assert put(place, other) in {400, 403}
    assert put(place, content + b"more") in {400, 403}
    assert not upload(http, content)["exists"]
    assert 200 == put(place, content)
    assert not upload(as_other, content)["exists"]  # each tenant has its own


def test_a_type_without_its_bundle_is_refused_by_name(http: Http):
    missing = "0" * 64
    answer = http("PUT", f"/v1/types/{NAME}", json=described(bundles={"arm64": missing}))
    assert 400 == answer.status_code
    (problem,) = answer.json()["errors"]
    assert "bundles.arm64" == problem["field"]
    assert missing in problem["problem"]
    assert 404 == http("GET", f"/v1/types/{NAME}").status_code


@pytest.mark.usefixtures("quiet", "pushed")
def test_params_are_checked_and_items_counted_before_a_job_is_accepted(http: Http):
    body = {"type": NAME, "params": {"origin": 5, "secret": "hunter2"}}
    answer = http("POST", "/v1/jobs", json=body)
    assert 400 == answer.status_code
    fields = {entry["field"] for entry in answer.json()["errors"]}
    assert {"params.origin", "params.secret"} == fields
    assert "hunter2" not in answer.text
    unknown = http("POST", "/v1/jobs", json={**body, "type": "nobody"}).json()
    said, _, names = unknown["detail"].partition("; this tenant may use ")
    assert "type is unknown" == said
    assert {NAME, "sleep"} <= set(names.split(", "))  # other files push types as well
    good = {"type": NAME, "params": {"origin": "acme", "tickets": [1, 2, 3]}}
    job = http("POST", "/v1/jobs", json=good).json()
    assert (3, NAME) == (job["items"], job["key"]["type"])
    assert job["type_version"] > 0


@pytest.mark.usefixtures("quiet")
def test_another_key_waits_for_the_jobs_of_the_old_one(http: Http, pushed: dict[str, Any]):
    good = {"type": NAME, "params": {"origin": "acme"}}
    job = http("POST", "/v1/jobs", json=good).json()
    other = {**pushed, "key": {**KEY, "segments": ["zendesk"]}}
    refused = http("PUT", f"/v1/types/{NAME}", json=other)
    assert 409 == refused.status_code
    assert "--migrate" in refused.json()["detail"]
    assert 202 == http("POST", f"/v1/jobs/{job['id']}/cancel").status_code
    deadline = time.monotonic() + 20  # sequel frees the slot
    while (answer := http("PUT", f"/v1/types/{NAME}", json=other)).status_code == 409:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    (change,) = answer.json()["changes"]
    assert ("updated", "key.segments") == (answer.json()["change"], change["field"])
    assert "needs-empty-key" == change["kind"]
    assert 202 == http("POST", "/v1/jobs", json=good).status_code
    migrated = http("PUT", f"/v1/types/{NAME}", json=pushed, params={"migrate": "true"})
    assert "migrated" == migrated.json()["change"]


def test_a_developer_submits_jobs_of_types_and_changes_none(cloud: Cloud, pushed: dict[str, Any]):
    developer = Http(cloud.url, cloud.token())
    statuses = [
        developer("GET", "/v1/types").status_code,
        developer("PUT", f"/v1/types/{NAME}", json=pushed).status_code,
        developer("DELETE", f"/v1/types/{NAME}").status_code,
        developer("POST", "/v1/bundles", json={}).status_code,
    ]
    developer.close()
    assert [200, 403, 403, 403] == statuses
