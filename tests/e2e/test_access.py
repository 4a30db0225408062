"""The deployed API refuses missing scopes and invalid requests, and names the field."""

import json

import pytest

from joblane.aws.clients import Clients
from joblane.deployment.names import descriptor_name, lane_name, table_name
from joblane.job.spec import MAX_BODY_BYTES
from scripts.local.cloud import DEPLOYMENT, Cloud
from tests.e2e.conftest import Http, Run
from tests.support.deployed import until


def test_health_needs_no_token(as_nobody: Http):
    assert "ok" == as_nobody("GET", "/v1/health").json()["status"]


def test_a_token_that_asked_for_less_than_its_role_has_less(cloud: Cloud):
    reader = Http(cloud.url, cloud.token(scopes=("jobs.read",)))
    assert 200 == reader("GET", "/v1/jobs").status_code
    assert 403 == reader("POST", "/v1/jobs", json={"command": ["true"]}).status_code
    assert 403 == reader("GET", "/v1/agents").status_code
    reader.close()


def test_another_tenants_job_is_in_no_list(http: Http, as_other: Http):
    job_id = http("POST", "/v1/jobs", json={"command": ["true"]}).json()["id"]
    assert job_id not in as_other("GET", "/v1/jobs").text


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ("{", "body"),
        ('{"command": []}', "command"),
        ('{"command": "ls"}', "command"),
        ('{"command": ["a\\u0000"]}', "command.0"),
        ('{"command": ["a"], "colour": 1}', "colour"),
        ('{"command": ["a"], "queue": "nowhere"}', "queue"),
    ],
)
def test_bad_input_is_named(http: Http, body: str, field: str):
    before = [job["id"] for job in http("GET", "/v1/jobs").json()["entries"]]
    answer = http("POST", "/v1/jobs", content=body)
    assert 400 == answer.status_code
    assert "application/problem+json" == answer.headers["Content-Type"]
    assert [field] == [error["field"] for error in answer.json()["errors"]]
    assert before == [job["id"] for job in http("GET", "/v1/jobs").json()["entries"]]


def test_a_body_over_the_limit_is_refused(http: Http):
    answer = http("POST", "/v1/jobs", content=json.dumps({"command": ["x" * MAX_BODY_BYTES]}))
    assert 413 == answer.status_code


@pytest.mark.parametrize("limit", ["0", "101"])
def test_a_limit_out_of_range_is_refused(http: Http, limit: str):
    assert 400 == http("GET", f"/v1/jobs?limit={limit}").status_code


def test_an_unknown_job_is_not_found_by_the_command_line_either(joblane: Run):
    done = joblane("get", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert done.returncode != 0
    assert b"no such job" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.usefixtures("agent")
def test_a_message_that_is_not_ours_is_put_aside_and_the_agent_lives_on(
    clients: Clients, joblane: Run
):
    sqs = clients.make("sqs")
    url = sqs.get_queue_url(QueueName=lane_name(DEPLOYMENT, "default", "default"))["QueueUrl"]
    sent = {"not json", '{"v": 1}', "[]"}
    for body in sorted(sent):
        sqs.send_message(QueueUrl=url, MessageBody=body)
    assert b"alive\n" == joblane("run", "--", "echo", "alive").stdout

    def reasons() -> list[str] | None:
        """Those of the letters, once all are kept; other tests leave some too."""
        kept = clients.make("dynamodb").scan(
            TableName=table_name(DEPLOYMENT, "jobs"),
            FilterExpression="begins_with(job_id, :letter)",
            ExpressionAttributeValues={":letter": {"S": "letter#"}},
        )
        letters = {item["body"]["S"]: item["reason"]["S"] for item in kept["Items"]}
        return [letters[body] for body in sent] if sent <= letters.keys() else None

    assert all("could not be read: " in reason for reason in until(reasons))


def test_ttl_is_on_for_every_table(clients: Clients):
    dynamodb = clients.make("dynamodb")
    tables = [t for t in dynamodb.list_tables()["TableNames"] if t.startswith(f"{DEPLOYMENT}-")]
    assert 9 == len(tables)
    for table in tables:
        ttl = dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
        assert ("ENABLED", "expires_at") == (ttl["TimeToLiveStatus"], ttl["AttributeName"])


def test_the_descriptor_tells_an_agent_all_it_needs(clients: Clients):
    answer = clients.make("ssm").get_parameter(Name=descriptor_name(DEPLOYMENT))
    assert len(answer["Parameter"]["Value"]) < 4096  # SSM's standard tier
