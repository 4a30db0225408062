"""The activity of a queue over an hour and a day: each change in its point, and hours once."""

import json
import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.status.handler import Settings, build
from joblane.aws.errors import AwsRefused
from joblane.aws.queue.counters import CounterStore
from joblane.deployment.names import table_name
from joblane.queue.activity import Series, Tally
from joblane.queue.rollup import (
    HOUR,
    KEPT_S,
    STEPS,
    Chart,
    closed_hours,
    roll_up,
    runs,
    spread,
)
from joblane.queue.usage import OPEN_MINUTES
from tests.support.aws import NAME, Cloud, configure
from tests.support.meter import Meter
from tests.support.requests import Api

NOW = 1_800_014_430
MINUTE = NOW // 60
COUNTERS = table_name(NAME, "counters")


@pytest.fixture(name="now")
def _now() -> list[int]:
    return [NOW]


@pytest.fixture(name="counters")
def _counters(aws: Cloud) -> CounterStore:
    return CounterStore(aws.clients.make("dynamodb"), COUNTERS)


@pytest.fixture(name="api")
def _api(aws: Cloud, now: list[int], meter: Meter) -> Api:
    return Api(build(configure(Settings), meter.clients_of(aws), lambda: now[0]))


def platform(aws: Cloud) -> Api:
    return Api(build(configure(Settings), aws.clients, lambda: NOW), "client-platform")


def count(counters: CounterStore, minute: int, tally: Tally, tenant: str = "acme") -> None:
    counters.put(Series(tenant, "default", minute), minute, tally)


def read(api: Api, span: str) -> dict[str, Any]:
    code, body = api("GET", "/v1/queues/default/activity", query={"span": span})
    assert 200 == code, body
    found: dict[str, Any] = body
    return found


def submitted(found: Mapping[str, Any]) -> dict[str, int]:
    return {each["at"][11:16]: each["submitted"] for each in found["points"] if each["submitted"]}


def test_an_hour_has_a_point_for_each_minute(api: Api, counters: CounterStore):
    tally = Tally(submitted=3, started=2, completed=1, failed=4, retried=5, waited_ms=5000)
    count(counters, MINUTE - 3, tally)
    count(counters, MINUTE - 60, tally)  # one too early
    found = read(api, "1h")
    assert ("default", "1h", 60, 60) == (
        found["queue"],
        found["span"],
        found["step_s"],
        len(found["points"]),
    )
    assert ("2027-01-15T11:01:00.000Z", "2027-01-15T12:00:00.000Z") == (
        found["points"][0]["at"],
        found["points"][-1]["at"],
    )
    assert {"11:57": 3} == submitted(found)
    assert {
        "at": "2027-01-15T11:57:00.000Z",
        "submitted": 3,
        "started": 2,
        "completed": 1,
        "failed": 4,
        "retried": 5,
        "mean_wait_s": 2.5,
    } == found["points"][-4]
    assert found["points"][-1]["mean_wait_s"] is None
    assert "2027-01-15T12:00:00.000Z" == found["complete_until"]


def test_a_minute_that_has_just_ended_is_not_complete(api: Api, now: list[int]):
    now[0] = NOW // 60 * 60 + 10
    assert "2027-01-15T11:59:00.000Z" == read(api, "1h")["complete_until"]
    assert "2027-01-15T11:55:00.000Z" == read(api, "24h")["complete_until"]


def test_a_day_has_a_point_for_every_five_minutes(api: Api, counters: CounterStore):
    first = MINUTE - 24 * 60 + 5
    for minute in (first - 1, first, first + 4, MINUTE - 600, MINUTE - 6, MINUTE):
        count(counters, minute, Tally(submitted=1))
    found = read(api, "24h")
    assert (300, 288, "2027-01-14T12:05:00.000Z") == (
        found["step_s"],
        len(found["points"]),
        found["points"][0]["at"],
    )
    assert {"12:05": 2, "02:00": 1, "11:50": 1, "12:00": 1} == submitted(found)


def test_an_hour_is_stored_by_its_first_reader_and_read_by_the_others(
    api: Api, counters: CounterStore, meter: Meter
):
    for minute in range(MINUTE - 24 * 60, MINUTE):
        count(counters, minute, Tally(submitted=1))
    meter.reset()
    found = read(api, "24h")
    # The hours from 12:00 of the day before to 09:59: 10:00 to 10:59 may change until 12:14.
    assert {"dynamodb.Query": 2, "dynamodb.PutItem": 22} == meter.calls
    meter.reset()
    assert found == read(api, "24h")
    assert {"dynamodb.Query": 2} == meter.calls


def test_a_reader_of_a_stored_day_reads_its_hours_and_the_open_minutes(
    api: Api, counters: CounterStore, meter: Meter, aws: Cloud
):
    for minute in range(MINUTE - 24 * 60, MINUTE):
        count(counters, minute, Tally(submitted=1))
    found = read(api, "24h")
    open_minutes = MINUTE - closed_hours(0, MINUTE).stop * HOUR
    for minute in range(MINUTE - 24 * 60, MINUTE - open_minutes):
        aws.clients.make("dynamodb").delete_item(
            TableName=COUNTERS,
            Key={"series": {"S": "acme#default"}, "at_minute": {"N": str(minute)}},
        )
    meter.reset()
    assert found == read(api, "24h")
    assert open_minutes <= OPEN_MINUTES + HOUR
    print(f"a stored day of a queue with 1 batch a minute: {meter.bytes_read} bytes are read")
    assert 64 * 1024 > meter.bytes_read


