"""Edits of jobs that wait, on the deployed stacks: by which message, and where, a job starts."""

import json

from joblane.aws.clients import Clients
from joblane.aws.queue.lanes import LaneQueue
from joblane.deployment.names import lane_name
from scripts.local.cloud import DEPLOYMENT, Cloud
from tests.e2e.conftest import Http, Run
from tests.support.deployed import send_again, starts, submit, until, wait_for

ITEMS = 1_000_003
"""More than all other jobs of these tests have together."""


def items_waiting(http: Http, queue: str) -> int:
    jobs = http("GET", f"/v1/queues/{queue}").json()["jobs"]
    return 0 if jobs is None else int(jobs["waiting"]["items"])


def oldest(http: Http, queue: str) -> str:
    """The id of the job that waits longest in a queue; empty if none does."""
    jobs = http("GET", f"/v1/queues/{queue}").json()["jobs"]
    return str(jobs["oldest"]["job_id"]) if jobs and jobs["oldest"] else ""


def is_empty(clients: Clients, queue: str) -> bool:
    """Whether the default lane of a queue has no message, a hidden one included."""
    sqs = clients.make("sqs")
    url = sqs.get_queue_url(QueueName=lane_name(DEPLOYMENT, queue, "default"))["QueueUrl"]
    lengths = LaneQueue(sqs, url).lengths()
    return not (lengths.visible or lengths.in_flight or lengths.delayed)


def test_an_agent_of_the_queue_that_a_job_has_left_does_not_start_it(
    quiet: Cloud, http: Http, joblane: Run, clients: Clients
):
    """It receives the message of before first, twice, while no other agent is there."""
    job_id = submit(http, "sh", "-c", "echo once", queue="bulk", items=ITEMS)
    until(lambda: ITEMS <= items_waiting(http, "bulk"))
    assert job_id == oldest(http, "bulk")
    ran = joblane("edit", job_id[-8:], "--queue", "default", "--priority", "high")
    assert 0 == ran.returncode, ran.stderr
    told = ran.stdout.decode()
    assert told.startswith(f"{job_id} pending: edited by ")
    assert "queue bulk -> default, priority default -> high; waits in lane high of queue" in told

    # Its state has not changed, and the figures of both queues have.
    until(lambda: items_waiting(http, "bulk") < ITEMS <= items_waiting(http, "default"))
    assert b"waiting" in joblane("queues", "default").stdout
    assert (True, "") == ("" < oldest(http, "default") <= job_id, oldest(http, "bulk"))
    assert f"job {oldest(http, 'default')}".encode() in joblane("queues", "default").stdout
    commands = http("GET", "/v1/types?counts=true").json()["commands"]
    assert ITEMS <= commands["waiting"]["items"]
    assert commands["oldest"]["job_id"] <= job_id
    assert b"OLDEST" in joblane("types", "ls").stdout

    quiet.start_agent("old", options=("--queue", "bulk"))
    until(lambda: is_empty(clients, "bulk"))
    send_again(clients, [job_id], "bulk")
    until(lambda: is_empty(clients, "bulk"))
    job = http("GET", f"/v1/jobs/{job_id}").json()
    assert ("pending", 0, 1) == (job["state"], job["epoch"], job["edit"])

    quiet.start_agent("new", options=("--queue", "default"))
    job = wait_for(http, job_id, "completed")
    assert (["new"], 1, 1) == (starts(job), job["attempt"], job["epoch"])
    assert ("default", "high") == (job["queue"], job["priority"])
    until(lambda: job_id != oldest(http, "default"))
    refused = joblane("edit", job_id, "--priority", "low")
    assert (64, b"") == (refused.returncode, refused.stdout)
    assert b"a job that is completed cannot be edited" in refused.stderr


def test_a_job_that_waits_for_its_turn_runs_with_what_it_was_given_last(
    quiet: Cloud, http: Http, joblane: Run
):
    """An agent whose only slot is taken has the message already when the job is edited."""
    quiet.start_agent("single", threads=1)
    first = submit(http, "sleep", "2")
    wait_for(http, first, "active")
    once = {"max_attempts": 1}
    job_id = submit(http, "sleep", "60", labels={"team": "web", "a": "b"}, retry=once)
    ran = joblane("edit", job_id, "--timeout", "1s", "--no-label", "a", "--json")
    assert 0 == ran.returncode, ran.stderr
    assert {"team": "web"} == json.loads(ran.stdout)["labels"]
    job = wait_for(http, job_id, "dead")
    assert ("timed_out", 1, ["single"]) == (job["outcome"], job["edit"], starts(job))
