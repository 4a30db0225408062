"""Values of secrets are in the job's environment, and nowhere else."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import boto3
import httpx
import pytest
from ulid import ULID

from joblane.aws.clients import Clients
from joblane.aws.job.output_store import object_key
from joblane.deployment.names import bucket_name, table_name
from joblane.job.chunk import decode_chunk
from scripts.local.cloud import Cloud
from scripts.local.emulator import ACCOUNT, REGION
from tests.e2e.conftest import Http, Run
from tests.sandbox.running import STOPS, go_on, marker
from tests.support.deployed import submit, until, wait_for

pytestmark = pytest.mark.usefixtures("agent")

VALUES = ("zq-parameter-7f3a9c", "zq-password-51be20")
LENGTHS = f"{len(VALUES[0])} {len(VALUES[1])}\n"
ONCE = {"max_attempts": 1}
SECRET_ENV = {
    "TOKEN": "ssm:/joblane/demo/token",
    "PASSWORD": "secretsmanager:joblane/demo/db#password",
}


@pytest.fixture(name="secrets", scope="module", autouse=True)
def _secrets(clients: Clients) -> None:
    clients.make("ssm").put_parameter(
        Name="/joblane/demo/token", Value=VALUES[0], Type="SecureString"
    )
    clients.make("secretsmanager").create_secret(
        Name="joblane/demo/db", SecretString=json.dumps({"password": VALUES[1]})
    )


def tables(clients: Clients) -> Iterator[tuple[str, str]]:
    """Every item of every table."""
    dynamodb = clients.make("dynamodb")
    for table in dynamodb.list_tables()["TableNames"]:
        for page in dynamodb.get_paginator("scan").paginate(TableName=table):
            for item in page["Items"]:
                yield f"table {table}", str(item)


def chunks(clients: Clients) -> Iterator[tuple[str, str]]:
    """The output of every job, by its stream."""
    dynamodb, s3 = clients.make("dynamodb"), clients.make("s3")
    for page in dynamodb.get_paginator("scan").paginate(TableName=table_name("joblane", "output")):
        for row in page["Items"]:
            stream, first, last = row["stream"]["S"], int(row["seq"]["N"]), int(row["last"]["N"])
            if "data" in row:
                data = row["data"]["B"]
            else:
                key = object_key(stream, first, last)
                bucket = bucket_name("joblane", ACCOUNT, REGION)
                data = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
            yield f"output {stream}", str([r.data for r in decode_chunk(data, first, last)])


def lines(cloud: Cloud) -> Iterator[tuple[str, str]]:
    """Every line of every log group: the logs of functions."""
    logs = boto3.client("logs", **cloud.ministack.root())
    for group in logs.describe_log_groups()["logGroups"]:
        name = group["logGroupName"]
        for page in logs.get_paginator("filter_log_events").paginate(logGroupName=name):
            for event in page["events"]:
                yield f"{name}:{event['logStreamName']}", event["message"]


def in_files(run_dir: Path) -> set[Path]:
    """Files of this run with a value: the agent's log and state, the functions' code, outputs."""
    values = [value.encode() for value in VALUES]
    found = set()
    for folder, _, names in os.walk(run_dir):  # the directory of a job goes once it has ended
        for path in (Path(folder, name) for name in names):
            with suppress(FileNotFoundError):
                content = path.read_bytes() if path.is_file() else b""
                if any(value in content for value in values):
                    found.add(path)
    return found


def processes() -> Iterator[tuple[str, str]]:
    """The arguments and the environment of every process that we may look at."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words, environment = ((folder / name).read_bytes() for name in ("cmdline", "environ"))
        except OSError:
            continue
        line = words.replace(b"\0", b" ").decode("utf-8", "replace")
        yield line, f"{line} {environment.decode('utf-8', 'replace')}"


def found_in(places: Iterator[tuple[str, str]]) -> set[str]:
    return {place for place, text in places if any(value in text for value in VALUES)}


def answers(http: Http, platform: Http, job_id: str) -> Iterator[tuple[str, str]]:
    """What the API says, of this job and around it."""
    yield "/v1/agents", platform("GET", "/v1/agents").text
    paths = (
        f"/v1/jobs/{job_id}",
        f"/v1/jobs/{job_id}/logs",
        "/v1/jobs?limit=100",
        "/v1/dlq?limit=100",
        "/v1/queues",
    )
    for path in paths:
        yield path, http("GET", path).text
    yield "cancel", http("POST", f"/v1/jobs/{job_id}/cancel").text
    yield "retry", http("POST", f"/v1/jobs/{job_id}/retry").text


