"""Failed and dead jobs started again, when deployed: with changes, and all that filters select."""

import json
import time

import pytest

from tests.e2e.conftest import Http, Run
from tests.support import deployed
from tests.support.deployed import wait_for

COUNT = 12


@pytest.fixture(name="batch")
def _batch() -> str:
    """A label of this test's jobs."""
    return f"batch={time.time_ns()}"


def submit_once(http: Http, batch: str, *command: str, **fields: object) -> str:
    """Submit a job that is tried once."""
    name, value = batch.split("=")
    given = {"labels": {name: value}, "retry": {"max_attempts": 1}}
    return deployed.submit(http, *command, **given, **fields)


@pytest.mark.usefixtures("agent")
def test_what_died_is_submitted_again_once_with_what_it_lacked(
    http: Http, joblane: Run, batch: str
):
    jobs = [submit_once(http, batch, "sh", "-c", 'test "$FIXED" = yes') for _ in range(COUNT)]
    for job_id in jobs:
        wait_for(http, job_id, "dead")
    one = joblane("resubmit", jobs[0], "--set", "env.FIXED=yes", "--reason", "tried with one")
    assert 0 == one.returncode, one.stderr
    first = wait_for(http, one.stdout.decode().strip(), "completed")
    assert ({"FIXED": "yes"}, jobs[0]) == (first["env"], first["resubmit_of"])

    given = ("resubmit", "--state", "dead", "--label", batch, "--set", "env.FIXED=yes")
    would = f"would resubmit {COUNT - 1} jobs (1 was resubmitted before)\n".encode()
    assert would == joblane(*given, "--dry-run").stdout
    assert 2 == joblane(*given).returncode  # nobody is there to be asked
    done = joblane(*given, "--yes", "--json", "--reason", "it was not fixed")
    told = json.loads(done.stdout)
    assert (COUNT, COUNT - 1, 1) == (told["examined"], told["resubmitted"], told["already"])
    assert set(jobs[1:]) == {entry["id"] for entry in told["jobs"]}
    for entry in told["jobs"]:
        wait_for(http, entry["resubmitted_as"], "completed")
    again = joblane(*given, "--yes")
    said = f"resubmitted 0 of {COUNT} jobs examined, {COUNT} were resubmitted before\n"
    assert (0, said) == (again.returncode, again.stdout.decode())
    trail = http("GET", "/v1/audit", params={"action": "resubmit-jobs", "limit": 100}).json()
    asked = [(entry["reason"], entry["asked"]["changes"]) for entry in trail["entries"]]
    assert ("it was not fixed", ["env.FIXED"]) in asked


@pytest.mark.usefixtures("agent")
def test_a_field_that_is_not_acceptable_is_named(http: Http, joblane: Run, batch: str):
    job_id = submit_once(http, batch, "true")
    wait_for(http, job_id, "completed")
    refused = joblane("resubmit", job_id, "--set", "queue=not-there")
    assert 64 == refused.returncode
    assert b"queue" in refused.stderr
    body = {"changes": {"resources": {"memory_mb": "much"}}}
    answer = http("POST", f"/v1/jobs/{job_id}/resubmit", json=body)
    assert 400 == answer.status_code
    assert ["resources.memory_mb"] == [entry["field"] for entry in answer.json()["errors"]]
    assert http("GET", f"/v1/jobs/{job_id}").json()["resubmitted_as"] is None


@pytest.mark.usefixtures("agent")
def test_dead_jobs_that_match_are_replayed_or_dismissed(http: Http, joblane: Run, batch: str):
    replayed = [submit_once(http, batch, "false", name=f"replay-{batch}") for _ in range(3)]
    dismissed = [submit_once(http, batch, "false", name=f"dismiss-{batch}") for _ in range(3)]
    for job_id in (*replayed, *dismissed):
        wait_for(http, job_id, "dead")
    name = ("--name", f"replay-{batch}")
    assert b"would replay 3 jobs\n" == joblane("dlq", "replay", *name, "--dry-run").stdout
    done = joblane("dlq", "replay", *name, "--yes", "--reason", "mended")
    assert (0, b"replayed 3 of 3 jobs examined\n") == (done.returncode, done.stdout)
    for job_id in replayed:
        job = wait_for(http, job_id, "dead")
        assert 2 == [step["state"] for step in job["timeline"]].count("dead")
    query = {"label": batch, "name": f"dismiss-{batch}"}
    answer = http("POST", "/v1/dlq/dismiss", params=query, json={"reason": "not needed"})
    assert {"examined": 3, "dismissed": 3, "refused": [], "next": None} == answer.json()
    for job_id in dismissed:
        assert "dismissed" == http("GET", f"/v1/jobs/{job_id}").json()["state"]
    assert 400 == http("POST", "/v1/dlq/dismiss").status_code
