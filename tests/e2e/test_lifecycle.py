"""Each state of the lifecycle, reached by a real job on the deployed stacks."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from ulid import ULID

from joblane.aws.clients import LONG_POLL, Clients
from joblane.aws.fleet.inboxes import KEPT_S
from joblane.aws.functions import CalledFunction
from joblane.aws.queue.counters import CounterStore
from joblane.deployment.names import DIGEST, inbox_name, lane_name, table_name, topic_name
from joblane.notify.digest import latest_day
from joblane.queue.activity import Series, Tally
from scripts.local.cloud import DEPLOYMENT, Cloud
from scripts.local.emulator import ACCOUNT, REGION
from scripts.smokes.faults import subscribed
from tests.e2e.conftest import Http, Run
from tests.support.deployed import submit, wait_for, wait_for_job
from tests.support.paced import start_paced

pytestmark = pytest.mark.usefixtures("agent")


def moment(seconds: float) -> str:
    """RFC 3339, so far from now."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def states(job: dict[str, Any]) -> list[str]:
    return [step["state"] for step in job["timeline"]]


def test_a_job_waits_for_its_run_at_and_then_runs(http: Http):
    began = time.monotonic()
    submit(http, "true")
    job_id = submit(http, "true", run_at=moment(2 + 10 * (time.monotonic() - began)))
    job = wait_for(http, job_id, "completed", timeout_s=60)
    assert ["scheduled", "pending", "active", "completed"] == states(job)
    assert job["started_at"] >= job["run_at"][:19]


def test_a_deadline_in_the_past_is_refused(http: Http):
    answer = http("POST", "/v1/jobs", json={"command": ["true"], "deadline": moment(-1)})
    assert 400 == answer.status_code
    assert ["deadline"] == [entry["field"] for entry in answer.json()["errors"]]


def test_a_scheduled_job_is_cancelled_at_once_and_only_once(http: Http):
    job_id = submit(http, "true", run_at=moment(3600))
    assert "cancelled" == http("POST", f"/v1/jobs/{job_id}/cancel").json()["state"]
    again = http("POST", f"/v1/jobs/{job_id}/cancel")
    assert (409, "application/problem+json") == (again.status_code, again.headers["Content-Type"])
    assert "cancelled" in again.json()["detail"]


def test_ls_lists_one_of_the_states_and_all_of_the_labels(http: Http, joblane: Run):
    run = str(ULID())
    both = submit(http, "true", labels={"run": run, "tier": "gold"}, run_at=moment(3600))
    one = submit(http, "true", labels={"run": run}, run_at=moment(3600))
    assert "cancelled" == http("POST", f"/v1/jobs/{both}/cancel").json()["state"]

    def listed(*options: str) -> list[str]:
        page = json.loads(joblane("ls", "--json", "--label", f"run={run}", *options).stdout)
        return [job["id"] for job in page["entries"]]

    assert [one, both] == listed("--state", "scheduled", "--state", "cancelled")
    assert [both] == listed("--state", "dead", "--state", "cancelled")
    assert [both] == listed("--label", "tier=gold")


def test_a_running_job_is_cancelled_with_all_that_it_started(http: Http):
    job_id = submit(http, "sh", "-c", "trap '' TERM; sleep 300 & sleep 300 & wait; sleep 300")
    wait_for(http, job_id, "active")
    assert 202 == http("POST", f"/v1/jobs/{job_id}/cancel").status_code
    job = wait_for(http, job_id, "cancelled", timeout_s=25)  # it uses up its grace of 10 s
    assert "cancelled" == job["outcome"]


def test_a_permanent_error_fails_at_once_and_is_tried_again_by_hand(http: Http):
    job_id = submit(http, "sh", "-c", "exit 65", exit_codes={"permanent": [65]})
    job = wait_for(http, job_id, "failed")
    assert (1, 65) == (job["attempt"], job["exit_code"])
    assert 202 == http("POST", f"/v1/jobs/{job_id}/retry").status_code
    job = wait_for_job(http, job_id, lambda job: states(job).count("failed") == 2)
    assert ["pending", "active", "failed", "pending", "active", "failed"] == states(job)


def test_a_dead_letter_is_listed_replayed_and_dismissed(http: Http, joblane: Run):
    job_id = submit(http, "false", retry={"max_attempts": 1})
    wait_for(http, job_id, "dead")
    assert job_id in [job["id"] for job in http("GET", "/v1/dlq?limit=100").json()["entries"]]
    assert 202 == http("POST", f"/v1/dlq/{job_id}/replay").status_code
    job = wait_for_job(http, job_id, lambda job: states(job).count("dead") == 2)
    assert ["pending", "active", "dead"] * 2 == states(job)
    done = joblane("dlq", "dismiss", "--json", job_id)
    assert (0, "dismissed") == (done.returncode, json.loads(done.stdout)["state"])
    assert job_id not in [job["id"] for job in http("GET", "/v1/dlq?limit=100").json()["entries"]]


