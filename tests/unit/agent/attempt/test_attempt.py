"""One attempt from claim to settled outcome, in a real sandbox, over an AWS in this process."""

import asyncio
import threading
import time
from typing import Any

import pytest

from ec2_agent.attempt import run as attempts
from ec2_agent.sandbox.launcher import Launcher
from joblane.job.head import Head
from joblane.job.judge import StopReason
from joblane.job.output import Cursor
from joblane.service.output.pages import log_page
from joblane.state.lifecycle import Outcome, State
from tests.support.attempts import begin, finish, lengths, output, run, stop_running
from tests.support.aws import Cloud
from tests.support.jobs import JOB

SLEEPER = "echo ready; exec sleep 60"
DEAF = "trap '' TERM; echo ready; sleep 60 & wait"


def test_success_is_recorded_with_output_and_usage_and_its_message_is_gone(
    aws: Cloud, launcher: Launcher
):
    head = run(aws, launcher, "/bin/sh", "-c", "echo out; echo err >&2; echo $JOBLANE_JOB_ID")
    assert (State.COMPLETED, 0) == (head.state, head.exit_code)
    assert {("stdout", f"out\n{JOB}\n"), ("stderr", "err\n")} <= set(output(aws, head)) or {
        ("stdout", "out\n"),
        ("stdout", f"{JOB}\n"),
        ("stderr", "err\n"),
    } == set(output(aws, head))
    assert head.usage_json is not None
    assert '"wall_s"' in head.usage_json
    assert head.expires_at is not None
    assert (0, 0) == lengths(aws)


def test_a_failure_waits_for_its_backoff_and_says_so(aws: Cloud, launcher: Launcher):
    head = run(aws, launcher, "/bin/sh", "-c", "exit 3", retry={"backoff_s": [1000]})
    assert (State.RETRY, 3, 1) == (head.state, head.exit_code, head.attempt)
    assert "exit code 3" in head.timeline[-1].reason
    assert head.next_at_ms is not None
    assert head.expires_at is None
    assert (0, 1) == lengths(aws)  # hidden until then


def test_the_last_attempt_ends_dead(aws: Cloud, launcher: Launcher):
    head = run(aws, launcher, "/bin/sh", "-c", "kill -9 $$", retry={"max_attempts": 1})
    assert (State.DEAD, 9, None) == (head.state, head.signal, head.exit_code)
    assert "SIGKILL" in head.timeline[-1].reason


CODES = {"permanent": [65], "blocked": [3], "skipped": [4]}


@pytest.mark.parametrize(
    ("code", "fields", "state"),
    [
        (65, {}, State.RETRY),
        (75, {}, State.RETRY),
        (75, {"retry": {"max_attempts": 1}}, State.DEAD),
        (65, {"exit_codes": CODES}, State.FAILED),
        (3, {"exit_codes": CODES}, State.BLOCKED),
        (4, {"exit_codes": CODES}, State.SKIPPED),
        (75, {"exit_codes": CODES}, State.RETRY),
        (75, {"requires": ["app:billing"]}, State.BLOCKED),
        (75, {"requires": ["app:billing"], "exit_codes": {"permanent": [75]}}, State.FAILED),
    ],
)
def test_an_exit_code_means_what_the_job_says(
    aws: Cloud, launcher: Launcher, code: int, fields: dict[str, Any], state: State
):
    head, _ = say(aws, launcher, f"exit {code}", **fields)
    assert (state, code) == (head.state, head.exit_code)
    if state is State.BLOCKED:
        waits_for = "billing" if "requires" in fields else "default"
        assert f"app:acme/{waits_for}" == head.condition
        assert f"exit code {code}: waits for app:{waits_for}" == head.timeline[-1].reason


@pytest.mark.parametrize(
    ("program", "code", "why"),
    [
        ("echo hello world", 127, "there is no program 'echo hello world'; for a command line"),
        ("echo " + 50 * "hello ", 126, "there is no program 'echo hello hello hello hello hello…'"),
        ("/none/" + 99 * "x/", 127, "…x/x/x/x/x/x/"),
    ],
)
def test_a_command_line_in_one_word_says_how_to_write_it(
    aws: Cloud, launcher: Launcher, program: str, code: int, why: str
):
    head = run(aws, launcher, program, retry={"max_attempts": 1})
    assert (State.DEAD, code) == (head.state, head.exit_code)
    reason = head.timeline[-1].reason
    assert reason.startswith(f"exit code {code}: {why}")
    assert ("sh -c '...'" in reason) == (" " in program)
    assert reason.endswith("(attempt 1 of 1)")


