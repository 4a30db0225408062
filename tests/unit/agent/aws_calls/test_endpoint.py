"""The endpoint of direct calls is that of botocore's client, or there is none."""

import os
import ssl
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import botocore.session
import pytest
from botocore.config import Config
from botocore.loaders import Loader, create_loader

from ec2_agent.aws_calls.endpoint import AwsEndpoint, NotDirect, endpoint_of
from joblane.aws.clients import Clients, LazyClients
from tests.support.tls import self_signed

FOREIGN = ("AWS_", "REQUESTS_", "CURL_", "HTTP", "http", "NO_PROXY", "no_proxy", "ALL_PROXY")


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of this host."""
    for name in list(os.environ):
        if name.startswith(FOREIGN):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")


@cache
def loader() -> Loader:
    """One for all sessions: reading the service models takes longest."""
    return create_loader()


def session_here() -> botocore.session.Session:
    """A session that reads the environment."""
    session = botocore.session.get_session()
    session.register_component("data_loader", loader())
    return session


def find_endpoint(service: str = "dynamodb", config: Config | None = None) -> AwsEndpoint:
    """The endpoint of a client that is made now."""
    session = session_here()
    client: Any = session.create_client(service, config=config)
    return endpoint_of(client.meta, session)


@pytest.mark.parametrize(
    ("service", "region", "host"),
    [
        ("dynamodb", "eu-central-1", "dynamodb.eu-central-1.amazonaws.com"),
        ("sqs", "eu-central-1", "sqs.eu-central-1.amazonaws.com"),
        ("dynamodb", "us-gov-west-1", "dynamodb.us-gov-west-1.amazonaws.com"),
        ("sqs", "cn-north-1", "sqs.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_of_a_region(monkeypatch: pytest.MonkeyPatch, service: str, region: str, host: str):
    monkeypatch.setenv("AWS_DEFAULT_REGION", region)
    endpoint = find_endpoint(service)
    assert (host, host, 443) == (endpoint.host, endpoint.authority, endpoint.port)
    assert (region, service) == (endpoint.region, endpoint.service)
    assert endpoint.tls is not None
    assert ssl.CERT_REQUIRED == endpoint.tls.verify_mode
    assert endpoint.tls.check_hostname


@pytest.mark.parametrize(
    ("name", "value", "host"),
    [
        ("AWS_USE_FIPS_ENDPOINT", "true", "sqs-fips.us-east-1.amazonaws.com"),
        ("AWS_USE_DUALSTACK_ENDPOINT", "true", "sqs.us-east-1.api.aws"),
        ("AWS_ENDPOINT_URL_SQS", "https://vpce-1.sqs.us-east-1.vpce.amazonaws.com", None),
    ],
)
def test_as_botocore_is_told(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, host: str | None
):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv(name, value)
    assert (host or value.removeprefix("https://")) == find_endpoint("sqs").host


@pytest.mark.parametrize("service", ["dynamodb", "sqs"])
def test_of_a_local_aws(monkeypatch: pytest.MonkeyPatch, service: str):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566/")
    endpoint = find_endpoint(service)
    assert ("127.0.0.1", 4566, "127.0.0.1:4566") == (
        endpoint.host,
        endpoint.port,
        endpoint.authority,
    )
    assert endpoint.tls is None


@pytest.mark.parametrize("service", ["dynamodb", "sqs"])
def test_target_and_type_are_those_that_botocore_sends(service: Literal["dynamodb", "sqs"]):
    session = session_here()
    client: Any = session.create_client(service)
    sent: list[Any] = []

    def keep(request: Any, **_: Any) -> None:
        sent.append(request)
        raise ConnectionError

    client.meta.events.register("before-send", keep)
    with pytest.raises(ConnectionError):
        client.list_tables() if service == "dynamodb" else client.list_queues()
    endpoint = endpoint_of(client.meta, session)
    headers = {name.lower(): value for name, value in sent[0].headers.items()}
    operation = "ListTables" if service == "dynamodb" else "ListQueues"
    target, kind = headers["x-amz-target"], headers["content-type"]
    assert (f"{endpoint.target}.{operation}", endpoint.content_type) == tuple(
        value if isinstance(value, str) else value.decode() for value in (target, kind)
    )


@pytest.mark.parametrize(
    ("environment", "config", "why"),
    [
        ({"HTTPS_PROXY": "http://proxy:3128"}, None, "a proxy"),
        ({"https_proxy": "http://proxy:3128"}, None, "a proxy"),
        ({}, Config(proxies={"https": "http://proxy:3128"}), "a proxy"),
        ({}, Config(client_cert="/etc/client.pem"), "a client certificate"),
        ({}, Config(signature_version="v4a"), "signature is v4a"),
        ({"AWS_ENDPOINT_URL": "https://gateway.example/aws"}, None, "a path"),
        ({"AWS_ENDPOINT_URL": "https://gateway.example/?a=b"}, None, "a query"),
    ],
)
def test_what_only_botocore_can_do_is_left_to_it(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], config: Config | None, why: str
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(NotDirect, match=why):
        find_endpoint("dynamodb", config)


def test_a_proxy_that_does_not_concern_the_endpoint_is_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "amazonaws.com")
    assert "dynamodb.eu-central-1.amazonaws.com" == find_endpoint().host


@pytest.mark.parametrize("service", ["s3", "sns"])
def test_a_service_of_another_protocol(service: str):
    with pytest.raises(NotDirect, match=r"protocol|signature"):
        find_endpoint(service)


def test_without_credentials(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(NotDirect, match="no credentials"):
        find_endpoint()


@pytest.mark.parametrize("name", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
def test_the_authorities_are_those_that_botocore_trusts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
):
    usual = find_endpoint().tls
    assert usual is not None
    assert len(usual.get_ca_certs()) > 50
    monkeypatch.setenv(name, str(self_signed(tmp_path, "authority.example")))
    chosen = find_endpoint().tls
    assert chosen is not None
    assert 1 == chosen.cert_store_stats()["x509"]


@pytest.mark.parametrize("clients", [Clients, LazyClients])
def test_a_client_that_is_made_while_its_endpoint_is_sought(clients: type[Clients]):
    made = clients()
    client = made.make("sqs")
    meta = client.meta  # a lazy client takes the session's lock
    assert "sqs" == made.of_session(partial(endpoint_of, meta)).service
