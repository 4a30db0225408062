"""Login, logout, profiles and tokens: an issuer on loopback, a browser played by the test."""

import base64
import json
import os
import re
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from client import oauth
from client.cli import exits
from client.errors import AnswerError
from client.tokens import Kept, TokenFile
from joblane.access import LOGIN_CALLBACKS, LOGIN_PORTS
from tests.support.browser import login_ports
from tests.unit.client.conftest import Joblane, Spawn
from tests.unit.client.fake_api import FakeApi, Fault, gateway
from tests.unit.client.fake_issuer import FakeIssuer

SECRETS = re.compile(r"access-\d|refresh-\d|the-secret|code-\d")
"""Whatever must never be printed."""


@pytest.fixture(name="issuer")
def _issuer(api: FakeApi) -> Iterator[FakeIssuer]:
    issuer = FakeIssuer()
    found = {
        "openid_configuration": f"{issuer.url}/.well-known/openid-configuration",
        "client_id": "people",
        "scopes": ["openid", "joblane/jobs.read"],
        "audience": None,
    }
    api.answers["/v1/login"] = answer(found)
    yield issuer
    issuer.close()


def answer(found: object) -> Fault:
    return 200, {"Content-Type": "application/json"}, json.dumps(found).encode()


Begun = tuple["subprocess.Popen[bytes]", str]


@pytest.fixture(name="ports")
def _ports() -> Iterator[None]:
    """The loopback ports, which all tests of this machine share."""
    with login_ports():
        yield


@pytest.fixture(name="begin")
def _begin(api: FakeApi, ports: None, spawn: Spawn) -> Callable[..., Begun]:  # noqa: ARG001
    """Start a login as its own process; returns it with the page's address."""

    def start(*args: str) -> Begun:
        screen = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
        env = {name: value for name, value in os.environ.items() if name not in screen}
        env["JOBLANE_URL"] = api.url
        process = spawn(*args, env=env, stdin=subprocess.PIPE)
        assert process.stderr is not None
        while line := process.stderr.readline().decode():
            if found := re.fullmatch(r"joblane: (http://127\S+/authorize\?\S+)\n", line):
                return process, found[1]
        raise AssertionError("no page was printed")

    return start


def ended(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """Exit code, and all that was said."""
    stdout, stderr = process.communicate(timeout=30)
    said = (stdout + stderr).decode()
    assert not SECRETS.search(said), said
    return process.returncode, said


def kept_files() -> list[Path]:
    return sorted(Path(os.environ["XDG_CACHE_HOME"]).rglob("*.json"))


def bearers(api: FakeApi) -> list[str | None]:
    return [
        request.headers.get("Authorization", "").removeprefix("Bearer ")
        for request in api.requests
        if request.path == "/v1/jobs"
    ]


def test_a_person_logs_in_by_the_browser_and_is_who_other_verbs_are(
    api: FakeApi,
    issuer: FakeIssuer,
    begin: Callable[..., Begun],
    joblane: Joblane,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process, page = begin("--url", api.url, "login")
    back = httpx.get(issuer.login(page))
    assert 200 == back.status_code
    assert "no-store" == back.headers["Cache-Control"]
    code, said = ended(process)
    assert (0, True) == (code, f"logged in to {api.url}" in said)

    monkeypatch.delenv("JOBLANE_TOKEN")
    monkeypatch.delenv("JOBLANE_URL")
    assert 0 == joblane("ls").code  # by the profile that the login made
    assert ["access-1"] == bearers(api)
    (file,) = kept_files()
    assert "default.json" == file.name
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)
    assert 0o700 == stat.S_IMODE(file.parent.stat().st_mode)


def test_a_host_without_a_browser_takes_the_address_that_another_ended_on(
    api: FakeApi, issuer: FakeIssuer, begin: Callable[..., Begun]
) -> None:
    process, page = begin("login", "--no-browser")
    assert process.stdin is not None
    process.stdin.write(b"https://localhost/callback?code=code-0&state=guessed\n")
    process.stdin.write(f"  {issuer.login(page)}  \n".encode())
    process.stdin.flush()
    code, said = ended(process)
    assert (0, True) == (code, f"logged in to {api.url}" in said)


def test_only_the_answer_to_this_login_is_taken(
    issuer: FakeIssuer, begin: Callable[..., Begun]
) -> None:
    process, page = begin("login")
    good = issuer.login(page)
    for wrong in (
        re.sub(r"state=[^&]+", "state=another", good),
        re.sub(r"[?&]state=[^&]+", "", good),
        good.replace("/callback", "/favicon.ico"),
        f"{LOGIN_CALLBACKS[0]}?error=access_denied&state=another",
    ):
        assert httpx.get(wrong).status_code in (400, 404)
    assert process.poll() is None
    httpx.get(good)
    assert 0 == ended(process)[0]
    assert 1 == len(issuer.asked)


def test_a_refusal_of_the_issuer_ends_the_login(
    issuer: FakeIssuer, begin: Callable[..., Begun]
) -> None:
    process, page = begin("login")
    state = parse_qs(urlsplit(page).query)["state"][0]
    asked = urlencode({"error": "access_denied\x1b[2J", "state": state})
    assert 200 == httpx.get(f"{LOGIN_CALLBACKS[0]}?{asked}").status_code
    code, said = ended(process)
    assert exits.NOT_ALLOWED == code
    assert "joblane: the login was refused: access_denied??2j\n" in said
    assert [] == issuer.asked


def test_two_logins_at_once_do_not_meet(issuer: FakeIssuer, begin: Callable[..., Begun]) -> None:
    (first, page_1), (second, page_2) = begin("login"), begin("login")
    redirects = [parse_qs(urlsplit(page).query)["redirect_uri"][0] for page in (page_1, page_2)]
    assert list(LOGIN_CALLBACKS[:2]) == redirects
    for process, page in ((second, page_2), (first, page_1)):
        assert 200 == httpx.get(issuer.login(page)).status_code
        assert 0 == ended(process)[0]


def keep(api: FakeApi, name: str = "default", **changes: object) -> TokenFile:
    """A login of before, with a profile to use it."""
    file = TokenFile(os.environ, name)
    base = {
        "url": api.url,
        "client_id": "people",
        "access": "access-0",
        "expires_at": time.time() + 3600,
        "token_url": "",
        "refresh": "refresh-0",
        "revoke_url": None,
    }
    file.write(Kept(**{**base, **changes}))  # type: ignore[arg-type] # a test's own values
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "joblane" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f'[profiles.{name}]\nurl = "{api.url}"\n')
    return file


