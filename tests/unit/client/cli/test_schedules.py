"""`joblane schedules`: what is sent, what is shown, what is asked, and exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from joblane.client.cli.files import options as file_options
from joblane.client.cli.text import terminal
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi, ok, problem

ALL = "/v1/schedules"
ONE = f"{ALL}/nightly"
NEXT = {
    "due_at": "2096-03-29T01:00:00.000Z",
    "local": "2096-03-29T03:00:00+02:00",
    "starts_at": "2096-03-29T01:00:00.000Z",
}
STARTED = {
    "due_at": "2026-03-28T01:00:00.000Z",
    "to_at": None,
    "times": 1,
    "outcome": "started",
    "cause": "due",
    "job_id": "01KMS7R2R0V3XW8TQZ9M4C2N7D",
    "at": "2026-03-28T01:00:00.412Z",
    "text": "started on its second",
}
SUMMARY = {
    "name": "nightly",
    "what": "make test",
    "cron": "0 2 * * *",
    "every_s": None,
    "zone": "Europe/Berlin",
    "paused": False,
    "next": NEXT,
    "last": STARTED,
    "why": None,
}
VIEW = SUMMARY | {
    "submission": {"command": ["make", "test"]},
    "next_times": [NEXT],
    "results": [STARTED],
    "warnings": ["02:00 does not exist on 2096-03-29: it is due at 03:00"],
}
ADD = ("schedules", "add", "nightly", "--cron", "0 2 * * *")


def sent(api: FakeApi) -> list[tuple[str, str, Any]]:
    return [(each.method, each.path, each.body) for each in api.requests]


def test_a_schedule_is_added_with_the_options_of_submit(api: FakeApi, joblane: Joblane) -> None:
    api.answers[ALL] = ok(VIEW, 201)
    ran = joblane(
        *("schedules", "add", "nightly", "--cron", "0 2 * * *", "--zone", "Europe/Berlin"),
        *("--overlap", "queue", "--catch-up", "2h", "--jitter", "90", "--pause-on-failure"),
        *("--start", "2096-01-01T00:00:00Z", "--paused", "--reason", "asked for", "--cpus", "0.5"),
        *("--name", "a night", "--array", "3", "--", "make", "-j", "4"),
    )
    assert 0 == ran.code, ran.said
    submission = {
        "command": ["make", "-j", "4"],
        "name": "a night",
        "resources": {"cpus": 0.5},
        "array": {"size": 3},
    }
    body = {
        "name": "nightly",
        "cron": "0 2 * * *",
        "zone": "Europe/Berlin",
        "overlap": "queue",
        "catch_up_s": 7200,
        "jitter_s": 90,
        "pause_on_failure": True,
        "start": "2096-01-01T00:00:00Z",
        "paused": True,
        "reason": "asked for",
        "submission": submission,
    }
    assert [("POST", ALL, body)] == sent(api)
    assert ran.stdout.startswith(b"nightly added; next 2096-03-29T03:00:00+02:00 (in ")
    assert "02:00 does not exist on 2096-03-29" in ran.said


def test_a_type_and_a_requeue_are_scheduled(api: FakeApi, joblane: Joblane, tmp_path: Path) -> None:
    api.answers[ALL] = ok(VIEW, 201)
    params = tmp_path / "p.json"
    params.write_text('{"origin": "mail"}')
    assert 0 == joblane(*ADD, "--type", "sync", "--params", str(params)).code
    requeue = ("--requeue", "default", "--type", "sync", "--priority", "low")
    assert 0 == joblane("schedules", "add", "nightly", "--every", "1h30m", *requeue).code
    first, second = (body for _, _, body in sent(api))
    assert {"type": "sync", "params": {"origin": "mail"}} == first["submission"]
    assert {
        "name": "nightly",
        "every_s": 5400,
        "requeue": {"queue": "default", "type": "sync", "priority": "low"},
    } == second


def test_standard_input_is_read_only_if_asked_for(
    api: FakeApi, joblane: Joblane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that adds schedules has a standard input of its own."""
    asked: list[object] = []
    monkeypatch.setattr(
        file_options, "_standard_input", lambda *, wanted, default: asked.append(wanted or default)
    )
    api.answers[ALL] = ok(VIEW, 201)
    joblane(*ADD, "--", "cat")
    joblane(*ADD, "--stdin", "--", "cat")
    assert [False, True] == asked


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nightly", "--", "true"), "give --cron, such as '0 2 * * *', or --every"),
        (("nightly", "--cron", "@daily", "--every", "5m", "--", "a"), "exclude each other"),
        (("nightly", "--every", "often", "--", "a"), "--every 'often' is not a duration"),
        (("nightly", "--cron", "@daily"), "give a program after --, or --type"),
        (("nightly", "--cron", "@daily", "--requeue", "q", "--", "a"), "--requeue and a command"),
        (("nightly", "--cron", "@daily", "--requeue", "q", "--cpus", "1"), "--requeue and --cpus"),
        (("nightly", "--cron", "@daily", "--requeue", "q", "-o", "a"), "--requeue and --output e"),
        (("nightly", "--cron", "@daily", "--run-at", "+5m", "--", "a"), "--run-at"),
        (("nightly", "--cron", "@daily", "--end", "2020-01-01T00:00:00Z", "a"), "--end"),
    ],
)
def test_what_cannot_be_added_is_said(
    api: FakeApi, joblane: Joblane, arguments: tuple[str, ...], said: str
) -> None:
    ran = joblane("schedules", "add", *arguments)
    assert 2 == ran.code
    assert said in ran.said
    assert [] == api.requests


