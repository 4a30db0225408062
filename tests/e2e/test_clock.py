"""An agent whose host's clock jumps keeps to the time of AWS."""

import time
from pathlib import Path

import pytest

from joblane.aws.clients import Clients
from joblane.deployment.names import PLATFORM
from scripts.local.cloud import Cloud
from tests.e2e.conftest import Http
from tests.support.deployed import agents, assert_once, send_again, submit, wait_for
from tests.support.paced import start_paced


def test_a_host_whose_clock_jumps_neither_loses_nor_doubles_a_job(
    quiet: Cloud,
    http: Http,
    clients: Clients,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    (tmp_path / "sitecustomize.py").write_text(_JUMPS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def begin(name: str) -> Path:
        jump = tmp_path / name
        jump.write_text("0")
        monkeypatch.setenv("JOBLANE_TEST_JUMP", str(jump))
        start_paced(quiet, name, threads=2)
        return jump

    late = begin("late")
    jobs = [submit(http, "sleep", "7", restartable=n == 0) for n in range(2)]
    for job_id in jobs:
        wait_for(http, job_id, "active")
    early = begin("early")
    late.write_text("-3600")
    early.write_text("3600")
    time.sleep(1.5)  # each has beaten since
    send_again(clients, jobs)  # for `early`: the other has no slot left
    platform = Http(quiet.url, quiet.token(PLATFORM))
    rows = agents(platform, "late", "early")
    platform.close()
    assert {"late": True, "early": True} == {name: row["alive"] for name, row in rows.items()}
    for job_id in jobs:
        job = assert_once(http, job_id)
        assert "late" == job["agent"]
    for name in ("early", "late"):
        quiet.stop_agent(name)


_JUMPS = """
import os, time
_real, _jump = time.time, os.environ.get("JOBLANE_TEST_JUMP")
if _jump:
    time.time = lambda: _real() + float(open(_jump).read())
"""
"""Sets the clock of a process as its file says."""
