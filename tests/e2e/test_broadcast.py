"""A broadcast whose members end without their agents: an instance has ended, another is silent."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from joblane.aws.clients import LONG_POLL, Clients
from joblane.aws.functions import CalledFunction
from scripts.local.cloud import DEPLOYMENT, Cloud
from tests.e2e.conftest import Http
from tests.sandbox.running import STOPS, go_on, marker
from tests.support.deployed import submit, until, wait_for, wait_until_started

pytestmark = pytest.mark.usefixtures("quiet")  # whose heartbeats match no label here


@pytest.fixture(name="stopped")
def _stopped(cloud: Cloud) -> Iterator[Callable[[str], None]]:
    """Stops the process of an agent until the end of the test."""
    pids: list[int] = []

    def stop(name: str) -> None:
        pids.append(cloud.agents[name].pid)
        os.kill(pids[-1], signal.SIGSTOP)

    yield stop
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def call(clients: Clients, function: str, event: dict[str, Any]) -> None:
    """Call a function in place of its schedule, or of an event of AWS."""
    # A cold start takes many seconds on a busy host.
    client = clients.make("lambda", LONG_POLL)
    CalledFunction(lambda: client, f"{DEPLOYMENT}-{function}")(event)


def members(http: Http, group: str) -> dict[str, dict[str, Any]]:
    """The members of a group, by their agents."""
    page = http("GET", f"/v1/groups/{group}", params={"limit": 100}).json()
    return {entry["agent"]: entry for entry in page["entries"]}


def wait_for_member(http: Http, group: str, agent: str, *states: str) -> dict[str, Any]:
    """Wait until a member is in one of these states."""

    def found() -> dict[str, Any] | None:
        member = members(http, group)[agent]
        return member if member["state"] in states else None

    member: dict[str, Any] = until(found)
    return member


def wait_until_listed(clients: Clients, job_id: str) -> None:
    """Wait until a heartbeat says which agent runs a job."""
    ends = time.monotonic() + 15
    table = f"{DEPLOYMENT}-agents"
    while job_id not in str(clients.make("dynamodb").scan(TableName=table)["Items"]):
        assert time.monotonic() < ends
        time.sleep(0.2)


def test_members_of_an_ended_instance_and_of_a_silent_one_fail_and_the_third_completes(
    cloud: Cloud, http: Http, clients: Clients, stopped: Callable[[str], None]
):
    names = [f"i-0{what}" for what in ("steady", "doomed", "silent")]
    for name in names:
        cloud.start_agent(name, options=["--label", "role=trio"])
    stopped("i-0silent")
    mark = marker()
    script = f"{STOPS} echo done # {mark}"
    group = submit(http, "sh", "-c", script, target="role:trio", reply_timeout_s=5)
    found = members(http, group)
    wait_until_started(cloud.run_dir, [found[name]["id"] for name in names[:2]])
    time.sleep(5)  # the reply timeout
    call(clients, "requeue", {})
    why = wait_for_member(http, group, "i-0silent", "failed")["reason"]
    assert "agent i-0silent did not respond within 5 s" in why
    assert "processing" == http("GET", f"/v1/jobs/{group}").json()["state"]
    wait_until_listed(clients, found["i-0doomed"]["id"])
    cloud.kill_agent("i-0doomed", with_group=True)
    event = {"detail": {"instance-id": "i-0doomed", "state": "terminated"}}
    call(clients, "instance_end", event)
    why = wait_for_member(http, group, "i-0doomed", "failed")["reason"]
    assert "agent i-0doomed was lost while it ran the job, and only it may run it" in why
    go_on(mark)
    job = wait_for(http, group, "partial_failure")
    assert "1 of 3 completed; 2 failed" == job["reason"]