def test_a_refused_expression_names_the_field(api: FakeApi, joblane: Joblane) -> None:
    api.answers[ALL] = problem(
        400, "Invalid Request", errors=[{"field": "cron", "problem": "has six fields"}]
    )
    ran = joblane("schedules", "add", "a", "--cron", "0 0 2 * * *", "--", "true")
    assert 64 == ran.code
    assert "cron: has six fields" in ran.said


def test_next_times_are_shown_and_nothing_is_saved(api: FakeApi, joblane: Joblane) -> None:
    found = {"zone": "Europe/Berlin", "next_times": [NEXT], "warnings": ["clocks change"]}
    api.answers[f"{ALL}/preview"] = ok(found)
    ran = joblane(*ADD, "--next", "7", "--", "true")
    heading, line = ran.stdout.decode().splitlines()
    assert heading.startswith("DUE IN EUROPE/BERLIN")
    assert line.startswith("2096-03-29T03:00:00+02:00")
    assert "clocks change" in ran.said
    shown = joblane("schedules", "preview", "--every", "5m", "--json")
    assert found == json.loads(shown.stdout)
    assert [
        ("POST", f"{ALL}/preview", {"cron": "0 2 * * *", "count": 7, "name": "nightly"}),
        ("POST", f"{ALL}/preview", {"every_s": 300, "count": 5}),
    ] == sent(api)


def test_schedules_are_listed(api: FakeApi, joblane: Joblane) -> None:
    every = SUMMARY | {
        "name": "poll",
        "what": "x" * 50,
        "cron": None,
        "every_s": 300,
        "next": None,
        "last": None,
        "why": "the schedule is paused",
    }
    page = {"entries": [SUMMARY, every], "limit": 20, "next": "b2s"}
    api.answers[ALL] = ok(page)
    ran = joblane("schedules")
    heading, first, second = ran.stdout.decode().splitlines()
    assert ["NAME", "WHAT", "WHEN", "NEXT", "LAST", "WHY"] == heading.split()
    assert "0 2 * * * Europe/Berlin" in first
    assert "started " in first
    assert f"{'x' * 39}…" in second
    assert "every 5m  " in second
    assert "the schedule is paused" in second
    assert "more schedules: --next b2s" in ran.said
    assert page == json.loads(joblane("schedules", "ls", "--json").stdout)


def test_a_schedule_is_shown_with_its_times_and_results(api: FakeApi, joblane: Joblane) -> None:
    missed = STARTED | {"outcome": "missed", "to_at": "2026-03-28T05:00:00.000Z", "times": 5}
    api.answers[ONE] = ok(VIEW | {"results": [missed]})
    ran = joblane("schedules", "get", "nightly")
    shown = ran.stdout.decode()
    assert "2096-03-29T03:00:00+02:00" in shown
    assert "2026-03-28T01:00:00.000Z to 2026-03-28T05:00:00.000Z" in shown
    assert "does not exist" in ran.said
    api.answers[f"{ONE}/results"] = ok({"entries": [missed], "limit": 20, "next": None})
    assert "missed" in joblane("schedules", "results", "nightly").stdout.decode()


