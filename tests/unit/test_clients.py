"""Clients: those that Joblane uses can be made, from their own models."""

from pathlib import Path

import pytest
from botocore.exceptions import UnknownServiceError
from botocore.loaders import Loader
from moto import mock_aws

from joblane.aws.clients import OF_CREDENTIALS, SERVICES, Clients


@pytest.fixture(autouse=True)
def _region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


@pytest.mark.parametrize("service", [*SERVICES, *OF_CREDENTIALS])
def test_every_service_that_we_name_is_one(service: str):
    client = Clients().make(service)  # type: ignore[call-overload]
    assert service in Loader().list_available_services("service-2")
    assert client.meta.service_model.service_name == service


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
