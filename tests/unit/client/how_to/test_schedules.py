"""What docs/how-to/run-a-schedule.md says of schedules, by the SDK and a deployment in memory."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from joblane import RequestError, ScheduleOptions
from joblane.client.clients import Client
from joblane.formats.times import unix_ms
from joblane.schedule.fields import Timing
from joblane.schedule.times import local_time, next_times
from joblane.testing import FakeDeployment

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "run-a-schedule.md"
NIGHTS = {"forward": "2026-03-29T00:00:00Z", "back": "2026-10-24T23:00:00Z"}
"""When the columns of the table begin, in UTC; both nights are looked at for five hours."""


@pytest.fixture(name="deployment", scope="module")
def _deployment() -> FakeDeployment:
    return FakeDeployment()


@pytest.fixture(name="client")
def _client(deployment: FakeDeployment) -> Client:
    return deployment.client()


def due(cron: str, begins: str) -> list[str]:
    """Local times of a night, as `02:30 +02:00`."""
    start_ms = unix_ms(begins)
    times = next_times(Timing(cron=cron, zone="Europe/Berlin"), start_ms - 1, 20)
    shown = [local_time(at, "Europe/Berlin") for at in times if at < start_ms + 5 * 3_600_000]
    return [f"{each[11:16]} {each[19:]}" for each in shown]


def test_the_table_of_changes_of_clocks_is_right() -> None:
    """A cell with times has the first of those that are due; the offset may be left out."""
    row = re.compile(r"^\| `(\S+(?: \S+){4})` \| (.+) \| (.+) \|$", re.MULTILINE)
    rows = row.findall(PAGE.read_text("utf-8"))
    assert 5 == len(rows)
    compared = 0
    for cron, *cells in rows:
        for cell, begins in zip(cells, NIGHTS.values(), strict=True):
            shown = re.findall(r"\d\d:\d\d(?: [+-]\d\d:\d\d)?", cell)
            times = due(cron, begins)
            if "real time" not in cell:
                assert len(times) == len(shown), (cron, times)
            if "0 * * * *" == cron:  # the first hours of the night are not shown
                del times[: [each.startswith(shown[0]) for each in times].index(True)]
            for one, other in zip(shown, times, strict=False):
                assert other.startswith(one), (cron, shown, times)
                compared += 1
    assert compared > 15


def test_a_backfill_counts_then_starts_what_is_missing(
    deployment: FakeDeployment, client: Client
) -> None:
    client.schedules.add("hourly", ["true"], every_s=3600)
    now = deployment.now.replace(minute=0, second=0, microsecond=0)
    first = now - timedelta(hours=2)
    (checked,) = client.schedules.backfill("hourly", first, now, check=True)
    assert (3, 0, []) == (checked.left, checked.started, checked.jobs)
    assert not list(client.list())
    (done,) = client.schedules.backfill("hourly", now, now)
    assert (1, 0) == (done.started, done.left)
    (done,) = client.schedules.backfill("hourly", first, now)
    assert (2, 1) == (done.started, done.already)
    times = {job.data.scheduled_at for job in client.list()}
    assert {f"{first:%Y-%m-%dT%H}:00:00.000Z", f"{now:%Y-%m-%dT%H}:00:00.000Z"} <= times


def test_groups_are_backfilled_only_if_they_may_overlap(client: Client) -> None:
    client.schedules.add("sweep", ["true"], array={"size": 2}, cron="0 * * * *")
    past = datetime.now(UTC) - timedelta(hours=3), datetime.now(UTC) - timedelta(hours=1)
    with pytest.raises(RequestError, match="set overlap to allow"):
        list(client.schedules.backfill("sweep", *past, check=True))
    client.schedules.edit("sweep", overlap="allow")
    assert list(client.schedules.backfill("sweep", *past, check=True))


def test_what_is_refused_is_named_by_its_field(client: Client) -> None:
    wrong: dict[str, list[ScheduleOptions]] = {
        "cron": [{"cron": "0 0 2 * * *"}, {"cron": "@reboot"}, {"cron": "0 0 30 2 *"}],
        "every_s": [{"every_s": 30}, {}, {"cron": "@daily", "every_s": 60}],
        "zone": [{"cron": "@daily", "zone": "Europe/Atlantis"}],
        "submission": [{"cron": "@daily", "run_at": "2027-01-01T00:00:00Z"}],
        "end": [{"cron": "@daily", "start": "2027-01-02T00:00:00Z", "end": "2027-01-01T00:00:00Z"}],
    }
    for field, each in ((field, each) for field, many in wrong.items() for each in many):
        with pytest.raises(RequestError) as refused:
            client.schedules.add("wrong", ["true"], **each)
        assert [field] == [problem.field for problem in refused.value.fields], each
    assert "wrong" not in [each.name for each in client.schedules.list()]
