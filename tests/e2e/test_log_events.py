"""The output of real jobs as a stream of events, read before, during and after the job."""

import base64
import hashlib
import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from joblane.aws.clients import Clients
from joblane.deployment.names import bucket_name
from joblane.service.output.read import RETRY_MS, UNWAITED_MS
from scripts.local.cloud import DEPLOYMENT
from scripts.local.emulator import ACCOUNT, REGION
from tests.e2e.conftest import Http
from tests.support.deployed import state_of, submit, wait_for
from tests.support.events import EventSource, data_of

pytestmark = pytest.mark.usefixtures("agent")

WORK = r"""
echo "attempt $JOBLANE_ATTEMPT"
printf 'a\r\nb\rc\n'
printf '\377\376\n' >&2
sleep 0.7
echo later
test "$JOBLANE_ATTEMPT" -ge 2
"""


def start(http: Http, **fields: object) -> str:
    return submit(http, "sh", "-c", WORK, retry={"max_attempts": 2, "backoff_s": [0]}, **fields)


def connect(http: Http, job_id: str, source: EventSource) -> int:
    """Connect once, as an EventSource does; returns the status."""
    headers = {"Accept": "text/event-stream"}
    if source.last_event_id:
        headers["Last-Event-ID"] = source.last_event_id
    answer = http("GET", f"/v1/jobs/{job_id}/logs", headers=headers)
    if answer.status_code == 200:
        assert "text/event-stream" == answer.headers["Content-Type"]
        source.feed(answer.content)
    return answer.status_code


def listen(http: Http, job_id: str, source: EventSource, timeout_s: float = 40) -> EventSource:
    """Connect again and again until told to stop."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        status = connect(http, job_id, source)
        if status == 204:
            return source
        assert 200 == status
        time.sleep(source.retry_ms / 1000)
    raise AssertionError(f"no end came; the last events: {source.events[-3:]}")


def check(source: EventSource) -> None:
    """All of both attempts came, once and in order, and then the end."""
    *records, end = source.events
    found = [json.loads(event.data) for event in records]
    assert [(1, n) for n in range(1, len(found) // 2 + 1)] == [
        (record["epoch"], record["seq"]) for record in found[: len(found) // 2]
    ]
    for attempt in (1, 2):
        of_this = [record for record in found if record["attempt"] == attempt]
        out = b"".join(data_of(record) for record in of_this if record["stream"] == "stdout")
        err = b"".join(data_of(record) for record in of_this if record["stream"] == "stderr")
        assert f"attempt {attempt}\na\r\nb\rc\nlater\n".encode() == out
        assert b"\xff\xfe\n" == err
    assert ("end", "completed", 0) == (
        end.type,
        json.loads(end.data)["state"],
        json.loads(end.data)["exit_code"],
    )


@pytest.mark.parametrize("levels", [1, 6_000])
def test_a_nested_last_event_id_does_not_crash_the_function(http: Http, levels: int):
    job_id = submit(http, "true")
    nested = base64.urlsafe_b64encode(b"[" * levels).decode().rstrip("=")
    headers = {"Accept": "text/event-stream", "Last-Event-ID": nested}
    refused = http("GET", f"/v1/jobs/{job_id}/logs", headers=headers)
    assert (400, "Last-Event-ID") == (refused.status_code, refused.json()["errors"][0]["field"])


def test_a_reader_who_joins_before_the_job_is_told_all_of_it(http: Http):
    soon = (datetime.now(UTC) + timedelta(seconds=2)).isoformat().replace("+00:00", "Z")
    job_id = start(http, run_at=soon)
    check(listen(http, job_id, EventSource()))


def test_a_reader_who_joins_during_the_job_is_told_all_of_it(http: Http):
    job_id = start(http)
    wait_for(http, job_id, "active")
    check(listen(http, job_id, EventSource()))


def test_a_reader_who_joins_after_the_job_and_at_every_id_is_told_the_rest(http: Http):
    job_id = start(http)
    wait_for(http, job_id, "completed")
    source = EventSource()
    assert 200 == connect(http, job_id, source)
    check(source)
    assert 204 == connect(http, job_id, source)
    for n, event in enumerate(source.events[:-1]):
        rest = listen(http, job_id, EventSource(last_event_id=event.id))
        assert source.events[n + 1 :] == rest.events


def test_output_that_lies_in_s3_is_told_byte_for_byte(http: Http, clients: Clients):
    script = "head -c 300000 /dev/urandom > /tmp/x; cat /tmp/x; sha256sum < /tmp/x >&2"
    job_id = submit(http, "sh", "-c", script)
    *records, end = [json.loads(event.data) for event in listen(http, job_id, EventSource()).events]
    assert "completed" == end["state"]
    out = b"".join(data_of(record) for record in records if record["stream"] == "stdout")
    err = b"".join(data_of(record) for record in records if record["stream"] == "stderr")
    assert (300_000, hashlib.sha256(out).hexdigest()) == (len(out), err.decode().split()[0])
    bucket, prefix = bucket_name(DEPLOYMENT, ACCOUNT, REGION), f"output/demo/{job_id}/1/"
    assert clients.make("s3").list_objects_v2(Bucket=bucket, Prefix=prefix)["KeyCount"] > 0


def test_a_reader_of_a_silent_job_is_answered_before_its_end_and_comes_back(http: Http):
    job_id = submit(http, "sleep", "30")
    wait_for(http, job_id, "active")
    source = EventSource()
    assert 200 == connect(http, job_id, source)
    assert [] == source.events
    assert source.retry_ms in (RETRY_MS, UNWAITED_MS)  # by the window of its environment
    assert "active" == state_of(http, job_id)  # the answer did not wait for the job's end
    assert 202 == http("POST", f"/v1/jobs/{job_id}/cancel").status_code
    listen(http, job_id, source)
    assert ["end"] == [event.type for event in source.events]


def test_another_tenant_is_told_nothing(http: Http, as_other: Http):
    job_id = submit(http, "true")
    assert 404 == connect(as_other, job_id, EventSource())
