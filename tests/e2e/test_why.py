"""Why jobs wait, on the deployed stacks, with the command line as a person would ask it."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from joblane.aws.clients import Clients
from joblane.formats.times import rfc3339
from scripts.local.cloud import Cloud
from tests.e2e.conftest import Http, Run
from tests.e2e.test_broadcast import call
from tests.support.deployed import submit, until, wait_for
from tests.support.paced import start_paced

Ask = Callable[[str], list[dict[str, Any]]]
"""Takes a job's id; returns the reasons."""


@pytest.fixture(name="ask")
def _ask(joblane: Run) -> Ask:
    def ask(job_id: str) -> list[dict[str, Any]]:
        done = joblane("why", job_id, "--json")
        assert 0 == done.returncode, done.stderr
        answer = json.loads(done.stdout)
        assert job_id == answer["id"]
        assert answer["reasons"][0]["text"] in answer["summary"]
        reasons: list[dict[str, Any]] = answer["reasons"]
        return reasons

    return ask


@pytest.fixture(name="paused")
def _paused(platform: Http) -> Iterator[None]:
    def change(*, run_jobs: bool) -> None:
        body = {"run_jobs": run_jobs, "threads": None, "cluster_threads": None}
        path = "/v1/queues/bulk/settings"
        answer = platform("PUT", path, json=body, headers={"If-Match": "*"})
        assert 200 == answer.status_code, answer.text

    change(run_jobs=False)
    yield
    change(run_jobs=True)


@pytest.mark.usefixtures("quiet", "paused")
def test_without_agents_each_job_says_what_would_hold_it_up_first(
    http: Http, as_other: Http, ask: Ask, joblane: Run
):
    waits = submit(http, "true")
    held = submit(http, "true", queue="bulk")
    later = submit(http, "true", run_at=rfc3339(int((time.time() + 3600) * 1000)))
    concurrency = {"key": ["why", str(time.monotonic_ns())], "max_queued": 1}
    holder = submit(http, "true", concurrency=concurrency)
    waiter = submit(http, "true", concurrency=concurrency)
    assert "no_agents" == ask(waits)[0]["code"]
    paused, nobody = ask(held)[:2]
    assert ("paused", "no_agents") == (paused["code"], nobody["code"])
    assert paused["facts"]["since_at"]
    assert ["joblane queues resume bulk"] == paused["commands"]
    assert 3500 < ask(later)[0]["facts"]["wait_s"] < 3601
    key, place = ask(waiter)[:2]
    assert ("key_held", [holder], "pending") == (
        key["code"],
        key["facts"]["holders"],
        key["facts"]["holder_state"],
    )
    assert ("key_queue", 1) == (place["code"], place["facts"]["position"])
    text = joblane("why", held).stdout.decode()
    assert "queue bulk is paused since" in text
    assert "\n  joblane queues resume bulk\nalso:\n* no agent that serves queue bulk" in text
    assert 404 == as_other("GET", f"/v1/jobs/{waits}/why").status_code


@pytest.mark.usefixtures("agent")
def test_with_an_agent_the_reason_follows_the_job(http: Http, ask: Ask):
    runs = submit(http, "sleep", "600")
    fails = submit(http, "sh", "-c", "exit 3", retry={"max_attempts": 2, "backoff_s": [3600]})
    dies = submit(http, "sh", "-c", "exit 127", retry={"max_attempts": 1})
    blocks = submit(http, "sh", "-c", "exit 75", exit_codes={"blocked": [75]})
    wait_for(http, runs, "active")
    wait_for(http, fails, "retry")
    wait_for(http, dies, "dead")
    wait_for(http, blocks, "blocked")
    (running,) = ask(runs)
    assert ("running", "local") == (running["code"], running["facts"]["agent"])
    backoff, attempt = ask(fails)
    assert ("backoff", "last_attempt") == (backoff["code"], attempt["code"])
    assert 3 == attempt["facts"]["exit_code"]
    ended, means = ask(dies)
    assert ("ended", "outcome") == (ended["code"], means["code"])
    assert f"joblane dlq replay {dies}" in ended["commands"]
    condition, test = ask(blocks)[:2]
    assert ("condition", "app:default") == (condition["code"], condition["facts"]["condition"])
    assert "condition_test" == test["code"]
    http("POST", f"/v1/jobs/{runs}/cancel")
    wait_for(http, runs, "cancelled")
    assert "ended" == ask(runs)[0]["code"]


