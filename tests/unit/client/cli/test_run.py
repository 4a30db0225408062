"""`joblane run`: exit codes, bytes as they were, words when a job waits or fails, Ctrl-C."""

import json
import re
import threading
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from joblane import Client
from joblane.client.cli.job.log_follower import ASK_AGAIN_S, LogFollower, LogWriter, Waiting
from tests.support.client.command import Joblane, Spawn, wait_until
from tests.support.client.fake_api import FakeApi, FakeJob, problem

RAW = b"\xff\xfe\x00 caf\xe9\r\n"


def test_output_comes_out_byte_for_byte(api: FakeApi, joblane: Joblane) -> None:
    """Invalid UTF-8, carriage returns, a missing last newline: each stream as it was written."""

    def script(job: FakeJob) -> None:
        job.say("one\r\n")
        job.say(RAW)
        job.say("warn é\n", stream="stderr")
        job.say(RAW, stream="stderr")
        job.say("no newline")
        job.end()

    api.on_submit = script
    ran = joblane("run", "--", "cmd")
    assert ran.code == 0
    assert ran.stdout == b"one\r\n" + RAW + b"no newline"
    assert ran.stderr == "warn é\n".encode() + RAW


@pytest.mark.parametrize(
    ("result", "stdout"),
    [({"synced": 2}, b'{\n  "synced": 2\n}\n'), ("text", b'"text"\n'), (0, b"0\n"), (None, b"")],
)
def test_the_result_of_a_typed_job_is_stdout_and_its_output_stderr(
    api: FakeApi, joblane: Joblane, result: object, stdout: bytes
) -> None:
    def script(job: FakeJob) -> None:
        job.say("printed\n")
        job.say("logged\n", stream="stderr")
        job.data["type"] = "sync"
        job.end(result=result)

    api.on_submit = script
    ran = joblane("run", "--type", "sync")
    assert (0, stdout, b"printed\nlogged\n") == (ran.code, ran.stdout, ran.stderr)
    ended = json.loads(joblane("run", "--type", "sync", "--json").stdout.splitlines()[-1])
    assert result == ended["ended"]["result"]


def test_a_typed_job_that_fails_has_no_result(api: FakeApi, joblane: Joblane) -> None:
    def script(job: FakeJob) -> None:
        job.data["type"] = "sync"
        job.end("failed", exit_code=65, reason="no such origin")

    api.on_submit = script
    ran = joblane("run", "--type", "sync")
    assert (65, b"", "joblane: job 01J0 failed: no such origin\n") == (
        ran.code,
        ran.stdout,
        ran.said,
    )


@pytest.mark.parametrize("verb", ["run", "submit"])
def test_conditions_that_must_hold_are_sent(api: FakeApi, joblane: Joblane, verb: str) -> None:
    api.on_submit = lambda job: job.end()
    given = ("--requires", "app:billing", "--requires", "tcp:db.example.com:5432")
    assert 0 == joblane(verb, *given, "--", "cmd").code
    sent = next(request.body for request in api.requests if request.method == "POST")
    assert ["app:billing", "tcp:db.example.com:5432"] == sent["requires"]


def test_a_condition_that_the_api_refuses_is_named(api: FakeApi, joblane: Joblane) -> None:
    errors = [{"field": "requires.0", "problem": "unknown kind of condition"}]
    api.answers["/v1/jobs"] = problem(400, "Bad Request", errors=errors)
    ran = joblane("submit", "--requires", "moon:full", "--", "cmd")
    assert 64 == ran.code
    assert "joblane:   requires.0: unknown kind of condition\n" in ran.said


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ({"state": "completed", "exit_code": 0}, 0),
        ({"state": "dead", "exit_code": 3}, 3),
        ({"state": "failed", "exit_code": 65}, 65),
        ({"state": "dead", "exit_code": 255}, 255),
        ({"state": "dead", "exit_code": None, "signal": 9}, 137),
        ({"state": "dead", "exit_code": 137, "signal": 9}, 137),
        ({"state": "dead", "signal": 9, "outcome": "timed_out"}, 124),
        ({"state": "dead", "exit_code": 0, "outcome": "timed_out"}, 124),
        ({"state": "dead", "signal": 9, "outcome": "failed"}, 137),
        ({"state": "expired", "exit_code": None}, 124),
        ({"state": "expired", "exit_code": None, "signal": 15}, 124),
        ({"state": "failed", "exit_code": None}, 70),
        ({"state": "stale", "exit_code": 0}, 70),
        ({"state": "dead", "exit_code": "odd", "signal": "odd", "usage": "odd"}, 70),
    ],
)
def test_exit_code_is_the_jobs(api: FakeApi, joblane: Joblane, end: dict[str, object], code: int):
    api.on_submit = lambda job: job.end(reason="because", **end)  # type: ignore[arg-type]
    ran = joblane("run", "--", "cmd")
    assert ran.code == code
    expected = "" if code == 0 else f"joblane: job 01J0 {end['state']}: because\n"
    assert ran.said == expected


