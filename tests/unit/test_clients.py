"""Clients: those that Joblane uses can be made, from their own models."""

import pytest
from botocore.exceptions import UnknownServiceError
from botocore.loaders import Loader

from joblane.aws.clients import SERVICES, Clients


@pytest.fixture(autouse=True)
def _region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_that_we_name_is_one(service: str):
    client = Clients().make(service)  # type: ignore[call-overload]
    assert service in Loader().list_available_services("service-2")
    assert client.meta.service_model.service_name == service


def test_a_service_that_we_do_not_use_is_not_found_by_its_name():
    with pytest.raises(UnknownServiceError, match=r"Unknown service: 'ec2'.*dynamodb"):
        Clients().make("ec2")  # type: ignore[call-overload]
