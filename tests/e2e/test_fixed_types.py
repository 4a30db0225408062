"""Typed jobs that died of a mistake in their code: the fix is pushed, and they are restarted."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Http, Run
from tests.support.deployed import wait_for, wait_for_job

BROKEN = """
from pydantic import BaseModel

from joblane import Job, job_type


class Params(BaseModel):
    numbers: list[int] = []
    origin: str = ""


@job_type("repaired", timeout_s=60, retry={"max_attempts": 1})
def add(params: Params, job: Job) -> int:
    raise ValueError("a mistake")
"""

FIXED = (
    BROKEN.replace('raise ValueError("a mistake")', "return sum(params.numbers)")
    .replace('origin: str = ""', "origin: str")
    .replace("timeout_s=60", "timeout_s=90")
)

ORIGINS = ("a", "a" * 1_000, "a" * 262_100)
"""So that a submission is in its row, beside it, and in S3: a restart writes each anew."""

PYPROJECT = """
[project]
name = "repairs"
version = "1"
dependencies = ["joblane"]
"""


@pytest.fixture(name="project", scope="module")
def _project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("repairs", numbered=False)
    (folder / "repairs").mkdir()
    (folder / "repairs/__init__.py").touch()
    (folder / "repairs/jobs.py").write_text(BROKEN)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.mark.usefixtures("agent")
def test_what_died_is_restarted_with_the_fix(
    push: Run,
    project: Path,
    http: Http,
    environment: dict[str, str],
    tmp_path: Path,
):
    """One whose params the fixed version does not take is listed, and stays dead."""

    def joblane(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
        env = {**environment, "HOME": str(tmp_path)}
        return subprocess.run(["joblane", *arguments], env=env, capture_output=True, check=False)

    def submit(**params: object) -> str:
        answer = http("POST", "/v1/jobs", json={"type": "repaired", "params": params})
        assert 202 == answer.status_code, answer.text
        return str(answer.json()["id"])

    assert 0 == push().returncode
    fitting = [submit(numbers=[n, 2], origin=origin) for n, origin in enumerate(ORIGINS)]
    misfit = submit(numbers=[1])
    for job_id in (*fitting, misfit):
        assert "dead" == wait_for(http, job_id, "dead")["state"]

    (project / "repairs/jobs.py").write_text(FIXED)
    pushed = push("--yes")  # its origin is required
    assert b"repaired updated, version 2" in pushed.stdout, pushed.stderr.decode()
    done = joblane("restart-failed", "_all", "--type", "repaired", "--reason", "fixed", "--json")
    answer = json.loads(done.stdout)
    assert 3 == answer["restarted"], done.stderr.decode()
    refused = answer["refused"]
    assert [misfit] == [entry["id"] for entry in refused]
    assert "params.origin required" in refused[0]["detail"]
    for number, job_id in enumerate(fitting):
        job = wait_for(http, job_id, "completed", "dead")
        assert ("completed", 2, number + 2) == (job["state"], job["type_version"], job["result"])
        assert 90 == job["timeout_s"]
        ran = [step["version"] for step in job["timeline"] if step["state"] == "active"]
        assert [1, 2] == ran
        assert b"version 1," in joblane("get", job_id).stdout
    left = http("GET", f"/v1/jobs/{misfit}").json()
    assert ("dead", 1) == (left["state"], left["type_version"])

    assert 0 == joblane("retry", misfit, "--same-version").returncode
    job = wait_for_job(http, misfit, lambda job: job["epoch"] == 2 and job["state"] == "dead")
    assert 1 == job["type_version"]
