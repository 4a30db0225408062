"""Queue settings and statistics with a real agent, on the deployed stacks."""

import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from joblane.deployment.names import PLATFORM
from scripts.local.cloud import Cloud
from tests.e2e.conftest import Http, Run
from tests.support.deployed import submit, wait_for
from tests.support.paced import start_paced

SETTINGS = "/v1/queues/bulk/settings"
READ_S, SEEN_S = 3, 10
"""How often the agent reads settings here, not every 20 s; it has seen a change by then."""


@pytest.fixture(name="unset")
def _unset(platform: Http) -> Iterator[Http]:
    """The API as the role platform; no settings are left afterwards."""
    yield platform
    set_queue(platform)


def set_queue(http: Http, **changes: object) -> None:
    wanted = {"run_jobs": True, "threads": None, "cluster_threads": None, **changes}
    answer = http("PUT", SETTINGS, json=wanted, headers={"If-Match": "*"})
    assert 200 == answer.status_code, answer.text


def test_two_operators_do_not_overwrite_each_other(unset: Http, as_other: Http):
    """Two holders of the role platform, since the queue belongs to all tenants."""
    seen = unset("GET", SETTINGS)
    assert 200 == seen.status_code
    body = {"run_jobs": True, "threads": 3, "cluster_threads": None}
    first = unset("PUT", SETTINGS, json=body, headers={"If-Match": seen.headers["etag"]})
    late = unset("PUT", SETTINGS, json=body, headers={"If-Match": seen.headers["etag"]})
    assert (200, 412) == (first.status_code, late.status_code)
    assert "application/problem+json" == late.headers["content-type"]
    assert 428 == unset("PUT", SETTINGS, json=body).status_code
    assert first.json() == unset("GET", SETTINGS).json()
    assert "machine default (platform)" == as_other("GET", SETTINGS).json()["changed_by"]


@pytest.mark.parametrize("machine", ["operator", "admin"])
def test_a_tenant_cannot_pause_a_queue_that_tenants_share(cloud: Cloud, unset: Http, machine: str):
    """Nor see or drain an agent, which runs the jobs of all."""
    operator = Http(cloud.url, cloud.token(machine=machine))
    body = {"run_jobs": False, "threads": 0, "cluster_threads": 0}
    refused = operator("PUT", SETTINGS, json=body, headers={"If-Match": "*"})
    drained = operator("POST", "/v1/agents/local/drain")
    listed = operator("GET", "/v1/agents")
    operator.close()
    assert [403, 403, 403] == [refused.status_code, drained.status_code, listed.status_code]
    for answer in (refused, drained):
        assert "needs the role platform" in answer.json()["detail"]
    assert unset("GET", SETTINGS).json()["run_jobs"]


def test_what_the_role_platform_does_is_told_to_every_tenant(
    unset: Http, http: Http, as_other: Http
):
    reason = f"maintenance {time.monotonic_ns()}"
    set_queue(unset, reason=reason)
    for caller in (unset, http, as_other):
        found = [
            (entry["action"], entry["by"]["name"], entry["by_platform"])
            for entry in caller("GET", "/v1/audit", params={"limit": 50}).json()["entries"]
            if entry["reason"] == reason
        ]
        assert [("settings", "default", True)] == found


def test_a_developer_reads_the_queues_that_jobs_wait_in(cloud: Cloud):
    developer = Http(cloud.url, cloud.token())
    paths = ("/v1/queues", "/v1/queues/bulk", SETTINGS)
    assert [200, 200, 200] == [developer("GET", path).status_code for path in paths]
    developer.close()


def test_explain_says_which_queue_takes_a_job_and_makes_none(http: Http, joblane: Run):
    """Without filters: these stacks run on this machine's Python, which may be 3.11."""
    before = [job["id"] for job in http("GET", "/v1/jobs").json()["entries"]]
    done = joblane("queues", "explain", "--label", "a=b", "--", "true")
    first, _, _, *queues = done.stdout.decode().splitlines()
    assert 0 == done.returncode, done.stderr
    assert first.startswith("queue default takes the job: there is no filter to evaluate, and")
    assert ["default", "bulk"] == [line.split()[0] for line in queues]
    refused = joblane("queues", "explain", "--queue", "absent", "--json", "--", "true")
    assert (64, "not_allowed") == (
        refused.returncode,
        json.loads(refused.stdout)["entries"][0]["verdict"],
    )
    assert before == [job["id"] for job in http("GET", "/v1/jobs").json()["entries"]]


