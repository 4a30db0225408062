"""Admission by keys on the local AWS: transactions of two tables, and many submitters at once."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from joblane.aws.clients import Clients
from joblane.aws.key.keys import KeyStore
from joblane.deployment.names import table_name
from joblane.key.segments import KeyName
from joblane.key.state import KeyState
from scripts.local.cloud import DEPLOYMENT, TENANT, Cloud
from tests.e2e.conftest import Http
from tests.support.deployed import submit, wait_for

SUBMITTERS = 8
EACH = 4


def body(name: str, **limits: Any) -> dict[str, Any]:
    return {"command": ["true"], "concurrency": {"key": ["admission", name], **limits}}


def state(clients: Clients, name: str) -> KeyState:
    store = KeyStore(clients.make("dynamodb"), table_name(DEPLOYMENT, "keys"))
    return store.get(TENANT, KeyName.of("command", ["admission", name]), 0).state


@pytest.mark.usefixtures("quiet")
def test_submitters_at_once_fill_a_key_to_its_limits_and_no_further(http: Http, clients: Clients):
    limits = {"max_active": 3, "max_queued": 20}

    def one(_: int) -> list[tuple[int, str]]:
        answers = [http("POST", "/v1/jobs", json=body("many", **limits)) for _ in range(EACH)]
        return [(answer.status_code, answer.json().get("state", "")) for answer in answers]

    with ThreadPoolExecutor(SUBMITTERS) as pool:
        found = Counter(
            answer for answers in pool.map(one, range(SUBMITTERS)) for answer in answers
        )
    key = state(clients, "many")
    assert {(202, "pending"): 3, (202, "waiting"): 20, (409, ""): SUBMITTERS * EACH - 23} == found
    assert (3, 20) == (len(key.active), len(key.queued))


def test_a_full_key_refuses_answers_or_replaces(quiet: Cloud, http: Http):
    first = submit(http, "true", concurrency=body("full")["concurrency"])
    refused = http("POST", "/v1/jobs", json=body("full"))
    assert (409, "queue-depth") == (refused.status_code, refused.json()["reason"])
    there = http("POST", "/v1/jobs", json=body("full", when_full="coalesce"))
    assert (200, first) == (there.status_code, there.json()["id"])
    second = http("POST", "/v1/jobs", json=body("full", when_full="replace-oldest")).json()
    assert ("replaced", first) == (second["admission"], second["replaced"])
    assert "skipped" == http("GET", f"/v1/jobs/{first}").json()["state"]
    quiet.start_agent("local", threads=2)
    wait_for(http, second["id"], "completed")


@pytest.mark.usefixtures("agent")
def test_a_failed_job_is_admitted_again(http: Http):
    key = {"key": ["admission", "again"], "max_queued": 1}
    job_id = submit(http, "sh", "-c", "exit 65", concurrency=key, exit_codes={"permanent": [65]})
    failed = wait_for(http, job_id, "failed")
    assert 202 == http("POST", f"/v1/jobs/{job_id}/retry").status_code
    assert http("GET", f"/v1/jobs/{job_id}").json()["slot"] > failed["slot"]
    wait_for(http, job_id, "failed")
