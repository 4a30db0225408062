"""Where tokens and secrets go: to their own URL, by TLS, and to the issuer of the first login."""

import os
from pathlib import Path

import pytest

from joblane import Client, ConfigError
from joblane.client import oauth
from joblane.client.cli import exit_codes
from joblane.client.errors import AnswerError
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi
from tests.support.client.fake_issuer import FakeIssuer
from tests.support.client.logins import SECRETS, answer, bearers, keep


@pytest.fixture(name="machine")
def _machine(monkeypatch: pytest.MonkeyPatch, joblane: Joblane) -> Joblane:
    """The command line of a machine with a client id and a secret in its environment."""
    monkeypatch.delenv("JOBLANE_TOKEN")
    monkeypatch.setenv("JOBLANE_CLIENT_ID", "ci")
    monkeypatch.setenv("JOBLANE_CLIENT_SECRET", "the-secret")
    return joblane


def _forget_tokens() -> None:
    for file in Path(os.environ["XDG_CACHE_HOME"]).rglob("*.json"):
        file.unlink()


def _name(api: FakeApi, issuer: FakeIssuer, **changes: object) -> None:
    """Let the API name an issuer."""
    found: dict[str, object] = {
        "openid_configuration": f"{issuer.url}/.well-known/openid-configuration",
        "client_id": "people",
        "scopes": ["openid", "joblane/jobs.read"],
        "audience": None,
    }
    api.answers["/v1/login"] = answer({**found, **changes})


@pytest.mark.parametrize(
    "url", ["http://joblane.test", "http://10.0.0.1:8080", "http://127.0.0.1.nip.io", "http://0"]
)
def test_a_token_is_not_sent_unencrypted_over_a_network(joblane: Joblane, url: str) -> None:
    ran = joblane("--url", url, "--token", "the-secret", "ls")
    assert exit_codes.NOT_CONFIGURED == ran.code
    assert "must start with https://" in ran.said
    assert not SECRETS.search(ran.said)
    with pytest.raises(ConfigError, match="must start with https://"):
        Client(url, "the-secret")


def test_a_token_in_the_environment_is_not_sent_to_the_url_of_an_option(
    api: FakeApi, joblane: Joblane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBLANE_URL", "https://another.test")
    joblane("--url", api.url, "ls")
    monkeypatch.delenv("JOBLANE_URL")
    joblane("--url", api.url, "ls")
    assert ["", ""] == bearers(api)
    monkeypatch.setenv("JOBLANE_URL", f"{api.url}/")
    assert 0 == joblane("--url", api.url, "ls").code
    assert "secret" == bearers(api)[-1]


@pytest.mark.parametrize("by", ["--url", "--profile"])
def test_a_secret_in_the_environment_is_not_sent_for_the_url_of_an_option_or_a_profile(
    api: FakeApi, issuer: FakeIssuer, machine: Joblane, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setenv("JOBLANE_URL", "https://another.test")
    if by == "--url":
        machine("--url", api.url, "ls")
        assert [""] == bearers(api)
    else:
        config = Path(os.environ["XDG_CONFIG_HOME"]) / "joblane" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(f"[profiles.a]\nurl = '{api.url}'\nclient_id = 'ci'\n")
        ran = machine("--profile", "a", "ls")
        assert exit_codes.NOT_CONFIGURED == ran.code
        assert "the client ci has no secret" in ran.said
    assert [] == issuer.basic


def test_a_secret_is_not_sent_to_another_issuer_than_that_of_the_first_login(
    api: FakeApi, issuer: FakeIssuer, machine: Joblane
) -> None:
    first = machine("ls")
    assert f"{api.url} takes its tokens from {issuer.url}; this is stored, and a" in first.said
    _forget_tokens()
    assert (0, "") == (machine("ls").code, machine("ls").said)  # known: nothing is shown

    _forget_tokens()
    attacker = FakeIssuer()
    try:
        _name(api, attacker)
        refused = machine("ls")
        assert exit_codes.NOT_ALLOWED == refused.code
        assert f"issuer from {issuer.url} to {attacker.url}" in refused.said
        assert [] == attacker.basic

        wrong = machine("login", "--confirm-issuer", issuer.url)
        assert exit_codes.NOT_ALLOWED == wrong.code
        assert f"names the issuer {attacker.url}, not {issuer.url}" in wrong.said
        assert [] == attacker.basic
        assert exit_codes.NOT_ALLOWED == machine("ls").code

        assert 0 == machine("login", "--confirm-issuer", attacker.url).code
        assert 1 == len(attacker.basic)
        assert 0 == machine("ls").code
    finally:
        attacker.close()


@pytest.mark.parametrize("change", [{"client_id": "another"}, {"audience": "payments"}])
def test_a_login_for_another_client_or_audience_is_not_started(
    api: FakeApi, issuer: FakeIssuer, machine: Joblane, change: dict[str, str]
) -> None:
    assert 0 == machine("ls").code
    _forget_tokens()
    _name(api, issuer, **change)
    for command in ("ls", "login"):
        refused = machine(command)
        assert exit_codes.NOT_ALLOWED == refused.code
        assert f"{next(iter(change))} from " in refused.said
    assert 1 == len(issuer.asked)


def test_a_person_is_not_sent_to_the_page_of_another_issuer(
    api: FakeApi, issuer: FakeIssuer, machine: Joblane, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 0 == machine("ls").code
    monkeypatch.delenv("JOBLANE_CLIENT_ID")
    keep(api)
    attacker = FakeIssuer()
    try:
        _name(api, attacker)
        refused = machine("--profile", "default", "login", "--no-browser")
    finally:
        attacker.close()
    assert exit_codes.NOT_ALLOWED == refused.code
    assert "the login of" in refused.said
    assert "authorize" not in refused.said
    assert [] == issuer.asked[1:]


def test_an_api_elsewhere_cannot_direct_the_client_to_this_machine(
    issuer: FakeIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = {"openid_configuration": f"{issuer.url}/.well-known/openid-configuration"}
    monkeypatch.setattr(oauth, "_json_of", lambda *_: named)
    with pytest.raises(AnswerError, match="has no https URL for openid_configuration"):
        oauth.discover("https://joblane.test")
