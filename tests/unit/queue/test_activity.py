"""Counters of queues: exact when a batch comes again, blind to other tenants, and cheap."""

import json
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.admin.handler import Settings as AdminSettings
from functions.admin.handler import build as build_admin
from functions.projector.handler import Settings, build
from joblane.aws.job.items import to_item
from joblane.aws.job.stream import read_record
from joblane.aws.queue.counters import CounterStore
from joblane.aws.queue.message_ages import KEEP_S, MessageAges
from joblane.contract.queues import activity
from joblane.deployment.names import alternate_name, table_name
from joblane.job.head import Head, make_head
from joblane.job.moves import AttemptFacts
from joblane.queue.activity import Series, Tally, fold
from joblane.service.queue.count import Counting
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import NAME, PREFIX, Cloud, configure
from tests.support.job_stream import id_of_job
from tests.support.jobs import named, submission
from tests.support.meter import Meter
from tests.support.requests import Api

NOW = 1_800_000_030
NOW_MS = NOW * 1000
MINUTE = NOW // 60


def record(
    sequence: int, new: Head, old: Head | None, at: int = NOW, *, inline: bool = True
) -> dict[str, Any]:
    """A record of the stream, as DynamoDB makes it of two heads."""

    def image(head: Head) -> dict[str, Any]:
        return to_item(head, head.spec.model_dump_json(exclude_defaults=True) if inline else None)

    stream: dict[str, Any] = {
        "ApproximateCreationDateTime": float(at),
        "Keys": {"job_id": {"S": id_of_job(new.job_id)}, "sk": {"S": "JOB"}},
        "NewImage": image(new),
        "SequenceNumber": f"{sequence:021d}",
    }
    if old is not None:
        stream["OldImage"] = image(old)
    return {"eventName": "MODIFY" if old else "INSERT", "dynamodb": stream}


def head(job_id: str, tenant: str = "acme", **spec: object) -> Head:
    return make_head(job_id, tenant, submission(queue="default", **spec), NOW_MS - 2500)


def life(first: int, job: Head, end: State = State.COMPLETED) -> list[dict[str, Any]]:
    """A job's three records: submitted, started 2.5 s later, ended."""

    def then(before: Head, state: State) -> Head:
        step = Step(state, NOW_MS, 1, "x", "agent-1")
        return replace(before, state=state, timeline=(*before.timeline, step))

    active = then(job, State.ACTIVE)
    return [
        record(first, job, None),
        record(first + 1, active, job),
        record(first + 2, then(active, end), active),
    ]


@pytest.fixture(name="projector")
def _projector(aws: Cloud) -> Counting:
    return build(configure(Settings), aws.clients, time.time)


@pytest.fixture(name="counters")
def _counters(aws: Cloud) -> CounterStore:
    return CounterStore(aws.clients.make("dynamodb"), table_name(NAME, "counters"))


def total(counters: CounterStore, tenant: str = "acme") -> Tally:
    tally = Tally()
    for minute in counters.read(tenant, "default", MINUTE - 60).values():
        tally.add(minute)
    return tally


def test_a_job_counts_once_in_each_state_and_its_items_with_it(
    projector: Counting, counters: CounterStore
):
    projector.handle(life(1, head("a", items=7)))
    projector.handle(life(9, head("b"), State.DEAD))
    assert Tally(2, 8, 2, 8, 1, 7, 1, 1, waited_ms=5000) == total(counters)


def test_a_job_whose_submission_lies_aside_counts_as_well():
    for items in (0, 1, 7):
        job = head("a", items=items, env={"A": "x" * 1000})
        change = read_record(record(1, job, None, inline=False))
        assert change is not None
        assert ("default", items) == (change.queue, change.items)


def test_a_change_of_no_state_counts_for_nothing():
    active = replace(head("a"), state=State.ACTIVE)
    assert read_record(record(1, replace(active, epoch=2), active)) is None


@pytest.mark.parametrize(
    ("before", "after"), [(State.ACTIVE, State.CANCELLED), (State.DEAD, State.DISMISSED)]
)
def test_other_changes_are_no_activity_of_the_queue(before: State, after: State):
    job = head("a")
    change = read_record(record(1, replace(job, state=after), replace(job, state=before)))
    assert change is not None
    assert (None, 0) == (change.kind, change.waiting)


