"""Programs that the local AWS authorizes by the policy of a role get that, and no key of root."""

import configparser
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from scripts.local.agent import environment, role_environment
from scripts.local.deploy import AGENT_ROLE
from scripts.local.emulator import MiniStack, RootKey

if TYPE_CHECKING:
    from scripts.local.processes import Process

KEY = RootKey.new()


@pytest.fixture(name="ministack")
def _ministack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MiniStack:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of the user")
    return MiniStack(4566, cast("Process", None), tmp_path, 4, KEY)


def role_of(env: dict[str, str]) -> str:
    """The role in which an SDK works with these variables."""
    assert not {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} & env.keys()
    assert not [name for name, value in env.items() if KEY.secret in value]
    profiles = configparser.ConfigParser()
    profiles.read(env["AWS_CONFIG_FILE"], encoding="utf-8")
    profile = profiles[f"profile {env['AWS_PROFILE']}"]
    assert KEY.id == profiles[f"profile {profile['source_profile']}"]["aws_access_key_id"]
    return profile["role_arn"].rpartition("/")[2]


def test_an_agent_has_the_role_of_a_fleet(ministack: MiniStack, tmp_path: Path):
    assert AGENT_ROLE == role_of(environment(ministack, tmp_path))


def test_another_program_has_its_own_role(ministack: MiniStack, tmp_path: Path):
    profile = tmp_path / "worker.ini"
    assert "worker" == role_of(role_environment(ministack, "worker", profile))
    assert 0o600 == profile.stat().st_mode & 0o777
