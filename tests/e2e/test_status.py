"""The summary, activity and fleets, on the deployed stacks."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from joblane.aws.clients import Clients
from joblane.aws.fleet.fleet_records import FleetRecords
from joblane.deployment.names import FLEET_RECORD, PLATFORM, table_name
from joblane.fleet.record import FleetRecord
from joblane.formats.times import rfc3339
from scripts.local.cloud import DEPLOYMENT, Cloud
from tests.e2e.conftest import Http, Run
from tests.support.deployed import submit

COUNTED_S = 60
"""The projector collects changes for 5 s, and starts cold on a busy host."""


def summary(http: Http) -> dict[str, Any]:
    answer = http("GET", "/v1/summary")
    assert 200 == answer.status_code, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_scheduled_jobs_are_counted_until_they_are_cancelled(http: Http):
    """As many as a list finds, after each change."""

    def agree() -> int:
        deadline = time.monotonic() + COUNTED_S
        while True:
            page = http("GET", "/v1/jobs", params={"state": "scheduled", "limit": 100}).json()
            assert page["next"] is None
            counted = (summary(http)["jobs"] or {"by_state": {}})["by_state"].get("scheduled", 0)
            if counted == len(page["entries"]):
                return int(counted)
            assert time.monotonic() < deadline, f"{counted} are counted of {len(page['entries'])}"
            time.sleep(0.5)

    before = agree()
    run_at = rfc3339(int((time.time() + 3600) * 1000))
    job_id = submit(http, "true", run_at=run_at)
    assert before + 1 == agree()
    assert 202 == http("POST", f"/v1/jobs/{job_id}/cancel").status_code
    assert before == agree()


def test_activity_over_a_day_has_what_the_hour_has(http: Http, platform: Http):
    job_id = submit(http, "true", run_at=rfc3339(int((time.time() + 3600) * 1000)))

    def points(client: Http, span: str) -> int:
        answer = client("GET", "/v1/queues/default/activity", params={"span": span})
        assert 200 == answer.status_code, answer.text
        return sum(point["submitted"] for point in answer.json()["points"])

    deadline = time.monotonic() + COUNTED_S
    while not (found := points(http, "1h")):
        assert time.monotonic() < deadline, "no submission is counted"
        time.sleep(0.5)
    assert found <= points(http, "24h") <= points(platform, "24h")
    assert 202 == http("POST", f"/v1/jobs/{job_id}/cancel").status_code


def test_fleets_without_groups_say_so(platform: Http):
    answer = platform("GET", "/v1/fleets")
    assert 200 == answer.status_code, answer.text
    for fleet in answer.json()["entries"]:
        assert fleet["desired"] is None
        assert "no Auto Scaling group" in fleet["note"]


@pytest.fixture(name="decided")
def _decided(clients: Clients) -> Iterator[None]:
    """What the scaler writes of a fleet that has its largest size; here no fleet has a group."""
    dynamodb = clients.make("dynamodb")
    table = table_name(DEPLOYMENT, "settings")
    at_ms = int(time.time() * 1000)
    record = FleetRecord(at_ms, 12, 4, 4, 4, 4, 4, 0, backlog=8, limit="max")
    FleetRecords(dynamodb, table).write("main", record)
    yield
    dynamodb.delete_item(TableName=table, Key={"queue": {"S": f"{FLEET_RECORD}main"}})


@pytest.mark.usefixtures("decided")
def test_what_the_scaler_decided_is_in_the_api_and_on_the_screen_of_top(
    cloud: Cloud, environment: dict[str, str], joblane: Run, platform: Http, tmp_path: Path
):
    (fleet,) = platform("GET", "/v1/fleets").json()["entries"]
    assert (8, ["fleet_max"]) == (
        fleet["decision"]["backlog"],
        [reason["code"] for reason in fleet["decision"]["reasons"]],
    )
    as_platform = {
        "PATH": environment["PATH"],
        "HOME": str(tmp_path),
        "JOBLANE_URL": cloud.url,
        "JOBLANE_TOKEN": cloud.token(PLATFORM),
    }
    shown = subprocess.run(
        ["joblane", "top", "--once"], env=as_platform, capture_output=True, timeout=60, check=False
    )
    assert 0 == shown.returncode, shown.stderr
    assert b"fleet main may have 4 instances and no more" in shown.stdout
    assert b"hidden  conditions: for operators of a tenant" in shown.stdout

    mine = joblane("top", "--once").stdout
    assert b"hidden  agents and fleets: for the role platform" in mine
    assert b"fleet main" not in mine
