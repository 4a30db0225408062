"""Outcomes of jobs survive the agent, its state service and an outage of AWS."""

import os
import signal
import time
from pathlib import Path

from ec2_agent.state.dynamodb import DynamoBackend
from ec2_agent.state.records import BATCH, StateRecord, Verb, WriteResult, prepare
from joblane.aws.clients import Clients
from joblane.aws.fleet.records import AgentRecords
from joblane.deployment.names import table_name
from scripts.local.cloud import DEPLOYMENT, Cloud
from tests.e2e.conftest import Http
from tests.sandbox.running import STOPS, go_on, marker
from tests.support.deployed import (
    agents,
    submit,
    wait_for,
    wait_for_words,
    wait_until_started,
)
from tests.support.paced import start_paced
from tests.support.proxy import proxy


def children(pid: int, words: str) -> list[int]:
    """Processes that an agent has started, by a word of their command lines."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(") ")[2].split()[1])
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if parent == pid and words in command:
            found.append(int(path.name))
    return found


def test_an_outcome_that_aws_never_heard_of_is_delivered_by_the_agents_next_life(
    quiet: Cloud, http: Http
):
    with proxy(quiet.endpoint, seed=1, share=1) as road:
        mortal = quiet.start_agent("scribe", endpoint=road.url)
        marks = [marker() for _ in range(4)]
        jobs = [
            submit(http, "sh", "-c", f"{STOPS} # {mark}", restartable=n % 2 == 0)
            for n, mark in enumerate(marks)
        ]
        for job_id in jobs:
            wait_for(http, job_id, "active")
        wait_until_started(quiet.run_dir, jobs)
        road.fault = "refuse"
        for mark in marks:
            go_on(mark)
        wait_for_words(mortal.log, "outcomes wait for AWS")
        while list(quiet.run_dir.glob("state/*/scribe/jobs/*")):  # all are in the journal
            time.sleep(0.05)
        quiet.kill_agent("scribe", with_group=True)
    assert {"active"} == {wait_for(http, job_id, "active")["state"] for job_id in jobs}
    quiet.start_agent("scribe")
    for job_id in jobs:
        job = wait_for(http, job_id, "completed")
        assert (1, 1, 0) == (job["epoch"], job["attempt"], job["exit_code"])
    wait_for_words(quiet.agents["scribe"].log, "4 outcome(s) of an earlier process")
    wait_for_words(quiet.agents["scribe"].log, "no outcome waits")


def test_jobs_end_once_while_the_state_service_is_killed_again_and_again(
    quiet: Cloud, http: Http, platform: Http
):
    agent = quiet.start_agent("local", threads=4)
    jobs = [submit(http, "sleep", "0.2") for _ in range(12)]
    killed: set[int] = set()
    while len(killed) < 5:  # pytest's time limit ends what never comes
        for pid in set(children(agent.pid, "ec2_agent.state")) - killed:
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
        time.sleep(0.3)
    for job_id in jobs:
        assert 1 == wait_for(http, job_id, "completed")["epoch"]
    assert agents(platform, "local")["local"]["trouble"] is None


def test_an_agent_with_the_role_of_its_fleet_keeps_its_records_in_the_table(
    quiet: Cloud, http: Http, platform: Http, tmp_path: Path
):
    """It starts only when it may read them; its connections to the service are shown."""
    file = tmp_path / "agent.toml"
    file.write_text('[state]\nbackend = "dynamodb"\n', encoding="utf-8")
    start_paced(quiet, "clerk", options=("--config", str(file)))
    assert "--backend dynamodb" in " ".join(
        argument
        for pid in children(quiet.agents["clerk"].pid, "ec2_agent.state")
        for argument in Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")
    )
    assert 1 == wait_for(http, submit(http, "true"), "completed")["epoch"]
    agent = platform("GET", "/v1/agents/clerk").json()
    pool = agent["state_pool"]
    assert pool["acquisitions"] > 0
    assert 20 == pool["pool_size"]
    assert 0 <= pool["errors"] < pool["acquisitions"]  # a slow answer counts as one
    assert agent["trouble"] is None


def test_the_table_keeps_records_as_the_contract_says(cloud: Cloud, clients: Clients):
    """tests/unit/agent/state/test_backends.py has the whole contract, over another DynamoDB."""
    assert cloud.endpoint
    table = table_name(DEPLOYMENT, "agents")
    backend = DynamoBackend(AgentRecords(clients.make("dynamodb"), table, "nobody"))
    now = time.time()

    def write(verb: Verb, *records: StateRecord) -> list[WriteResult]:
        return backend.write([prepare(verb, record, now) for record in records], now)

    many = [StateRecord("k", f"{n:02d}", 1, "x") for n in range(BATCH)]
    assert [WriteResult.DONE] * BATCH == write(Verb.CREATE, *many)
    assert [WriteResult.DONE] * BATCH == write(Verb.CREATE, *many)
    assert [WriteResult.EXISTS] == write(Verb.CREATE, StateRecord("k", "00", 2, "y"))
    assert [WriteResult.DONE] == write(Verb.UPDATE, StateRecord("k", "00", 3, "z"))
    assert [WriteResult.STALE] == write(Verb.UPDATE, StateRecord("k", "00", 2, "y"))
    assert [WriteResult.ABSENT] == write(Verb.UPDATE, StateRecord("k", "none", 1, "y"))
    assert ["z"] == [record.body for record in backend.get("k", ["none", "00"], now)]
    page, after = backend.list("k", "03", 10, now)
    assert (["04", "13"], "13") == ([page[0].id, page[-1].id], after)
    assert [WriteResult.DONE] == write(Verb.DELETE, StateRecord("k", "04", 2, None))
    assert [WriteResult.STALE] == write(Verb.CREATE, StateRecord("k", "04", 1, "x"))
    assert "05" == backend.list("k", "03", 10, now)[0][0].id
