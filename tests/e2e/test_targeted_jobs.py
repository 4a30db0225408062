"""A job with a target runs on that agent: before the jobs of lanes, once, whatever dies."""

import signal
from itertools import count

import pytest

from ec2_agent.agent import EX_TEMPFAIL
from joblane.aws.clients import Clients
from joblane.aws.queue.lanes import LaneQueue
from joblane.deployment.names import inbox_name
from joblane.job.message import Message
from scripts.local.cloud import DEPLOYMENT, TENANT, Cloud
from tests.e2e.conftest import Http
from tests.sandbox.running import STOPS, go_on, marker
from tests.support.deployed import (
    output,
    starts,
    submit,
    until,
    wait_for,
    wait_for_job,
    wait_until_started,
)
from tests.support.paced import start_paced

names = count()


pytestmark = pytest.mark.usefixtures("quiet")  # no other agent could take the jobs


@pytest.fixture(name="name")
def _name() -> str:
    """An agent whose inbox has no messages of other tests."""
    return f"aim-{next(names)}"


def inbox(clients: Clients, name: str) -> LaneQueue:
    """The agent's inbox."""
    sqs = clients.make("sqs")
    url = sqs.get_queue_url(QueueName=inbox_name(DEPLOYMENT, name))["QueueUrl"]
    return LaneQueue(sqs, url)


def wait_until_empty(clients: Clients, name: str) -> None:
    """Wait until the inbox has no message, visible or not."""
    box = inbox(clients, name)
    until(lambda: not ((lengths := box.lengths()).visible or lengths.in_flight))


def wait_until_held(http: Http, name: str, job_id: str) -> None:
    """Wait until a job says that it waits for a slot of the agent."""
    job = wait_for_job(http, job_id, lambda job: "waits for a slot" in job["reason"])
    assert f"agent {name} runs 1 of 1 jobs" in job["reason"]


def occupy(cloud: Cloud, http: Http) -> tuple[str, str]:
    """Run a job in the agent's only slot, until `go_on`; returns its id and marker."""
    mark = marker()
    job_id = submit(http, "sh", "-c", f"{STOPS} echo done # {mark}")
    wait_until_started(cloud.run_dir, [job_id])
    return job_id, mark


def test_it_takes_the_next_slot_before_jobs_of_the_lane_that_came_earlier(
    cloud: Cloud, clients: Clients, http: Http, name: str
):
    start_paced(cloud, name, threads=1)
    running, mark = occupy(cloud, http)
    by_lane = [submit(http, "true") for _ in range(5)]
    targeted = submit(http, "sh", "-c", "echo here", target=f"host:{name}")
    wait_until_held(http, name, targeted)
    go_on(mark)
    first = wait_for(http, targeted, "completed")
    assert ([name], ["here"]) == (starts(first), output(http, targeted)["stdout"])
    others = [wait_for(http, job_id, "completed") for job_id in (*by_lane,)]
    assert all(first["started_at"] < other["started_at"] for other in others)
    wait_for(http, running, "completed")
    wait_until_empty(clients, name)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM])
def test_one_that_waits_when_its_agent_ends_is_started_once_by_the_next_process(
    cloud: Cloud, http: Http, name: str, number: int
):
    """Within its reply_timeout_s of a minute: SQS hides what a killed process held for two."""
    start_paced(cloud, name, threads=1)
    running, mark = occupy(cloud, http)
    targeted = submit(http, "true", target=f"host:{name}")
    wait_until_held(http, name, targeted)
    if number == signal.SIGTERM:
        cloud.stop_agent(name)  # it gives the other job back
    else:
        code = cloud.kill_agent(name, number)
        assert EX_TEMPFAIL == code or number == signal.SIGKILL
    start_paced(cloud, name, threads=1)
    go_on(mark)
    job = wait_for(http, targeted, "completed")
    assert ([name], 1) == (starts(job), job["epoch"])
    wait_for(http, running, "completed")


def test_one_that_runs_when_its_agent_is_killed_is_adopted_though_it_is_delivered_again(
    cloud: Cloud, clients: Clients, http: Http, name: str
):
    start_paced(cloud, name)
    mark = marker()
    job_id = submit(
        http, "sh", "-c", f"{STOPS} echo done # {mark}", target=f"host:{name}", reply_timeout_s=600
    )
    wait_until_started(cloud.run_dir, [job_id])
    cloud.kill_agent(name)
    # SQS delivers it again while it runs: the job stays one.
    inbox(clients, name).send(Message(job_id=job_id, tenant=TENANT, lane="default/default"))
    start_paced(cloud, name)
    until(lambda: not inbox(clients, name).lengths().visible)
    go_on(mark)
    job = wait_for(http, job_id, "completed")
    assert ([name], 1, ["done"]) == (starts(job), job["epoch"], output(http, job_id)["stdout"])


def test_the_message_of_one_that_ends_while_no_agent_is_there_is_deleted_by_the_next(
    cloud: Cloud, clients: Clients, http: Http, name: str
):
    start_paced(cloud, name)
    mark = marker()
    job_id = submit(http, "sh", "-c", f"{STOPS} echo done # {mark}", target=f"host:{name}")
    wait_until_started(cloud.run_dir, [job_id])
    cloud.kill_agent(name)
    go_on(mark)
    until(lambda: list(cloud.run_dir.glob(f"state/*/{name}/jobs/*/exit")))
    start_paced(cloud, name)
    assert 1 == wait_for(http, job_id, "completed")["epoch"]
    wait_until_empty(clients, name)


def test_a_failed_attempt_is_tried_again_by_the_same_agent(
    cloud: Cloud, clients: Clients, http: Http, name: str
):
    cloud.start_agent(name)
    cloud.start_agent("bystander")
    script = 'test "$JOBLANE_ATTEMPT" = 2'
    retry = {"max_attempts": 2, "backoff_s": [1]}
    job_id = submit(http, "sh", "-c", script, target=f"host:{name}", retry=retry)
    assert [name, name] == starts(wait_for(http, job_id, "completed"))
    wait_until_empty(clients, name)


def test_one_whose_agent_drains_waits_for_that_agent_and_says_so(
    cloud: Cloud, http: Http, name: str
):
    """A bystander serves the queue, and may not run it."""
    cloud.start_agent("bystander")
    cloud.start_agent(name)
    mark = marker()
    job_id = submit(http, "sh", "-c", f"{STOPS} echo done # {mark}", target=f"host:{name}")
    wait_until_started(cloud.run_dir, [job_id])
    cloud.stop_agent(name)
    job = wait_for(http, job_id, "pending")
    only = f"waits for agent {name}, the only one that may run it"
    assert f"interrupted: its agent is draining; {only}" == job["reason"]
    cloud.start_agent(name)
    wait_for(http, job_id, "active")
    go_on(mark)
    job = wait_for(http, job_id, "completed")
    assert ([name, name], 2) == (starts(job), job["epoch"])
