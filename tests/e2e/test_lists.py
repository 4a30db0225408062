"""Lists by states that few jobs are in, and changing all that filters select, when deployed."""

import time

import pytest

from joblane.formats.times import rfc3339
from tests.e2e.conftest import Http, Run
from tests.support.deployed import submit, wait_for


def in_state(http: Http, states: str, batch: str) -> set[str]:
    """Ids of the jobs of a batch in these states, on the first page."""
    query = {"state": states.split(","), "label": f"batch={batch}"}
    answer = http("GET", "/v1/jobs", params=query)
    assert 200 == answer.status_code, answer.text
    return {job["id"] for job in answer.json()["entries"]}


@pytest.mark.usefixtures("agent")
def test_what_filters_select_is_listed_cancelled_and_retried(http: Http, joblane: Run):
    batch = str(time.time_ns())
    labels = {"batch": batch}
    in_an_hour = rfc3339(int((time.time() + 3600) * 1000))
    scheduled = submit(http, "true", labels=labels, run_at=in_an_hour)
    running = submit(http, "sleep", "300", labels=labels)
    failed = submit(http, "sh", "-c", "exit 65", labels=labels, exit_codes={"permanent": [65]})
    wait_for(http, running, "active")
    wait_for(http, failed, "failed")
    assert {scheduled} == in_state(http, "scheduled", batch)
    assert {running} == in_state(http, "active", batch)
    assert {scheduled, running, failed} == in_state(http, "active,scheduled,failed", batch)

    label = ("--label", f"batch={batch}")
    refused = joblane("cancel", *label)
    assert (2, b"") == (refused.returncode, refused.stdout)
    assert b"add --yes to cancel without a terminal" in refused.stderr
    assert b"would cancel 2 jobs\n" == joblane("cancel", *label, "--dry-run").stdout
    done = joblane("cancel", *label, "--yes", "--reason", "wrong input")
    assert (0, b"cancelled 2 of 2 jobs examined\n") == (done.returncode, done.stdout), done.stderr
    wait_for(http, scheduled, "cancelled")
    wait_for(http, running, "cancelled")
    assert set() == in_state(http, "active,scheduled", batch)

    assert b"retried 1 of 1 jobs examined\n" == joblane("retry", *label, "--yes").stdout
    again = wait_for(http, failed, "failed")
    assert ["pending", "active", "failed"] * 2 == [step["state"] for step in again["timeline"]]
    query = {"action": "cancel-jobs", "limit": 100}
    trail = http("GET", "/v1/audit", params=query).json()["entries"]
    asked = [(entry["reason"], (entry["asked"] or {}).get("label")) for entry in trail]
    assert ("wrong input", [f"batch={batch}"]) in asked
