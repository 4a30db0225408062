"""An agent short of disk or descriptors reports that, and recovers; an idle one is small."""

import contextlib
import os
import resource
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from ec2_agent.agent import EX_TEMPFAIL
from joblane.aws.clients import Clients
from scripts.benches.agent import parts
from scripts.local.cloud import DEPLOYMENT, Cloud
from scripts.local.processes import STATE, Process, spawn
from scripts.local.weight import Weight, below
from tests.e2e.conftest import Http
from tests.support.deployed import (
    assert_once,
    empty_lanes,
    output,
    submit,
    until,
    wait_for,
    wait_for_trouble,
    wait_for_words,
    wait_until_started,
)
from tests.support.paced import start_paced
from tests.support.proxy import Proxy, proxy
from tests.support.scarcity import disk, fill

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a disk")

IDLE_S = 12.0
"""For which an idle agent is watched; after 10 s without work it gives memory back."""
POLLED = 2 * 3 + 1
"""Queues of SQS that an agent polls: three lanes of each queue, and its inbox."""
OTHER_REQUESTS = 8
"""Two heartbeats, a look at the settings, a message of the last job."""
WAKE_UPS_A_POLL, WAKE_UPS_A_SECOND = 8, 6
"""A poll passes a thread on its way out and back; capacity is looked at every second."""


def test_an_idle_agent_is_small_and_one_without_descriptors_keeps_what_runs(
    quiet: Cloud, http: Http, clients: Clients, monkeypatch: pytest.MonkeyPatch
):
    """One agent for both: to start and to end one takes longer than either."""
    monkeypatch.setattr(quiet, "spawn", spawn)  # what it takes itself, not what it was forked from
    empty_lanes(clients)  # it would look at each message
    with proxy(quiet.endpoint, seed=1) as road:
        agent = quiet.start_agent("poor", endpoint=road.url)
        _is_small_when_idle(http, agent, road, quiet.ministack.longest_poll_s)
        _keeps_what_runs_without_descriptors(http, agent, quiet.run_dir)
        quiet.stop_agent("poor")


def _is_small_when_idle(http: Http, agent: Process, road: Proxy, longest_poll_s: int) -> None:
    """Not only at its start: after work, too.

    `scripts/bench agent` measures the CPU time. Here requests and wake-ups are counted, which a
    busy host does not change.
    """
    for job_id in [submit(http, "echo", "x") for _ in range(8)]:
        assert_once(http, job_id)
    before, asked, woken = _both(agent), road.asked.copy(), _wake_ups(agent)
    time.sleep(IDLE_S)
    after, woken = _both(agent), _wake_ups(agent) - woken
    asked = road.asked - asked
    spent = f"{after.cpu_s - before.cpu_s:.2f} s of CPU, {after.rss_mb:.1f} MB"
    print(f"{asked}, {woken} wake-ups, {spent}")
    assert after.rss_mb <= 70
    polls = asked.pop("ReceiveMessage")
    # The watch begins and ends within a poll.
    assert polls <= POLLED * (IDLE_S / longest_poll_s + 2)
    assert asked.total() <= OTHER_REQUESTS
    assert woken <= WAKE_UPS_A_POLL * polls + WAKE_UPS_A_SECOND * IDLE_S
    assert after.cpu_s - before.cpu_s < IDLE_S / 2  # of a loop that never waits


def _wake_ups(agent: Process) -> int:
    """How often the threads of the agent and of its state service have waited for something."""
    found = 0
    for pid in below(agent.pid):
        if pid == agent.pid or "ec2_agent.state" in _command(pid):
            for status in Path(f"/proc/{pid}/task").glob("*/status"):
                with contextlib.suppress(OSError):  # the thread of a call that has just ended
                    text = status.read_text()
                    found += int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return found


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):  # a shim or a sandbox that has just ended
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    return ""


def _both(agent: Process) -> Weight:
    found = parts(agent.pid)
    return found["agent"] + found["state service"]