def test_options_become_the_submission(api: FakeApi, joblane: Joblane) -> None:
    """Each option is one field of a submission; options that are not given are not sent."""
    options = (
        "--queue q --priority high --cpus 0.5 --memory-mb 64 --pids 8 --cores 0-1 --io-bps 4096"
        " --tmp-mb 16 --disk-mb 900 --network egress --env A=1=2 --env B= --timeout-s 2.5"
        " --attempts 4 --heartbeat-timeout-s 30 --backoff-s 1 --backoff-s 2 --no-restart"
        " --label team=x --permanent-exit-code 65 --blocked-exit-code 75 --blocked-exit-code 3"
        " --skipped-exit-code 4"
    )
    assert joblane("run", *options.split(), "--", "sh", "-c", "--env").code == 0
    assert api.requests[0].body == {
        "command": ["sh", "-c", "--env"],
        "queue": "q",
        "priority": "high",
        "resources": {
            "cpus": 0.5,
            "memory_mb": 64,
            "pids": 8,
            "cores": "0-1",
            "io_bps": 4096,
            "tmp_mb": 16,
            "disk_mb": 900,
        },
        "network": "egress",
        "env": {"A": "1=2", "B": ""},
        "timeout_s": 2.5,
        "heartbeat_timeout_s": 30.0,
        "restartable": False,
        "retry": {"max_attempts": 4, "backoff_s": [1.0, 2.0]},
        "exit_codes": {"permanent": [65], "blocked": [75, 3], "skipped": [4]},
        "labels": {"team": "x"},
    }


def test_the_key_of_a_job_is_an_option_a_segment(api: FakeApi, joblane: Joblane) -> None:
    key = "--key customer --key 7 --max-active 2 --max-queued 9 --when-full coalesce"
    assert joblane("submit", *key.split(), "--key", '"7"', "--", "true").code == 0
    assert api.requests[-1].body["concurrency"] == {
        "key": ["customer", 7, "7"],
        "max_active": 2,
        "max_queued": 9,
        "when_full": "coalesce",
    }
    assert joblane("run", "--concurrency", "per-customer", "--", "true").code == 0
    assert api.requests[1].body["concurrency"] == "per-customer"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--max-queued", "3"], "--max-queued needs --key"),
        (["--key", "a", "--concurrency", "b"], "exclude each other"),
        (["--key", "x" * 201], "--key must be at most 200 bytes"),
    ],
)
def test_options_of_a_key_that_do_not_fit_are_refused_here(
    api: FakeApi, joblane: Joblane, options: list[str], said: str
) -> None:
    ran = joblane("submit", *options, "--", "true")
    assert ran.code == 2
    assert said in ran.said
    assert not api.requests


@pytest.mark.parametrize("command", ["run", "submit"])
def test_the_refusal_of_a_full_key_is_a_sentence(api: FakeApi, joblane: Joblane, command: str):
    detail = 'key ["a"] is full: 1 of 1 jobs active, 0 of 0 queued'
    members = {"reason": "active-limit", "active": 1, "queued": 0, "limit": 1, "key": ["a"]}
    api.faults.append(problem(409, "Conflict", detail=detail, **members))
    ran = joblane(command, "--key", "a", "--", "true")
    assert ran.code == 64
    assert ran.said == f"joblane: 409 Conflict: {detail}\n"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"admission": "accepted", "replaced": None}, ""),
        ({"admission": "coalesced"}, "job 01J0 stands for this one"),
        ({"admission": "replaced", "replaced": "01HX"}, "job 01HX of the same key is skipped"),
        ({"admission": "accepted", "warning": None}, ""),
        (
            {"admission": "accepted", "warning": "no live agent can give it cpus"},
            "joblane: no live agent can give it cpus\n",
        ),
    ],
)
def test_what_became_of_the_submission_is_said(
    api: FakeApi, joblane: Joblane, answer: dict[str, object], said: str
) -> None:
    api.on_submit = lambda job: job.data.update(answer)
    ran = joblane("submit", "--key", "a", "--", "true")
    assert (ran.code, ran.stdout) == (0, b"01J0\n")
    assert said in ran.said
    assert bool(said) == bool(ran.said)


def test_a_job_of_a_type_has_its_params_in_a_file(api: FakeApi, joblane: Joblane, tmp_path: Path):
    file = tmp_path / "params.json"
    file.write_text('{"origin": "acme"}')
    assert joblane("submit", "--type", "sync", "--params", str(file)).code == 0
    assert joblane("submit", "--type", "tidy").code == 0
    assert [request.body for request in api.requests] == [
        {"type": "sync", "params": {"origin": "acme"}},
        {"type": "tidy", "params": {}},
    ]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "give a program after --, or --type"),
        (["--params", "{}/list", "--", "true"], "--params needs --type"),
        (["--type", "sync", "--", "true"], "a command and --type exclude each other"),
        (["--type", "sync", "--params", "{}/none"], "none: No such file or directory"),
        (["--type", "sync", "--params", "{}/text"], "text is not JSON"),
        (["--type", "sync", "--params", "{}/list"], "list must contain a JSON object"),
    ],
)
def test_what_is_no_job_of_a_type_is_refused_here(
    api: FakeApi, joblane: Joblane, tmp_path: Path, words: list[str], problem: str
) -> None:
    (tmp_path / "text").write_text("{")
    (tmp_path / "list").write_text("[1]")
    result = joblane("submit", *(word.replace("{}", str(tmp_path)) for word in words))
    assert result.code == 2
    assert problem in result.said
    assert not api.requests