def test_values_are_found_nowhere_but_in_the_job(
    cloud: Cloud, clients: Clients, http: Http, platform: Http
):
    mark = marker()
    script = f"echo ${{#TOKEN}} ${{#PASSWORD}}; {STOPS} # {mark}"
    job_id = submit(http, "sh", "-c", script, secret_env=SECRET_ENV)
    wait_for(http, job_id, "active")
    entries = until(lambda: http("GET", f"/v1/jobs/{job_id}/logs").json()["entries"])
    assert LENGTHS == "".join(entry["text"] for entry in entries)
    if os.geteuid() == 0:  # only root sees the environment of others
        assert {f"sh -c {script} "} == found_in(processes())
    go_on(mark)
    wait_for(http, job_id, "completed")
    peek = f"{cloud.endpoint}/_ministack/sqs/messages"
    messages = httpx.get(peek, headers=cloud.ministack.headers()).raise_for_status().text
    everywhere = [
        *tables(clients),
        *chunks(clients),
        *lines(cloud),
        *answers(http, platform, job_id),
        ("messages", messages),
    ]
    assert len(everywhere) > 20
    assert set() == found_in(iter(everywhere))
    assert set() == in_files(cloud.run_dir)
    assert job_id in str(everywhere)


def test_a_job_that_prints_and_reports_its_secrets_shows_stars(
    cloud: Cloud, clients: Clients, http: Http, platform: Http
):
    script = """
        echo "token $TOKEN"; echo "password $PASSWORD" >&2
        say() { echo "$1" >&3; read answer <&3; }
        say '{"result": {"as": "'"$TOKEN"'"}}'; say '{"error": "no login with '"$PASSWORD"'"}'
        exit 1
    """
    job_id = submit(http, "sh", "-c", script, secret_env=SECRET_ENV, retry=ONCE)
    job = wait_for(http, job_id, "dead")
    assert "no login with ***" in job["reason"]
    entries = http("GET", f"/v1/jobs/{job_id}/logs").json()["entries"]
    assert ["token ***\n", "password ***\n"] == [entry["text"] for entry in entries]
    everywhere = [*tables(clients), *chunks(clients), *lines(cloud)]
    everywhere += answers(http, platform, job_id)
    assert set() == found_in(iter(everywhere))
    assert set() == in_files(cloud.run_dir)


def test_a_job_that_hides_nothing_has_its_secrets_in_its_own_output_only(
    cloud: Cloud, clients: Clients, joblane: Run, http: Http
):
    wanted = [
        word for name in SECRET_ENV for word in ("--secret-env", f"{name}={SECRET_ENV[name]}")
    ]
    run = str(ULID())
    wanted += ["--no-mask-secrets", "--label", f"run={run}"]
    done = joblane("run", *wanted, "--", "sh", "-c", "echo $TOKEN; echo $PASSWORD >&2")
    assert (0, f"{VALUES[0]}\n".encode()) == (done.returncode, done.stdout)
    assert f"{VALUES[1]}\n".encode() in done.stderr
    found = http("GET", f"/v1/jobs?label=run={run}").json()["entries"]
    (job_id,) = [job["id"] for job in found if SECRET_ENV == job["secret_env"]]
    assert {f"output demo/{job_id}/1"} == found_in(chunks(clients))
    assert set() == found_in(lines(cloud))
    assert set() == found_in(tables(clients))
    assert set() == in_files(cloud.run_dir)


def test_a_value_that_changed_is_read_by_the_next_attempt(clients: Clients, http: Http):
    ssm, name = clients.make("ssm"), "/joblane/demo/turn"
    ssm.put_parameter(Name=name, Value="first", Type="SecureString")
    script = "echo $TURN; test $TURN = second"
    job_id = submit(http, "sh", "-c", script, secret_env={"TURN": f"ssm:{name}"}, retry=ONCE)
    wait_for(http, job_id, "dead")
    ssm.put_parameter(Name=name, Value="second", Type="SecureString", Overwrite=True)
    assert 202 == http("POST", f"/v1/dlq/{job_id}/replay").status_code
    wait_for(http, job_id, "completed")
    entries = http("GET", f"/v1/jobs/{job_id}/logs").json()["entries"]
    assert ["first\n", "second\n"] == [entry["text"] for entry in entries]


def test_a_secret_that_is_not_there_fails_the_job_and_says_so(http: Http, joblane: Run):
    job_id = submit(http, "true", secret_env={"DB": "secretsmanager:joblane/demo/none"})
    job = wait_for(http, job_id, "failed")
    assert "permanent" == job["outcome"]
    assert "secret_env.DB: there is no such secret" in job["reason"]
    assert b"there is no such secret" in joblane("get", job_id).stdout


def test_another_tenants_secret_cannot_be_named(as_other: Http):
    body = {"command": ["true"], "secret_env": SECRET_ENV}
    answer = as_other("POST", "/v1/jobs", json=body)
    assert 400 == answer.status_code
    assert ["secret_env.TOKEN", "secret_env.PASSWORD"] == [
        problem["field"] for problem in answer.json()["errors"]
    ]
