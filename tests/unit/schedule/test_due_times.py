"""When schedules are due: a table of zones and changes of clocks, and what holds for all."""

import json
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from joblane.formats.times import rfc3339, unix_ms
from joblane.schedule import times
from joblane.schedule.clock_changes import find_surprises
from joblane.schedule.cron import expand
from joblane.schedule.fields import ScheduleFields, Template, Timing
from joblane.schedule.times import (
    jitter_ms,
    job_id,
    local_time,
    next_due,
    next_times,
    passed,
)
from tests.support.depth import budget

CASES = tomllib.loads((Path(__file__).parent / "due_times.toml").read_text("utf-8"))["case"]
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago")
YEAR_MS = 366 * 86_400_000


def ms(text: str) -> int:
    return unix_ms(text)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["says"])
def test_a_schedule_is_due_at_the_times_of_the_table(case: dict[str, Any]) -> None:
    if "refused" in case:
        with pytest.raises(ValidationError, match=case["refused"]):
            Timing(cron=case["cron"], zone=case["zone"])
        return
    timing = Timing(cron=case["cron"], zone=case["zone"])
    found = next_times(timing, ms(case["after"]), len(case["due"]))
    assert case["due"] == [local_time(due_ms, case["zone"]) for due_ms in found]


@pytest.mark.parametrize(
    ("cron", "says"),
    [
        ("0 0 30 2 *", "is never due"),
        ("0 0 31 4,6 *", "is never due"),
        ("* * * * * *", "has 6 fields; 5 are allowed: minute, hour, .*none for seconds"),
        ("* * * *", "has 4 fields"),
        ("@reboot", "belongs to no machine"),
        ("@every 5m", "periods are every_s"),
        ("60 * * * *", "minute: must be 0 to 59"),
        ("0 24 * * *", "hour: must be 0 to 23"),
        ("0 0 0 * *", "day of the month: must be 1 to 31 or L"),
        ("0 0 * 13 *", "month: must be 1 to 12"),
        ("0 0 * * 8", "day of the week: must be 0 to 7"),
        ("*/0 * * * *", "minute: "),
        ("5-1 * * * *", "minute: "),
        ("*/90 * * * *", "minute: a step must be 59 at most; longer periods are every_s"),
        ("0 0-23/24 * * *", "hour: a step must be 23 at most"),
    ],
)
def test_an_expression_that_is_refused_says_what_is_allowed(cron: str, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Timing(cron=cron)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "every_s\n.*either cron or every_s"),
        ({"cron": "* * * * *", "every_s": 60}, "every_s\n.*either cron or every_s"),
        ({"every_s": 30}, "every_s\n.*greater than or equal to 60"),
        ({"cron": "* * * * *", "zone": "Europe/Berlni"}, "zone\n.*Europe/Berlin"),
        ({"cron": "* * * * *", "zone": "../../etc/passwd"}, "zone\n.*IANA"),
        (
            {"every_s": 60, "start": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"},
            "end\n.*after start",
        ),
        ({"every_s": 60, "jitter_s": 3601}, "jitter_s"),
        ({"every_s": 60, "catch_up_s": 700_000}, "catch_up_s"),
        ({"every_s": 60, "overlap": "sometimes"}, "overlap"),
    ],
)
def test_fields_that_are_wrong_are_named(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        ScheduleFields.model_validate(fields)


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ({}, "requeue\n.*either a submission or a requeue"),
        ({"submission": {"command": ["a"], "run_at": "2026-01-01T00:00:00Z"}}, "run_at"),
        ({"submission": {"command": ["a"], "deadline": "2026-01-01T00:00:00Z"}}, "deadline"),
        (
            {
                "submission": {
                    "command": ["a"],
                    "env": {
                        "A": "x" * 99_999,
                        "B": "x" * 99_999,
                        "C": "x" * 99_999,
                        "D": "x" * 9999,
                    },
                }
            },
            "300000",
        ),
        ({"submission": {"command": ["a"]}, "requeue": {"queue": "default"}}, "not both"),
    ],
)
def test_a_template_that_is_wrong_is_refused(template: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Template.model_validate_json(json.dumps(template))


EXPRESSIONS = st.builds(
    " ".join,
    st.tuples(
        st.sampled_from(["*", "*/7", "0", "5,50", "15-45/10", "59"]),
        st.sampled_from(["*", "*/5", "0", "2", "1-3", "23"]),
        st.sampled_from(["*", "1", "29", "31", "L", "*/10"]),
        st.sampled_from(["*", "2", "3,10", "4-9"]),
        st.sampled_from(["*", "0", "MON-FRI", "6L", "7#1"]),
    ),
)
TIMES = st.integers(unix_ms("2025-01-01T00:00:00Z"), unix_ms("2040-01-01T00:00:00Z"))


def timings(cron: str, zone: str) -> Timing | None:
    try:
        return Timing(cron=cron, zone=zone)
    except ValidationError:
        return None  # never due


@settings(max_examples=budget(60, 5000))
@given(EXPRESSIONS, st.sampled_from(ZONES), TIMES)
def test_the_next_time_is_later_and_does_not_depend_on_when_it_is_asked_for(
    cron: str, zone: str, after_ms: int
) -> None:
    if (timing := timings(cron, zone)) is None:
        return
    first, second = next_times(timing, after_ms, 2)
    assert after_ms < first < second
    assert first == next_due(timing, first - 1)
    assert first == next_due(timing, (after_ms + first - 1) // 2)
    assert second == next_due(timing, (first + second) // 2)


@settings(max_examples=budget(40, 2000))
@given(EXPRESSIONS, st.sampled_from(ZONES), TIMES, st.integers(0, YEAR_MS))
def test_the_latest_time_that_has_come_is_found_as_by_steps(
    cron: str, zone: str, after_ms: int, span_ms: int
) -> None:
    if (timing := timings(cron, zone)) is None:
        return
    due_ms = next_due(timing, after_ms)
    assert due_ms is not None
    came = passed(timing, due_ms, due_ms + span_ms)
    assert came.latest_ms <= due_ms + span_ms
    assert (following := next_due(timing, came.latest_ms)) is not None
    assert following > due_ms + span_ms
    if came.earlier is not None:
        steps = [due_ms, *next_times(timing, due_ms, came.earlier)]
        assert came.latest_ms == steps[-1]
        assert came.before_ms == (steps[-2] if came.earlier else None)


def test_missed_times_are_counted_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "MOST_COUNTED", 100)
    each_minute = Timing(cron="* * * * *")
    week = passed(each_minute, 60_000, 60_000 + 7 * 86_400_000)
    assert (None, 7 * 86_400_000 + 60_000) == (week.earlier, week.latest_ms)
    assert 99 == passed(each_minute, 60_000, 100 * 60_000).earlier
    assert passed(Timing(every_s=60), 60_000, 60_000 + YEAR_MS).earlier == YEAR_MS // 60_000


def test_a_period_counts_from_its_start_and_ends_with_its_end() -> None:
    timing = Timing(every_s=90, start="2026-01-01T00:00:10Z", end="2026-01-01T00:03:10Z")
    shown = [rfc3339(each) for each in next_times(timing, 0, 9)]
    assert [
        "2026-01-01T00:00:10.000Z",
        "2026-01-01T00:01:40.000Z",
        "2026-01-01T00:03:10.000Z",
    ] == shown
    hourly = Timing(every_s=3600)
    assert datetime(2026, 5, 1, 13, tzinfo=UTC).timestamp() * 1000 == next_due(
        hourly, unix_ms("2026-05-01T12:00:00Z")
    )


def test_nothing_is_due_after_years_of_four_digits() -> None:
    late = "9999-12-30T23:59:00Z"
    for timing in (Timing(every_s=60, start=late), Timing(cron="* * * * *", start=late)):
        found = next_times(timing, ms("2026-01-01T00:00:00Z"), 5)
        assert ["9999-12-30T23:59:00Z", "9999-12-31T00:00:00Z"] == [
            local_time(due_ms, "UTC").replace("+00:00", "Z") for due_ms in found
        ]


def test_the_jitter_of_a_schedule_is_stable_and_spread() -> None:
    of = [jitter_ms("main", f"job-{n}", 600) for n in range(200)]
    assert of == [jitter_ms("main", f"job-{n}", 600) for n in range(200)]
    assert 0 <= min(of) < 60_000
    assert 540_000 < max(of) <= 600_000
    assert 0 == jitter_ms("main", "a", 0)


def test_the_id_of_what_is_started_is_of_the_schedule_and_the_due_time() -> None:
    first = job_id("main", "nightly", 1, 60_000)
    assert first == job_id("main", "nightly", 1, 60_000)
    others = {
        job_id("other", "nightly", 1, 60_000),
        job_id("main", "nightly", 2, 60_000),
        job_id("main", "nightl", 1, 60_000),
        job_id("main", "nightly", 1, 120_000),
    }
    assert first not in others
    assert 4 == len(others)
    assert first < job_id("main", "nightly", 1, 61_000)


def test_what_a_change_of_clocks_does_is_said_where_it_surprises() -> None:
    def said(cron: str, zone: str = "Europe/Berlin") -> list[str]:
        return find_surprises(Timing(cron=cron, zone=zone), unix_ms("2026-01-01T00:00:00Z"))

    because = "because the minute or the hour begins with *"
    gap = "Europe/Berlin, 2026-03-29: there is no time from 02:00 to 03:00"
    twice = "Europe/Berlin, 2026-10-25: from 02:00 to 03:00 comes twice"
    assert said("*/20 2 * * *") == [
        f"{gap}; it is not due then, in place of 3 times, {because}",
        f"{twice}; it is due 6 times then, in place of 3 times, {because}",
    ]
    assert said("30 2 * * *") == [f"{gap}; what is due then is due once, at 03:00"]
    assert [] == said("*/5 * * * *") == said("0 4 * * *") == said("0 2 * * *", "UTC")


def test_macros_stand_for_expressions() -> None:
    assert "0 0 * * 0" == expand("@weekly")
    assert "0 0 * * MON" == expand("0 0 * * mon")