def test_the_built_in_sleep_fails_first_and_then_succeeds(http: Http):
    body = {
        "type": "sleep",
        "params": {"ms": 10, "fail_first": 2},
        "retry": {"max_attempts": 3, "backoff_s": [0]},
    }
    job_id = http("POST", "/v1/jobs", json=body).json()["id"]
    job = wait_for(http, job_id, "completed")
    assert 3 == job["attempt"]


def test_a_deleted_job_is_gone_and_its_message_harmless(http: Http, joblane: Run):
    began = time.monotonic()
    submit(http, "true")
    soon_s = 1 + 10 * (time.monotonic() - began)  # it is deleted before
    job_id = submit(http, "true", run_at=moment(soon_s))
    assert 204 == http("DELETE", f"/v1/jobs/{job_id}").status_code
    assert 404 == http("GET", f"/v1/jobs/{job_id}").status_code
    time.sleep(soon_s + 1)  # its message comes, and finds nothing
    assert 0 == joblane("run", "--", "true").returncode


def test_one_bad_entry_does_not_sink_a_batch(http: Http):
    jobs = [{"command": ["true"]}, {"command": []}, {"command": ["true"], "queue": "bulk"}]
    answer = http("POST", "/v1/jobs/batch", json={"jobs": jobs})
    assert 200 == answer.status_code
    entries = answer.json()["entries"]
    accepted = [entry["job"]["id"] for entry in entries if entry.get("job")]
    assert 2 == len(accepted)
    for job_id in accepted:
        wait_for(http, job_id, "completed")


@pytest.fixture(name="told")
def _told(clients: Clients) -> Iterator[Callable[[str], dict[str, Any]]]:
    """An operator's queue, subscribed to the topic; waits for a notification with a text in it."""
    sqs = clients.make("sqs")
    topic = f"arn:aws:sns:{REGION}:{ACCOUNT}:{topic_name(DEPLOYMENT)}"

    def wait(part: str) -> dict[str, Any]:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            answer = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1)
            for message in answer.get("Messages", []):
                body: dict[str, Any] = json.loads(message["Body"])
                if part in body["Message"]:
                    return {"subject": body["Subject"], **json.loads(body["Message"])}
        raise AssertionError(f"no notification names {part}")

    with subscribed(clients.make, topic) as url:
        yield wait


def test_an_operator_is_told_of_a_message_that_is_not_ours(
    clients: Clients, told: Callable[[str], dict[str, Any]]
):
    sqs = clients.make("sqs")
    lane = sqs.get_queue_url(QueueName=lane_name(DEPLOYMENT, "default", "default"))["QueueUrl"]
    sqs.send_message(QueueUrl=lane, MessageBody="not-a-job-of-ours")
    notice = told("not-a-job-of-ours")
    assert "a message of another format" in notice["subject"]
    assert notice["source"] == lane_name(DEPLOYMENT, "default", "default")
    assert "letter#" in notice["kept"]


def test_an_operator_is_told_of_a_job_whose_receives_are_exhausted(
    cloud: Cloud, http: Http, clients: Clients, told: Callable[[str], dict[str, Any]]
):
    """SQS itself moves the message; the lane allows one receive for as long as this takes."""
    cloud.stop_agents()
    sqs = clients.make("sqs")
    lane = sqs.get_queue_url(QueueName=lane_name(DEPLOYMENT, "bulk", "low"))["QueueUrl"]
    usual = sqs.get_queue_attributes(QueueUrl=lane, AttributeNames=["RedrivePolicy"])["Attributes"]
    once = json.dumps({**json.loads(usual["RedrivePolicy"]), "maxReceiveCount": 1})
    sqs.set_queue_attributes(QueueUrl=lane, Attributes={"RedrivePolicy": once})
    try:
        job_id = submit(http, "true", queue="bulk", priority="low")
        for _ in range(2):
            sqs.receive_message(QueueUrl=lane, VisibilityTimeout=0, WaitTimeSeconds=0)
        notice = told(job_id)
    finally:
        sqs.set_queue_attributes(
            QueueUrl=lane, Attributes={"RedrivePolicy": usual["RedrivePolicy"]}
        )
    assert f"job {job_id} is dead" in notice["subject"]
    assert (job_id, "demo") == (notice["job_id"], notice["tenant"])
    assert "no agent finished with it" in notice["reason"]
    assert f"joblane dlq replay {job_id}" in notice["next"]
    job = http("GET", f"/v1/jobs/{job_id}").json()
    assert ("dead", notice["reason"]) == (job["state"], job["reason"])


