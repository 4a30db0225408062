"""Facts of an agent, end to end."""

import os
import time

import pytest

from tests.e2e.conftest import Http
from tests.support.deployed import output, submit, wait_for

pytestmark = pytest.mark.usefixtures("agent")


def test_a_job_has_the_facts_of_the_agent_that_runs_it(http: Http):
    job_id = submit(
        http,
        *("sh", "-c", 'echo "$0"; uname -r; echo "$CPUS"', "@fact.kernel"),
        env={"CPUS": "@fact.cpus"},
    )
    job = wait_for(http, job_id, "completed")
    kernel = os.uname().release
    cpus = str(len(os.sched_getaffinity(0)))
    assert [kernel, kernel, cpus] == output(http, job_id)["stdout"]
    assert "@fact.kernel" == job["command"][-1], "as it was submitted"


def test_a_job_that_names_a_fact_that_is_not_there_fails_and_names_it(http: Http):
    job = wait_for(http, submit(http, "echo", "@fact.rack"), "failed")
    assert "this agent has no fact rack" in job["reason"]
    assert "permanent" == job["outcome"]


def test_a_secret_is_not_chosen_by_a_fact(http: Http):
    body = {"command": ["x"], "secret_env": {"TOKEN": "ssm:/joblane/demo/@fact.zone"}}
    answer = http("POST", "/v1/jobs", json=body)
    assert 400 == answer.status_code
    assert "secret_env.TOKEN" == answer.json()["errors"][0]["field"]


def test_the_api_shows_facts_to_the_platform(platform: Http):
    deadline = time.monotonic() + 15  # the agent may have just begun
    while not (facts := platform("GET", "/v1/agents/local").json()["facts"]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    kernel = os.uname().release
    assert (kernel, len(os.sched_getaffinity(0))) == (facts["kernel"], facts["cpus"])
    asked = {"limit": 100, "fact": ["kernel", "rack"]}
    page = platform("GET", "/v1/agents", params=asked).json()
    found = {agent["name"]: agent["facts"] for agent in page["entries"]}
    assert {"kernel": kernel} == found["local"]
