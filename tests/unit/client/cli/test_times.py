"""Times and durations as people type them, and what is said about them."""

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from joblane.client.cli import times
from joblane.client.cli.times import NotATime, Way, moment
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi

NOW = datetime(2026, 11, 23, 8, 20, 30, tzinfo=UTC)
"""A Monday, 09:20:30 in Berlin."""


@pytest.fixture(name="berlin", autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("text", "way", "expected"),
    [
        ("+5m", "ahead", "11-23 08:25:30"),
        ("5m", "ahead", "11-23 08:25:30"),
        ("in 1h30m", "ahead", "11-23 09:50:30"),
        ("+1.5h", "ahead", "11-23 09:50:30"),
        ("+1w", "ahead", "11-30 08:20:30"),
        ("5 minutes", "ahead", "11-23 08:25:30"),
        ("in 1 hour 30 min", "ahead", "11-23 09:50:30"),
        ("2 Days ago", "back", "11-21 08:20:30"),
        ("1week", "back", "11-16 08:20:30"),
        ("1h", "back", "11-23 07:20:30"),
        ("-1h", "back", "11-23 07:20:30"),
        ("90s ago", "back", "11-23 08:19:00"),
        ("now", "back", "11-23 08:20:30"),
        ("tomorrow 9:00", "ahead", "11-24 08:00:00"),
        ("Tomorrow  9am", "ahead", "11-24 08:00:00"),
        ("tomorrow", "ahead", "11-23 23:00:00"),
        ("tomorrow 9:00 UTC", "ahead", "11-24 09:00:00"),
        ("tomorrow 9:00 America/New_York", "ahead", "11-24 14:00:00"),
        ("tomorrow 9:00 +05:30", "ahead", "11-24 03:30:00"),
        ("today 18:30:15", "ahead", "11-23 17:30:15"),
        ("9:30", "ahead", "11-23 08:30:00"),
        ("9:00", "ahead", "11-24 08:00:00"),
        ("9:00", "back", "11-23 08:00:00"),
        ("9:30", "back", "11-22 08:30:00"),
        ("5:30pm", "ahead", "11-23 16:30:00"),
        ("12am", "back", "11-22 23:00:00"),
        ("monday 10:00", "ahead", "11-23 09:00:00"),
        ("monday 9:00", "ahead", "11-30 08:00:00"),
        ("friday", "back", "11-19 23:00:00"),
        ("yesterday 18:00", "back", "11-22 17:00:00"),
        ("2026-11-24", "ahead", "11-23 23:00:00"),
        ("2026-11-24 09:00", "ahead", "11-24 08:00:00"),
        ("2026-11-24 9:00", "ahead", "11-24 08:00:00"),
        ("2026-11-24 9:00 UTC", "ahead", "11-24 09:00:00"),
        ("2026-11-24T09:00+02:00", "ahead", "11-24 07:00:00"),
        ("2026-11-24T09:00:00Z", "ahead", "11-24 09:00:00"),
    ],
)
def test_a_time_is_understood(text: str, way: Way, expected: str) -> None:
    assert f"2026-{expected}" == f"{moment(text, NOW, way).at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


@pytest.mark.parametrize(
    ("text", "way", "why"),
    [
        ("", "ahead", "is not a time"),
        ("next week", "ahead", "is not a time"),
        ("9", "ahead", "write the time of day as 9:00 or 9am"),
        ("13pm", "ahead", "has no such time of day"),
        ("25:00", "ahead", "does not exist"),
        ("2026-02-30", "ahead", "does not exist"),
        ("2026-02-30T00:00:00Z", "ahead", "does not exist"),
        ("tomorrow 9:00 Atlantis", "ahead", "which this machine does not know"),
        ("tomorrow 9:00 ../../etc/passwd", "ahead", "which this machine does not know"),
        ("tomorrow 9:00 +99:00", "ahead", "has no time zone"),
        ("5 months", "ahead", "is not a time"),
        ("5 minutesago", "back", "is not a time"),
        ("-5m", "ahead", "is in the past"),
        ("+1h", "back", "is in the future"),
        ("+999999999w", "ahead", "is too far away"),
        ("9999-12-31 23:59 -10:00", "ahead", "does not exist"),
        ("9999-12-31T23:59:00-10:00", "ahead", "does not exist"),
        ("9999-12-31T23:59:00Z", "ahead", "does not exist"),  # not in Berlin
        ("0001-01-01", "back", "does not exist"),
        ("\uff12h", "back", "is not a time"),
    ],
)
def test_what_is_no_time_says_why(text: str, way: Way, why: str) -> None:
    with pytest.raises(NotATime, match=re.escape(why)):
        moment(text, NOW, way)


@pytest.mark.parametrize(
    ("text", "way", "expected"),
    [
        ("2027-03-28 02:30", "ahead", "2027-03-28T01:00:00"),
        ("2027-03-28T02:00:00", "ahead", "2027-03-28T01:00:00"),
        ("2027-03-28 2:59:59 Europe/Berlin", "ahead", "2027-03-28T01:00:00"),
        ("2026-10-04 02:15 Australia/Lord_Howe", "back", "2026-10-03T15:30:00"),  # half an hour
        ("2011-12-30 12:00 Pacific/Apia", "back", "2011-12-30T10:00:00"),  # a whole day
    ],
)
def test_a_time_that_clocks_skip_is_when_they_go_on(text: str, way: Way, expected: str) -> None:
    found = moment(text, NOW, way)
    assert expected == f"{found.at:%Y-%m-%dT%H:%M:%S}"
    assert found.skipped is not None
    assert found.at.tzinfo is UTC


