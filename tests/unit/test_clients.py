"""Clients: those that Joblane uses can be made, from their own models."""

from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import EndpointConnectionError, UnknownServiceError
from botocore.loaders import Loader
from moto import mock_aws

from joblane.aws.clients import Clients
from joblane.aws.models import Models
from joblane.deployment.services import OF_CREDENTIALS, SERVICES

REGIONS = ("us-east-1", "eu-central-1", "us-gov-west-1", "cn-north-1")


@pytest.fixture(autouse=True)
def _region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


@pytest.mark.parametrize("service", [*SERVICES, *OF_CREDENTIALS])
def test_every_service_that_we_name_is_one(service: str):
    client = Clients().make(service)  # type: ignore[call-overload]
    assert service in Loader().list_available_services("service-2")
    assert client.meta.service_model.service_name == service


@pytest.mark.parametrize("service", [*SERVICES, *OF_CREDENTIALS])
def test_of_a_model_only_the_words_are_left_out(service: str):
    whole = Loader().load_service_model(service, "service-2")
    ours = Models().load_service_model(service, "service-2")
    assert _cut(whole) == ours != whole


@pytest.mark.parametrize("service", [*SERVICES, *OF_CREDENTIALS])
def test_calls_go_where_botocore_itself_would_send_them(service: str):
    def where(loader: Loader) -> list[tuple[str, str, str]]:
        session = botocore.session.get_session()
        session.register_component("data_loader", loader)
        metas = [session.create_client(service, region_name=region).meta for region in REGIONS]
        return [(m.endpoint_url, m.partition, vars(m.config)["signature_version"]) for m in metas]

    assert where(Models()) == where(Loader())


@pytest.mark.parametrize("service", [*SERVICES, *OF_CREDENTIALS])
def test_a_call_gets_as_far_as_the_network(service: str):
    """Botocore reads parts of the model, such as S3's switches, at the first call."""
    session = botocore.session.get_session()
    session.register_component("data_loader", Models())
    session.set_credentials("key", "secret")
    quick = Config(connect_timeout=1, retries={"total_max_attempts": 1})
    client = session.create_client(service, endpoint_url="http://127.0.0.1:9", config=quick)

    def needs(method: str) -> list[str]:
        operation = client.meta.method_to_api_mapping[method]
        shape = client.meta.service_model.operation_model(operation).input_shape
        return list(shape.required_members) if shape else []

    method = min(client.meta.method_to_api_mapping, key=lambda name: len(needs(name)))
    with pytest.raises(EndpointConnectionError):
        getattr(client, method)(**dict.fromkeys(needs(method), "some text"))


def _cut(part: Any) -> Any:
    """Leave out of a model what documents it."""
    if isinstance(part, list):
        return [_cut(item) for item in part]
    if not isinstance(part, dict):
        return part
    words = isinstance(part.get("documentation"), str)
    return {k: "" if words and k == "documentation" else _cut(v) for k, v in part.items()}


def test_a_service_that_we_do_not_use_is_not_found_by_its_name():
    with pytest.raises(UnknownServiceError, match=r"Unknown service: 'ec2'.*dynamodb"):
        Clients().make("ec2")  # type: ignore[call-overload]


@mock_aws(config={"core": {"mock_credentials": False}})
def test_credentials_may_come_from_a_role_that_a_profile_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    config = tmp_path / "config"
    config.write_text(
        "[profile agent]\nrole_arn = arn:aws:iam::123456789012:role/agent\nsource_profile = root\n"
        "[profile root]\naws_access_key_id = x\naws_secret_access_key = x\n"
    )
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "agent")
    assert "QueueUrls" not in Clients().make("sqs").list_queues()
