"""The trace of a real job: in its environment, messages, logs and audit trail, to the end."""

import json
import time
from pathlib import Path
from typing import Any

from joblane.aws.clients import Clients
from joblane.deployment.names import lane_name
from joblane.job.message import Message
from scripts.local.cloud import DEPLOYMENT, Cloud
from tests.e2e.conftest import Http, Run
from tests.support.deployed import submit, wait_for

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADERS = {
    "traceparent": f"00-{TRACE}-{CALLER}-01",
    "tracestate": "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
}


def message_of(clients: Clients, job_id: str) -> dict[str, str]:
    """The trace context of a job's message in the default lane, which stays there."""
    sqs = clients.make("sqs")
    url = sqs.get_queue_url(QueueName=lane_name(DEPLOYMENT, "default", "default"))["QueueUrl"]
    ends = time.monotonic() + 30
    while True:
        found = sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            VisibilityTimeout=0,
        )
        for message in found.get("Messages", []):
            if json.loads(message["Body"])["job_id"] == job_id:
                trace = Message.decode(message["Body"]).caller_trace
                return {} if trace is None else trace.fields
        assert time.monotonic() < ends, f"{job_id} has no message"


def lines_about(log: str, job_ids: set[str]) -> list[dict[str, Any]]:
    """An agent's log entries about these jobs."""
    lines = [json.loads(line) for line in Path(log).read_text().splitlines() if line[:1] == "{"]
    return [line for line in lines if line.get("job_id") in job_ids]


def test_a_trace_goes_with_its_job_through_retry_replay_and_resubmit(
    quiet: Cloud, http: Http, clients: Clients, joblane: Run
):
    body = {
        "command": ["sh", "-c", "echo $TRACEPARENT $TRACESTATE; exit 1"],
        "retry": {"max_attempts": 2, "backoff_s": [0]},
    }
    answer = http("POST", "/v1/jobs", json=body, headers=HEADERS)
    assert 202 == answer.status_code, answer.text
    job_id = answer.json()["id"]
    assert HEADERS == message_of(clients, job_id)

    log = quiet.start_agent("tracer", threads=1).log
    wait_for(http, job_id, "dead")
    assert 0 == joblane("dlq", "replay", job_id).returncode
    wait_for(http, job_id, "dead")
    again = http("POST", f"/v1/jobs/{job_id}/resubmit").json()["id"]
    wait_for(http, again, "dead")

    given = [
        entry["text"].split()
        for each in (job_id, again)
        for entry in http("GET", f"/v1/jobs/{each}/logs").json()["entries"]
    ]
    spans = [parent.split("-")[2] for parent, _ in given]
    assert [(f"00-{TRACE}-{span}-01", HEADERS["tracestate"]) for span in spans] == [
        (parent, state) for parent, state in given
    ]
    assert 6 == len({*spans} - {CALLER})

    told = lines_about(log, {job_id, again})
    assert {TRACE} == {line["trace_id"] for line in told}
    assert spans == [line["span_id"] for line in told if line["event"] == "attempt_ended"]

    shown = joblane("get", job_id).stdout.decode()
    assert HEADERS["traceparent"] in shown
    trail = http("GET", f"/v1/jobs/{job_id}/audit").json()["entries"]
    assert ["resubmit", "replay", "submit"] == [entry["action"] for entry in trail]
    assert {TRACE} == {entry["trace_id"] for entry in trail}
    assert f"00-{TRACE}-{spans[3]}-01" == http("GET", f"/v1/jobs/{again}").json()["traceparent"]


def test_a_job_without_a_caller_has_a_trace_of_its_own(quiet: Cloud, http: Http):
    job_id = submit(http, "sh", "-c", "echo $TRACEPARENT")
    job = http("GET", f"/v1/jobs/{job_id}").json()
    made = job["traceparent"].split("-")[1]
    log = quiet.start_agent("tracer", threads=1).log
    wait_for(http, job_id, "completed")
    (entry,) = http("GET", f"/v1/jobs/{job_id}/logs").json()["entries"]
    (record,) = http("GET", f"/v1/jobs/{job_id}/audit").json()["entries"]
    told = {line["trace_id"] for line in lines_about(log, {job_id})}
    assert [{made}, made, made] == [told, record["trace_id"], entry["text"].split("-")[1]]
