"""Login and logout: an issuer on loopback; the test is the browser."""

import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from joblane import AnswerError
from joblane.client import oauth
from joblane.client.cli import exit_codes
from joblane.contract.access import LOGIN_CALLBACKS, LOGIN_PORTS
from tests.support.browser import login_ports
from tests.support.client.command import Joblane, Spawn
from tests.support.client.fake_api import FakeApi, gateway
from tests.support.client.fake_issuer import FakeIssuer
from tests.support.client.logins import answer, bearers, keep, list_kept, wait_end

Begun = tuple["subprocess.Popen[bytes]", str]


@pytest.fixture(name="ports")
def _ports() -> Iterator[None]:
    """The loopback ports, which all tests of this machine share."""
    with login_ports():
        yield


@pytest.fixture(name="begin")
def _begin(api: FakeApi, ports: None, fork: Spawn) -> Callable[..., Begun]:
    """Start a login as its own process; returns it with the page's address."""

    def start(*args: str) -> Begun:
        screen = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
        env = {name: value for name, value in os.environ.items() if name not in screen}
        env["JOBLANE_URL"] = api.url
        process = fork(*args, env=env, stdin=subprocess.PIPE)
        assert process.stderr is not None
        while line := process.stderr.readline().decode():
            if found := re.fullmatch(r"joblane: (http://127\S+/authorize\?\S+)\n", line):
                return process, found[1]
        raise AssertionError("no page was printed")

    return start


def redirect_of(page: str) -> str:
    """Where the issuer sends the browser: to the first port that no other program has."""
    return parse_qs(urlsplit(page).query)["redirect_uri"][0]


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
    code, said = wait_end(process)
    assert (0, True) == (code, f"logged in to {api.url}" in said)

    monkeypatch.delenv("JOBLANE_TOKEN")
    monkeypatch.delenv("JOBLANE_URL")
    assert 0 == joblane("ls").code  # by the profile that the login made
    assert ["access-1"] == bearers(api)
    (file,) = list_kept()
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
    code, said = wait_end(process)
    assert (0, True) == (code, f"logged in to {api.url}" in said)


@pytest.mark.usefixtures("ports", "issuer")
@pytest.mark.parametrize("end", ["/dev/null", "pipe"])
def test_a_login_that_nobody_can_complete_ends_at_once(api: FakeApi, fork: Spawn, end: str):
    with open(end if end != "pipe" else os.devnull, "rb") as null:  # noqa: PTH123 - a device
        process = fork(
            "--url",
            api.url,
            "login",
            "--no-browser",
            stdin=subprocess.PIPE if end == "pipe" else null,
        )
        if process.stdin is not None:
            process.stdin.close()
            process.stdin = None
        code, said = wait_end(process)
    assert (exit_codes.NOT_ALLOWED, True) == (code, "nobody can paste the address" in said)


def test_only_the_answer_to_this_login_is_taken(issuer: FakeIssuer, begin: Callable[..., Begun]):
    process, page = begin("login")
    good = issuer.login(page)
    for wrong in (
        re.sub(r"state=[^&]+", "state=another", good),
        re.sub(r"[?&]state=[^&]+", "", good),
        good.replace("/callback", "/favicon.ico"),
        f"{redirect_of(page)}?error=access_denied&state=another",
    ):
        assert httpx.get(wrong).status_code in (400, 404)
    assert process.poll() is None
    httpx.get(good)
    assert 0 == wait_end(process)[0]
    assert 1 == len(issuer.asked)


def test_a_refusal_of_the_issuer_ends_the_login(issuer: FakeIssuer, begin: Callable[..., Begun]):
    process, page = begin("login")
    state = parse_qs(urlsplit(page).query)["state"][0]
    asked = urlencode({"error": "access_denied\x1b[2J", "state": state})
    assert 200 == httpx.get(f"{redirect_of(page)}?{asked}").status_code
    code, said = wait_end(process)
    assert exit_codes.NOT_ALLOWED == code
    assert "joblane: the login was refused: access_denied??2j\n" in said
    assert [] == issuer.asked


def test_two_logins_at_once_do_not_meet(issuer: FakeIssuer, begin: Callable[..., Begun]) -> None:
    (first, page_1), (second, page_2) = begin("login"), begin("login")
    redirects = {redirect_of(page_1), redirect_of(page_2)}
    assert len(redirects) == 2
    assert redirects < set(LOGIN_CALLBACKS)
    for process, page in ((second, page_2), (first, page_1)):
        assert 200 == httpx.get(issuer.login(page)).status_code
        assert 0 == wait_end(process)[0]


