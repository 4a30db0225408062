"""Many jobs by the command line, when deployed: a file of jobs, waiting, filters, completion."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from scripts.local.deploy import BIN
from tests.e2e.conftest import Http, Run
from tests.support.deployed import wait_for
from tests.support.depth import budget

MANY = budget(210, 1000)
"""Commands of a file: several requests of 100 jobs, and as many pages of a list."""
SEEN = "at least 1,000" if MANY >= 1000 else f"{MANY}"


@pytest.fixture(name="batch")
def _batch() -> str:
    """A label of this test's jobs."""
    return f"batch={time.time_ns()}"


def count_listed(http: Http, batch: str) -> int:
    """How many jobs there are with the label."""
    count, cursor = 0, None
    while True:
        query = {"label": batch, "limit": 100} | ({"next": cursor} if cursor else {})
        page = http("GET", "/v1/jobs", params=query).json()
        count += len(page["entries"])
        if (cursor := page["next"]) is None:
            return count


def test_many_commands_all_or_none_once_and_gone(
    http: Http, joblane: Run, environment: dict[str, str], tmp_path: Path, batch: str
):
    """One wrong line sends nothing; a killed run is gone on with; filters end it."""
    file = tmp_path / "jobs.txt"
    commands = [f"echo {number} 'two words'" for number in range(MANY)]
    file.write_text("\n".join([*commands[:200], "echo a | wc", *commands[200:]]))
    key = ("--idempotency-key", batch)
    given = ("submit", "--each", str(file), "--label", batch, "--run-at", "2100-01-01T00:00:00Z")
    refused = joblane(*given)
    assert (64, b"") == (refused.returncode, refused.stdout)
    assert f"{file} line 201: has |".encode() in refused.stderr
    assert 0 == count_listed(http, batch)

    file.write_text("\n".join(commands))
    program = [f"{BIN}/joblane", *given, *key]
    with subprocess.Popen(
        program, env={**environment, "HOME": str(tmp_path)}, stdout=subprocess.PIPE
    ) as killed:
        assert killed.stdout is not None
        first = killed.stdout.readline()
        killed.kill()
    assert 0 < count_listed(http, batch) < MANY
    done = joblane(*given, *key, timeout=300)
    assert (0, b"") == (done.returncode, done.stderr)
    ids = done.stdout.decode().split()
    assert first.decode().strip() == ids[0]
    assert MANY == len(set(ids)) == count_listed(http, batch)
    job = http("GET", f"/v1/jobs/{ids[-1]}").json()
    assert (["echo", f"{MANY - 1}", "two words"], "scheduled") == (job["command"], job["state"])
    file.write_text("echo another")
    other = joblane(*given, *key)
    assert 64 == other.returncode
    assert b"422" in other.stderr

    label = ("--label", batch)
    would = f"would cancel {SEEN} jobs\n".encode()
    assert would == joblane("cancel", *label, "--dry-run").stdout
    assert 0 == joblane("cancel", *label, "--yes", timeout=300).returncode
    waited = joblane("wait", *ids, "--timeout", "2m", timeout=300)
    assert (70, b"") == (waited.returncode, waited.stderr)
    assert ids == [line.split()[0] for line in waited.stdout.decode().splitlines()]
    kept = joblane("delete", *label, "--state", "completed", "--yes")
    assert b"deleted 0 of 0 jobs examined\n" == kept.stdout
    gone = joblane("delete", *label, "--yes", "--reason", "done with", timeout=300)
    assert (0, f"deleted {MANY} of {MANY} jobs examined\n".encode()) == (
        gone.returncode,
        gone.stdout,
    )
    assert 0 == count_listed(http, batch)
    query = {"action": "delete-jobs", "limit": 100}
    trail = http("GET", "/v1/audit", params=query).json()["entries"]
    asked = [(entry["reason"], (entry["asked"] or {}).get("label")) for entry in trail]
    assert ("done with", [batch]) in asked


@pytest.mark.usefixtures("agent")
def test_a_file_of_jobs_is_run_to_its_end(joblane: Run, tmp_path: Path, batch: str):
    file = tmp_path / "jobs.txt"
    lines = ["true", 'sh -c "exit $CODE"', '{"command": ["sh", "-c", "exit 4"], "name": "four"}']
    file.write_text("\n".join(lines * 5))
    ran = joblane("run", "--each", str(file), "--label", batch, "-e", "CODE=3", timeout=120)
    assert (1, b"") == (ran.returncode, ran.stdout)
    said = ran.stderr.decode()
    assert said.endswith("joblane: 5 of 15 jobs completed, 10 dead\n")
    named = [line.split(":")[1] for line in said.splitlines() if " dead: exit code" in line]
    assert sorted(named) == sorted(f" line {n}" for n in range(1, 16) if n % 3 != 1)
    file.write_text("true\n" * 5)
    done = joblane("run", "--each", str(file), "--json", timeout=120)
    assert 0 == done.returncode, done.stderr
    states = [json.loads(line).get("ended", {}).get("state") for line in done.stdout.splitlines()]
    assert 5 == states.count("completed")


@pytest.mark.usefixtures("agent")
def test_what_people_type_is_understood(http: Http, joblane: Run):
    submitted = joblane(
        *("submit", "--timeout", "5m", "--deadline", "+1h", "-e", "LANG", "--name", "typed"),
        *("--", "sh", "-c", 'test "$LANG" = C.UTF-8'),
    )
    job_id = submitted.stdout.decode().strip()
    assert b"--deadline is 20" in submitted.stderr
    job = wait_for(http, job_id, "completed")
    assert (300, "typed") == (job["timeout_s"], job["name"])
    shown = joblane("get", job_id[-8:].lower())
    assert job_id.encode() in shown.stdout, shown.stderr
    assert job_id.encode() in joblane("ls", "--since", "10m", "--state", "completed").stdout
    late = joblane("submit", "--deadline", "yesterday 9:00", "--", "true")
    assert (2, b"") == (late.returncode, late.stdout)
    assert b"is not in the future" in late.stderr


def test_a_shell_completes_what_the_deployment_has(http: Http, environment: dict[str, str]):
    del http
    for words, expected in (("ls --queue b", "bulk"), ("ls --state bl", "blocked")):
        asked = {
            "_JOBLANE_COMPLETE": "complete_bash",
            "COMP_WORDS": f"joblane {words}",
            "COMP_CWORD": str(len(words.split())),
            "JOBLANE_COMPLETION_S": "60",
        }
        ran = subprocess.run(
            ["joblane"], env={**environment, **asked}, capture_output=True, check=False
        )
        assert (f"{expected}\n".encode(), b"") == (ran.stdout, ran.stderr)
    assert os.environ.get("_JOBLANE_COMPLETE") is None
