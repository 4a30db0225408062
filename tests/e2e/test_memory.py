"""Memory is limited before anything runs: by the API, and by agents that claim what fits."""

from typing import Any

from scripts.local.cloud import Cloud
from tests.e2e.conftest import Http
from tests.support.deployed import starts, submit, wait_for, wait_for_job
from tests.support.paced import start_paced


def test_memory_that_no_fleet_gives_is_refused_with_the_most_that_is_allowed(http: Http):
    body = {"command": ["true"], "resources": {"memory_mb": 65537}}
    answer = http("POST", "/v1/jobs", json=body)
    assert 400 == answer.status_code
    assert "application/problem+json" == answer.headers["Content-Type"]
    (error,) = answer.json()["errors"]
    assert "resources.memory_mb" == error["field"]
    assert "must be at most 65536" in error["problem"]


def wait_for_reason(http: Http, job_id: str) -> dict[str, Any]:
    """Wait until a job says that it waits for memory."""
    job = wait_for_job(http, job_id, lambda job: "of memory" in job["reason"])
    assert ("pending", 0) == (job["state"], job["epoch"])
    return job


def wait_until_claimed(http: Http, job_id: str) -> dict[str, Any]:
    """Wait until an agent has claimed a job."""
    return wait_for_job(http, job_id, lambda job: bool(starts(job)))


def started_at(job: dict[str, Any]) -> str:
    """When a job was claimed, for the first and only time."""
    (start,) = (step["at"] for step in job["timeline"] if step["state"] == "active")
    return str(start)


def test_small_jobs_do_not_overtake_a_large_one_that_waits_for_memory(quiet: Cloud, http: Http):
    """Claims only: a host that cannot limit memory leaves the large job to another agent then."""
    start_paced(quiet, "tight", memory_mb=1200)
    running = submit(http, "sleep", "600")
    wait_for(http, running, "active")
    large = submit(http, "true", resources={"memory_mb": 1000})
    expected = "waits for 1000 MB of memory; agent tight has 688 of 1200 MB free"
    assert expected == wait_for_reason(http, large)["reason"]
    small = submit(http, "true")  # fits, but what is free is reserved
    http("POST", f"/v1/jobs/{running}/cancel")
    last = wait_for(http, small, "completed")
    first = wait_until_claimed(http, large)
    assert started_at(first) < started_at(last)
    quiet.stop_agent("tight")


def test_a_job_that_no_agent_has_memory_for_is_not_claimed_and_says_so(quiet: Cloud, http: Http):
    quiet.start_agent("small", options=("--max-memory-mb", "600"))
    large = submit(http, "true", resources={"memory_mb": 700})
    beside = submit(http, "true")
    assert "completed" == wait_for(http, beside, "completed")["state"]
    expected = "waits for 700 MB of memory; agent small gives a job at most 600 MB"
    assert expected == wait_for_reason(http, large)["reason"]
    assert "cancelled" == http("POST", f"/v1/jobs/{large}/cancel").json()["state"]
    quiet.stop_agent("small")