def test_a_command_that_is_not_there_says_so(aws: Cloud, launcher: Launcher):
    head = run(aws, launcher, "/no/such/program")
    assert 127 == head.exit_code
    assert "/no/such/program" in head.timeline[-1].reason


@pytest.mark.parametrize(
    ("code", "state", "reason"),
    [
        (0, State.SKIPPED, "does not apply here: no nginx"),
        (4, State.SKIPPED, "does not apply here: no nginx"),
        (1, State.RETRY, "exit code 1"),
    ],
)
def test_a_job_says_that_it_does_not_apply(
    aws: Cloud, launcher: Launcher, code: int, state: State, reason: str
):
    said = """echo '{"skip": "no nginx"}' >&3; echo '{"result": 1}' >&3; exit """
    head = run(aws, launcher, "/bin/sh", "-c", f"{said}{code}", exit_codes={"skipped": [4]})
    assert (state, None) == (head.state, head.result)
    assert head.timeline[-1].reason.startswith(reason)
    assert (head.expires_at is not None) == head.ended


def test_what_a_job_says_went_wrong_is_the_reason(aws: Cloud, launcher: Launcher):
    said = """echo '{"error": "ValueError: no such customer"}' >&3; exit 1"""
    head = run(aws, launcher, "/bin/sh", "-c", said, retry={"backoff_s": [0]})
    assert (
        "ValueError: no such customer (attempt 1 of 3); next attempt in 0 s"
        == head.timeline[-1].reason
    )


@pytest.mark.parametrize(
    ("end", "reason"), [("exit 0", "exit code 0 after"), ("kill -9 $$", "killed by SIGKILL")]
)
def test_what_a_job_says_went_wrong_counts_only_if_it_exits_with_a_failure(
    aws: Cloud, launcher: Launcher, end: str, reason: str
):
    head = run(aws, launcher, "/bin/sh", "-c", f"""echo '{{"error": "no"}}' >&3; {end}""")
    assert reason in head.timeline[-1].reason


def test_a_long_error_leaves_room_for_what_happens_next(aws: Cloud, launcher: Launcher):
    said = f"""echo '{{"error": "{"word " * 100}"}}' >&3; exit 1"""
    head = run(aws, launcher, "/bin/sh", "-c", said, retry={"max_attempts": 99})
    assert head.timeline[-1].reason.startswith("word word")
    assert "\u2026 (attempt 1 of 99); next attempt in" in head.timeline[-1].reason


def test_a_job_without_heartbeats_has_timed_out_even_if_it_then_exits_with_0(
    aws: Cloud, launcher: Launcher
):
    script = "trap 'exit 0' TERM; sleep 60 & wait"
    head = run(aws, launcher, "/bin/sh", "-c", script, heartbeat_timeout_s=1)
    assert (State.RETRY, Outcome.TIMED_OUT) == (head.state, head.outcome)
    assert head.timeline[-1].reason.startswith("no heartbeat for 1 s (attempt 1 of 3)")


def test_a_timeout_ends_the_whole_tree(aws: Cloud, launcher: Launcher):
    head = run(aws, launcher, "/bin/sh", "-c", "(sleep 600 &) ; sleep 600", timeout_s=0.3)
    assert State.RETRY is head.state
    assert Outcome.TIMED_OUT is head.outcome
    assert "timeout_s of 0.3" in head.timeline[-1].reason


def test_what_the_launcher_refuses_fails_the_job_before_it_runs(aws: Cloud, launcher: Launcher):
    """A limit that another host may have: test_lacking.py."""
    head = run(aws, launcher, "/bin/sh", "-c", "echo ran", network="host")
    assert State.FAILED is head.state
    assert "not started: network host is not allowed" in head.timeline[-1].reason
    assert [] == output(aws, head)


def test_an_interrupted_attempt_goes_back_uncounted_and_at_once(aws: Cloud, launcher: Launcher):
    _, attempt = begin(aws, launcher, command=["/bin/sh", "-c", SLEEPER])
    head = stop_running(aws, attempt, lambda: attempt.request_stop(StopReason.DRAIN))
    assert (State.PENDING, 0) == (head.state, head.attempt)
    assert (1, 0) == lengths(aws)


