"""What a role may not do is not offered, and refused by the API all the same."""

import httpx
from playwright.sync_api import expect

from scripts.console.seeds import Seeds
from tests.console.conftest import Open, Tab

OF_READERS = "Overview Jobs Groups Schedules Queues Keys Job types Settings"
OF_OPERATORS = (
    "Overview Jobs Groups Schedules Queues Dead letters Conditions Keys Job types Audit trail "
    "Settings"
)
OF_THE_PLATFORM = "Overview Queues Conditions Agents Fleets Audit trail Settings"
ACTIONS = (
    *("Cancel", "Retry", "Replay", "Dismiss", "Resubmit", "Hide", "Delete"),
    *("Pause", "Resume", "Run now", "Drain", "Submit"),
)


def refusal(tab: Tab, method: str, path: str, **body: object) -> int:
    """Status of the API's answer to a request with the token of this tab."""
    sent = (request.headers.get("authorization") for request in reversed(tab.watch.requests))
    token = next(value for value in sent if value)
    url = f"{tab.api_url}{path}"
    answer = httpx.request(method, url, headers={"Authorization": token}, json=body, timeout=30)
    return answer.status_code


def menu(tab: Tab) -> str:
    """Names of the pages in the menu, without the figures beside them."""
    links = tab.page.get_by_role("navigation", name="Pages").get_by_role("link")
    names = [name.rstrip("0123456789") for name in links.all_inner_texts()]
    return " ".join(" ".join(names).split())


def test_the_menu_has_the_pages_of_the_role(as_role: Open):
    assert OF_OPERATORS == menu(as_role("operator"))


def test_a_reader_is_offered_no_action_and_would_be_refused(as_role: Open, seeds: Seeds):
    tab = as_role("reader")
    assert OF_READERS == menu(tab)
    main = tab.page.get_by_role("main")
    names = seeds.names()
    for route in (
        "jobs",
        "jobs/{active}",
        "groups/{processing}",
        "queues/bulk",
        "schedules/nightly",
    ):
        tab.go(route.format(**names))
        for action in ACTIONS:
            expect(main.get_by_role("button", name=action, exact=True)).to_have_count(0)
        expect(main.get_by_role("link", name="New job")).to_have_count(0)
    tab.go("submit")
    expect(main).to_contain_text("Your role may not submit jobs")
    assert 403 == refusal(tab, "POST", "/v1/jobs", command=["true"])
    assert 403 == refusal(tab, "POST", f"/v1/jobs/{names['active']}/cancel")
    assert 403 == refusal(tab, "POST", f"/v1/dlq/{names['dead']}/replay")
    assert 403 == refusal(tab, "GET", "/v1/agents")


def test_the_platform_is_shown_no_jobs_of_tenants(as_role: Open, seeds: Seeds):
    tab = as_role("platform")
    assert OF_THE_PLATFORM == menu(tab)
    main = tab.page.get_by_role("main")
    with tab.watch.expecting("status of 403"):
        tab.go("jobs")
        expect(main.get_by_role("table", name="Jobs")).to_have_count(0)
    assert 403 == refusal(tab, "GET", f"/v1/jobs/{seeds.jobs['active']}")
    assert 403 == refusal(tab, "GET", "/v1/jobs")