def test_logout_forgets_here_and_there(api: FakeApi, issuer: FakeIssuer, joblane: Joblane) -> None:
    file = keep(api, revoke_url=f"{issuer.url}/revoke")
    ran = joblane("--profile", "default", "logout")
    assert (0, f"joblane: logged out of {api.url}\n") == (ran.code, ran.said)
    assert not file.path.exists()
    assert ["refresh-0"] == issuer.revoked
    ran = joblane("--profile", "default", "logout")
    assert (0, f"joblane: not logged in to {api.url}\n") == (ran.code, ran.said)


@pytest.mark.parametrize(
    "name", ["openid_configuration", "authorization_endpoint", "token_endpoint"]
)
@pytest.mark.parametrize("url", ["http://issuer.test/token", "ftp://issuer.test", "", "token"])
def test_secrets_go_by_tls_or_to_this_machine_only(
    api: FakeApi, issuer: FakeIssuer, name: str, url: str
) -> None:
    if name == "openid_configuration":
        api.answers["/v1/login"] = answer({"openid_configuration": url})
    else:
        issuer.endpoints[name] = url
    with pytest.raises(AnswerError, match=f"has no https URL for {name}"):
        oauth.discover(api.url)


def test_a_throttled_api_is_asked_again_where_to_log_in(api: FakeApi, issuer: FakeIssuer) -> None:
    """Hundreds of machines may start together, and the route's rate is low."""
    api.faults.append(gateway(429, "Too Many Requests"))
    assert issuer.url == oauth.discover(api.url).issuer
    assert ["/v1/login"] * 2 == [request.path for request in api.requests]


def test_a_deployment_without_people_says_so(api: FakeApi, issuer: FakeIssuer, joblane: Joblane):
    api.answers["/v1/login"] = answer(
        {
            "openid_configuration": f"{issuer.url}/x",
            "client_id": None,
            "scopes": [],
            "audience": None,
        }
    )
    ran = joblane("login")
    assert exit_codes.NOT_ALLOWED == ran.code
    assert "no login for people" in ran.said


@pytest.mark.usefixtures("issuer", "ports")
def test_all_ports_taken_is_said(joblane: Joblane) -> None:
    with ExitStack() as held:
        for port in LOGIN_PORTS:
            taken = held.enter_context(socket.socket())
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as for logins of before
            with suppress(OSError):  # another program of the host has it
                taken.bind(("127.0.0.1", port))
                taken.listen()
        ran = joblane("login")
    assert exit_codes.NOT_ALLOWED == ran.code
    assert "none of the ports 8456, 18456, 28456" in ran.said


def test_the_token_of_requests_is_printed_for_other_programs(
    api: FakeApi, joblane: Joblane, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = joblane("token")
    assert (0, b"secret\n", b"") == (given.code, given.stdout, given.stderr)
    monkeypatch.delenv("JOBLANE_TOKEN")
    monkeypatch.delenv("JOBLANE_URL")
    keep(api, access="access-7")
    assert b"access-7\n" == joblane("token").stdout
    assert not api.requests


def test_without_a_token_that_is_said_and_nothing_is_printed(
    api: FakeApi, joblane: Joblane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JOBLANE_TOKEN")
    nobody = joblane("token")
    assert (exit_codes.NOT_ALLOWED, b"") == (nobody.code, nobody.stdout)
    assert f"joblane: there is no token for {api.url}; run `joblane login`\n" == nobody.said
    keep(api, access="access-0", expires_at=0.0, refresh=None)
    over = joblane("--profile", "default", "token")
    assert (exit_codes.NOT_ALLOWED, b"") == (over.code, over.stdout)
    assert "the login has expired; run `joblane login`" in over.said
    for name, value in (
        ("ACCESS_KEY_ID", "A"),
        ("SECRET_ACCESS_KEY", "s"),
        ("DEFAULT_REGION", "r"),
    ):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("JOBLANE_AUTH", "iam")
    signed = joblane("token")
    assert (exit_codes.NOT_CONFIGURED, b"") == (signed.code, signed.stdout)
    assert "are signed for an IAM role and have no token" in signed.said


def test_help_imports_no_http() -> None:
    probe = (
        "import sys\nfrom joblane.client.cli import app\n"
        "sys.exit(sorted({'httpx', 'tomllib', 'ssl', 'pydantic'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", probe], capture_output=True, check=False)
    assert (0, b"") == (done.returncode, done.stderr)
