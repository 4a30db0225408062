"""Facts of an agent, end to end."""

import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from ec2_agent.sandbox import uids
from joblane.aws.clients import Clients
from joblane.aws.fleet.facts import FactStore
from joblane.deployment.names import PLATFORM, table_name
from scripts.local.cloud import DEPLOYMENT, Cloud
from tests.e2e.conftest import Http
from tests.support.deployed import output, submit, wait_for

COMMANDS = """
[facts.rack]
command = ["echo", " r7 "]

[facts.disk]
command = ["printf", '{"gb": 30, "nvme": {"count": 1}}']

[facts.secret]
command = ["sh", "-c", 'echo "$AWS_SECRET_ACCESS_KEY$AWS_SESSION_TOKEN:$(id -u)"']

[facts.broken]
command = ["sh", "-c", "echo no such table >&2; exit 3"]

[facts.slow]
command = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]
timeout_s = 12
"""


HOST_COMMANDS = """
[facts.view]
command = ["sh", "-c", 'echo "$(id -u) $(cat /etc/hostname)$AWS_SECRET_ACCESS_KEY"']
host = true

[facts.hung]
command = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]
host = true
timeout_s = 1
"""


def events(log: Path) -> list[dict[str, Any]]:
    """What an agent has logged."""
    lines = log.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


@pytest.mark.usefixtures("agent")
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


@pytest.mark.usefixtures("agent")
def test_a_job_that_names_a_fact_that_is_not_there_fails_and_names_it(http: Http):
    job = wait_for(http, submit(http, "echo", "@fact.rack"), "failed")
    assert "this agent has no fact rack" in job["reason"]
    assert "permanent" == job["outcome"]


def test_a_secret_is_not_chosen_by_a_fact(http: Http):
    body = {"command": ["x"], "secret_env": {"TOKEN": "ssm:/joblane/demo/@fact.zone"}}
    answer = http("POST", "/v1/jobs", json=body)
    assert 400 == answer.status_code
    assert "secret_env.TOKEN" == answer.json()["errors"][0]["field"]


@pytest.mark.usefixtures("agent")
def test_the_api_shows_facts_to_the_platform(platform: Http):
    deadline = time.monotonic() + 15  # the agent may have just begun
    while not (facts := platform("GET", "/v1/agents/local").json()["facts"]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    kernel = os.uname().release
    assert (kernel, len(os.sched_getaffinity(0))) == (facts["kernel"], facts["cpus"])
    busy = platform("GET", "/v1/agents/local").json()
    assert 0 <= busy["load"] < 10_000
    assert 0 < busy["free_memory_mb"] < facts["memory_mb"]
    assert os.uname().nodename == facts["fqdn"].split(".")[0]
    assert 0 < facts["uptime"] < time.clock_gettime(time.CLOCK_BOOTTIME)
    assert f"{facts['interface.primary']} {facts['ip.primary']}/" in facts["interfaces"]
    assert f" dev {facts['interface.primary']}" in facts["routes"]
    asked = {"limit": 100, "fact": ["kernel", "rack"]}
    page = platform("GET", "/v1/agents", params=asked).json()
    found = {agent["name"]: agent["facts"] for agent in page["entries"]}
    assert {"kernel": kernel} == found["local"]


@pytest.mark.usefixtures("agent")
def test_the_command_line_shows_facts_and_load_of_agents(
    cloud: Cloud, environment: dict[str, str], tmp_path: Path
):
    who = {**environment, "JOBLANE_TOKEN": cloud.token(PLATFORM), "HOME": str(tmp_path)}

    def shown(*words: str) -> str:
        return subprocess.run(
            ["joblane", *words], env=who, capture_output=True, check=True, timeout=60
        ).stdout.decode()

    heading, *rows = shown("agents", "ls", "--fact", "fqdn", "--fact", "ip.primary").splitlines()
    assert {"LOAD", "FQDN", "IP.PRIMARY"} <= {*heading.split()}
    assert " FREE MEMORY MB " in heading
    assert any(row.startswith("local ") for row in rows)
    top = shown("top", "--once")
    assert {"LOAD", "MEM FREE", "DISK FREE"} == {*re.findall("LOAD|MEM FREE|DISK FREE", top)}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs an agent that is root, as on instances")
def test_a_command_with_the_hosts_view_gives_facts_and_one_that_hangs_is_killed(
    quiet: Cloud, http: Http, tmp_path: Path
):
    config = tmp_path / "agent.toml"
    config.write_text(HOST_COMMANDS)
    log = quiet.start_agent("viewer", options=("--config", str(config))).log
    view = submit(http, "echo", "@fact.view", "@fact.ip.primary")
    hung = submit(http, "echo", "@fact.hung")
    wait_for(http, view, "completed")
    seen = f"{uids.FACTS} {Path('/etc/hostname').read_text().strip()}"
    (line,) = output(http, view)["stdout"]
    assert line.startswith(f"{seen} "), "no credential of the agent"
    assert "this agent has no fact hung" in wait_for(http, hung, "failed")["reason"]
    (failed,) = [each for each in events(Path(log)) if each["event"] == "fact_command_failed"]
    assert "it did not end within its timeout_s of 1" == failed["why"]
    quiet.stop_agent("viewer")


def test_commands_give_facts_and_no_job_waits_for_them(
    quiet: Cloud, http: Http, platform: Http, clients: Clients, tmp_path: Path
):
    config = tmp_path / "agent.toml"
    config.write_text(COMMANDS)
    log = quiet.start_agent("teller", options=("--config", str(config))).log
    rack = submit(http, "echo", "@fact.rack,@fact.disk.gb,@fact.disk.nvme.count", "@fact.secret")
    broken = submit(http, "echo", "@fact.broken")  # waits until all have had their first turn
    plain = submit(http, "echo", "@fact.kernel")
    wait_for(http, plain, "completed")
    assert "active" == http("GET", f"/v1/jobs/{broken}").json()["state"], "the slow one runs yet"
    wait_for(http, rack, "completed")
    assert ["r7,30,1 :1000"] == output(http, rack)["stdout"]
    job = wait_for(http, broken, "failed")
    assert "this agent has no fact broken" in job["reason"]

    deadline = time.monotonic() + 15
    while not (facts := platform("GET", "/v1/agents/teller").json()["facts"]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert ("r7", 30, 1) == (facts["rack"], facts["disk.gb"], facts["disk.nvme.count"])
    assert str(facts["facts_left_out"]).startswith("broken")
    failed = [line for line in events(Path(log)) if line["event"] == "fact_command_failed"]
    assert {
        "broken": "exit code 3: no such table",
        "slow": "it did not end within its timeout_s of 12",
    } == {line["name"]: line["why"] for line in failed}

    quiet.stop_agent("teller")
    store = FactStore(clients.make("dynamodb"), table_name(DEPLOYMENT, "agents"))
    assert {} == store.get("teller", 0), "deleted, not only expired"
