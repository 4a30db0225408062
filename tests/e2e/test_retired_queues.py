"""A retired queue in the deployed functions: it takes no jobs, and what waits in it moves and runs.

The functions are told by their environment, which counts before their bundles: the stacks of these
tests are deployed once.
"""

import json
import time
from collections.abc import Iterator

import boto3
import pytest

from joblane.aws.clients import LONG_POLL, Clients
from joblane.aws.functions import CalledFunction
from joblane.deployment.names import QUEUE_MOVE, table_name
from joblane.formats.times import rfc3339
from scripts.local.cloud import DEPLOYMENT, Cloud
from tests.e2e.conftest import Http, Run
from tests.support.deployed import make_due, submit, wait_for

RETIRED = json.dumps({"bulk": "default"})
FUNCTIONS = ("submission", "admin", "status", "requeue")


def later() -> str:
    """A time at which no other test waits for the job."""
    return rfc3339(int((time.time() + 7200) * 1000))


@pytest.fixture(name="retire")
def _retire(cloud: Cloud) -> Iterator[None]:
    """Retire the queue bulk for a test."""
    functions = boto3.client("lambda", **cloud.ministack.root())
    before = {}
    for each in FUNCTIONS:
        name = f"{DEPLOYMENT}-{each}"
        found = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        before[name] = found
        wanted = {**found, "JOBLANE_RETIRED": RETIRED}
        functions.update_function_configuration(
            FunctionName=name, Environment={"Variables": wanted}
        )
    yield
    for name, found in before.items():
        functions.update_function_configuration(FunctionName=name, Environment={"Variables": found})
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
