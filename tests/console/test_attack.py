"""What jobs, agents and types say is text on every page: nothing of it runs, nothing leaves."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from scripts.console.api import Api
from scripts.console.seeds import Seeds
from scripts.console.stores import Stores
from scripts.local.cloud import Cloud
from scripts.local.people import Person
from tests.console.conftest import Tab, new_tab
from tests.support.attack import AGENT, HTML, TYPE, attack

MARKUP = "main :is(img, script, iframe, object, embed, form[action], [onerror], [onmouseover])"
LINKS = """[...document.querySelectorAll('a[href]')]
  .map(link => link.href).filter(url => !/^https?:/.test(url))"""

OF_A_TENANT = (
    "",
    "jobs",
    "jobs?state=dead",
    *(
        f"jobs/{{{name}}}"
        for name in ("completed", "dead", "active", "waiting", "blocked", "cancelled", "failed")
    ),
    "submit?from={completed}",
    f"submit?type={TYPE}",
    "groups",
    "groups/{group}",
    "schedules",
    "schedules/attack",
    "queues/default",
    "dead",
    "conditions",
    "keys",
    "keys/{key}",
    "types",
    f"types/{TYPE}",
    "audit",
    "settings",
)
OF_THE_PLATFORM = ("", "agents", f"agents/{AGENT}", "audit", "queues/bulk")


@pytest.fixture(name="attacks", scope="module")
def _attacks(seeds: Seeds, api: Api, stores: Stores) -> dict[str, str]:
    assert seeds.jobs
    return attack(api, stores)


@pytest.fixture(name="tabs", scope="module")
def _tabs(browser: Browser, cloud: Cloud, people: dict[str, Person]) -> Iterator[dict[str, Tab]]:
    tabs = {name: new_tab(browser, cloud) for name in ("admin", "platform")}
    for name, tab in tabs.items():
        tab.log_in(people[name])
    yield tabs
    for tab in tabs.values():
        tab.page.context.close()


@pytest.mark.parametrize(
    ("person", "route"),
    [
        *(("admin", route) for route in OF_A_TENANT),
        *(("platform", route) for route in OF_THE_PLATFORM),
    ],
)
def test_nothing_that_a_job_says_runs_or_becomes_markup(
    tabs: dict[str, Tab], attacks: dict[str, str], person: str, route: str
):
    tab = tabs[person]
    tab.go(route.format(**attacks))
    expect(tab.page.locator(MARKUP)).to_have_count(0)
    assert [] == tab.page.evaluate(LINKS)
    tab.watch.check()


def test_it_is_shown_as_it_was_written(tabs: dict[str, Tab], attacks: dict[str, str]):
    tab = tabs["admin"]
    tab.go(f"jobs/{attacks['completed']}")
    expect(tab.heading).to_contain_text(HTML)
    tab.go(f"jobs/{attacks['dead']}")
    expect(tab.page.get_by_role("main")).to_contain_text(HTML)