@pytest.mark.parametrize(
    ("before", "after", "waiting"),
    [
        (State.ACTIVE, State.PENDING, 1),
        (State.DEAD, State.PENDING, 1),
        (State.ACTIVE, State.BLOCKED, 1),
        (State.BLOCKED, State.PENDING, 0),
        (State.PENDING, State.CANCELLED, -1),
        (State.RETRY, State.EXPIRED, -1),
    ],
)
def test_a_change_between_waiting_and_not_is_no_activity_of_the_queue(
    before: State, after: State, waiting: int
):
    job = head("a")
    change = read_record(record(1, replace(job, state=after), replace(job, state=before)))
    assert (None, waiting) == ((change.kind, change.waiting) if change else (None, 0))


def test_a_tenant_is_told_of_no_other(projector: Counting, aws: Cloud):
    now = int(time.time())
    projector.handle([record(1, head("a"), None, now), record(2, head("b", "other"), None, now)])
    for client_id in ("client-acme", "client-other"):
        admin = build_admin(configure(AdminSettings), aws.clients, time.time)
        status, queue = Api(admin, client_id)("GET", "/v1/queues/default")
        assert 200 == status
        assert [{"jobs": 1, "items": 1}] * 3 == [w["submitted"] for w in queue["activity"]]
        assert [1, 5, 60] == [window["minutes"] for window in queue["activity"]]


def test_the_role_platform_is_told_the_sum_of_all_tenants(projector: Counting, aws: Cloud):
    now = int(time.time())
    projector.handle([record(1, head("a"), None, now), record(2, head("b", "other"), None, now)])
    settings = configure(AdminSettings)
    platform = Api(build_admin(settings, aws.clients, time.time), "client-platform")
    (queue, _bulk) = platform("GET", "/v1/queues")[1]["entries"]
    assert [{"jobs": 2, "items": 2}] * 3 == [w["submitted"] for w in queue["activity"]]


