"""Login as a person does it, and where the token is: in the memory of the page alone."""

import json
import re
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from playwright.sync_api import expect

from scripts.console.browser import sign_in
from scripts.local.cloud import Cloud
from scripts.local.people import Person
from tests.console.conftest import Open, Tab

STORED = "() => JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"


def tokens(tab: Tab) -> set[str]:
    """Bearer tokens that the page has sent."""
    headers = (request.headers.get("authorization", "") for request in tab.watch.requests)
    return {value.removeprefix("Bearer ") for value in headers if value}


def secrets(tab: Tab) -> set[str]:
    """Codes, verifiers and states of the login that the tab has made."""
    found: set[str] = set()
    for request in tab.watch.requests:
        sent = parse_qs(urlsplit(request.url).query)
        if request.method == "POST" and request.url.endswith("/oauth2/token"):
            sent |= parse_qs(request.post_data or "")
        found |= {value for name in ("code", "code_verifier") for value in sent.get(name, ())}
    return found


def log_text(cloud: Cloud) -> Iterator[str]:
    """What all functions and the API have logged."""
    logs = boto3.client("logs", **cloud.ministack.root())
    groups = logs.get_paginator("describe_log_groups").paginate().search("logGroups[].logGroupName")
    for group in list(groups):
        pages = logs.get_paginator("filter_log_events").paginate(logGroupName=group)
        yield from pages.search("events[].message")
    logs.close()


def test_a_person_logs_in_and_the_token_stays_in_memory(
    cloud: Cloud, open_tab: Open, people: dict[str, Person]
):
    tab = open_tab()
    tab.log_in(people["operator"], "queues")
    page = tab.page
    expect(tab.heading).to_have_text(re.compile("queues", re.IGNORECASE))
    expect(page.get_by_role("navigation").get_by_text("operator in demo")).to_be_visible()
    assert f"{cloud.url}/console#/queues" == page.url
    (token,) = tokens(tab)
    hidden = {token, *secrets(tab), people["operator"].password}
    assert len(hidden) >= 4
    kept = page.evaluate(STORED) + page.content() + page.url
    assert [] == [value for value in hidden if value in kept]
    addresses = "\n".join(request.url for request in tab.watch.requests)
    assert token not in addresses
    assert all("refresh_token" not in text for text in (kept, addresses))
    logged = 0
    for text in log_text(cloud):
        logged += 1
        assert not any(value in text for value in hidden), text
    assert logged > 10


def test_a_reload_logs_in_again_by_the_issuer_and_comes_back_to_the_page(
    as_role: Open, people: dict[str, Person]
):
    tab = as_role("reader", "jobs?state=failed")
    tab.page.reload()
    sign_in(tab.page, people["reader"])  # Cognito has a session of its own, and asks nothing
    tab.wait()
    expect(tab.heading).to_have_text(re.compile("jobs", re.IGNORECASE))
    assert tab.page.url.endswith("console#/jobs?state=failed")


def test_who_logs_out_is_out(as_role: Open):
    tab = as_role("reader")
    with tab.page.expect_navigation(url=tab.url):  # from the issuer
        tab.page.get_by_role("button", name="Log out").click()
    expect(tab.page.get_by_role("button", name="Log in")).to_be_visible()
    asked = len(tab.watch.requests)
    tab.page.reload()
    expect(tab.page.get_by_role("button", name="Log in")).to_be_focused()
    assert all("/v1/" not in path for path in tab.watch.paths(asked))


@pytest.mark.parametrize(
    ("begun", "query"),
    [
        (False, "code=stolen&state=another"),
        (False, "error=access_denied&state=x"),
        (True, "code=stolen&state=another"),
    ],
)
def test_an_answer_that_the_tab_did_not_ask_for_is_refused(
    open_tab: Open, query: str, *, begun: bool
):
    tab = open_tab()
    if begun:
        tab.page.goto(tab.url)
        tab.page.get_by_role("button", name="Log in").click()
        expect(tab.page.get_by_role("heading", name="Sign in")).to_be_visible()
    asked = len(tab.watch.requests)
    tab.page.goto(f"{tab.url}?{query}")
    expect(tab.page.get_by_role("alert")).to_contain_text("belongs to no login of this tab")
    assert tab.url == tab.page.url
    assert all("oauth2" not in path for path in tab.watch.paths(asked))


def test_who_cannot_log_in_is_told_by_the_issuer(open_tab: Open, people: dict[str, Person]):
    tab = open_tab()
    tab.page.goto(tab.url)
    tab.page.get_by_role("button", name="Log in").click()
    sign_in(tab.page, Person("nobody", people["reader"].password, "reader"))
    expect(tab.page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert "/v1/summary" not in "".join(tab.watch.paths())


def test_a_token_that_has_ended_keeps_the_page_and_offers_a_login(
    as_role: Open, people: dict[str, Person]
):
    tab = as_role("reader")
    page = tab.page
    page.route("**/v1/**", lambda route: route.fulfill(status=401, body=json.dumps({})))
    with tab.watch.expecting(r"status of 401"):
        tab.page.evaluate("dispatchEvent(new Event('online'))")  # what reads again at once
        expect(page.get_by_text("Your login has ended")).to_be_visible()
        expect(tab.heading).to_have_text("Overview")
        expect(page.get_by_role("table").first).to_contain_text("default")
        page.unroute("**/v1/**")
        page.get_by_role("button", name="Log in again").click()
        sign_in(page, people["reader"])
    tab.wait()
    expect(page.get_by_text("Your login has ended")).to_have_count(0)
    assert tab.page.url.endswith("console#/")
    assert 2 == len({token for token in tokens(tab) if re.fullmatch(r"[\w.-]+", token)})