def test_run_tries_once_and_submit_leaves_it_to_the_api(api: FakeApi, joblane: Joblane) -> None:
    joblane("run", "echo", "-n", "no dashes needed")
    joblane("submit", "--", "echo")
    assert api.requests[0].body == {
        "command": ["echo", "-n", "no dashes needed"],
        "retry": {"max_attempts": 1},
    }
    assert api.requests[-1].body == {"command": ["echo"]}


def test_submit_prints_the_id_or_the_job(joblane: Joblane) -> None:
    assert joblane("submit", "--", "true").stdout == b"01J0\n"
    job = json.loads(joblane("submit", "--json", "--", "true").stdout)
    assert job["id"] == "01J1"
    assert job["something_new"] == {"a": 1}


def test_json_is_lines_from_submitted_to_ended(api: FakeApi, joblane: Joblane) -> None:
    def script(job: FakeJob) -> None:
        job.say("a\n")
        job.say(RAW, stream="stderr")
        job.end("dead", exit_code=2)

    api.on_submit = script
    ran = joblane("run", "--json", "--", "cmd")
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert ran.code == 2
    assert [list(line) for line in lines] == [["submitted"], ["log"], ["log"], ["ended"]]
    assert lines[1]["log"]["text"] == "a\n"
    assert lines[2]["log"]["base64"]
    assert lines[3]["ended"]["state"] == "dead"


def test_a_job_that_waits_says_for_what_once(api: FakeApi, capfd: pytest.CaptureFixture[str]):
    def script(job: FakeJob) -> None:
        job.data["reason"] = "no agent\x1b[31m"

        def end() -> None:
            wait_until(lambda: api.count("GET", "/v1/jobs/01J0") > 2)
            job.end()

        threading.Thread(target=end).start()

    api.on_submit = script
    clock = map(float, count(0, ASK_AGAIN_S))  # that much passes with every page
    with Client(api.url, "secret") as client:
        job = client.submit(["cmd"])
        LogFollower(client, 60, LogWriter(raw=False), clock=lambda: next(clock)).follow(job.id)
    assert capfd.readouterr().err == "joblane: job 01J0 is pending: no agent\\x1b[31m\n"
    assert api.count("GET", "/v1/jobs/01J0") > 2  # asked again, said once


def test_when_to_look_at_what_a_job_waits_for() -> None:
    """After 2 s without news, then every 5 s; output or a running job start it again."""
    waiting = Waiting(quiet_since=0)
    asked = [
        now for now in range(1, 20) if waiting.should_ask("pending", output=False, now=float(now))
    ]
    assert asked == [2, 7, 12, 17]
    assert not waiting.should_ask("active", output=False, now=30)
    assert not waiting.should_ask("retry", output=False, now=31)
    assert waiting.should_ask("retry", output=False, now=32)
    assert not waiting.should_ask("retry", output=True, now=40)
    assert not waiting.should_ask("retry", output=False, now=41)


def test_each_line_is_seen_while_the_job_runs(api: FakeApi, fork: Spawn) -> None:
    """Not when a buffer is full; how soon is proven in test_follow."""
    job = api.add()
    process = fork("logs", "-f", "01J")
    assert process.stdout
    for number in range(3):
        silent = api.count("GET", "/v1/jobs/01J/logs")
        wait_until(lambda silent=silent: api.count("GET", "/v1/jobs/01J/logs") > silent)  # type: ignore[misc]
        job.say(f"line {number}\n")
        assert process.stdout.readline() == b"line %d\n" % number
    job.end()
    assert process.wait(10) == 0


def test_a_relative_time_becomes_a_time_in_utc(api: FakeApi, joblane: Joblane) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    ran = joblane(
        "submit", "--run-at", "+5m", "--deadline", "+2h", "--name", "web tests", "--", "x"
    )
    assert ran.code == 0
    after = datetime.now(UTC)
    body = api.requests[0].body
    assert body.keys() == {"command", "name", "run_at", "deadline"}
    for field, minutes in (("run_at", 5), ("deadline", 120)):
        assert re.fullmatch(r"[\d-]{10}T[\d:]{8}Z", body[field])
        found = datetime.fromisoformat(body[field])
        assert before <= found - timedelta(minutes=minutes) <= after


@pytest.mark.parametrize("text", ["+", "+5", "+m", "+1.5x", "+5y", "+" + "9" * 20 + "d"])
def test_a_relative_time_that_is_none_is_refused_here(api: FakeApi, joblane: Joblane, text: str):
    ran = joblane("submit", "--run-at", text, "--", "x")
    assert (ran.code, api.requests) == (2, [])
    assert "--run-at" in ran.said
