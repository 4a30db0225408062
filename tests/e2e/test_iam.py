"""Callers with an IAM role: the local AWS checks signatures, policies and sessions as AWS does."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from ulid import ULID

from joblane import AccessError, Client
from joblane.client.signing import AwsSignature
from scripts.local.cloud import Cloud
from scripts.local.deploy import BIN
from tests.e2e.conftest import Http

Session = dict[str, str]
"""Variables of a process with the credentials of a role's session."""


@pytest.fixture(name="session", scope="module")
def _session(cloud: Cloud) -> Callable[..., Session]:
    """Make a role that may or may not call the API, and a session with it."""
    iam = boto3.client("iam", **cloud.ministack.root())
    sts = boto3.client("sts", **cloud.ministack.root())
    account = sts.get_caller_identity()["Account"]

    def session(name: str, path: str = "/", *, may_invoke: bool = True) -> Session:
        trust = {"Effect": "Allow", "Principal": {"AWS": account}, "Action": "sts:AssumeRole"}
        arn = iam.create_role(
            RoleName=name, Path=path, AssumeRolePolicyDocument=json.dumps(document(trust))
        )["Role"]["Arn"]
        if may_invoke:
            allow = {
                "Effect": "Allow",
                "Action": "execute-api:Invoke",
                "Resource": cloud.outputs["IamApiArn"],
            }
            iam.put_role_policy(
                RoleName=name, PolicyName="call", PolicyDocument=json.dumps(document(allow))
            )
        found = sts.assume_role(RoleArn=arn, RoleSessionName="build-7")["Credentials"]
        return {
            **cloud.ministack.environment(),
            "AWS_ACCESS_KEY_ID": found["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": found["SecretAccessKey"],
            "AWS_SESSION_TOKEN": found["SessionToken"],
        }

    return session


def document(*statements: Any) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": statements}


@pytest.fixture(name="ci", scope="module")
def _ci(session: Callable[..., Session]) -> Session:
    """The role of scripts/local/joblane.toml."""
    return session("joblane-ci", "/ci/")


@contextmanager
def signed(cloud: Cloud, session: Session) -> Iterator[Client]:
    """The SDK with these credentials, which nothing else has after that."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in session.items():
            patch.setenv(name, value)
        with Client(cloud.iam_url, AwsSignature(cloud.iam_url)) as client:
            yield client


def test_the_command_line_signs_with_the_credentials_of_a_role(
    cloud: Cloud, ci: Session, http: Http, tmp_path: Path
):
    def joblane(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [BIN / "joblane", *arguments],
            env={
                **ci,
                "HOME": str(tmp_path),
                "JOBLANE_URL": cloud.iam_url,
                "JOBLANE_AUTH": "iam",
            },
            capture_output=True,
            text=True,
            check=False,
        )

    made = joblane("submit", "--run-at", "+1h", "--", "true")
    assert 0 == made.returncode, made.stderr
    job_id = made.stdout.strip()
    ended = joblane("cancel", job_id)
    assert 0 == ended.returncode, ended.stderr
    # Who it was is in the timeline and in the audit trail, by the role and its session.
    job = http("GET", f"/v1/jobs/{job_id}").json()
    assert "machine joblane-ci/build-7" in json.dumps(job["timeline"])
    record, _submission = http("GET", f"/v1/jobs/{job_id}/audit").json()["entries"]
    assert "cancel" == record["action"]
    assert ("machine", "joblane-ci/build-7") == (record["by"]["kind"], record["by"]["name"])
    assert record["by"]["subject"].startswith("AROA")
    # It has the role developer, and no more.
    refused = joblane("dlq", "ls")
    assert 77 == refused.returncode
    assert "the caller has the role developer" in refused.stderr


@pytest.mark.parametrize(
    "path",
    [
        "/v1/jobs?limit=1&name=a%20b%2Bc~d&name=%C3%BC%26%3D",
        "/v1/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV/outputs/a%20b/%C3%BC+&(1)~*.csv",
        "/v1/keys/_tenant/a%25b",
    ],
)
def test_paths_and_queries_of_every_form_have_a_valid_signature(
    cloud: Cloud, ci: Session, path: str
):
    with signed(cloud, ci), closing(Http(cloud.iam_url, None)) as http:
        answer = http("GET", path, auth=AwsSignature(cloud.iam_url))
        assert answer.status_code != 403, answer.text
        if "outputs" in path:
            assert 404 == answer.status_code, answer.text


def test_who_may_not_call_is_refused(
    cloud: Cloud,
    session: Callable[..., Session],
    ci: Session,
):
    # A role of no tenant, which may invoke the API: the function refuses it.
    stranger = session("joblane-stranger")
    with (
        signed(cloud, stranger) as client,
        pytest.raises(AccessError, match="belongs to no tenant"),
    ):
        client.cancel(str(ULID()))
    # A role without the permission, and a key with another secret: API Gateway refuses them.
    idle, forged = session("joblane-idle", may_invoke=False), {**ci, "AWS_SECRET_ACCESS_KEY": "x"}
    for refused in (idle, forged):
        with signed(cloud, refused) as client, pytest.raises(AccessError, match="403"):
            client.cancel(str(ULID()))
    # No route of this API is open, and neither API takes the credentials of the other.
    for headers in ({}, {"Authorization": f"Bearer {cloud.token()}"}):
        for path in ("/v1/jobs", "/v1/health", "/v1/login", "/v1/openapi.json"):
            with closing(Http(cloud.iam_url, None)) as http:
                assert 403 == http("GET", path, headers=headers).status_code
    with signed(cloud, ci), closing(Http(cloud.url, None)) as http:
        answer = http("GET", "/v1/jobs", auth=AwsSignature(cloud.url))
    assert 401 == answer.status_code
