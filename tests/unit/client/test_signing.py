"""Requests signed with credentials of AWS; tests/e2e/test_iam.py has their signatures checked."""

import os
import re
import subprocess
import sys

import pytest

from joblane import AccessError, ConfigError
from joblane.client.cli import exit_codes
from joblane.client.signing import AwsSignature
from tests.support.client.clients import Connect
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi, gateway

SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 Credential=AKIA1/[0-9]{8}/eu-west-1/execute-api/aws4_request, "
    r"SignedHeaders=host;x-amz-date;x-amz-security-token, Signature=[0-9a-f]{64}"
)


@pytest.fixture(autouse=True)
def _aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials of a session in the environment, and none of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIA1",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)


def test_both_clients_sign_each_request(api: FakeApi, connect: Connect) -> None:
    with connect(api.url, AwsSignature(api.url)) as client:
        client.submit(["true"])
        api.faults.append(gateway(503, "x"))
        assert 1 == len([*client.list()])
    assert 3 == len(api.requests)
    for request in api.requests:
        assert SIGNED.fullmatch(request.headers["Authorization"]), request
        assert "token" == request.headers["X-Amz-Security-Token"]


def test_a_refused_signature_is_not_sent_again(api: FakeApi, connect: Connect) -> None:
    api.faults.append(gateway(403, "Signature expired"))
    said = r"Signature expired.*may the IAM role invoke the API"
    with connect(api.url, AwsSignature(api.url)) as client, pytest.raises(AccessError, match=said):
        client.get("01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert 1 == len(api.requests)


def test_the_environment_asks_for_it(
    api: FakeApi, joblane: Joblane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JOBLANE_TOKEN", raising=False)
    monkeypatch.setenv("JOBLANE_AUTH", "iam")
    assert 0 == joblane("ls").code
    assert SIGNED.fullmatch(api.requests[-1].headers["Authorization"])
    for command in ("login", "console"):
        ran = joblane(command)
        said = f"joblane: {api.url} is for IAM roles and has neither login nor console\n"
        assert (exit_codes.NOT_CONFIGURED, said) == (ran.code, ran.said)


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("a1b2c3d4e5.execute-api.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("a1b2c3d4e5.execute-api.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("jobs.acme.example", "eu-west-1"),
        ("a1b2.execute-api.us-east-1.amazonaws.com.acme.example", "eu-west-1"),
    ],
)
def test_the_region_is_that_of_the_address(host: str, region: str) -> None:
    assert region == AwsSignature(f"https://{host}").region


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("AWS_DEFAULT_REGION", "the region of {url} is not known; set AWS_DEFAULT_REGION"),
        ("AWS_ACCESS_KEY_ID", "no credentials of AWS: set AWS_PROFILE or log in to AWS"),
        ("AWS_SECRET_ACCESS_KEY", "no credentials of AWS: Partial credentials found in env, "),
    ],
)
def test_what_is_missing_is_said_in_one_line(
    api: FakeApi, joblane: Joblane, monkeypatch: pytest.MonkeyPatch, missing: str, said: str
) -> None:
    monkeypatch.delenv("JOBLANE_TOKEN", raising=False)
    monkeypatch.setenv("JOBLANE_AUTH", "iam")
    monkeypatch.delenv(missing)
    ran = joblane("ls")
    assert exit_codes.NOT_CONFIGURED == ran.code
    assert ran.said.startswith(f"joblane: {said.format(url=api.url)}")
    assert 1 == ran.said.count("\n")
    assert [] == api.requests


def test_without_botocore_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(ConfigError, match="pip install botocore"):
        AwsSignature("https://jobs.acme.example")


def test_who_does_not_sign_does_not_load_it() -> None:
    code = "import sys, joblane.client.profiles; print(any('botocore' in m for m in sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "False\n" == ran.stdout
