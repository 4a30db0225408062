"""Rows of schedules that are deleted, made again, or cannot be read."""

import json
from dataclasses import replace

import pytest

from functions.submission import handler as submission
from joblane.aws.clients import Clients
from joblane.aws.schedule.items import ROW, key
from joblane.aws.schedule.schedules import ScheduleChanged, ScheduleStore
from joblane.aws.table import Table
from joblane.testing.clock import Clock
from tests.support.aws import DESCRIPTOR, Cloud, configure
from tests.support.meter import Meter
from tests.support.requests import Api
from tests.unit.schedule.test_cost import NAME, NOON, SAVED, deliver, function, save, stored


def test_a_late_deletion_leaves_the_next_schedule_of_the_name(aws: Cloud) -> None:
    late = save(aws)
    store = ScheduleStore(aws.clients.make("dynamodb"), DESCRIPTOR.jobs_table)
    store.delete(late)
    api = Api(submission.build(configure(submission.Settings), aws.clients, Clock(NOON + 1)))
    assert 201 == api("POST", "/v1/schedules", SAVED)[0]
    with pytest.raises(ScheduleChanged):
        store.delete(late)
    assert stored(aws).created_ms > late.created_ms


def test_a_schedule_and_what_it_starts_are_deleted_at_once(
    aws: Cloud, metered: Clients, meter: Meter
) -> None:
    schedule = save(aws)
    store = ScheduleStore(metered.make("dynamodb"), DESCRIPTOR.jobs_table)
    store.delete(schedule)
    assert {"dynamodb.TransactWriteItems": 1} == meter.calls
    assert store.template("acme", NAME) is None
    with pytest.raises(ScheduleChanged):
        store.delete(schedule)


def test_a_row_that_cannot_be_handled_leaves_the_others_of_its_batch(aws: Cloud) -> None:
    schedule = save(aws)
    table = Table(aws.clients.make("dynamodb"), DESCRIPTOR.jobs_table)
    row = table.get(key("acme", NAME, ROW))
    assert row is not None
    table.put({**row, **key("acme", "broken"), "fields": "{"})
    body = [json.dumps(["acme", name, schedule.due_ms]) for name in ("broken", NAME)]
    records = [
        {"messageId": str(n), "body": text, "attributes": {"ApproximateReceiveCount": "1"}}
        for n, text in enumerate(body)
    ]
    reader = function(aws.clients, Clock((schedule.starts_ms or 0) / 1000))
    assert ["0"] == reader.handle(records, lambda: 10.0)
    assert ["started"] == [each.outcome for each in stored(aws).results]


def test_a_zone_that_the_database_has_no_more_is_read_where_no_time_is_computed(
    aws: Cloud,
) -> None:
    save(aws)
    table = Table(aws.clients.make("dynamodb"), DESCRIPTOR.jobs_table)
    row = table.get(key("acme", NAME, ROW))
    assert row is not None
    table.put({**row, "fields": row["fields"].replace("America/Argentina", "America/Atlantis")})
    assert "America/Atlantis/Buenos_Aires" == stored(aws).fields.zone


def test_a_message_that_comes_again_finds_the_job_of_a_function_that_died(aws: Cloud) -> None:
    """Another function skipped the due time before that job was put."""
    before = save(aws)
    reader = function(aws.clients, Clock((before.starts_ms or 0) / 1000))
    deliver(reader, before)
    after = stored(aws)
    (result,) = after.results
    store = ScheduleStore(aws.clients.make("dynamodb"), DESCRIPTOR.jobs_table)
    skipped = after.next(results=(replace(result, outcome="skipped"),))
    store.write(after, skipped, before.starts_ms or 0)
    deliver(reader, before, receives=2)
    assert ["started"] == [each.outcome for each in stored(aws).results]
