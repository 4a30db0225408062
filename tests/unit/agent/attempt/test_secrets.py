"""Secrets: named in a submission, read when an attempt starts, found nowhere but in the job."""

import asyncio
import json
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from hypothesis import given
from hypothesis import strategies as st

from ec2_agent.attempt.run import Attempt
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import SandboxLimits, Spec
from ec2_agent.shim.masking import MOST
from joblane.aws.job.secret_store import SecretProblem, SecretStore
from joblane.job.head import Head
from joblane.job.judge import StopReason
from joblane.state.lifecycle import Outcome, State
from joblane.state.secret_names import MAX_REFERENCE, SecretName, parse
from tests.support.attempts import begin, output, run
from tests.support.aws import DESCRIPTOR, NAME, Cloud
from tests.support.jobs import JOB
from tests.support.requests import Api

VALUE = "hunter2-and-more"


@pytest.fixture(name="store")
def _store(aws: Cloud) -> SecretStore:
    return SecretStore(aws.clients.make("secretsmanager"), aws.clients.make("ssm"), NAME)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ssm:/joblane/acme/db", SecretName("ssm", "/joblane/acme/db")),
        ("secretsmanager:joblane/acme/db", SecretName("secretsmanager", "joblane/acme/db")),
        ("secretsmanager:a/b#k.1", SecretName("secretsmanager", "a/b", "k.1")),
    ],
)
def test_a_reference_says_where_a_secret_is(text: str, name: SecretName):
    assert name == parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "db",
        "ssm:db",
        "ssm:/a//b",
        "ssm:/a/",
        "ssm:/a:3",
        "ssm:/a#k",
        "secretsmanager:/a",
        "secretsmanager:a#",
        "secretsmanager:a#b c",
        "secretsmanager:arn:aws:secretsmanager:us-east-1:1:secret:x",
        "vault:a",
        "ssm:/\u00e4",
        "ssm:/a\n",
        "ssm:/joblane/acme/../other/db",
        "ssm:/joblane/acme/./db",
        "ssm:/..",
        "secretsmanager:joblane/acme/../other/db",
        "secretsmanager:joblane/acme/db/..#k",
        "ssm:/" + "a" * MAX_REFERENCE,
    ],
)
def test_what_is_no_reference_is_refused_without_being_repeated(text: str):
    with pytest.raises(ValueError, match=r"must be secretsmanager:NAME") as refusal:
        parse(text)
    assert text in ("", "db") or text not in str(refusal.value)


@given(st.text(), st.sampled_from(["ssm:/", "secretsmanager:"]))
def test_no_reference_reaches_out_of_its_tenant(rest: str, start: str):
    try:
        name = parse(start + rest)
    except ValueError:
        return
    inside = re.match(r"/?joblane/acme/[^/]", name.name)
    assert bool(inside) == name.belongs_to("joblane", "acme") or name.name.startswith("//")


@pytest.mark.parametrize(
    ("reference", "mine"),
    [
        ("ssm:/joblane/acme/db", True),
        ("ssm:/joblane/acme", False),
        ("ssm:/joblane/acme2/db", False),
        ("ssm:/joblane/other/db", False),
        ("ssm:/joblane/descriptor", False),
        ("ssm:/joblane2/acme/db", False),
        ("secretsmanager:joblane/acme/db#k", True),
        ("secretsmanager:joblane/other/db", False),
        ("secretsmanager:acme/db", False),
        ("ssm:/joblane/acme/../other/db", False),
        ("secretsmanager:joblane/acme/../other/db", False),
    ],
)
def test_a_tenant_names_only_its_own(aws: Cloud, api: Api, reference: str, *, mine: bool):
    body = {"command": ["true"], "secret_env": {"DB": reference}}
    status, answer = api("POST", "/v1/jobs", body)
    if mine:
        assert (202, {"DB": reference}) == (status, answer["secret_env"])
        return
    assert (400, "secret_env.DB") == (status, answer["errors"][0]["field"])
    assert ".." in reference or "ssm:/joblane/acme/NAME" in answer["errors"][0]["problem"]
    assert 0 == aws.clients.make("dynamodb").scan(TableName=DESCRIPTOR.jobs_table)["Count"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"secret_env": {"A=": "ssm:/joblane/acme/x"}}, "secret_env.A="),
        ({"secret_env": {"JOBLANE_X": "ssm:/joblane/acme/x"}}, "secret_env.JOBLANE_X"),
        ({"secret_env": {"A": VALUE}}, "secret_env.A"),
        ({"secret_env": {"A": 5}}, "secret_env.A"),
        ({"secret_env": {"A": "ssm:/joblane/acme/x"}, "env": {"A": "1"}}, "secret_env"),
    ],
)
def test_bad_secret_env_is_named_and_not_repeated(api: Api, fields: dict[str, Any], field: str):
    status, problem = api("POST", "/v1/jobs", {"command": ["true"], **fields})
    assert (400, field) == (status, problem["errors"][0]["field"])
    assert VALUE not in json.dumps(problem)


