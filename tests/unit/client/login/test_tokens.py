"""Stored tokens: refreshed, kept, sent to their own API only, never printed."""

import base64
import stat
import time

import pytest

from joblane.client import oauth
from joblane.client.cli import exit_codes
from joblane.client.tokens import StoredToken
from tests.support.client.command import Joblane, Spawn
from tests.support.client.fake_api import FakeApi, gateway
from tests.support.client.fake_issuer import FakeIssuer
from tests.support.client.logins import SECRETS, bearers, keep, list_kept, wait_end


def test_a_token_is_refreshed_before_it_expires(api: FakeApi, issuer: FakeIssuer, joblane: Joblane):
    file = keep(api, expires_at=time.time() + 30, token_url=f"{issuer.url}/token")
    assert 0 == joblane("--profile", "default", "ls").code
    assert ["access-1"] == bearers(api)
    (asked,) = issuer.asked
    assert ("refresh_token", "people", "refresh-0") == (
        asked["grant_type"],
        asked["client_id"],
        asked["refresh_token"],
    )
    kept = file.read()
    assert kept is not None
    assert ("access-1", "refresh-1", api.url) == (kept.access, kept.refresh, kept.url)


def test_a_refused_token_is_refreshed_once_and_the_submission_sent_again(
    api: FakeApi, issuer: FakeIssuer, joblane: Joblane
) -> None:
    issuer.rotates = False
    file = keep(api, token_url=f"{issuer.url}/token")
    api.faults.append(gateway(401, "Unauthorized"))
    assert 0 == joblane("--profile", "default", "submit", "--", "true").code
    assert ["access-0", "access-1"] == bearers(api)
    assert 1 == len(api.jobs)
    kept = file.read()
    assert kept is not None
    assert "refresh-0" == kept.refresh

    api.faults.extend([gateway(401, "Unauthorized")] * 2)
    assert exit_codes.NOT_ALLOWED == joblane("--profile", "default", "ls").code
    assert 4 == len(bearers(api))


def test_two_processes_refresh_once(api: FakeApi, issuer: FakeIssuer, fork: Spawn) -> None:
    keep(api, expires_at=0, token_url=f"{issuer.url}/token")
    started = [fork("--profile", "default", "ls") for _ in range(3)]
    assert [0, 0, 0] == [wait_end(process)[0] for process in started]
    assert 1 == len(issuer.asked)
    assert {"access-1"} == set(bearers(api))


@pytest.mark.parametrize("refusal", ["invalid_grant", "in\x1b[2Jvalid"])
def test_an_ended_login_says_to_log_in_again(
    api: FakeApi, issuer: FakeIssuer, joblane: Joblane, refusal: str
) -> None:
    keep(api, expires_at=0, token_url=f"{issuer.url}/token")
    issuer.refusal = refusal
    ran = joblane("--profile", "default", "ls")
    assert exit_codes.NOT_ALLOWED == ran.code
    assert "run `joblane login`" in ran.said
    assert not SECRETS.search(ran.said)
    assert [] == bearers(api)


def test_a_token_is_sent_to_no_other_api(api: FakeApi, joblane: Joblane) -> None:
    keep(api, url="https://another.test")
    joblane("--profile", "default", "ls")
    assert [""] == bearers(api)


def test_a_profile_goes_before_the_environment_and_its_token(
    api: FakeApi, joblane: Joblane, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(api, "mine")
    monkeypatch.setenv("JOBLANE_URL", "http://127.0.0.1:1")
    assert 0 == joblane("--profile", "mine", "ls").code
    monkeypatch.delenv("JOBLANE_URL")
    monkeypatch.setenv("JOBLANE_PROFILE", "mine")
    assert 0 == joblane("ls").code
    assert ["access-0", "access-0"] == bearers(api)


def test_a_machine_gets_a_token_by_its_secret_and_keeps_it(
    api: FakeApi, issuer: FakeIssuer, joblane: Joblane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JOBLANE_TOKEN")
    monkeypatch.setenv("JOBLANE_CLIENT_ID", "ma chine")
    monkeypatch.setenv("JOBLANE_CLIENT_SECRET", "the-secret+/")
    for _ in range(3):
        assert 0 == joblane("ls").code
    assert ["access-1"] * 3 == bearers(api)
    (asked,) = issuer.asked
    assert {"grant_type": "client_credentials"} == asked
    (basic,) = issuer.basic
    assert b"ma+chine:the-secret%2B%2F" == base64.b64decode(basic.removeprefix("Basic "))
    (file,) = list_kept()
    assert "the-secret" not in file.read_text()

    issuer.refusal = "invalid_client"
    monkeypatch.setenv("JOBLANE_CLIENT_ID", "another")
    ran = joblane("ls")
    assert (exit_codes.NOT_ALLOWED, "joblane: the issuer gave no token: invalid_client\n") == (
        ran.code,
        ran.said,
    )


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_tokens_that_others_could_read_are_not_used(
    api: FakeApi, issuer: FakeIssuer, joblane: Joblane, mode: int
) -> None:
    file = keep(api, revoke_url=f"{issuer.url}/revoke")
    file.path.chmod(mode)
    ran = joblane("--profile", "default", "ls")
    assert exit_codes.NOT_CONFIGURED == ran.code
    assert "readable by other users" in ran.said
    assert [] == bearers(api)
    assert 0 == joblane("--profile", "default", "logout").code
    assert not file.path.exists()


def test_a_link_is_not_followed_and_a_loose_folder_is_mended(api: FakeApi, joblane: Joblane):
    file = keep(api)
    file.path.parent.chmod(0o755)
    file.write(StoredToken(api.url, "people", "access-0", time.time() + 3600, ""))
    assert 0o700 == stat.S_IMODE(file.path.parent.stat().st_mode)
    real = file.path.rename(file.path.with_suffix(".real"))
    file.path.symlink_to(real)
    assert exit_codes.NOT_CONFIGURED == joblane("--profile", "default", "ls").code
    assert [] == bearers(api)


def test_nothing_that_is_shown_of_a_token_is_the_token(api: FakeApi) -> None:
    kept = StoredToken(api.url, "people", "access-0", 0, "", "refresh-0")
    attempt = oauth.LoginAttempt("", "", "code-1", "code-2")
    for value in (kept, attempt):
        assert not SECRETS.search(repr(value)), value