def test_ec2_reports_the_end_of_an_instance_and_its_job_runs_elsewhere_in_seconds(
    cloud: Cloud, http: Http, clients: Clients
):
    cloud.stop_agents()
    start_paced(cloud, "i-0doomed", threads=1)
    job_id = submit(http, "sh", "-c", 'test "$JOBLANE_ATTEMPT" = 2 || sleep 600')
    wait_for(http, job_id, "active")
    agents = clients.make("dynamodb")
    deadline = time.monotonic() + 15  # until a heartbeat has told which job runs there
    while time.monotonic() < deadline:
        rows = agents.scan(TableName="joblane-agents")["Items"]
        if any(job_id in str(row.get("jobs")) for row in rows):
            break
        time.sleep(0.2)
    cloud.kill_agent("i-0doomed", with_group=True)
    cloud.start_agent("i-0next")
    event = {"detail": {"instance-id": "i-0doomed", "state": "terminated"}}
    assert call_function(clients, "instance_end", event) is None
    job = wait_for(http, job_id, "completed")  # its lease would last for minutes
    assert "taken over from i-0doomed" in str(job["timeline"])
    assert {"i-0next"} == inboxes_of(clients, "i-0doomed", "i-0next")


def call_function(clients: Clients, function: str, event: Mapping[str, Any]) -> object:
    """What a function answers to an event; it must not fail."""
    # This reads the answer: until then its connection is in no pool, and nobody closes it. After a
    # first attempt that timed out, the traceback keeps the answer until a garbage collection.
    call = CalledFunction(lambda: clients.make("lambda", LONG_POLL), f"{DEPLOYMENT}-{function}")
    answer: object = call(event)
    return answer


def inboxes_of(clients: Clients, *agents: str) -> set[str]:
    """Those of these agents that have an inbox."""
    answer = clients.make("sqs").list_queues(QueueNamePrefix=inbox_name(DEPLOYMENT, ""))
    names = {url.rpartition("/")[2] for url in answer.get("QueueUrls", [])}
    return {agent for agent in agents if inbox_name(DEPLOYMENT, agent) in names}


def test_the_watch_of_instances_finds_no_fleet_here(cloud: Cloud, clients: Clients):
    assert cloud.ministack.calls.exists()
    assert {} == call_function(clients, "instance_watch", {})


def test_the_scaler_leaves_a_fleet_without_a_group_alone(cloud: Cloud, clients: Clients):
    """It reads agents, settings and lanes with its own role, and finds no group."""
    assert cloud.ministack.calls.exists()
    assert {"NoGroup": 1} == call_function(clients, "scaler", {})


def test_the_daily_sweep_deletes_inboxes_without_an_agent(cloud: Cloud, clients: Clients):
    cloud.stop_agents()
    kept = {"sweep-gone": KEPT_S, "sweep-lane": 1_209_600}
    for name, kept_s in kept.items():
        clients.make("sqs").create_queue(
            QueueName=inbox_name(DEPLOYMENT, name),
            Attributes={"MessageRetentionPeriod": str(kept_s)},
        )
    cloud.start_agent("sweep-live")
    assert call_function(clients, "instance_end", {"task": "sweep-inboxes"}) is None
    assert {"sweep-live", "sweep-lane"} == inboxes_of(clients, "sweep-live", *kept)
    cloud.stop_agents()


def test_the_digest_of_a_day_is_sent_once(http: Http, clients: Clients):
    """What the counters say is of the day before its time; the jobs themselves are of now."""
    wait_for(http, submit(http, "false", retry={"max_attempts": 1}), "dead")
    submit(http, "true", run_at=moment(3600))
    ends = time.monotonic() + 30
    while time.monotonic() < ends:
        jobs = http("GET", "/v1/queues/default").json()["jobs"]
        if jobs is not None and jobs["waiting"]["jobs"]:
            break
        time.sleep(0.2)
    day = latest_day("07:00", int(time.time() * 1000))
    dynamodb = clients.make("dynamodb")
    counters = CounterStore(dynamodb, table_name(DEPLOYMENT, "counters"))
    counters.put(Series("demo", "default", day.end - 30), 1, Tally(failed=3, failed_items=3))
    settings = table_name(DEPLOYMENT, "settings")
    dynamodb.delete_item(TableName=settings, Key={"queue": {"S": DIGEST}})
    topic = f"arn:aws:sns:{REGION}:{ACCOUNT}:{topic_name(DEPLOYMENT)}"
    with subscribed(clients.make, topic) as url:
        for _ in range(2):
            answer = call_function(clients, "dead_letter", {"task": "send-digest"})
            assert {"batchItemFailures": []} == answer
        notes = receive(clients, url)
    (text,) = (note["Message"] for note in notes if " in 24 hours" in note.get("Subject", ""))
    assert "  demo  default\n" in text


def receive(clients: Clients, url: str) -> list[dict[str, Any]]:
    """All messages of a queue that nobody else reads."""
    found: list[dict[str, Any]] = []
    sqs = clients.make("sqs")
    while messages := sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=2
    ).get("Messages", []):
        found += [json.loads(message["Body"]) for message in messages]
        for message in messages:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return found
