"""Filters in the deployed function, with the library of its layer, and an agent that runs the jobs.

The other tests have the same stacks and no filters: so the function gets them by its environment,
which counts before its bundle.
"""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from scripts.local.cloud import DEPLOYMENT, Cloud
from tests.e2e.conftest import Http, Run
from tests.support.deployed import wait_for

FILTERS = [
    ["bulk", 20, "labels.size.startsWith('big')"],
    ["default", 10, "tenant == 'demo' && (memory_mb == 77 || timeout_s > 3600.0)"],
]
"""The first one fails for jobs without the label. The default queue of the tenant is `bulk`."""


@pytest.fixture(name="filtered", scope="module")
def _filtered(cloud: Cloud) -> Iterator[Cloud]:
    functions = boto3.client("lambda", **cloud.ministack.root())
    name = f"{DEPLOYMENT}-submission"
    before = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    own = {"demo": "bulk"}
    wanted = {
        **before,
        "JOBLANE_FILTERS": json.dumps(FILTERS),
        "JOBLANE_DEFAULT_QUEUES": json.dumps(own),
    }
    functions.update_function_configuration(FunctionName=name, Environment={"Variables": wanted})
    yield cloud
    functions.update_function_configuration(FunctionName=name, Environment={"Variables": before})


@pytest.mark.usefixtures("filtered", "agent")
def test_a_label_routes_a_job_to_the_lane_from_which_an_agent_takes_it(http: Http, joblane: Run):
    done = joblane("run", "--label", "size=big-1", "--json", "--", "echo", "hi")
    assert 0 == done.returncode, done.stderr
    ended: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])["ended"]
    assert ("bulk", "completed") == (ended["queue"], ended["state"])

    jobs: list[dict[str, Any]] = [
        {"command": ["true"], "labels": {"size": "big-2"}},
        {"command": ["true"], "labels": {"size": "small"}},
        {"command": ["true"], "timeout_s": 3601},
        {"command": ["true"], "labels": {"size": "big-3"}, "queue": "default"},
    ]
    batch = http("POST", "/v1/jobs/batch", json={"jobs": jobs})
    entries = batch.json()["entries"]
    assert ["bulk", "bulk", "default", "default"] == [e["job"]["queue"] for e in entries]
    for entry in entries:
        assert "completed" == wait_for(http, entry["job"]["id"], "completed")["state"]


@pytest.mark.usefixtures("filtered")
def test_an_explanation_names_the_reason_of_each_queue(joblane: Run):
    done = joblane("queues", "explain", "--json", "--memory-mb", "77", "--", "true")
    assert 0 == done.returncode, done.stderr
    answer = json.loads(done.stdout)
    assert "default" == answer["queue"]
    assert [("bulk", "error"), ("default", "takes")] == [
        (entry["queue"], entry["verdict"]) for entry in answer["entries"]
    ]
    assert 'key not found in map : "size"' in answer["entries"][0]["reason"]