def test_one_bad_entry_of_a_batch_is_refused_for_itself(api: Api):
    jobs = [
        {"command": ["true"], "secret_env": {"A": f"ssm:/joblane/{tenant}/x"}}
        for tenant in ("acme", "other")
    ]
    _, answer = api("POST", "/v1/jobs/batch", {"jobs": jobs})
    assert [202, 400] == [entry["status"] for entry in answer["entries"]]


def make_secrets(aws: Cloud) -> None:
    manager, ssm = aws.clients.make("secretsmanager"), aws.clients.make("ssm")
    manager.create_secret(Name="joblane/acme/plain", SecretString=VALUE)
    manager.create_secret(
        Name="joblane/acme/json",
        SecretString=json.dumps({"user": "u", "password": VALUE, "port": 5432, "list": [1]}),
    )
    manager.create_secret(Name="joblane/acme/nested", SecretString="[" * 20_000)
    manager.create_secret(Name="joblane/acme/bytes", SecretBinary=b"\xff")
    manager.create_secret(Name="joblane/acme/gone", SecretString=VALUE)
    manager.delete_secret(SecretId="joblane/acme/gone")
    ssm.put_parameter(Name="/joblane/acme/db", Value=VALUE, Type="SecureString")


def test_values_are_read_from_both_stores(aws: Cloud, store: SecretStore):
    make_secrets(aws)
    assert {"A": VALUE, "B": VALUE, "C": "5432", "D": VALUE} == store.read(
        {
            "A": "secretsmanager:joblane/acme/plain",
            "B": "secretsmanager:joblane/acme/json#password",
            "C": "secretsmanager:joblane/acme/json#port",
            "D": "ssm:/joblane/acme/db",
        },
        "acme",
    )


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("secretsmanager:joblane/acme/none", "there is no such secret"),
        ("secretsmanager:joblane/acme/gone", "marked for deletion"),
        ("secretsmanager:joblane/acme/bytes", "it is binary"),
        ("secretsmanager:joblane/acme/plain#x", "not a JSON object"),
        ("secretsmanager:joblane/acme/json#none", "not a JSON object"),
        ("secretsmanager:joblane/acme/json#list", "not a JSON object"),
        ("secretsmanager:joblane/acme/nested#x", "not a JSON object"),
        ("secretsmanager:joblane/other/plain", "not a name of tenant acme"),
        ("ssm:/joblane/acme/none", "there is no such parameter"),
        ("ssm:/joblane/other/db", "not a name of tenant acme"),
    ],
)
def test_what_cannot_be_had_is_said_by_its_name(
    aws: Cloud, store: SecretStore, reference: str, words: str
):
    make_secrets(aws)
    with pytest.raises(SecretProblem) as problem:
        store.read({"DB": reference}, "acme")
    assert words in str(problem.value)
    assert str(problem.value).startswith("secret_env.DB: ")
    assert reference in str(problem.value)
    assert VALUE not in repr(problem.value.__cause__) + repr(problem.value.__context__)


def test_one_secret_is_read_once_for_all_its_members(aws: Cloud):
    make_secrets(aws)
    calls = list[str]()
    aws.emitter().register("before-call", lambda model, **_: calls.append(model.name))
    store = SecretStore(aws.clients.make("secretsmanager"), aws.clients.make("ssm"), NAME)
    names = {key.upper(): f"secretsmanager:joblane/acme/json#{key}" for key in ("user", "password")}
    store.read(names, "acme")
    assert ["GetSecretValue"] == calls


SECRETS = {"A": "secretsmanager:joblane/acme/plain", "B": "ssm:/joblane/acme/db"}


def everything(aws: Cloud, head: Head) -> str:
    """All that AWS holds of a job but its output and the secret itself."""
    items = aws.clients.make("dynamodb").scan(TableName=DESCRIPTOR.jobs_table)["Items"]
    return f"{items} {head}"