def test_a_pause_holds_jobs_and_a_cap_lets_them_go_two_at_a_time(
    cloud: Cloud, unset: Http, http: Http
):
    set_queue(unset, run_jobs=False)
    cloud.stop_agents()
    start_paced(cloud, "alone", threads=8, settings_s=READ_S)
    ids = [submit(http, "sleep", "1", queue="bulk") for _ in range(6)]
    wait_for(http, submit(http, "true"), "completed")  # the other queue goes on
    for job_id in ids:
        job = http("GET", f"/v1/jobs/{job_id}").json()
        assert "pending" == job["state"]
        assert "queue bulk is paused since" in job["reason"]
    set_queue(unset, threads=2)
    resumed = time.monotonic()
    wait_for(http, ids[0], "active", "completed", timeout_s=SEEN_S)
    print(f"the agent saw it after {time.monotonic() - resumed:.1f} s")
    jobs = [wait_for(http, job_id, "completed") for job_id in ids]
    times = [(job["started_at"], job["ended_at"]) for job in jobs]
    at_once = [sum(s <= start < e for s, e in times) for start, _ in times]
    assert 2 == max(at_once)


def test_a_pause_of_all_queues_is_one_command(
    cloud: Cloud, unset: Http, joblane: Run, environment: dict[str, str]
):
    """The role platform pauses each; an admin of a tenant none of those that tenants share."""

    def as_platform(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
        variables = {**environment, **cloud.environment(PLATFORM)}
        command = ["joblane", "queues", *arguments]
        return subprocess.run(command, env=variables, capture_output=True, timeout=60, check=False)

    refused = joblane("queues", "pause", "_all")
    assert 64 == refused.returncode, refused.stderr
    assert b"bulk not changed: other tenants use it, too" in refused.stdout
    paused = as_platform("pause", "_all")
    assert (0, {b"default paused", b"bulk paused"}) == (
        paused.returncode,
        set(paused.stdout.splitlines()),
    )
    resumed = as_platform("resume", "_all", "--json")
    assert {"bulk", "default"} == set(json.loads(resumed.stdout)["changed"])
    assert unset("GET", SETTINGS).json()["run_jobs"]


def settled_hour(http: Http) -> dict[str, dict[str, int]]:
    """The rates once they count what earlier tests left: a job that ended later is counted too."""
    items = hour(http)["completed"]["items"] + 1000
    wait_for(http, submit(http, "true", queue="bulk", items=1000), "completed")
    end = time.monotonic() + 10
    while (now := hour(http))["completed"]["items"] < items:
        assert time.monotonic() < end, now
        time.sleep(0.2)
    return now


@pytest.mark.usefixtures("agent")
def test_real_jobs_make_the_rates_move_for_their_own_tenant(http: Http, as_other: Http):
    before, other = settled_hour(http), hour(as_other)
    ids = [submit(http, "true", queue="bulk", items=3) for _ in range(4)]
    ids += [submit(http, "sh", "-c", "exit 65", queue="bulk", exit_codes={"permanent": [65]})]
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


@pytest.mark.usefixtures("agent")
def test_items_of_a_typed_job_are_counted_from_its_params_at_each_attempt(http: Http):
    """It fails twice, then it succeeds."""
    before = settled_hour(http)
    body = {
        "type": "sleep",
        "queue": "bulk",
        "params": {"ms": 1, "fail_first": 2, "items": ["a", "b", "c"]},
        "retry": {"max_attempts": 3, "backoff_s": [0]},
    }
    job = http("POST", "/v1/jobs", json=body).json()
    assert 3 == job["items"]
    wait_for(http, job["id"], "completed")
    end = time.monotonic() + 10
    while (now := hour(http))["completed"]["jobs"] == before["completed"]["jobs"]:
        assert time.monotonic() < end, now
        time.sleep(0.2)
    moved = {
        kind: {unit: now[kind][unit] - before[kind][unit] for unit in ("jobs", "items")}
        for kind in before
    }
    assert {
        "submitted": {"jobs": 1, "items": 3},
        "started": {"jobs": 3, "items": 9},
        "completed": {"jobs": 1, "items": 3},
        "failed": {"jobs": 0, "items": 0},
        "retried": {"jobs": 2, "items": 6},
    } == moved


def hour(http: Http) -> dict[str, Any]:
    """What happened in the last hour."""
    activity: list[dict[str, Any]] = http("GET", "/v1/queues/bulk").json()["activity"]
    kinds = ("submitted", "started", "completed", "failed", "retried")
    return {kind: activity[-1][kind] for kind in kinds}
