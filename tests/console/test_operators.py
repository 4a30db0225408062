"""Conditions, keys, types, the audit trail and settings, as people use them."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import expect

from joblane.fleet.record import FleetRecord
from scripts.console.api import Api, wait_for_state
from scripts.console.stores import Stores
from tests.console.conftest import Open
from tests.console.test_flows import confirm

COUNTED_MS = 60_000
"""The projector counts after 5 s, and starts cold on a busy host."""

pytestmark = pytest.mark.usefixtures("seeds")  # which have agents


def test_declare_an_application_down_and_find_it_in_the_audit_trail(as_role: Open):
    tab = as_role("operator", "conditions")
    page, main = tab.page, tab.page.get_by_role("main")
    page.get_by_label("Application").fill("printer")
    form = page.locator("form").filter(has=page.get_by_label("Application"))
    form.get_by_role("button", name="Declare down").click()
    confirm(page, "Declare app:printer down?", "Declare down", "a new drum is put in")
    declared = main.get_by_role("table", name="Declared just now").get_by_role("row").nth(1)
    expect(declared).to_contain_text("app:printer")
    expect(declared).to_contain_text("down")
    down = main.get_by_role("table", name="Declarations")
    expect(down.get_by_role("row").filter(has_text="app:printer")).to_contain_text("a new drum")

    tab.go("audit?action=declare")
    entry = main.get_by_role("row").filter(has_text="a new drum is put in")
    expect(entry).to_contain_text("operator")
    expect(entry).to_contain_text("done")
    expect(entry.get_by_role("link", name="app:printer")).to_have_attribute("href", "#/conditions")
    page.get_by_label("Action").select_option("cancel-group")
    expect(entry).to_have_count(0)
    assert page.url.endswith("#/audit?action=cancel-group")


def test_cancel_the_jobs_that_wait_for_a_key(as_role: Open, api: Api):
    limits = {"key": ["console", "7"], "max_active": 1, "max_queued": 5}
    holder, *waiting = [api.submit("sleep", "600", concurrency=limits) for _ in range(3)]
    tab = as_role("operator", "queues/default")
    page, main = tab.page, tab.page.get_by_role("main")
    oldest = main.get_by_role("link", name="Oldest waiting")
    expect(oldest).to_have_attribute("href", re.compile(r"#/jobs/[0-9A-Z]{26}"), timeout=COUNTED_MS)
    tab.go("keys")
    page.get_by_label("Only this key").fill('console / "7"')
    page.get_by_role("button", name="Show", exact=True).click()
    keys = main.get_by_role("table", name="Keys of command").get_by_role("row")
    expect(keys).to_have_count(2)  # the heading, and the one that was asked for
    keys.get_by_role("link").click()
    expect(tab.heading).to_have_text('console / "7"')
    expect(main.get_by_role("table", name="Jobs that have a slot")).to_contain_text(holder)
    queue = main.get_by_role("table", name="Jobs that wait")
    expect(queue.get_by_role("row")).to_have_count(1 + len(waiting))
    page.get_by_role("button", name="Cancel 2 that wait").click()
    title, action = 'Cancel all 2 jobs that wait for console / "7"?', "Cancel 2 jobs"
    confirm(page, title, action, "the wrong customer")
    expect(main).to_contain_text("No job waits for a slot.")
    for job_id in waiting:
        wait_for_state(api, job_id, "cancelled")
    api("POST", f"/v1/jobs/{holder}/cancel")


def test_a_type_shows_its_parameters_and_leads_to_the_form(as_role: Open):
    tab = as_role("developer", "types")
    page, main = tab.page, tab.page.get_by_role("main")
    main.get_by_role("link", name="sleep", exact=True).click()
    expect(tab.heading).to_have_text("sleep")
    parameter = main.get_by_role("table", name="Parameters").get_by_role("row").nth(1)
    expect(parameter.get_by_role("cell")).to_contain_text(["ms", "integer", "yes"])
    main.get_by_role("link", name="Run", exact=True).click()
    expect(tab.heading).to_have_text("New job")
    assert page.url.endswith("#/submit?type=sleep")


def test_settings_say_what_a_role_may_do_and_keep_a_preference(as_role: Open):
    tab = as_role("reader", "settings", timezone_id="Asia/Tokyo")
    page, main = tab.page, tab.page.get_by_role("main")
    expect(main).to_contain_text("Read jobs, their logs, and queues")
    expect(main).not_to_contain_text("admin.mutate")
    expect(main.get_by_role("table", name="Limits of your tenant")).to_contain_text("10,000")
    zone = page.get_by_role("button", name="Asia/Tokyo")
    expect(zone).to_be_visible()
    page.get_by_label("Show times in UTC").check()
    expect(zone).to_have_count(0)
    assert "1" == page.evaluate("localStorage.getItem('joblane.utc')")


def test_a_page_that_the_role_may_not_see_says_so(as_role: Open):
    tab = as_role("reader")
    for route, scope in {"dead": "admin.read", "agents": "platform.read"}.items():
        tab.go(route)
        expect(tab.heading).to_have_text("Not allowed")
        expect(tab.page.get_by_role("main")).to_contain_text(scope)
    tab.go("nowhere")
    expect(tab.heading).to_have_text("Not found")


@pytest.fixture(name="decide")
def _decide(stores: Stores) -> Iterator[Callable[..., None]]:
    """Writes what the scaler would have decided for fleet `main` half a minute ago."""
    at_ms = int(time.time() * 1000) - 30_000
    plain = FleetRecord(
        decided_ms=at_ms, wanted=12, desired=4, max=4, in_service=4, alive=3, busy=2, booting=1
    )

    def decide(**changes: Any) -> None:
        stores.fleets.write("main", replace(plain, **changes))

    yield decide
    decide(decided_ms=0)  # no other test is told of it but that the scaler does not run


def test_a_fleet_shows_what_the_scaler_decided_and_what_keeps_it_from_growing(
    as_role: Open, decide: Callable[..., None]
):
    at_ms = int(time.time() * 1000) - 90_000
    decide(backlog=8, limit="max", raised_ms=at_ms)
    tab = as_role("platform", "fleets")
    fleet = tab.page.locator("section", has=tab.page.get_by_role("heading", name="Fleet main"))
    for said in (
        "1 instance of fleet main starts",
        "raise max_size of fleets.main in joblane.toml",
    ):
        expect(fleet.locator(".notice", has_text=said)).to_have_count(1)
    expect(fleet).to_contain_text("3 take jobs, 2 have some, 1 to come")
    expect(fleet).to_contain_text("8 wait for this fleet, 4 run")
    expect(fleet.locator("dt", has_text="More were asked for")).to_have_count(1)
    expect(fleet.locator(".notice.bad")).to_have_count(0)

    error = "We currently do not have sufficient c7g.large capacity"
    decide(short_since_ms=at_ms, short_reason=error, below_since_ms=at_ms, in_service=1)
    tab.page.evaluate("dispatchEvent(new Event('online'))")  # what reads again at once
    short = fleet.locator(".notice.bad")
    expect(short).to_contain_text("EC2 has no capacity for its instance types now")
    expect(short.get_by_role("time")).to_have_count(1)

    decide(
        boot_failed_ms=at_ms,
        boot_failed_instance="i-0123456789abcdef0",
        boot_failed_reason="failed its setup: exit code 3: no GPU here",
    )
    tab.page.evaluate("dispatchEvent(new Event('online'))")
    said = "instance i-0123456789abcdef0 failed its setup: exit code 3: no GPU here"
    expect(fleet.locator(".notice.bad", has_text=said)).to_have_count(1)
    expect(fleet.locator("dd", has_text="the newest of Amazon Linux 2023")).to_have_count(1)
