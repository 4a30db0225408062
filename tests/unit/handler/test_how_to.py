"""The project of examples/tickets works, which docs/how-to/write-a-typed-job.md shows."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from joblane.handler.collect import collect
from joblane.typed.definition import TypeContract
from tests.support.client.fake_api import FakeApi
from tests.support.programs import MYPY_CACHE

ROOT = Path(__file__).parents[3]
PROJECT = ROOT / "examples/tickets"


@pytest.fixture(name="project")
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the project, which tests may write to."""
    shutil.copytree(PROJECT, tmp_path, dirs_exist_ok=True)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for module in [name for name in sys.modules if name.partition(".")[0] == "tickets"]:
        del sys.modules[module]


def run(project: Path, *command: str, **env: str) -> str:
    ran = subprocess.run(
        [sys.executable, *command],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project), **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_type_is_valid(project: Path):
    [found] = collect("tickets")
    assert project.exists()
    assert ("tickets.jobs:sync_tickets", "sync-tickets") == (found.entry, found.job_type.name)
    contract = {name: value for name, value in found.job_type.contract().items() if value}
    assert TypeContract.model_validate_json(json.dumps(contract)).items == "/tickets"


def test_its_tests_pass(project: Path):
    assert "2 passed" in run(project, "-m", "pytest", "-q", "-p", "no:cacheprovider")


def test_it_is_submitted_and_its_result_is_typed(project: Path):
    api = FakeApi()
    api.on_submit = lambda job: job.end(result={"synced": 2})
    try:
        assert "2\n" == run(project, "submit.py", JOBLANE_URL=api.url, JOBLANE_TOKEN="x")
    finally:
        api.close()
    assert {
        "type": "sync-tickets",
        "params": {"origin": "acme", "tickets": [1, 2]},
    } == api.requests[0].body


def test_mypy_accepts_it(project: Path):
    options = ("--strict", "--config-file=", "--cache-dir", str(MYPY_CACHE))
    run(project, "-m", "mypy", *options, "tickets", "submit.py", "test_jobs.py", PYTHONPATH="")
