"""Credentials that botocore looks for by itself."""

from pathlib import Path

import pytest

from joblane.aws.clients import Clients


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
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "agent")
    from moto import mock_aws  # collected in every process

    with mock_aws(config={"core": {"mock_credentials": False}}):
        assert "QueueUrls" not in Clients().make("sqs").list_queues()
