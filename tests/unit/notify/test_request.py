"""What a job may notify: the field, the URLs, and what joblane.toml allows."""

import json
import time
from typing import Any

import pytest
from pydantic import ValidationError

from functions.submission.handler import Settings, build
from joblane.aws.job.items import NOTIFY
from joblane.contract.problems import Problem, parse_model
from joblane.job.spec import Submission
from joblane.notify.addresses import MAX_URL, parse_url
from joblane.notify.event_names import DEFAULT, ENDS
from joblane.notify.request import Notify
from joblane.notify.rules import NotifyRules, TenantNotify
from joblane.state.lifecycle import ENDED
from tests.support.aws import DESCRIPTOR, FUNCTION_ENVIRONMENT, JOBS_TOPIC, Cloud
from tests.support.requests import Api

RULES = NotifyRules.model_validate_json(FUNCTION_ENVIRONMENT["JOBLANE_NOTIFY"])


def problem_of(notify: object) -> tuple[str, str]:
    """The field that is refused, and why."""
    with pytest.raises(Problem) as refusal:
        parse_model(Submission, json.dumps({"command": ["true"], "notify": notify}))
    (found,) = refusal.value.errors
    return found.field, found.problem


def test_a_job_notifies_about_its_ends_and_blocks_unless_it_says_so():
    assert {state.value for state in ENDED} == ENDS
    assert (ENDS | {"blocked"}) - {"dismissed"} == set(DEFAULT)
    assert DEFAULT == Notify(eventbridge=True).on


@pytest.mark.parametrize(
    ("notify", "field", "problem"),
    [
        ({}, "notify", "must have exactly one of url, sns and eventbridge"),
        ({"on": ["failed"]}, "notify", "must have exactly one"),
        ({"url": "https://a.example", "eventbridge": True}, "notify", "must have exactly one"),
        ({"eventbridge": False}, "notify.eventbridge", "must be true, or be left out"),
        ({"eventbridge": 1}, "notify.eventbridge", "should be a valid boolean"),
        ({"sns": f"{JOBS_TOPIC}.fifo"}, "notify.sns", "not a FIFO topic"),
        ({"sns": "jobs"}, "notify.sns", "must be the ARN of a standard SNS topic"),
        ({"eventbridge": True, "on": []}, "notify.on", "must have at least 1 item(s)"),
        ({"eventbridge": True, "on": ["dead", "dead"]}, "notify.on", "name each event once"),
        (
            {"eventbridge": True, "on": ["active"]},
            "notify.on.0",
            "should be 'submitted', 'waiting', 'released', 'started'",
        ),
        ({"eventbridge": True, "to": "x"}, "notify.to", "unknown field"),
        ({"url": "https://user@a.example/"}, "notify.url", "without a user"),
    ],
)
def test_another_request_is_refused_by_its_field(notify: object, field: str, problem: str):
    found, why = problem_of(notify)
    assert field == found
    assert problem in why


@pytest.mark.parametrize(
    ("url", "host", "port", "header", "target"),
    [
        ("https://a.example", "a.example", 443, "a.example", "/"),
        ("https://a.example:8443/x?y=1", "a.example", 8443, "a.example:8443", "/x?y=1"),
        ("https://a.example?y", "a.example", 443, "a.example", "/?y"),
        ("http://127.0.0.1:8080/@b", "127.0.0.1", 8080, "127.0.0.1:8080", "/@b"),
        ("https://[2606:4700::1]/", "2606:4700::1", 443, "[2606:4700::1]", "/"),
    ],
)
def test_a_url_is_split_into_what_a_request_needs(
    url: str, host: str, port: int, header: str, target: str
):
    found = parse_url(url)
    assert (host, port, header, target) == (
        found.host,
        found.port,
        found.host_header,
        found.target,
    )


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a.example",
        "ftp://a.example",
        "HTTPS://a.example",
        "https://",
        "https:///x",
        "https://user@a.example/",
        "https://user:password@a.example/",
        "https://a.example\\@127.0.0.1/",
        "https://a.example/#fragment",
        "https://a.example/ x",
        "https://a.example/x\r\nHost: b",
        "https://a.example/é",
        "https://exämple.com/",
        "https://a.example:0/",
        "https://a.example:65536/",
        "https://a.example:/",
        "https://[::1/",
        f"https://a.example/{'x' * MAX_URL}",
    ],
)
def test_what_is_no_plain_url_is_refused_without_repeating_it(url: str):
    with pytest.raises(ValueError, match=r"^must ") as refusal:
        parse_url(url)
    assert "password" not in str(refusal.value)


@pytest.mark.parametrize(
    ("tenant", "notify", "field", "problem"),
    [
        ("acme", {"url": "https://a.example/x"}, None, ""),
        ("acme", {"url": "https://a.example:8443/"}, None, ""),
        ("acme", {"url": "http://127.0.0.1:8080/"}, None, ""),
        ("acme", {"url": "https://8.8.8.8/"}, None, ""),
        ("acme", {"url": "http://a.example/"}, "notify.url", "must begin with https://"),
        ("acme", {"url": "http://localhost/"}, "notify.url", "must begin with https://"),
        ("acme", {"url": "https://a.example:22/"}, "notify.url", "must use port 443 or 8443"),
        ("acme", {"url": "https://10.0.0.1/"}, "notify.url", "must have a public address"),
        ("acme", {"url": "https://169.254.169.254/"}, "notify.url", "must have a public address"),
        ("acme", {"url": "https://[::ffff:10.0.0.1]/"}, "notify.url", "must have a public"),
        ("acme", {"url": "https://[fec0::1]/"}, "notify.url", "must have a public address"),
        ("acme", {"url": "https://[2600:1f18::1]/"}, None, ""),
        ("acme", {"sns": JOBS_TOPIC}, None, ""),
        ("acme", {"sns": f"{JOBS_TOPIC}-2"}, "notify.sns", f"joblane.toml: {JOBS_TOPIC}"),
        ("acme", {"eventbridge": True}, None, ""),
        ("other", {"url": "https://a.example/x"}, "notify.url", "needs a secret"),
        ("other", {"sns": JOBS_TOPIC}, "notify.sns", "joblane.toml: none"),
        ("other", {"eventbridge": True}, "notify.eventbridge", "is not allowed"),
        ("third", {"eventbridge": True}, "notify", "adds [tenants.third.notify] to joblane.toml"),
    ],
)
def test_joblane_toml_decides_what_a_tenant_may_ask_for(
    tenant: str, notify: dict[str, object], field: str | None, problem: str
):
    refusal = RULES.refusal(tenant, Notify.model_validate(notify))
    assert field == (None if refusal is None else refusal[0])
    assert problem in ("" if refusal is None else refusal[1])


