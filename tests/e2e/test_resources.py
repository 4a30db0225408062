"""An agent on which something runs out, or a part of AWS hangs: it says so, and goes on after."""

import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from joblane.aws.clients import Clients
from scripts.benches.agent import Weight, parts
from scripts.local.agent import start_agent, wait_until_listed
from scripts.local.cloud import DEPLOYMENT, Cloud
from scripts.local.processes import STATE, Process
from tests.e2e.conftest import Http
from tests.e2e.test_agent import wake
from tests.e2e.test_jobs import submit, wait_for
from tests.e2e.test_journal import wait_for_words
from tests.support import paced_agent
from tests.support.proxy import Proxy, proxy
from tests.support.scarcity import disk, fill

ROOM = 4
"""Outcomes that may wait where the journal is to be filled."""

PACE = ("1", "300", "60")
"""Of heartbeats, seconds: every tenth of the usual time."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a disk")


def outputs(http: Http, job_id: str) -> Counter[str]:
    """How often each line was written, over all attempts."""
    page = http("GET", f"/v1/jobs/{job_id}/logs", params={"limit": 1000}).json()
    text = "".join(record.get("text", "") for record in page["entries"])
    assert page["complete"]
    return Counter(text.split("\n"))


@pytest.fixture(name="quiet")
def _quiet(cloud: Cloud) -> Cloud:
    """The cloud without any agent."""
    for name in list(cloud.agents):
        cloud.stop_agent(name)
    return cloud


@pytest.fixture(name="road")
def _road(quiet: Cloud) -> Iterator[Proxy]:
    """A road to AWS on which a fault meets every request."""
    with proxy(quiet.endpoint, seed=1, share=1) as road:
        yield road


def start(cloud: Cloud, name: str, *, threads: int = 4, endpoint: str | None = None) -> Process:
    """Start an agent that beats often."""
    agent = start_agent(
        cloud.ministack,
        cloud.run_dir,
        deployment=DEPLOYMENT,
        name=name,
        threads=threads,
        isolation=None,
        endpoint=endpoint,
        program=(sys.executable, paced_agent.__file__, *PACE),
    )
    cloud.agents[name] = agent
    wait_until_listed(agent, name, cloud.url, cloud.token())
    return agent


def wait_for_trouble(http: Http, name: str, words: str) -> None:
    """Wait until an agent says in its heartbeat why it takes nothing; none: that it does."""
    ends = time.monotonic() + 25
    while True:
        entries = http("GET", "/v1/agents").json()["entries"]
        said = next((e["trouble"] or "" for e in entries if e["name"] == name), "?")
        if words in said and bool(words) == bool(said):
            return
        assert time.monotonic() < ends, f"{words!r} is not in {said!r}"
        time.sleep(0.2)


def assert_once(http: Http, job_id: str) -> dict[str, Any]:
    """A job ran once, to its end, and all of its output is there."""
    job = wait_for(http, job_id, "completed")
    assert (1, 1) == (job["epoch"], job["attempt"]), job["timeline"]
    return job


def test_an_idle_agent_is_small_and_one_without_descriptors_keeps_what_runs(
    quiet: Cloud, http: Http
):
    """One agent for both: to start and to end one takes longer than either."""
    agent = quiet.start_agent("poor")
    _is_small_when_idle(http, agent)
    _keeps_what_runs_without_descriptors(http, agent)
    quiet.stop_agent("poor")


def _is_small_when_idle(http: Http, agent: Process) -> None:
    """Not only at its start: after work, too."""
    for job_id in [submit(http, "echo", "x") for _ in range(8)]:
        assert_once(http, job_id)
    before = _both(agent)
    time.sleep(20)
    after = _both(agent)
    assert after.rss_mb <= 80
    assert (after.cpu_s - before.cpu_s) / 20 <= 0.01


def _both(agent: Process) -> Weight:
    found = parts(agent.pid)
    return found["agent"] + found["state service"]


@as_root
def test_a_full_disk_stops_new_jobs_and_loses_no_outcome(quiet: Cloud, http: Http):
    state = quiet.run_dir / STATE / DEPLOYMENT / "full"
    with disk(state, "size=100m,mode=0700"):
        agent = start(quiet, "full")
        running = [submit(http, "sh", "-c", "echo a; sleep 3; echo b") for _ in range(3)]
        for job_id in running:
            wait_for(http, job_id, "active")
        fill(state / "ballast")
        later = [submit(http, "true") for _ in range(3)]
        wait_for_words(agent.log, "takes no new jobs")
        for job_id in running:
            assert 0 == assert_once(http, job_id)["exit_code"]
        wait_for_trouble(http, "full", "MB left")
        assert {"pending"} == {wait_for(http, j, "pending", timeout_s=1)["state"] for j in later}
        (state / "ballast").unlink()
        for job_id in later:
            assert_once(http, job_id)
        wait_for_words(agent.log, "takes jobs again")
        quiet.stop_agent("full")
        assert [] == list((state / "jobs").iterdir())


def _keeps_what_runs_without_descriptors(http: Http, agent: Process) -> None:
    running = [submit(http, "sh", "-c", "echo a; sleep 3; echo b") for _ in range(3)]
    for job_id in running:
        wait_for(http, job_id, "active")
    before = resource.prlimit(agent.pid, resource.RLIMIT_NOFILE)
    assert before[0] == before[1]  # it has raised its own
    resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, (12, before[1]))
    later = [submit(http, "true") for _ in range(3)]
    wait_for_words(agent.log, "0 descriptors are left of 12")
    for job_id in running:
        assert_once(http, job_id)
        assert {"a": 1, "b": 1} == {k: v for k, v in outputs(http, job_id).items() if k}
    assert agent.is_alive()
    resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, before)
    for job_id in later:
        assert_once(http, job_id)


def test_a_part_of_aws_that_fails_holds_up_nothing_else_until_the_journal_is_full(
    quiet: Cloud, http: Http, road: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Room for a thousand outcomes would take a thousand jobs.
    (tmp_path / "sitecustomize.py").write_text(f"import ec2_agent.journal as j\nj.ROOM = {ROOM}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    agent = start(quiet, "patient", threads=8, endpoint=road.url)
    _logs_hang(http, road)
    _sqs_hangs(http, road)
    _dynamodb_hangs(http, road, agent)
    _fills_its_journal(http, road, agent)
    quiet.stop_agent("patient")


def _logs_hang(http: Http, road: Proxy) -> None:
    """Output arrives later, an outcome waits for it 10 s, and jobs without output not at all."""
    road.only, road.fault = "Logs_", "hang"
    chatty = submit(http, "echo", "hello")
    silent = [submit(http, "true") for _ in range(3)]
    for job_id in silent:
        wait_for(http, job_id, "completed", timeout_s=5)
    began = time.monotonic()
    wait_for(http, chatty, "completed", timeout_s=15)
    assert 5 < time.monotonic() - began
    road.fault = None
    ends = time.monotonic() + 20
    while not http("GET", f"/v1/jobs/{chatty}/logs").json()["entries"]:
        assert time.monotonic() < ends
        time.sleep(0.2)
    assert 1 == outputs(http, chatty)["hello"]


def _sqs_hangs(http: Http, road: Proxy) -> None:
    """Outcomes are in the table at once; the message is let go of when SQS answers."""
    running = [submit(http, "sleep", "1") for _ in range(2)]
    for job_id in running:
        wait_for(http, job_id, "active")
    road.only, road.fault = "AmazonSQS", "hang"
    for job_id in running:
        wait_for(http, job_id, "completed", timeout_s=5)
    road.fault = None


def _dynamodb_hangs(http: Http, road: Proxy, agent: Process) -> None:
    """Jobs run on and their output arrives; outcomes are settled when it answers."""
    job_id = submit(http, "sh", "-c", "sleep 1; echo seen; sleep 1")
    wait_for(http, job_id, "active")
    road.only, road.fault = "DynamoDB", "hang"
    ends = time.monotonic() + 10
    while not http("GET", f"/v1/jobs/{job_id}/logs").json()["entries"]:
        assert time.monotonic() < ends
        time.sleep(0.2)
    wait_for_words(agent.log, "outcomes wait for AWS")  # its time-outs are over: 5 s, three times
    assert "active" == state_of(http, job_id)
    road.fault = None
    assert_once(http, job_id)
    assert 1 == outputs(http, job_id)["seen"]


def _fills_its_journal(http: Http, road: Proxy, agent: Process) -> None:
    """No more jobs are taken than outcomes may wait, and none while as many do."""
    jobs = [submit(http, "sleep", "2") for _ in range(6)]
    ends = time.monotonic() + 20
    while sum(state_of(http, job_id) == "active" for job_id in jobs) < ROOM:
        assert time.monotonic() < ends
    road.only, road.fault = "DynamoDB_20120810.UpdateItem", "error"
    wait_for_words(agent.log, "takes no new jobs: the journal is full")
    wait_for_trouble(http, "patient", "outcome(s) wait since")
    wait_for_trouble(http, "patient", "takes no jobs: the journal is full")
    assert len(jobs) - ROOM == sum(state_of(http, job_id) == "pending" for job_id in jobs)
    road.fault = None
    for job_id in jobs:
        assert_once(http, job_id)


def state_of(http: Http, job_id: str) -> str:
    """A job's state now."""
    return str(http("GET", f"/v1/jobs/{job_id}").json()["state"])


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
        start(quiet, name, threads=2)
        return jump

    late = begin("late")
    jobs = [submit(http, "sleep", "7", restartable=n == 0) for n in range(2)]
    for job_id in jobs:
        wait_for(http, job_id, "active")
    early = begin("early")
    late.write_text("-3600")
    early.write_text("3600")
    time.sleep(1.5)  # each has beaten since
    for job_id in jobs:
        wake(clients, job_id)  # for `early`: the other has no slot left
    alive = {a["name"]: a["alive"] for a in http("GET", "/v1/agents").json()["entries"]}
    assert {"late": True, "early": True} == alive
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
