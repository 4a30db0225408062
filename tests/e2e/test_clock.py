"""An agent whose host's clock jumps keeps to the time of AWS."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from joblane.aws.clients import Clients
from joblane.deployment.names import PLATFORM
from scripts.local.cloud import Cloud
from tests.e2e.conftest import Http
from tests.sandbox.running import STOPS, go_on, marker
from tests.support.deployed import agents, assert_once, send_again, submit, until, wait_for
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
    marks = [marker() for _ in range(2)]
    jobs = [
        submit(http, "sh", "-c", f"{STOPS} # {mark}", restartable=n == 0)
        for n, mark in enumerate(marks)
    ]
    for job_id in jobs:
        wait_for(http, job_id, "active")
    early = begin("early")
    late.write_text("-3600")
    early.write_text("3600")
    platform = Http(quiet.url, quiet.token(PLATFORM))
    for _ in range(2):  # the first may have begun before the jump
        rows = next_heartbeats(platform)
    send_again(clients, jobs)
    until(lambda: not visible(http))  # `early` has taken them: the other has no slot left
    platform.close()
    assert {"late": True, "early": True} == {name: row["alive"] for name, row in rows.items()}
    for job_id, mark in zip(jobs, marks, strict=True):
        go_on(mark)
        job = assert_once(http, job_id)
        assert "late" == job["agent"]
    for name in ("early", "late"):
        quiet.stop_agent(name)


def next_heartbeats(platform: Http) -> dict[str, dict[str, Any]]:
    """Both agents' rows, as soon as each has sent another heartbeat."""
    before = agents(platform, "late", "early")

    def is_new(name: str) -> bool:
        row = platform("GET", f"/v1/agents/{name}").json()
        return bool(row["last_seen_at"] != before[name]["last_seen_at"])

    for name in before:
        until(partial(is_new, name))
    return agents(platform, *before)


def visible(http: Http) -> int:
    """How many messages nobody has taken."""
    lanes = http("GET", "/v1/queues/default").json()["lanes"]
    return sum(lane["visible"] for lane in lanes)


_JUMPS = """
import os, time
_real, _jump = time.time, os.environ.get("JOBLANE_TEST_JUMP")
if _jump:
    time.time = lambda: _real() + float(open(_jump).read())
"""
"""Sets the clock of a process as its file says."""
