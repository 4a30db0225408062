"""Queues that go, in the deployed functions: one that is retired, and one that is gone.

The functions are told by their environment, which counts before their bundles: the stacks of these
tests are deployed once.
"""

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import boto3
import pytest

from joblane.aws.clients import LONG_POLL, Clients
from joblane.aws.functions import CalledFunction
from joblane.deployment.names import LANES, QUEUE_MOVE, lane_name, table_name
from joblane.formats.times import rfc3339
from scripts.local.cloud import DEPLOYMENT, Cloud
from tests.e2e.conftest import Http, Run
from tests.support.deployed import make_due, submit, wait_for

FUNCTIONS = ("submission", "admin", "status", "requeue")


def later() -> str:
    """A time at which no other test waits for the job."""
    return rfc3339(int((time.time() + 7200) * 1000))


@contextmanager
def told(cloud: Cloud, **variables: object) -> Iterator[None]:
    """Tell the functions something else than their bundles do, for a block."""
    functions = boto3.client("lambda", **cloud.ministack.root())
    names = [f"{DEPLOYMENT}-{each}" for each in FUNCTIONS]
    before = {
        name: functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        for name in names
    }
    wanted = {f"JOBLANE_{name}": json.dumps(value) for name, value in variables.items()}
    for name, found in before.items():
        functions.update_function_configuration(
            FunctionName=name, Environment={"Variables": {**found, **wanted}}
        )
    try:
        yield
    finally:
        for name, found in before.items():
            functions.update_function_configuration(
                FunctionName=name, Environment={"Variables": found}
            )


@pytest.fixture(name="retire")
def _retire(cloud: Cloud) -> Iterator[None]:
    """Retire the queue bulk for a test."""
    with told(cloud, RETIRED={"bulk": "default"}):
        yield
    boto3.client("dynamodb", **cloud.ministack.root()).delete_item(
        TableName=table_name(DEPLOYMENT, "settings"), Key={"queue": {"S": f"{QUEUE_MOVE}bulk"}}
    )


@pytest.fixture(name="waiting")
def _waiting(http: Http) -> str:
    """A job of the queue that waits for its time."""
    return submit(http, "echo", "moved", queue="bulk", run_at=later())


def requeue(clients: Clients) -> None:
    """Call the function in place of its schedule."""
    client = clients.make("lambda", LONG_POLL)
    CalledFunction(lambda: client, f"{DEPLOYMENT}-requeue")({})


@pytest.mark.usefixtures("agent")
def test_what_waits_moves_and_runs_and_nothing_new_comes(
    waiting: str, retire: None, http: Http, joblane: Run, clients: Clients
):
    refused = http("POST", "/v1/jobs", json={"command": ["true"], "queue": "bulk"})
    assert 400 == refused.status_code
    assert "is retired and takes no more jobs: its jobs move to queue default" in refused.text
    assert "it moves within minutes" in joblane("why", waiting).stdout.decode()
    requeue(clients)
    moved = wait_for(http, waiting, "scheduled")
    assert ("default", 1) == (moved["queue"], moved["edit"])
    shown = joblane("queues", "show", "bulk").stdout.decode()
    assert "takes no more jobs; those that wait move to queue default" in shown
    (queue,) = (e for e in http("GET", "/v1/queues").json()["entries"] if e["name"] == "bulk")
    assert queue["retired"]["move"]["moved"] >= 1
    make_due(clients, waiting)
    requeue(clients)
    ended = wait_for(http, waiting, "completed")
    assert ("default", 1) == (ended["queue"], ended["attempt"])


@pytest.fixture(name="left")
def _left(cloud: Cloud, http: Http) -> Iterator[str]:
    """A job of a queue that was in joblane.toml for a while, and is gone."""
    sqs = boto3.client("sqs", **cloud.ministack.root())
    names = [lane_name(DEPLOYMENT, "passing", lane) for lane in LANES]
    urls = [sqs.create_queue(QueueName=name)["QueueUrl"] for name in names]
    both: dict[str, list[str]] = {"default": [], "bulk": [], "passing": []}
    with told(cloud, QUEUES=both, THREADS=dict.fromkeys(both, 4)):
        job_id = submit(http, "true", queue="passing")
    for url in urls:
        sqs.delete_queue(QueueUrl=url)
    yield job_id
    http("DELETE", f"/v1/jobs/{job_id}")


def test_a_job_whose_queue_is_gone_holds_up_no_other_and_says_what_helps(
    left: str, cloud: Cloud, http: Http, joblane: Run
):
    listed = http("GET", "/v1/jobs", params={"queue": "passing"}).json()["entries"]
    assert [left] == [entry["id"] for entry in listed]
    assert "queue passing is gone" in listed[0]["reason"]
    why = joblane("why", left).stdout.decode()
    assert "queue passing is gone, joblane.toml has it no more: no agent gets it" in why
    assert f"joblane cancel {left}" in why
    with closing(Http(cloud.url, cloud.token(machine="operator"))) as operator:
        swept = operator("POST", "/v1/queues/_all/requeue")
    assert 200 == swept.status_code, swept.text
    assert left in {entry["id"] for entry in swept.json()["refused"]}
    moved = http("PATCH", f"/v1/jobs/{left}", json={"queue": "default", "priority": "low"})
    assert (200, "default") == (moved.status_code, moved.json()["queue"])
    assert "queue_gone" not in joblane("why", "--json", left).stdout.decode()
