"""Agents that start, drain or are lost while jobs run, on the deployed stacks."""

import os
import shutil
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from joblane.aws.clients import Clients
from scripts.local.cloud import Cloud
from scripts.local.processes import end_shims
from tests.e2e.conftest import Http
from tests.sandbox.running import alive, marker
from tests.support.deployed import agents, send_again, submit, wait_for, wait_until_started


def test_an_agent_that_has_announced_itself_says_so_to_its_service_manager(
    quiet: Cloud, platform: Http, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    address = str(tmp_path / "n")
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(30)
        quiet.start_agent("notifying")
        assert b"READY=1" == manager.recv(64)
    assert agents(platform, "notifying")["notifying"]["alive"]


def test_a_leaving_agent_hands_its_job_back_and_another_runs_it_uncounted(
    quiet: Cloud, http: Http, platform: Http
):
    leaving = quiet.start_agent("leaving")
    mark = marker()
    script = f"trap 'exit 0' USR1; sleep {mark} & wait"
    job_id = submit(http, "sh", "-c", script, retry={"max_attempts": 1})
    wait_for(http, job_id, "active")
    assert 202 == platform("POST", "/v1/agents/leaving/drain").status_code
    assert 0 == leaving.wait(45)
    quiet.agents.pop("leaving")
    job = wait_for(http, job_id, "pending")
    assert 0 == job["attempt"]
    assert "interrupted" in job["reason"]
    assert {} == agents(platform, "leaving")
    quiet.start_agent("next")
    wait_for(http, job_id, "active")
    while len(shell_and_sleep := alive(mark)) < 2:
        time.sleep(0.01)
    for pid in shell_and_sleep:
        with suppress(ProcessLookupError):  # the sleep ends with its shell
            os.kill(pid, signal.SIGUSR1)
    job = wait_for(http, job_id, "completed")
    assert (1, 2, "next") == (job["attempt"], job["epoch"], job["agent"])


def test_a_job_of_a_host_that_was_lost_runs_again_when_its_agent_comes_back(
    quiet: Cloud, http: Http, clients: Clients
):
    # One slot: while it is taken no poll of its lane is open, and none can swallow the message.
    quiet.start_agent("mortal", threads=1)
    job_id = submit(http, "sh", "-c", 'test "$JOBLANE_ATTEMPT" = 2 || sleep 600')
    wait_for(http, job_id, "active")
    quiet.kill_agent("mortal", with_group=True)
    end_shims(quiet.run_dir, "mortal")
    for folder in quiet.run_dir.glob("state/*/mortal"):
        end = time.monotonic() + 5
        while (folder / "state.sock").exists() and time.monotonic() < end:
            time.sleep(0.01)  # the state service ends after its agent, and takes its socket along
        shutil.rmtree(folder)
    quiet.start_agent("mortal")
    send_again(clients, [job_id])  # SQS would show the first message again after two minutes
    job = wait_for(http, job_id, "completed")
    assert (2, 2) == (job["epoch"], job["attempt"])
    assert "taken over from mortal" in str(job["timeline"])


def test_what_an_agent_keeps_is_read_by_no_other_user(quiet: Cloud, http: Http):
    """Started by hand, with the usual umask: results are in its database, output in its logs."""
    quiet.start_agent("discreet")
    fields = {"outputs": ["out"], "stdin": "standard input"}
    ended = submit(http, "sh", "-c", """echo hi > out; echo '{"result": 1}' >&3""", **fields)
    wait_for(http, ended, "completed")
    running = submit(http, "sleep", "600")
    wait_until_started(quiet.run_dir, [running])
    (folder,) = quiet.run_dir.glob("state/*/discreet")
    assert 0o700 == folder.stat().st_mode & 0o777
    seen, open_to_others = set(), set()
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # it is removed meanwhile
            about = path.lstat()
            seen.add(path.name)
            if about.st_mode & 0o077 and about.st_uid == os.geteuid():
                open_to_others.add(str(path.relative_to(folder)))
    assert {"state.db", "state.log", "state.db-wal", "shim", "log"} <= seen
    assert set() == open_to_others
    assert 202 == http("POST", f"/v1/jobs/{running}/cancel").status_code


def test_high_priority_goes_first(quiet: Cloud, http: Http):
    first = [submit(http, "true") for _ in range(5)]
    urgent = submit(http, "true", priority="high")
    quiet.start_agent("single", threads=1)
    jobs = {i: wait_for(http, i, "completed") for i in (*first, urgent)}
    assert urgent == min(jobs, key=lambda i: jobs[i]["started_at"])