def test_the_values_are_in_the_jobs_environment_and_nowhere_else(
    aws: Cloud, launcher: Launcher, capfd: pytest.CaptureFixture[str]
):
    make_secrets(aws)
    script = "echo ${#A} ${#B} $A"
    head = run(aws, launcher, "sh", "-c", script, secret_env=SECRETS)
    assert State.COMPLETED is head.state
    assert [("stdout", f"{len(VALUE)} {len(VALUE)} ***\n")] == output(aws, head)
    assert VALUE not in everything(aws, head)
    assert VALUE not in "".join(capfd.readouterr())


@pytest.mark.parametrize("hides", [True, False])
def test_more_lines_than_can_be_hidden_fail_the_job_unless_nothing_is_hidden(
    aws: Cloud, launcher: Launcher, *, hides: bool
):
    value = "\n".join(f"line {number:05}" for number in range(MOST + 1))
    aws.clients.make("secretsmanager").create_secret(Name="joblane/acme/long", SecretString=value)
    names = {"LONG": "secretsmanager:joblane/acme/long"}
    head = run(aws, launcher, "true", secret_env=names, mask_secrets=hides)
    if hides:
        assert (State.FAILED, Outcome.PERMANENT) == (head.state, head.outcome)
        assert "its secrets have 1001 lines, and 1000 can be hidden" in head.timeline[-1].reason
    else:
        assert State.COMPLETED is head.state


def test_a_spec_does_not_show_its_environment():
    assert VALUE not in repr(Spec(("true",), {"A": VALUE}, SandboxLimits()))


def test_a_missing_secret_fails_the_job_for_good_and_says_which(aws: Cloud, launcher: Launcher):
    head = run(aws, launcher, "true", secret_env={"DB": "ssm:/joblane/acme/none"})
    assert (State.FAILED, Outcome.PERMANENT, None) == (head.state, head.outcome, head.exit_code)
    reason = head.timeline[-1].reason
    assert "secret_env.DB: there is no such parameter (ParameterNotFound)" in reason
    assert "ssm:/joblane/acme/none" in reason


def refuse_with(aws: Cloud, *errors: Exception) -> threading.Event:
    """Let calls for secrets fail, one after the other, with these; returns what the first sets."""
    coming, refused = list(errors), threading.Event()

    def fail(**_: Any) -> None:
        refused.set()
        if coming:
            raise coming.pop(0)

    aws.emitter().register("before-call.ssm.GetParameter", fail)
    return refused


def error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "x"}}, "GetParameter")


def test_access_denied_fails_the_job_for_good(aws: Cloud, launcher: Launcher):
    refuse_with(aws, error("AccessDeniedException"))
    head = run(aws, launcher, "true", secret_env={"DB": "ssm:/joblane/acme/db"})
    assert State.FAILED is head.state
    assert "the agent's role may not read it" in head.timeline[-1].reason


def test_trouble_of_aws_is_waited_out(aws: Cloud, launcher: Launcher):
    make_secrets(aws)
    trouble = (error("ThrottlingException"), EndpointConnectionError(endpoint_url="https://x"))
    refuse_with(aws, *trouble)
    head = run(aws, launcher, "true", secret_env={"DB": "ssm:/joblane/acme/db"})
    assert (State.COMPLETED, 1) == (head.state, head.attempt)


@pytest.mark.parametrize(
    ("stop", "state"),
    [
        pytest.param(lambda it: it.request_stop(StopReason.COMMAND), State.CANCELLED, id="command"),
        pytest.param(lambda it: it.request_stop(StopReason.DRAIN), State.PENDING, id="drain"),
        pytest.param(Attempt.abandon, State.ACTIVE, id="its lease is lost"),
    ],
)
def test_whoever_waits_for_a_secret_can_be_asked_to_end(
    aws: Cloud, launcher: Launcher, stop: Callable[[Attempt], None], state: State
):
    refused = refuse_with(aws, *[error("InternalServerError")] * 50)
    _, attempt = begin(aws, launcher, command=["true"], secret_env={"DB": "ssm:/joblane/acme/db"})

    async def go() -> None:
        running = asyncio.create_task(attempt.run())
        await asyncio.to_thread(refused.wait)
        stop(attempt)
        await running

    asyncio.run(go())
    assert state is aws.job(JOB).state
