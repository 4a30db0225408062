"""Jobs on the deployed stacks, from the command line to a sandboxed process and back."""

import hashlib
import json
from pathlib import Path

import pytest
from ulid import ULID

from joblane.aws.clients import Clients
from joblane.deployment.names import bucket_name
from scripts.local.cloud import DEPLOYMENT, Cloud
from scripts.local.emulator import ACCOUNT, REGION
from tests.e2e.conftest import Http, Run
from tests.support.deployed import submit, wait_for

BUCKET = bucket_name(DEPLOYMENT, ACCOUNT, REGION)

pytestmark = pytest.mark.usefixtures("agent")


def test_a_job_runs_and_its_output_comes_back(joblane: Run):
    done = joblane("run", "--", "sh", "-c", "echo out; echo err >&2; echo $((6*7))")
    assert (0, b"out\n42\n") == (done.returncode, done.stdout)
    assert b"err\n" in done.stderr


def test_a_failing_job_gives_its_exit_code_and_says_why(joblane: Run):
    done = joblane("run", "--", "sh", "-c", "exit 3")
    assert 3 == done.returncode
    assert b"exit code 3" in done.stderr


def test_a_job_that_exceeds_its_time_is_ended_with_all_it_started(joblane: Run, http: Http):
    label = f"run={ULID()}"
    script = "sleep 300 & sleep 300"
    done = joblane("run", "--timeout-s", "1", "--label", label, "--", "sh", "-c", script)
    assert 124 == done.returncode
    (job,) = http("GET", "/v1/jobs", params={"label": label}).json()["entries"]
    assert "timeout_s of 1" in job["reason"]


def test_a_job_that_is_not_utf8_comes_back_byte_for_byte(joblane: Run):
    done = joblane("run", "--", "sh", "-c", r"printf '\377\376\000ok\n'")
    assert b"\xff\xfe\x00ok\n" == done.stdout


def test_a_missing_program_says_so(joblane: Run):
    done = joblane("run", "--", "no-such-program")
    assert 127 == done.returncode
    assert b"no-such-program" in done.stderr


def test_a_command_line_in_one_word_says_what_to_write(joblane: Run):
    done = joblane("run", "--", "echo hello world")
    assert 127 == done.returncode
    assert b"there is no program 'echo hello world'; for a command line write sh -c" in done.stderr


def test_a_script_with_windows_line_ends_says_so(joblane: Run, tmp_path: Path):
    script = tmp_path / "run.sh"
    script.write_bytes(b"#!/usr/bin/env bash\r\necho hello\r\n")
    script.chmod(0o755)
    done = joblane("run", "-i", f"{script}:run.sh", "--", "./run.sh")
    assert 127 == done.returncode
    assert b"./run.sh: its first line ends with a carriage return" in done.stderr


def test_a_program_that_exits_with_75_fails_like_any_other(joblane: Run):
    """Perl's Test::More exits with the number of failed tests."""
    done = joblane("run", "--", "sh", "-c", "exit 75")
    assert 75 == done.returncode
    assert b" dead: exit code 75 after" in done.stderr


def test_a_retry_is_a_second_attempt_and_the_timeline_tells(http: Http):
    job_id = submit(
        http,
        "sh",
        "-c",
        "echo attempt $JOBLANE_ATTEMPT; test $JOBLANE_ATTEMPT -ge 2",
        retry={"max_attempts": 3, "backoff_s": [0]},
    )
    job = wait_for(http, job_id, "completed")
    assert 2 == job["attempt"]
    assert ["pending", "active", "retry", "active", "completed"] == [
        step["state"] for step in job["timeline"]
    ]
    logs = http("GET", f"/v1/jobs/{job_id}/logs").json()
    assert [(1, "attempt 1\n"), (2, "attempt 2\n")] == [
        (entry["attempt"], entry["text"]) for entry in logs["entries"]
    ]
    assert logs["complete"]


def test_exhausted_attempts_end_dead(http: Http):
    job_id = submit(http, "false", retry={"max_attempts": 2, "backoff_s": [0]})
    job = wait_for(http, job_id, "dead")
    assert (2, 1) == (job["attempt"], job["exit_code"])
    assert "attempt 2 of 2" in job["reason"]
    found = http("GET", "/v1/jobs", params={"state": "dead"}).json()["entries"]
    assert job_id in [each["id"] for each in found]


def test_a_job_sees_neither_the_host_nor_its_credentials(joblane: Run, cloud: Cloud):
    done = joblane(
        "run", "--", "sh", "-c", "env; ls /; cat /proc/1/environ; touch /usr/x; hostname"
    )
    seen = done.stdout + done.stderr
    assert b"AWS_" not in seen
    assert str(cloud.run_dir).encode() not in seen
    assert b"Read-only file system" in seen


def test_output_of_a_job_with_many_lines_comes_back_whole(joblane: Run):
    done = joblane("run", "--", "seq", "1", "20000")
    assert "".join(f"{n}\n" for n in range(1, 20001)).encode() == done.stdout


def test_a_long_submission_runs_as_well(joblane: Run):
    words = "x" * 60_000
    done = joblane("run", "--", "sh", "-c", "echo ${#1}", "sh", words)
    assert b"60000\n" == done.stdout


def test_a_submission_of_more_than_a_megabyte_runs_and_is_read_back(http: Http, clients: Clients):
    command = ["sh", "-c", 'printf %s "$@" "$A" | sha256sum', "sh", *["\u00e9" * 60_000] * 10]
    env = {"A": "a" * 120_000}
    run = str(ULID())
    job_id = submit(http, *command, env=env, labels={"run": run})
    assert wait_for(http, job_id, "completed", "failed", "dead")["exit_code"] == 0
    digest = hashlib.sha256("".join([*command[4:], env["A"]]).encode()).hexdigest()
    logs = http("GET", f"/v1/jobs/{job_id}/logs").json()
    assert f"{digest}  -\n" == logs["entries"][0]["text"]
    read = http("GET", f"/v1/jobs/{job_id}").json()
    assert (command, env) == (read["command"], read["env"])
    (listed,) = http("GET", "/v1/jobs", params={"label": f"run={run}"}).json()["entries"]
    assert (job_id, True, {}) == (listed["id"], listed["abridged"], listed["env"])
    s3, key = clients.make("s3"), f"payloads/demo/{job_id}"

    def stored() -> int:
        return s3.list_objects_v2(Bucket=BUCKET, Prefix=key)["KeyCount"]

    assert 1 == stored()
    assert 204 == http("DELETE", f"/v1/jobs/{job_id}").status_code
    assert 0 == stored()


def test_get_ls_and_logs_tell_the_same_story(joblane: Run):
    job_id = joblane("submit", "--label", "team=web", "--", "echo", "hello").stdout.decode().strip()
    followed = joblane("logs", "-f", job_id)
    assert b"hello\n" == followed.stdout
    job = json.loads(joblane("get", "--json", job_id).stdout)
    assert ("completed", 0, {"team": "web"}) == (job["state"], job["exit_code"], job["labels"])
    assert job["usage"]["wall_s"] >= 0
    assert job_id in joblane("ls").stdout.decode()
    assert b"hello\n" == joblane("logs", job_id).stdout


def test_many_jobs_at_once_all_run_once(http: Http):
    ids = [submit(http, "sh", "-c", f"echo {n}") for n in range(40)]
    for n, job_id in enumerate(ids):
        job = wait_for(http, job_id, "completed", timeout_s=60)
        assert 1 == job["epoch"]
        assert f"{n}\n" == http("GET", f"/v1/jobs/{job_id}/logs").json()["entries"][0]["text"]
