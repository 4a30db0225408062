"""Profiles: mistakes in the file are named, secrets in it protected."""

import os
from pathlib import Path

import pytest

from joblane.client.cli import exit_codes
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi
from tests.support.client.logins import SECRETS, keep


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("profiles = 3", "profiles must be tables"),
        ("[profile.a]", "unknown key profile"),
        ("[profiles.a]\nurl = 3", "profiles.a.url must be a non-empty string"),
        ("[profiles.a]\nuri = 'x'", "profiles.a: unknown key uri; allowed: url, "),
        ("[profiles.a]\nclient_id = 'x'", "profiles.a.url is missing"),
        ("[profiles.a", "is not TOML"),
        ("[profiles.b]\nurl = 'https://x.test'", "no profile a in"),
        ("[profiles.a]\nurl = 'ftp://x.test'", "must start with http"),
        ("[profiles.a]\nurl = 'https://x.test'\nclient_id = 'x'", "has no secret"),
        ("[profiles.a]\nurl = 'https://x.test'\nauth = 'aws'", "auth (JOBLANE_AUTH) is aws; allo"),
        ("[profiles.a]\nurl = 'https://x.test'\nauth = 'iam'\nclient_id = 'x'", "out a client_id"),
        ("[profiles.a]\nurl = 'https://x.test'\ncertificate = '/nowhere'", "/nowhere cannot be"),
    ],
)
def test_a_wrong_profile_is_named(joblane: Joblane, text: str, said: str) -> None:
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "joblane" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(text)
    ran = joblane("--profile", "a", "ls")
    assert exit_codes.NOT_CONFIGURED == ran.code
    assert said in ran.said
    assert 1 == ran.said.count("\n")


def test_a_secret_in_a_file_that_others_can_read_is_refused(joblane: Joblane) -> None:
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "joblane" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        "[profiles.a]\nurl = 'https://x.test'\nclient_id = 'x'\nclient_secret = 'the-secret'"
    )
    config.chmod(0o644)
    ran = joblane("--profile", "a", "ls")
    assert exit_codes.NOT_CONFIGURED == ran.code
    assert "chmod 600" in ran.said
    assert not SECRETS.search(ran.said)


def test_a_profile_is_not_moved_to_another_api(api: FakeApi, joblane: Joblane) -> None:
    keep(api)
    ran = joblane("--url", "https://another.test", "login")
    assert exit_codes.NOT_CONFIGURED == ran.code
    assert f"the profile default is for {api.url}" in ran.said