def test_an_edit_sends_what_is_given(api: FakeApi, joblane: Joblane) -> None:
    api.answers[ONE] = ok(VIEW)
    edit = ("schedules", "edit", "nightly")
    assert 0 == joblane(*edit, "--cron", "0 3 * * *", "--end", "none", "--catch-up", "0").code
    assert 0 == joblane(*edit, "--no-pause-on-failure", "--queue", "night", "--", "true").code
    assert [
        ("PATCH", ONE, {"cron": "0 3 * * *", "end": None, "catch_up_s": 0}),
        (
            *("PATCH", ONE),
            {"pause_on_failure": False, "submission": {"command": ["true"], "queue": "night"}},
        ),
    ] == sent(api)
    assert "nothing to change" in joblane(*edit).said
    half = joblane(*edit, "--memory-mb", "100")
    assert (2, True) == (half.code, "--memory-mb needs the command, or --type" in half.said)
    assert "--input needs the command" in joblane(*edit, "-i", "a").said


def test_a_schedule_is_paused_resumed_run_and_deleted(api: FakeApi, joblane: Joblane) -> None:
    api.answers |= {f"{ONE}/pause": ok(VIEW | {"paused": True}), f"{ONE}/resume": ok(VIEW)}
    api.answers |= {f"{ONE}/run": ok(STARTED, 202), ONE: (204, {}, b"")}
    assert b"nightly paused\n" == joblane("schedules", "pause", "nightly", "--reason", "r").stdout
    resumed = joblane("schedules", "resume", "nightly").stdout
    assert resumed.startswith(b"nightly resumed; next 2096-03-29T03")
    ran = joblane("schedules", "run", "nightly")
    assert (0, b"01KMS7R2R0V3XW8TQZ9M4C2N7D\n") == (ran.code, ran.stdout)
    deleted = joblane("schedules", "rm", "nightly")
    assert (0, b"") == (deleted.code, deleted.stdout)
    assert ["pause", "resume", "run"] == [each.path.rpartition("/")[2] for each in api.requests[:3]]
    assert ("DELETE", ONE, None) == sent(api)[3]
    api.answers[f"{ONE}/run"] = problem(400, "Invalid Request", detail="queue night is gone")
    refused = joblane("schedules", "run", "nightly")
    assert (64, b"") == (refused.code, refused.stdout)
    assert "queue night is gone" in refused.said


BACKFILL = ("schedules", "backfill", "nightly", "--from", "2026-03-01T00:00:00Z")
TO = ("--to", "2026-03-03T00:00:00Z")
DONE = {"started": 2, "already": 1, "refused": 0, "left": 0, "text": "2 started", "jobs": ["a"]}


def test_a_backfill_says_how_many_and_asks(
    api: FakeApi, joblane: Joblane, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(terminal, "can_ask", lambda: True)
    monkeypatch.setattr(terminal, "confirms", asked.append)
    api.answers[f"{ONE}/backfill"] = ok(DONE | {"left": 3}, 202)
    ran = joblane(*BACKFILL, *TO)
    assert ["start 3 due times of nightly now"] == asked
    assert "nothing was started" in ran.said
    body = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-03T00:00:00Z", "check": True}
    assert [("POST", f"{ONE}/backfill", body)] == sent(api)
    assert b"would start 3 due times\n" == joblane(*BACKFILL, *TO, "--dry-run").stdout


def test_a_backfill_goes_on_until_nothing_is_left(api: FakeApi, joblane: Joblane) -> None:
    second = {"started": 1, "already": 3, "refused": 1, "left": 0, "text": "1 refused", "jobs": []}
    api.faults.extend([ok(DONE | {"left": 2}, 202), ok(second, 202)])
    ran = joblane(*BACKFILL, *TO, "--yes", "--json", "--reason", "late")
    assert {"started": 3, "already": 1, "refused": 1, "left": 0, "jobs": ["a"]} == {
        name: value for name, value in json.loads(ran.stdout).items() if name != "text"
    }
    assert 1 == ran.code
    assert {"late"} == {each.body["reason"] for each in api.requests}
    unasked = joblane(*BACKFILL, *TO)
    assert (2, True) == (unasked.code, "add --yes to backfill" in unasked.said)
    assert 2 == len(api.requests)
