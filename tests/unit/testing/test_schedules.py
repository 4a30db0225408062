"""Schedules of a deployment in memory: time passes when a test says so."""

from datetime import UTC, datetime
from typing import Any

from joblane.client.calls import Request
from joblane.testing import FakeDeployment


def ask(deployment: FakeDeployment, method: str, path: str, content: bytes | None = None) -> Any:
    headers = {"Content-Type": "application/json"}
    with deployment.client() as client:
        return client._connection.send(Request(method, path, content=content, headers=headers))


def test_what_is_due_starts_as_days_pass() -> None:
    start = datetime(2026, 3, 28, 12, tzinfo=UTC)
    deployment = FakeDeployment(start=start, commands=lambda _job: 0)
    saved = b"""{"name": "nightly", "cron": "30 2 * * *", "zone": "Europe/Berlin",
                 "submission": {"command": ["backup"]}}"""
    ask(deployment, "POST", "/v1/schedules", saved)
    deployment.advance(2.5 * 86_400)
    results = ask(deployment, "GET", "/v1/schedules/nightly/results")["entries"]
    assert ["2026-03-30T00:30:00.000Z", "2026-03-29T01:00:00.000Z"] == [
        each["due_at"] for each in results
    ]
    assert {"started"} == {each["outcome"] for each in results}
    assert {"started on its second"} == {each["text"] for each in results}
    jobs = deployment.submitted()
    assert [("backup",), ("backup",)] == [tuple(each.command) for each in jobs]
    assert {"completed"} == {each.state for each in jobs}


def test_a_schedule_of_each_minute_starts_ten_jobs_in_ten_minutes() -> None:
    start = datetime(2026, 3, 28, 12, tzinfo=UTC)
    deployment = FakeDeployment(start=start, commands=lambda _job: 0)
    saved = b'{"name": "poll", "every_s": 60, "submission": {"command": ["poll"]}}'
    ask(deployment, "POST", "/v1/schedules", saved)
    deployment.advance(600)
    assert 10 == len(deployment.submitted())
