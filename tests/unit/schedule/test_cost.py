"""What a start of a schedule costs beside its job, and what a crash after any call leaves."""

from typing import Any

import pytest

from functions.due import handler as due
from functions.submission import handler as submission
from joblane.aws.clients import Clients
from joblane.aws.schedule.due_queue import DueMessage
from joblane.aws.schedule.schedules import ScheduleStore
from joblane.schedule.record import Schedule
from joblane.service.schedule.due_reader import DueReader
from joblane.testing.clock import Clock
from tests.support.aws import DESCRIPTOR, Cloud, configure
from tests.support.crash_points import Killed, Process
from tests.support.memory import Memory
from tests.support.meter import Meter
from tests.support.requests import Api

NOON = 1_800_000_000.0 // 3600 * 3600
NAME = "a-name-of-thirty-one-characters"
SAVED: dict[str, Any] = {
    "name": NAME,
    "cron": "*/5 2-4 * * MON-FRI",
    "zone": "America/Argentina/Buenos_Aires",
    "overlap": "queue",
    "jitter_s": 60,
    "submission": {"command": ["python3", "-m", "reports.nightly", "--all"]},
}
JOB_UNITS, ROW_UNITS = 2, 3
"""Write units of a put of a job, and of a start beside it."""


def save(aws: Cloud, **changes: Any) -> Schedule:
    """Save a schedule, and read it."""
    api = Api(submission.build(configure(submission.Settings), aws.clients, Clock(NOON)))
    status, made = api("POST", "/v1/schedules", {**SAVED, **changes})
    assert 201 == status, made
    return stored(aws)


def stored(aws: Cloud) -> Schedule:
    """The schedule as it is."""
    found = ScheduleStore(aws.clients.make("dynamodb"), DESCRIPTOR.jobs_table).get("acme", NAME)
    assert found is not None
    return found


def function(clients: Clients, clock: Clock) -> DueReader:
    """The function `due`."""
    return due.build(configure(due.Settings), clients, clock, sleep=clock.pass_s)


def deliver(reader: DueReader, schedule: Schedule, receives: int = 1) -> list[str]:
    """Deliver the message of the next due time."""
    message = DueMessage(schedule.tenant, schedule.name, schedule.due_ms or 0)
    record = {
        "messageId": "1",
        "body": f'["{message.tenant}","{message.name}",{message.due_ms}]',
        "attributes": {"ApproximateReceiveCount": str(receives)},
    }
    return reader.handle([record], lambda: 10.0)


@pytest.mark.parametrize("starts", [1, 40])
def test_a_start_costs_three_write_units_beside_its_job(
    aws: Cloud, metered: Clients, meter: Meter, starts: int
) -> None:
    schedule, clock = save(aws, overlap="allow"), Clock(NOON)
    reader = function(metered, clock)
    for _ in range(starts):
        schedule = stored(aws)
        assert schedule.starts_ms is not None
        clock.now = schedule.starts_ms / 1000
        assert [] == deliver(reader, schedule)
    assert {"started"} == {each.outcome for each in stored(aws).results}
    moved = stored(aws).pages
    assert starts * (JOB_UNITS + ROW_UNITS) + moved == meter.write_units
    assert moved <= starts / 8


def test_reads_and_messages_of_a_start(aws: Cloud, metered: Clients, meter: Meter) -> None:
    schedule = save(aws, every_s=60, cron=None, zone="UTC", jitter_s=0, overlap="allow")
    clock = Clock((schedule.due_ms or 0) / 1000)
    reader = function(metered, clock)
    deliver(reader, schedule)
    meter.reset()
    schedule = stored(aws)
    clock.now = (schedule.due_ms or 0) / 1000
    deliver(reader, schedule)
    assert {
        "dynamodb.GetItem": 3,  # the row, its template, and the tenant's limits
        "dynamodb.BatchGetItem": 1,  # whether its job is there, and what ran before
        "dynamodb.PutItem": 2,
        "sqs.SendMessage": 1,
        "sqs.SendMessageBatch": 1,  # the next due time
    } == meter.calls


def test_a_function_that_dies_after_any_call_starts_one_job_and_leaves_one_result() -> None:
    memory = Memory(lambda: NOON, polite=True)
    process = Process(memory)

    def killed_at(point: int) -> bool:
        memory.reset()
        aws = memory.cloud()
        before = save(aws)
        clock = Clock((before.starts_ms or 0) / 1000)
        process.starts(point)
        killed = False
        try:
            deliver(function(process.clients, clock), before)
        except Killed:
            killed = True
        deliver(function(aws.clients, clock), before, receives=2)
        deliver(function(aws.clients, clock), before)
        after = stored(aws)
        assert ["started"] == [each.outcome for each in after.results]
        assert before.job_of(before.due_ms or 0) == after.running
        head = aws.job(after.running or "")
        assert ("pending", NAME, before.due_ms) == (head.state, head.schedule, head.scheduled_ms)
        assert (after.due_ms or 0) > (before.due_ms or 0)
        heads, _ = aws.jobs.page("acme", limit=10, before=None)
        assert [head.job_id] == [each.job_id for each in heads]
        return killed

    process.visit(killed_at, least=5)


def test_the_submission_is_as_the_schedule_says_with_the_rights_of_its_tenant(aws: Cloud) -> None:
    before = save(aws, submission={"command": ["a"], "array": {"size": 3}})
    clock = Clock((before.starts_ms or 0) / 1000)
    deliver(function(aws.clients, clock), before)
    group = aws.job(stored(aws).running or "")
    assert ("processing", "acme") == (group.state, group.tenant)
    assert group.group is not None
    member = aws.job(group.group.id_of(0))
    assert before.due_ms == member.scheduled_ms
    assert "ci" == (member.submitted_by and member.submitted_by.name)


def test_a_message_of_a_schedule_that_is_gone_or_unreadable_is_discarded(aws: Cloud) -> None:
    reader = function(aws.clients, Clock(NOON))
    record = {"messageId": "1", "attributes": {"ApproximateReceiveCount": "1"}}
    assert [] == reader.handle([{**record, "body": '["acme","gone",0]'}], lambda: 1.0)
    assert [] == reader.handle([{**record, "body": "{"}], lambda: 1.0)
    assert [] == reader.handle([{**record, "body": "[]"}], lambda: 1.0)


def test_a_message_that_is_early_comes_again_at_its_time(aws: Cloud) -> None:
    before = save(aws)
    clock = Clock((before.starts_ms or 0) / 1000 - 60)
    deliver(function(aws.clients, clock), before)
    assert () == stored(aws).results
    clock.now += 59.5
    deliver(function(aws.clients, clock), before)
    assert ["started"] == [each.outcome for each in stored(aws).results]
    assert (before.starts_ms or 0) == round(clock.now * 1000)