def test_a_token_is_refreshed_before_it_expires(
    api: FakeApi, issuer: FakeIssuer, joblane: Joblane
) -> None:
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
    assert exits.NOT_ALLOWED == joblane("--profile", "default", "ls").code
    assert 4 == len(bearers(api))


def test_two_processes_refresh_once(api: FakeApi, issuer: FakeIssuer, spawn: Spawn) -> None:
    keep(api, expires_at=0, token_url=f"{issuer.url}/token")
    started = [spawn("--profile", "default", "ls") for _ in range(3)]
    assert [0, 0, 0] == [ended(process)[0] for process in started]
    assert 1 == len(issuer.asked)
    assert {"access-1"} == set(bearers(api))


@pytest.mark.parametrize("refusal", ["invalid_grant", "in\x1b[2Jvalid"])
def test_an_ended_login_says_to_log_in_again(
    api: FakeApi, issuer: FakeIssuer, joblane: Joblane, refusal: str
) -> None:
    keep(api, expires_at=0, token_url=f"{issuer.url}/token")
    issuer.refusal = refusal
    ran = joblane("--profile", "default", "ls")
    assert exits.NOT_ALLOWED == ran.code
    assert "`joblane login` again" in ran.said
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
    (file,) = kept_files()
    assert "the-secret" not in file.read_text()

    issuer.refusal = "invalid_client"
    monkeypatch.setenv("JOBLANE_CLIENT_ID", "another")
    ran = joblane("ls")
    assert (exits.NOT_ALLOWED, "joblane: the issuer gave no token: invalid_client\n") == (
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
    assert exits.NOT_CONFIGURED == ran.code
    assert "could be read by others" in ran.said
    assert [] == bearers(api)
    assert 0 == joblane("--profile", "default", "logout").code
    assert not file.path.exists()


def test_a_link_is_not_followed_and_a_loose_folder_is_mended(
    api: FakeApi, joblane: Joblane
) -> None:
    file = keep(api)
    file.path.parent.chmod(0o755)
    file.write(Kept(api.url, "people", "access-0", time.time() + 3600, ""))
    assert 0o700 == stat.S_IMODE(file.path.parent.stat().st_mode)
    real = file.path.rename(file.path.with_suffix(".real"))
    file.path.symlink_to(real)
    assert exits.NOT_CONFIGURED == joblane("--profile", "default", "ls").code
    assert [] == bearers(api)


def test_logout_forgets_here_and_there(api: FakeApi, issuer: FakeIssuer, joblane: Joblane) -> None:
    file = keep(api, revoke_url=f"{issuer.url}/revoke")
    ran = joblane("--profile", "default", "logout")
    assert (0, f"joblane: logged out of {api.url}\n") == (ran.code, ran.said)
    assert not file.path.exists()
    assert ["refresh-0"] == issuer.revoked
    ran = joblane("--profile", "default", "logout")
    assert (0, f"joblane: nobody was logged in to {api.url}\n") == (ran.code, ran.said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("profiles = 3", "profiles must be tables"),
        ("[profile.a]", "profile is unknown"),
        ("[profiles.a]\nurl = 3", "profiles.a.url must be a text"),
        ("[profiles.a]\nuri = 'x'", "profiles.a.uri is unknown; there may be url, "),
        ("[profiles.a]\nclient_id = 'x'", "profiles.a.url is missing"),
        ("[profiles.a", "is not TOML"),
        ("[profiles.b]\nurl = 'https://x.test'", "there is no profile a in"),
        ("[profiles.a]\nurl = 'ftp://x.test'", "must start with http"),
        ("[profiles.a]\nurl = 'https://x.test'\nclient_id = 'x'", "has no secret"),
        ("[profiles.a]\nurl = 'https://x.test'\ncertificate = '/nowhere'", "/nowhere cannot be"),
    ],
)
def test_a_wrong_profile_is_named(joblane: Joblane, text: str, said: str) -> None:
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "joblane" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(text)
    ran = joblane("--profile", "a", "ls")
    assert exits.NOT_CONFIGURED == ran.code
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
    assert exits.NOT_CONFIGURED == ran.code
    assert "chmod 600" in ran.said
    assert not SECRETS.search(ran.said)


