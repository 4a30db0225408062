"""Schedules, deployed: one real minute, whatever a schedule starts, and what it leaves behind.

All are due at the same minute, so that the test waits once. What happens at other times, in other
zones and after faults is tried with a clock that is handed in (tests/unit/schedule).
"""

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from scripts.local.cloud import Cloud
from tests.e2e.conftest import Http
from tests.support.deployed import submit, until, wait_for

MINUTE_S = 75
"""A due time comes within 60 s, and its job needs some more."""

PRINTS = ("sh", "-c", 'echo "$JOBLANE_SCHEDULED_AT"')
STARTS: dict[str, dict[str, Any]] = {
    "prints": {"command": PRINTS},
    "keyed": {"command": ["true"], "concurrency": {"key": ["schedules"]}},
    "array": {"command": PRINTS, "array": {"size": 2}},
    "values": {"command": PRINTS, "array": {"values": [1, 2]}},
    "targeted": {"command": ["true"], "target": "host:local"},
    "broadcast": {"command": ["true"], "target": "_all"},
    "large": {"command": ["wc", "-c"], "stdin": "x" * 262_144},
}


@pytest.fixture(name="operator", scope="module")
def _operator(cloud: Cloud) -> Iterator[Http]:
    with closing(Http(cloud.url, cloud.token(machine="operator"))) as http:
        yield http


def results(http: Http, name: str) -> list[dict[str, Any]]:
    """What became of the due times of a schedule, the newest first."""
    found: list[dict[str, Any]] = http("GET", f"/v1/schedules/{name}/results").json()["entries"]
    return found


@pytest.mark.usefixtures("agent")
def test_what_schedules_start_runs_at_its_minute(operator: Http) -> None:
    down = operator("PUT", "/v1/conditions/app:schedules", json={"state": "down"})
    assert 200 == down.status_code, down.text
    waits = submit(operator, "true", queue="default", requires=["app:schedules"])
    wait_for(operator, waits, "blocked")
    saved = {name: {"submission": submission} for name, submission in STARTS.items()}
    saved["requeues"] = {"requeue": {"queue": "default", "type": None, "priority": "low"}}
    saved["replaces"] = {"submission": {"command": ["sleep", "300"]}}
    for name, what in saved.items():
        schedule = {"name": name, "cron": "* * * * *", "overlap": "replace", **what}
        answer = operator("POST", "/v1/schedules", json=schedule)
        assert 201 == answer.status_code, answer.text
    ran = operator("POST", "/v1/schedules/replaces/run").json()
    assert ("started", "run") == (ran["outcome"], ran["cause"])
    started = {name: until(partial(results, operator, name), MINUTE_S) for name in STARTS}
    for name, found in started.items():
        first = found[-1]
        assert ("started", "due") == (first["outcome"], first["cause"]), name
        ended = wait_for(operator, first["job_id"], "completed")
        assert (name, first["due_at"]) == (ended["schedule"], ended["scheduled_at"])
    printed = operator("GET", f"/v1/jobs/{started['prints'][-1]['job_id']}/logs").json()
    assert [started["prints"][-1]["due_at"]] == [
        each["text"].strip() for each in printed["entries"] if each["text"].strip()
    ]
    requeued = until(lambda: results(operator, "requeues"), MINUTE_S)[-1]
    assert "sent again" in requeued["text"]
    assert 0 < int(requeued["text"].split()[0])
    assert "low" == operator("GET", f"/v1/jobs/{waits}").json()["priority"]

    for name in saved:
        assert 200 == operator("POST", f"/v1/schedules/{name}/pause").status_code
        assert operator("GET", f"/v1/schedules/{name}").json()["paused"]
        assert 204 == operator("DELETE", f"/v1/schedules/{name}").status_code
    left = operator("GET", "/v1/schedules").json()["entries"]
    assert {"yearly"} >= {each["name"] for each in left}


def test_a_schedule_that_joblane_toml_declares_is_there(operator: Http) -> None:
    declared = until(
        lambda: [
            each
            for each in operator("GET", "/v1/schedules", params={"limit": 100}).json()["entries"]
            if each["declared"]
        ],
        MINUTE_S,
    )
    assert ["yearly"] == [each["name"] for each in declared]
