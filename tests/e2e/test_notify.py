"""Notifications on the local AWS: signed webhooks, a topic, the bus; repeats and dead letters.

And the export of ended jobs of the tenant that has a feed.
"""

import gzip
import json
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from joblane.aws.clients import Clients
from joblane.client.webhooks import verify
from joblane.deployment.names import (
    bucket_name,
    exports_dead_name,
    exports_name,
    notify_dead_name,
    notify_name,
)
from scripts.local.cloud import DEPLOYMENT, Cloud
from tests.e2e.conftest import Http
from tests.support.deployed import submit, until, wait_for
from tests.support.http_server import Quiet, serving

SECRET = "0123456789abcdef0123456789abcdef"
TOPIC = "arn:aws:sns:us-east-1:000000000000:joblane-told"


class Receiver:
    """A receiver of webhooks, which answers with the next of `statuses`, then 204."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.requests: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((dict(self.headers), body))
                self.send_response(receiver.statuses.pop(0) if receiver.statuses else 204)
                self.end_headers()

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"

    def events_of(self, job_id: str) -> list[tuple[dict[str, str], dict[str, Any]]]:
        """Headers and event of each request about a job, all with a valid signature."""
        checked = [
            (headers, verify(body, headers["Joblane-Signature"], SECRET))
            for headers, body in list(self.requests)
        ]
        return [(headers, event) for headers, event in checked if event["job_id"] == job_id]


@pytest.fixture(name="receiver")
def _receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    with serving(receiver.server):
        yield receiver


@pytest.fixture(name="secret", scope="module", autouse=True)
def _secret(clients: Clients) -> None:
    """The secret that scripts/local/joblane.toml names."""
    clients.make("secretsmanager").create_secret(
        Name=f"{DEPLOYMENT}/demo/notify", SecretString=SECRET
    )


@pytest.fixture(name="inbox", scope="module")
def _inbox(clients: Clients) -> tuple[str, str]:
    """URL and ARN of a queue that the topic and the bus may send to."""
    sqs = clients.make("sqs")
    url = sqs.create_queue(QueueName="told")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": ["sns.amazonaws.com", "events.amazonaws.com"]},
        "Action": "sqs:SendMessage",
        "Resource": arn["QueueArn"],
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    return url, arn["QueueArn"]


def receive_message(clients: Clients, url: str, job_id: str) -> Any:
    """Take a message about a job from a queue; None if there is none."""
    sqs = clients.make("sqs")
    for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
        if job_id in message["Body"]:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            return json.loads(message["Body"])
    return None


@pytest.mark.usefixtures("agent")
def test_the_end_of_a_job_is_a_signed_webhook(http: Http, receiver: Receiver):
    job_id = submit(
        http,
        *("sh", "-c", "exit 65"),
        name="nightly",
        labels={"team": "web"},
        exit_codes={"permanent": [65]},
        notify={"url": receiver.url},
    )
    job = wait_for(http, job_id, "failed")
    ((headers, event),) = until(lambda: receiver.events_of(job_id))
    assert ("job.failed", "1", event["id"]) == (
        headers["Joblane-Event"],
        headers["Joblane-Attempt"],
        headers["Joblane-Delivery"],
    )
    same = ("tenant", "name", "labels", "queue", "state", "reason", "exit_code", "attempt")
    assert {name: job[name] for name in same} == {name: event[name] for name in same}
    assert (True, 65, "active") == (event["ended"], event["exit_code"], event["previous_state"])
    assert job["ended_at"] == event["at"]
    assert event["link"].endswith(f"/v1/jobs/{job_id}")


@pytest.mark.usefixtures("agent")
def test_only_the_states_that_were_asked_for(http: Http, receiver: Receiver):
    quiet = submit(http, "true", notify={"url": receiver.url, "on": ["failed", "dead"]})
    told = submit(http, "true", notify={"url": receiver.url, "on": ["completed"]})
    for job_id in (quiet, told):
        wait_for(http, job_id, "completed")
    until(lambda: receiver.events_of(told))
    assert [] == receiver.events_of(quiet)


@pytest.mark.usefixtures("agent")
def test_members_of_an_array_that_asked_for_them(http: Http, receiver: Receiver):
    notify = {"url": receiver.url, "members": True}
    group = submit(http, "true", array={"first": 7, "last": 8}, notify=notify)
    wait_for(http, group, "completed")
    until(lambda: receiver.events_of(group))
    members = [each["id"] for each in http("GET", f"/v1/groups/{group}").json()["entries"]]
    told = [until(partial(receiver.events_of, job_id))[0][1] for job_id in members]
    assert [(group, 7, "completed"), (group, 8, "completed")] == [
        (event["group"], event["index"], event["state"]) for event in told
    ]


def test_a_job_that_is_cancelled_before_it_ran(quiet: Cloud, http: Http, receiver: Receiver):
    job_id = submit(http, "true", notify={"url": receiver.url})
    assert not quiet.agents
    assert http("POST", f"/v1/jobs/{job_id}/cancel").is_success
    ((_, event),) = until(lambda: receiver.events_of(job_id))
    assert ("cancelled", "pending", None) == (
        event["state"],
        event["previous_state"],
        event["started_at"],
    )


@pytest.mark.usefixtures("agent")
def test_a_blocked_job_is_told_of_and_its_end_too(http: Http, receiver: Receiver):
    codes, notify = {"blocked": [75]}, {"url": receiver.url}
    job_id = submit(http, "sh", "-c", "exit 75", exit_codes=codes, notify=notify)
    wait_for(http, job_id, "blocked")
    ((_, event),) = until(lambda: receiver.events_of(job_id))
    assert ("blocked", False, "app:default") == (
        event["state"],
        event["ended"],
        event["condition"],
    )
    assert http("POST", f"/v1/jobs/{job_id}/cancel").is_success
    states = until(lambda: [e["state"] for _, e in receiver.events_of(job_id)][1:])
    assert ["cancelled"] == states


@pytest.mark.usefixtures("agent")
def test_of_a_group_only_the_group_is_told_of(http: Http, receiver: Receiver):
    group = submit(http, "true", target="_all", notify={"url": receiver.url})
    job = wait_for(http, group, "completed")
    ((_, event),) = until(lambda: receiver.events_of(group))
    assert (job["members"], "processing") == (event["members"], event["previous_state"])
    assert [event] == [e for _, e in receiver.events_of(group)]
    assert 1 == len(receiver.requests)


@pytest.mark.usefixtures("agent")
def test_a_receiver_that_is_down_gets_the_event_later(http: Http, receiver: Receiver):
    receiver.statuses = [503]
    job_id = submit(http, "true", notify={"url": receiver.url})
    wait_for(http, job_id, "completed")
    first, second = until(lambda: (found := receiver.events_of(job_id))[1:] and found)
    assert (("1", "2"), first[1]) == (
        (first[0]["Joblane-Attempt"], second[0]["Joblane-Attempt"]),
        second[1],
    )


@pytest.mark.usefixtures("agent")
def test_what_is_never_taken_is_a_dead_letter_that_can_be_sent_again(
    http: Http, receiver: Receiver, clients: Clients, cloud: Cloud
):
    receiver.statuses = [500, 302, 404]
    job_id = submit(http, "true", notify={"url": receiver.url})
    wait_for(http, job_id, "completed")
    sqs = clients.make("sqs")
    dead, queue = (
        sqs.get_queue_url(QueueName=name)["QueueUrl"]
        for name in (notify_dead_name(DEPLOYMENT), notify_name(DEPLOYMENT))
    )
    letter = until(lambda: receive_message(clients, dead, job_id))
    assert ["1", "2", "3"] == [h["Joblane-Attempt"] for h, _ in receiver.events_of(job_id)]
    assert receiver.url == letter["notify"]["url"]
    # As StartMessageMoveTask does, which the local AWS has not got.
    sqs.send_message(QueueUrl=queue, MessageBody=json.dumps(letter))
    *before, again = until(lambda: (found := receiver.events_of(job_id))[3:] and found)
    assert {again[1]["id"]} == {event["id"] for _, event in before}
    assert cloud.endpoint


@pytest.mark.usefixtures("agent")
def test_a_topic_gets_the_event(http: Http, clients: Clients, inbox: tuple[str, str]):
    sns, (url, arn) = clients.make("sns"), inbox
    assert TOPIC == sns.create_topic(Name=TOPIC.rpartition(":")[2])["TopicArn"]
    sns.subscribe(TopicArn=TOPIC, Protocol="sqs", Endpoint=arn)
    job_id = submit(http, "true", notify={"sns": TOPIC})
    wait_for(http, job_id, "completed")
    notice = until(lambda: receive_message(clients, url, job_id))
    assert "completed" == json.loads(notice["Message"])["state"]
    assert "job.completed" == notice["MessageAttributes"]["event"]["Value"]


@pytest.mark.usefixtures("agent")
def test_the_bus_gets_the_event(http: Http, clients: Clients, inbox: tuple[str, str]):
    events, (url, arn) = clients.make("events"), inbox
    pattern = {"source": ["joblane"], "detail": {"tenant": ["demo"], "state": ["dead"]}}
    events.put_rule(Name="told", EventPattern=json.dumps(pattern))
    events.put_targets(Rule="told", Targets=[{"Id": "1", "Arn": arn}])
    asked = {"retry": {"max_attempts": 1}, "notify": {"eventbridge": True}}
    fine = submit(http, "true", **asked)
    wait_for(http, fine, "completed")
    job_id = submit(http, "false", **asked)
    wait_for(http, job_id, "dead")
    event = until(lambda: receive_message(clients, url, job_id))
    assert ("joblane", "Joblane Job State Change", 1) == (
        event["source"],
        event["detail-type"],
        event["detail"]["exit_code"],
    )
    assert receive_message(clients, url, fine) is None


@pytest.mark.usefixtures("agent")
def test_a_job_is_followed_from_its_wait_to_its_last_attempt(http: Http, receiver: Receiver):
    key = {"key": ["told", "one at a time"], "max_queued": 1}
    first = submit(http, "sleep", "600", concurrency=key)
    wait_for(http, first, "active")
    on = ["waiting", "released", "started", "retry", "completed"]
    body = {
        "command": ["sh", "-c", "test $JOBLANE_ATTEMPT -gt 1"],
        "retry": {"max_attempts": 2, "backoff_s": [0]},
        "concurrency": key,
        "notify": {"url": receiver.url, "on": on},
    }
    answer = http("POST", "/v1/jobs", json=body)
    job = answer.json()
    assert "waiting" == job["state"]
    assert http("POST", f"/v1/jobs/{first}/cancel").is_success
    wait_for(http, job["id"], "completed")
    found = until(lambda: (told := receiver.events_of(job["id"]))[5:] and told)
    events = sorted((event for _, event in found), key=lambda event: int(event["sequence"]))
    assert [
        ("job.waiting", None, "waiting", 0),
        ("job.released", "waiting", "pending", 0),
        ("job.started", "pending", "active", 1),
        ("job.retry", "active", "retry", 1),
        ("job.started", "retry", "active", 2),
        ("job.completed", "active", "completed", 2),
    ] == [(e["event"], e["previous_state"], e["state"], e["epoch"]) for e in events]
    assert 6 == len({event["id"] for event in events})
    assert {answer.headers["X-Request-Id"]} == {event["request_id"] for event in events}
    trace_id = job["traceparent"].split("-")[1]
    assert {trace_id} == {event["trace_id"] for event in events}
    assert {trace_id} == {event["traceparent"].split("-")[1] for event in events}
    (entry,) = http("GET", f"/v1/jobs/{job['id']}/audit").json()["entries"]
    assert ("submit", events[0]["request_id"]) == (entry["action"], entry["request_id"])


@pytest.mark.usefixtures("agent")
def test_a_tenant_has_a_feed_of_all_its_jobs(
    as_other: Http, http: Http, clients: Clients, inbox: tuple[str, str]
):
    """By the pattern of docs/reference/events.md; jobs of another tenant are not in it."""
    events, (url, arn) = clients.make("events"), inbox
    pattern = {
        "source": ["joblane"],
        "detail-type": ["Joblane Job State Change"],
        "detail": {"tenant": ["other"], "labels": {"team": ["web"]}},
    }
    events.put_rule(Name="feed", EventPattern=json.dumps(pattern))
    events.put_targets(Rule="feed", Targets=[{"Id": "1", "Arn": arn}])
    labels = {"team": "web"}
    mine = submit(http, "true", labels=labels)
    job = submit(as_other, "true", labels=labels)
    group = submit(as_other, "true", labels=labels, target="_all")
    wait_for(as_other, job, "completed")
    size: int = wait_for(as_other, group, "completed")["members"]
    wait_for(http, mine, "completed")
    told: list[dict[str, Any]] = []

    def all_there() -> bool:
        answer = clients.make("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        for message in answer.get("Messages", []):
            clients.make("sqs").delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            told.append(json.loads(message["Body"])["detail"])
        return len({event["id"] for event in told}) >= 3 + 2 + 3 * size

    until(all_there)
    names: dict[str, set[str]] = {}
    for event in told:
        assert "other" == event["tenant"]
        names.setdefault(event["job_id"], set()).add(event["event"])
    simple = {"job.submitted", "job.started", "job.completed"}
    assert simple == names.pop(job)
    assert {"job.submitted", "job.completed"} == names.pop(group)
    assert [simple] * size == list(names.values())
    assert {group, None} == {event["group"] for event in told}


def test_what_is_not_allowed_is_refused_by_its_field(http: Http, as_other: Http):
    for ask, notify, field in (
        (http, {"url": "https://example.com:22/"}, "notify.url"),
        (http, {"url": "https://169.254.169.254/latest"}, "notify.url"),
        (http, {"url": "http://localhost/"}, "notify.url"),
        (http, {"sns": f"{TOPIC}-2"}, "notify.sns"),
        (as_other, {"eventbridge": True}, "notify"),
    ):
        answer = ask("POST", "/v1/jobs", json={"command": ["true"], "notify": notify})
        assert (400, field) == (answer.status_code, answer.json()["errors"][0]["field"])


def exported_lines(clients: Clients, job_id: str) -> list[Any]:
    """The lines of a job in the export."""
    s3, bucket = clients.make("s3"), bucket_name(DEPLOYMENT, "000000000000", "us-east-1")
    answer = s3.list_objects_v2(Bucket=bucket, Prefix="exports/tenant=other/")
    found = []
    for entry in answer.get("Contents", []):
        body = s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read()
        lines = [json.loads(line) for line in gzip.decompress(body).decode().splitlines()]
        found += [line for line in lines if line["id"] == job_id]
    return found


@pytest.mark.usefixtures("agent")
def test_an_ended_job_is_exported_and_its_deletion_too(as_other: Http, clients: Clients):
    # Longer than its row takes: the function reads it where it is.
    command = ["sh", "-c", f"exit 3 # {'x' * 500}"]
    job_id = submit(as_other, *command, name="nightly", exit_codes={"permanent": [3]})
    job = wait_for(as_other, job_id, "failed")
    (line,) = until(lambda: exported_lines(clients, job_id))
    same = ("name", "queue", "state", "reason", "exit_code", "attempt", "agent", "ended_at")
    assert {name: job[name] for name in same} == {name: line[name] for name in same}
    assert command == json.loads(line["submission"])["command"]
    assert job["usage"] == json.loads(line["usage"])
    assert 204 == as_other("DELETE", f"/v1/jobs/{job_id}").status_code
    until(lambda: len(exported_lines(clients, job_id)) == 2)
    deleted = next(each for each in exported_lines(clients, job_id) if each["record"] == "deleted")
    assert {"submission", "reason", "name"}.isdisjoint(deleted)


def test_what_cannot_be_exported_is_put_aside(clients: Clients):
    sqs = clients.make("sqs")
    queue, dead = (
        sqs.get_queue_url(QueueName=name(DEPLOYMENT))["QueueUrl"]
        for name in (exports_name, exports_dead_name)
    )
    row = {"job_id": {"S": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, "tenant": {"S": "other"}}
    broken = {"record": "ended", "sequence": 1, "row": row}
    sqs.send_message(QueueUrl=queue, MessageBody=json.dumps({"exported": [broken]}))
    (letter,) = until(lambda: sqs.receive_message(QueueUrl=dead).get("Messages"))
    assert [broken] == json.loads(letter["Body"])["exported"]
    sqs.delete_message(QueueUrl=dead, ReceiptHandle=letter["ReceiptHandle"])
