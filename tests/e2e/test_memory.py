"""Memory is limited before anything runs: by the API, and by agents that claim what fits."""

import time

from scripts.local.cloud import Cloud
from tests.e2e.conftest import Http
from tests.support.deployed import submit, wait_for


def test_memory_that_no_fleet_gives_is_refused_with_the_most_that_is_allowed(http: Http):
    body = {"command": ["true"], "resources": {"memory_mb": 65537}}
    answer = http("POST", "/v1/jobs", json=body)
    assert 400 == answer.status_code
    assert "application/problem+json" == answer.headers["Content-Type"]
    (error,) = answer.json()["errors"]
    assert "resources.memory_mb" == error["field"]
    assert "must be at most 65536" in error["problem"]


def test_a_job_that_no_agent_has_memory_for_is_not_claimed_and_says_so(quiet: Cloud, http: Http):
    quiet.start_agent("small", options=("--max-memory-mb", "600"))
    large = submit(http, "true", resources={"memory_mb": 700})
    beside = submit(http, "true")
    assert "completed" == wait_for(http, beside, "completed")["state"]
    deadline = time.monotonic() + 30
    while "memory" not in (job := http("GET", f"/v1/jobs/{large}").json())["reason"]:
        assert time.monotonic() < deadline, job["reason"]
        time.sleep(0.05)
    expected = "waits for 700 MB of memory; agent small gives a job at most 600 MB"
    assert (expected, "pending", 0) == (job["reason"], job["state"], job["epoch"])
    assert "cancelled" == http("POST", f"/v1/jobs/{large}/cancel").json()["state"]
    quiet.stop_agent("small")