def test_hours_that_are_missing_in_between_are_read_alone(
    api: Api, counters: CounterStore, meter: Meter
):
    for minute in range(MINUTE - 24 * 60, MINUTE, 7):
        count(counters, minute, Tally(submitted=1))
    hours = [hour for hour in closed_hours(MINUTE - 24 * 60 + 5, MINUTE) if hour % 5]
    minutes = counters.read("acme", "default", 0)
    for hour in hours:
        counters.put_hour("acme", "default", hour, roll_up(hour, minutes))
    meter.reset()
    assert 24 * 60 // 7 <= sum(submitted(read(api, "24h")).values()) <= 24 * 60 // 7 + 1
    assert 22 - len(hours) == meter.calls["dynamodb.PutItem"]


def test_a_change_that_comes_an_hour_late_is_in_its_point(
    api: Api, counters: CounterStore, now: list[int]
):
    minute = MINUTE // HOUR * HOUR - 1
    for late in range(0, OPEN_MINUTES, 5):
        now[0] = (minute + late) * 60
        assert late == sum(submitted(read(api, "24h")).values())
        counters.put(Series("acme", "default", minute), late, Tally(submitted=5))
    for later in (OPEN_MINUTES, OPEN_MINUTES + 2, OPEN_MINUTES + 3 * HOUR):
        now[0] = (minute + later) * 60
        assert {"11:55": OPEN_MINUTES} == submitted(read(api, "24h"))


def test_an_hour_that_cannot_be_stored_is_answered_and_stored_by_the_next_reader(
    api: Api, counters: CounterStore, monkeypatch: pytest.MonkeyPatch, aws: Cloud
):
    count(counters, MINUTE - 600, Tally(submitted=1))
    with monkeypatch.context() as patch:
        patch.setattr(CounterStore, "put_hour", _throttled)
        assert {"02:00": 1} == submitted(read(api, "24h"))
    assert {} == counters.hours("acme", "default", 0)
    read(api, "24h")
    stored = counters.hours("acme", "default", 0)
    assert 1 == stored[(MINUTE - 600) // HOUR][0].submitted
    item = aws.clients.make("dynamodb").get_item(
        TableName=COUNTERS,
        Key={
            "series": {"S": "acme#default#hours"},
            "at_minute": {"N": str((MINUTE - 600) // HOUR * HOUR)},
        },
    )["Item"]
    assert str((MINUTE - 600) // HOUR * 3600 + KEPT_S) == item["expires_at"]["N"]


def _throttled(*_: object) -> None:
    raise AwsRefused({"Error": {"Code": "ThrottlingException"}}, "PutItem")


def test_the_role_platform_is_told_the_sum_and_a_tenant_its_own(
    api: Api, counters: CounterStore, aws: Cloud
):
    for tenant in ("acme", "other"):
        for minute in (MINUTE - 2, MINUTE - 300):
            count(counters, minute, Tally(submitted=1), tenant)
    for span, expected in (("1h", 1), ("24h", 2)):
        assert expected == sum(submitted(read(api, span)).values())
        assert 2 * expected == sum(submitted(read(platform(aws), span)).values())


def test_a_queue_of_others_is_not_there_and_a_span_is_one_of_two(api: Api, aws: Cloud):
    other = Api(build(configure(Settings), aws.clients, lambda: NOW), "client-other")
    assert 404 == other("GET", "/v1/queues/bulk/activity")[0]
    assert 200 == api("GET", "/v1/queues/bulk/activity")[0]
    status, body = api("GET", "/v1/queues/default/activity", query={"span": "1w"})
    assert (400, "span") == (status, body["errors"][0]["field"]), json.dumps(body)


@given(seed=st.integers(0, 10_000))
def test_points_have_each_minute_once_whichever_hours_are_stored(seed: int):
    rng = random.Random(seed)
    now_ms = (NOW + rng.randrange(7200)) * 1000
    chart = Chart.until("24h", now_ms)
    minutes = {
        chart.first + rng.randrange(-90, 24 * 60): Tally(submitted=rng.randrange(9))
        for _ in range(rng.randrange(200))
    }
    seen = dict(minutes)
    for hour in closed_hours(chart.first, now_ms // 60_000):
        if rng.random() < 0.5:
            stored = roll_up(hour, minutes)
            seen = {minute: tally for minute, tally in seen.items() if minute // HOUR != hour}
            seen |= spread(hour, stored)
    expected = {
        chart.first + 5 * n: sum(
            minutes.get(chart.first + 5 * n + m, Tally()).submitted for m in range(5)
        )
        for n in range(STEPS["24h"][1])
    }
    assert expected == {minute: tally.submitted for minute, tally in chart.tallies(seen)}


def test_hours_that_follow_each_other_are_one_run():
    assert [(3, 5), (7, 7), (9, 10)] == runs([3, 4, 5, 7, 9, 10])
    assert [] == runs([])


def test_counters_outlive_the_day_that_is_read():
    """Of the first hour of a day, all minutes are there until its last reader has stored it."""
    oldest = Chart.until("24h", NOW * 1000).first // HOUR * HOUR
    assert KEPT_S - (MINUTE - oldest) * 60 >= 3600
