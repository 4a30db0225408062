"""Queue settings and statistics with a real agent, on the deployed stacks."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from scripts.local.cloud import Cloud
from tests.e2e.conftest import Http
from tests.support.deployed import submit, wait_for

SETTINGS = "/v1/queues/bulk/settings"
SEEN_S = 30
"""An agent has seen a change by then."""


@pytest.fixture(name="unset")
def _unset(http: Http) -> Iterator[Http]:
    """The API; no settings are left afterwards."""
    yield http
    set_queue(http)


def set_queue(http: Http, **changes: object) -> None:
    wanted = {"run_jobs": True, "threads": None, "cluster_threads": None, **changes}
    answer = http("PUT", SETTINGS, json=wanted, headers={"If-Match": "*"})
    assert 200 == answer.status_code, answer.text


def test_two_operators_do_not_overwrite_each_other(unset: Http, as_other: Http):
    seen = unset("GET", SETTINGS)
    assert 200 == seen.status_code
    body = {"run_jobs": True, "threads": 3, "cluster_threads": None}
    first = unset("PUT", SETTINGS, json=body, headers={"If-Match": seen.headers["etag"]})
    late = as_other("PUT", SETTINGS, json=body, headers={"If-Match": seen.headers["etag"]})
    assert (200, 412) == (first.status_code, late.status_code)
    assert "application/problem+json" == late.headers["content-type"]
    assert 428 == unset("PUT", SETTINGS, json=body).status_code
    assert first.json() == unset("GET", SETTINGS).json()
    assert as_other("GET", SETTINGS).json()["changed_by"] is None


def test_a_pause_holds_jobs_and_a_cap_lets_them_go_two_at_a_time(cloud: Cloud, unset: Http):
    set_queue(unset, run_jobs=False)
    cloud.stop_agents()
    cloud.start_agent("alone", threads=8)
    ids = [submit(unset, "sleep", "1", queue="bulk") for _ in range(6)]
    wait_for(unset, submit(unset, "true"), "completed")  # the other queue goes on
    for job_id in ids:
        job = unset("GET", f"/v1/jobs/{job_id}").json()
        assert "pending" == job["state"]
        assert "queue bulk is paused since" in job["reason"]
    set_queue(unset, threads=2)
    resumed = time.monotonic()
    wait_for(unset, ids[0], "active", "completed", timeout_s=SEEN_S)
    print(f"the agent saw it after {time.monotonic() - resumed:.1f} s")
    jobs = [wait_for(unset, job_id, "completed") for job_id in ids]
    times = [(job["started_at"], job["ended_at"]) for job in jobs]
    at_once = [sum(s <= start < e for s, e in times) for start, _ in times]
    assert 2 == max(at_once)


@pytest.mark.usefixtures("agent")
def test_real_jobs_make_the_rates_move_for_their_own_tenant(http: Http, as_other: Http):
    before, other = hour(http), hour(as_other)
    ids = [submit(http, "true", queue="bulk", items=3) for _ in range(4)]
    ids += [submit(http, "sh", "-c", "exit 65", queue="bulk")]
    for job_id in ids:
        wait_for(http, job_id, "completed", "failed")
    end = time.monotonic() + 10
    while (now := hour(http))["completed"]["items"] < before["completed"]["items"] + 12:
        assert time.monotonic() < end, now
        time.sleep(0.2)
    moved = {
        kind: {unit: now[kind][unit] - before[kind][unit] for unit in ("jobs", "items")}
        for kind in ("submitted", "started", "completed", "failed", "retried")
    }
    assert {
        "submitted": {"jobs": 5, "items": 13},
        "started": {"jobs": 5, "items": 13},
        "completed": {"jobs": 4, "items": 12},
        "failed": {"jobs": 1, "items": 1},
        "retried": {"jobs": 0, "items": 0},
    } == moved
    assert other == hour(as_other)


def hour(http: Http) -> dict[str, Any]:
    """What happened in the last hour."""
    activity: list[dict[str, Any]] = http("GET", "/v1/queues/bulk").json()["activity"]
    kinds = ("submitted", "started", "completed", "failed", "retried")
    return {kind: activity[-1][kind] for kind in kinds}