@given(data=st.data())
def test_however_a_batch_is_cut_and_repeated_each_change_counts_once(data: st.DataObject):
    """Every delivery begins where an earlier one began, or where it ended."""
    changes = [
        read_record(record(n, head(f"j{n}", dice_tenant), None, NOW + 60 * (n % 2)))
        for n, dice_tenant in enumerate(
            data.draw(st.lists(st.sampled_from(["acme", "other"]), min_size=1, max_size=30)), 1
        )
    ]
    table: dict[tuple[Series, int], Tally] = {}

    def deliver(batch: list[Any], written: int | None = None) -> None:
        for series, (sequence, tally) in list(fold(batch).items())[:written]:
            table[series, sequence] = tally

    def bisect(batch: list[Any], depth: int) -> None:
        if depth and len(batch) > 1 and data.draw(st.booleans()):
            deliver(batch, data.draw(st.integers(0, 4)))  # it dies part of the way
            bisect(batch[: len(batch) // 2], depth - 1)
            bisect(batch[len(batch) // 2 :], depth - 1)
            return
        for _ in range(data.draw(st.integers(1, 2))):
            deliver(batch)

    bisect(changes, 4)
    found = Tally()
    for tally in table.values():
        found.add(tally)
    assert len(changes) == found.submitted


def test_a_record_that_cannot_be_read_goes_aside_and_the_rest_counts(
    projector: Counting, counters: CounterStore, aws: Cloud
):
    bad = record(5, head("bad", env={"KEY": "secret"}), None)
    bad["dynamodb"]["NewImage"]["state"] = {"S": "confused"}
    projector.handle([{}, bad, record(6, head("good"), None)])
    assert 1 == total(counters).submitted
    messages = aws.clients.make("sqs").receive_message(
        QueueUrl=PREFIX + alternate_name(NAME), MaxNumberOfMessages=10
    )["Messages"]
    assert 2 == len(messages)
    assert id_of_job("bad") in json.loads(messages[1]["Body"])["keys"]["job_id"]["S"]
    assert "secret" not in str(messages)


def test_trouble_with_the_table_brings_the_batch_again(projector: Counting, aws: Cloud):
    aws.clients.make("dynamodb").delete_table(TableName=table_name(NAME, "counters"))
    with pytest.raises(Exception, match="ResourceNotFound"):
        projector.handle(life(1, head("a")))


def test_windows_begin_with_a_whole_minute_and_say_so():
    minutes = {MINUTE - n: Tally(submitted=1) for n in range(70)}
    one, five, hour = activity(minutes, NOW_MS)
    assert [2, 6, 61] == [w.submitted.jobs for w in (one, five, hour)]
    assert [90.0, 330.0, 3630.0] == [w.span_s for w in (one, five, hour)]
    assert "2027-01-15T07:59:00.000Z" == one.since
    assert one.mean_wait_s is None
    assert 2.5 == activity({MINUTE: Tally(started=2, waited_ms=5000)}, NOW_MS)[0].mean_wait_s


def busy(jobs: int, rng: random.Random) -> Iterator[list[dict[str, Any]]]:
    """The stream of so many jobs, in batches of 1,000 as Lambda hands them over."""
    records = [r for n in range(jobs) for r in life(1000 + 3 * n, head(f"job-{n}"))]
    order = sorted(range(len(records)), key=lambda n: n + rng.uniform(0, 300))
    for start in range(0, len(order), 1000):
        yield [records[n] for n in order[start : start + 1000]]


def test_a_busy_queue_costs_three_thousandths_of_a_write_unit_a_change(aws: Cloud, meter: Meter):
    projector = build(configure(Settings), meter.clients_of(aws), time.time)
    for batch in busy(2000, random.Random(1)):
        projector.handle(batch)
    each = meter.write_units / 2000
    print(f"the projector's share of a job, 1,000 changes a batch: {each:.4f} write units")
    assert each <= 0.01
    before = meter.calls.copy()
    projector.handle(life(1, head("lonely")))
    # The counters of the queue and of the tenant, and the tenant's figures.
    assert {"dynamodb.UpdateItem": 3, "dynamodb.GetItem": 1, "dynamodb.Query": 1} == (
        meter.calls - before
    )


def test_ages_are_asked_for_all_lanes_at_once_and_once_a_minute(aws: Cloud, meter: Meter):
    cloudwatch = aws.clients.make("cloudwatch")
    now = [time.time()]
    metric = {
        "MetricName": "ApproximateAgeOfOldestMessage",
        "Dimensions": [{"Name": "QueueName", "Value": "b"}],
        "Timestamp": now[0] - 90,
        "Value": 72.0,
    }
    cloudwatch.put_metric_data(Namespace="AWS/SQS", MetricData=[metric])  # type: ignore[list-item]
    clients = meter.clients_of(aws)
    oldest = MessageAges(lambda: clients.make("cloudwatch"), ["a", "b"], lambda: now[0])
    assert {"b": 72} == {name: age.seconds for name, age in oldest.ages().items()}
    assert now[0] * 1000 - oldest.ages()["b"].at_ms < 180_000
    now[0] += KEEP_S - 1
    oldest.ages()
    assert {"cloudwatch.GetMetricData": 1} == meter.calls
    now[0] += 1
    oldest.ages()
    assert 2 == meter.calls["cloudwatch.GetMetricData"]


def test_what_the_stream_says_of_real_writes_is_what_was_done(aws: Cloud):
    """The images are those of the store's own writes, not of this test's."""
    job = head("01KPX0000000000000000000AA")
    aws.jobs.put_new(job)
    before = aws.jobs.get(job.job_id)
    claimed = aws.jobs.claim(named(job.job_id), "agent-1", NOW_MS)
    step = Step(State.COMPLETED, NOW_MS + 100, 1, "exit code 0", "agent-1", 0)
    after = aws.jobs.settle(claimed, step, AttemptFacts(Outcome.SUCCEEDED, output_bytes=7))
    assert before is not None
    counted = [
        (change.kind, change.waiting, change.output_bytes)
        for pair in ((before, None), (claimed, before), (after, claimed))
        if (change := read_record(record(1, *pair))) is not None
    ]
    assert [("submitted", 1, 0), ("started", -1, 0), ("completed", 0, 7)] == counted