def test_a_profile_is_not_moved_to_another_api(api: FakeApi, joblane: Joblane) -> None:
    keep(api)
    ran = joblane("--url", "https://another.test", "login")
    assert exits.NOT_CONFIGURED == ran.code
    assert f"the profile default is for {api.url}" in ran.said


@pytest.mark.parametrize(
    "name", ["openid_configuration", "authorization_endpoint", "token_endpoint"]
)
@pytest.mark.parametrize("url", ["http://issuer.test/token", "ftp://issuer.test", "", "token"])
def test_secrets_go_by_tls_or_to_this_machine_only(
    api: FakeApi, issuer: FakeIssuer, monkeypatch: pytest.MonkeyPatch, name: str, url: str
) -> None:
    if name == "openid_configuration":
        api.answers["/v1/login"] = answer({"openid_configuration": url})
    else:
        configuration = {**issuer.configuration(), name: url}
        monkeypatch.setattr(issuer, "configuration", lambda: configuration)
    with pytest.raises(AnswerError, match=f"no https address as {name}"):
        oauth.discover(api.url)


def test_a_deployment_without_people_says_so(
    api: FakeApi, issuer: FakeIssuer, joblane: Joblane
) -> None:
    api.answers["/v1/login"] = answer(
        {
            "openid_configuration": f"{issuer.url}/x",
            "client_id": None,
            "scopes": [],
            "audience": None,
        }
    )
    ran = joblane("login")
    assert exits.NOT_ALLOWED == ran.code
    assert "no client that people log in with" in ran.said


@pytest.mark.usefixtures("issuer", "ports")
def test_all_ports_taken_is_said(joblane: Joblane) -> None:
    held = []
    for port in LOGIN_PORTS:
        taken = socket.socket()
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as for logins of before
        taken.bind(("127.0.0.1", port))
        taken.listen()
        held.append(taken)
    ran = joblane("login")
    for taken in held:
        taken.close()
    assert exits.NOT_ALLOWED == ran.code
    assert "none of the ports 8456, 18456, 28456" in ran.said


def test_nothing_that_is_shown_of_a_token_is_the_token(api: FakeApi) -> None:
    kept = Kept(api.url, "people", "access-0", 0, "", "refresh-0")
    tokens = oauth.Tokens("access-0", 0, "refresh-0")
    attempt = oauth.Attempt("", "", "code-1", "code-2")
    for value in (kept, tokens, attempt):
        assert not SECRETS.search(repr(value)), value


def test_help_imports_no_http() -> None:
    probe = (
        "import sys\nfrom client.cli import app\n"
        "sys.exit(sorted({'httpx', 'tomllib', 'ssl', 'pydantic'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", probe], capture_output=True, check=False)
    assert (0, b"") == (done.returncode, done.stderr)
