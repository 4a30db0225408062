"""Calls that end-to-end tests make to a deployment: submit, wait, read output and agents."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import httpx

from joblane.aws.clients import Clients
from joblane.aws.queue.lanes import LaneQueue
from joblane.deployment.names import lane_name, table_name
from joblane.job.message import Message
from joblane.state.lifecycle import ENDED
from scripts.local.cloud import DEPLOYMENT, TENANT

Call = Callable[..., httpx.Response]
"""Sends a request to the API: method, path, options of httpx."""


def until(found: Callable[[], Any], timeout_s: float = 40) -> Any:
    """Ask until something is found, less often the longer that takes; returns it.

    A question takes as much CPU as what is waited for, which is late by it.
    """
    began = time.monotonic()
    while not (there := found()):
        waited_s = time.monotonic() - began
        assert waited_s < timeout_s, f"still {there!r}"
        time.sleep(min(0.5, 0.1 + waited_s / 5))
    return there


def wait_for(http: Call, job_id: str, *states: str, timeout_s: float = 30) -> dict[str, Any]:
    """Read a job until it is in one of these states."""
    return wait_for_job(http, job_id, lambda job: job["state"] in states, timeout_s)


def wait_for_job(
    http: Call, job_id: str, holds: Callable[[dict[str, Any]], bool], timeout_s: float = 30
) -> dict[str, Any]:
    """Read a job until something holds of it."""
    job: dict[str, Any] = {}

    def it_holds() -> bool:
        job.update(http("GET", f"/v1/jobs/{job_id}").json())
        return holds(job)

    try:
        until(it_holds, timeout_s)
    except AssertionError:
        raise AssertionError(f"still {job['state']}: {job['reason']}") from None
    return job


def submit(http: Call, *command: str, **fields: Any) -> str:
    """Submit a job; returns its id."""
    answer = http("POST", "/v1/jobs", json={"command": list(command), **fields})
    assert 202 == answer.status_code, answer.text
    job_id: str = answer.json()["id"]
    assert f"/v1/jobs/{job_id}" == answer.headers["Location"]
    return job_id


def make_due(clients: Clients, job_id: str) -> None:
    """Let the time come that a job's row waits for, though it lies hours ahead.

    A test that waits for a moment close by fails where the submission takes longer than that.
    """
    clients.make("dynamodb").update_item(
        TableName=table_name(DEPLOYMENT, "jobs"),
        Key={"job_id": {"S": job_id}, "sk": {"S": "JOB"}},
        UpdateExpression="SET wake_at = :now",
        ConditionExpression="wake_at > :now",
        ExpressionAttributeValues={":now": {"N": str(int(time.time() * 1000))}},
    )


def agents(http: Call, *names: str) -> dict[str, dict[str, Any]]:
    """The rows of these agents by name. Rows of other tests' agents stay for minutes."""
    page = http("GET", "/v1/agents", params={"limit": 100}).json()
    assert page["next"] is None
    return {row["name"]: row for row in page["entries"] if row["name"] in names}


def output(http: Call, job_id: str) -> dict[str, list[str]]:
    """Lines of an ended job by stream, over all attempts."""
    path = f"/v1/jobs/{job_id}/logs?limit=1000"
    page = until(lambda: (read := http("GET", path).json())["complete"] and read, 15)
    lines: dict[str, list[str]] = {"stdout": [], "stderr": [], "joblane": []}
    for entry in page["entries"]:
        lines[entry["stream"]] += entry["text"].splitlines()
    return lines


def starts(job: dict[str, Any]) -> list[str]:
    """The agents that started a job, in order."""
    return [step["agent"] for step in job["timeline"] if step["state"] == "active"]


def wait_for_words(log: str, words: str, timeout_s: float = 30) -> None:
    """Wait until an agent has logged these words."""
    ends = time.monotonic() + timeout_s
    while words not in Path(log).read_text():
        assert time.monotonic() < ends, f"{words!r} is not in: {Path(log).read_text()[-2000:]}"
        time.sleep(0.1)


def wait_until_started(run_dir: Path, job_ids: Iterable[str], timeout_s: float = 30) -> None:
    """Wait until each job has its shim: a job that is active is claimed, and may not run yet."""
    ends = time.monotonic() + timeout_s
    for job_id in job_ids:
        while not list(run_dir.glob(f"state/*/*/jobs/{job_id}.*/shim")):
            assert time.monotonic() < ends, f"{job_id} has no shim"
            time.sleep(0.05)


def send_again(clients: Clients, job_ids: Iterable[str], queue: str = "default") -> None:
    """Send the messages of jobs in the default lane once more, as a requeue does."""
    sqs = clients.make("sqs")
    url = sqs.get_queue_url(QueueName=lane_name(DEPLOYMENT, queue, "default"))["QueueUrl"]
    for job_id in job_ids:
        LaneQueue(sqs, url).send(Message(job_id=job_id, tenant=TENANT, lane=f"{queue}/default"))


def empty_lanes(clients: Clients) -> None:
    """Delete the messages of all lanes, hidden ones too: tests leave those of ended jobs."""
    sqs = clients.make("sqs")
    for url in sqs.list_queues(QueueNamePrefix=f"{DEPLOYMENT}-lane-")["QueueUrls"]:
        sqs.purge_queue(QueueUrl=url)


def errors_logged(logs: Any, since_s: float) -> list[str]:
    """Lines that functions logged as errors, each behind the name of its log group.

    `logs` is a client of CloudWatch Logs, `since_s` Unix time in seconds.
    """
    groups = logs.get_paginator("describe_log_groups").paginate().search("logGroups[].logGroupName")
    return [
        f"{group}: {event['message']}"
        for group in groups
        for page in logs.get_paginator("filter_log_events").paginate(
            logGroupName=group, startTime=int(since_s * 1000)
        )
        for event in page["events"]
        if '"ERROR"' in event["message"]
    ]


def unfinished(clients: Clients) -> dict[str, list[str]]:
    """Ids of the jobs that have not ended, by tenant; members of groups have it as `of`."""
    pages = clients.make("dynamodb").get_paginator("scan")
    ended = {f":{state}": {"S": str(state)} for state in ENDED}
    rows = pages.paginate(
        TableName=table_name(DEPLOYMENT, "jobs"),
        ProjectionExpression="job_id, tenant, #of",
        FilterExpression=f"attribute_exists(#state) AND NOT #state IN ({', '.join(ended)})",
        ExpressionAttributeNames={"#state": "state", "#of": "of"},
        ExpressionAttributeValues=ended,
    ).search("Items[]")
    found: dict[str, list[str]] = {}
    for row in rows:
        tenant = row["tenant"] if "tenant" in row else row["of"]
        found.setdefault(tenant["S"], []).append(row["job_id"]["S"])
    return found


def state_of(http: Call, job_id: str) -> str:
    """A job's state now."""
    return str(http("GET", f"/v1/jobs/{job_id}").json()["state"])


def assert_once(http: Call, job_id: str) -> dict[str, Any]:
    """Check that a job completes in its first attempt; returns the job."""
    job = wait_for(http, job_id, "completed")
    assert (1, 1) == (job["epoch"], job["attempt"]), job["timeline"]
    return job


def wait_for_trouble(http: Call, name: str, words: str) -> None:
    """Wait until an agent's heartbeat gives this reason for taking no jobs; "" means none."""

    def is_told() -> bool:
        trouble = http("GET", f"/v1/agents/{name}").json()["trouble"] or ""
        return words in trouble and bool(words) == bool(trouble)

    until(is_told, 25)