def test_a_cancelled_job_ends_with_all_it_started(aws: Cloud, launcher: Launcher):
    _, attempt = begin(aws, launcher, grace_s=0.5, command=["/bin/sh", "-c", DEAF])
    head = stop_running(aws, attempt, lambda: attempt.request_stop(StopReason.COMMAND))
    assert (State.CANCELLED, Outcome.CANCELLED) == (head.state, head.outcome)
    assert (0, 0) == lengths(aws)


def test_a_job_that_ended_by_itself_before_it_could_be_cancelled_has_ended_by_itself(
    aws: Cloud, launcher: Launcher
):
    _, attempt = begin(aws, launcher, command=["true"])
    attempt.request_stop(StopReason.COMMAND)
    attempt.request_stop(StopReason.DRAIN)  # the first who asks says why
    head = finish(aws, attempt)
    assert head.state in {State.CANCELLED, State.COMPLETED}


def test_a_job_whose_end_was_asked_for_is_not_tried_again(aws: Cloud, launcher: Launcher):
    """Its attempt failed before the agent heard of it."""
    _, attempt = begin(aws, launcher, command=["false"], retry={"backoff_s": [0]})
    aws.jobs.request_cancel(JOB, "asked at noon")
    head = finish(aws, attempt)
    assert (State.CANCELLED, 1) == (head.state, head.exit_code)
    assert "cancelled; exit code 1" in head.timeline[-1].reason
    assert (0, 0) == lengths(aws)


def test_an_abandoned_attempt_says_nothing(aws: Cloud, launcher: Launcher):
    _, attempt = begin(aws, launcher, command=["/bin/sh", "-c", SLEEPER])
    head = stop_running(aws, attempt, attempt.abandon)
    assert State.ACTIVE is head.state
    assert (0, 1) == lengths(aws)


def test_a_late_finisher_is_refused_and_the_owner_stays(
    aws: Cloud, launcher: Launcher, caplog: Any
):
    parts, attempt = begin(aws, launcher, command=["true"])
    parts.jobs.take_over(attempt.head, "agent-2", int(time.time() * 1000))
    head = finish(aws, attempt)
    assert (State.ACTIVE, "agent-2") == (head.state, head.agent)
    assert "stale_completion_ignored" in caplog.text


def test_a_flood_keeps_its_beginning_and_says_what_is_missing(aws: Cloud, launcher: Launcher):
    head = run(aws, launcher, "/bin/sh", "-c", "head -c 60000000 /dev/zero | tr '\\0' a")
    assert State.COMPLETED is head.state
    assert head.timeline[-1].records is not None
    assert head.timeline[-1].records > 1000


def test_records_count_only_if_all_of_them_are_stored(
    aws: Cloud, launcher: Launcher, monkeypatch: pytest.MonkeyPatch
):
    """Readers go on after that number, also if the next start has begun."""
    monkeypatch.setattr(attempts, "SHIP_TIMEOUT_S", 0.05)
    _, attempt = begin(aws, launcher, command=["/bin/echo", "hello"])
    recorded = threading.Event()
    monkeypatch.setattr(attempt.parts.output, "write", lambda *_: recorded.wait(20))

    async def scenario() -> None:
        await attempt.run()
        recorded.set()

    asyncio.run(scenario())
    head = aws.job(JOB)
    assert (State.COMPLETED, None) == (head.state, head.timeline[-1].records)


def test_bytes_that_are_not_utf8_survive(aws: Cloud, launcher: Launcher):
    head = run(aws, launcher, "/bin/sh", "-c", r"printf '\377\000\n'")
    page = log_page(aws.output, head, Cursor(), limit=10, now_ms=0)
    assert ["/wAK"] == [record.base64 for record in page.records]


def say(aws: Cloud, launcher: Launcher, script: str, **fields: Any) -> tuple[Head, str]:
    """Run a script where blocked jobs can wait; give the job and its output."""
    command = ["/bin/sh", "-c", script]
    _, attempt = begin(aws, launcher, command=command, **fields)
    head = finish(aws, attempt)
    return head, "".join(text or "" for _, text in output(aws, head))


HEALTH = "http:https://x.example/health"


def name(condition: str) -> str:
    """A script that names a condition and writes the answer to its output."""
    return f"""echo '{{"block": "{condition}"}}' >&3; read a <&3; echo "$a"; """


NAMED = name(HEALTH)