@as_root
def test_a_full_disk_stops_new_jobs_and_loses_no_outcome(quiet: Cloud, http: Http, platform: Http):
    state = quiet.run_dir / STATE / DEPLOYMENT / "full"
    with disk(state, "size=400m,mode=0700"):
        agent = start_paced(quiet, "full")
        running = [submit(http, "sh", "-c", "echo a; sleep 3; echo b") for _ in range(3)]
        wait_until_started(quiet.run_dir, running)
        fill(state / "ballast")
        later = [submit(http, "true") for _ in range(3)]
        wait_for_words(agent.log, "takes no new jobs")
        for job_id in running:
            assert 0 == assert_once(http, job_id)["exit_code"]
        # Of its check before it takes jobs, or of the state service, whichever came last.
        wait_for_trouble(platform, "full", f"{state} has ")
        assert {"pending"} == {wait_for(http, j, "pending", timeout_s=1)["state"] for j in later}
        (state / "ballast").unlink()
        for job_id in later:
            assert_once(http, job_id)
        wait_for_words(agent.log, "takes jobs again")
        quiet.stop_agent("full")
        assert [] == list((state / "jobs").iterdir())


@as_root
def test_no_job_is_claimed_that_the_disk_has_no_room_for(quiet: Cloud, http: Http, platform: Http):
    """400 MB stay when 128 are left to the host: two jobs with 100 MB each, and their output."""
    state = quiet.run_dir / STATE / DEPLOYMENT / "narrow"
    own = {"resources": {"disk_mb": 100}}
    with disk(state, "size=528m,mode=0700"):
        start_paced(quiet, "narrow")
        fill_work = "head -c 90000000 /dev/zero > full; sleep 600"
        running = [submit(http, "sh", "-c", fill_work, **own) for _ in range(2)]
        wait_until_started(quiet.run_dir, running)
        waits = submit(http, "sh", "-c", "head -c 90000000 /dev/zero > full", **own)
        until(lambda: "waits for 161 MB of disk; agent narrow has" in _job(http, waits)["reason"])
        small = submit(http, "true")
        until(lambda: _why(http, waits)["code"] == "disk_full")
        assert "asks for 150 MB, and narrow has 0 of" in _why(http, waits)["text"]
        disk_now = _disk(platform)
        assert disk_now["free_mb"] < 0 < disk_now["most_mb"] <= 400

        assert EX_TEMPFAIL == quiet.kill_agent("narrow", signal.SIGHUP)
        start_paced(quiet, "narrow")  # which has to count what it adopts
        until(lambda: _why(http, waits)["code"] == "disk_full")
        assert "pending" == _job(http, small)["state"]

        http("POST", f"/v1/jobs/{running[0]}/cancel")
        for job_id in (waits, small):
            assert 1 == assert_once(http, job_id)["epoch"], "it was claimed once"
        http("POST", f"/v1/jobs/{running[1]}/cancel")
        wait_for(http, running[1], "cancelled")
        until(lambda: _disk(platform)["free_mb"] > 390)
        quiet.stop_agent("narrow")


def _why(http: Http, job_id: str) -> dict[str, Any]:
    """The first reason of a job."""
    first: dict[str, Any] = http("GET", f"/v1/jobs/{job_id}/why").json()["reasons"][0]
    return first


def _job(http: Http, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = http("GET", f"/v1/jobs/{job_id}").json()
    return found


def _disk(platform: Http) -> dict[str, int]:
    """What the agent says of its disk."""
    rows = platform("GET", "/v1/agents").json()["entries"]
    (found,) = (row["disk"] for row in rows if row["name"] == "narrow")
    disk: dict[str, int] = found
    return disk


def _keeps_what_runs_without_descriptors(http: Http, agent: Process, run_dir: Path) -> None:
    running = [submit(http, "sh", "-c", "echo a; sleep 3; echo b") for _ in range(3)]
    wait_until_started(run_dir, running)
    before = resource.prlimit(agent.pid, resource.RLIMIT_NOFILE)
    assert before[0] == before[1]  # it has raised its own
    resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, (12, before[1]))
    later = [submit(http, "true") for _ in range(3)]
    # Because it looked in time, or because a start failed and its job went back to the lane: it
    # receives and claims over connections that are open.
    wait_for_words(agent.log, '"no_capacity"')
    said = Path(agent.log).read_text()
    assert "0 descriptors are left of 12" in said or "Too many open files" in said
    for job_id in running:
        assert_once(http, job_id)
        assert ["a", "b"] == output(http, job_id)["stdout"]
    assert agent.is_alive()
    resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, before)
    for job_id in later:
        assert 1 == wait_for(http, job_id, "completed")["attempt"]
