"""The limit `jobs_waiting` of a tenant: no other tenant waits behind a flood."""

import time
from collections.abc import Iterator

import httpx
import pytest

from scripts.local.cloud import Cloud
from tests.e2e.conftest import Http

LIMIT = 3
"""Of the tenant `small`, in scripts/local/joblane.toml."""

WAITING = {"command": ["true"], "run_at": "2099-01-01T00:00:00Z"}


@pytest.fixture(name="small")
def _small(cloud: Cloud) -> Iterator[Http]:
    """The API, as tenant `small`; its jobs are deleted afterwards."""
    http = Http(cloud.url, cloud.token("small"))
    yield http
    while entries := http("GET", "/v1/jobs").json()["entries"]:
        for job in entries:
            assert 204 == http("DELETE", f"/v1/jobs/{job['id']}").status_code
    http.close()


def submit_until(small: Http, status: int) -> tuple[httpx.Response, int]:
    """Submit jobs until one is answered so; returns the answer, and how many came before."""
    deadline = time.monotonic() + 60
    before = 0
    while (answer := small("POST", "/v1/jobs", json=WAITING)).status_code != status:
        assert answer.status_code in {202, 429}, answer.text
        assert time.monotonic() < deadline
        before += 1
        time.sleep(0.05)
    return answer, before


def test_a_tenant_that_floods_is_refused_with_429_and_another_is_not(small: Http, as_other: Http):
    refused, accepted = submit_until(small, 429)
    assert accepted >= LIMIT
    problem = refused.json()
    assert "application/problem+json" == refused.headers["Content-Type"]
    assert ("jobs_waiting", LIMIT, "10") == (
        problem["limit"],
        problem["allowed"],
        refused.headers["Retry-After"],
    )
    assert problem["current"] >= LIMIT
    assert (
        f"the limit jobs_waiting is {LIMIT}; try again at {problem['until']}" in problem["detail"]
    )
    for path in ("/v1/jobs", "/v1/jobs/batch"):
        body = WAITING if path == "/v1/jobs" else {"jobs": [WAITING]}
        assert 429 == small("POST", path, json=body).status_code
    job = as_other("POST", "/v1/jobs", json=WAITING)
    assert 202 == job.status_code
    assert 202 == as_other("POST", f"/v1/jobs/{job.json()['id']}/cancel").status_code
    for entry in small("GET", "/v1/jobs", params={"limit": 100}).json()["entries"]:
        small("POST", f"/v1/jobs/{entry['id']}/cancel")
    submit_until(small, 202)