def test_a_time_that_clocks_show_twice_is_the_first(api: FakeApi, joblane: Joblane) -> None:
    found = moment("2027-10-31 02:30", NOW, "ahead")
    assert ("2027-10-31T00:30:00", None) == (f"{found.at:%Y-%m-%dT%H:%M:%S}", found.skipped)
    ran = joblane("submit", "--run-at", "2030-03-31 02:30", "--", "x")
    assert "2030-03-31T01:00:00Z" == api.requests[0].body["run_at"]
    assert ran.said.endswith("): clocks are put forward over 02:30:00 then\n")


_WORDS = st.lists(
    st.one_of(
        st.text(max_size=6),
        st.sampled_from(
            (
                *("today", "tomorrow", "yesterday", "monday", "now", "in", "ago", "Z", "UTC"),
                *("9:00", "9am", "24:00", "02:30", "0001-01-01", "9999-12-31", "2027-03-28"),
                *("0001-01-01T00:00Z", "9999-12-31T23:59:59Z", "+23:59", "-23:59", "Europe"),
                *("Europe/Berlin", "Pacific/Apia", "999999999w", "1.5d", "5", "minutes", "T", "+"),
            )
        ),
    ),
    max_size=4,
)


@given(words=_WORDS, joint=st.sampled_from((" ", "", "T")), way=st.sampled_from(("ahead", "back")))
def test_any_text_is_a_time_or_says_why(words: list[str], joint: str, way: Way) -> None:
    text = joint.join(words)
    with suppress(typer.BadParameter):  # any other error fails the test
        said = times.utc_time("--since", text, way)
        assert said is not None
        assert moment(said, NOW, way).at.tzinfo is not None
    with suppress(typer.BadParameter):
        times.seconds("--timeout", text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("90s", 90), ("5m", 300), ("1h30m", 5400), ("90", 90), ("0.5m", 30)),
        *(("5 minutes", 300), ("1 hour 30 minutes", 5400), ("2 secs", 2)),
    ],
)
def test_a_timeout_is_a_duration(api: FakeApi, joblane: Joblane, text: str, seconds: float) -> None:
    assert 0 == joblane("submit", "--timeout", text, "--", "x").code
    assert {"command": ["x"], "timeout_s": seconds} == api.requests[0].body


@pytest.mark.parametrize("text", ["", "soon", "-5m", "5 months", "5x", "1e3"])
@pytest.mark.parametrize("command", ["run", "submit"])
def test_what_is_no_duration_is_refused(api: FakeApi, joblane: Joblane, command: str, text: str):
    ran = joblane(command, f"--timeout={text}", "--", "x")
    assert (2, b"", []) == (ran.code, ran.stdout, api.requests)
    assert f"--timeout {text!r} is not a duration; examples: 90s, 5m, 1h30m" in ran.said
    assert 1 == len(ran.said.splitlines())


def test_both_timeouts_are_refused(api: FakeApi, joblane: Joblane) -> None:
    ran = joblane("submit", "--timeout", "5m", "--timeout-s", "300", "--", "x")
    assert (2, []) == (ran.code, api.requests)
    assert "--timeout and --timeout-s exclude each other" in ran.said


def test_the_time_that_was_understood_is_said_with_its_zone(api: FakeApi, joblane: Joblane) -> None:
    ran = joblane("submit", "--run-at", "2030-07-01 09:00", "--", "x")
    assert "2030-07-01T07:00:00Z" == api.requests[0].body["run_at"]
    said = r"joblane: --run-at is 2030-07-01T07:00:00Z \(2030-07-01 09:00:00 CEST, in \d+d\d+h\)\n"
    assert re.fullmatch(said, ran.said)


def test_a_time_in_utc_is_sent_as_it_is_and_nothing_is_said(api: FakeApi, joblane: Joblane) -> None:
    ran = joblane("submit", "--deadline", "2030-07-01T09:00:00.123Z", "--", "x")
    assert "2030-07-01T09:00:00.123Z" == api.requests[0].body["deadline"]
    assert "" == ran.said


@pytest.mark.parametrize("text", ["2020-01-01T00:00:00Z", "yesterday 9:00", "+0s", "now"])
def test_a_deadline_in_the_past_is_refused_before_anything_is_sent(
    api: FakeApi, joblane: Joblane, text: str
) -> None:
    ran = joblane("run", "--deadline", text, "--", "x")
    assert (2, []) == (ran.code, api.requests)
    assert f"--deadline {text}" in ran.said
    assert "is not in the future: it is 20" in ran.said


def test_filters_take_durations_and_one_moment_for_all_pages(api: FakeApi, joblane: Joblane):
    for number in range(250):
        api.add(f"01J{number}")
    before = time.time()
    ran = joblane("ls", "--since", "1h", "-n", "250")
    assert (0, "") == (ran.code, ran.said)
    (since,) = {request.query["since"] for request in api.requests}
    assert 3 == len(api.requests)
    assert abs(datetime.fromisoformat(since).timestamp() - before + 3600) < 5
    ran = joblane("audit", "--until", "2026-11-21 02:00")
    assert "2026-11-21T01:00:00Z" == api.requests[-1].query["until"]
    assert "--until is 2026-11-21T01:00:00Z (2026-11-21 02:00:00 CET, " in ran.said


def test_a_bad_filter_is_one_line(api: FakeApi, joblane: Joblane) -> None:
    for command in (("ls",), ("cancel", "--yes"), ("audit",)):
        ran = joblane(*command, "--since", "+1h")
        assert (2, b"", []) == (ran.code, ran.stdout, api.requests)
        assert "--since '+1h' is in the future; examples: 1h, yesterday 18:00" in ran.said
        assert 1 == len(ran.said.splitlines())
    assert times.UNITS_S["w"] == 7 * times.UNITS_S["d"]
