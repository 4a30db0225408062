"""The console as it is deployed: its files, its headers, its login, and what no log has of it.

tests/console opens it in a browser.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import httpx
import pytest

from joblane.client import oauth
from scripts.local.cloud import Cloud
from scripts.local.emulator import NO_TLS
from scripts.local.people import Person, add_person
from tests.support.browser import log_in


def get(address: str, headers: dict[str, str] | None = None) -> httpx.Response:
    """Open an address; the first request of a function starts it."""
    return httpx.get(address, headers=headers, timeout=30, verify=NO_TLS)


@pytest.fixture(name="person", scope="session")
def _person(cloud: Cloud) -> Person:
    return add_person(cloud, "grace", "developer")


def named(cloud: Cloud, page: str) -> Iterator[str]:
    """The addresses that the page names, as a browser resolves them."""
    for name in re.findall(r'\b(?:href|src)="([^"]+)"', page):
        yield str(httpx.URL(cloud.console).join(name))


def test_the_page_and_all_that_it_names_are_there_without_a_token(cloud: Cloud):
    page = get(cloud.console)
    assert (200, "text/html; charset=utf-8") == (page.status_code, page.headers["content-type"])
    addresses = list(named(cloud, page.text))
    assert len(addresses) > 3
    for address in addresses:
        assert address.startswith(f"{cloud.console}/")
        plain = get(address, headers={"accept-encoding": "identity"})
        assert 200 == plain.status_code
        assert "content-encoding" not in plain.headers
        compressed = get(address, headers={"accept-encoding": "gzip"})
        assert plain.content == compressed.content
        assert "public, max-age=31536000, immutable" == plain.headers["cache-control"]
        tag = {"if-none-match": plain.headers["etag"], "accept-encoding": "identity"}
        assert (304, b"") == ((again := get(address, headers=tag)).status_code, again.content)


def test_the_page_may_connect_to_its_own_origin(cloud: Cloud):
    policy = get(cloud.console).headers["content-security-policy"]
    assert "connect-src 'self'; " in policy
    login = get(f"{cloud.url}/v1/login").json()
    issuer = get(login["openid_configuration"]).json()
    origin = httpx.URL(cloud.endpoint).host, httpx.URL(cloud.endpoint).port
    for address in (
        login["openid_configuration"],
        issuer["authorization_endpoint"],
        issuer["token_endpoint"],
    ):
        assert origin == (httpx.URL(address).host, httpx.URL(address).port)


@pytest.mark.parametrize("name", ["0123456789abcdef/app.js", "x", "%2e%2e/x"])
def test_other_paths_are_not_found(cloud: Cloud, name: str):
    answer = get(f"{cloud.console}/{name}")
    assert 404 == answer.status_code
    assert "import " not in answer.text


def test_a_person_logs_in_there_and_no_log_has_the_code_or_the_token(cloud: Cloud, person: Person):
    issuer = oauth.discover(cloud.url)
    attempt = oauth.start_login(issuer, cloud.console)
    back = log_in(attempt.url, person.name, person.password)
    assert cloud.console == back.partition("?")[0]
    (code,) = parse_qs(urlsplit(back).query)["code"]
    assert 200 == get(back).status_code  # as the browser opens it
    kept = oauth.exchange(cloud.url, issuer, attempt, code)
    bearer = {"Authorization": f"Bearer {kept.access}"}
    assert 200 == get(f"{cloud.url}/v1/jobs", headers=bearer).status_code

    secrets = {code, attempt.state, attempt.verifier, kept.access, kept.refresh}
    assert 5 == len(secrets)
    lines = list(logged(cloud))
    assert any('"/v1/jobs"' in line or "START" in line for line in lines)
    for secret in filter(None, secrets):
        assert not [line for line in lines if secret in line]


def test_a_login_ends_on_no_other_page(cloud: Cloud):
    issuer = oauth.discover(cloud.url)
    for address in (f"{cloud.console}/", f"{cloud.url}/", "https://console.evil.example/console"):
        answer = get(oauth.start_login(issuer, address).url)
        assert 400 == answer.status_code, address
        assert "redirect_uri" in answer.text


def logged(cloud: Cloud) -> Iterator[str]:
    """Every line of every log group of the functions."""
    logs: Any = boto3.client("logs", **cloud.ministack.root())
    for groups in logs.get_paginator("describe_log_groups").paginate():
        for group in groups["logGroups"]:
            pages = logs.get_paginator("filter_log_events")
            for page in pages.paginate(logGroupName=group["logGroupName"]):
                yield from (event["message"] for event in page["events"])