def test_an_agent_without_a_free_slot_and_one_that_is_cordoned(
    quiet: Cloud, http: Http, platform: Http, ask: Ask
):
    start_paced(quiet, "single", threads=1, options=("--max-memory-mb", "600"))
    runs = submit(http, "sleep", "600")
    wait_for(http, runs, "active")
    waits = submit(http, "true")
    until(lambda: "no_free_slot" == ask(waits)[0]["code"])
    assert 202 == platform("POST", "/v1/agents/single/cordon").status_code
    until(lambda: "agents_unavailable" == ask(waits)[0]["code"])
    assert ["joblane agents uncordon single"] == ask(waits)[0]["commands"]
    large = submit(http, "true", resources={"memory_mb": 700})
    assert 202 == platform("POST", "/v1/agents/single/uncordon").status_code
    http("POST", f"/v1/jobs/{runs}/cancel")
    wait_for(http, waits, "completed")
    until(lambda: "agent_note" in [reason["code"] for reason in ask(large)])
    lacks, *others = ask(large)  # it has no cgroups, and could not limit its memory anyway
    assert "agents_lack" == lacks["code"]
    assert "single lacks memory_mb" in lacks["text"]
    note = "waits for 700 MB of memory; agent single gives a job at most 600 MB"
    assert any(note in reason["text"] for reason in others)


@pytest.mark.deep  # a process of the function may have read a minute ago what agents can give
def test_what_no_live_agent_can_give_is_said_when_the_job_is_submitted(
    quiet: Cloud, clients: Clients, http: Http, ask: Ask, joblane: Run
):
    """This machine's agents have no cgroups, and so no limit of memory."""
    start_paced(quiet, "laptop", threads=1)
    call(clients, "requeue", {})
    large = {"command": ["true"], "resources": {"memory_mb": 700}, "labels": {"of": "warning"}}

    def warn() -> dict[str, Any] | None:
        job: dict[str, Any] = http("POST", "/v1/jobs", json=large).json()
        return job if "memory_mb" in (job["warning"] or "") else None

    job = until(warn, timeout_s=90)
    said = "no live agent of queue default can give it memory_mb; the job waits for an agent whose"
    assert job["warning"].startswith(said)
    assert (700, 1024) == (job["limits"]["memory_mb"], job["limits"]["pids"])
    done = joblane("submit", "--memory-mb", "700", "--label", "of=warning", "--", "true")
    assert (0, True) == (done.returncode, done.stderr.decode().startswith(f"joblane: {said}"))
    reason = ask(job["id"])[0]
    assert ("agents_lack", "memory_mb") == (reason["code"], reason["facts"]["lacks"])
    points = json.loads(joblane("top", "--once", "--json").stdout)["attention"]
    assert any("can give" in each["text"] and each["kind"] == "lacking" for each in points)
    assert b"limits       memory 700 MB, pids 1024 (default)" in joblane("get", job["id"]).stdout
    http("POST", "/v1/jobs/cancel", params={"label": "of=warning"}, json={})


def test_a_dead_job_that_is_not_restartable_is_offered_what_the_api_takes(
    agent: Cloud, http: Http, ask: Ask, joblane: Run
):
    dies = submit(http, "sh", "-c", "exit 3", restartable=False)
    wait_for(http, dies, "dead")
    commands = ask(dies)[0]["commands"]
    assert [f"joblane {verb} {dies}" for verb in ("logs", "resubmit", "dlq dismiss")] == commands
    for command in commands:
        done = joblane(*command.split()[1:])
        assert 0 == done.returncode, done.stderr


@pytest.mark.usefixtures("paused")
def test_after_a_resume_it_says_that_agents_have_to_read_it(
    quiet: Cloud, http: Http, ask: Ask, platform: Http
):
    start_paced(quiet, "reader")  # it reads settings when it starts, and then every 20 s
    waits = submit(http, "true", queue="bulk")
    until(lambda: ask(waits)[0]["code"] == "paused" and len(ask(waits)) == 1)  # an agent is there
    body = {"run_jobs": True, "threads": None, "cluster_threads": None}
    platform("PUT", "/v1/queues/bulk/settings", json=body, headers={"If-Match": "*"})
    reason = ask(waits)[0]
    if reason["code"] == "settings_changed":  # it may have read it by chance
        assert "agents read that within 20 s: agents have" in reason["text"]
    else:
        assert reason["code"] in {"running", "ended"}
    http("POST", f"/v1/jobs/{waits}/cancel")
