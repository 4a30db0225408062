"""Keys on the local AWS: what a full key answers, what operators see and clear, agents that die."""

import json
import random
import threading

import httpx
import pytest

from joblane.key.segments import key_hash
from joblane.state.lifecycle import ENDED
from scripts.benches.keys import AGENTS, KeyedJobs
from scripts.local.cloud import Cloud
from scripts.local.witness import witness
from tests.e2e.conftest import Http, Run
from tests.support.deployed import wait_for
from tests.support.threads import run_all

SUBMITTERS = 5
SEED = 4


def body(name: str, *command: str, **limits: object) -> dict[str, object]:
    return {"command": command or ["true"], "concurrency": {"key": ["e2e", name], **limits}}


def path(name: str) -> str:
    return f"/v1/keys/command/{key_hash(['e2e', name])}"


@pytest.mark.usefixtures("quiet")
def test_of_submissions_at_once_as_many_are_accepted_as_the_key_has_room_for(
    cloud: Cloud, http: Http
):
    gate, answers = threading.Barrier(SUBMITTERS), []
    token = cloud.token(machine="admin")

    def submit() -> None:
        own = Http(cloud.url, token)
        gate.wait()
        answers.append(own("POST", "/v1/jobs", json=body("race", max_active=2, max_queued=1)))
        own.close()

    threads = [threading.Thread(target=submit) for _ in range(SUBMITTERS)]
    run_all(threads)
    codes = sorted(answer.status_code for answer in answers)
    assert [202] * 3 + [409] * (SUBMITTERS - 3) == codes
    states = sorted(a.json()["state"] for a in answers if a.status_code == httpx.codes.ACCEPTED)
    assert ["pending", "pending", "waiting"] == states
    key = http("GET", path("race")).json()
    assert (2, 1) == (key["active"], key["queued"])
    slots = [holder["slot"] for holder in key["holders"]]
    assert slots == sorted(set(slots))


@pytest.mark.usefixtures("quiet")
def test_a_full_key_coalesces_or_replaces(http: Http):
    first = http("POST", "/v1/jobs", json=body("full", when_full="coalesce"))
    second = http("POST", "/v1/jobs", json=body("full", when_full="coalesce"))
    assert (202, 200) == (first.status_code, second.status_code)
    assert (first.json()["id"], "coalesced") == (second.json()["id"], second.json()["admission"])
    third = http("POST", "/v1/jobs", json=body("full", when_full="replace-oldest")).json()
    assert ("replaced", first.json()["id"]) == (third["admission"], third["replaced"])
    assert "skipped" == http("GET", f"/v1/jobs/{first.json()['id']}").json()["state"]
    assert third["slot"] > first.json()["slot"]
    key = http("GET", path("full")).json()
    assert [third["id"]] == [holder["id"] for holder in key["holders"]]


@pytest.mark.usefixtures("quiet")
def test_operators_list_show_and_clear_keys(http: Http, joblane: Run):
    jobs = [
        http("POST", "/v1/jobs", json=body("clear", max_queued=5)).json()["id"] for _ in range(3)
    ]
    listed = json.loads(joblane("keys", "ls", "command", "--json").stdout)
    assert ["e2e", "clear"] in [entry["segments"] for entry in listed["entries"]]
    shown = json.loads(joblane("keys", "get", "command", "e2e", "clear", "--json").stdout)
    assert jobs[1:] == [entry["id"] for entry in shown["queue"]]
    found = http("GET", "/v1/keys/command", params={"segments": '["e2e", "clear"]'}).json()
    assert [shown["id"]] == [entry["id"] for entry in found["entries"]]
    cleared = joblane("keys", "clear", "command", "e2e", "clear", "--reason", "not needed")
    assert b"2 jobs were cancelled\n" == cleared.stdout
    assert {"cancelled"} == {wait_for(http, job_id, *ENDED)["state"] for job_id in jobs[1:]}
    after = http("GET", path("clear")).json()
    assert ([jobs[0]], []) == ([entry["id"] for entry in after["holders"]], after["queue"])


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("clients", "quiet")
def test_agents_are_killed_and_two_jobs_of_a_key_never_run_at_once(cloud: Cloud):
    """The short form of `scripts/bench keys`."""
    headers = {"Authorization": f"Bearer {cloud.token(machine='admin')}"}
    with witness() as heard, httpx.Client(base_url=cloud.url, headers=headers, timeout=60) as http:
        jobs = KeyedJobs(cloud, random.Random(SEED), heard, http, keys=3)
        figures = jobs.run(18, 2, quiet=True)
    for name in AGENTS:
        cloud.stop_agent(name)
    print(figures)
    assert not figures.problems
    assert (18, 2) == (figures.jobs, figures.kills)