def test_a_job_waits_for_the_condition_that_it_named(aws: Cloud, launcher: Launcher):
    head, out = say(aws, launcher, NAMED + "exit 75", requires=["app:billing", HEALTH])
    assert (State.BLOCKED, HEALTH) == (head.state, head.condition)
    assert head.timeline[-1].reason == (
        "exit code 75: the job named what it waits for: http:https://x.example/health"
    )
    assert '{"ok": true}\n' == out


def test_python_finds_the_line_by_its_number(aws: Cloud, launcher: Launcher):
    script = """
import json, os, socket, sys
line = socket.socket(fileno=int(os.environ["JOBLANE_FD"]))
for name in ("first", "last"):
    line.sendall(json.dumps({"block": "app:" + name}).encode() + b"\\n")
answers = line.makefile()
print(answers.readline() + answers.readline(), end="")
sys.exit(75)
"""
    head, out = say(aws, launcher, f"exec /usr/bin/python3 -c '{script}'")
    assert (State.BLOCKED, "app:acme/last") == (head.state, head.condition), out
    assert '{"ok": true}\n{"ok": true}\n' == out


@pytest.mark.parametrize(
    ("code", "state"), [(0, State.COMPLETED), (65, State.RETRY), (3, State.RETRY)]
)
def test_another_exit_code_wins_over_what_was_named(
    aws: Cloud, launcher: Launcher, code: int, state: State
):
    head, _ = say(aws, launcher, f"{NAMED} exit {code}")
    assert (state, None) == (head.state, head.condition)


def test_what_the_job_names_goes_before_what_it_requires(aws: Cloud, launcher: Launcher):
    head, _ = say(aws, launcher, NAMED + "exit 75", requires=["app:billing", HEALTH])
    assert HEALTH == head.condition


@pytest.mark.parametrize(
    "condition",
    [
        f"{HEALTH}?token=s3cret",
        "http:http://s3cret.example/",
        "tcp:s3cret.example:53",
        "capacity:main",
        "quota:other",
    ],
)
def test_a_job_has_nothing_tested_that_its_submission_does_not_list(
    aws: Cloud, launcher: Launcher, condition: str
):
    """An address of the job's choice can carry a secret out of a job without a network."""
    head, out = say(aws, launcher, name(condition) + "exit 75", requires=[HEALTH])
    assert HEALTH == head.condition
    assert "must be listed in the job's requires" in out
    assert "s3cret" not in head.timeline[-1].reason


def test_a_job_may_wait_for_its_own_tenants_quota(aws: Cloud, launcher: Launcher):
    head, out = say(aws, launcher, name("quota:acme") + "exit 75")
    assert ("quota:acme", '{"ok": true}\n') == (head.condition, out)


def test_a_condition_that_is_none_is_answered_and_not_waited_for(aws: Cloud, launcher: Launcher):
    head, out = say(aws, launcher, NAMED.replace("http:", "ftp:") + "exit 75")
    assert (State.RETRY, None) == (head.state, head.condition)
    assert "must start with one of http:" in out


def test_an_application_of_another_tenant_is_none(aws: Cloud, launcher: Launcher):
    head, out = say(aws, launcher, NAMED.replace("http:https:/", "app:other") + "exit 75")
    assert (State.RETRY, None) == (head.state, head.condition)
    assert "must name an application" in out


def test_a_flood_on_the_line_is_over_with_its_job(aws: Cloud, launcher: Launcher):
    """From twenty children that share it, and read no answer."""
    flood = 'while :; do echo \'{"block": "app:x"}\' >&3; done'
    script = f"for i in $(seq 20); do ({flood}) & done; (yes >&3 &); sleep 0.5; exit 75"
    head, _ = say(aws, launcher, script, timeout_s=20)
    assert (State.BLOCKED, 75) == (head.state, head.exit_code)


def test_a_job_that_was_given_up_before_its_start_is_not_started(
    aws: Cloud, launcher: Launcher, monkeypatch: pytest.MonkeyPatch
):
    """The lease was lost between claim and start, and is held again: others may have the job."""
    started: list[object] = []
    monkeypatch.setattr(launcher, "start", lambda *_, **__: started.append(1))
    _, attempt = begin(aws, launcher, command=["true"])
    attempt.abandon()
    asyncio.run(attempt.run())
    assert [] == started
    head = aws.job(JOB)
    assert State.ACTIVE is head.state
