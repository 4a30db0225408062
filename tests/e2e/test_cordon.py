"""A cordoned agent takes nothing new and stays, until it is uncordoned."""

import json
import signal
import time

import pytest

from ec2_agent.agent import EX_TEMPFAIL
from scripts.local.cloud import Cloud
from tests.e2e.conftest import Http
from tests.support.deployed import state_of, submit, until, wait_for, wait_until_started

NAME = "fence"
HEARTBEAT_S = 10
"""A change that waited for the next heartbeat would be seen later than that."""


pytestmark = pytest.mark.usefixtures("quiet")  # no other agent could take the jobs


def change(platform: Http, command: str) -> None:
    """Cordon or uncordon the agent."""
    answer = platform("POST", f"/v1/agents/{NAME}/{command}", json={"reason": "its disk"})
    assert 202 == answer.status_code, answer.text


def wait_for_state(platform: Http, *states: str) -> float:
    """Wait until the agent is shown in one of these states; returns the seconds that it took."""
    began = time.monotonic()
    until(lambda: platform("GET", f"/v1/agents/{NAME}").json()["state"] in states)
    return time.monotonic() - began


def test_running_jobs_end_others_wait_and_the_agent_goes_on_afterwards(
    cloud: Cloud, http: Http, platform: Http
):
    cloud.start_agent(NAME)
    wait_for_state(platform, "ready")
    running = submit(http, "sleep", "4")
    wait_until_started(cloud.run_dir, [running])
    change(platform, "cordon")
    assert wait_for_state(platform, "cordoning") < HEARTBEAT_S / 2
    waiting = [submit(http, "true") for _ in range(3)]
    change(platform, "cordon")  # again
    wait_for(http, running, "completed")
    wait_for_state(platform, "cordoned")
    assert ["pending"] * 3 == [state_of(http, job_id) for job_id in waiting]
    assert platform("GET", f"/v1/agents/{NAME}").json()["alive"]
    change(platform, "uncordon")
    assert wait_for_state(platform, "ready") < HEARTBEAT_S / 2
    for job_id in waiting:
        wait_for(http, job_id, "completed")


def test_an_agents_log_has_more_for_a_while_and_then_less_by_itself(
    cloud: Cloud, http: Http, platform: Http
):
    cloud.start_agent(NAME)
    log = cloud.run_dir / f"agent-{NAME}.log"
    wait_for(http, submit(http, "true"), "completed")
    assert '"level":"debug"' not in log.read_text()
    body = {"level": "debug", "for_s": 5, "reason": "what it does"}
    answer = platform("POST", f"/v1/agents/{NAME}/log-level", json=body)
    assert 202 == answer.status_code, answer.text
    until(lambda: "log_level_set" in log.read_text())
    wait_for(http, job_id := submit(http, "true"), "completed")
    until(lambda: "log_level_back" in log.read_text())
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    debug = {line["event"] for line in lines if line["level"] == "debug"}
    assert {"message_judged", "polled"} <= debug
    (judged,) = (
        line for line in lines if line["event"] == "message_judged" and line["job_id"] == job_id
    )
    assert "Start" == judged["verdict"]
    back = next(n for n, line in enumerate(lines) if line["event"] == "log_level_back")
    assert not [line for line in lines[back:] if line["level"] == "debug"]


def test_a_cordon_outlives_crashes_restarts_and_drains(cloud: Cloud, http: Http, platform: Http):
    cloud.start_agent(NAME)
    running = submit(http, "sleep", "6")
    wait_until_started(cloud.run_dir, [running])
    change(platform, "cordon")
    wait_for_state(platform, "cordoning")
    cloud.kill_agent(NAME)
    cloud.start_agent(NAME)
    wait_for_state(platform, "cordoning")  # it has adopted the job
    waiting = submit(http, "true")
    assert EX_TEMPFAIL == cloud.kill_agent(NAME, signal.SIGHUP)
    cloud.start_agent(NAME)
    assert 1 == wait_for(http, running, "completed")["epoch"]
    wait_for_state(platform, "cordoned")
    cloud.stop_agent(NAME)
    assert 404 == platform("GET", f"/v1/agents/{NAME}").status_code
    cloud.start_agent(NAME)
    wait_for_state(platform, "cordoned")
    assert "pending" == state_of(http, waiting)
    change(platform, "uncordon")
    assert 1 == wait_for(http, waiting, "completed")["epoch"]


def test_a_cordoned_agent_drains_and_says_so(cloud: Cloud, http: Http, platform: Http):
    cloud.start_agent(NAME)
    running = submit(http, "sleep", "4")
    wait_until_started(cloud.run_dir, [running])
    change(platform, "cordon")
    wait_for_state(platform, "cordoning")
    assert 202 == platform("POST", f"/v1/agents/{NAME}/drain").status_code
    assert wait_for_state(platform, "draining") < HEARTBEAT_S / 2
    change(platform, "uncordon")  # for the next process
    wait_for(http, running, "completed", "pending")
    cloud.agents.pop(NAME).wait(30)
    assert 409 == platform("POST", f"/v1/agents/{NAME}/cordon").status_code or (
        404 == platform("GET", f"/v1/agents/{NAME}").status_code
    )
    cloud.start_agent(NAME)
    wait_for_state(platform, "ready")