@pytest.mark.parametrize("secret", ["ssm:/joblane/acme/x", "my-secret", "secretsmanager:"])
def test_the_key_is_a_secret_of_secrets_manager(secret: str):
    with pytest.raises(ValidationError, match="secretsmanager:NAME"):
        TenantNotify(secret=secret)


def post_job(api: Api, **fields: object) -> tuple[int, Any]:
    """Submit a job; the answer's status and its body."""
    return api("POST", "/v1/jobs", {"command": ["true"], **fields})


def test_the_api_keeps_what_was_asked_for_and_shows_it(aws: Cloud, api: Api):
    notify = {"url": "https://example.com/hook", "on": ["failed"]}
    status, job = post_job(api, notify=notify)
    assert (202, "https://example.com/hook") == (status, job["notify"]["url"])
    _, again = api("GET", f"/v1/jobs/{job['id']}")
    assert ["failed"] == again["notify"]["on"]
    row: Any = aws.clients.make("dynamodb").get_item(
        TableName=DESCRIPTOR.jobs_table, Key={"job_id": {"S": job["id"]}, "sk": {"S": "JOB"}}
    )["Item"]
    assert (NOTIFY, notify) == (row["tells"]["S"], json.loads(row["spec"]["S"])["notify"])
    _, long = post_job(api, notify=notify, env={"A": "x" * 999})
    row = aws.clients.make("dynamodb").get_item(
        TableName=DESCRIPTOR.jobs_table, Key={"job_id": {"S": long["id"]}, "sk": {"S": "JOB"}}
    )["Item"]
    assert (NOTIFY, notify) == (row["tells"]["S"], json.loads(row["notify"]["S"]))
    assert job["notify"] == long["notify"]


def test_a_job_that_notifies_nobody_has_no_more_in_its_row(aws: Cloud, api: Api):
    _, job = post_job(api)
    row: Any = aws.clients.make("dynamodb").get_item(
        TableName=DESCRIPTOR.jobs_table, Key={"job_id": {"S": job["id"]}, "sk": {"S": "JOB"}}
    )["Item"]
    assert {"notify", "tells"}.isdisjoint(row)
    assert job["notify"] is None


def test_the_api_refuses_what_is_not_allowed(api: Api):
    status, problem = post_job(api, notify={"sns": f"{JOBS_TOPIC}-2"})
    assert (400, "notify.sns") == (status, problem["errors"][0]["field"])


def test_only_a_group_has_members_to_notify_of(api: Api):
    notify = {"eventbridge": True, "members": True}
    status, problem = post_job(api, notify=notify)
    assert (400, "notify.members") == (status, problem["errors"][0]["field"])
    assert problem["errors"][0]["problem"].startswith("allowed with a target of several agents")
    assert 202 == post_job(api, notify=notify, array={"size": 2})[0]


@pytest.mark.parametrize("copies", [1, 3])
def test_a_large_submission_keeps_it_beside_itself(api: Api, copies: int):
    """In the item DATA, and in S3."""
    env = {f"A{n}": "x" * 100_000 for n in range(copies)}
    _, job = post_job(api, notify={"eventbridge": True}, env=env)
    _, again = api("GET", f"/v1/jobs/{job['id']}")
    assert again["notify"]["eventbridge"] is True
    assert env == again["env"]


def test_a_queue_notifies_for_jobs_that_say_nothing(aws: Cloud):
    rules = json.loads(FUNCTION_ENVIRONMENT["JOBLANE_NOTIFY"])
    rules["queues"] = {"bulk": {"eventbridge": True, "on": ["dead"]}}
    environment = {**FUNCTION_ENVIRONMENT, "JOBLANE_NOTIFY": json.dumps(rules)}
    api = Api(build(Settings.model_validate(environment), aws.clients, time.time))
    _, job = post_job(api, queue="bulk")
    assert (True, ["dead"]) == (job["notify"]["eventbridge"], job["notify"]["on"])
    _, job = post_job(api, queue="bulk", notify={"sns": JOBS_TOPIC})
    assert (None, JOBS_TOPIC) == (job["notify"]["eventbridge"], job["notify"]["sns"])
    _, job = post_job(api)
    assert job["notify"] is None


def test_without_any_tenant_that_may_every_request_is_refused(aws: Cloud):
    environment = {**FUNCTION_ENVIRONMENT, "JOBLANE_NOTIFY": "{}"}
    api = Api(build(Settings.model_validate(environment), aws.clients, time.time))
    status, problem = post_job(api, notify={"eventbridge": True})
    assert (400, "notify") == (status, problem["errors"][0]["field"])
    assert "[tenants.acme.notify]" in problem["detail"]
    assert 202 == post_job(api)[0]
