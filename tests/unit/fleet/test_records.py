"""What the scaler last decided for a fleet: what a reader is told, and the item that stores it."""

from dataclasses import fields, replace
from typing import Any

import pytest

from joblane.aws.fleet.fleet_records import FleetRecords
from joblane.aws.queue.settings import SettingsStore
from joblane.deployment.names import table_name
from joblane.fleet.record import STALE_MS, WRITE_EVERY_MS, FleetRecord, to_write
from joblane.queue.settings import UNSET
from tests.support.aws import NAME, Cloud

TABLE = table_name(NAME, "settings")
NOW_MS = 1_800_000_000_000
PLAIN = FleetRecord(
    decided_ms=NOW_MS, wanted=0, desired=2, max=4, in_service=2, alive=2, busy=0, booting=0
)
FULL = replace(
    PLAIN,
    backlog=7,
    limit="short",
    below_since_ms=NOW_MS - 5,
    crowded_since_ms=NOW_MS - 6,
    short_since_ms=NOW_MS - 4,
    short_reason="We currently do not have sufficient capacity",
    blind_since_ms=NOW_MS - 3,
    blind_reason="SQS cannot be read",
    blind_queues=("bulk",),
    raised_ms=NOW_MS - 2,
    roomy_since_ms=NOW_MS - 1,
    suspended=("AZRebalance", "Launch"),
    boot_failed_ms=NOW_MS - 10,
    boot_failed_instance="i-1",
    boot_failed_reason="failed its setup: exit code 3",
    waiting={"default": NOW_MS - 9},
)

NEWS: dict[str, Any] = {
    "desired": 3,
    "max": 5,
    "in_service": 1,
    "limit": "max",
    "below_since_ms": NOW_MS,
    "crowded_since_ms": NOW_MS,
    "short_since_ms": NOW_MS,
    "short_reason": "VcpuLimitExceeded",
    "blind_since_ms": NOW_MS,
    "blind_reason": "DynamoDB cannot be read",
    "blind_queues": ("default",),
    "raised_ms": NOW_MS,
    "roomy_since_ms": NOW_MS,
    "suspended": ("Launch",),
    "boot_failed_ms": NOW_MS,
    "boot_failed_instance": "i-2",
    "boot_failed_reason": "failed its setup: exit code 4",
    "booting": 1,
    "waiting": {"default": NOW_MS},
}
"""What a reader is told, and what the next call continues from: each is written at once."""

LOAD: dict[str, Any] = {"wanted": 9, "alive": 1, "busy": 1, "backlog": 4}
"""What changes with every call, and is written with the rest."""


@pytest.fixture(name="records")
def _records(aws: Cloud) -> FleetRecords:
    return FleetRecords(aws.clients.make("dynamodb"), TABLE)


def test_every_field_is_either_news_or_load():
    assert {*NEWS, *LOAD, "decided_ms"} == {field.name for field in fields(FleetRecord)}


@pytest.mark.parametrize("name", NEWS)
def test_news_is_written_at_once(name: str):
    later = replace(PLAIN, decided_ms=NOW_MS + 1)
    assert to_write(PLAIN, replace(later, **{name: NEWS[name]}))


@pytest.mark.parametrize("name", LOAD)
def test_the_load_alone_is_not_written(name: str):
    later = replace(PLAIN, decided_ms=NOW_MS + WRITE_EVERY_MS - 1)
    assert not to_write(PLAIN, replace(later, **{name: LOAD[name]}))


def test_a_record_is_written_the_first_time_and_every_five_minutes():
    assert to_write(None, PLAIN)
    assert to_write(PLAIN, replace(PLAIN, decided_ms=NOW_MS + WRITE_EVERY_MS))


def test_a_record_is_stale_only_when_a_write_is_overdue():
    assert STALE_MS >= 2 * WRITE_EVERY_MS
    assert not PLAIN.stale(NOW_MS + STALE_MS - 1)
    assert PLAIN.stale(NOW_MS + STALE_MS)


def test_capacity_is_short_since_a_time():
    assert (False, True) == (PLAIN.short, FULL.short)


@pytest.mark.parametrize("record", [PLAIN, FULL])
def test_a_record_is_read_as_it_was_written(records: FleetRecords, record: FleetRecord):
    records.write("main", record)
    assert record == records.read("main")
    assert {"main": record} == records.read_all(["main", "night"], consistent=True)


def test_a_later_record_replaces_all_of_an_earlier_one(records: FleetRecords):
    records.write("main", FULL)
    records.write("main", PLAIN)
    assert PLAIN == records.read("main")


def test_a_fleet_that_was_never_looked_at_has_no_record(records: FleetRecords):
    assert records.read("main") is None
    assert {} == records.read_all(["main"])


def test_fleets_have_records_of_their_own(records: FleetRecords):
    records.write("main", FULL)
    records.write("night", PLAIN)
    assert {"main": FULL, "night": PLAIN} == records.read_all(["main", "night"])


def test_a_record_is_nobodys_queue(aws: Cloud, records: FleetRecords):
    """A fleet may have the name of a queue."""
    records.write("default", FULL)
    settings = SettingsStore(aws.clients.make("dynamodb"), TABLE)
    assert UNSET == settings.get("default")


def test_a_record_expires_a_week_after_the_last_write(aws: Cloud, records: FleetRecords):
    records.write("main", PLAIN)
    item = aws.clients.make("dynamodb").get_item(
        TableName=TABLE, Key={"queue": {"S": "FLEET#main"}}
    )["Item"]
    assert str(NOW_MS // 1000 + 7 * 86_400) == item["expires_at"]["N"]


def test_a_record_of_another_version_is_read(aws: Cloud, records: FleetRecords):
    """A later version may add attributes; those that may be absent are."""
    records.write("main", FULL)
    aws.clients.make("dynamodb").update_item(
        TableName=TABLE,
        Key={"queue": {"S": "FLEET#main"}},
        UpdateExpression="SET novelty = :novelty REMOVE roomy_since_ms, waiting",
        ExpressionAttributeValues={":novelty": {"S": "?"}},
    )
    assert replace(FULL, roomy_since_ms=None, waiting={}) == records.read("main")
